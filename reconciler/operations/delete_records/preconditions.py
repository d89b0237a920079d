"""What a record deletion saw of its partition, and the conditions that its request must still meet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from reconciler.model.block_reason import BlockReason, contradiction, known
from reconciler.model.bounds import Int32, NonEmpty
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import ClusterSnapshot, ConsumerPosition, PartitionFacts
from reconciler.operations.consumers import (
    GroupExcluder,
    Log,
    UnknownConsumers,
    external_positions,
    group_excluder,
    verified_positions,
)
from reconciler.operations.elect_leader import observe_leadership
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
        group_excluder(self.except_groups)

    @property
    def is_excluded(self) -> GroupExcluder:
        """Says whether a group is one of exceptGroups."""
        return group_excluder(self.except_groups)

    @property
    def conditions(self) -> Mapping[str, tuple[str, ...]]:
        """All but the accepted readers, by the field of the manifest."""
        every = () if self.every_ms is None else (format_duration(self.every_ms),)
        return {
            "consumers": (self.consumers,),
            "unreadBy": self.named,
            "exceptGroups": self.except_groups,
            "every": every,
        }

    def describe_change(self, before: "Preconditions") -> str:
        """Say which conditions are not those that were reviewed; empty: none."""
        return "; ".join(
            f"{word} is {first_few(list(now)) or 'not set'}, it was {first_few(list(then)) or 'not set'} in the reviewed plan"
            for (word, now), then in zip(self.conditions.items(), before.conditions.values(), strict=True)
            if now != then
        )

    def consumers_below(
        self, offset: int, facts: PartitionFacts, log: Log, snapshot: ClusterSnapshot, unknown: UnknownConsumers
    ) -> tuple[list[ConsumerPosition], Iterator[ConsumerPosition]]:
        """Return the groups and the external readers that would skip records below an offset.

        Raises BlockReason, for external readers once they are asked for.
        """
        if (block := unknown(log.partition.topic)) is not None:
            raise block.with_traceback(None)  # raised for many partitions
        positions = known(facts.readers, "the groups that read", log.partition)
        groups = [reader for reader in verified_positions(positions, log) if reader.committed < offset]
        external = () if self.consumers is LagPolicy.IGNORE else external_positions(snapshot, log)
        return groups, (reader for reader in external if reader.committed < offset)

    @property
    def watched(self) -> tuple[AcceptedLag, ...]:
        """The accepted readers, without the groups of exceptGroups."""
        is_excluded = self.is_excluded
        return tuple(reader for reader in self.accepted if not is_excluded(reader.group))


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

    def log_of(self, partition: TopicPartition) -> Log:
        return Log(partition, self.topic_id, self.log_start, self.high_watermark)


def observe_partition(partition: TopicPartition, facts: PartitionFacts | None) -> ObservedPartition:
    """Return what an action shows about its partition. Raises BlockReason for Unknown."""
    leadership = observe_leadership(partition, facts)
    assert facts is not None
    if leadership.leader is None:
        replicas = broker_ids(sorted(leadership.replicas))
        noun = "broker" if len(leadership.replicas) == 1 else "brokers"
        next_step = f"start one of its replicas ({noun} {replicas}), then plan again"
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
