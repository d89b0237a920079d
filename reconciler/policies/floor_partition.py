"""One floor on one partition: from facts to the decision, and what the partition's readers have to say about it.

The lowest rule comes from kinds/floor_rules.py, which topics and partitions are meant from kinds/retention_floor.py.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from reconciler.model.block_reason import BlockReason, contradiction, quote_group, unknown_fact
from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.plan import Decision, Satisfied, Waiting
from reconciler.model.snapshot import ClusterSnapshot, ConsumerPosition, PartitionFacts, Unknown
from reconciler.operations.consumers import Excepted, group_excluder, lagging
from reconciler.operations.consumers import unknown_consumers as blind_spot
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy, ObservedPartition, Preconditions
from reconciler.operations.topic_checks import leadership
from reconciler.policies.floor_rules import LookupTimes, RuleOffset, rules
from reconciler.text.formatting import format_duration, format_instant

if TYPE_CHECKING:
    from reconciler.policies.retention_floor import RetentionFloor


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorEvaluator:
    """One policy on one snapshot: what holds for all of its partitions, worked out once."""

    policy: "RetentionFloor"
    declared_at: SourceLocation
    snapshot: ClusterSnapshot
    instants: LookupTimes
    named: frozenset[str]
    excepted: Excepted
    blind_spot: BlockReason | None
    guard: Preconditions

    @classmethod
    def of(cls, policy: "RetentionFloor", snapshot: ClusterSnapshot) -> "FloorEvaluator":
        spec = policy.spec
        excepted = group_excluder(spec.except_groups or ())
        guard = Preconditions(
            consumers=spec.consumers,
            named=tuple(sorted(spec.keep.unread_by or ())),
            except_groups=tuple(sorted(selector.text for selector in spec.except_groups or ())),
            every_ms=spec.every_ms,
        )
        return cls(
            policy=policy,
            declared_at=policy.declared_at,
            snapshot=snapshot,
            instants=LookupTimes.of(spec.keep, snapshot.observed_at_ms, spec.drift_after),
            named=frozenset(guard.named),
            excepted=excepted,
            blind_spot=blind_spot(snapshot, excepted),
            guard=guard,
        )

    def address(self, topic: str, partition: int = -1) -> Address:
        return Address("RetentionFloor", self.policy.metadata.name, topic, partition)

    def decide(self, partition: TopicPartition) -> Decision:
        """From facts to the one decision: what is there, what the rules say, who would miss it, whether it is time."""
        decision = self._decide(partition, self.snapshot.partitions.get(partition))
        if isinstance(decision, BlockReason):
            return decision.blocked(self.address(partition.topic, partition.partition), self.declared_at)
        return decision

    def _decide(self, partition: TopicPartition, facts: PartitionFacts | None) -> Decision | BlockReason:
        keep = self.policy.spec.keep
        address = self.address(partition.topic, partition.partition)
        seen = observe_partition(partition, facts)
        if isinstance(seen, BlockReason):
            return seen
        assert facts is not None
        if keep.topic_id is not None and keep.topic_id != seen.topic_id:
            return BlockReason(
                code="B209",
                reason=f"{partition.topic} has topic id {seen.topic_id}, the manifest's offsets are for {keep.topic_id}",
                next_step="the topic was deleted and made again: read its offsets anew and correct topicId",
            )
        from_offset = None if keep.from_offset is None else keep.from_offset[partition.partition]
        if seen.stable_end <= seen.log_start and (from_offset is None or from_offset <= seen.stable_end):
            return Satisfied(address)
        found = rules(keep, self.instants, facts, seen)
        if isinstance(found, BlockReason):
            return found
        lowest = min(found, key=lambda rule: rule.offset)
        if lowest.offset <= seen.log_start:
            return Satisfied(address)
        judged = self._judge_readers(lowest.offset, facts, seen)
        if isinstance(judged, BlockReason):
            return judged
        before_offset, accepted, clamped = judged
        if before_offset <= seen.log_start:
            return Satisfied(address)
        reason = "; ".join((lowest.words, *(f"{r.name} alone: {r.offset}" for r in found if r is not lowest), *clamped))
        if self.guard.every_ms is not None:
            waits = self._clock(address, facts, self.guard.every_ms, reason)
            if waits is not None:
                return waits
        return DeleteRecords(
            address=address,
            declared_at=self.declared_at,
            reason=reason,
            mode=self.policy.mode,
            partition=partition,
            before_offset=before_offset,
            seen=seen,
            guard=replace(self.guard, accepted=accepted) if accepted else self.guard,
            vouched=keep.unread_by is not None and self.guard.consumers is LagPolicy.BLOCK and not accepted,
            drift=self._overdue(found, before_offset, seen.log_start),
        )

    def _judge_readers(
        self, floor: int, facts: PartitionFacts, seen: ObservedPartition
    ) -> tuple[int, tuple[AcceptedLag, ...], tuple[str, ...]] | BlockReason:
        """(target, readers that skip records and may, words about a clamp), or who is in the way."""
        if self.blind_spot is not None:
            return self.blind_spot
        if isinstance(facts.readers, Unknown):
            return unknown_fact(f"the groups that read {facts.partition}", facts.readers)
        if isinstance(facts.readers_below, Unknown):
            return unknown_fact(f"the groups that read {facts.partition}", facts.readers_below)
        if floor > facts.readers_below:
            return BlockReason(
                code="B213",
                reason=f"readers were looked for below offset {facts.readers_below} only, and the floor is {floor}",
                next_step="let the scan look at all readers up to the end, then plan again",
                unread=True,
            )
        late = lagging(facts.readers, floor, self.named)
        excepted = tuple(reader for reader in late if self.excepted(reader.group))
        others = tuple(reader for reader in late if not self.excepted(reader.group))
        match self.guard.consumers:
            case LagPolicy.BLOCK:
                if others:
                    return _in_the_way(others, floor, seen.log_start)
                return floor, _accepted(excepted, floor), ()
            case LagPolicy.CLAMP:
                if not others:
                    return floor, _accepted(excepted, floor), ()
                last = _furthest_behind(others)
                words = f"clamped to {last.committed}, where group {quote_group(last.group)} stands"
                return last.committed, _accepted(excepted, last.committed), (words,)
            case LagPolicy.IGNORE:
                return floor, _accepted(late, floor), ()
            case _:
                assert_never(self.guard.consumers)

    def _clock(
        self, address: Address, facts: PartitionFacts, every_ms: int, reason: str
    ) -> Waiting | BlockReason | None:
        """Kafka Streams' purge interval: more than that has passed since the last purge. Sooner is not allowed, later is fine."""
        last = facts.last_purge_ms
        if isinstance(last, Unknown):
            return unknown_fact(f"when {facts.partition} was last purged", last)
        if last is None or self.snapshot.observed_at_ms - last > every_ms:
            return None
        return Waiting(
            address=address,
            declared_at=self.declared_at,
            reason=f"{reason}; last purged at {format_instant(last)}, and purges of a partition are at least {format_duration(every_ms)} apart",
            until_ms=last + every_ms + 1,
        )

    def _overdue(self, found: tuple[RuleOffset, ...], before_offset: int, log_start: int) -> bool:
        """Whether it counts as drift: a fixed floor always does, a moving one once it was due `driftAfter` ago."""
        return log_start < min(before_offset, *(rule.before for rule in found))


