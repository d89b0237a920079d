"""What every batch of one run shares: gateway and journal, the clock, when to stop, and the intent before each request."""

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from reconciler.apply.tuning import Tuning
from reconciler.errors import JournalUnavailable
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, Journal
from reconciler.operations.attempt import Attempt, StepResult

_LOG = logging.getLogger(__name__)

_SLICE_MS = 100
_LOOKS = 3


def _ignore() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Which attempts may go out, what becomes of the others, and from when on the facts grow old."""

    ready: list[Attempt[Any]]
    steps: list[StepResult]
    read_at_ms: int


LookFn = Callable[[Sequence[Attempt[Any]]], Look]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyContext:
    """One run of the applier. Times are epoch milliseconds, None: never.

    `stop`: asked before each request; true means that nothing new is sent. `sending`: called once
    intents are stored and before their request goes out. `checked_at_ms`: when the recheck began.
    `expires_at_ms`: when the plan expires. `removed_groups`: groups that this run has removed.
    """

    gateway: Gateway
    journal: Journal
    run_id: str
    plan_digest: str
    clock: Callable[[], int]
    sleep: Callable[[float], None]
    stop: Callable[[], bool]
    tuning: Tuning
    sending: Callable[[], None] = _ignore
    checked_at_ms: int | None = None
    expires_at_ms: int | None = None
    removed_groups: set[str] = field(default_factory=set)
    _sent: dict[Address, bool] = field(default_factory=dict)
    """Attempts under way with their intent stored, and whether their request may have gone out."""
    _halted: Event = field(default_factory=Event)
    _reasons: list[str] = field(default_factory=list)

    @property
    def effect_wait_ms(self) -> int:
        return self.tuning.effect_wait_ms

    @property
    def stopping(self) -> bool:
        return self._halted.is_set() or self.stop()

    @property
    def reason(self) -> str:
        """Why nothing more is sent."""
        return self._reasons[0] if self._reasons else "interrupted"

    def halt(self, reason: str) -> None:
        """Send nothing more, in any lane. Logged at once: it may be that no outcome tells of it."""
        if reason not in self._reasons:
            _LOG.warning("%s", reason)
        self._reasons.append(reason)
        self._halted.set()

    def purges_of_other_runs(self) -> Mapping[TopicPartition, int]:
        """Return when other runs last purged each partition: `every` is between two purges, not two tries of one."""
        return self.journal.last_purges(except_run=self.run_id)

    def store_intents(
        self, attempts: Sequence[Attempt[Any]], look: LookFn, *, read_at_ms: int
    ) -> tuple[list[Attempt[Any]], list[StepResult]]:
        """Store the intents of `attempts` and return those to send at once, and what becomes of the rest.

        `read_at_ms`: from when on the facts behind `attempts` grow old. Where the look or the journal
        took too long, there is another look. A run that was stopped meanwhile, or whose recheck is
        too old by now, sends nothing.
        """
        if not attempts or not self._may_send() or not self._record_intents(attempts):
            return [], list(attempts)
        self._sent.update((attempt.action.address, False) for attempt in attempts)
        ready = [replace(attempt, intended=True) for attempt in attempts]
        steps: list[StepResult] = []
        fresh = False
        try:
            ready, steps = self._recheck_after_intents(ready)
            for number in range(_LOOKS):
                if number:
                    again = look(ready)
                    ready, read_at_ms = again.ready, again.read_at_ms
                    steps += again.steps
                # A clock may be set back, too.
                if fresh := 0 <= self.clock() - read_at_ms <= self.tuning.look_ages_ms:
                    break
        except JournalUnavailable as error:
            self.halt(str(error))
            return [], [*steps, *ready]
        if not fresh:
            limit_s = self.tuning.look_ages_ms / 1000
            reason = (
                f"the look before the request took longer than {limit_s:.0f} s, {_LOOKS} times in a row: "
                "a smaller --batch may help"
            )
            return [], [*steps, *(attempt.retry_later(reason) for attempt in ready)]
        if not ready or not self._may_send():
            return [], [*steps, *ready]
        self._sent.update((attempt.action.address, True) for attempt in ready)
        self.sending()
        return ready, steps

    def with_intent(self, attempt: Attempt[Any]) -> Attempt[Any]:
        """Return the attempt as a batch left it in its middle: intent stored, request perhaps sent."""
        sent = self._sent.get(attempt.action.address)
        if sent is None:
            return attempt
        return replace(attempt, intended=True, sends=attempt.sends + sent, possible=attempt.possible or sent)

    def discard(self, batch: Iterable[Attempt[Any]]) -> None:
        """Forget the state of a batch whose steps are known."""
        for attempt in batch:
            self._sent.pop(attempt.action.address, None)

    def record_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Store outcomes. What was done stays done if that fails, but nothing more is sent."""
        recordable = [
            outcome
            for outcome in outcomes
            if outcome.sends or outcome.intended or outcome.status is not Status.NOT_ATTEMPTED
        ]
        if not recordable:
            return
        try:
            self.journal.record_outcomes(
                recordable, run_id=self.run_id, plan_digest=self.plan_digest, at_ms=self.clock()
            )
        except JournalUnavailable as error:
            self.halt(str(error))

    def back_off(self, round_number: int) -> None:
        """Wait before round `round_number` (1 is the second), longer each time, with jitter."""
        longest = min(self.tuning.backoff_max_ms, self.tuning.backoff_ms * 2 ** (round_number - 1))
        self._pause(random.randint(longest // 2, longest))  # noqa: S311 - jitter, not a secret

    def _recheck_after_intents(self, ready: Sequence[Attempt[Any]]) -> tuple[list[Attempt[Any]], list[StepResult]]:
        actions = [attempt.action for attempt in ready]
        failures = type(actions[0]).recheck_after_intents(actions, self)
        holding: list[Attempt[Any]] = []
        steps: list[StepResult] = []
        for attempt in ready:
            failure = failures.get(attempt.action.subject)
            if failure is None:
                holding.append(attempt)
            elif attempt.possible:
                # Of a request that may have been carried out "waiting" would be untrue.
                steps.append(attempt.retry_later(failure.detail))
            else:
                steps.append(attempt.outcome(failure.status, failure.detail))
        return holding, steps

    def _may_send(self) -> bool:
        if self.stopping:
            return False
        if (reason := self._too_late()) is not None:
            self.halt(reason)
            return False
        return True

    def _record_intents(self, attempts: Sequence[Attempt[Any]]) -> bool:
        """Store the intents. False: the journal did not take them, so the run stops and sends nothing."""
        try:
            self.journal.record_intents(
                [attempt.action for attempt in attempts],
                run_id=self.run_id,
                plan_digest=self.plan_digest,
                at_ms=self.clock(),
            )
        except JournalUnavailable as error:
            self.halt(str(error))
            return False
        return True

    def _too_late(self) -> str | None:
        """A machine may sleep in the middle of a run: what was checked before it is no ground for a request."""
        now_ms, limit_ms = self.clock(), self.tuning.recheck_ages_ms
        if self.checked_at_ms is not None and now_ms - self.checked_at_ms > limit_ms:
            minutes = (now_ms - self.checked_at_ms) // 60_000
            return (
                f"the recheck was {minutes} min ago, and it is good for {limit_ms // 60_000} min: apply the plan again"
            )
        if self.expires_at_ms is not None and now_ms >= self.expires_at_ms:
            return "the plan expired during this run: plan again"
        return None

    def _pause(self, wait_ms: int) -> None:
        """Sleep in slices, so that a stop is heard."""
        while wait_ms > 0 and not self.stopping:
            part = min(wait_ms, _SLICE_MS)
            self.sleep(part / 1000)
            wait_ms -= part
