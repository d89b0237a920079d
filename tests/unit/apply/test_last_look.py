"""The executor's check directly before each request, retries included, on the fake cluster."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from reconciler.apply.context import Tuning
from reconciler.apply.results import exit_code
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.model.action import Action
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Election
from reconciler.model.snapshot import Consumers, GroupFacts, GroupState, GroupType, Unknown
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords
from tests.fakes.cluster import FakeCluster, Fault
from tests.fakes.error_table import Operation
from tests.fakes.runs import START_MS, FakeClock, election, last_purges, purge, removal, run, silence_after_consumers
from tests.golden.wording import mentions

AT = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create_topic("orders", 2)
    cluster.produce("orders", {0: 100, 1: 100})
    cluster.commit("billing", {AT: 80, TopicPartition("orders", 1): 80})
    return cluster


def recreate(cluster: FakeCluster, count: int = 500) -> None:
    cluster.delete_topic("orders")
    cluster.create_topic("orders", 2)
    cluster.produce("orders", {0: count, 1: count})


def test_a_recreated_topic_is_never_truncated(cluster: FakeCluster, tmp_path: Path) -> None:
    """A topic that was created again with the same name has another id: stale, without effect."""
    action = purge(cluster, AT, 60)
    recreate(cluster)
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.STALE, 0)
    assert cluster.partition(AT).log_start == 0


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (KafkaError.LEADER_NOT_AVAILABLE, Status.STALE),
        # A former leader also answers so, after it deleted and waited for its followers.
        (KafkaError.NOT_LEADER_FOR_PARTITION, Status.FAILED),
    ],
)
def test_a_topic_that_is_recreated_before_a_retry_is_not_truncated(
    cluster: FakeCluster, tmp_path: Path, code: int, status: Status
) -> None:
    """The retry checks again: the outcome says what the first request may have done, and the new
    topic keeps its records.
    """
    action = purge(cluster, AT, 60)
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, code))
    cluster.on_request = lambda _operation: recreate(cluster) if len(cluster.requests) == 1 else None
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends) == (status, 1)
    assert len(cluster.requests) == 1
    assert cluster.partition(AT).log_start == 0


def test_unknown_results_are_not_stale(cluster: FakeCluster, tmp_path: Path) -> None:
    """After a request without a response the topic disappears: the result is unknown, so the
    outcome is not stale and keeps its bound.
    """
    action = purge(cluster, AT, 60)
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT))
    cluster.on_request = lambda _operation: recreate(cluster) if len(cluster.requests) == 1 else None
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.removed_max) == (Status.FAILED, 60)
    assert "not known" in outcome.detail


def test_a_deleted_topic_is_stale(cluster: FakeCluster, tmp_path: Path) -> None:
    """For a deleted topic no request is sent."""
    actions = [purge(cluster, AT, 60), election(cluster, TopicPartition("orders", 1))]
    cluster.delete_topic("orders")
    assert {outcome.status for outcome in run(cluster, actions, tmp_path).outcomes} == {Status.STALE}
    assert cluster.requests == []


def test_a_log_that_was_cut_is_stale(cluster: FakeCluster, tmp_path: Path) -> None:
    """A high watermark below the target, after an unclean election, makes the target invalid."""
    action = purge(cluster, AT, 60)
    cluster.partition(AT).high_watermark = 59
    assert run(cluster, [action], tmp_path).only.status is Status.STALE
    assert cluster.requests == []


def test_a_log_that_was_cut_and_filled_again_is_stale(cluster: FakeCluster, tmp_path: Path) -> None:
    """An unclean election cut the log at 40, and producers filled it to 90: the records below the
    target are not those of the review.
    """
    action = purge(cluster, AT, 60)
    cluster.partition(AT).high_watermark = 90
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.detail) == (Status.STALE, "the high watermark is 90, below the 100 of the plan")
    assert cluster.requests == []


class SlowJournal(ActionJournal):
    """A journal that takes `seconds` to store an intent, while the cluster changes."""

    def __init__(self, path: Path, clock: FakeClock, seconds: float, change: Callable[[], None]) -> None:
        super().__init__(JournalFile(path))
        self.clock, self.seconds, self.change = clock, seconds, change

    def record(self, events: Sequence[Action | Outcome], **run: Any) -> None:
        super().record(events, **run)
        if not isinstance(events[0], Outcome):
            self.clock.sleep(self.seconds)
            self.change()


def run_with_slow_journal(
    cluster: FakeCluster, action: Action, folder: Path, change: Callable[[], None], *, seconds: float = 20
) -> Outcome:
    return run_with_slow_journal_at(FakeClock(), cluster, action, folder, change, seconds=seconds)


def run_with_slow_journal_at(
    clock: FakeClock,
    cluster: FakeCluster,
    action: Action,
    folder: Path,
    change: Callable[[], None],
    *,
    seconds: float = 20,
) -> Outcome:
    journal = SlowJournal(folder / "journal.jsonl", clock, seconds, change)
    return run(cluster, [action], folder, journal=journal, clock=clock).only


def test_after_a_slow_journal_a_recreated_topic_is_not_truncated(cluster: FakeCluster, tmp_path: Path) -> None:
    """A check that is too old by then does not count."""
    outcome = run_with_slow_journal(cluster, purge(cluster, AT, 60), tmp_path, lambda: recreate(cluster))
    assert (outcome.status, outcome.sends, cluster.requests) == (Status.STALE, 0, [])


def test_after_a_slow_journal_groups_are_checked_again(cluster: FakeCluster, tmp_path: Path) -> None:
    """A group committed meanwhile, and a named group moved back."""
    removed = run_with_slow_journal(
        cluster, removal(cluster, "billing"), tmp_path, lambda: cluster.commit("billing", {AT: 81})
    )
    assert (removed.status, removed.sends) == (Status.STALE, 0)
    purged = run_with_slow_journal(
        cluster, purge(cluster, AT, 60, named=("billing",)), tmp_path, lambda: cluster.commit("billing", {AT: 10})
    )
    assert (purged.status, purged.sends) == (Status.STALE, 0)
    assert cluster.requests == []


def test_after_a_slow_journal_leaders_are_read_again(cluster: FakeCluster, tmp_path: Path) -> None:
    """A moved leader gets the request; a preferred leader that fell out of sync is not elected."""
    outcome = run_with_slow_journal(
        cluster, purge(cluster, AT, 60), tmp_path, lambda: setattr(cluster.partition(AT), "leader", 2)
    )
    assert (outcome.status, outcome.sends) == (Status.APPLIED, 1)
    cluster.partition(AT).leader = 2
    outcome = run_with_slow_journal(
        cluster, election(cluster, AT), tmp_path, lambda: cluster.partition(AT).in_sync.discard(1)
    )
    assert (outcome.status, outcome.sends) == (Status.STALE, 0)


def test_a_slow_journal_alone_prevents_no_request(cluster: FakeCluster, tmp_path: Path) -> None:
    """The intent of this run does not start the interval for its own request."""
    outcome = run_with_slow_journal(cluster, purge(cluster, AT, 60, every_ms=30_000), tmp_path, lambda: None)
    assert (outcome.status, outcome.sends) == (Status.APPLIED, 1)


def test_a_clock_that_was_set_back_makes_no_check_younger(cluster: FakeCluster, tmp_path: Path) -> None:
    action = purge(cluster, AT, 60, named=("billing",))
    outcome = run_with_slow_journal(
        cluster, action, tmp_path, lambda: cluster.commit("billing", {AT: 10}), seconds=-3600
    )
    assert (outcome.status, outcome.sends, cluster.requests) == (Status.STALE, 0, [])


def test_a_slow_check_is_repeated(cluster: FakeCluster, tmp_path: Path) -> None:
    """If the coordinator is slow, the earlier answer of the leader is too old, and the check is
    repeated.
    """
    clock, calls = FakeClock(), 0
    positions = cluster.read_positions

    def slow(action: Mapping[str, Sequence[TopicPartition]]) -> object:
        nonlocal calls
        calls += 1
        if calls == 1:
            clock.sleep(25)
            cluster.topics["orders"].topic_id = "of another incarnation"
        return positions(action)

    cluster.read_positions = slow  # type: ignore[method-assign, assignment]
    outcome = run(cluster, [purge(cluster, AT, 60, named=("billing",))], tmp_path, clock=clock).only
    assert (outcome.status, outcome.sends, cluster.requests) == (Status.STALE, 0, [])


def test_checks_that_are_always_slow_send_nothing(cluster: FakeCluster, tmp_path: Path) -> None:
    """The outcome says so, and the journal has no open intent."""
    clock = FakeClock()
    read_partitions = cluster.read_partitions

    def slow(partitions: Iterable[TopicPartition], *, offsets: bool) -> object:
        clock.sleep(11)
        return read_partitions(partitions, offsets=offsets)

    cluster.read_partitions = slow  # type: ignore[method-assign, assignment]
    applied = run(cluster, [purge(cluster, AT, 60, every_ms=30_000)], tmp_path, clock=clock)
    assert (applied.only.status, applied.only.sends, cluster.requests) == (Status.NOT_ATTEMPTED, 0, [])
    assert "took longer than 10 s, 3 times in a row: a smaller --batch may help" in applied.only.detail
    assert applied.journal.open_intents("sha256:plan") == {}  # type: ignore[attr-defined]
    assert last_purges(applied.journal) == {}


def test_a_group_list_that_waits_for_a_frozen_broker_delays_no_removal(cluster: FakeCluster, tmp_path: Path) -> None:
    """The list takes nine tenths of the deadline.

    The committed offsets, which distinguish a group from its successor, are read after it.
    """
    clock = FakeClock()
    read_groups = cluster.read_groups

    def slow(groups: Sequence[str], **options: Collection[str]) -> object:
        clock.sleep(27)
        return read_groups(groups, **options)

    cluster.read_groups = slow  # type: ignore[method-assign, assignment]
    assert run(cluster, [removal(cluster, "billing")], tmp_path, clock=clock).only.status is Status.APPLIED


@pytest.mark.parametrize("over", ["stopped", "expired", "old"])
def test_a_run_that_ends_after_its_intent_sends_nothing(cluster: FakeCluster, tmp_path: Path, over: str) -> None:
    """An interrupt, or three hours of sleep, during a slow journal: the intent gets an outcome, and
    the interval does not start.
    """
    clock, stopped = FakeClock(), False

    def stop() -> None:
        nonlocal stopped
        stopped = over == "stopped"

    journal = SlowJournal(tmp_path / "journal.jsonl", clock, 3 * 3600, stop)
    actions = [purge(cluster, AT, 60, every_ms=30_000), removal(cluster, "billing")]
    result = run(
        cluster,
        actions,
        tmp_path,
        journal=journal,
        clock=clock,
        stop=lambda: stopped,
        checked_at_ms=START_MS if over == "old" else None,
        has_expired=lambda now_ms: over == "expired" and now_ms >= START_MS + 60_000,
    ).outcomes
    assert [(outcome.status, outcome.sends) for outcome in result] == [(Status.NOT_ATTEMPTED, 0)] * 2
    assert cluster.requests == []
    assert journal.open_intents("sha256:plan") == last_purges(journal) == {}


def test_a_quick_journal_needs_no_second_check(cluster: FakeCluster, tmp_path: Path) -> None:
    looks = 0
    read_groups_of_cluster = cluster.read_groups

    def read_groups(groups: Sequence[str], **options: Collection[str]) -> object:
        nonlocal looks
        looks += 1
        return read_groups_of_cluster(groups, **options)

    cluster.read_groups = read_groups  # type: ignore[method-assign, assignment]
    assert (
        run_with_slow_journal(cluster, removal(cluster, "billing"), tmp_path, lambda: None, seconds=2).status
        is Status.APPLIED
    )
    assert looks == 2, "before the request and after it"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"checked_at_ms": START_MS - 30 * 60_000 - 1}, "the recheck was 30 min ago, and it is good for 30 min"),
        ({"has_expired": lambda now_ms: now_ms >= START_MS}, "the plan expired during this run: plan again"),
    ],
)
def test_nothing_is_sent_on_an_old_recheck(
    cluster: FakeCluster, tmp_path: Path, limits: dict[str, int], reason: str
) -> None:
    """A laptop slept between recheck and request: the consumers are not read again, so no request
    is sent.
    """
    outcome = run(cluster, [purge(cluster, AT, 60)], tmp_path, **limits).only
    assert outcome.status is Status.NOT_ATTEMPTED
    assert reason in outcome.detail
    assert cluster.requests == []


def test_a_fresh_recheck_and_a_valid_plan_prevent_no_request(cluster: FakeCluster, tmp_path: Path) -> None:
    outcome = run(
        cluster,
        [purge(cluster, AT, 60)],
        tmp_path,
        checked_at_ms=START_MS - 30 * 60_000,
        has_expired=lambda now_ms: now_ms > START_MS,
    ).only
    assert outcome.status is Status.APPLIED


def test_the_bound_starts_at_the_present_log_start(cluster: FakeCluster, tmp_path: Path) -> None:
    """Records that expired since the plan do not count as removed by this run."""
    action = purge(cluster, AT, 60)
    cluster.expire(AT, 25)
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.removed_max, outcome.read_back) == (Status.APPLIED, 35, "log start 60")


def test_a_log_that_starts_lower_than_planned_is_not_purged(cluster: FakeCluster, tmp_path: Path) -> None:
    """A replica that leads since the recheck may have an earlier log start.

    Once 60 records were removed instead of 10, and the outcome said 10.
    """
    cluster.expire(AT, 50)
    action = purge(cluster, AT, 60)
    cluster.partition(AT).log_start = 0
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.STALE, 0, 0)
    assert outcome.detail == "the log start is 0, below the 50 of the plan"
    assert cluster.partition(AT).log_start == 0


def test_a_log_that_starts_lower_at_a_retry_is_not_purged(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.expire(AT, 50)
    action = purge(cluster, AT, 60)
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError.LEADER_NOT_AVAILABLE))
    cluster.on_request = lambda _operation: (
        setattr(cluster.partition(AT), "log_start", 40) if len(cluster.requests) == 1 else None
    )
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.STALE, 1, 0)
    assert cluster.partition(AT).log_start == 40


def test_the_bound_counts_from_the_lowest_log_start(cluster: FakeCluster, tmp_path: Path) -> None:
    """The second request goes to a replica with an earlier log start than the first, but not
    earlier than planned.
    """
    action = purge(cluster, AT, 60)
    cluster.expire(AT, 50)
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT))
    cluster.on_request = lambda _operation: (
        setattr(cluster.partition(AT), "log_start", 20) if len(cluster.requests) == 1 else None
    )
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.APPLIED, 2, 40)


@pytest.mark.parametrize("position", [None, 59])
def test_a_named_group_that_moved_back_stops_the_purge(
    cluster: FakeCluster, tmp_path: Path, position: int | None
) -> None:
    """A named group below the target, or without a committed offset, keeps its records."""
    action = purge(cluster, AT, 60, named=("billing",))
    if position is None:
        del cluster.groups["billing"]
    else:
        cluster.commit("billing", {AT: position})
    assert run(cluster, [action], tmp_path).only.status is Status.STALE
    assert cluster.requests == []


def test_a_named_group_that_cannot_be_read_stops_the_purge(cluster: FakeCluster, tmp_path: Path) -> None:
    """An unread position does not count as at the target: the check is repeated, then the action
    fails without a request.
    """
    action = purge(cluster, AT, 60, named=("billing",))
    coordinator = next(broker for broker in cluster.brokers if _is_coordinator(cluster, broker))
    cluster.partition(AT).leader = next(broker for broker in cluster.brokers if broker != coordinator)
    silence_after_consumers(cluster, coordinator)
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.NOT_ATTEMPTED, 0)
    assert "billing" in outcome.detail
    assert cluster.requests == []


def _is_coordinator(cluster: FakeCluster, broker: int) -> bool:
    cluster.silent = {broker}
    is_silent = cluster.coordinator_is_silent("billing")
    cluster.silent = set()
    return is_silent


def test_a_named_group_is_checked_before_each_retry(cluster: FakeCluster, tmp_path: Path) -> None:
    """The group moves back after a first request without effect, so no second request is sent."""
    action = purge(cluster, AT, 60, named=("billing",))
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError.LEADER_NOT_AVAILABLE))
    cluster.on_request = lambda _operation: cluster.commit("billing", {AT: 10})
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.STALE, 1)
    assert cluster.partition(AT).log_start == 0


@pytest.mark.parametrize(
    ("position", "status"), [(30, Status.APPLIED), (45, Status.APPLIED), (29, Status.STALE), (None, Status.STALE)]
)
def test_accepted_consumers_may_not_fall_further_behind(
    cluster: FakeCluster, tmp_path: Path, position: int | None, status: Status
) -> None:
    """A consumer that was accepted at 30 may be at 30 or later; an earlier or a missing position
    was not accepted.
    """
    cluster.commit("slow", {AT: 30})
    action = purge(cluster, AT, 60, accepted=(AcceptedLag("slow", 30),))
    if position is None:
        del cluster.groups["slow"]
    else:
        cluster.commit("slow", {AT: position})
    assert run(cluster, [action], tmp_path).only.status is status


def test_accepted_consumers_without_a_commit_are_at_the_log_start(cluster: FakeCluster, tmp_path: Path) -> None:
    """A consumer that was accepted at the log start needs no committed offset."""
    action = purge(cluster, AT, 60, accepted=(AcceptedLag("implied", 0),))
    assert run(cluster, [action], tmp_path).only.status is Status.APPLIED


@pytest.mark.parametrize("moved", ["back", "gone"])
def test_excepted_consumers_are_not_checked(cluster: FakeCluster, tmp_path: Path, moved: str) -> None:
    """The recheck ignores them at any position; otherwise the plan would be stale in every run."""
    cluster.commit("console-1", {AT: 50})
    action = purge(cluster, AT, 60, accepted=(AcceptedLag("console-1", 50),), except_groups=("console-*",))
    if moved == "gone":
        del cluster.groups["console-1"]
    else:
        cluster.commit("console-1", {AT: 40})
    assert run(cluster, [action], tmp_path).only.status is Status.APPLIED


def test_groups_that_the_run_removed_no_longer_count(cluster: FakeCluster, tmp_path: Path) -> None:
    """The plan removes the consumer group that its purge accepts, and the removal is first."""
    cluster.commit("slow", {AT: 30})
    actions = [purge(cluster, AT, 60, accepted=(AcceptedLag("slow", 30),)), removal(cluster, "slow")]
    assert {outcome.status for outcome in run(cluster, actions, tmp_path).outcomes} == {Status.APPLIED}


@pytest.mark.parametrize("position", [None, 2], ids=["a member without a commit", "a commit below"])
def test_a_removed_group_that_is_created_again_counts(
    cluster: FakeCluster, tmp_path: Path, position: int | None
) -> None:
    """Its name was ignored for the rest of the run, and a purge took what its new members had not read."""
    cluster.commit("slow", {AT: 30})
    actions = [purge(cluster, AT, 60, accepted=(AcceptedLag("slow", 30),)), removal(cluster, "slow")]
    read_consumers = cluster.read_consumers

    def create_again(topics: Collection[str], log_starts: Mapping[int, int]) -> Consumers:
        if position is None:
            cluster.join("slow", "orders")
        else:
            cluster.commit("slow", {AT: position})
        return read_consumers(topics, log_starts)

    cluster.read_consumers = create_again  # type: ignore[method-assign]
    removed, purged = run(cluster, actions, tmp_path).outcomes
    assert (removed.status, purged.status, purged.sends) == (Status.APPLIED, Status.STALE, 0)
    assert '"slow"' in purged.detail


def test_a_group_that_joined_during_the_run_is_not_gone_with_its_coordinator(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Only groups of the recheck were missed when no broker listed them any more."""
    clock = FakeClock()
    ats = [AT, TopicPartition("orders", 1)]
    readings: list[int] = []
    read_consumers = cluster.read_consumers

    def move_later(topics: Collection[str], log_starts: Mapping[int, int]) -> Consumers:
        readings.append(clock.now_ms)
        cluster.moving = {"late"} if readings[1:] else set()
        return read_consumers(topics, log_starts)

    def age(_operation: Operation) -> None:
        clock.now_ms += 61_000

    cluster.join("late", "shipments")
    cluster.create_topic("shipments", 1)
    known = cluster.read_groups(["billing"])
    cluster.read_consumers = move_later  # type: ignore[method-assign]
    cluster.on_request = age
    tuning = Tuning(lanes_at_once=1, attempts=2)
    actions = [purge(cluster, at, 60) for at in ats]
    outcomes = run(cluster, actions, tmp_path, clock=clock, known_groups=known, tuning=tuning).outcomes
    assert [outcome.sends for outcome in outcomes] == [1, 0]
    assert mentions(outcomes[1].detail, '"late"', "not listed")


