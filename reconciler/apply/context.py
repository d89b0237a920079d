"""What every step of one run shares: the two seams, the clock, when to stop, and the intent that comes before each request."""

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from reconciler.apply.attempt import Attempt
from reconciler.apply.tuning import BatchLimits
from reconciler.errors import JournalUnavailable
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, Journal

_LOG = logging.getLogger(__name__)

_SLICE_MS = 100
_LOOKS = 3


def _unheard() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyAction:
    """Rechecked a moment ago and to be sent now; `leader`: who has to carry it out, where that matters."""

    attempt: Attempt[Any]
    leader: int | None = None


StepResult = Outcome | Attempt[Any]
"""What one round makes of one action: an end, or another round."""

Sorted = tuple[list[ReadyAction], list[StepResult]]
"""Those that may go out, and what becomes of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What a look made of some attempts. `at_ms`: from when on what it saw grows old."""

    ready: list[ReadyAction]
    rest: list[StepResult]
    at_ms: int


CheckFn = Callable[[Sequence[Attempt[Any]]], CheckResult]


def partition_ready(checked: Iterable[ReadyAction | StepResult]) -> Sorted:
    """Those that may go out, and the others."""
    ready: list[ReadyAction] = []
    rest: list[StepResult] = []
    for each in checked:
        if isinstance(each, ReadyAction):
            ready.append(each)
        else:
            rest.append(each)
    return ready, rest


def _all(ready: Sequence[ReadyAction]) -> Sorted:
    return list(ready), []


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyContext:
    """One run of the applier. `clock`: epoch milliseconds. `stop`: asked before each request, true means send nothing new.

    `sending`: told once intents are stored and before their request goes out. `checked_at_ms`: when the recheck began, `expires_at_ms`: when the
    plan does; None: never.
    """

    gateway: Gateway
    journal: Journal
    run_id: str
    plan_digest: str
    clock: Callable[[], int]
    sleep: Callable[[float], None]
    stop: Callable[[], bool]
    settings: BatchLimits
    sending: Callable[[], None] = _unheard
    checked_at_ms: int | None = None
    expires_at_ms: int | None = None
    _begun: dict[Address, bool] = field(default_factory=dict)
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

    def begin(
        self,
        ready: Sequence[ReadyAction],
        look: CheckFn,
        *,
        seen_at_ms: int,
        still: Callable[[Sequence[ReadyAction]], Sorted] = _all,
    ) -> Sorted:
        """What of `ready` is to be sent at once, its intents stored, and what becomes of the rest. `seen_at_ms`: as `CheckResult.at_ms`, of the look
        that `ready` rests on. `still`: which of them may go out once their intents are there for every other run to see.

        Where that look or the journal took its time, what was seen is history, so there is another look. A run that was stopped meanwhile,
        or is too old by now, sends nothing.
        """
        if not ready or not self._may_send() or not self._intend(ready):
            return [], [go.attempt for go in ready]
        self._begun.update((go.attempt.action.address, False) for go in ready)
        ready, ended = still([replace(go, attempt=replace(go.attempt, intended=True)) for go in ready])
        for number in range(_LOOKS):
            if number:
                seen = look([go.attempt for go in ready])
                ready, seen_at_ms = seen.ready, seen.at_ms
                ended += seen.rest
            # A clock may be set back, too.
            if 0 <= self.clock() - seen_at_ms <= self.settings.look_ages_ms:
                break
        else:
            limit_s = self.settings.look_ages_ms / 1000
            why = f"the look before the request took longer than {limit_s:.0f} s, {_LOOKS} times in a row: a smaller --batch may help"
            return [], [*ended, *(go.attempt.again(why) for go in ready)]
        if not ready or not self._may_send():
            return [], [*ended, *(go.attempt for go in ready)]
        self._begun.update((go.attempt.action.address, True) for go in ready)
        self.sending()
        return list(ready), ended

    def with_intent(self, attempt: Attempt[Any]) -> Attempt[Any]:
        """The attempt as this run left it in the middle of a batch: its intent stored, its request perhaps sent."""
        match self._begun.get(attempt.action.address):
            case None:
                return attempt
            case sending:
                possible = attempt.possible or sending
                return replace(attempt, intended=True, sends=attempt.sends + sending, possible=possible)

    def forget(self, batch: Iterable[Attempt[Any]]) -> None:
        """What is known of each of `batch` is in its step by now."""
        for attempt in batch:
            self._begun.pop(attempt.action.address, None)

    def _may_send(self) -> bool:
        if self.stopping:
            return False
        if (too_late := self._too_late()) is not None:
            self.halt(too_late)
            return False
        return True

    def _intend(self, ready: Sequence[ReadyAction]) -> bool:
        """Store the intents. False: the journal did not take them, so the run stops and nothing of `ready` may be sent."""
        try:
            self.journal.record_intents(
                [go.attempt.action for go in ready],
                run_id=self.run_id,
                plan_digest=self.plan_digest,
                at_ms=self.clock(),
            )
        except JournalUnavailable as unavailable:
            self.halt(str(unavailable))
            return False
        return True

    def _too_late(self) -> str | None:
        """A machine may sleep in the middle of a run: what was checked before is no ground for a request afterwards."""
        now_ms, limit_ms = self.clock(), self.settings.recheck_ages_ms
        if self.checked_at_ms is not None and now_ms - self.checked_at_ms > limit_ms:
            ago = (now_ms - self.checked_at_ms) // 60_000
            return f"the recheck was {ago} min ago, and it is good for {limit_ms // 60_000} min: apply the plan again"
        if self.expires_at_ms is not None and now_ms >= self.expires_at_ms:
            return "the plan expired during this run: plan again"
        return None

    def record(self, ended: Sequence[Outcome]) -> None:
        """Store outcomes. What was done stays done if that fails, but nothing more is sent."""
        worth = [each for each in ended if each.sends or each.intended or each.status is not Status.NOT_ATTEMPTED]
        if not worth:
            return
        try:
            self.journal.record_outcomes(worth, run_id=self.run_id, plan_digest=self.plan_digest, at_ms=self.clock())
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
