"""Planner, recheck and executor while the cluster changes before, between and during them.

The test checks invariant 5 (the upper bound) throughout, invariant 6 (only subjects of the plan), 7
(which groups are removed), 11 (one outcome per action) and, after the last change, invariant 4
(nothing remains to do).
"""

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reconciler.apply.context import Tuning
from reconciler.journal.entry import Event
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import ClusterSnapshot, Consumers, GroupState
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import planner, recheck
from reconciler.plan.rules import RuleSet
from reconciler.policies import Policy
from tests.fakes.cluster import FakeCluster, Fault, Request
from tests.fakes.error_table import Operation
from tests.fakes.runs import FakeClock, run
from tests.fakes.timed_cluster import TimedCluster
from tests.strategies.facts import NOW_MS, SECOND, cluster, floor, leaders, removal

TOPICS = {"orders": 2, "clicks": 1}
PARTITION_KEYS = [TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count)]
GROUPS = ["billing", "audit", "etl", "old"]
NO_LIMITS = {"recordsPercentPerTopic": 100, "recordsPercent": 100, "groupsPercent": 100}

FLOORS: list[dict[str, Any]] = [
    {"keep": {"last": 3}, "consumers": "ignore"},
    {"keep": {"last": 3}, "consumers": "clamp"},
    {"keep": {"newerThan": "10s"}},
    {"keep": {"unreadBy": ["billing"]}, "every": "5s"},
    {"keep": {"unreadBy": ["billing", "audit"], "last": 2}, "consumers": "ignore", "every": "1s"},
    {"keep": {"fromOffset": {0: 4}}, "consumers": "ignore"},
]
# None of them removes a group of an unreadBy: after such a removal the floor would be blocked.
REMOVALS = [
    removal("etl", "old", idleFor="0s"),
    removal("*", exceptGroups=["billing", "audit"], idleFor="3s"),
]

policies = st.builds(
    lambda orders, clicks, groups: [
        floor(name="orders", **orders),
        floor("clicks", name="clicks", **clicks),
        groups,
        leaders(),
    ],
    st.sampled_from(FLOORS),
    st.sampled_from(FLOORS[:-1]),
    st.sampled_from(REMOVALS),
)
partitions, groups = st.sampled_from(PARTITION_KEYS), st.sampled_from(GROUPS)
codes_by_operation = {
    Operation.DELETE_RECORDS: [
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.KAFKA_STORAGE_ERROR,
    ],
    Operation.DELETE_GROUP: [
        KafkaError._TIMED_OUT,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    ],
    Operation.ELECT_LEADER: [
        KafkaError._TIMED_OUT,
        KafkaError.NOT_CONTROLLER,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    ],
}
ambiguous_codes = [
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
]


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    """An error code in one or more responses of a broker.

    The request has its effect only where the code leaves that open.
    """
    operation = draw(st.sampled_from(list(Operation)))
    code = draw(st.sampled_from(codes_by_operation[operation]))
    return Fault(
        operation, code, has_effect=code in ambiguous_codes and draw(st.booleans()), times=draw(st.integers(1, 8))
    )


changes = st.one_of(
    st.tuples(st.just("produce"), partitions, st.integers(1, 9)),
    st.tuples(st.just("commit"), st.tuples(groups, partitions), st.integers(0, 30)),
    st.tuples(st.just("join"), groups, st.just(())),
    st.tuples(st.just("leave"), groups, st.just(0)),
    # Nothing is ever committed for this group.
    st.tuples(st.just("join"), st.just("late"), st.sampled_from([(topic,) for topic in TOPICS])),
    st.tuples(st.just("leave"), st.just("late"), st.just(0)),
    st.tuples(st.just("drop"), st.sampled_from(list(TOPICS)), st.just(0)),
    st.tuples(st.just("create"), st.sampled_from(list(TOPICS)), st.integers(0, 12)),
    st.tuples(st.just("recreate"), st.sampled_from(list(TOPICS)), st.integers(0, 20)),
    st.tuples(st.just("rewind"), st.sampled_from(["billing", "audit"]), st.integers(0, 3)),
    st.tuples(st.just("expire"), partitions, st.integers(1, 10)),
    *(st.tuples(st.just(name), st.integers(1, 3), st.just(0)) for name in ("stop", "start", "pause", "resume")),
    st.tuples(st.just("change_preferred"), partitions, st.just(0)),
)


