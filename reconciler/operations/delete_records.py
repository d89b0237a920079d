"""DeleteRecords: remove the records below an offset of one partition (KIP-107, API key 21).

The request goes to the partition's leader. Its offset is the plan's, absolute and frozen: nothing
here can make it higher, and only the log start offset proves what was done.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar, Self

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason, contradiction
from reconciler.model.bounds import OMIT_DEFAULT, Int32, NonEmpty
from reconciler.model.description import Description, Fact, OffsetMove, SizeChange
from reconciler.model.names import Address, TopicPartition, format_subject
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, ItemResult
from reconciler.model.selector import Selector
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, ConsumerPosition, Consumers, PartitionFacts, Unknown
from reconciler.operations import checks
from reconciler.operations.attempt import Attempt, ErrorMeaning, ErrorTable, Response, ResponseAction, Right, StepResult
from reconciler.operations.base import (
    NO_LIMITS,
    Effect,
    FoldableOperation,
    Limit,
    LimitUsage,
    RunContext,
    beyond_review,
)
from reconciler.operations.elect_leader import observe_leadership
from reconciler.operations.observation import Observation, RecheckFailure
from reconciler.text.escape import quoted
from reconciler.text.formatting import (
    approximate_duration,
    broker_ids,
    count,
    count_partitions,
    first_few,
    format_duration,
    percent,
)
from reconciler.text.phrase import Phrase, escaped_name, name, sentence, strong

_SKIPPING_MAX = 10
"""Groups that skip records and that a description of many deletions names; it counts the others."""


class LagPolicy(StrEnum):
    """What a floor does about a group that is still behind it."""

    BLOCK = "block"
    CLAMP = "clamp"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, order=True)
class AcceptedLag:
    """A group behind the floor that the plan accepts, but not further behind than `committed`."""

    group: str
    committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """The conditions of a purge, tested again before it is sent.

    `named`: groups of `unreadBy`, which must have committed the target. `accepted`: readers below
    it that may skip records. `except_groups`: selectors of groups that do not count. `every_ms`:
    least time between two purges of the partition; None: no clock.
    """

    consumers: LagPolicy
    named: tuple[str, ...] = ()
    accepted: tuple[AcceptedLag, ...] = ()
    except_groups: tuple[str, ...] = ()
    every_ms: int | None = None

    def __post_init__(self) -> None:
        _excluder(self.except_groups)

    @property
    def conditions(self) -> tuple[object, ...]:
        """All but the accepted readers."""
        return self.consumers, self.named, self.except_groups, self.every_ms

    def describe_change(self, before: "Preconditions") -> str:
        """Say which conditions are not those that were reviewed."""
        every, every_before = (() if of.every_ms is None else (format_duration(of.every_ms),) for of in (self, before))
        fields = (
            ("consumers", (self.consumers,), (before.consumers,)),
            ("unreadBy", self.named, before.named),
            ("exceptGroups", self.except_groups, before.except_groups),
            ("every", every, every_before),
        )
        return "; ".join(
            f"{word} is {first_few(list(now)) or 'not set'}, it was {first_few(list(then)) or 'not set'} in the reviewed plan"
            for word, now, then in fields
            if now != then
        )

    @property
    def watched(self) -> tuple[AcceptedLag, ...]:
        """The accepted readers, without the groups of exceptGroups."""
        is_excluded = _excluder(self.except_groups)
        return tuple(reader for reader in self.accepted if not is_excluded(reader.group))


@lru_cache(maxsize=64)
def _excluder(texts: tuple[str, ...]) -> checks.GroupExcluder:
    """Return the excluder of these selectors, which many partitions have in common. Raises ValueError."""
    selectors = []
    for text in texts:
        try:
            selectors.append(Selector(text))
        except ValueError as error:
            raise ValueError(f"it excepts groups by {quoted(text)}, {error}") from None
    return checks.group_excluder(selectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPartition:
    """The partition as the scan saw it."""

    topic_id: NonEmpty
    log_start: int
    last_stable_offset: int
    high_watermark: int
    leader: Int32
    replicas: tuple[Int32, ...]
    in_sync: tuple[Int32, ...]


def observe_partition(partition: TopicPartition, facts: PartitionFacts | None) -> ObservedPartition:
    """Return what an action shows about its partition. Raises BlockReason for Unknown."""
    leadership = observe_leadership(partition, facts)
    assert facts is not None
    if leadership.leader is None:
        raise BlockReason("B203", f"{partition} has no leader, and only a leader deletes records")
    log_start = checks.known(facts.log_start, "the log start of", partition)
    last_stable_offset = checks.known(facts.last_stable_offset, "the end of", partition)
    high_watermark = checks.known(facts.high_watermark, "the high watermark of", partition)
    if min(log_start, last_stable_offset, high_watermark) < 0:
        offsets = f"log start {log_start}, end {last_stable_offset}, high watermark {high_watermark}"
        raise contradiction(f"{partition} has {offsets}")
    return ObservedPartition(
        topic_id=leadership.topic_id,
        log_start=log_start,
        last_stable_offset=last_stable_offset,
        # Read before the last stable offset it may be the lower number, and by then it was at least that.
        high_watermark=max(high_watermark, last_stable_offset),
        leader=leadership.leader,
        replicas=leadership.replicas,
        in_sync=leadership.in_sync,
    )


def _records(snapshot: ClusterSnapshot, topic: str) -> int | Unknown:
    """Return how many records a topic has at least, or the cluster where `topic` is empty.

    What could not be read, and what need not be a record, counts as none, so a share looks larger.
    """
    what, records = "the cluster's records", snapshot.cluster_records
    if topic:
        facts = snapshot.topics.get(topic)
        what, records = f"the records of {topic}", NOT_ASKED if facts is None else facts.records
        if facts is not None and (facts.records_min or not isinstance(records, Unknown)):
            records = facts.records_min
    return Unknown(f"{what} could not be counted: {records.reason}") if isinstance(records, Unknown) else records


TOPICS = Limit("topics", 50, "topics that lose records")
RECORDS_PERCENT_PER_TOPIC = Limit("records_percent_per_topic", 90, "share of one topic's records removed", _records)
RECORDS_PERCENT = Limit("records_percent", 50, "share of the cluster's records removed", _records)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords(FoldableOperation):
    """Remove all records below `before_offset`, the first offset kept. Irreversible.

    `consumed_by_named`: an `unreadBy` rule under `consumers: block` answers for these records, so the two
    record limits do not count them. `may_have_gaps`: transactions or compaction may have left offsets
    without a record, so reports speak of offsets. `drift`: a fixed floor that is not met, or a moving
    one overdue by `driftAfter`. `empty_tail`: offsets right below `before_offset` that hold no record,
    only transaction markers and aborted records, so that a group there has read everything.
    """

    OPERATION: ClassVar[str] = "delete_records"
    TITLE: ClassVar[str] = "record deletion"
    HEADING: ClassVar[str] = "records deleted, and their share of the partitions"
    FIELD_WORDS: ClassVar[Mapping[str, str]] = {
        "request.before_offset": "first offset kept",
        "approved.topic_id": "topic id",
        "approved.guard.consumers": "what happens if a group is behind (consumers)",
        "approved.guard.named": "group of unreadBy",
        "approved.guard.accepted": "accepted position of group",
        "approved.guard.except_groups": "selector of exceptGroups",
        "approved.guard.every_ms": "least time between two purges (every)",
    }
    API: ClassVar[tuple[str, int, int]] = ("DeleteRecords", 21, 0)
    RESTS_ON_REMOVALS: ClassVar[bool] = True
    LIMITS: ClassVar[tuple[Limit, ...]] = (TOPICS, RECORDS_PERCENT_PER_TOPIC, RECORDS_PERCENT)
    BATCH_SIZE: ClassVar[int] = 1_000
    """The client library merges answers quadratically above that."""
    LANES: ClassVar[int] = 2
    """Each has its own connection to the leader, and mostly waits for the followers' next fetch."""
    APPLIED: ClassVar[str] = "records deleted, shown by the log start"
    SATISFIED: ClassVar[str] = "the log starts there already"
    ERRORS: ClassVar[ErrorTable] = {
        # In every trial the leader had advanced: the answer waits for the slowest live replica.
        ErrorMeaning.READ_BACK: frozenset({"REQUEST_TIMED_OUT"}),
        ErrorMeaning.NOT_READY: frozenset({"LEADER_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"}),
        ErrorMeaning.RETRY: frozenset(
            {"NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "BROKER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE"}
        ),
        ErrorMeaning.STALE: frozenset({"OFFSET_OUT_OF_RANGE", "UNKNOWN_TOPIC_ID"}),
        # Also the answer of a leader whose replica was removed after the deletion.
        ErrorMeaning.GONE: frozenset({"UNKNOWN_TOPIC_OR_PARTITION"}),
        ErrorMeaning.REFUSED: frozenset({"POLICY_VIOLATION", "TOPIC_AUTHORIZATION_FAILED", "INVALID_TOPIC_EXCEPTION"}),
    }
    RIGHT: ClassVar[Right] = Right("DELETE", "topic")

    partition: TopicPartition
    before_offset: int
    seen: ObservedPartition
    guard: Preconditions
    consumed_by_named: bool
    drift: bool
    may_have_gaps: bool = field(default=False, metadata=OMIT_DEFAULT)
    empty_tail: int = field(default=0, metadata=OMIT_DEFAULT)

    @property
    def records_max(self) -> int:
        """Upper bound of the records removed: offsets from the scan's log start to the target."""
        return self.before_offset - self.seen.log_start

    @property
    def partition_percent(self) -> float:
        """Share of the partition's offsets, between log start and last stable offset."""
        return _share([self])

    @property
    def noun(self) -> str:
        """What reports count: an offset is a record only where nothing leaves gaps."""
        return "offset" if self.may_have_gaps else "record"

    @property
    def skips(self) -> tuple[tuple[str, int], ...]:
        """(group, records it would skip at most), for each accepted reader below the target."""
        return tuple(
            (reader.group, self.before_offset - max(reader.committed, self.seen.log_start))
            for reader in self.guard.accepted
            if reader.committed < self.before_offset
        )

    def request(self) -> Mapping[str, str | int]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "before_offset": self.before_offset,
        }

    def records_removed_max(self, start: int | None) -> int:
        log_start = self.seen.log_start if start is None else max(start, self.seen.log_start)
        return max(0, self.before_offset - log_start)

    def figure(self) -> OffsetMove:
        skipping = {group for group, _records in self.skips}
        return OffsetMove(
            log_start=self.seen.log_start,
            new_start=self.before_offset,
            last_stable_offset=self.seen.last_stable_offset,
            high_watermark=self.seen.high_watermark,
            positions=tuple((r.group, r.committed) for r in self.guard.accepted if r.group in skipping),
            required=self.guard.named,
            noun=self.noun,
        )

    # --- plan file

    def approved(self) -> Mapping[str, object]:
        return {"topic_id": self.seen.topic_id, "guard": self.guard}

    def impact(self) -> Mapping[str, object]:
        skips = [{"group": group, "records_max": records} for group, records in self.skips]
        return {"records_removed_max": self.records_max, "skips": skips}

    def __post_init__(self) -> None:
        if not self.seen.log_start < self.before_offset <= self.seen.last_stable_offset:
            bounds = f"above the log start {self.seen.log_start} and at or below the last stable offset {self.seen.last_stable_offset}"
            raise ValueError(f"before_offset is {self.before_offset}, which is not {bounds}")
        if not 0 <= self.empty_tail <= self.records_max:
            raise ValueError(f"empty_tail is {self.empty_tail}, and only {self.records_max} offsets go")
        self.check_subject(self.partition.topic, self.partition.partition)
        guard = self.guard
        if self.consumed_by_named and not (guard.named and guard.consumers is LagPolicy.BLOCK and not guard.accepted):
            raise ValueError(
                "consumed_by_named is true, but no named group under consumers: block answers for these records"
            )

    # --- reports

    DRIFT_TYPE: ClassVar[str] = "records"
    DRIFT_TEXT: ClassVar[str] = "records below the floor are still there"

    @property
    def is_foldable(self) -> bool:
        return True

    def describe(self) -> Description:
        seen = self.seen
        because: Phrase = ("because ", sentence(self.reason))
        return Description(
            subject=(escaped_name(format_subject(self.address)),),
            change=(f"log start from {seen.log_start} to {self.before_offset} (end {seen.last_stable_offset})",),
            loss=("at most ", strong(count(self.records_max, self.noun)), f" ({_share_text([self])})"),
            notes=(because if self.drift else (*because, " (not drift yet: within driftAfter)"),),
            risks=tuple(_skip(group, count(records, self.noun)) for group, records in self.skips),
            unknowns=self._excluded_groups(skips_known=bool(self.skips)),
        )

    @classmethod
    def describe_many(cls, actions: Sequence["DeleteRecords"]) -> Description:
        """Describe the deletions of one topic: the sum, and of a single partition its offsets, too."""
        first, noun = actions[0], _noun(actions)
        total = strong(count(sum(action.records_max for action in actions), noun))
        share = f" ({_share_text(actions)})"
        if len(actions) == 1:
            subject, loss = (escaped_name(format_subject(first.address)),), ("at most ", total, share)
            change: Phrase = (f"log start from {first.seen.log_start} to {first.before_offset}",)
        else:
            subject, loss = (
                (name(first.partition.topic),),
                ("at most ", total, f", {count(len(actions), 'partition')}{share}"),
            )
            change = ()
        records, partitions = Counter[str](), Counter[str]()
        for action in actions:
            for group, skipped in action.skips:
                records[group] += skipped
                partitions[group] += 1
        worst = sorted(records, key=lambda group: (-records[group], group))
        risks = [_skip(group, count(records[group], noun), partitions[group]) for group in worst[:_SKIPPING_MAX]]
        if omitted := len(worst) - len(risks):
            risks.append((f"and {count(omitted, 'more group')} would skip {noun}s (--full lists them)",))
        return Description(
            subject=subject,
            change=change,
            loss=loss,
            risks=tuple(risks),
            unknowns=first._excluded_groups(skips_known=bool(records)),
        )

    @classmethod
    def count_effects(cls, addresses: Collection[Address]) -> str:
        partitions = count_partitions(len(addresses), len({address.name for address in addresses}))
        return f"records of {partitions} deleted"

    @classmethod
    def total_loss(cls, actions: Sequence["DeleteRecords"], observed: Mapping[str, float] = NO_LIMITS) -> str:
        """Return the records and, where the limits count all of them, their share of topic and cluster."""
        shares = []
        if not any(action.consumed_by_named for action in actions):
            one = len({action.partition.topic for action in actions}) == 1
            of = (
                (RECORDS_PERCENT_PER_TOPIC, "of the topic" if one else "of one topic"),
                (RECORDS_PERCENT, "of the cluster"),
            )
            shares = [f"{percent(observed[limit.id])} {whole}" for limit, whole in of if observed.get(limit.id)]
        up_to = f": up to {' and '.join(shares)}" if shares else ""
        noun = _noun(actions)
        by_offsets = " by offsets, of the records perhaps more" if shares and noun == "offset" else ""
        return f"at most {count(sum(action.records_max for action in actions), noun)}{up_to}{by_offsets}"

    def explain(self) -> Iterator[Fact]:
        seen, guard, start, target = self.seen, self.guard, self.seen.log_start, self.before_offset
        leader, replicas, in_sync = seen.leader, broker_ids(seen.replicas), broker_ids(seen.in_sync)
        offsets, share = seen.last_stable_offset - start, _share_text([self])
        yield "Request", (f"DeleteRecords {self.partition}: the first offset kept is {target}",)
        yield (
            "Facts",
            (f"log start {start}, last stable offset {seen.last_stable_offset}, high watermark {seen.high_watermark}",),
        )
        yield "", ("topic id ", name(seen.topic_id), f"; leader {leader}, replicas {replicas}, in sync {in_sync}")
        yield (
            "Bounds",
            (f"{start} < {target} <= {seen.last_stable_offset}: above the log start, up to the last stable offset",),
        )
        yield "Records", (f"{target} - {start} = {self.records_max:,} at most",)
        yield "", (f"{self.records_max:,} / {offsets:,} = {share}",)
        if self.empty_tail:
            yield "", (f"offsets {target - self.empty_tail} to {target - 1} hold no record: markers, aborted records",)
        if self.consumed_by_named:
            yield "", ("the groups of unreadBy have read them, so the record limits do not count them",)
        for group in guard.named:
            yield "Readers", (escaped_name(quoted(group)), f" must have a commit at or above {target}")
        yield "Readers", (_LAG_TEXT[guard.consumers],)
        for selector in guard.except_groups:
            yield "", ("groups ", escaped_name(quoted(selector)), " do not count")
        positions = {reader.group: reader.committed for reader in guard.accepted}
        for group, records in self.skips:
            skipped = f"{target} - {max(positions[group], start)} = {count(records, self.noun)} skipped at most"
            yield "", (escaped_name(quoted(group)), f" was at {positions[group]}: {skipped}")
        if guard.every_ms is not None:
            yield "Every", (f"at least {approximate_duration(guard.every_ms)} between two purges",)
        same = "same topic id, policy still deletes, log begins and ends no lower, no reader new or further behind"
        yield "Rechecked", (same,)
        yield "Undo", ("impossible: no command brings deleted records back",)

    def compare_size(self, old: Action) -> SizeChange | None:
        if not isinstance(old, DeleteRecords) or (old.address, old.approved()) != (self.address, self.approved()):
            return None
        moved, start, old_start = self.before_offset - old.before_offset, self.seen.log_start, old.seen.log_start
        details, summary = tuple[str, ...](), tuple[str, ...]()
        if moved:
            details = (f"request.before_offset: {old.before_offset} → {self.before_offset}",)
            offsets = f"from {old.before_offset} to {self.before_offset}"
            summary = (f"first offset kept {offsets}, {count(abs(moved), 'record')}",)
        if start < old_start:
            details += (f"seen.log_start: {old_start} → {start}",)
            records = f"at most {count(self.records_max, 'record')}, before {old.records_max:,}"
            summary += (f"the log starts at {start}, it started at {old_start}", records)
        if not summary:
            return None
        return SizeChange(larger=moved > 0 or start < old_start, summary=("; ".join(summary),), details=details)

    def _excluded_groups(self, *, skips_known: bool) -> tuple[Phrase, ...]:
        """Describe the groups of exceptGroups. `skips_known`: others are known to skip records."""
        if not self.guard.except_groups:
            return ()
        names = escaped_name(first_few([quoted(selector) for selector in self.guard.except_groups]))
        unknown = f"; what {'more ' if skips_known else ''}they would skip is not known"
        return (("groups of exceptGroups do not count: ", names, unknown),)

    # --- plan

    def limit_usage(self) -> Iterator[LimitUsage]:
        topic = self.partition.topic
        yield LimitUsage(TOPICS, name=topic)
        if not self.consumed_by_named:
            yield LimitUsage(RECORDS_PERCENT_PER_TOPIC, self.records_max, bucket=topic)
            yield LimitUsage(RECORDS_PERCENT, self.records_max)

    def restrict_to(self, reviewed: Action | None) -> Self | BlockReason:
        if not isinstance(reviewed, DeleteRecords) or reviewed.partition != self.partition:
            return beyond_review("new: the reviewed plan removes nothing of it")
        before, now = reviewed.seen, self.seen
        before_offset = min(self.before_offset, reviewed.before_offset)
        positions = {reader.group: reader.committed for reader in reviewed.guard.watched}
        accepted = tuple(reader for reader in self.guard.accepted if reader.committed < before_offset)
        # Groups of exceptGroups bind nothing.
        binding = (reader for reader in self.guard.watched if reader.committed < before_offset)
        further_behind = next((r for r in binding if r.committed < positions.get(r.group, before_offset)), None)
        if before.topic_id != now.topic_id:
            reason = f"the reviewed plan is about topic id {before.topic_id}, the topic is {now.topic_id} by now"
        elif self.guard.conditions != reviewed.guard.conditions:
            reason = self.guard.describe_change(reviewed.guard)
        elif before_offset <= now.log_start:
            reason = f"larger: reviewed up to {before_offset}, which is gone; {self.before_offset} was not reviewed"
        elif now.log_start < before.log_start:
            reason = f"larger: the log starts at {now.log_start}, it was {before.log_start} in the reviewed plan"
        elif now.high_watermark < before.high_watermark:
            ends = f"it ends at {now.high_watermark}, it ended at {before.high_watermark} in the reviewed plan"
            reason = f"the log was cut: {ends}, so its offsets may mean other records"
        elif further_behind is not None:
            skipped = f"group {quoted(further_behind.group)} skip records from {further_behind.committed}"
            reason = f"larger: the reviewed plan does not let {skipped}"
        elif before_offset == self.before_offset and accepted == self.guard.accepted:
            return self
        else:
            lower = f"; reviewed up to {before_offset} only" if before_offset < self.before_offset else ""
            guard = replace(self.guard, accepted=accepted)
            tail = max(0, self.empty_tail - (self.before_offset - before_offset))
            reason = self.reason + lower
            return replace(self, before_offset=before_offset, empty_tail=tail, reason=reason, guard=guard)
        return beyond_review(reason)

    # --- recheck

    def done_reason(self, snapshot: ClusterSnapshot) -> str | None:
        facts = snapshot.partitions.get(self.partition)
        is_reached = (
            facts is not None
            and facts.topic_id == self.seen.topic_id
            and isinstance(facts.log_start, int)
            and facts.log_start >= self.before_offset
        )
        return f"the log start is {facts.log_start} already" if facts is not None and is_reached else None

    def within(self, saved: Self) -> Self:
        """Keep the log start, the high watermark and the positions of groups that the review saw.

        A group without a commit by now was not seen to catch up, so the check right before the request
        still looks for it.
        """
        is_same = (saved.seen.log_start, saved.seen.high_watermark) == (self.seen.log_start, self.seen.high_watermark)
        if is_same and not saved.guard.accepted and not self.guard.accepted:
            return self
        watched = tuple(reader for reader in saved.guard.watched if reader.committed < self.before_offset)
        seen = replace(self.seen, log_start=saved.seen.log_start, high_watermark=saved.seen.high_watermark)
        by_named = self.consumed_by_named and not watched
        return replace(self, seen=seen, guard=replace(self.guard, accepted=watched), consumed_by_named=by_named)

    def check(self, observation: Observation) -> None:
        """Test that topic and log are the same, and that every reader is where it may be."""
        facts = observation.partition(self.partition, self.seen.topic_id)
        log_start = checks.known(facts.log_start, "the log start")
        if log_start >= self.before_offset:
            raise RecheckFailure(Status.SATISFIED, f"the log start is {log_start} already")
        high_watermark = checks.known(facts.high_watermark, "the high watermark")
        if not isinstance(facts.leader, int):
            raise RecheckFailure(Status.FAILED, "the partition has no leader")
        if log_start < self.seen.log_start:
            # An unclean election can bring records back, and the review did not see that those go.
            raise _lower("log start", log_start, self.seen.log_start)
        if high_watermark < self.seen.high_watermark:
            # The log was cut and perhaps filled again: below the target there may be other records.
            raise _lower("high watermark", high_watermark, self.seen.high_watermark)
        self._check_readers(facts, log_start, high_watermark, observation)

    def _check_readers(
        self, facts: PartitionFacts, log_start: int, high_watermark: int, observation: Observation
    ) -> None:
        """Test that below the target there are only readers that the plan accepted there."""
        is_excluded, unknown = observation.excluder(self.guard.except_groups)
        if (blind_spot := unknown.of(self.partition.topic)) is not None:
            raise blind_spot.with_traceback(None)  # raised for many partitions
        readers = checks.known(facts.readers, "the consumers of", self.partition)
        if isinstance(facts.readers_below, Unknown) or facts.readers_below < self.before_offset:
            raise RecheckFailure(Status.FAILED, f"consumers were not looked for up to {self.before_offset}")
        by_group = {reader.group: reader for reader in readers}
        target = f"below the target {self.before_offset}"
        for group in self.guard.named:
            position = checks.verified_offset(group, by_group.get(group), facts, self.seen.topic_id, high_watermark)
            _check_position(group, position, self.before_offset, target)
        if self.guard.consumers is not LagPolicy.IGNORE:
            for reader in checks.external_positions(observation.snapshot, self.partition, log_start, high_watermark):
                if reader.committed < self.before_offset - self.empty_tail:
                    raise RecheckFailure(Status.STALE, f"{reader.group} is at {reader.committed}, {target}")
        accepted = {reader.group: reader.committed for reader in self.guard.accepted}
        positions = checks.verified_positions(readers, self.seen.topic_id, log_start, high_watermark)
        for reader in checks.lagging(positions, self.before_offset - self.empty_tail, self.guard.named):
            if is_excluded(reader.group) or reader.group in observation.removed_groups:
                continue
            if reader.group not in accepted:
                transaction = checks.describe_pending(reader)
                raise _moved(
                    reader.group, f"is at {reader.committed}, and the plan does not know it there{transaction}"
                )
            least = accepted[reader.group]
            _check_position(reader.group, reader.committed, least, f"behind the {least} that the plan accepted")

        for lag in self.guard.watched:
            # No reader is below the log start, and a group that this run removed reads nothing.
            may_vanish = lag.committed <= self.seen.log_start or lag.group in observation.removed_groups
            if lag.group not in by_group and not may_vanish:
                raise _moved(lag.group, f"has no commit any more, and the plan accepted it at {lag.committed}")

    # --- apply

    def batch_key(self, attempt: Attempt[Any]) -> int:
        """Return the partition's leader, as last read."""
        return self.seen.leader if attempt.broker is None else attempt.broker

    @classmethod
    def connect(cls, gateway: Gateway) -> None:
        gateway.connect_for_deletions()

    @classmethod
    def observe(cls, actions: Sequence["DeleteRecords"], context: RunContext) -> Observation:
        read_at_ms = context.clock()
        consumers = context.consumers()
        requested: defaultdict[str, list[TopicPartition]] = defaultdict(list)
        for action in actions:
            for group in {*action.guard.named, *(reader.group for reader in action.guard.watched)}:
                requested[group].append(action.partition)
        positions = context.gateway.read_positions(requested)
        # After the positions: a commit above an end that was read before it would seem to be none of this log.
        partitions = context.gateway.read_partitions([action.partition for action in actions], offsets=True)
        return Observation.before_request(
            now_ms=context.clock(),
            read_at_ms=read_at_ms,
            partitions={
                partition: facts
                and replace(
                    facts,
                    readers=_readers(facts, consumers, positions),
                    readers_below=facts.high_watermark,
                )
                for partition, facts in partitions.items()
            },
            groups=consumers.groups,
            groups_incomplete=consumers.incomplete,
            external=consumers.external,
            removed_groups=_still_removed(context.removed_groups, consumers, positions),
        )

    def prepare(self, attempt: Attempt[Any], observation: Observation) -> Attempt[Any]:
        facts = observation.snapshot.partitions[self.partition]
        assert isinstance(facts.log_start, int)
        assert isinstance(facts.leader, int)
        start = facts.log_start if attempt.start is None else min(facts.log_start, attempt.start)
        return replace(attempt, start=start, broker=facts.leader)

    @classmethod
    def call_gateway(cls, actions: Sequence["DeleteRecords"], gateway: Gateway) -> Mapping[TopicPartition, ItemResult]:
        return gateway.delete_records({action.partition: action.before_offset for action in actions})

    @classmethod
    def observe_effect(
        cls, actions: Sequence["DeleteRecords"], _responses: Mapping[TopicPartition, Response], context: RunContext
    ) -> Observation:
        partitions = context.gateway.read_partitions([action.partition for action in actions], offsets=True)
        return Observation.before_request(now_ms=context.clock(), partitions=partitions)

    def effect(self, observation: Observation) -> Effect:
        facts = observation.snapshot.partitions.get(self.partition)
        if facts is None:
            return Effect("gone", "the partition is gone")
        if isinstance(facts.log_start, Unknown):
            return Effect(None, f"the log start could not be read back: {facts.log_start.reason}")
        missing = f"the log start is {facts.log_start}, the target {self.before_offset}"
        return Effect(f"log start {facts.log_start}", missing if facts.log_start < self.before_offset else None)

    def verify(self, attempt: Attempt[Any], response: Response, observation: Observation) -> StepResult:
        """Only the log start offset proves anything; an answer that contradicts it is read back again.

        Source: a broker answers NONE once the low watermark, the lowest log start of the leader, its
        future log and all live replicas, is at the target (ReplicaManager.deleteRecords,
        DelayedDeleteRecords.tryComplete, Partition.lowWatermarkIfLeader). Every other answer tells
        -1. So with NONE a lower one is no proof for all replicas, and one above the log start is
        that of another log.
        """
        facts = observation.snapshot.partitions.get(self.partition)
        if facts is None or (isinstance(facts.topic_id, str) and facts.topic_id != self.seen.topic_id):
            # Which of the two topics the request met is not known any more.
            detail = "the topic was deleted while the request was under way"
            read_back = self.effect(observation).read_back
            return attempt.after_response(response).outcome(Status.STALE, detail, read_back=read_back)
        responded = attempt.after_response(response)
        if (disagreement := self._disagreement(responded, observation)) is not None:
            return responded.retry_later(disagreement)
        if self.effect(observation).missing is None:
            return self.reached(responded, observation)
        unmoved = facts.log_start == attempt.start and facts.leader == attempt.broker
        if response.answer in (ResponseAction.STALE, ResponseAction.FAILED) and unmoved:
            # The log of the leader that answered begins where it did, so nothing is gone. Another
            # replica would not know.
            response = replace(response, no_effect=True)
        return super(DeleteRecords, self).verify(attempt, response, observation)

    def reached(self, attempt: Attempt[Any], observation: Observation) -> Outcome:
        outcome = super(DeleteRecords, self).reached(attempt, observation)
        disagreement = self._disagreement(attempt, observation)
        return outcome if disagreement is None else replace(outcome, detail=f"{outcome.detail}; {disagreement}")

    def _disagreement(self, attempt: Attempt[Any], observation: Observation) -> str | None:
        """Return how the newest low watermark disagrees with target or log start; None: not at all."""
        low_watermark = None if attempt.last is None else attempt.last.low_watermark
        log_start = observation.snapshot.partitions[self.partition].log_start
        if low_watermark is None:
            return None
        if low_watermark < self.before_offset:
            lag = f"low watermark {low_watermark}, below the target {self.before_offset}"
            return f"the broker answered NONE with {lag}: not proven on all live replicas"
        if isinstance(log_start, int) and low_watermark > log_start:
            return f"the log start is {log_start}, below the low watermark {low_watermark} that the broker answered"
        return None


