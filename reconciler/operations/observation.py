"""Facts that an action is rechecked against, and how a recheck fails."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from reconciler.model.block_reason import BlockReason
from reconciler.model.names import NOWHERE, Address, TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot, GroupFacts, PartitionFacts, Unknown
from reconciler.operations.consumers import GroupExcluder, group_excluder, unknown_consumers
from reconciler.operations.protection import Protection

Positions = Mapping[tuple[str, TopicPartition], int | Unknown | None]

_NO_PROTECTION = Protection(cluster=Address("Cluster", ""), declared_at=NOWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecheckFailure:
    """Why an action does not go on. `status`: as of the outcome.

    SATISFIED: the desired state is there. STALE: the cluster changed. BLOCKED: it is protected now.
    WAITING: its clock has not run out. FAILED: a fact could not be read; another look may read it.
    """

    status: Status
    detail: str

    @classmethod
    def of(cls, reason: BlockReason) -> Self:
        """Return the failure of a subject that a plan of now would block."""
        return cls(status=Status.FAILED if reason.unread else Status.STALE, detail=reason.reason)

    @classmethod
    def unread(cls, what: str, fact: Unknown) -> Self:
        """Return the failure of a fact that could not be read. `what`: its name in a sentence."""
        return cls(status=Status.FAILED, detail=f"{what} could not be read: {fact.reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The facts of one look, and what is worked out once for all actions that it is about.

    `complete`: the recheck of the whole plan, which tests everything. False: the look before a
    request, which tests again what can change in seconds; protections, cleanup policies and groups
    that the plan does not name were tested by the recheck of this run.
    `positions`: before a request, the committed offset of each group that the plan names; None: none.
    `removed_groups`: groups that this run has removed. `read_at_ms`: from when on the facts grow old.
    """

    snapshot: ClusterSnapshot
    now_ms: int
    complete: bool
    read_at_ms: int = 0
    protection: Protection = _NO_PROTECTION
    positions: Positions = field(default_factory=dict)
    removed_groups: Collection[str] = ()
    _excluders: dict[tuple[str, ...], tuple[GroupExcluder, BlockReason | None]] = field(default_factory=dict)

    @classmethod
    def before_request(
        cls,
        *,
        now_ms: int,
        read_at_ms: int | None = None,
        partitions: Mapping[TopicPartition, PartitionFacts | None] | None = None,
        groups: Mapping[str, GroupFacts] | None = None,
        positions: Positions | None = None,
        removed_groups: Collection[str] = (),
    ) -> Self:
        """Return the facts of a look before a request. A partition that is None is provably gone."""
        snapshot = ClusterSnapshot(
            cluster_id="",
            observed_at_ms=now_ms,
            brokers=(),
            topics={},
            groups=groups or {},
            partitions={name: facts for name, facts in (partitions or {}).items() if facts is not None},
        )
        return cls(
            snapshot=snapshot,
            now_ms=now_ms,
            complete=False,
            read_at_ms=now_ms if read_at_ms is None else read_at_ms,
            positions=positions or {},
            removed_groups=removed_groups,
        )

    def partition(self, partition: TopicPartition, topic_id: str) -> PartitionFacts | RecheckFailure:
        """Return the facts of a partition that a plan names, or why it is not that partition any more."""
        facts = self.snapshot.partitions.get(partition)
        if (gone := self._missing(partition, facts)) is not None:
            return gone
        if facts is None:
            return RecheckFailure(status=Status.FAILED, detail=f"{partition} could not be read: the scan has no facts")
        if isinstance(facts.topic_id, Unknown):
            return RecheckFailure.unread(f"the topic id of {partition}", facts.topic_id)
        if facts.topic_id != topic_id:
            detail = f"the topic was deleted and made again: its id is {facts.topic_id}, it was {topic_id} in the plan"
            return RecheckFailure(status=Status.STALE, detail=detail)
        return facts

    def excluder(self, selectors: tuple[str, ...]) -> tuple[GroupExcluder, BlockReason | None]:
        """Return which groups these `exceptGroups` leave out, and why not every other group is known."""
        if selectors not in self._excluders:
            excluded = group_excluder(map(Selector, selectors))
            self._excluders[selectors] = (excluded, unknown_consumers(self.snapshot, excluded))
        return self._excluders[selectors]

    def _missing(self, partition: TopicPartition, facts: PartitionFacts | None) -> RecheckFailure | None:
        if not self.complete:
            return None if facts is not None else RecheckFailure(status=Status.STALE, detail=f"{partition} is gone")
        topic = self.snapshot.topics.get(partition.topic)
        if topic is None:
            hidden = self.snapshot.topics_incomplete
            if hidden is None:
                return RecheckFailure(status=Status.STALE, detail=f"topic {partition.topic} is gone")
            detail = f"topic {partition.topic} is not listed, but the list is incomplete: {hidden.reason}"
            return RecheckFailure(status=Status.FAILED, detail=detail)
        if isinstance(topic.partitions, int) and partition.partition >= topic.partitions:
            count = f"{topic.partitions} partition{'s' if topic.partitions != 1 else ''}"
            return RecheckFailure(status=Status.STALE, detail=f"{partition} is gone: the topic has {count}")
        return None


def by_partition_numbers(
    partitions: Iterable[TopicPartition],
) -> Iterable[tuple[tuple[Selector, ...], frozenset[int]]]:
    """Return topics of which the same partition numbers are named, together: one request for a
    thousand topics and not a thousand requests.
    """
    numbers_of: dict[str, set[int]] = {}
    for partition in partitions:
        numbers_of.setdefault(partition.topic, set()).add(partition.partition)
    topics_of: dict[frozenset[int], list[str]] = {}
    for topic, numbers in numbers_of.items():
        topics_of.setdefault(frozenset(numbers), []).append(topic)
    for same_numbers, topics in topics_of.items():
        yield tuple(map(Selector.literal, sorted(topics))), same_numbers
