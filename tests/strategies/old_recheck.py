"""The rule book by which `apply` decided until plan format 3, as functions over snapshots.

Kept for one release, only to compare: what the planner leaves of a saved plan is no more than what these
rules left of it. An action remained only if everything that it was decided on still held; no target moved.
"""

from collections.abc import Iterable

from reconciler.model.block_reason import BlockReason, known
from reconciler.model.names import TopicPartition
from reconciler.model.plan import Plan
from reconciler.model.ports import Election
from reconciler.model.snapshot import GroupState, PartitionFacts
from reconciler.operations import Operation
from reconciler.operations.consumers import (
    Log,
    unknown_consumers,
    verified_offset,
    verified_positions,
)
from reconciler.operations.delete_group import REMOVABLE, DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.delete_records.preconditions import observe_partition
from reconciler.operations.elect_leader import ElectLeader
from reconciler.operations.touchable import check_records_deletable
from reconciler.plan.conflicts import ConflictIndex
from reconciler.policies import Policy, RetentionFloor
from reconciler.policies.base import Selection
from tests.strategies.planner_inputs import PlannerInput


def remaining(saved: Plan, now: PlannerInput) -> tuple[Operation, ...]:
    """Return the actions that still hold, unchanged and in the order of the plan."""
    return tuple(action for action in saved.actions if isinstance(action, Operation) and allows(action, now))


def allows(action: Operation, now: PlannerInput) -> bool:
    """Whether policies, protections and facts of now are as the action needs them."""
    if not _is_authorized(action, now.policies):
        return False
    try:
        match action:
            case DeleteRecords():
                return _purge_holds(action, now)
            case DeleteGroup():
                return _removal_holds(action, now)
            case ElectLeader():
                return _election_holds(action, now)
    except BlockReason:
        return False
    raise AssertionError(action)


def _is_authorized(operation: Operation, policies: Iterable[Policy]) -> bool:
    """Whether exactly one policy of now asks for such an action; none was asked what it decides."""
    names = {operation.address.name}
    selections = {policy.address: Selection(policy, policy.select_among(names), matched=0) for policy in policies}
    index = ConflictIndex(selections.values())
    name, number = operation.address.name, operation.address.partition
    selection = selections.get(operation.address.policy_address)
    if selection is None or not isinstance(operation, selection.policy.OPERATION):
        return False
    claimed = selection.policy.claimed_partitions(name)
    if name not in selection.subjects or not (claimed is None or number in claimed):
        return False
    conflict = index.conflicts(selection).get(name)
    if conflict is not None and (conflict.partitions is None or number in conflict.partitions):
        return False
    return index.block_removal(operation.removed_group) is None


def _partition(partition: TopicPartition, topic_id: str, now: PlannerInput) -> PartitionFacts | None:
    """Return the facts of a partition that is there, of the topic of that id."""
    topic, facts = now.snapshot.topics.get(partition.topic), now.snapshot.partitions.get(partition)
    if topic is None or facts is None or facts.topic_id != topic_id:
        return None
    return None if isinstance(topic.partitions, int) and partition.partition >= topic.partitions else facts


def _purge_holds(action: DeleteRecords, now: PlannerInput) -> bool:
    facts = _partition(action.partition, action.seen.topic_id, now)
    if facts is None or now.cluster.protection.of_topic(action.partition.topic):
        return False
    policy = next((p for p in now.policies if p.address == action.address.policy_address), None)
    exact = isinstance(policy, RetentionFloor) and policy.select_among({action.partition.topic}).get(
        action.partition.topic, False
    )
    check_records_deletable(now.snapshot.topics[action.partition.topic], exact=exact)
    observed = observe_partition(action.partition, facts)
    if not action.seen.log_start <= observed.log_start < action.before_offset:
        return False
    if observed.high_watermark < action.seen.high_watermark:
        return False
    if (every_ms := action.guard.every_ms) is not None:
        last_ms = known(facts.last_purge, "the last purge")
        if last_ms is not None and now.snapshot.observed_at_ms - last_ms <= every_ms:
            return False
    return _readers_hold(action, facts, observed.log_start, observed.high_watermark, now)


def _readers_hold(
    action: DeleteRecords, facts: PartitionFacts, log_start: int, high_watermark: int, now: PlannerInput
) -> bool:
    """Whether below the target there are only readers that the plan accepted there."""
    guard, target = action.guard, action.before_offset
    log = Log(action.partition, action.seen.topic_id, log_start, high_watermark)
    is_excluded = guard.is_excluded
    if unknown_consumers(now.snapshot, is_excluded)(action.partition.topic) is not None:
        return False
    readers = known(facts.readers, "the consumers")
    if known(facts.readers_below, "the consumers") < target:
        return False
    by_group = {reader.group: reader for reader in readers}
    for group in guard.named:
        if verified_offset(group, by_group.get(group), log) < target:
            return False
    accepted = {reader.group: reader.committed for reader in guard.accepted}
    return all(
        is_excluded(reader.group) or reader.committed >= accepted.get(reader.group, target)
        for reader in verified_positions(readers, log)
        if reader.committed < target and reader.group not in guard.named
    )


def _removal_holds(action: DeleteGroup, now: PlannerInput) -> bool:
    facts, seen = now.snapshot.groups.get(action.group), action.seen
    return (
        facts is not None
        and facts.listed is True
        and now.cluster.protection.of_group(action.group) is None
        and facts.type in REMOVABLE
        and (facts.type, facts.state, facts.fingerprint) == (seen.type, GroupState.EMPTY, seen.fingerprint)
        and seen.newest_record in (None, facts.newest_record)
    )


def _election_holds(action: ElectLeader, now: PlannerInput) -> bool:
    facts, unclean = _partition(action.partition, action.seen.topic_id, now), action.election is Election.UNCLEAN
    if facts is None or facts.replicas != action.seen.replicas:
        return False
    if unclean and now.cluster.protection.of_topic(action.partition.topic):
        return False
    leader = known(facts.leader, "the leader")
    in_sync = set(known(facts.in_sync, "the in-sync replicas")) & set(now.snapshot.brokers)
    if unclean:
        return leader is None and not in_sync
    return leader != action.leader_wanted and action.leader_wanted in in_sync