_LAG_TEXT = {
    LagPolicy.BLOCK: "a group behind the target blocks the purge",
    LagPolicy.CLAMP: "the target is never above the group that is furthest behind",
    LagPolicy.IGNORE: "groups behind the target are accepted where they were",
}


def _still_removed(
    removed_groups: Collection[str],
    consumers: Consumers,
    positions: Mapping[tuple[str, TopicPartition], int | Unknown | None],
) -> frozenset[str]:
    """Return the removed groups without those that were created again: they are listed, or have commits."""
    committed = {group for (group, _at), position in positions.items() if position is not None}
    committed |= {group for group, _at in consumers.pending}
    return frozenset(removed_groups) - consumers.groups.keys() - committed


def _readers(
    facts: PartitionFacts,
    consumers: Consumers,
    positions: Mapping[tuple[str, TopicPartition], int | Unknown | None],
) -> tuple[ConsumerPosition, ...] | Unknown:
    """Return the consumers of a partition. `positions`: newer commits of some groups; None: no commit.

    The recheck has read from the commit log for which topic a group has committed.
    """
    partition, log_start = facts.partition, facts.log_start
    if isinstance(log_start, Unknown):
        return log_start
    by_group: dict[str, int | Unknown | None] = {
        group: commits.get(partition.partition) for group, commits in consumers.commits.get(partition.topic, {}).items()
    }
    for (group, at), committed in positions.items():
        if at == partition and (committed is not None or group in by_group):
            by_group[group] = committed
    readers = []
    for group, committed in sorted(by_group.items()):
        if isinstance(committed, Unknown):
            return Unknown(f"the position of group {quoted(group)}: {committed.reason}")
        offset = log_start if committed is None else committed
        pending = consumers.pending.get((group, partition))
        readers.append(ConsumerPosition(group, offset, implied=committed is None, topic_id=None, pending=pending))
    return tuple(readers)


