"""The facts that an action is checked against right before its request, and how a check fails."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from reconciler.model.block_reason import known
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.snapshot import ClusterSnapshot, GroupFacts, PartitionFacts, TopicFacts, Unknown
from reconciler.operations.consumers import GroupExcluder, UnknownConsumers, unknown_consumers


class RecheckFailure(Exception):
    """An action does not hold. `status`: as of the outcome.

    SATISFIED: the desired state is there. STALE: the cluster changed. BLOCKED: it may never be done.
    WAITING: its clock has not run out. FAILED: a fact could not be read; another try may read it.
    """

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation(ClusterSnapshot):
    """The facts right before a request, against which its actions are checked again.

    The check tests what can change in seconds; the planner has decided about everything else in this
    run. `observed_at_ms`: when reading began; of groups, when it ended. `removed_groups`: groups that this
    run has removed, without those that were created again. `positions`: newer commits of some groups;
    None: no commit.
    """

    cluster_id: str = ""
    brokers: tuple[int, ...] = ()
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, PartitionFacts] = field(default_factory=dict)
    readers_incomplete: Unknown | None = None
    removed_groups: Collection[str] = ()
    positions: Mapping[tuple[str, TopicPartition], int | Unknown | None] = field(default_factory=dict)
    _unknown: dict[GroupExcluder, UnknownConsumers] = field(default_factory=dict)

    def partition(self, partition: TopicPartition, topic_id: str) -> PartitionFacts:
        """Return the facts of a partition. Raises RecheckFailure if it is not the plan's."""
        facts = self.partitions.get(partition)
        if facts is None:
            raise RecheckFailure(Status.STALE, "the partition is gone")
        present_id = known(facts.topic_id, "the topic id of", partition)
        if present_id != topic_id:
            change = f"its id is {present_id}, it was {topic_id}"
            raise RecheckFailure(Status.STALE, f"the topic was deleted and created again: {change}")
        return facts

    def unknown_consumers(self, is_excluded: GroupExcluder) -> UnknownConsumers:
        """Return why not every group is known that these `exceptGroups` do not leave out."""
        if is_excluded not in self._unknown:
            self._unknown[is_excluded] = unknown_consumers(self, is_excluded)
        return self._unknown[is_excluded]


def present(read: Mapping[TopicPartition, PartitionFacts | None]) -> dict[TopicPartition, PartitionFacts]:
    """Return what was read of partitions without those that are provably gone."""
    return {partition: facts for partition, facts in read.items() if facts is not None}
