"""What a record deletion removes, its conditions, and the partition as the scan saw it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar

from reconciler.model.block_reason import BlockReason, contradiction, known
from reconciler.model.bounds import OMIT_DEFAULT, Int32, NonEmpty
from reconciler.model.names import TopicPartition
from reconciler.model.selector import Selector
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, PartitionFacts, Unknown
from reconciler.operations.base import Limit, LimitUsage, Operation
from reconciler.operations.consumers import GroupExcluder, group_excluder
from reconciler.operations.elect_leader import observe_leadership
from reconciler.text.escape import quoted
from reconciler.text.formatting import broker_ids, first_few, format_duration


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
def _excluder(texts: tuple[str, ...]) -> GroupExcluder:
    """Return the excluder of these selectors, which many partitions have in common. Raises ValueError."""
    selectors = []
    for text in texts:
        try:
            selectors.append(Selector(text))
        except ValueError as error:
            raise ValueError(f"it excepts groups by {quoted(text)}, {error}") from None
    return group_excluder(selectors)


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
        replicas = broker_ids(sorted(leadership.replicas))
        next_step = f"start one of its replicas (brokers {replicas}), then plan again"
        raise BlockReason("B203", f"{partition} has no leader, and only a leader deletes records", next_step=next_step)
    log_start = known(facts.log_start, "the log start of", partition)
    last_stable_offset = known(facts.last_stable_offset, "the end of", partition)
    high_watermark = known(facts.high_watermark, "the high watermark of", partition)
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
class Deletion(Operation):
    """What a record deletion removes, and its conditions.

    `consumed_by_named`: an `unreadBy` rule under `consumers: block` answers for these records, so the two
    record limits do not count them. `may_have_gaps`: transactions or compaction may have left offsets
    without a record, so reports speak of offsets. `drift`: a fixed floor that is not met, or a moving
    one overdue by `driftAfter`. `gaps_above`: offsets from `before_offset` up that hold no record, or may
    hold none: the record limits take shares of what is left.
    """

    LIMITS: ClassVar[tuple[Limit, ...]] = (TOPICS, RECORDS_PERCENT_PER_TOPIC, RECORDS_PERCENT)

    partition: TopicPartition
    before_offset: int
    seen: ObservedPartition
    guard: Preconditions
    consumed_by_named: bool
    drift: bool
    may_have_gaps: bool = field(default=False, metadata=OMIT_DEFAULT)
    gaps_above: int = field(default=0, metadata=OMIT_DEFAULT)

    def __post_init__(self) -> None:
        if not self.seen.log_start < self.before_offset <= self.seen.last_stable_offset:
            bounds = f"above the log start {self.seen.log_start} and at or below the last stable offset {self.seen.last_stable_offset}"
            raise ValueError(f"before_offset is {self.before_offset}, which is not {bounds}")
        kept = self.seen.last_stable_offset - self.before_offset
        if not 0 <= self.gaps_above <= kept:
            raise ValueError(f"gaps_above is {self.gaps_above}, and only {kept} offsets stay")
        self.check_subject(self.partition.topic, self.partition.partition)
        guard = self.guard
        if self.consumed_by_named and not (guard.named and guard.consumers is LagPolicy.BLOCK and not guard.accepted):
            raise ValueError(
                "consumed_by_named is true, but no named group under consumers: block answers for these records"
            )

    @property
    def records_max(self) -> int:
        """Upper bound of the records removed: offsets from the scan's log start to the target."""
        return self.before_offset - self.seen.log_start

    @property
    def records_counted(self) -> int:
        """What the partition's share is taken of: its offsets, without those that may hold no record."""
        return self.seen.last_stable_offset - self.seen.log_start - self.gaps_above

    @property
    def skips(self) -> tuple[tuple[str, int], ...]:
        """(group, records it would skip at most), for each accepted reader below the target."""
        return tuple(
            (reader.group, self.before_offset - max(reader.committed, self.seen.log_start))
            for reader in self.guard.accepted
            if reader.committed < self.before_offset
        )

    def records_removed_max(self, start: int | None) -> int:
        log_start = self.seen.log_start if start is None else max(start, self.seen.log_start)
        return max(0, self.before_offset - log_start)

    def approved(self) -> Mapping[str, object]:
        return {"topic_id": self.seen.topic_id, "guard": self.guard}

    def impact(self) -> Mapping[str, object]:
        skips = [{"group": group, "records_max": records} for group, records in self.skips]
        return {"records_removed_max": self.records_max, "skips": skips}

    def limit_usage(self) -> Iterator[LimitUsage]:
        topic = self.partition.topic
        yield LimitUsage(TOPICS, name=topic)
        if not self.consumed_by_named:
            yield LimitUsage(RECORDS_PERCENT_PER_TOPIC, self.records_max, bucket=topic, uncounted=self.gaps_above)
            yield LimitUsage(RECORDS_PERCENT, self.records_max, uncounted=self.gaps_above)
