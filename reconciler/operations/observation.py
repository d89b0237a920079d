"""The facts that an action is rechecked against, and how a recheck fails."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from reconciler.model.block_reason import BlockReason
from reconciler.model.names import NOWHERE, Address, TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot, GroupFacts, PartitionFacts, Unknown
from reconciler.operations.checks import GroupExcluder, Protection, group_excluder, known, unknown_consumers
from reconciler.text.formatting import count

_NO_PROTECTION = Protection(cluster=Address("Cluster", ""), declared_at=NOWHERE)


class RecheckFailure(Exception):
    """An action does not hold. `status`: as of the outcome.

    SATISFIED: the desired state is there. STALE: the cluster changed. BLOCKED: it is protected now.
    WAITING: its clock has not run out. FAILED: a fact could not be read; another try may read it.
    """

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def check_unprotected(block: BlockReason | None) -> None:
    """Raise RecheckFailure where a protection blocks the subject."""
    if block is not None:
        raise RecheckFailure(Status.BLOCKED, block.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The facts that actions are checked against.

    `complete`: the recheck of the whole plan, which tests everything. False: the check right before
    a request, which tests again what can change in seconds; protections and cleanup policies were
    tested by the recheck of this run. `removed_groups`: groups that this run has removed, without those
    that were created again.
    `read_at_ms`: when reading began; of groups, when it ended.
    """

    snapshot: ClusterSnapshot
    now_ms: int
    complete: bool
    read_at_ms: int = 0
    protection: Protection = _NO_PROTECTION
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
        groups_incomplete: Unknown | None = None,
        removed_groups: Collection[str] = (),
    ) -> Self:
        """Return the facts right before a request. A partition that is None is provably gone."""
        snapshot = ClusterSnapshot(
            cluster_id="",
            observed_at_ms=now_ms,
            brokers=(),
            topics={},
            groups=groups or {},
            partitions={name: facts for name, facts in (partitions or {}).items() if facts is not None},
            groups_incomplete=groups_incomplete,
            readers_incomplete=None,
        )
        return cls(
            snapshot=snapshot,
            now_ms=now_ms,
            complete=False,
            read_at_ms=now_ms if read_at_ms is None else read_at_ms,
            removed_groups=removed_groups,
        )

    def partition(self, partition: TopicPartition, topic_id: str) -> PartitionFacts:
        """Return the facts of a partition. Raises RecheckFailure if it is not the plan's."""
        topic = self.snapshot.topics.get(partition.topic)
        facts = self.snapshot.partitions.get(partition)
        if self.complete and topic is None:
            if self.snapshot.topics_incomplete is None:
                raise RecheckFailure(Status.STALE, f"topic {partition.topic} is gone")
            hidden = f"the list is incomplete: {self.snapshot.topics_incomplete.reason}"
            raise RecheckFailure(Status.FAILED, f"topic {partition.topic} is not listed, but {hidden}")
        if topic is not None and isinstance(topic.partitions, int) and partition.partition >= topic.partitions:
            partitions = count(topic.partitions, "partition")
            raise RecheckFailure(Status.STALE, f"{partition} is gone: the topic has {partitions}")
        if facts is None:
            if self.complete:
                raise RecheckFailure(Status.FAILED, f"{partition} could not be read: the scan has no facts")
            raise RecheckFailure(Status.STALE, f"{partition} is gone")
        present_id = known(facts.topic_id, "the topic id of", partition)
        if present_id != topic_id:
            change = f"its id is {present_id}, it was {topic_id} in the plan"
            raise RecheckFailure(Status.STALE, f"the topic was deleted and created again: {change}")
        return facts

    def excluder(self, selectors: tuple[str, ...]) -> tuple[GroupExcluder, BlockReason | None]:
        """Return what these `exceptGroups` leave out, and why not every other group is known."""
        if selectors not in self._excluders:
            excluded = group_excluder(map(Selector, selectors))
            self._excluders[selectors] = (excluded, unknown_consumers(self.snapshot, excluded))
        return self._excluders[selectors]


def by_partition_numbers(
    partitions: Iterable[TopicPartition],
) -> Iterable[tuple[tuple[Selector, ...], frozenset[int]]]:
    """Group the topics with the same partition numbers: they need only one request."""
    numbers_of: defaultdict[str, set[int]] = defaultdict(set)
    for partition in partitions:
        numbers_of[partition.topic].add(partition.partition)
    topics_of: defaultdict[frozenset[int], list[str]] = defaultdict(list)
    for topic, numbers in numbers_of.items():
        topics_of[frozenset(numbers)].append(topic)
    for same_numbers, topics in topics_of.items():
        yield tuple(map(Selector.literal, sorted(topics))), same_numbers
