"""One floor on one partition: from facts to the decision, and what the partition's readers have to say about it.

The lowest rule comes from kinds/floor_rules.py, which topics and partitions are meant from kinds/retention_floor.py.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from reconciler.kinds.fields import format_duration, format_instant
from reconciler.kinds.floor_rules import Instants, Rule, rules
from reconciler.kinds.objection import Objection, contradiction, not_read, shown
from reconciler.kinds.readers import Excepted, behind, blind_spot, excepted_by
from reconciler.kinds.topics import leadership
from reconciler.model.action import AcceptedReader, Consumers, DeleteRecords, Guard, SeenPartition
from reconciler.model.names import Address, Place, TopicPartition
from reconciler.model.plan import Decision, Satisfied, Waiting
from reconciler.model.snapshot import ClusterSnapshot, PartitionFacts, Reader, Unread

if TYPE_CHECKING:
    from reconciler.kinds.retention_floor import RetentionFloor


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """One policy on one snapshot: what holds for all of its partitions, worked out once."""

    policy: "RetentionFloor"
    declared_at: Place
    snapshot: ClusterSnapshot
    instants: Instants
    named: frozenset[str]
    excepted: Excepted
    blind_spot: Objection | None
    guard: Guard

    @classmethod
    def of(cls, policy: "RetentionFloor", snapshot: ClusterSnapshot) -> "Floor":
        spec = policy.spec
        excepted = excepted_by(spec.except_groups or ())
        guard = Guard(
            consumers=spec.consumers,
            named=tuple(sorted(spec.keep.unread_by or ())),
            except_groups=tuple(sorted(selector.text for selector in spec.except_groups or ())),
            every_ms=spec.every_ms,
        )
        return cls(
            policy=policy,
            declared_at=policy.declared_at,
            snapshot=snapshot,
            instants=Instants.of(spec.keep, snapshot.observed_at_ms, spec.drift_after),
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
        if isinstance(decision, Objection):
            return decision.blocked(self.address(partition.topic, partition.partition), self.declared_at)
        return decision

    def _decide(self, partition: TopicPartition, facts: PartitionFacts | None) -> Decision | Objection:
        keep = self.policy.spec.keep
        address = self.address(partition.topic, partition.partition)
        seen = seen_partition(partition, facts)
        if isinstance(seen, Objection):
            return seen
        assert facts is not None
        if keep.topic_id is not None and keep.topic_id != seen.topic_id:
            return Objection(
                code="B209",
                reason=f"{partition.topic} has topic id {seen.topic_id}, the manifest's offsets are for {keep.topic_id}",
                next_step="the topic was deleted and made again: read its offsets anew and correct topicId",
            )
        from_offset = None if keep.from_offset is None else keep.from_offset[partition.partition]
        if seen.stable_end <= seen.log_start and (from_offset is None or from_offset <= seen.stable_end):
            return Satisfied(address)
        found = rules(keep, self.instants, facts, seen)
        if isinstance(found, Objection):
            return found
        lowest = min(found, key=lambda rule: rule.offset)
        if lowest.offset <= seen.log_start:
            return Satisfied(address)
        judged = self._judge_readers(lowest.offset, facts, seen)
        if isinstance(judged, Objection):
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
            vouched=keep.unread_by is not None and self.guard.consumers is Consumers.BLOCK and not accepted,
            drift=self._overdue(found, before_offset, seen.log_start),
        )

    def _judge_readers(
        self, floor: int, facts: PartitionFacts, seen: SeenPartition
    ) -> tuple[int, tuple[AcceptedReader, ...], tuple[str, ...]] | Objection:
        """(target, readers that skip records and may, words about a clamp), or who is in the way."""
        if self.blind_spot is not None:
            return self.blind_spot
        if isinstance(facts.readers, Unread):
            return not_read(f"the groups that read {facts.partition}", facts.readers)
        if isinstance(facts.readers_below, Unread):
            return not_read(f"the groups that read {facts.partition}", facts.readers_below)
        if floor > facts.readers_below:
            return Objection(
                code="B213",
                reason=f"readers were looked for below offset {facts.readers_below} only, and the floor is {floor}",
                next_step="let the scan look at all readers up to the end, then plan again",
                unread=True,
            )
        late = behind(facts.readers, floor, self.named)
        excepted = tuple(reader for reader in late if self.excepted(reader.group))
        others = tuple(reader for reader in late if not self.excepted(reader.group))
        match self.guard.consumers:
            case Consumers.BLOCK:
                if others:
                    return _in_the_way(others, floor, seen.log_start)
                return floor, _accepted(excepted, floor), ()
            case Consumers.CLAMP:
                if not others:
                    return floor, _accepted(excepted, floor), ()
                last = _furthest_behind(others)
                words = f"clamped to {last.committed}, where group {shown(last.group)} stands"
                return last.committed, _accepted(excepted, last.committed), (words,)
            case Consumers.IGNORE:
                return floor, _accepted(late, floor), ()
            case _:
                assert_never(self.guard.consumers)

    def _clock(self, address: Address, facts: PartitionFacts, every_ms: int, reason: str) -> Waiting | Objection | None:
        """Kafka Streams' purge interval: more than that has passed since the last purge. Sooner is not allowed, later is fine."""
        last = facts.last_purge_ms
        if isinstance(last, Unread):
            return not_read(f"when {facts.partition} was last purged", last)
        if last is None or self.snapshot.observed_at_ms - last > every_ms:
            return None
        return Waiting(
            address=address,
            declared_at=self.declared_at,
            reason=f"{reason}; last purged at {format_instant(last)}, and purges of a partition are at least {format_duration(every_ms)} apart",
            until_ms=last + every_ms + 1,
        )

    def _overdue(self, found: tuple[Rule, ...], before_offset: int, log_start: int) -> bool:
        """Whether it counts as drift: a fixed floor always does, a moving one once it was due `driftAfter` ago."""
        return log_start < min(before_offset, *(rule.before for rule in found))


