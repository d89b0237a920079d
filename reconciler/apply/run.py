"""What every step of one run shares: the two seams, the clock, when to stop, and the intent that comes before each request."""

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from reconciler.apply.attempt import Attempt
from reconciler.apply.settings import Settings
from reconciler.errors import JournalUnavailable
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, Journal

_LOG = logging.getLogger(__name__)

_SLICE_MS = 100


def _unheard() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """Rechecked a moment ago and to be sent now; `leader`: who has to carry it out, where that matters."""

    attempt: Attempt[Any]
    leader: int | None = None


Step = Outcome | Attempt[Any]
"""What one round makes of one action: an end, or another round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the applier. `clock`: epoch milliseconds. `stop`: asked before each request, true means send nothing new.

    `sending`: told once intents are stored and before their request goes out.
    """

    gateway: Gateway
    journal: Journal
    run_id: str
    plan_digest: str
    clock: Callable[[], int]
    sleep: Callable[[float], None]
    stop: Callable[[], bool]
    settings: Settings
    sending: Callable[[], None] = _unheard
    _halted: Event = field(default_factory=Event)
    _why: list[str] = field(default_factory=list)

    @property
    def stopping(self) -> bool:
        return self._halted.is_set() or self.stop()

    @property
    def why(self) -> str:
        """Why nothing more is sent."""
        return self._why[0] if self._why else "interrupted"

    def halt(self, why: str) -> None:
        """Send nothing more, in any lane. Said at once: it may be that nothing was left to send, and then no outcome tells of it."""
        if why not in self._why:
            _LOG.warning("%s", why)
        self._why.append(why)
        self._halted.set()

    def may_send(self, ready: Sequence[Go]) -> bool:
        """Store the intents. False: nothing of `ready` may be sent, since the run stops or its journal did not take them."""
        if not ready or self.stopping:
            return False
        try:
            self.journal.intend(
                [go.attempt.action for go in ready],
                run_id=self.run_id,
                plan_digest=self.plan_digest,
                at_ms=self.clock(),
            )
        except JournalUnavailable as unavailable:
            self.halt(str(unavailable))
            return False
        self.sending()
        return True

    def record(self, ended: Sequence[Outcome]) -> None:
        """Store outcomes. What was done stays done if that fails, but nothing more is sent."""
        worth = [outcome for outcome in ended if outcome.sends or outcome.status is not Status.NOT_ATTEMPTED]
        if not worth:
            return
        try:
            self.journal.record(worth, run_id=self.run_id, plan_digest=self.plan_digest, at_ms=self.clock())
        except JournalUnavailable as unavailable:
            self.halt(str(unavailable))

    def back_off(self, round_number: int) -> None:
        """Wait before round `round_number` (1 is the second), longer each time and never in step with another run."""
        longest = min(self.settings.backoff_max_ms, self.settings.backoff_ms * 2 ** (round_number - 1))
        self.pause(random.randint(longest // 2, longest))  # noqa: S311 - jitter, not a secret

    def pause(self, wait_ms: int) -> None:
        """Sleep in slices, so that a stop is heard."""
        while wait_ms > 0 and not self.stopping:
            part = min(wait_ms, _SLICE_MS)
            self.sleep(part / 1000)
            wait_ms -= part
