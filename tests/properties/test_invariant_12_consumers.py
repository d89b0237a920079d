"""Invariant 12: no consumer that the manifests do not except loses a record above its real position.

A group has read a partition only up to a commit that was read, lies at or below the high watermark
and belongs to the present topic. Every other group that is known to consume it stands at the log
start: a member without a commit, a commit above the end, a commit for an earlier topic. A commit in an
open transaction can only lower a position, and a group whose first commit it is stands at the log start.
A share group may read the topics of its keys only; without keys, what a group reads that is hidden, or
rebalancing, is not known. A reader that a manifest declares stands where its position says, and at the log
start without an entry or with one above the end; an unknown position holds its topics. Groups without a name and Connect workers are
left out by their type alone, and only as long as they have neither commits nor partitions.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from reconciler.apply.context import Tuning
from reconciler.model.action import Action
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ExternalReaderRequest, PositionKind
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot, ExternalPosition, GroupType, Unknown
from reconciler.operations.delete_records import DeleteRecords, LagPolicy
from reconciler.plan import planner, recheck
from reconciler.plan.rules import RuleSet
from reconciler.policies import RetentionFloor
from tests.fakes.cluster import FakeCluster, FakeGroup, Fault
from tests.fakes.error_table import Operation
from tests.fakes.runs import FakeClock, run
from tests.fakes.timed_cluster import TimedCluster
from tests.strategies.facts import NOW_MS, OTHER_ID, SECOND, cluster, floor
from tests.strategies.planner_inputs import chance

TOPIC = "orders"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
GROUPS = ("billing", "shipping", "console-1", "connect-sink", "")
SHARE_GROUP = "workers"
READERS = tuple(
    ExternalReaderRequest(
        name=f"ExternalReader/{name}", topics=(Selector(topic),), kind=PositionKind.TABLE, at="/x.csv"
    )
    for name, topic in (("billing", TOPIC), ("lake", "clicks"))
)
"""One of them has the name of a group, and the other one names another topic than its position."""
TYPES = (GroupType.CLASSIC, GroupType.CONSUMER, GroupType.STREAMS, GroupType.CONNECT, GroupType.OTHER, GroupType.SHARE)


@dataclass
class Scenario:
    """One floor on a cluster that random changes move, from plan to request."""

    random: Random
    policy: RetentionFloor
    timed: TimedCluster
    sent: int = 0

    @property
    def cluster(self) -> FakeCluster:
        return self.timed.cluster

    def snapshot(self) -> ClusterSnapshot:
        return self.timed.snapshot(planner.scan_request([self.policy], self.timed.now_ms), {})

    def change(self) -> None:
        """Produce, commit, join, leave, subscribe, end a transaction, or hide what a group consumes."""
        r = self.random
        for _ in range(r.randint(0, 3)):
            at, name = r.choice(PARTITIONS), r.choice(GROUPS)
            group = self.cluster.groups.get(name)
            match r.randrange(11):
                case 0:
                    self.timed.produce(at, r.randint(1, 9))
                case 1 | 2:
                    # Above the end, too: Kafka takes any offset.
                    end = self.cluster.partition(at).high_watermark
                    self.cluster.commit(name, {at: max(0, end + r.randint(-12, 4))})
                    self.cluster.groups[name].topic_ids.pop(at, None)
                    self.timed.active[name] = self.timed.now_ms
                case 3:
                    self.timed.join(name, TOPIC)
                case 4:
                    self.timed.leave(name)
                case 5 if group is not None:
                    group.unread = chance(r, 2)
                case 6 if group is not None:
                    group.hidden = chance(r, 2)
                case 7:
                    self.commit_pending(at)
                case 8 if group is not None:
                    self.cluster.end_transaction(name, committed=chance(r, 2))
                case 9:
                    self.subscribe(SHARE_GROUP)
                case 10:
                    self.move_reader()

    def move_reader(self) -> None:
        """Move a reader outside of Kafka's groups, also above the end; or garble or forget its position."""
        ends = {at: self.cluster.partition(at).high_watermark for at in PARTITIONS}
        offsets = {
            at: max(0, end + self.random.randint(-9, 2)) for at, end in ends.items() if not chance(self.random, 4)
        }
        position = Unknown("it is garbled") if chance(self.random, 4) else ExternalPosition(offsets, self.timed.now_ms)
        self.cluster.external[self.random.choice(READERS)] = position

    def commit_pending(self, at: TopicPartition) -> None:
        """Let a group, if possible one with a commit here, go anywhere in a transaction that stays open."""
        names = [name for name, group in self.cluster.groups.items() if at in group.commits and not group.hidden]
        name = self.random.choice(names or GROUPS)
        self.cluster.commit_pending(name, {at: self.random.randint(0, self.cluster.partition(at).high_watermark)})
        self.timed.active[name] = self.timed.now_ms

    def subscribe(self, group: str) -> None:
        """Let a share group subscribe to a topic, which need not be that of the floor."""
        self.cluster.subscribe(group, self.random.choice((TOPIC, "clicks")))
        self.timed.active[group] = self.timed.now_ms

    def assert_holds(self, targets: Mapping[TopicPartition, int], actions: Iterable[Action]) -> None:
        """No purge takes what a group has not read, unless the manifest or the plan accepts that."""
        by_partition = {action.partition: action for action in actions if isinstance(action, DeleteRecords)}
        for at, target in targets.items():
            for position in self.reader_positions(at):
                assert position >= target, f"a reader is at {position}, and {at} loses what is below {target}"
            accepted = {lag.group: lag.committed for lag in by_partition[at].guard.accepted}
            for name, group in self.cluster.groups.items():
                if any(s.matches(name) for s in self.policy.spec.except_groups or ()):
                    continue
                position = self.real_position(name, group, at)
                assert position is None or position >= min(target, accepted.get(name, target)), (
                    f"{name!r} is at {position}, and {at} loses what is below {target}"
                )

    def reader_positions(self, at: TopicPartition) -> Iterator[int]:
        """The first offset that each declared reader of the partition still needs."""
        partition = self.cluster.partition(at)
        for reader, position in self.cluster.external.items():
            offset = position.offsets.get(at) if isinstance(position, ExternalPosition) else None
            reads = reader.selects(at.topic) or offset is not None
            if reads and self.policy.spec.consumers is not LagPolicy.IGNORE:
                is_true = offset is not None and offset <= partition.high_watermark
                yield offset if offset is not None and is_true else partition.log_start

    def real_position(self, name: str, group: FakeGroup, at: TopicPartition) -> int | None:
        """The first offset that the group still needs; None: it needs none of this topic."""
        partition, topic_id = self.cluster.partition(at), self.cluster.topics[at.topic].topic_id
        if group.subscribed is not None and not group.unread:
            return partition.log_start if TOPIC in group.subscribed else None
        if group.hidden or group.unread:
            # By type they are known to commit nothing. All others may read anything.
            return None if not name or group.type is GroupType.CONNECT else partition.log_start
        committed = group.commits.get(at, -1)
        if 0 <= committed <= partition.high_watermark and group.topic_ids.get(at, topic_id) == topic_id:
            return min(committed, group.pending.get(at, committed))
        return partition.log_start if group.consumes(at.topic) else None

    def play(self) -> None:
        """Plan, recheck and apply, with changes in between and after each request."""
        rules = RuleSet(cluster(), [self.policy])
        planned = planner.plan(rules, self.snapshot())
        self.assert_holds(_targets(planned.actions), planned.actions)
        self.change()
        seen = self.snapshot()
        checked = recheck.recheck(planned, rules, seen)
        self.assert_holds(_targets(checked.remaining), planned.actions)
        self.change()
        clock = FakeClock(self.timed.now_ms)

        def check(_operation: Operation) -> None:
            self.sent += 1
            self.assert_holds(self.cluster.requests[-1].targets, planned.actions)
            self.change()
            # What was read of a group is good for a minute if it cannot be read again.
            clock.sleep(61 if any(group.unread for group in self.cluster.groups.values()) else 11)

        self.cluster.on_request = check
        if chance(self.random, 3):
            self.cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError.NOT_LEADER_FOR_PARTITION))
        with TemporaryDirectory() as folder:
            tuning = Tuning(batch_max=1, lanes_at_once=1, attempts=2)
            run(
                self.cluster,
                checked.remaining,
                Path(folder),
                clock=clock,
                tuning=tuning,
                known_groups=seen.groups,
                consumer_offsets_ends=seen.consumer_offsets_ends,
            )