def test_a_group_that_the_run_saw_created_again_is_not_gone_with_its_coordinator(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """The removal itself said that a group of that name was created since, and the purge ignored it."""
    cluster.commit("slow", {AT: 30})
    known = cluster.read_groups(["slow"])
    actions = [purge(cluster, AT, 60, accepted=(AcceptedLag("slow", 30),)), removal(cluster, "slow")]
    read_groups, read_consumers = cluster.read_groups, cluster.read_consumers

    def create_again(groups: list[str], **options: Collection[str]) -> Mapping[str, GroupFacts]:
        if cluster.requests and not cluster.moving:
            cluster.join("slow", "orders")
        return read_groups(groups, **options)

    def move(topics: Collection[str], log_starts: Mapping[int, int]) -> Consumers:
        cluster.moving = {"slow"}
        return read_consumers(topics, log_starts)

    cluster.read_groups = create_again  # type: ignore[method-assign, assignment]
    cluster.read_consumers = move  # type: ignore[method-assign]
    removed, purged = run(cluster, actions, tmp_path, known_groups=known, tuning=Tuning(attempts=2)).outcomes
    assert (removed.status, removed.read_back) == (Status.APPLIED, "listed, STABLE")
    assert (purged.sends, cluster.partition(AT).log_start) == (0, 0)


def test_a_reading_from_before_the_clock_was_set_back_is_not_kept(cluster: FakeCluster, tmp_path: Path) -> None:
    """A later reading that knows less replaced it only after its time, which had become hours."""
    clock = FakeClock(START_MS + 3_600_000)

    def set_back(_operation: Operation) -> None:
        clock.now_ms = START_MS
        cluster.silent = {3}

    cluster.on_request = set_back
    actions = [purge(cluster, AT, 60), purge(cluster, TopicPartition("orders", 1), 60)]
    tuning = Tuning(lanes_at_once=1, attempts=2)
    outcomes = run(cluster, actions, tmp_path, clock=clock, tuning=tuning).outcomes
    assert [outcome.status for outcome in outcomes] == [Status.APPLIED, Status.NOT_ATTEMPTED]


def test_an_unclean_election_that_may_have_been_held_is_not_waiting(cluster: FakeCluster, tmp_path: Path) -> None:
    """The second answer says that no replica is there to lead; the first request may have elected one."""
    partition = cluster.partition(AT)
    partition.leader = None
    action = election(cluster, AT, Election.UNCLEAN)
    cluster.faults += [
        Fault(Operation.ELECT_LEADER, KafkaError.REQUEST_TIMED_OUT),
        Fault(Operation.ELECT_LEADER, KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ]
    outcome = run(cluster, [action], tmp_path, tuning=Tuning(effect_wait_ms=0)).only
    assert (outcome.status, outcome.sends, outcome.possible) == (Status.FAILED, 2, True)
    assert "not known whether it was carried out" in outcome.detail


def test_groups_that_an_interrupted_run_removed_no_longer_count(cluster: FakeCluster, tmp_path: Path) -> None:
    """The run was interrupted between removal and purge, and the next run finds no group.

    The purge once stayed stale for ever.
    """
    cluster.commit("slow", {AT: 30})
    action = purge(cluster, AT, 60, accepted=(AcceptedLag("slow", 30),))
    del cluster.groups["slow"]
    assert run(cluster, [action], tmp_path).only.status is Status.STALE
    assert run(cluster, [action], tmp_path, removed_groups=["slow"]).only.status is Status.APPLIED


def test_a_purge_of_another_run_costs_a_request_and_no_record(cluster: FakeCluster, tmp_path: Path) -> None:
    """`every` paces the plans of one run. Two runs may purge within it, each up to its own target."""
    first, second = purge(cluster, AT, 30, every_ms=30_000), purge(cluster, AT, 60, every_ms=30_000)
    applied = run(cluster, [first], tmp_path)
    outcome = run(cluster, [second], tmp_path, journal=applied.journal, run_id="run-2").only
    assert (outcome.status, len(cluster.requests), cluster.partition(AT).log_start) == (Status.APPLIED, 2, 60)


def test_retries_do_not_wait_for_their_own_interval(cluster: FakeCluster, tmp_path: Path) -> None:
    """The interval is between purges, not between two requests of one purge."""
    action = purge(cluster, AT, 60, every_ms=30_000)
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT))
    assert run(cluster, [action], tmp_path).only.status is Status.APPLIED


