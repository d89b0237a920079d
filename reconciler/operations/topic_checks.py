"""What kinds that select partitions object to alike: topics and partitions that are not there, and facts that an action must show.

Whether a floor or a leader wants something of them is decided per kind.
"""

from collections.abc import Collection

from reconciler.model.block_reason import BlockReason, contradiction, unknown_fact
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import ClusterSnapshot, PartitionFacts, TopicFacts, Unknown
from reconciler.operations.elect_leader import ObservedLeadership
from reconciler.text.suggest import did_you_mean

_MANY = 2_000
"""From how many names on no nearest one is looked for: a hint must not cost minutes on a large cluster."""


def suggestion(word: str, known: Collection[str]) -> str:
    """`; did you mean …` or nothing."""
    near = did_you_mean(word, known) if len(known) < _MANY else None
    return f'; did you mean "{near}"?' if near else ""


def unknown_topic(topic: str, snapshot: ClusterSnapshot) -> BlockReason:
    """An exact name that the cluster did not list. A topic that the caller may not describe looks just the same."""
    hidden = snapshot.topics_incomplete
    why = "not on the cluster, or hidden from this principal" if hidden is None else f"not listed: {hidden.reason}"
    return BlockReason(
        code="B101",
        reason=f"topic {topic} is {why}{suggestion(topic, snapshot.topics)}",
        next_step="correct the name, create the topic, or grant DESCRIBE on it",
        unread=hidden is not None,
    )


def unknown_partition(partition: TopicPartition, count: int) -> BlockReason:
    """A partition number beyond the last one."""
    return BlockReason(
        code="B102",
        reason=f"{partition.topic} has {count} partition{'s' if count != 1 else ''}, so none with number {partition.partition}",
        next_step="correct partitions; numbers begin at 0",
    )


def system_topic_block(facts: TopicFacts) -> BlockReason | None:
    """Kafka's own topics lose no records, by no name and no pattern."""
    if not facts.internal and not facts.name.startswith("__"):
        return None
    return BlockReason(
        code="B201",
        reason=f"{facts.name} belongs to Kafka itself: losing records of it can destroy a cluster's state",
        next_step="take it out of topics, or add it to exceptTopics",
    )


def leadership(partition: TopicPartition, facts: PartitionFacts | None) -> ObservedLeadership | BlockReason:
    """The metadata of one partition, all of it known."""
    if facts is None:
        return unknown_fact(f"{partition}", Unknown("the scan has no facts about it"))
    if isinstance(facts.topic_id, Unknown):
        return unknown_fact(f"the topic id of {partition}", facts.topic_id)
    if isinstance(facts.leader, Unknown):
        return unknown_fact(f"the leader of {partition}", facts.leader)
    if isinstance(facts.replicas, Unknown):
        return unknown_fact(f"the replicas of {partition}", facts.replicas)
    if isinstance(facts.in_sync, Unknown):
        return unknown_fact(f"the in-sync replicas of {partition}", facts.in_sync)
    if not facts.replicas:
        return contradiction(f"{partition} has no replicas")
    return ObservedLeadership(
        topic_id=facts.topic_id, leader=facts.leader, replicas=facts.replicas, in_sync=facts.in_sync
    )


def cleanup_policy_block(facts: TopicFacts) -> BlockReason | None:
    """Brokers delete records only where the cleanup policy deletes (KIP-107: POLICY_VIOLATION otherwise)."""
    policy = facts.cleanup_policy
    if isinstance(policy, Unknown):
        return unknown_fact(f"the cleanup policy of {facts.name}", policy)
    if "delete" in policy:
        return None
    return BlockReason(
        code="B202",
        reason=f"cleanup.policy of {facts.name} is {','.join(sorted(policy)) or 'empty'}: brokers delete no records of it",
        next_step="take it out of topics, or give it a cleanup.policy that deletes",
    )