def _targets(actions: Iterable[Action]) -> dict[TopicPartition, int]:
    return {action.partition: action.before_offset for action in actions if isinstance(action, DeleteRecords)}


def scenario(seed: int) -> Scenario:
    r = Random(seed)
    timed = TimedCluster(NOW_MS)
    timed.create(TOPIC, len(PARTITIONS))
    for at in PARTITIONS:
        timed.produce(at, r.randint(5, 30))
    for name in r.sample(GROUPS, r.randint(0, 3)):
        group = timed.cluster.groups[name] = FakeGroup(
            type=GroupType.CONNECT if "connect" in name else GroupType.CLASSIC
        )
        if chance(r, 6):
            group.type = r.choice(TYPES)
        group.hidden = group.type in (GroupType.SHARE, GroupType.STREAMS) or chance(r, 12)
        timed.cluster.record_activity(name)
        timed.active[name] = NOW_MS
        for at in PARTITIONS if not chance(r, 4) else ():
            end = timed.cluster.partition(at).high_watermark
            timed.commit(name, at, max(0, end - (r.randint(0, 9) if chance(r, 3) else 0)))
            if chance(r, 8):
                timed.cluster.commit(name, {at: end + r.randint(1, 5)})
            if chance(r, 12):
                group.topic_ids[at] = OTHER_ID
        if chance(r, 5):
            timed.join(name, TOPIC)
        group.unread = chance(r, 12)
        if chance(r, 6):
            at = r.choice(PARTITIONS)
            timed.cluster.commit_pending(name, {at: r.randint(0, timed.cluster.partition(at).high_watermark)})
    if chance(r, 5):
        timed.cluster.subscribe(SHARE_GROUP, r.choice((TOPIC, "clicks")))
        timed.active[SHARE_GROUP] = NOW_MS
    timed.pass_time(60 * SECOND)
    for reader in r.sample(READERS, r.choice((0, 0, 1, 2))):
        ends = {at: timed.cluster.partition(at).high_watermark for at in PARTITIONS}
        full = {at: max(0, end - (r.randint(0, 9) if chance(r, 3) else 0)) for at, end in ends.items()}
        timed.cluster.external[reader] = ExternalPosition(full, NOW_MS)
    spec = {"consumers": r.choice(("block", "block", "clamp", "ignore"))}
    if chance(r, 3):
        spec["exceptGroups"] = r.choice((["console-*"], ["shipping"], ["*"]))
    keep = r.choice(({"last": r.randint(1, 9)}, {"newerThan": "30s"}, {"unreadBy": ["billing"]}))
    return Scenario(r, floor(TOPIC, keep=keep, **spec), timed)


@given(st.integers(0, 2**48))
def test_no_consumer_loses_what_it_has_not_read(seed: int) -> None:
    """In the plan, after the recheck and at each request."""
    scenario(seed).play()


def test_the_scenarios_purge() -> None:
    """Without requests the property would hold for nothing."""
    scenarios = [scenario(seed) for seed in range(300)]
    for each in scenarios:
        each.play()
    assert sum(each.sent > 0 for each in scenarios) >= 30