@pytest.mark.parametrize("moved", ["joined", "committed", "type"])
def test_a_group_that_changed_is_not_removed(cluster: FakeCluster, tmp_path: Path, moved: str) -> None:
    """A member, another committed offset, another type: stale, and the group keeps its offsets."""
    action = removal(cluster, "billing")
    match moved:
        case "joined":
            cluster.join("billing")
        case "committed":
            cluster.commit("billing", {AT: 81})
        case "type":
            cluster.groups["billing"].type = GroupType.CONSUMER
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.STALE, 0)
    assert cluster.groups["billing"].commits


def test_a_group_that_goes_between_its_listing_and_its_commits_is_satisfied(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Another run removes the group: it is still listed, and has no commits already."""
    action = removal(cluster, "billing")
    group = cluster.groups["billing"]
    group.commits = {}
    read_groups_of_cluster = cluster.read_groups

    def read_groups(groups: list[str], **options: Collection[str]) -> object:
        facts = read_groups_of_cluster(groups, **options)
        cluster.groups.pop("billing", None)
        return facts

    cluster.read_groups = read_groups  # type: ignore[method-assign, assignment]
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.SATISFIED, 0)


def test_a_listed_group_without_commits_is_not_removed(cluster: FakeCluster, tmp_path: Path) -> None:
    """It may be in use again: no request is sent."""
    action = removal(cluster, "billing")
    cluster.groups["billing"].commits = {}
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.NOT_ATTEMPTED, 0)
    assert "still listed" in outcome.detail


def test_a_retry_does_not_remove_a_recreated_group(cluster: FakeCluster, tmp_path: Path) -> None:
    """The first removal succeeds without a response, and the group is created again: no second
    request is sent.
    """
    action = removal(cluster, "billing")
    cluster.faults.append(Fault(Operation.DELETE_GROUP, KafkaError._TIMED_OUT, has_effect=True))
    reads = 0
    read_groups_of_cluster = cluster.read_groups

    def read_groups(groups: list[str], **options: Collection[str]) -> object:
        nonlocal reads
        reads += 1
        if reads == 2:
            cluster.commit("billing", {AT: 3})
        return read_groups_of_cluster(groups, **options)

    cluster.read_groups = read_groups  # type: ignore[method-assign, assignment]
    outcome = run(cluster, [action], tmp_path).only
    assert outcome.status is Status.FAILED
    assert outcome.sends == len(cluster.requests) == 1
    assert cluster.groups["billing"].commits == {AT: 3}
    assert "nothing was done" not in outcome.detail
    assert exit_code([outcome]) == 5, "the first of that name is gone"


def test_absence_without_proof_is_not_satisfied(cluster: FakeCluster, tmp_path: Path) -> None:
    """An incomplete list of groups proves nothing: no request is sent, and the removal is not
    reported as done.
    """
    action = removal(cluster, "billing")
    cluster.may_describe = False
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.NOT_ATTEMPTED, 0)


def test_an_absent_group_is_satisfied(cluster: FakeCluster, tmp_path: Path) -> None:
    """Another client removed the group first."""
    action = removal(cluster, "billing")
    del cluster.groups["billing"]
    assert run(cluster, [action], tmp_path).only.status is Status.SATISFIED


@pytest.mark.parametrize("moved", ["replicas", "in sync", "leader"])
def test_elections_need_the_same_replicas(cluster: FakeCluster, tmp_path: Path, moved: str) -> None:
    """Other replicas, or a preferred leader out of sync: stale.

    Leader already: satisfied. No request is sent.
    """
    partition = cluster.partition(AT)
    partition.replicas = (2, 3, 1)
    action = election(cluster, AT)
    match moved:
        case "replicas":
            partition.replicas = (3, 2, 1)
        case "in sync":
            partition.in_sync.discard(2)
        case "leader":
            partition.leader = 2
    outcome = run(cluster, [action], tmp_path).only
    assert outcome.status is (Status.SATISFIED if moved == "leader" else Status.STALE)
    assert cluster.requests == []


def test_unclean_elections_need_a_leaderless_partition(cluster: FakeCluster, tmp_path: Path) -> None:
    """The partition has a leader again, so no unclean election is sent."""
    cluster.partition(AT).leader = None
    action = election(cluster, AT, Election.UNCLEAN)
    cluster.partition(AT).leader = 3
    assert run(cluster, [action], tmp_path).only.status is Status.SATISFIED
    assert cluster.requests == []


def test_a_leaderless_partition_waits_for_its_leader(cluster: FakeCluster, tmp_path: Path) -> None:
    """Without a leader the request is retried, and applied when there is one."""
    action = purge(cluster, AT, 60)
    cluster.partition(AT).leader = None
    clock = FakeClock()
    sleep = clock.sleep

    def slept(seconds: float) -> None:
        sleep(seconds)
        cluster.partition(AT).leader = 2

    clock.sleep = slept  # type: ignore[method-assign]
    assert run(cluster, [action], tmp_path, clock=clock).only.status is Status.APPLIED


def test_requests_are_split_by_leader(cluster: FakeCluster, tmp_path: Path) -> None:
    """A leader moved since the plan: each DeleteRecords has partitions of one leader only."""
    other = TopicPartition("orders", 1)
    cluster.partition(other).leader = cluster.partition(AT).leader
    actions = [purge(cluster, AT, 60), purge(cluster, other, 60)]
    cluster.partition(other).leader = 3
    assert {outcome.status for outcome in run(cluster, actions, tmp_path).outcomes} == {Status.APPLIED}
    assert sorted(len(request.subjects) for request in cluster.requests) == [1, 1]


def test_the_order_is_elections_groups_records(cluster: FakeCluster, tmp_path: Path) -> None:
    """The least destructive operations are first, in any order of the plan."""
    cluster.partition(AT).replicas = (2, 3, 1)
    actions = [purge(cluster, AT, 60), removal(cluster, "billing"), election(cluster, AT)]
    run(cluster, actions, tmp_path)
    assert [request.operation for request in cluster.requests] == [
        Operation.ELECT_LEADER,
        Operation.DELETE_GROUP,
        Operation.DELETE_RECORDS,
    ]


@pytest.mark.parametrize(("age_s", "status"), [(49, Status.APPLIED), (51, Status.NOT_ATTEMPTED)])
def test_consumers_are_good_for_a_minute(cluster: FakeCluster, tmp_path: Path, age_s: int, status: Status) -> None:
    """Where a silent broker prevents a newer reading, the last complete one is good for a minute.

    Of that, ten seconds are for the request that follows the check.
    """
    other = TopicPartition("orders", 1)
    clock = FakeClock()

    def age(_operation: Operation) -> None:
        clock.now_ms += age_s * 1000
        cluster.silent = {3}

    cluster.on_request = age
    actions = [purge(cluster, AT, 60), purge(cluster, other, 60)]
    tuning = Tuning(lanes_at_once=1, attempts=2)
    outcomes = run(cluster, actions, tmp_path, clock=clock, tuning=tuning).outcomes
    assert [outcome.status for outcome in outcomes] == [Status.APPLIED, status]


def test_a_minute_ends_while_a_silent_broker_is_asked(cluster: FakeCluster, tmp_path: Path) -> None:
    """The age was taken before the reading, which waits for the silent broker: the request went out
    on consumers that were read 89 s before.
    """
    clock = FakeClock()
    read_consumers = cluster.read_consumers

    def slow(topics: Collection[str], log_starts: Mapping[int, int]) -> object:
        clock.sleep(30 if cluster.silent else 0)
        return read_consumers(topics, log_starts)

    def age(_operation: Operation) -> None:
        clock.now_ms += 49_000
        cluster.silent = {3}

    cluster.read_consumers = slow  # type: ignore[method-assign, assignment]
    cluster.on_request = age
    actions = [purge(cluster, AT, 60), purge(cluster, TopicPartition("orders", 1), 60)]
    tuning = Tuning(lanes_at_once=1, attempts=2)
    outcomes = run(cluster, actions, tmp_path, clock=clock, tuning=tuning).outcomes
    assert [outcome.status for outcome in outcomes] == [Status.APPLIED, Status.NOT_ATTEMPTED]
    assert "the list of groups is not complete" in outcomes[1].detail


def test_a_minute_includes_the_time_until_the_request(cluster: FakeCluster, tmp_path: Path) -> None:
    """A check that took readings of 55 s sent its request 9 s later: they were 64 s old."""
    clock = FakeClock()
    readings: list[int] = []
    sent: list[int] = []
    read_consumers = cluster.read_consumers

    def read(topics: Collection[str], log_starts: Mapping[int, int]) -> Consumers:
        consumers = read_consumers(topics, log_starts)
        readings.extend([clock.now_ms] if consumers.incomplete is None else [])
        return consumers

    def age(_operation: Operation) -> None:
        sent.append(clock.now_ms - readings[-1])
        clock.now_ms += 55_000
        cluster.silent = {3}

    class SlowJournal(JournalFile):
        def append(self, lines: Sequence[bytes]) -> None:
            clock.now_ms += 9_000 if sent and b'"intent"' in lines[0] else 0
            super().append(lines)

    cluster.read_consumers = read  # type: ignore[method-assign]
    cluster.on_request = age
    actions = [purge(cluster, AT, 60), purge(cluster, TopicPartition("orders", 1), 60)]
    journal = ActionJournal(SlowJournal(tmp_path / "slow.jsonl"))
    run(cluster, actions, tmp_path, clock=clock, tuning=Tuning(lanes_at_once=1, attempts=2), journal=journal)
    assert sent
    assert max(sent) <= 60_000


@pytest.mark.parametrize("unreadable", ["", "new"])
def test_a_group_that_cannot_be_read_hides_no_other(cluster: FakeCluster, tmp_path: Path, unreadable: str) -> None:
    """With a group without a name, no reading was complete: for a minute the first one stayed, and a
    consumer that joined was not seen. A group that is new and cannot be read yet may be behind.
    """
    clock = FakeClock()
    read_consumers = cluster.read_consumers
    if not unreadable:
        cluster.join("")

    def partly(topics: Collection[str], log_starts: Mapping[int, int]) -> Consumers:
        consumers = read_consumers(topics, log_starts)
        unread = {
            name: replace(facts, consumption_unread=Unknown("rebalancing"))
            for name, facts in consumers.groups.items()
            if name == unreadable
        }
        return replace(consumers, groups={**consumers.groups, **unread})

    def join(_operation: Operation) -> None:
        clock.now_ms += 11_000
        cluster.join(unreadable or "late", "orders")

    cluster.read_consumers = partly  # type: ignore[method-assign]
    cluster.on_request = join
    actions = [purge(cluster, AT, 60), purge(cluster, TopicPartition("orders", 1), 60)]
    outcomes = run(cluster, actions, tmp_path, clock=clock, tuning=Tuning(lanes_at_once=1, attempts=2)).outcomes
    assert [outcome.sends for outcome in outcomes] == [1, 0]
    assert (unreadable or "late") in outcomes[1].detail


@pytest.mark.parametrize("gone", [False, True])
def test_a_group_whose_coordinator_moves_is_not_gone(cluster: FakeCluster, tmp_path: Path, gone: bool) -> None:
    """No broker listed it and no error said so: it had moved back since the recheck, and lost records."""
    known = cluster.read_groups(["billing"])
    cluster.commit("billing", {AT: 10})
    if gone:
        del cluster.groups["billing"]
    else:
        cluster.moving = {"billing"}
    outcome = run(cluster, [purge(cluster, AT, 60)], tmp_path, known_groups=known).only
    assert (outcome.status, outcome.sends) == ((Status.APPLIED, 1) if gone else (Status.NOT_ATTEMPTED, 0))
    assert gone or mentions(outcome.detail, '"billing"', "not listed")


@pytest.mark.parametrize("seconds", [9, 15, 40])
def test_consumers_that_take_long_to_read_are_good_for_the_next_check(
    cluster: FakeCluster, tmp_path: Path, seconds: int
) -> None:
    """On a cluster with tens of thousands of groups every check read them again, and was too old."""
    clock = FakeClock()
    read_consumers = cluster.read_consumers

    def slow(topics: Collection[str], log_starts: Mapping[int, int]) -> object:
        clock.sleep(seconds)
        return read_consumers(topics, log_starts)

    cluster.read_consumers = slow  # type: ignore[method-assign, assignment]
    assert run(cluster, [purge(cluster, AT, 60)], tmp_path, clock=clock).only.status is Status.APPLIED


def test_a_consumer_that_joins_during_the_run_is_seen(cluster: FakeCluster, tmp_path: Path) -> None:
    """It has no commit, so it stands at the log start: the rest of its topic is not purged."""
    other = TopicPartition("orders", 1)
    clock = FakeClock()

    def join(_operation: Operation) -> None:
        clock.now_ms += 11_000
        cluster.join("late", "orders")

    cluster.on_request = join
    actions = [purge(cluster, AT, 60), purge(cluster, other, 60)]
    outcomes = run(cluster, actions, tmp_path, clock=clock, tuning=Tuning(lanes_at_once=1)).outcomes
    assert [outcome.status for outcome in outcomes] == [Status.APPLIED, Status.STALE]
    assert '"late"' in outcomes[1].detail


def test_a_group_that_gets_members_and_cannot_be_read_is_news(cluster: FakeCluster, tmp_path: Path) -> None:
    """It was EMPTY, and its new member rebalances: the reading from before it joined stayed for a minute."""
    clock = FakeClock()
    cluster.create_topic("shipments", 1)
    cluster.commit("late", {TopicPartition("shipments", 0): 0})

    def join(_operation: Operation) -> None:
        clock.now_ms += 11_000
        cluster.join("late", "orders")
        cluster.groups["late"].unread = True

    cluster.on_request = join
    actions = [purge(cluster, AT, 60), purge(cluster, TopicPartition("orders", 1), 60)]
    outcomes = run(cluster, actions, tmp_path, clock=clock, tuning=Tuning(lanes_at_once=1, attempts=2)).outcomes
    assert [(outcome.status, outcome.sends) for outcome in outcomes] == [(Status.APPLIED, 1), (Status.NOT_ATTEMPTED, 0)]
    assert mentions(outcomes[1].detail, '"late"', "rebalancing")


@pytest.mark.parametrize("later", [0, 1])
def test_a_record_in_the_commit_log_stops_a_removal(cluster: FakeCluster, tmp_path: Path, later: int) -> None:
    """Only the log shows a commit of the same offset; records of other groups mean nothing."""
    action = removal(cluster, "billing", idle_for_ms=86_400_000)
    number, _offset = cluster.newest_record("billing")
    cluster.commit_log[number] += ["other", *["billing"] * later]
    outcome = run(cluster, [action], tmp_path).only
    assert outcome.status is (Status.STALE if later else Status.APPLIED)
    assert len(cluster.requests) == 1 - later
    assert not later or mentions(outcome.detail, "newer record", '"billing"')


def test_a_commit_log_that_cannot_be_read_stops_a_removal(cluster: FakeCluster, tmp_path: Path) -> None:
    action = removal(cluster, "billing", idle_for_ms=86_400_000)
    cluster.read_commit_log = lambda starts: dict.fromkeys(starts, Unknown("lost"))  # type: ignore[method-assign]
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.NOT_ATTEMPTED, 0)
    assert "lost" in outcome.detail


def streams_removal(cluster: FakeCluster) -> Action:
    cluster.groups["billing"].type, cluster.groups["billing"].hidden = GroupType.STREAMS, True
    return removal(cluster, "billing", idle_for_ms=1_000)


def test_a_streams_group_is_removed_by_what_the_commit_log_says(cluster: FakeCluster, tmp_path: Path) -> None:
    """No call tells its type and state: the plan read both from the log, and the log has no newer record."""
    action = streams_removal(cluster)
    outcome = run(cluster, [action], tmp_path).only
    assert (outcome.status, outcome.sends, outcome.read_back) == (Status.APPLIED, 1, "absent")
    assert outcome.removed_offsets is not None
    assert run(cluster, [action], tmp_path).only.status is Status.SATISFIED


@pytest.mark.parametrize("change", ["joins", "leaves again", "log is not read"])
def test_a_streams_group_that_may_have_had_a_member_since_stays(
    cluster: FakeCluster, tmp_path: Path, change: str
) -> None:
    action = streams_removal(cluster)
    if change == "log is not read":
        cluster.read_commit_log = lambda starts: dict.fromkeys(starts, Unknown("lost"))  # type: ignore[method-assign]
    else:
        cluster.join("billing")
    if change == "leaves again":
        cluster.leave("billing")
    outcome = run(cluster, [action], tmp_path).only
    expected = Status.FAILED if change == "log is not read" else Status.STALE
    assert (outcome.sends, cluster.requests) == (0, [])
    assert outcome.status in (expected, Status.NOT_ATTEMPTED), outcome


@pytest.mark.parametrize("state", [GroupState.DEAD, GroupState.UNKNOWN, Unknown("no answer")])
def test_a_listed_group_in_no_known_state_is_no_proof_of_its_removal(
    cluster: FakeCluster, tmp_path: Path, state: GroupState | Unknown
) -> None:
    """The former coordinator and the new one both list it: it was called created again, and then ignored."""
    action = removal(cluster, "billing")
    facts_before = cluster.read_groups(["billing"])["billing"]

    def read_groups(groups: list[str], **_options: Collection[str]) -> Mapping[str, GroupFacts]:
        return {group: replace(facts_before, state=state if cluster.requests else GroupState.EMPTY) for group in groups}

    cluster.read_groups = read_groups  # type: ignore[method-assign, assignment]
    outcome = run(cluster, [action], tmp_path, tuning=Tuning(effect_wait_ms=0)).only
    assert (outcome.status, outcome.sends, outcome.possible) == (Status.FAILED, 1, True)
    assert "created since" not in outcome.detail


@pytest.mark.parametrize(
    ("committed", "members", "status", "detail"),
    [
        (80, 0, Status.FAILED, "the same group is still listed"),
        (3, 0, Status.APPLIED, "created since (group"),
        (80, 1, Status.APPLIED, "created since (group"),
        (None, 0, Status.APPLIED, "absent"),
    ],
)
def test_a_confirmed_removal_that_could_not_be_read_back_is_never_sent_again(
    cluster: FakeCluster, tmp_path: Path, committed: int | None, members: int, status: Status, detail: str
) -> None:
    """The broker answered NONE, and the list was incomplete then. Later a group of that name may be there."""
    action = removal(cluster, "billing")
    read_groups_of_cluster = cluster.read_groups

    def read_groups(groups: list[str], **options: Collection[str]) -> object:
        if cluster.requests and cluster.may_describe:
            cluster.may_describe = False
            facts = read_groups_of_cluster(groups, **options)
            cluster.may_describe = True
            cluster.read_groups = read_groups_of_cluster  # type: ignore[method-assign]
            if committed is not None:
                cluster.commit("billing", {AT: committed, TopicPartition("orders", 1): 80})
                cluster.groups["billing"].members = members
            return facts
        return read_groups_of_cluster(groups, **options)

    cluster.read_groups = read_groups  # type: ignore[method-assign, assignment]
    outcome = run(cluster, [action], tmp_path, tuning=Tuning(effect_wait_ms=0)).only
    assert outcome.status is status, outcome.detail
    assert detail in outcome.detail
    assert len(cluster.requests) == outcome.sends == 1


@pytest.mark.parametrize("low_watermark", [59, 0])
def test_a_low_watermark_below_the_target_is_no_proof_for_all_replicas(tmp_path: Path, low_watermark: int) -> None:
    """The log start is read back once more, and the outcome says what the answer did not prove."""
    fake = FakeCluster()
    fake.create_topic("orders")
    fake.produce("orders", {0: 100})
    fake.low_watermarks[AT] = low_watermark
    outcome = run(fake, [purge(fake, AT, 60)], tmp_path).only
    assert (outcome.status, outcome.low_watermark, fake.refreshes) == (Status.APPLIED, low_watermark, 1)
    assert f"low watermark {low_watermark}, below the target 60: not proven on all live replicas" in outcome.detail


def test_a_low_watermark_above_the_log_start_is_read_back_again(tmp_path: Path) -> None:
    """Such an answer is about another log than the one that was read back."""
    fake = FakeCluster()
    fake.create_topic("orders")
    fake.produce("orders", {0: 100})
    fake.low_watermarks[AT] = 61
    outcome = run(fake, [purge(fake, AT, 60)], tmp_path).only
    assert (outcome.status, outcome.low_watermark, fake.refreshes) == (Status.APPLIED, 61, 1)
    assert "the log start is 60, below the low watermark 61" in outcome.detail


def test_an_answer_without_a_low_watermark_is_not_told(tmp_path: Path) -> None:
    """After a timeout the log start alone proves the deletion; the missing watermark is not zero."""
    fake = FakeCluster()
    fake.create_topic("orders")
    fake.produce("orders", {0: 100})
    fake.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError.REQUEST_TIMED_OUT, has_effect=True))
    result = run(fake, [purge(fake, AT, 60)], tmp_path)
    assert (result.only.status, result.only.low_watermark, result.only.detail) == (
        Status.APPLIED,
        None,
        DeleteRecords.APPLIED,
    )
    assert [entry.low_watermark for entry in result.journal.entries()] == [None, None]


def test_results_and_journal_hold_the_low_watermark(tmp_path: Path) -> None:
    fake = FakeCluster()
    fake.create_topic("orders")
    fake.produce("orders", {0: 100})
    fake.expire(AT, 30)
    result = run(fake, [purge(fake, AT, 60)], tmp_path)
    assert (result.only.low_watermark, result.only.detail, fake.refreshes) == (60, DeleteRecords.APPLIED, 0)
    assert [entry.low_watermark for entry in result.journal.entries()] == [None, 60]


def test_a_pending_commit_below_the_target_stops_the_purge(cluster: FakeCluster, tmp_path: Path) -> None:
    """The visible commit is above the target, and the end of the transaction may take the group back."""
    cluster.commit("eos", {AT: 90})
    action = purge(cluster, AT, 60)
    cluster.commit_pending("eos", {AT: 20})
    assert run(cluster, [action], tmp_path).only.status is Status.STALE
    cluster.end_transaction("eos", committed=False)
    assert run(cluster, [action], tmp_path).only.status is Status.APPLIED


def test_a_removed_group_whose_first_commit_is_pending_counts(cluster: FakeCluster, tmp_path: Path) -> None:
    """It was created again in a transaction, and has no visible commit."""
    cluster.commit_pending("slow", {AT: 30})
    result = run(cluster, [purge(cluster, AT, 60)], tmp_path, removed_groups=["slow"])
    assert result.only.status is Status.STALE


@pytest.mark.parametrize(
    ("known", "subscribes", "status"),
    [
        ({"clicks"}, None, Status.APPLIED),
        ({"clicks"}, "orders", Status.STALE),
        (None, None, Status.STALE),
        (set(), "other", Status.APPLIED),
    ],
    ids=["of another topic", "subscribes to the topic", "without keys", "subscribes to another topic"],
)
def test_a_share_group_counts_on_the_topics_of_its_keys(
    cluster: FakeCluster, tmp_path: Path, known: set[str] | None, subscribes: str | None, status: Status
) -> None:
    """`known`: its topics in the recheck; records after it add topics, and remove none."""
    cluster.subscribe("workers", *(known or ()))
    facts = GroupFacts(
        group="workers",
        listed=False,
        type=GroupType.SHARE,
        state=GroupState.EMPTY,
        may_read=None if known is None else frozenset(known),
    )
    ends = {number: len(records) for number, records in cluster.commit_log.items()}
    if subscribes is not None:
        cluster.subscribe("workers", AT.topic if subscribes == "orders" else subscribes)
    action = purge(cluster, AT, 60)
    result = run(cluster, [action], tmp_path, known_groups={"workers": facts}, commit_log_ends=ends)
    assert result.only.status is status