class ClusterMachine(RuleBasedStateMachine):
    """Random changes, plans and applies.

    `bound`: for each topic id and partition, the highest log start offset that retention or an
    applied plan allows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.timed_cluster = TimedCluster(NOW_MS)
        self.folder = tempfile.TemporaryDirectory()
        self.journal = ActionJournal(JournalFile(Path(self.folder.name) / "journal.jsonl"))
        self.policies: list[Policy] = []
        self.planned: Plan | None = None
        self.bound: dict[tuple[str, int], int] = {}
        self.runs = 0

    @property
    def cluster(self) -> FakeCluster:
        return self.timed_cluster.cluster

    def teardown(self) -> None:
        try:
            self._converge()
        finally:
            self.folder.cleanup()

    @initialize(counts=st.lists(st.integers(4, 15), min_size=3, max_size=3), selected=policies)
    def create_content(self, counts: list[int], selected: list[Policy]) -> None:
        for topic, count in TOPICS.items():
            self.timed_cluster.create(topic, count)
        for key, count in zip(PARTITION_KEYS, counts, strict=True):
            self.timed_cluster.produce(key, count)
            for group in GROUPS:
                self.timed_cluster.commit(group, key, count)
        for key in PARTITION_KEYS[1:]:
            self._change(("change_preferred", key, 0))
        self.timed_cluster.pass_time(11 * SECOND)
        self.policies = selected

    @rule(selected=policies)
    def change_policies(self, selected: list[Policy]) -> None:
        self.policies = selected

    @rule(ms=st.integers(1, 12).map(SECOND.__mul__))
    def wait(self, ms: int) -> None:
        self.timed_cluster.pass_time(ms)

    @rule(batch=st.lists(changes, min_size=1, max_size=4))
    def change_cluster(self, batch: list[tuple[str, object, int]]) -> None:
        for change in batch:
            self._change(change)

    @rule()
    def plan(self) -> None:
        self.planned = self._plan()

    @rule(
        plan_again=st.booleans(),
        broker_faults=st.lists(faults(), max_size=3),
        changes_before=st.lists(changes, max_size=2),
        scheduled_changes=st.lists(st.tuples(st.integers(0, 4), changes), max_size=4),
        stop_at=st.one_of(st.none(), st.none(), st.integers(0, 4)),
        size=st.sampled_from([1, 2, 100]),
    )
    def apply(
        self,
        plan_again: bool,
        broker_faults: list[Fault],
        changes_before: list[object],
        scheduled_changes: list[tuple[int, object]],
        stop_at: int | None,
        size: int,
    ) -> None:
        if plan_again or self.planned is None:
            self.planned = self._plan()
        if self.planned.refused or self.planned.expires_at_ms <= self.timed_cluster.now_ms:
            return
        self.cluster.faults = broker_faults
        self._apply(
            self.planned, changes_before=changes_before, scheduled_changes=scheduled_changes, stop_at=stop_at, size=size
        )
        self.cluster.faults = []

    @invariant()
    def assert_upper_bound(self) -> None:
        for name, topic in self.cluster.topics.items():
            for number, partition in topic.partitions.items():
                allowed = self.bound.get((topic.topic_id, number), 0)
                assert partition.log_start <= allowed, (
                    f"{name}[{number}] starts at {partition.log_start}, allowed {allowed}"
                )

    @property
    def rule_set(self) -> RuleSet:
        return RuleSet(cluster(limits=NO_LIMITS), self.policies)

    def _snapshot(self, request: ScanRequest) -> ClusterSnapshot:
        last_purges = self.journal.last_purges(every_ms=5_000, now_ms=self.timed_cluster.now_ms)
        return self.timed_cluster.snapshot(request, last_purges)

    def _plan(self) -> Plan:
        request = planner.scan_request(self.policies, self.timed_cluster.now_ms)
        return planner.plan(self.rule_set, self._snapshot(request))

    def _apply(
        self,
        planned: Plan,
        *,
        changes_before: Sequence[object] = (),
        scheduled_changes: Sequence[tuple[int, object]] = (),
        stop_at: int | None = None,
        size: int = 100,
    ) -> list[Outcome]:
        request = recheck.scan_request(planned, self.policies, self.timed_cluster.now_ms)
        checked = recheck.recheck(planned, self.rule_set, self._snapshot(request))
        if any(not verdict.passed for verdict in checked.limits):
            return []
        for change in changes_before:
            self._change(change)
        gateway = _CheckingGateway(self, planned, scheduled_changes)
        self.cluster.requests = []
        self.cluster.on_request = gateway.check_request
        clock = _MachineClock(self.timed_cluster, gateway)
        self.runs += 1
        outcomes = run(
            gateway,  # type: ignore[arg-type]
            checked.remaining,
            Path(self.folder.name),
            journal=self.journal,
            clock=clock,
            stop=lambda: stop_at is not None and len(self.cluster.requests) > stop_at,
            tuning=Tuning(
                batch_max=size,
                # One thread, because each request is compared with the cluster at that moment.
                lanes_at_once=1,
                attempts=3,
                effect_wait_ms=300,
            ),
            run_id=f"run-{self.runs}",
        ).outcomes
        self.cluster.on_request = lambda _operation: None
        assert sorted(o.action.address for o in outcomes) == sorted(a.address for a in checked.remaining)
        for outcome in outcomes:
            gateway.check_outcome(outcome)
        return outcomes

    def _change(self, change: object) -> None:
        match change:
            case ("produce", at, count):
                self.timed_cluster.produce(at, count)
            case ("commit", (group, at), offset):
                self.timed_cluster.commit(group, at, offset)
            case ("join", group, topics):
                self.timed_cluster.join(group, *topics)
            case ("leave", group, _):
                self.timed_cluster.leave(group)
            case ("drop", topic, _) if topic in self.cluster.topics:
                self.timed_cluster.drop(topic)
            case ("create", topic, count) if topic not in self.cluster.topics:
                self.timed_cluster.create(topic, TOPICS[topic])
                for number in range(TOPICS[topic]):
                    self.timed_cluster.produce(TopicPartition(topic, number), count)
            case ("recreate", topic, count):
                self._change(("drop", topic, 0))
                self._change(("create", topic, count))
            case ("rewind", group, offset):
                for at in PARTITION_KEYS:
                    self.timed_cluster.commit(group, at, offset)
            case ("expire", at, offset) if at.topic in self.cluster.topics:
                self.cluster.expire(at, offset)
                key = (self.cluster.topics[at.topic].topic_id, at.partition)
                self.bound[key] = max(self.bound.get(key, 0), self.cluster.partition(at).log_start)
            case ("stop", broker, _):
                self.cluster.stop_broker(broker)
            case ("start", broker, _):
                self.cluster.start_broker(broker)
            case ("pause", broker, _):
                self.cluster.silent.add(broker)
            case ("resume", broker, _):
                self.cluster.silent.discard(broker)
            case ("change_preferred", at, _) if at.topic in self.cluster.topics:
                partition = self.cluster.partition(at)
                partition.replicas = (*partition.replicas[1:], partition.replicas[0])

    def _converge(self) -> None:
        """With all brokers available, plan and apply; a second plan at the same instant has no
        action.
        """
        self.cluster.silent = set()
        for broker in self.cluster.brokers:
            self.cluster.start_broker(broker)
        plan = self._plan()
        if plan.refused:
            return
        outcomes = self._apply(plan)
        assert all(o.status in (Status.APPLIED, Status.SATISFIED, Status.WAITING) for o in outcomes), outcomes
        second_plan = self._plan()
        # Without a removed group, the next plan may delete more under `consumers: clamp`.
        group_removed = any(isinstance(o.action, DeleteGroup) for o in outcomes)
        assert group_removed or not second_plan.actions, second_plan.actions
        self._apply(second_plan)
        assert not self._plan().actions


class _MachineClock(FakeClock):
    """Advances the cluster's time, too.

    Changes between two attempts happen while the executor sleeps.
    """

    def __init__(self, timed_cluster: TimedCluster, gateway: "_CheckingGateway") -> None:
        super().__init__(timed_cluster.now_ms)
        self.timed_cluster = timed_cluster
        self.gateway = gateway

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.timed_cluster.now_ms = self.now_ms
        self.gateway.make_due_changes()


class _CheckingGateway:
    """A gateway that compares each request with the cluster at that moment."""

    def __init__(self, machine: ClusterMachine, planned: Plan, scheduled_changes: Sequence[tuple[int, object]]) -> None:
        self.machine = machine
        self.cluster = machine.cluster
        self.purges = {a.partition: a for a in planned.actions if isinstance(a, DeleteRecords)}
        self.removals = {a.group: a for a in planned.actions if isinstance(a, DeleteGroup)}
        self.elections = {a.partition for a in planned.actions if isinstance(a, ElectLeader)}
        self.scheduled_changes = scheduled_changes
        self.starts = {
            (topic.topic_id, number): partition.log_start
            for topic in self.cluster.topics.values()
            for number, partition in topic.partitions.items()
        }
        self.removed: set[str] = set()
        self.has_changed = False
        self.consumers = Consumers(groups={}, commits={})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster, name)

    def read_consumers(self, topics: Collection[str], log_starts: Mapping[int, int]) -> Consumers:
        self.consumers = self.cluster.read_consumers(topics, log_starts)
        return self.consumers

    def delete_records(self, before_offsets: dict[TopicPartition, int]) -> object:
        answers = self.cluster.delete_records(before_offsets)
        self.make_due_changes()
        return answers

    def delete_groups(self, groups: list[str]) -> object:
        groups_before = set(self.cluster.groups)
        answers = self.cluster.delete_groups(groups)
        self.removed |= groups_before - set(self.cluster.groups)
        self.make_due_changes()
        return answers

    def make_due_changes(self) -> None:
        """Make the changes that are due after this number of requests."""
        due = [change for after, change in self.scheduled_changes if after < len(self.cluster.requests)]
        self.scheduled_changes = [pair for pair in self.scheduled_changes if pair[0] >= len(self.cluster.requests)]
        for change in due:
            self.has_changed = True
            self.machine._change(change)

    def check_request(self, operation: Operation) -> None:
        """Check a request: only subjects of the plan, unchanged since the plan."""
        request: Request = self.cluster.requests[-1]
        assert request.subjects
        match operation:
            case Operation.DELETE_RECORDS:
                for at, target in request.targets.items():
                    self._check_purge(at, target)
            case Operation.DELETE_GROUP:
                for group in request.subjects:
                    action = self.removals[str(group)]
                    now = self.cluster.read_groups([str(group)])[str(group)]
                    assert (now.listed, now.state, now.type) == (True, GroupState.EMPTY, action.seen.type)
                    assert now.fingerprint == action.seen.fingerprint
                    newest = self.cluster.newest_record(str(group))
                    assert action.seen.newest_record in (None, newest)
            case Operation.ELECT_LEADER:
                assert set(request.subjects) <= self.elections
        intents = {e.address for e in self.machine.journal.entries() if e.event is Event.INTENT}
        assert intents

    def _check_purge(self, partition: TopicPartition, target: int) -> None:
        action = self.purges[partition]
        topic = self.cluster.topics[partition.topic]
        assert 0 < target <= action.before_offset
        assert topic.topic_id == action.seen.topic_id
        assert "delete" in topic.cleanup
        for group in action.guard.named:
            assert self.cluster.groups[group].commits[partition] >= target
        for group, commits in self.consumers.commits.get(partition.topic, {}).items():
            # Without a commit it stands at the log start, which only the plan can accept.
            accepted = {lag.group for lag in action.guard.accepted} | self.removed
            assert partition.partition in commits or group in accepted, f"{group} has not committed"
        key = (topic.topic_id, partition.partition)
        self.machine.bound[key] = max(self.machine.bound.get(key, 0), target)

    def check_outcome(self, outcome: Outcome) -> None:
        """Compare the outcome with the cluster, where no other change can explain a difference."""
        action = outcome.action
        if isinstance(action, DeleteRecords):
            topic = self.cluster.topics.get(action.partition.topic)
            if topic is None or topic.topic_id != action.seen.topic_id:
                return
            start = topic.partitions[action.partition.partition].log_start
            before = self.starts[topic.topic_id, action.partition.partition]
            if outcome.status in (Status.APPLIED, Status.SATISFIED):
                assert start >= action.before_offset
            if outcome.status in (Status.STALE, Status.WAITING, Status.NOT_ATTEMPTED) and not self.has_changed:
                assert start == before
            assert outcome.removed_max <= action.records_max
            if not self.has_changed:
                assert start - before <= outcome.removed_max
        if isinstance(action, DeleteGroup) and outcome.status in (Status.STALE, Status.NOT_ATTEMPTED, Status.SATISFIED):
            assert action.group not in self.removed


TestClusterMachine = ClusterMachine.TestCase
TestClusterMachine.settings = settings(
    max_examples=min(settings.default.max_examples // 2, 2_000), stateful_step_count=20
)
