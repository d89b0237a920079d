"""Planner, recheck and applier in a world that moves before, between and during them: whatever happens, the promises hold.

Held here: the bound of invariant 5 on the whole way, 6 (only subjects of the plan), 7 (who is removed), 11 (every action ends as itself),
and after every storm the calm of invariant 4.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import KafkaError
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reconciler.apply.context import Tuning
from reconciler.journal.entry import Event
from reconciler.journal.journal import file_journal
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.model.snapshot import GroupState
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import planner, recheck
from reconciler.policies import Policy
from tests.fakes.cluster import FakeCluster, Fault, Request
from tests.fakes.error_table import Operation
from tests.fakes.runs import Ticker, run
from tests.fakes.timed_cluster import TimedCluster
from tests.strategies.facts import NOW_MS, SECOND, cluster, floor, leaders, removal

TOPICS = {"orders": 2, "clicks": 1}
ATS = [TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count)]
GROUPS = ["billing", "audit", "etl", "old"]
OPEN = {"recordsPercentPerTopic": 100, "recordsPercent": 100, "groupsPercent": 100}

FLOORS: list[Callable[[str], Policy]] = [
    lambda topic: floor(topic, name=topic, keep={"last": 3}, consumers="ignore"),
    lambda topic: floor(topic, name=topic, keep={"last": 3}, consumers="clamp"),
    lambda topic: floor(topic, name=topic, keep={"newerThan": "10s"}),
    lambda topic: floor(topic, name=topic, keep={"unreadBy": ["billing"]}, every="5s"),
    lambda topic: floor(
        topic, name=topic, keep={"unreadBy": ["billing", "audit"], "last": 2}, consumers="ignore", every="1s"
    ),
    lambda topic: floor(topic, name=topic, keep={"fromOffset": {0: 4}}, consumers="ignore"),
]
# A plan that removes the group by which another policy purges does not settle, and is not wanted to: not among these.
REMOVALS: list[Callable[[], Policy]] = [
    lambda: removal("etl", "old", idleFor="0s"),
    lambda: removal("*", exceptGroups=["billing", "audit"], idleFor="3s"),
]

policies = st.builds(
    lambda first, second, third: [FLOORS[first]("orders"), FLOORS[second]("clicks"), REMOVALS[third](), leaders()],
    st.integers(0, len(FLOORS) - 1),
    st.integers(0, len(FLOORS) - 2),
    st.integers(0, len(REMOVALS) - 1),
)
ats, groups = st.sampled_from(ATS), st.sampled_from(GROUPS)
codes = {
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
lost_requests = [
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
]


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    """A code that a broker answers once or more; carried out only where such an answer leaves that open."""
    operation = draw(st.sampled_from(list(Operation)))
    code = draw(st.sampled_from(codes[operation]))
    return Fault(
        operation, code, carried_out=code in lost_requests and draw(st.booleans()), times=draw(st.integers(1, 8))
    )


changes = st.one_of(
    st.tuples(st.just("produce"), ats, st.integers(1, 9)),
    st.tuples(st.just("commit"), st.tuples(groups, ats), st.integers(0, 30)),
    st.tuples(st.just("join"), groups, st.just(0)),
    st.tuples(st.just("leave"), groups, st.just(0)),
    st.tuples(st.just("drop"), st.sampled_from(list(TOPICS)), st.just(0)),
    st.tuples(st.just("create"), st.sampled_from(list(TOPICS)), st.integers(0, 12)),
    st.tuples(st.just("recreate"), st.sampled_from(list(TOPICS)), st.integers(0, 20)),
    st.tuples(st.just("back"), st.sampled_from(["billing", "audit"]), st.integers(0, 3)),
    st.tuples(st.just("expire"), ats, st.integers(1, 10)),
    st.tuples(st.just("stop"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("start"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("silence"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("hear"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("turn"), ats, st.just(0)),
)


class Storm(RuleBasedStateMachine):
    """`expired`: how far records of a partition (by topic id) went on their own. `bound`: how far plans that ran allowed it."""

    def __init__(self) -> None:
        super().__init__()
        self.lab = TimedCluster(NOW_MS)
        self.folder = tempfile.TemporaryDirectory()
        self.journal = file_journal(Path(self.folder.name) / "journal.jsonl")
        self.policies: list[Policy] = []
        self.planned: Plan | None = None
        self.bound: dict[tuple[str, int], int] = {}
        self.runs = 0

    def teardown(self) -> None:
        try:
            self._calm()
        finally:
            self.folder.cleanup()

    @initialize(made=st.lists(st.integers(4, 15), min_size=3, max_size=3), chosen=policies)
    def begin(self, made: list[int], chosen: list[Policy]) -> None:
        for topic, count in TOPICS.items():
            self.lab.create(topic, count)
        for at, count in zip(ATS, made, strict=True):
            self.lab.produce(at, count)
            for group in GROUPS:
                self.lab.commit(group, at, count)
        for at in ATS[1:]:
            self._change(("turn", at, 0))
        self.lab.pass_time(11 * SECOND)
        self.policies = chosen

    @rule(chosen=policies)
    def rewrite(self, chosen: list[Policy]) -> None:
        self.policies = chosen

    @rule(ms=st.integers(1, 12).map(SECOND.__mul__))
    def wait(self, ms: int) -> None:
        self.lab.pass_time(ms)

    @rule(some=st.lists(changes, min_size=1, max_size=4))
    def move(self, some: list[tuple[str, object, int]]) -> None:
        for change in some:
            self._change(change)

    @rule()
    def plan(self) -> None:
        self.planned = self._plan()

    @rule(
        anew=st.booleans(),
        some=st.lists(faults(), max_size=3),
        gap=st.lists(changes, max_size=2),
        between=st.lists(st.tuples(st.integers(0, 4), changes), max_size=4),
        stop_at=st.one_of(st.none(), st.none(), st.integers(0, 4)),
        size=st.sampled_from([1, 2, 100]),
    )
    def apply(
        self,
        anew: bool,
        some: list[Fault],
        gap: list[object],
        between: list[tuple[int, object]],
        stop_at: int | None,
        size: int,
    ) -> None:
        if anew or self.planned is None:
            self.planned = self._plan()
        if self.planned.refused or self.planned.expires_at_ms <= self.lab.now_ms:
            return
        self.lab.cluster.faults = some
        self._apply(self.planned, gap=gap, between=between, stop_at=stop_at, size=size)
        self.lab.cluster.faults = []

    @invariant()
    def nothing_beyond_what_was_planned(self) -> None:
        for name, topic in self.lab.cluster.topics.items():
            for number, partition in topic.partitions.items():
                allowed = self.bound.get((topic.topic_id, number), 0)
                assert partition.log_start <= allowed, (
                    f"{name}[{number}] starts at {partition.log_start}, allowed {allowed}"
                )

    def _plan(self) -> Plan:
        needs = planner.scan_request(self.policies, self.lab.now_ms)
        snapshot = self.lab.snapshot(needs, self.journal.last_purges())
        made = cluster(limits=OPEN)
        return planner.plan(cluster=made, policies=self.policies, waivers=(), snapshot=snapshot)

    def _apply(
        self,
        planned: Plan,
        *,
        gap: Sequence[object] = (),
        between: Sequence[tuple[int, object]] = (),
        stop_at: int | None = None,
        size: int = 100,
    ) -> list[Outcome]:
        needs = recheck.scan_request(planned)
        snapshot = self.lab.snapshot(needs, self.journal.last_purges())
        checked = recheck.recheck(planned, cluster(limits=OPEN), (), snapshot, self.lab.now_ms)
        if any(not verdict.passed for verdict in checked.limits):
            return []
        for change in gap:
            self._change(change)
        watch = _Watch(self, planned, between)
        self.lab.cluster.requests = []
        self.lab.cluster.meanwhile = watch.before
        clock = _LabClock(self.lab, watch)
        self.runs += 1
        outcomes = run(
            watch,  # type: ignore[arg-type]
            checked.remaining,
            Path(self.folder.name),
            journal=self.journal,
            clock=clock,
            stop=lambda: stop_at is not None and len(self.lab.cluster.requests) > stop_at,
            tuning=Tuning(
                batch_max=size,
                # One thread: the world is held against each request as it goes out.
                lanes_at_once=1,
                attempts=3,
                effect_wait_ms=300,
            ),
            run_id=f"run-{self.runs}",
        ).outcomes
        self.lab.cluster.meanwhile = lambda _operation: None
        assert sorted(o.action.address for o in outcomes) == sorted(a.address for a in checked.remaining)
        for outcome in outcomes:
            watch.judge(outcome)
        return outcomes

    def _change(self, change: object) -> None:
        match change:
            case ("produce", at, count):
                self.lab.produce(at, count)
            case ("commit", (group, at), offset):
                self.lab.commit(group, at, offset)
            case ("join", group, _):
                self.lab.join(group)
            case ("leave", group, _):
                self.lab.leave(group)
            case ("drop", topic, _) if topic in self.lab.cluster.topics:
                self.lab.drop(topic)
            case ("create", topic, count) if topic not in self.lab.cluster.topics:
                self.lab.create(topic, TOPICS[topic])
                for number in range(TOPICS[topic]):
                    self.lab.produce(TopicPartition(topic, number), count)
            case ("recreate", topic, count):
                self._change(("drop", topic, 0))
                self._change(("create", topic, count))
            case ("back", group, offset):
                for at in ATS:
                    self.lab.commit(group, at, offset)
            case ("expire", at, offset) if at.topic in self.lab.cluster.topics:
                self.lab.cluster.expire(at, offset)
                key = (self.lab.cluster.topics[at.topic].topic_id, at.partition)
                self.bound[key] = max(self.bound.get(key, 0), self.lab.cluster.partition(at).log_start)
            case ("stop", broker, _):
                self.lab.cluster.stop_broker(broker)
            case ("start", broker, _):
                self.lab.cluster.start_broker(broker)
            case ("silence", broker, _):
                self.lab.cluster.silent.add(broker)
            case ("hear", broker, _):
                self.lab.cluster.silent.discard(broker)
            case ("turn", at, _) if at.topic in self.lab.cluster.topics:
                partition = self.lab.cluster.partition(at)
                partition.replicas = (*partition.replicas[1:], partition.replicas[0])

    def _calm(self) -> None:
        """All brokers well: plan, apply, plan again at the same instant leaves nothing to do."""
        self.lab.cluster.silent = set()
        for broker in self.lab.cluster.brokers:
            self.lab.cluster.start_broker(broker)
        planned = self._plan()
        if planned.refused:
            return
        ended = self._apply(planned)
        assert all(o.status in (Status.APPLIED, Status.SATISFIED, Status.WAITING) for o in ended), ended
        left = self._plan()
        # What a removed group held back, as a reader to clamp to, may go with the next plan.
        freed = any(isinstance(o.action, DeleteGroup) for o in ended)
        assert freed or not left.actions, left.actions
        self._apply(left)
        assert not self._plan().actions


class _LabClock(Ticker):
    """Time passes for the world as well; what is to happen between two tries happens while the applier sleeps."""

    def __init__(self, lab: TimedCluster, watch: "_Watch") -> None:
        super().__init__(lab.now_ms)
        self.lab = lab
        self.watch = watch

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.lab.now_ms = self.now_ms
        self.watch.happen()


class _Watch:
    """The gateway with an eye on it: what goes out is held against the world of that very moment."""

    def __init__(self, storm: Storm, planned: Plan, between: Sequence[tuple[int, object]]) -> None:
        self.storm = storm
        self.cluster: FakeCluster = storm.lab.cluster
        self.purges = {a.partition: a for a in planned.actions if isinstance(a, DeleteRecords)}
        self.removals = {a.group: a for a in planned.actions if isinstance(a, DeleteGroup)}
        self.elections = {a.partition for a in planned.actions if isinstance(a, ElectLeader)}
        self.between = between
        self.starts = {
            (topic.topic_id, number): partition.log_start
            for topic in self.cluster.topics.values()
            for number, partition in topic.partitions.items()
        }
        self.removed: set[str] = set()
        self.happened = False
        for name in ("read_partitions", "read_positions", "read_groups", "elect_leaders", "refresh"):
            setattr(self, name, getattr(self.cluster, name))

    def delete_records(self, before_offsets: dict[TopicPartition, int]) -> object:
        answers = self.cluster.delete_records(before_offsets)
        self.happen()
        return answers

    def delete_groups(self, groups: list[str]) -> object:
        there = set(self.cluster.groups)
        answers = self.cluster.delete_groups(groups)
        self.removed |= there - set(self.cluster.groups)
        self.happen()
        return answers

    def happen(self) -> None:
        """Changes that are due after so many requests."""
        due = [change for after, change in self.between if after < len(self.cluster.requests)]
        self.between = [each for each in self.between if each[0] >= len(self.cluster.requests)]
        for change in due:
            self.happened = True
            self.storm._change(change)

    def before(self, operation: Operation) -> None:
        """The request as it reaches the brokers: only subjects of the plan, as the plan saw them."""
        request: Request = self.cluster.requests[-1]
        assert request.subjects
        match operation:
            case Operation.DELETE_RECORDS:
                for at, target in request.targets.items():
                    self._purge(at, target)
            case Operation.DELETE_GROUP:
                for group in request.subjects:
                    action = self.removals[str(group)]
                    now = self.cluster.read_groups([str(group)])[str(group)]
                    assert (now.listed, now.state, now.type) == (True, GroupState.EMPTY, action.seen.type)
                    assert now.fingerprint == action.seen.fingerprint
            case Operation.ELECT_LEADER:
                assert set(request.subjects) <= self.elections
        intents = {e.address for e in self.storm.journal.entries() if e.event is Event.INTENT}
        assert intents

    def _purge(self, at: TopicPartition, target: int) -> None:
        action = self.purges[at]
        topic = self.cluster.topics[at.topic]
        assert target == action.before_offset > 0
        assert topic.topic_id == action.seen.topic_id
        assert "delete" in topic.cleanup
        for group in action.guard.named:
            assert self.cluster.groups[group].commits[at] >= target
        key = (topic.topic_id, at.partition)
        self.storm.bound[key] = max(self.storm.bound.get(key, 0), target)

    def judge(self, outcome: Outcome) -> None:
        """The outcome against the world: true where nothing else could have changed it."""
        action = outcome.action
        if isinstance(action, DeleteRecords):
            topic = self.cluster.topics.get(action.partition.topic)
            if topic is None or topic.topic_id != action.seen.topic_id:
                return
            start = topic.partitions[action.partition.partition].log_start
            before = self.starts[topic.topic_id, action.partition.partition]
            if outcome.status in (Status.APPLIED, Status.SATISFIED):
                assert start >= action.before_offset
            if outcome.status in (Status.STALE, Status.WAITING, Status.NOT_ATTEMPTED) and not self.happened:
                assert start == before
            assert outcome.removed_max <= action.records_max
            if not self.happened:
                assert start - before <= outcome.removed_max
        if isinstance(action, DeleteGroup) and outcome.status in (Status.STALE, Status.NOT_ATTEMPTED, Status.SATISFIED):
            assert action.group not in self.removed


TestStorm = Storm.TestCase
TestStorm.settings = settings(max_examples=min(settings.default.max_examples // 2, 2_000), stateful_step_count=20)
