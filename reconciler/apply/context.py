"""State and settings of one run: gateway, journal, clock, stop, intents under way."""

import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from reconciler.errors import JournalUnavailable
from reconciler.journal.journal import ActionJournal
from reconciler.model.outcome import Outcome, Status
from reconciler.model.progress import Progress, no_progress
from reconciler.model.snapshot import CLOCKS_APART_MAX_MS, Consumers, GroupFacts, GroupType, Unknown
from reconciler.operations.attempt import Attempt
from reconciler.operations.sendable import RunContext, Sendable
from reconciler.text.formatting import approximate_duration, format_duration, format_instant

_LOG = logging.getLogger(__name__)
_SLICE_MS = 100
_RECHECK_MAX_AGE_MS = 30 * 60_000
"""How long the recheck of the whole plan is good for: protections and limits are not read again
before each request.
"""
_CONSUMERS_FRESH_MS, _CONSUMERS_RETRY_MS = 10_000, 2_000
"""After how long the consumers of the run's topics are read again: after a complete reading, and
after one that lacks something. Reading takes a second per thousand groups, and longer with a silent
broker.
"""
_CONSUMERS_MAX_AGE_MS = 50_000
"""How long a reading is good for where later ones know less. A check that takes it is good for ten more
seconds (executor.py), and no request rests on a reading of more than a minute.
"""
_NOT_LISTED = Unknown("it is not listed, and its coordinator does not say that it is gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How often, how long and in what portions to try. None of it changes what may be done."""

    batch_max: int | None = None
    """Most subjects in one request, below `Operation.BATCH_SIZE`; fewer are under way on a stop."""
    lanes_at_once: int = 8
    window: int = 20_000
    """Actions under way at once, which bounds memory; the plan itself is the caller's."""
    attempts: int = 6
    """Rounds of recheck and send for one action, the first included."""
    backoff_ms: int = 250
    backoff_max_ms: int = 8_000
    effect_wait_ms: int = 10_000
    """How long to wait for the effect of a batch before the next one is sent."""


@dataclass(slots=True)
class _Consumers:
    """The reading that knows most, or the last one where that is too old. Any thread may read."""

    last: Consumers | None = None
    read_at_ms: int = 0
    due_ms: int = 0
    lock: Lock = field(default_factory=Lock)

    def read(self, read: Callable[[], Consumers], clock: Callable[[], int]) -> Consumers:
        with self.lock:
            started_ms, last = clock(), self.last
            limit_ms = self.read_at_ms + _CONSUMERS_MAX_AGE_MS
            if last is not None and self.read_at_ms <= started_ms < min(self.due_ms, limit_ms):
                return last
            consumers = read()
            unread, unread_before = _unread_groups(consumers), frozenset() if last is None else _unread_groups(last)
            # Some groups can never be read, so a reading need not know more than the one before.
            is_steady = consumers.incomplete is None and unread <= unread_before
            now_ms = clock()
            self.due_ms = now_ms + (_CONSUMERS_FRESH_MS if is_steady else _CONSUMERS_RETRY_MS)
            is_fresh = self.read_at_ms <= started_ms <= now_ms <= limit_ms  # the clock may be set back
            if last is None or not _knows_less(consumers, last) or not is_fresh:
                self.last, self.read_at_ms = consumers, started_ms
                return consumers
            return last


def _unread_groups(consumers: Consumers) -> frozenset[str]:
    return frozenset(name for name, facts in consumers.groups.items() if facts.consumption_unread is not None)


def _knows_less(newer: Consumers, older: Consumers) -> bool:
    """Whether a reading lacks what the one before has.

    A group that only the newer one has is news, and so is one that had no members and may have some.
    """
    if newer.incomplete is not None or older.incomplete is not None:
        return older.incomplete is None
    lost = _unread_groups(newer) & older.groups.keys() - _unread_groups(older)
    joined = (g for g in lost if newer.groups[g].may_have_members and not older.groups[g].may_have_members)
    return bool(lost) and next(joined, None) is None


def _with_known_members(
    facts: GroupFacts, known: GroupFacts | None, subscriptions: Mapping[str, frozenset[str] | None]
) -> GroupFacts:
    """Return the facts with the topics of a group's members, and with the type that no list call tells.

    `known`: the group in the recheck, or in the reading before; None: it is new, and all its records are.
    """
    if known is None:
        return replace(facts, may_read=subscriptions.get(facts.group))
    group_type = known.type if facts.type is GroupType.HIDDEN else facts.type
    # A first member of a group with commits only may read any topic.
    before = (known.may_read or None) if facts.type is GroupType.CLASSIC else known.may_read
    may_read = _union(before, subscriptions.get(facts.group, frozenset()))
    return replace(facts, type=group_type, may_read=may_read)


def _union(topics: frozenset[str] | None, others: frozenset[str] | None) -> frozenset[str] | None:
    """Return the topics of both; None stands for any topic."""
    return None if topics is None or others is None else topics | others


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyContext(RunContext):
    """One run of the applier. Times are epoch milliseconds, None: never.

    `stop`: read before each request; true means that nothing new is sent. `sending`: called before each
    request, from any thread, once its intents are stored. `checked_at_ms`: when the recheck began.
    `expires_ms`: when what the run rests on ends, such as the plan; then nothing more is sent. `needs_stamps`:
    whether a journal that the brokers do not stamp stops the run. Others: as in `RunContext`.
    """

    journal: ActionJournal
    run_id: str
    plan_digest: str
    sleep: Callable[[float], None]
    stop: Callable[[], bool] = lambda: False
    progress: Progress = no_progress
    sending: Callable[[], None] = lambda: None
    tuning: Tuning = field(default_factory=Tuning)
    checked_at_ms: int | None = None
    expires_ms: Mapping[str, int] = field(default_factory=dict)
    needs_stamps: bool = False
    topics: set[str] = field(default_factory=set)
    """The topics that the run is about."""
    _consumers: _Consumers = field(default_factory=_Consumers)
    _reasons: list[str] = field(default_factory=list)

    @property
    def stopping(self) -> bool:
        return bool(self._reasons) or self.stop()

    @property
    def reason(self) -> str:
        """Why nothing more is sent."""
        return self._reasons[0] if self._reasons else "interrupted"

    def halt(self, reason: str, *, level: int = logging.WARNING) -> None:
        """Send nothing more, in any lane. Logs at once, as there may be no outcome with the reason."""
        if reason not in self._reasons:
            _LOG.log(level, "%s", reason)
        self._reasons.append(reason)

    def consumers(self) -> Consumers:
        return self._consumers.read(self._read_consumers, self.clock)

    def _read_consumers(self) -> Consumers:
        last = self._consumers.last or Consumers(groups={}, commits={})
        read = self.gateway.read_consumers(self.topics, {**self.consumer_offsets_ends, **last.log_ends})
        subscriptions = dict(last.subscriptions)
        for group, topics in read.subscriptions.items():
            # A share group that read a topic may still have a position on it.
            subscriptions[group] = _union(topics, subscriptions.get(group, frozenset()))
        # A group may have joined since the recheck, and a removed one may have been created again.
        known = {group: facts for group, facts in self.known_groups.items() if group not in self.removed_groups}
        known |= last.groups
        groups = {
            group: _with_known_members(facts, known.get(group), subscriptions) for group, facts in read.groups.items()
        }
        # While a coordinator moves, no broker lists its groups, and none says so.
        missing = known.keys() - groups.keys() if read.incomplete is None else ()
        for group, facts in self.gateway.read_groups(sorted(missing)).items():
            if facts.listed is not False:
                may_read = known[group].may_read or None
                groups[group] = replace(known[group], consumption_unread=_NOT_LISTED, may_read=may_read)
        commits = {topic: dict(of_topic) for topic, of_topic in read.commits.items()}
        for group, facts in groups.items():
            # Its members need not have a partition of what they subscribe to (KIP-429, KIP-848).
            if facts.type in (GroupType.CLASSIC, GroupType.CONSUMER) and facts.may_have_members:
                for topic in commits.keys() & (facts.may_read or subscriptions.get(group) or ()):
                    commits[topic].setdefault(group, {})
        return replace(read, groups=groups, commits=commits, subscriptions=subscriptions)

    def may_send(self) -> bool:
        """Whether a request may go out now; an old recheck and an expired plan or waiver stop the run."""
        now_ms = self.clock()  # the machine may have slept in the middle of the run
        age_ms = now_ms - (now_ms if self.checked_at_ms is None else self.checked_at_ms)
        if not self.stopping and age_ms > _RECHECK_MAX_AGE_MS:
            age, limit = age_ms // 60_000, _RECHECK_MAX_AGE_MS // 60_000
            self.halt(f"the recheck was {age} min ago, and it is good for {limit} min: apply the plan again")
        ended = next((what for what, end_ms in self.expires_ms.items() if now_ms >= end_ms), None)
        if not self.stopping and ended is not None:
            self.halt(f"{ended} expired during this run: plan again")
        return not self.stopping

    def record_intents(self, attempts: Sequence[Attempt]) -> bool:
        """Store the intents. False: the journal took none. Stops the run then, and where clocks differ."""
        actions = [attempt.action for attempt in attempts]
        offsets = {attempt.action.address: attempt.removed_offsets for attempt in attempts if attempt.removed_offsets}
        began_ms = self.clock()
        is_stored, stored_ms = self._record(actions, removed_offsets=offsets)
        if is_stored:
            self._compare_clocks(began_ms, stored_ms, self.clock())
        return is_stored

    def _compare_clocks(self, began_ms: int, stored_ms: int | None, ended_ms: int) -> None:
        """Stop the run unless the brokers have stamped an entry between its beginning and its end."""
        if stored_ms is None:
            if self.needs_stamps:
                self.halt(
                    "the brokers do not stamp the entries of the journal topic, so nothing shows whether the clock of this "
                    "machine is right: set message.timestamp.type=LogAppendTime on it, `reconciler doctor` prints the command"
                )
            return
        apart_ms = max(began_ms - stored_ms, stored_ms - ended_ms)
        if apart_ms > CLOCKS_APART_MAX_MS:
            self.halt(
                f"the clock of the brokers says {format_instant(stored_ms)}, that of this machine {format_instant(ended_ms)}: "
                f"they are {approximate_duration(apart_ms)} apart, more than {format_duration(CLOCKS_APART_MAX_MS)}; set the "
                "clock that is wrong, then plan again"
            )

    def announce(self) -> None:
        """Note that a request goes out now."""
        self.announced.set()
        self.sending()

    def record_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Store outcomes. What was done stays done if that fails, but nothing more is sent."""
        recordable = [o for o in outcomes if o.sends or o.intended or o.status is not Status.NOT_ATTEMPTED]
        if recordable:
            self._record(recordable)

    def note_effects(self, outcomes: Iterable[Outcome]) -> None:
        """Remember what these outcomes of this run brought about."""
        for outcome in outcomes:
            if isinstance(outcome.action, Sendable) and outcome.status in (Status.APPLIED, Status.SATISFIED):
                outcome.action.note_effect(outcome, self)

    def polls(self) -> Iterator[None]:
        """Yield as in `RunContext`.

        By the clock, because a reading may take longer than the pause, and by count: a clock may be set back.
        """
        until_ms = self.clock() + self.tuning.effect_wait_ms
        yield
        for _ in range(self.tuning.effect_wait_ms // _SLICE_MS):
            if self.clock() >= until_ms:
                return
            self.sleep(_SLICE_MS / 1000)
            yield

    def back_off(self, round_number: int) -> None:
        """Wait before a round, longer each time, or until a stop. 1: the second round."""
        longest = min(self.tuning.backoff_max_ms, self.tuning.backoff_ms * 2 ** (round_number - 1))
        wait_ms = random.randint(longest // 2, longest)  # noqa: S311 - jitter, not a secret
        while wait_ms > 0 and not self.stopping:
            part = min(wait_ms, _SLICE_MS)
            self.sleep(part / 1000)
            wait_ms -= part

    def _record(self, events: Sequence[Any], **of_intents: Any) -> tuple[bool, int | None]:
        """Return whether the events are stored, and when they were by the clock of the brokers."""
        try:
            return True, self.journal.record(
                events, run_id=self.run_id, plan_digest=self.plan_digest, at_ms=self.clock(), **of_intents
            )
        except JournalUnavailable as error:
            # Actions whose intent is not stored end with this reason, and the results show it.
            in_results = not any(isinstance(event, Outcome) for event in events)
            self.halt(str(error), level=logging.INFO if in_results else logging.WARNING)
            return False, None
