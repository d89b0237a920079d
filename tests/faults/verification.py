"""Checks the result of a trial against the plan, the outcomes and the trial's own changes.

The facts come from Kafka's own tools and a plain consumer, never from the reconciler's client. Each
violation is one sentence.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from reconciler.companions.sandbox.client import DebugLogger, consumer_properties
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.model.selector import Selector
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from tests import kafka_client
from tests.faults.trial_setup import FLOOR, TrialSetup
from tests.faults.witness import PartitionKey, Witness
from tests.toolbox import run_kafka_tool

DONE = (Status.APPLIED, Status.SATISFIED)
NOTHING_DONE = (Status.STALE, Status.WAITING, Status.BLOCKED, Status.NOT_ATTEMPTED)


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The state of the cluster after a trial.

    `starts` are log start offsets from kafka-get-offsets, `first` the offset of the first record
    that a consumer got. `gaps` are violations in the order of offsets. `leaders` are pairs of
    leader and replicas from kafka-topics, `groups` the names from kafka-consumer-groups.
    """

    starts: Mapping[PartitionKey, int]
    first: Mapping[PartitionKey, int]
    gaps: tuple[str, ...]
    leaders: Mapping[PartitionKey, tuple[int, tuple[int, ...]]]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class TrialRun:
    """A plan and its outcomes.

    `started_s` is the instant of the apply on the monotonic clock. `was_killed`: an earlier apply
    of the plan was killed.
    """

    plan: Plan
    outcomes: Sequence[Outcome]
    started_s: float
    was_killed: bool


def read_offsets(setup: TrialSetup, time: str) -> dict[PartitionKey, int]:
    """Read the offsets of the trial's topics; `time`: earliest or latest."""
    pattern = re.escape(setup.name) + "-.*"
    offsets = {}
    for line in run_kafka_tool(setup.cluster, "kafka-get-offsets", "--topic", pattern, "--time", time).split():
        topic, number, offset = line.rsplit(":", 2)
        offsets[topic, int(number)] = int(offset)
    return offsets


def observe(setup: TrialSetup) -> ObservedState:
    """Read the state of the trial's topics and all groups."""
    pattern = re.escape(setup.name) + "-.*"
    starts = read_offsets(setup, "earliest")
    description = run_kafka_tool(setup.cluster, "kafka-topics", "--describe", "--topic", pattern)
    rows = re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\S+)\s+Replicas: ([\d,]+)", description)
    leaders = {
        (topic, int(number)): (int(leader) if leader.isdigit() else -1, tuple(map(int, replicas.split(","))))
        for topic, number, leader, replicas in rows
    }
    first, gaps = _consume(setup, starts)
    groups = frozenset(run_kafka_tool(setup.cluster, "kafka-consumer-groups", "--list").split())
    return ObservedState(starts, first, tuple(gaps), leaders, groups)


def violations(setup: TrialSetup, run: TrialRun, state: ObservedState) -> Iterator[str]:
    """Violations after the first apply: lost records, changed bystanders, false outcomes."""
    yield from state.gaps
    yield from _record_bound_violations(setup, run, state)
    yield from _bystander_violations(setup, run, state)
    for outcome in run.outcomes:
        match outcome.action:
            case DeleteRecords():
                sentences = _deletion_violations(setup, run, outcome, outcome.action, state)
            case DeleteGroup():
                sentences = _removal_violations(setup, run, outcome, outcome.action, state)
            case ElectLeader():
                sentences = _election_violations(setup, outcome, outcome.action, state)
        yield from (f"{outcome.action.address} {outcome.status} ({outcome.detail}): {text}" for text in sentences)
    planned = {action.address for action in run.plan.actions}
    reported = [outcome.action.address for outcome in run.outcomes]
    if set(reported) != planned or len(reported) != len(planned):
        yield f"{len(planned)} actions, {len(reported)} outcomes for {len(set(reported))} of them"


def convergence_violations(
    setup: TrialSetup, outcomes: Iterable[Outcome], third_plan: Plan, state: ObservedState
) -> Iterator[str]:
    """Violations after a second plan and apply without faults.

    The cluster must be in the desired state, and the third plan must have no action.
    """
    for outcome in outcomes:
        if outcome.status not in (*DONE, Status.WAITING):
            yield f"second apply: {outcome.action.address} {outcome.status}: {outcome.detail}"
    for action in third_plan.actions:
        yield f"third plan: {action.address} is not done: {action.reason}"
    for key, start in state.starts.items():
        floored = map(setup.topic, ("fixed", "single", "recent", "clamped", "ignored", "excepted"))
        if key[0] in floored and key[0] not in setup.changes.topics and start != FLOOR:
            yield f"{key} starts at {start} and not at {FLOOR}"
    decisions = {decision.address.name: decision for decision in third_plan.decisions}
    for group in setup.dead_groups:
        if group in state.groups:
            decision = decisions.get(group)
            why = f"{type(decision).__name__}: {decision.reason}" if decision else "no decision"
            yield f"{group} still exists; third plan: {why}"
    for number in range(6):
        leader, replicas = state.leaders[setup.topic("elected"), number]
        if leader != replicas[0]:
            yield f"elected[{number}] is led by {leader} of {replicas}"


