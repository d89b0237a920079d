"""The clocks of a run."""

import time
from collections.abc import Callable


def wall_clock_ms() -> int:
    """Read the wall clock: epoch milliseconds. A step passes its time on as `observed_at_ms`."""
    return time.time_ns() // 1_000_000


def steady_clock() -> Callable[[], int]:
    """Return a clock in epoch milliseconds that never falls behind, also if the wall clock is set back."""
    started_ms, started_ns = wall_clock_ms(), time.monotonic_ns()
    return lambda: max(wall_clock_ms(), started_ms + (time.monotonic_ns() - started_ns) // 1_000_000)