def observe_partition(partition: TopicPartition, facts: PartitionFacts | None) -> ObservedPartition | BlockReason:
    """Everything an action must show about its partition, or what of it is not known."""
    led = leadership(partition, facts)
    if isinstance(led, BlockReason):
        return led
    assert facts is not None
    if led.leader is None:
        return BlockReason(
            code="B203",
            reason=f"{partition} has no leader, and only a leader deletes records",
            next_step="bring a replica of it back, then plan again",
        )
    if isinstance(facts.log_start, Unknown):
        return unknown_fact(f"the log start of {partition}", facts.log_start)
    if isinstance(facts.stable_end, Unknown):
        return unknown_fact(f"the end of {partition}", facts.stable_end)
    if isinstance(facts.high_watermark, Unknown):
        return unknown_fact(f"the high watermark of {partition}", facts.high_watermark)
    if min(facts.log_start, facts.stable_end, facts.high_watermark) < 0:
        ends = f"log start {facts.log_start}, end {facts.stable_end}, high watermark {facts.high_watermark}"
        return contradiction(f"{partition} has {ends}")
    return ObservedPartition(
        topic_id=led.topic_id,
        log_start=facts.log_start,
        stable_end=facts.stable_end,
        # read before the stable end it may be the lower number, and by then it was at least that
        high_watermark=max(facts.high_watermark, facts.stable_end),
        leader=led.leader,
        replicas=led.replicas,
        in_sync=led.in_sync,
    )


def _furthest_behind(readers: tuple[ConsumerPosition, ...]) -> ConsumerPosition:
    return min(readers, key=lambda reader: (reader.committed, reader.group))


def _in_the_way(readers: tuple[ConsumerPosition, ...], floor: int, log_start: int) -> BlockReason:
    last = _furthest_behind(readers)
    skipped = floor - max(last.committed, log_start)
    where = "has no position here, but reads the topic," if last.implied else f"is at {last.committed}"
    more = len(readers) - 1
    others = "" if not more else "; 1 more group is behind" if more == 1 else f"; {more:,} more groups are behind"
    return BlockReason(
        code="B204",
        reason=f"group {quote_group(last.group)} {where} and would skip {skipped:,} records below {floor}{others}",
        next_step="let it catch up, say consumers: clamp, or name it in exceptGroups",
    )


def _accepted(readers: tuple[ConsumerPosition, ...], before_offset: int) -> tuple[AcceptedLag, ...]:
    return tuple(sorted(AcceptedLag(r.group, r.committed) for r in readers if r.committed < before_offset))
