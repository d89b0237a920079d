"""What Kafka's own tools and a plain consumer see after a trial, held against the plan, the outcomes and the ledger.

Nothing here asks the reconciler's own client. A sentence per violation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.sandbox.client import DebugLogger, consumer_properties
from tests import kafka_client
from tests.faults.world import FLOOR, At, World

DONE = (Status.APPLIED, Status.SATISFIED)
NOTHING_DONE = (Status.STALE, Status.WAITING, Status.BLOCKED, Status.NOT_ATTEMPTED)


@dataclass(frozen=True, slots=True)
class Seen:
    """`starts`: log starts by kafka-get-offsets. `first`: the first record that a consumer got; absent: none. `leaders`: (leader,
    replicas) by kafka-topics. `groups`: by kafka-consumer-groups."""

    starts: Mapping[At, int]
    first: Mapping[At, int]
    holes: tuple[str, ...]
    leaders: Mapping[At, tuple[int, tuple[int, ...]]]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Trial:
    """What was tried. `began` and `ended`: of the apply, monotonic seconds. `dirty`: an earlier run of the plan was killed half way."""

    plan: Plan
    outcomes: Sequence[Outcome]
    began: float
    dirty: bool


def look(world: World) -> Seen:
    """Everything of this trial, from outside."""
    pattern = re.escape(world.name) + "-.*"
    starts = {}
    for line in world.toolbox.run("kafka-get-offsets", "--topic", pattern, "--time", "earliest").split():
        topic, number, offset = line.rsplit(":", 2)
        starts[topic, int(number)] = int(offset)
    described = world.toolbox.run("kafka-topics", "--describe", "--topic", pattern)
    rows = re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\S+)\s+Replicas: ([\d,]+)", described)
    leaders = {
        (topic, int(number)): (int(leader) if leader.isdigit() else -1, tuple(map(int, replicas.split(","))))
        for topic, number, leader, replicas in rows
    }
    first, holes = _consume(world, starts)
    groups = frozenset(world.toolbox.run("kafka-consumer-groups", "--list").split())
    return Seen(starts, first, tuple(holes), leaders, groups)


def violations(world: World, trial: Trial, seen: Seen) -> Iterator[str]:
    """After the first apply: the bound, bystanders, and whether each outcome told the truth."""
    yield from seen.holes
    yield from _bound(world, trial, seen)
    yield from _bystanders(world, trial, seen)
    for outcome in trial.outcomes:
        match outcome.action:
            case DeleteRecords():
                found = _purge(world, trial, outcome, outcome.action, seen)
            case DeleteGroup():
                found = _removal(world, trial, outcome, outcome.action, seen)
            case ElectLeader():
                found = _election(world, outcome, outcome.action, seen)
        yield from (f"{outcome.action.address} {outcome.status} ({outcome.detail}): {text}" for text in found)
    planned = {action.address for action in trial.plan.actions}
    told = [outcome.action.address for outcome in trial.outcomes]
    if set(told) != planned or len(told) != len(planned):
        yield f"{len(planned)} actions, {len(told)} outcomes of {len(set(told))} of them"


def not_converged(world: World, outcomes: Iterable[Outcome], left: Plan, seen: Seen) -> Iterator[str]:
    """After a second plan and apply without faults: everything is as desired, and a third plan has nothing to do."""
    for outcome in outcomes:
        if outcome.status not in (*DONE, Status.WAITING):
            yield f"second apply: {outcome.action.address} {outcome.status}: {outcome.detail}"
    for action in left.actions:
        yield f"third plan: {action.address} is still to be done: {action.reason}"
    for at, start in seen.starts.items():
        untouched = at[0] not in world.ledger.recreated and at[0] not in world.ledger.expired
        if (
            at[0] in (world.topic("fixed"), world.topic("single"), world.topic("recent"))
            and untouched
            and start != FLOOR
        ):
            yield f"{at} starts at {start} and not at {FLOOR}"
    for group in world.dead:
        if group in seen.groups:
            yield f"{group} is still there"
    for number in range(6):
        leader, replicas = seen.leaders[world.topic("led"), number]
        if leader != replicas[0]:
            yield f"led[{number}] is led by {leader} of {replicas}"


def _bound(world: World, trial: Trial, seen: Seen) -> Iterator[str]:
    """Nothing beyond the plan was removed, whoever says what."""
    targets = {(a.partition.topic, a.partition.partition): a.before_offset for a in _purges(trial.plan)}
    for at, start in seen.starts.items():
        if at[0] in world.ledger.expired:
            continue
        allowed = 0 if at[0] in world.ledger.recreated else targets.get(at, 0)
        if at[0] == world.topic("read") and world.ledger.reader_moved and world.ledger.reader_moved < trial.began:
            allowed = min(allowed, world.ledger.read_back_to)
        if start > allowed:
            yield f"BOUND {at} starts at {start}, allowed were {allowed}"
        if at in seen.first and seen.first[at] != start:
            yield f"BOUND {at} starts at {start}, and the first record read is {seen.first[at]}"


def _bystanders(world: World, trial: Trial, seen: Seen) -> Iterator[str]:
    spared = set(world.ledger.joined)
    spared |= {group for group, at in world.ledger.committed.items() if at < trial.began}
    for group in (world.bystander, world.live, world.reader, *spared):
        gone_with_topic = group == world.reader and world.topic("read") in world.ledger.recreated
        if group not in seen.groups and not gone_with_topic:
            yield f"GROUP {group} is gone and was not to be removed"
    kept = kafka_client.committed_offsets(world.servers, world.bystander, [(world.topic("aside"), 0)])
    if kept != {(world.topic("aside"), 0): 10}:
        yield f"GROUP the bystander's commit is {kept}"
    moved = world.ledger.brokers_disturbed or world.ledger.elected_by_others
    misled = {(world.topic("led"), number) for number in range(6)} | world.ledger.turned
    for at, (leader, replicas) in seen.leaders.items():
        if not moved and at not in misled and at[0] not in world.ledger.recreated and leader != replicas[0]:
            yield f"LEADER {at} is led by {leader} of {replicas}, and nobody was to move it"


def _purge(world: World, trial: Trial, outcome: Outcome, action: DeleteRecords, seen: Seen) -> Iterator[str]:
    at = (action.partition.topic, action.partition.partition)
    start = seen.starts[at]
    if at[0] in world.ledger.recreated:
        if world.ledger.recreated[at[0]] < trial.began and outcome.status in DONE and not trial.dirty:
            yield "the topic had been made again before"
        return
    if at[0] in world.ledger.expired:
        return
    if at[0] == world.topic("single") and world.ledger.broker_killed and start == 0:
        # A log start reaches the disk once a minute: of a single replica that crashes before, the removed records come back.
        return
    if outcome.removed_max > action.before_offset:
        yield f"claims {outcome.removed_max} of {action.before_offset}"
    if outcome.status in DONE and start < action.before_offset:
        yield f"TRUTH the log starts at {start}"
    if trial.dirty:
        return
    if outcome.status in NOTHING_DONE and start != 0:
        yield f"TRUTH the log starts at {start}"
    if start > 0 and outcome.removed_max < start:
        yield f"TRUTH it owns to {outcome.removed_max} and the log starts at {start}"


def _removal(world: World, trial: Trial, outcome: Outcome, action: DeleteGroup, seen: Seen) -> Iterator[str]:
    there = action.group in seen.groups
    touched = action.group in world.ledger.joined or action.group in world.ledger.committed
    if outcome.status in DONE and there and not touched:
        yield "TRUTH it is still listed"
    gone_with_topics = bool(world.ledger.recreated)
    if outcome.status in NOTHING_DONE and not there and not trial.dirty and not gone_with_topics:
        yield "TRUTH it is gone"


def _election(world: World, outcome: Outcome, action: ElectLeader, seen: Seen) -> Iterator[str]:
    at = (action.partition.topic, action.partition.partition)
    if world.ledger.brokers_disturbed or at[0] in world.ledger.recreated or at in world.ledger.turned:
        return
    leader, _ = seen.leaders[at]
    if outcome.status in DONE and leader != action.leader_wanted:
        yield f"TRUTH it is led by {leader}"
    if outcome.status in NOTHING_DONE and leader == action.leader_wanted and not world.ledger.elected_by_others:
        yield f"TRUTH it is led by {leader}"


def _purges(plan: Plan) -> Iterator[DeleteRecords]:
    return (action for action in plan.actions if isinstance(action, DeleteRecords))


def _consume(world: World, starts: Mapping[At, int]) -> tuple[dict[At, int], list[str]]:
    """First record of each partition as a consumer sees it, and where the records after it are not one after another."""
    properties = consumer_properties(world.servers, f"{world.name}-witness") | {
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
    }
    consumer = Consumer(properties, logger=DebugLogger())
    first: dict[At, int] = {}
    last: dict[At, int] = {}
    holes = []
    left = set(starts)
    try:
        consumer.assign([TopicPartition(*at, OFFSET_BEGINNING) for at in starts])
        patience = 300
        while left and patience:
            messages = consumer.consume(500, timeout=0.2)
            patience = patience - 1 if not messages else 300
            for message in messages:
                at = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        left.discard(at)
                    continue
                offset = int(message.offset() or 0)
                first.setdefault(at, offset)
                if at in last and offset != last[at] + 1:
                    holes.append(f"HOLE {at}: {last[at]} is followed by {offset}")
                last[at] = offset
    finally:
        consumer.close()
    holes += [f"HOLE {at} could not be read to its end" for at in left]
    return first, holes