def let_witnesses_finish(setup: TrialSetup) -> Iterator[str]:
    """Let the witnesses read and commit all records that the trial itself left in place."""
    ends = {key: end for key, end in read_offsets(setup, "latest").items() if key[0] not in setup.changes.topics}
    for witness in setup.witnesses:
        yield from witness.read_to(ends)


def witness_violations(
    witnesses: Iterable[Witness],
    deletions: Sequence[DeleteRecords],
    starts: Mapping[PartitionKey, int],
    *,
    changed_topics: Collection[str] = (),
) -> Iterator[str]:
    """Records that a live consumer lost and no plan announced.

    `deletions`: of all plans that were applied, whatever became of them. `changed_topics`: of these, the trial itself removed records. A member without a commit stands
    at the log start of that time, so all that is gone since then is its loss. Nothing protects it
    once its coordinator has removed it from the group.
    """
    for witness in witnesses:
        yield from witness.errors
        losses = [(gap.partition, gap.first, gap.after) for gap in witness.gaps]
        if not witness.commits:
            losses += [(key, first, starts[key]) for key, first in witness.starts.items()]
        if witness.lost and not witness.commits:
            continue
        for key, first, after in losses:
            unannounced = set(range(first, after)) - announced_losses(deletions, witness.group, key)
            if unannounced and key[0] not in changed_topics:
                yield (
                    f"WITNESS {witness.group} lost offsets {min(unannounced)} to {max(unannounced)} of {key}: "
                    f"it stood at {first}, the next record is {after}, and no plan announced it"
                )


def announced_losses(deletions: Iterable[DeleteRecords], group: str, key: PartitionKey) -> set[int]:
    """Offsets that plans let a group skip: below a target, from the position that they accepted.

    A group of exceptGroups may skip everything below the target.
    """
    offsets: set[int] = set()
    for action in deletions:
        if (action.partition.topic, action.partition.partition) != key:
            continue
        if any(Selector(text).matches(group) for text in action.guard.except_groups):
            offsets.update(range(action.before_offset))
        for reader in action.guard.accepted:
            if reader.group == group:
                offsets.update(range(reader.committed, action.before_offset))
    return offsets


def _record_bound_violations(setup: TrialSetup, run: TrialRun, state: ObservedState) -> Iterator[str]:
    """Partitions that lost more than the plan allows."""
    targets = {(a.partition.topic, a.partition.partition): a.before_offset for a in planned_deletions(run.plan)}
    for key, start in state.starts.items():
        if key[0] in setup.changes.expired:
            continue
        allowed = 0 if key[0] in setup.changes.recreated else targets.get(key, 0)
        moved_at = setup.changes.consumer_moved_at
        if key[0] == setup.topic("read") and moved_at and moved_at < run.started_s:
            allowed = min(allowed, setup.changes.consumer_offset)
        if start > allowed:
            yield f"BOUND {key} starts at {start}, at most {allowed} is allowed"
        if key in state.first and state.first[key] != start:
            yield f"BOUND {key} starts at {start}, and the first record read is {state.first[key]}"


def _bystander_violations(setup: TrialSetup, run: TrialRun, state: ObservedState) -> Iterator[str]:
    active_groups = set(setup.changes.joined)
    active_groups |= {group for group, instant in setup.changes.committed.items() if instant < run.started_s}
    # A share group is in no list of consumer groups.
    witnesses = (witness.group for witness in setup.witnesses if witness.protocol != "share")
    for group in (setup.bystander_group, setup.live_group, setup.consumer_group, *witnesses, *active_groups):
        removed_with_topic = group == setup.consumer_group and setup.topic("read") in setup.changes.recreated
        if group not in state.groups and not removed_with_topic:
            yield f"GROUP {group} was removed against the plan"
    commits = kafka_client.committed_offsets(setup.servers, setup.bystander_group, [(setup.topic("unmanaged"), 0)])
    if commits != {(setup.topic("unmanaged"), 0): 10}:
        yield f"GROUP the bystander's commit is {commits}"
    if setup.changes.brokers_disturbed or setup.changes.elected_elsewhere:
        return  # leaders may move
    may_move = {setup.topic("elected"), *setup.changes.recreated}
    for key, (leader, replicas) in state.leaders.items():
        if key[0] not in may_move and key not in setup.changes.rotated and leader != replicas[0]:
            yield f"LEADER {key} is led by {leader} of {replicas}, and no action moves it"