def _check_position(group: str, position: int, least: int, words: str) -> None:
    """Raise RecheckFailure for a group that is below the offset `least`, which `words` name."""
    if position < least:
        raise _moved(group, f"is at {position} now, {words}")


def _lower(what: str, offset: int, planned: int) -> RecheckFailure:
    return RecheckFailure(Status.STALE, f"the {what} is {offset}, below the {planned} of the plan")


def _moved(group: str, change: str) -> RecheckFailure:
    return RecheckFailure(Status.STALE, f"group {quoted(group)} {change}")


def _share(actions: Sequence[DeleteRecords]) -> float:
    """Return what part of the partitions' offsets goes, in percent. Those of open transactions are none."""
    offsets = sum(action.seen.last_stable_offset - action.seen.log_start for action in actions)
    return 100.0 * sum(action.records_max for action in actions) / offsets


def _noun(actions: Sequence[DeleteRecords]) -> str:
    return "offset" if any(action.may_have_gaps for action in actions) else "record"


def _share_text(actions: Sequence[DeleteRecords]) -> str:
    """Return the share in words that hold for the records, too: the gaps may all be in what stays."""
    of = "partition's" if len(actions) == 1 else "partitions'"
    gaps = f" of the {of} offsets, perhaps all records" if _noun(actions) == "offset" else ""
    return f"{percent(_share(actions))}{gaps}"


def _skip(group: str, records: str, partitions: int = 0) -> Phrase:
    on_partitions = f" on {count(partitions, 'partition')}" if partitions else ""
    return (escaped_name(quoted(group)), " would skip at most ", strong(records), on_partitions)
