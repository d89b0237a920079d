"""The clock of a run: ages and deadlines hold while an administrator corrects the wall clock."""

import time

import pytest

from reconciler import pipeline


@pytest.mark.parametrize(("moved_s", "passed_s"), [(-3600, 10), (0, 10), (3600, 3610)])
def test_a_wall_clock_that_is_set_back_makes_nothing_younger(
    monkeypatch: pytest.MonkeyPatch, moved_s: int, passed_s: int
) -> None:
    """A clock that is set forward makes facts older, which is the safe side."""
    wall_ns, steady_ns = 1_800_000_000 * 10**9, 5 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns)
    monkeypatch.setattr(time, "monotonic_ns", lambda: steady_ns)
    clock = pipeline.steady_clock()
    start_ms = clock()
    wall_ns += (moved_s + 10) * 10**9
    steady_ns += 10 * 10**9
    assert clock() - start_ms == passed_s * 1000