def _deletion_violations(
    setup: TrialSetup, run: TrialRun, outcome: Outcome, action: DeleteRecords, state: ObservedState
) -> Iterator[str]:
    key = (action.partition.topic, action.partition.partition)
    start = state.starts[key]
    if key[0] in setup.changes.recreated:
        # Its records are of now: by a rule of time nothing of them is due, which is no effect of the action.
        is_due = key[0] != setup.topic("recent") or outcome.status is not Status.SATISFIED
        was_before = setup.changes.recreated[key[0]] < run.started_s and not run.was_killed
        if was_before and is_due and outcome.status in DONE:
            yield "the topic was created again before the apply"
        return
    if key[0] in setup.changes.expired:
        return
    if key[0] == setup.topic("single") and setup.changes.broker_killed and start == 0:
        # Brokers write log start offsets to disk once a minute; after a crash of a single replica
        # the records are back.
        return
    if outcome.removed_max > action.before_offset:
        yield f"claims {outcome.removed_max} of {action.before_offset}"
    due = action.before_offset
    if key[0] == setup.topic("read") and setup.changes.consumer_moved_at:
        due = min(due, setup.changes.consumer_offset)  # what the group has to read again is not due any more
    if outcome.status in DONE and start < due:
        yield f"TRUTH the log starts at {start}"
    if run.was_killed:
        return
    if outcome.status in NOTHING_DONE and start != 0:
        yield f"TRUTH the log starts at {start}"
    if start > 0 and outcome.removed_max < start:
        yield f"TRUTH it reports {outcome.removed_max} and the log starts at {start}"


def _removal_violations(
    setup: TrialSetup, run: TrialRun, outcome: Outcome, action: DeleteGroup, state: ObservedState
) -> Iterator[str]:
    listed = action.group in state.groups
    has_changed = action.group in setup.changes.joined or action.group in setup.changes.committed
    if outcome.status in DONE and listed and not has_changed:
        yield "TRUTH it is still listed"
    topics_recreated = bool(setup.changes.recreated)
    if outcome.status in NOTHING_DONE and not listed and not run.was_killed and not topics_recreated:
        yield "TRUTH it does not exist"


def _election_violations(
    setup: TrialSetup, outcome: Outcome, action: ElectLeader, state: ObservedState
) -> Iterator[str]:
    key = (action.partition.topic, action.partition.partition)
    if setup.changes.brokers_disturbed or key[0] in setup.changes.recreated or key in setup.changes.rotated:
        return
    leader, _ = state.leaders[key]
    if outcome.status in DONE and leader != action.leader_wanted:
        yield f"TRUTH it is led by {leader}"
    if outcome.status in NOTHING_DONE and leader == action.leader_wanted and not setup.changes.elected_elsewhere:
        yield f"TRUTH it is led by {leader}"


def planned_deletions(plan: Plan) -> Iterator[DeleteRecords]:
    return (action for action in plan.actions if isinstance(action, DeleteRecords))


def _consume(setup: TrialSetup, starts: Mapping[PartitionKey, int]) -> tuple[dict[PartitionKey, int], list[str]]:
    """Read each partition with a consumer; return the first offsets and the gaps."""
    properties = consumer_properties(setup.servers, f"{setup.name}-verification") | {
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
    }
    consumer = Consumer(properties, logger=DebugLogger())
    first: dict[PartitionKey, int] = {}
    last: dict[PartitionKey, int] = {}
    gaps = []
    pending = set(starts)
    try:
        consumer.assign([TopicPartition(*key, OFFSET_BEGINNING) for key in starts])
        polls_left = 300
        while pending and polls_left:
            messages = consumer.consume(500, timeout=0.2)
            polls_left = polls_left - 1 if not messages else 300
            for message in messages:
                key = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        pending.discard(key)
                    continue
                offset = int(message.offset() or 0)
                first.setdefault(key, offset)
                if key in last and offset != last[key] + 1:
                    gaps.append(f"GAP {key}: {last[key]} is followed by {offset}")
                last[key] = offset
    finally:
        consumer.close()
    gaps += [f"GAP {key} was not read to its end" for key in pending]
    return first, gaps
