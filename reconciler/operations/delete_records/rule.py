"""What a record deletion removes: what a review allows of it, and the check right before its request."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason, known
from reconciler.model.bounds import OMIT_DEFAULT
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.snapshot import ClusterSnapshot, PartitionFacts, Unknown
from reconciler.operations.base import Limit, LimitUsage, Operation, beyond_review
from reconciler.operations.consumers import (
    Log,
    describe_pending,
    verified_offset,
)
from reconciler.operations.delete_records.preconditions import (
    LagPolicy,
    ObservedPartition,
    Preconditions,
)
from reconciler.operations.observation import Observation, RecheckFailure
from reconciler.operations.offsets_without_records import cluster_records, topic_records
from reconciler.text.escape import quoted

TOPICS = Limit("topics", 50, "topics that lose records")
RECORDS_PERCENT_PER_TOPIC = Limit(
    "records_percent_per_topic", 90, "share of one topic's records removed", topic_records
)
RECORDS_PERCENT = Limit("records_percent", 50, "share of the cluster's records removed", cluster_records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion(Operation):
    """What a record deletion removes, and its conditions.

    `consumed_by_named`: an `unreadBy` rule under `consumers: block` answers for these records, so the two
    record limits do not count them. `may_have_gaps`: transactions or compaction may have left offsets
    without a record, so reports speak of offsets. `drift`: a fixed floor that is not met, or a moving
    one overdue by `driftAfter`. `gaps`: offsets of the partition that hold no record, or may hold none:
    a share is one of what is left. `held_by`: the groups that keep it from removing more.
    """

    LIMITS: ClassVar[tuple[Limit, ...]] = (TOPICS, RECORDS_PERCENT_PER_TOPIC, RECORDS_PERCENT)

    partition: TopicPartition
    before_offset: int
    seen: ObservedPartition
    guard: Preconditions
    consumed_by_named: bool
    drift: bool
    may_have_gaps: bool = field(default=False, metadata=OMIT_DEFAULT)
    gaps: int = field(default=0, metadata=OMIT_DEFAULT)
    held_by: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)

    def __post_init__(self) -> None:
        if not self.seen.log_start < self.before_offset <= self.seen.last_stable_offset:
            bounds = f"above the log start {self.seen.log_start} and at or below the last stable offset {self.seen.last_stable_offset}"
            raise ValueError(f"before_offset is {self.before_offset}, which is not {bounds}")
        offsets = self.seen.last_stable_offset - self.seen.log_start
        if not 0 <= self.gaps <= offsets:
            raise ValueError(f"gaps is {self.gaps}, and the partition has only {offsets} offsets")
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
        """What the partition's share is taken of: its offsets without gaps. Of fewer than are removed it is all."""
        return max(self.seen.last_stable_offset - self.seen.log_start - self.gaps, self.records_max)

    @property
    def has_share(self) -> bool:
        """Whether a share counts the records, of a total that may hold gaps."""
        return self.may_have_gaps and not self.consumed_by_named

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
            yield LimitUsage(RECORDS_PERCENT_PER_TOPIC, self.records_max, bucket=topic)
            yield LimitUsage(RECORDS_PERCENT, self.records_max)

    # --- review and recheck

    def restrict_to(self, reviewed: Action | None) -> Self | BlockReason:
        if not isinstance(reviewed, Deletion) or reviewed.partition != self.partition:
            return beyond_review("new: the reviewed plan removes nothing of it")
        before, now = reviewed.seen, self.seen
        before_offset = min(self.before_offset, reviewed.before_offset)
        positions = {reader.group: reader.committed for reader in reviewed.guard.watched}
        accepted = tuple(reader for reader in self.guard.accepted if reader.committed < before_offset)
        # Groups of exceptGroups bind nothing.
        binding = (reader for reader in self.guard.watched if reader.committed < before_offset)
        further_behind = next((r for r in binding if r.committed < positions.get(r.group, before_offset)), None)
        if before.topic_id != now.topic_id:
            reason = f"the reviewed plan is about topic id {before.topic_id}, the topic is {now.topic_id} now"
        elif change := self.guard.describe_change(reviewed.guard):
            reason = change
        elif before_offset <= now.log_start:
            reason = f"the review covers offsets below {before_offset}, which are already deleted; {self.before_offset} needs a new review"
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
            return replace(
                self,
                before_offset=before_offset,
                reason=self.reason + lower,
                guard=guard,
            )
        return beyond_review(reason)

    def done_reason(self, snapshot: ClusterSnapshot) -> str | None:
        facts = snapshot.partitions.get(self.partition)
        if facts is None or facts.topic_id != self.seen.topic_id or isinstance(facts.log_start, Unknown):
            return None
        return f"the log start is {facts.log_start} already" if facts.log_start >= self.before_offset else None

    def within(self, saved: Self) -> Self:
        """Keep the log start, the high watermark and the positions of groups that the review saw.

        A group that has no commit yet was not seen to catch up, so the check right before the request
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
        log_start = known(facts.log_start, "the log start")
        if log_start >= self.before_offset:
            raise RecheckFailure(Status.SATISFIED, f"the log start is {log_start} already")
        high_watermark = known(facts.high_watermark, "the high watermark")
        if not isinstance(facts.leader, int):
            raise RecheckFailure(Status.FAILED, "the partition has no leader")
        if log_start < self.seen.log_start:
            # An unclean election can bring records back, and the review did not see that those go.
            raise _lower("log start", log_start, self.seen.log_start)
        if high_watermark < self.seen.high_watermark:
            # The log was cut and perhaps filled again: below the target there may be other records.
            raise _lower("high watermark", high_watermark, self.seen.high_watermark)
        self._check_readers(facts, Log(self.partition, self.seen.topic_id, log_start, high_watermark), observation)

    def _check_readers(self, facts: PartitionFacts, log: Log, observation: Observation) -> None:
        """Test that below the target there are only readers that the plan accepted there."""
        guard, offset, target = self.guard, self.before_offset, f"below the target {self.before_offset}"
        is_excluded = guard.is_excluded
        unknown = observation.unknown_consumers(is_excluded)
        groups, external = guard.consumers_below(offset, facts, log, observation, unknown)
        assert not isinstance(facts.readers, Unknown)
        by_group = {reader.group: reader for reader in facts.readers}
        for group in guard.named:
            _check_position(group, verified_offset(group, by_group.get(group), log), offset, target)
        if (behind := next(external, None)) is not None:
            raise RecheckFailure(Status.STALE, f"{behind.group} is at {behind.committed}, {target}")
        accepted = {reader.group: reader.committed for reader in guard.accepted}
        for reader in groups:
            if is_excluded(reader.group) or reader.group in observation.removed_groups:
                continue
            if reader.group not in accepted:
                change = f"is at {reader.committed}, and the plan does not know it there{describe_pending(reader)}"
                raise _moved(reader.group, change)
            least = accepted[reader.group]
            _check_position(reader.group, reader.committed, least, f"behind the {least} that the plan accepted")
        for lag in guard.watched:
            # No reader is below the log start, and a group that this run removed reads nothing.
            may_vanish = lag.committed <= self.seen.log_start or lag.group in observation.removed_groups
            if lag.group not in by_group and not may_vanish:
                raise _moved(lag.group, f"has no commit any more, and the plan accepted it at {lag.committed}")


def _check_position(group: str, position: int, least: int, words: str) -> None:
    """Raise RecheckFailure for a group that is below the offset `least`, which `words` name."""
    if position < least:
        raise _moved(group, f"is at {position} now, {words}")


def _lower(what: str, offset: int, planned: int) -> RecheckFailure:
    return RecheckFailure(Status.STALE, f"the {what} is {offset}, below the {planned} of the plan")


def _moved(group: str, change: str) -> RecheckFailure:
    return RecheckFailure(Status.STALE, f"group {quoted(group)} {change}")
