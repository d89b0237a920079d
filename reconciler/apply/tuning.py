"""How often, how long and in what portions to try. Measured starting points; none changes what may be done.

How many subjects one request takes is the operation's (`Operation.BATCH_SIZE`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Bounds of a run of the applier, the same for every operation."""

    batch_max: int | None = None
    """Subjects in one request at most, whatever an operation allows; fewer are under way on a stop."""
    lanes_at_once: int = 8
    window: int = 20_000
    """Actions under way at once, which bounds memory; the plan itself is the caller's."""
    attempts: int = 6
    """Rounds of recheck and send for one action, the first included."""
    backoff_ms: int = 250
    backoff_max_ms: int = 8_000
    look_ages_ms: int = 10_000
    """From the beginning of the look until its request; where looking and storing the intent took
    longer, there is another look.
    """
    recheck_ages_ms: int = 30 * 60_000
    """How long the recheck of the whole plan is good for: consumers that the plan does not name,
    protections and limits are not looked at again before each request.
    """
    effect_wait_ms: int = 10_000
    """How long to wait until the cluster shows the effect of a batch before the next one is sent."""