def seen_partition(partition: TopicPartition, facts: PartitionFacts | None) -> SeenPartition | Objection:
    """Everything an action must show about its partition, or what of it is not known."""
    led = leadership(partition, facts)
    if isinstance(led, Objection):
        return led
    assert facts is not None
    if led.leader is None:
        return Objection(
            code="B203",
            reason=f"{partition} has no leader, and only a leader deletes records",
            next_step="bring a replica of it back, then plan again",
        )
    if isinstance(facts.log_start, Unread):
        return not_read(f"the log start of {partition}", facts.log_start)
    if isinstance(facts.stable_end, Unread):
        return not_read(f"the end of {partition}", facts.stable_end)
    if isinstance(facts.high_watermark, Unread):
        return not_read(f"the high watermark of {partition}", facts.high_watermark)
    if min(facts.log_start, facts.stable_end, facts.high_watermark) < 0:
        ends = f"log start {facts.log_start}, end {facts.stable_end}, high watermark {facts.high_watermark}"
        return contradiction(f"{partition} has {ends}")
    return SeenPartition(
        topic_id=led.topic_id,
        log_start=facts.log_start,
        stable_end=facts.stable_end,
        # read before the stable end it may be the lower number, and by then it was at least that
        high_watermark=max(facts.high_watermark, facts.stable_end),
        leader=led.leader,
        replicas=led.replicas,
        in_sync=led.in_sync,
    )


def _furthest_behind(readers: tuple[Reader, ...]) -> Reader:
    return min(readers, key=lambda reader: (reader.committed, reader.group))


def _in_the_way(readers: tuple[Reader, ...], floor: int, log_start: int) -> Objection:
    last = _furthest_behind(readers)
    skipped = floor - max(last.committed, log_start)
    where = "has no position here, but reads the topic," if last.implied else f"is at {last.committed}"
    more = len(readers) - 1
    others = "" if not more else "; 1 more group is behind" if more == 1 else f"; {more:,} more groups are behind"
    return Objection(
        code="B204",
        reason=f"group {shown(last.group)} {where} and would skip {skipped:,} records below {floor}{others}",
        next_step="let it catch up, say consumers: clamp, or name it in exceptGroups",
    )


def _accepted(readers: tuple[Reader, ...], before_offset: int) -> tuple[AcceptedReader, ...]:
    return tuple(sorted(AcceptedReader(r.group, r.committed) for r in readers if r.committed < before_offset))
