"""Whether one action still holds on a fresh snapshot: the table of recheck, operation by operation.

Satisfied: someone got there first. Stale: the world moved. Blocked: protected by now. Waiting: its clock has not run out. Failed: what
it rests on could not be read again. In every case nothing is sent.
"""

from dataclasses import dataclass, field
from typing import assert_never

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason, quote_group
from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot, GroupState, PartitionFacts, Unknown
from reconciler.operations.consumers import Excepted, group_excluder, lagging, unknown_consumers, verified_offset
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords, ObservedPartition
from reconciler.operations.elect_leader import ElectLeader
from reconciler.operations.topic_checks import leadership, system_topic_block
from reconciler.plan.protection import Protection
from reconciler.policies.floor_partition import observe_partition
from reconciler.policies.group_removal import REMOVABLE, absence_block
from reconciler.policies.retention_floor import cleanup_policy_block
from reconciler.text.formatting import format_duration, format_instant


@dataclass(frozen=True, slots=True)
class RecheckFailure:
    """Why an action does not go on."""

    status: Status
    detail: str


@dataclass(frozen=True, slots=True)
class RecheckContext:
    """The cluster as it stands, its protections, and what is worked out once for all actions."""

    snapshot: ClusterSnapshot
    protection: Protection
    now_ms: int
    _guards: dict[tuple[str, ...], tuple[Excepted, BlockReason | None]] = field(default_factory=dict)

    def ending(self, action: Action) -> RecheckFailure | None:
        """How the action ends before it began; None: it still holds."""
        match action:
            case DeleteRecords():
                return self._gone(action.partition) or self._purge(action)
            case DeleteGroup():
                return self._removal(action)
            case ElectLeader():
                return self._gone(action.partition) or self._election(action)
            case _:
                assert_never(action)

    def _gone(self, partition: TopicPartition) -> RecheckFailure | None:
        facts = self.snapshot.topics.get(partition.topic)
        if facts is None:
            hidden = self.snapshot.topics_incomplete
            if hidden is None:
                return RecheckFailure(Status.STALE, f"topic {partition.topic} is gone")
            return RecheckFailure(
                Status.FAILED, f"topic {partition.topic} is not listed, but the list is incomplete: {hidden.reason}"
            )
        if isinstance(facts.partitions, int) and partition.partition >= facts.partitions:
            return RecheckFailure(
                Status.STALE,
                f"{partition} is gone: the topic has {facts.partitions} partition{'s' if facts.partitions != 1 else ''}",
            )
        return None

    def _purge(self, action: DeleteRecords) -> RecheckFailure | None:
        topic = self.snapshot.topics[action.partition.topic]
        if objection := self.protection.of_records(topic.name) or system_topic_block(topic):
            return RecheckFailure(Status.BLOCKED, objection.reason)
        facts = self.snapshot.partitions.get(action.partition)
        if moved := _recreated(facts, action.seen.topic_id):
            return moved
        seen = observe_partition(action.partition, facts)
        if isinstance(seen, BlockReason):
            return RecheckFailure(Status.FAILED, seen.reason)
        if seen.log_start >= action.before_offset:
            return RecheckFailure(Status.SATISFIED, f"the log start is {seen.log_start} already")
        if seen.log_start < action.seen.log_start:
            # an election out of sync can bring records back, and nobody reviewed that those go
            return RecheckFailure(
                Status.STALE, f"the log start is {seen.log_start}, below the {action.seen.log_start} that the plan saw"
            )
        if seen.high_watermark < action.seen.high_watermark:
            # cut off, and perhaps filled again: below the target there may be records that nobody reviewed
            return RecheckFailure(
                Status.STALE,
                f"the high watermark is {seen.high_watermark}, below the {action.seen.high_watermark} that the plan saw",
            )
        if objection := cleanup_policy_block(topic):
            return _ending(objection)
        assert facts is not None
        return self._guard(action, facts, seen) or self._clock(action, facts)

    def _guard(self, action: DeleteRecords, facts: PartitionFacts, seen: ObservedPartition) -> RecheckFailure | None:
        """Who reads: each named group at or above the target, nobody below it whom the plan did not accept there."""
        excepted, blind = self._looked_at(action.guard.except_groups)
        if blind is not None:
            return _ending(blind)
        if isinstance(facts.readers, Unknown):
            return RecheckFailure(
                Status.FAILED, f"who reads {action.partition} could not be read: {facts.readers.reason}"
            )
        if isinstance(facts.readers_below, Unknown) or facts.readers_below < action.before_offset:
            return RecheckFailure(Status.FAILED, f"not everybody who reads below {action.before_offset} was looked for")
        standing = {reader.group: reader for reader in facts.readers}
        for group in action.guard.named:
            position = verified_offset(group, standing.get(group), facts, seen.topic_id, seen.high_watermark)
            if isinstance(position, BlockReason):
                return _ending(position)
            if position < action.before_offset:
                return RecheckFailure(
                    Status.STALE, f"group {quote_group(group)} is at {position} by now, below {action.before_offset}"
                )
        accepted = {reader.group: reader.committed for reader in action.guard.accepted}
        for reader in lagging(facts.readers, action.before_offset, frozenset(action.guard.named)):
            if excepted(reader.group):
                continue
            if reader.group not in accepted:
                return RecheckFailure(
                    Status.STALE,
                    f"group {quote_group(reader.group)} is at {reader.committed}, and the plan does not know it there",
                )
            if reader.committed < accepted[reader.group]:
                return RecheckFailure(
                    Status.STALE,
                    f"group {quote_group(reader.group)} is at {reader.committed}, behind the {accepted[reader.group]} that the plan accepted",
                )
        return None

    def _looked_at(self, except_groups: tuple[str, ...]) -> tuple[Excepted, BlockReason | None]:
        if except_groups not in self._guards:
            excepted = group_excluder(map(Selector, except_groups))
            self._guards[except_groups] = (excepted, unknown_consumers(self.snapshot, excepted))
        return self._guards[except_groups]

    def _clock(self, action: DeleteRecords, facts: PartitionFacts) -> RecheckFailure | None:
        every_ms = action.guard.every_ms
        last = facts.last_purge_ms
        if every_ms is None or last is None:
            return None
        if isinstance(last, Unknown):
            return RecheckFailure(
                Status.FAILED, f"when {action.partition} was last purged could not be read: {last.reason}"
            )
        if self.now_ms - last > every_ms:
            return None
        return RecheckFailure(
            Status.WAITING,
            f"last purged at {format_instant(last)}, and purges of a partition are at least {format_duration(every_ms)} apart",
        )

    def _removal(self, action: DeleteGroup) -> RecheckFailure | None:
        name = quote_group(action.group)
        if objection := self.protection.of_group(action.group):
            return RecheckFailure(Status.BLOCKED, objection.reason)
        facts = self.snapshot.groups.get(action.group)
        if facts is None or not facts.listed:
            objection = absence_block(action.group, facts, self.snapshot)
            return RecheckFailure(Status.SATISFIED, "gone already") if objection is None else _ending(objection)
        if isinstance(facts.type, Unknown):
            return RecheckFailure(Status.FAILED, f"the type of group {name} could not be read: {facts.type.reason}")
        if facts.type not in REMOVABLE:
            return RecheckFailure(Status.BLOCKED, f"group {name} is of type {facts.type}, which is never removed")
        if facts.type is not action.seen.type:
            return RecheckFailure(
                Status.STALE, f"group {name} is of type {facts.type} by now, it was {action.seen.type}"
            )
        if isinstance(facts.state, Unknown) or facts.state is GroupState.UNKNOWN:
            return RecheckFailure(Status.FAILED, f"the state of group {name} could not be read")
        if facts.state is not GroupState.EMPTY:
            return RecheckFailure(Status.STALE, f"group {name} is {facts.state} by now")
        if isinstance(facts.fingerprint, Unknown):
            return RecheckFailure(
                Status.FAILED, f"the commits of group {name} could not be read: {facts.fingerprint.reason}"
            )
        if facts.fingerprint != action.seen.fingerprint:
            return RecheckFailure(Status.STALE, f"group {name} has other commits than the plan saw")
        if action.seen.newest_record is None:
            return None
        if isinstance(facts.newest_record, Unknown):
            return RecheckFailure(
                Status.FAILED, f"the activity of group {name} could not be read: {facts.newest_record.reason}"
            )
        if facts.newest_record != action.seen.newest_record:
            return RecheckFailure(Status.STALE, f"the commit log holds a newer record of group {name}")
        return None

    def _election(self, action: ElectLeader) -> RecheckFailure | None:
        if action.election is Election.UNCLEAN and (objection := self.protection.of_records(action.partition.topic)):
            return RecheckFailure(Status.BLOCKED, objection.reason)
        facts = self.snapshot.partitions.get(action.partition)
        if moved := _recreated(facts, action.seen.topic_id):
            return moved
        led = leadership(action.partition, facts)
        if isinstance(led, BlockReason):
            return RecheckFailure(Status.FAILED, led.reason)
        in_sync = [broker for broker in led.in_sync if broker in self.snapshot.brokers]
        match action.election:
            case Election.PREFERRED:
                if led.leader is not None and led.leader == action.leader_wanted:
                    return RecheckFailure(Status.SATISFIED, f"broker {led.leader} leads already")
                if led.replicas == action.seen.replicas and action.leader_wanted not in in_sync:
                    return RecheckFailure(
                        Status.STALE, f"broker {action.leader_wanted} is not alive and in sync by now"
                    )
            case Election.UNCLEAN:
                if led.leader is not None:
                    return RecheckFailure(Status.SATISFIED, f"broker {led.leader} leads by now")
                if in_sync:
                    return RecheckFailure(
                        Status.STALE, f"broker {in_sync[0]} is alive and in sync by now: nothing needs to be lost"
                    )
            case _:
                assert_never(action.election)
        if led.replicas != action.seen.replicas:
            return RecheckFailure(
                Status.STALE,
                f"the replicas are {_listed(led.replicas)} by now, they were {_listed(action.seen.replicas)}",
            )
        return None


def _recreated(facts: PartitionFacts | None, topic_id: str) -> RecheckFailure | None:
    """A topic made again under the same name. An id that could not be read is for the facts' own check to tell."""
    if facts is None or isinstance(facts.topic_id, Unknown) or facts.topic_id == topic_id:
        return None
    return RecheckFailure(Status.STALE, f"the topic was made again: its id is {facts.topic_id}, it was {topic_id}")


def _ending(objection: BlockReason) -> RecheckFailure:
    return RecheckFailure(Status.FAILED if objection.unread else Status.STALE, objection.reason)


def _listed(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
