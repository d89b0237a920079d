"""The executor's check directly before each request, retries included, on the fake cluster."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from reconciler.apply.results import exit_code
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal, file_journal
from reconciler.kafka.error_mapping import Operation
from reconciler.model.action import Action
from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import GroupType
from reconciler.operations.delete_records import AcceptedLag
from tests.fakes.cluster import FakeCluster, Fault
from tests.fakes.runs import START_MS, FakeClock, election, purge, removal, run
from tests.golden.wording import mentions

AT = TopicPartition("orders", 0)


@pytest.fixture
def made() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create_topic("orders", 2)
    cluster.produce("orders", {0: 100, 1: 100})
    cluster.commit("billing", {AT: 80})
    return cluster


def recreate(made: FakeCluster, count: int = 500) -> None:
    made.delete_topic("orders")
    made.create_topic("orders", 2)
    made.produce("orders", {0: count, 1: count})


def test_a_recreated_topic_is_never_truncated(made: FakeCluster, tmp_path: Path) -> None:
    """A topic that was created again with the same name has another id: stale, without effect."""
    wanted = purge(made, AT, 60)
    recreate(made)
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.STALE, 0)
    assert made.partition(AT).log_start == 0


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (KafkaError.LEADER_NOT_AVAILABLE, Status.STALE),
        # A leader that lost its office while it waited for the others answers so, too, and had deleted by then.
        (KafkaError.NOT_LEADER_FOR_PARTITION, Status.FAILED),
    ],
)
def test_a_topic_that_is_recreated_before_a_retry_is_not_truncated(
    made: FakeCluster, tmp_path: Path, code: int, status: Status
) -> None:
    """The retry checks again: the outcome says what the first request may have done, and the new
    topic keeps its records.
    """
    wanted = purge(made, AT, 60)
    made.faults.append(Fault(Operation.DELETE_RECORDS, code))
    made.on_request = lambda _operation: recreate(made) if len(made.requests) == 1 else None
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.sends) == (status, 1)
    assert len(made.requests) == 1
    assert made.partition(AT).log_start == 0


def test_unknown_results_are_not_stale(made: FakeCluster, tmp_path: Path) -> None:
    """After a request without a response the topic disappears: the result is unknown, so the
    outcome is not stale and keeps its bound.
    """
    wanted = purge(made, AT, 60)
    made.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT))
    made.on_request = lambda _operation: recreate(made) if len(made.requests) == 1 else None
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.removed_max) == (Status.FAILED, 60)
    assert "not known" in outcome.detail


def test_a_deleted_topic_is_stale(made: FakeCluster, tmp_path: Path) -> None:
    """For a deleted topic no request is sent."""
    wanted = [purge(made, AT, 60), election(made, TopicPartition("orders", 1))]
    made.delete_topic("orders")
    assert {outcome.status for outcome in run(made, wanted, tmp_path).outcomes} == {Status.STALE}
    assert made.requests == []


def test_a_log_that_was_cut_is_stale(made: FakeCluster, tmp_path: Path) -> None:
    """A high watermark below the target, after an unclean election, makes the target invalid."""
    wanted = purge(made, AT, 60)
    made.partition(AT).high_watermark = 59
    assert run(made, [wanted], tmp_path).only.status is Status.STALE
    assert made.requests == []


def test_a_log_that_was_cut_and_filled_again_is_stale(made: FakeCluster, tmp_path: Path) -> None:
    """An unclean election cut the log at 40, and producers filled it to 90: the records below the
    target are not those of the review.
    """
    wanted = purge(made, AT, 60)
    made.partition(AT).high_watermark = 90
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.detail) == (Status.STALE, "the high watermark is 90, below the 100 of the plan")
    assert made.requests == []


class SlowJournal(ActionJournal):
    """A journal that takes `seconds` to store an intent, while the cluster changes."""

    def __init__(self, path: Path, clock: FakeClock, seconds: float, change: Callable[[], None]) -> None:
        super().__init__(JournalFile(path))
        self.clock, self.seconds, self.change = clock, seconds, change

    def record_intents(self, actions: Sequence[Action], *, run_id: str, plan_digest: str, at_ms: int) -> None:
        super().record_intents(actions, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms)
        self.clock.sleep(self.seconds)
        self.change()


def slowly(
    made: FakeCluster, wanted: Action, folder: Path, change: Callable[[], None], *, seconds: float = 20
) -> Outcome:
    return slowly_at(FakeClock(), made, wanted, folder, change, seconds=seconds)


def slowly_at(
    clock: FakeClock,
    made: FakeCluster,
    wanted: Action,
    folder: Path,
    change: Callable[[], None],
    *,
    seconds: float = 20,
) -> Outcome:
    journal = SlowJournal(folder / "journal.jsonl", clock, seconds, change)
    return run(made, [wanted], folder, journal=journal, clock=clock).only


def test_after_a_slow_journal_a_recreated_topic_is_not_truncated(made: FakeCluster, tmp_path: Path) -> None:
    """A check that is too old by then does not count."""
    outcome = slowly(made, purge(made, AT, 60), tmp_path, lambda: recreate(made))
    assert (outcome.status, outcome.sends, made.requests) == (Status.STALE, 0, [])


def test_after_a_slow_journal_groups_are_checked_again(made: FakeCluster, tmp_path: Path) -> None:
    """A group committed meanwhile, and a named group moved back."""
    removed = slowly(made, removal(made, "billing"), tmp_path, lambda: made.commit("billing", {AT: 81}))
    assert (removed.status, removed.sends) == (Status.STALE, 0)
    purged = slowly(made, purge(made, AT, 60, named=("billing",)), tmp_path, lambda: made.commit("billing", {AT: 10}))
    assert (purged.status, purged.sends) == (Status.STALE, 0)
    assert made.requests == []


def test_after_a_slow_journal_leaders_are_read_again(made: FakeCluster, tmp_path: Path) -> None:
    """A moved leader gets the request; a preferred leader that fell out of sync is not elected."""
    outcome = slowly(made, purge(made, AT, 60), tmp_path, lambda: setattr(made.partition(AT), "leader", 2))
    assert (outcome.status, outcome.sends) == (Status.APPLIED, 1)
    made.partition(AT).leader = 2
    outcome = slowly(made, election(made, AT), tmp_path, lambda: made.partition(AT).in_sync.discard(1))
    assert (outcome.status, outcome.sends) == (Status.STALE, 0)


def test_a_slow_journal_alone_prevents_no_request(made: FakeCluster, tmp_path: Path) -> None:
    """The intent of this run does not start the interval for its own request."""
    outcome = slowly(made, purge(made, AT, 60, every_ms=30_000), tmp_path, lambda: None)
    assert (outcome.status, outcome.sends) == (Status.APPLIED, 1)


def test_a_clock_that_was_set_back_makes_no_check_younger(made: FakeCluster, tmp_path: Path) -> None:
    wanted = purge(made, AT, 60, named=("billing",))
    outcome = slowly(made, wanted, tmp_path, lambda: made.commit("billing", {AT: 10}), seconds=-3600)
    assert (outcome.status, outcome.sends, made.requests) == (Status.STALE, 0, [])


def test_a_slow_check_is_repeated(made: FakeCluster, tmp_path: Path) -> None:
    """If the coordinator is slow, the earlier answer of the leader is too old, and the check is
    repeated.
    """
    clock, asked = FakeClock(), 0
    positions = made.read_positions

    def slow(wanted: Mapping[str, Sequence[TopicPartition]]) -> object:
        nonlocal asked
        asked += 1
        if asked == 1:
            clock.sleep(25)
            made.topics["orders"].topic_id = "of another incarnation"
        return positions(wanted)

    made.read_positions = slow  # type: ignore[method-assign, assignment]
    outcome = run(made, [purge(made, AT, 60, named=("billing",))], tmp_path, clock=clock).only
    assert (outcome.status, outcome.sends, made.requests) == (Status.STALE, 0, [])


def test_checks_that_are_always_slow_send_nothing(made: FakeCluster, tmp_path: Path) -> None:
    """The outcome says so, and the journal has no open intent."""
    clock = FakeClock()
    look = made.read_partitions

    def slow(partitions: Iterable[TopicPartition], *, offsets: bool) -> object:
        clock.sleep(11)
        return look(partitions, offsets=offsets)

    made.read_partitions = slow  # type: ignore[method-assign, assignment]
    applied = run(made, [purge(made, AT, 60, every_ms=30_000)], tmp_path, clock=clock)
    assert (applied.only.status, applied.only.sends, made.requests) == (Status.FAILED, 0, [])
    assert "took longer than 10 s, 3 times in a row: a smaller --batch may help" in applied.only.detail
    assert applied.journal.open_intents("sha256:plan") == {}  # type: ignore[attr-defined]
    assert applied.journal.last_purges() == {}


def test_a_group_list_that_waits_for_a_frozen_broker_delays_no_removal(made: FakeCluster, tmp_path: Path) -> None:
    """The list takes nine tenths of the deadline.

    The committed offsets, which distinguish a group from its successor, are read after it.
    """
    clock = FakeClock()
    look = made.read_groups

    def slow(groups: Sequence[str]) -> object:
        clock.sleep(27)
        return look(groups)

    made.read_groups = slow  # type: ignore[method-assign, assignment]
    assert run(made, [removal(made, "billing")], tmp_path, clock=clock).only.status is Status.APPLIED


def test_a_retry_that_waits_for_another_run_reports_the_first_request(made: FakeCluster, tmp_path: Path) -> None:
    """The first request may have had its effect, and the outcome says so."""
    clock = FakeClock()
    wanted = purge(made, AT, 60, every_ms=3_600_000)
    made.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT))
    journal = file_journal(tmp_path / "journal.jsonl")
    made.on_request = lambda _operation: journal.record_intents(
        [wanted], run_id="other", plan_digest="p", at_ms=clock()
    )
    outcome = run(made, [wanted], tmp_path, journal=journal, clock=clock).only
    assert (outcome.status, outcome.sends, outcome.possible, outcome.removed_max) == (Status.FAILED, 1, True, 60)
    assert exit_code([outcome]) == 5


@pytest.mark.parametrize("over", ["stopped", "expired", "old"])
def test_a_run_that_ends_after_its_intent_sends_nothing(made: FakeCluster, tmp_path: Path, over: str) -> None:
    """An interrupt, or three hours of sleep, during a slow journal: the intent gets an outcome, and
    the interval does not start.
    """
    clock, stopped = FakeClock(), False

    def stop() -> None:
        nonlocal stopped
        stopped = over == "stopped"

    journal = SlowJournal(tmp_path / "journal.jsonl", clock, 3 * 3600, stop)
    wanted = [purge(made, AT, 60, every_ms=30_000), removal(made, "billing")]
    ended = run(
        made,
        wanted,
        tmp_path,
        journal=journal,
        clock=clock,
        stop=lambda: stopped,
        checked_at_ms=START_MS if over == "old" else None,
        expires_at_ms=START_MS + 60_000 if over == "expired" else None,
    ).outcomes
    assert [(outcome.status, outcome.sends) for outcome in ended] == [(Status.NOT_ATTEMPTED, 0)] * 2
    assert made.requests == []
    assert journal.open_intents("sha256:plan") == journal.last_purges() == {}


def test_a_purge_of_another_run_stops_this_one(made: FakeCluster, tmp_path: Path) -> None:
    """It came between the check and the intent of this run.

    In the other order the other run waits.
    """
    clock = FakeClock()
    mine = purge(made, AT, 60, every_ms=30_000)
    found: list[Status] = []

    def other(before_offset: int = 30) -> None:
        wanted = purge(made, AT, before_offset, every_ms=30_000)
        found.append(run(made, [wanted], tmp_path, clock=clock, run_id="other").only.status)

    class Overtaken(ActionJournal):
        def record_intents(self, actions: Sequence[Action], *, run_id: str, plan_digest: str, at_ms: int) -> None:
            other()
            super().record_intents(actions, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms)

    journal = Overtaken(JournalFile(tmp_path / "journal.jsonl"))
    outcome = run(made, [mine], tmp_path, journal=journal, clock=clock).only
    assert (outcome.status, outcome.sends) == (Status.WAITING, 0)
    assert mentions(outcome.detail, "last purged at 2027-01-15T08:00:00Z", "30s")
    assert (found, made.partition(AT).log_start) == ([Status.APPLIED], 30)
    clock.sleep(31)
    assert slowly_at(clock, made, mine, tmp_path, lambda: other(50)).status is Status.APPLIED
    assert (found[1:], made.partition(AT).log_start) == ([Status.WAITING], 60)


def test_two_runs_with_crossing_intents_keep_the_interval(made: FakeCluster, tmp_path: Path) -> None:
    """Each run read the journal before the intent of the other. Once both sent a request."""
    clock = FakeClock()
    wanted = purge(made, AT, 60, every_ms=30_000)

    class Crossed(ActionJournal):
        def record_intents(self, actions: Sequence[Action], *, run_id: str, plan_digest: str, at_ms: int) -> None:
            super().record_intents(actions, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms)
            super().record_intents(actions, run_id="other", plan_digest=plan_digest, at_ms=at_ms)

    journal = Crossed(JournalFile(tmp_path / "journal.jsonl"))
    outcome = run(made, [wanted], tmp_path, journal=journal, clock=clock).only
    assert (outcome.status, outcome.sends, made.requests) == (Status.WAITING, 0, [])
    assert journal.last_purges(except_run="other") == {}, "and its own intent is off the clock"


def test_the_interval_starts_at_the_response(made: FakeCluster, tmp_path: Path) -> None:
    """The intent was stored long before: by their intents the purges would keep the interval."""
    clock = FakeClock()
    first = slowly_at(clock, made, purge(made, AT, 30, every_ms=30_000), tmp_path, lambda: None)
    assert (first.status, clock.now_ms) == (Status.APPLIED, START_MS + 20_000)
    clock.sleep(30)
    second = run(made, [purge(made, AT, 60, every_ms=30_000)], tmp_path, clock=clock, run_id="run-2").only
    assert (second.status, second.sends) == (Status.WAITING, 0)


def test_a_quick_journal_needs_no_second_check(made: FakeCluster, tmp_path: Path) -> None:
    looks = 0
    look = made.read_groups

    def read_groups(groups: Sequence[str]) -> object:
        nonlocal looks
        looks += 1
        return look(groups)

    made.read_groups = read_groups  # type: ignore[method-assign, assignment]
    assert slowly(made, removal(made, "billing"), tmp_path, lambda: None, seconds=2).status is Status.APPLIED
    assert looks == 2, "before the request and after it"


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"checked_at_ms": START_MS - 30 * 60_000 - 1}, "the recheck was 30 min ago, and it is good for 30 min"),
        ({"expires_at_ms": START_MS}, "the plan expired during this run: plan again"),
    ],
)
def test_nothing_is_sent_on_an_old_recheck(made: FakeCluster, tmp_path: Path, limits: dict[str, int], why: str) -> None:
    """A laptop slept between recheck and request: the consumers are not read again, so no request
    is sent.
    """
    outcome = run(made, [purge(made, AT, 60)], tmp_path, **limits).only
    assert outcome.status is Status.NOT_ATTEMPTED
    assert why in outcome.detail
    assert made.requests == []


def test_a_fresh_recheck_and_a_valid_plan_prevent_no_request(made: FakeCluster, tmp_path: Path) -> None:
    outcome = run(
        made, [purge(made, AT, 60)], tmp_path, checked_at_ms=START_MS - 30 * 60_000, expires_at_ms=START_MS + 1
    ).only
    assert outcome.status is Status.APPLIED


def test_the_bound_starts_at_the_present_log_start(made: FakeCluster, tmp_path: Path) -> None:
    """Records that expired since the plan do not count as removed by this run."""
    wanted = purge(made, AT, 60)
    made.expire(AT, 25)
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.removed_max, outcome.read_back) == (Status.APPLIED, 35, "log start 60")


def test_a_log_that_starts_lower_than_planned_is_not_purged(made: FakeCluster, tmp_path: Path) -> None:
    """A replica that leads since the recheck may have an earlier log start.

    Once 60 records were removed instead of 10, and the outcome said 10.
    """
    made.expire(AT, 50)
    wanted = purge(made, AT, 60)
    made.partition(AT).log_start = 0
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.STALE, 0, 0)
    assert outcome.detail == "the log start is 0, below the 50 of the plan"
    assert made.partition(AT).log_start == 0


def test_a_log_that_starts_lower_at_a_retry_is_not_purged(made: FakeCluster, tmp_path: Path) -> None:
    made.expire(AT, 50)
    wanted = purge(made, AT, 60)
    made.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError.LEADER_NOT_AVAILABLE))
    made.on_request = lambda _operation: (
        setattr(made.partition(AT), "log_start", 40) if len(made.requests) == 1 else None
    )
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.STALE, 1, 0)
    assert made.partition(AT).log_start == 40


def test_the_bound_counts_from_the_lowest_log_start(made: FakeCluster, tmp_path: Path) -> None:
    """The second request goes to a replica with an earlier log start than the first, but not
    earlier than planned.
    """
    wanted = purge(made, AT, 60)
    made.expire(AT, 50)
    made.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT))
    made.on_request = lambda _operation: (
        setattr(made.partition(AT), "log_start", 20) if len(made.requests) == 1 else None
    )
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.APPLIED, 2, 40)


@pytest.mark.parametrize("position", [None, 59])
def test_a_named_group_that_moved_back_stops_the_purge(made: FakeCluster, tmp_path: Path, position: int | None) -> None:
    """A named group below the target, or without a committed offset, keeps its records."""
    wanted = purge(made, AT, 60, named=("billing",))
    if position is None:
        del made.groups["billing"]
    else:
        made.commit("billing", {AT: position})
    assert run(made, [wanted], tmp_path).only.status is Status.STALE
    assert made.requests == []


def test_a_named_group_that_cannot_be_read_stops_the_purge(made: FakeCluster, tmp_path: Path) -> None:
    """An unread position does not count as at the target: the check is repeated, then the action
    fails without a request.
    """
    wanted = purge(made, AT, 60, named=("billing",))
    coordinator = next(broker for broker in made.brokers if _silences(made, broker))
    made.partition(AT).leader = next(broker for broker in made.brokers if broker != coordinator)
    made.silent = {coordinator}
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.FAILED, 0)
    assert "billing" in outcome.detail
    assert made.requests == []


def _silences(made: FakeCluster, broker: int) -> bool:
    made.silent = {broker}
    unheard = made.coordinator_is_silent("billing")
    made.silent = set()
    return unheard


def test_a_named_group_is_checked_before_each_retry(made: FakeCluster, tmp_path: Path) -> None:
    """The group moves back after a first request without effect, so no second request is sent."""
    wanted = purge(made, AT, 60, named=("billing",))
    made.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError.LEADER_NOT_AVAILABLE))
    made.on_request = lambda _operation: made.commit("billing", {AT: 10})
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.STALE, 1)
    assert made.partition(AT).log_start == 0


@pytest.mark.parametrize(
    ("position", "status"), [(30, Status.APPLIED), (45, Status.APPLIED), (29, Status.STALE), (None, Status.STALE)]
)
def test_accepted_consumers_may_not_fall_further_behind(
    made: FakeCluster, tmp_path: Path, position: int | None, status: Status
) -> None:
    """A consumer that was accepted at 30 may be at 30 or later; an earlier or a missing position
    was not accepted.
    """
    made.commit("slow", {AT: 30})
    wanted = purge(made, AT, 60, accepted=(AcceptedLag("slow", 30),))
    if position is None:
        del made.groups["slow"]
    else:
        made.commit("slow", {AT: position})
    assert run(made, [wanted], tmp_path).only.status is status


def test_accepted_consumers_without_a_commit_are_at_the_log_start(made: FakeCluster, tmp_path: Path) -> None:
    """A consumer that was accepted at the log start needs no committed offset."""
    wanted = purge(made, AT, 60, accepted=(AcceptedLag("implied", 0),))
    assert run(made, [wanted], tmp_path).only.status is Status.APPLIED


@pytest.mark.parametrize("moved", ["back", "gone"])
def test_excepted_consumers_are_not_checked(made: FakeCluster, tmp_path: Path, moved: str) -> None:
    """The recheck ignores them at any position; otherwise the plan would be stale in every run."""
    made.commit("console-1", {AT: 50})
    wanted = purge(made, AT, 60, accepted=(AcceptedLag("console-1", 50),), except_groups=("console-*",))
    if moved == "gone":
        del made.groups["console-1"]
    else:
        made.commit("console-1", {AT: 40})
    assert run(made, [wanted], tmp_path).only.status is Status.APPLIED


def test_groups_that_the_run_removed_no_longer_count(made: FakeCluster, tmp_path: Path) -> None:
    """The plan removes the consumer group that its purge accepts, and the removal is first."""
    made.commit("slow", {AT: 30})
    wanted = [purge(made, AT, 60, accepted=(AcceptedLag("slow", 30),)), removal(made, "slow")]
    assert {outcome.status for outcome in run(made, wanted, tmp_path).outcomes} == {Status.APPLIED}


def test_groups_that_an_interrupted_run_removed_no_longer_count(made: FakeCluster, tmp_path: Path) -> None:
    """The run was interrupted between removal and purge, and the next run finds no group.

    The purge once stayed stale for ever.
    """
    made.commit("slow", {AT: 30})
    wanted = purge(made, AT, 60, accepted=(AcceptedLag("slow", 30),))
    del made.groups["slow"]
    assert run(made, [wanted], tmp_path).only.status is Status.STALE
    assert run(made, [wanted], tmp_path, removed_groups=["slow"]).only.status is Status.APPLIED


def test_a_purge_of_another_run_starts_the_interval(made: FakeCluster, tmp_path: Path) -> None:
    """Of two simultaneous runs the second one finds the purge in the journal and waits."""
    first, second = purge(made, AT, 30, every_ms=30_000), purge(made, AT, 60, every_ms=30_000)
    clock = FakeClock()
    applied = run(made, [first], tmp_path, clock=clock)
    clock.sleep(30)
    again = run(made, [second], tmp_path, journal=applied.journal, clock=clock, run_id="run-2").only
    assert (again.status, again.sends) == (Status.WAITING, 0)
    clock.sleep(0.001)
    assert (
        run(made, [second], tmp_path, journal=applied.journal, clock=clock, run_id="run-3").only.status
        is Status.APPLIED
    )
    assert clock.now_ms == START_MS + 30_001


def test_retries_do_not_wait_for_their_own_interval(made: FakeCluster, tmp_path: Path) -> None:
    """The interval is between purges, not between two requests of one purge."""
    wanted = purge(made, AT, 60, every_ms=30_000)
    made.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT))
    assert run(made, [wanted], tmp_path).only.status is Status.APPLIED


@pytest.mark.parametrize("moved", ["joined", "committed", "type"])
def test_a_group_that_changed_is_not_removed(made: FakeCluster, tmp_path: Path, moved: str) -> None:
    """A member, another committed offset, another type: stale, and the group keeps its offsets."""
    wanted = removal(made, "billing")
    match moved:
        case "joined":
            made.join("billing")
        case "committed":
            made.commit("billing", {AT: 81})
        case "type":
            made.groups["billing"].type = GroupType.CONSUMER
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.STALE, 0)
    assert made.groups["billing"].commits


def test_a_retry_does_not_remove_a_recreated_group(made: FakeCluster, tmp_path: Path) -> None:
    """The first removal succeeds without a response, and the group is created again: no second
    request is sent.
    """
    wanted = removal(made, "billing")
    made.faults.append(Fault(Operation.DELETE_GROUP, KafkaError._TIMED_OUT, has_effect=True))
    reads = 0
    look = made.read_groups

    def read_groups(groups: list[str]) -> object:
        nonlocal reads
        reads += 1
        if reads == 2:
            made.commit("billing", {AT: 3})
        return look(groups)

    made.read_groups = read_groups  # type: ignore[method-assign, assignment]
    outcome = run(made, [wanted], tmp_path).only
    assert outcome.status is Status.FAILED
    assert outcome.sends == len(made.requests) == 1
    assert made.groups["billing"].commits == {AT: 3}
    assert "nothing was done" not in outcome.detail
    assert exit_code([outcome]) == 5, "the first of that name is gone"


def test_absence_without_proof_is_not_satisfied(made: FakeCluster, tmp_path: Path) -> None:
    """An incomplete list of groups proves nothing: no request is sent, and the removal is not
    reported as done.
    """
    wanted = removal(made, "billing")
    made.may_describe = False
    outcome = run(made, [wanted], tmp_path).only
    assert (outcome.status, outcome.sends) == (Status.FAILED, 0)


def test_an_absent_group_is_satisfied(made: FakeCluster, tmp_path: Path) -> None:
    """Another client removed the group first."""
    wanted = removal(made, "billing")
    del made.groups["billing"]
    assert run(made, [wanted], tmp_path).only.status is Status.SATISFIED


@pytest.mark.parametrize("moved", ["replicas", "in sync", "leader"])
def test_elections_need_the_same_replicas(made: FakeCluster, tmp_path: Path, moved: str) -> None:
    """Other replicas, or a preferred leader out of sync: stale.

    Leader already: satisfied. No request is sent.
    """
    partition = made.partition(AT)
    partition.replicas = (2, 3, 1)
    wanted = election(made, AT)
    match moved:
        case "replicas":
            partition.replicas = (3, 2, 1)
        case "in sync":
            partition.in_sync.discard(2)
        case "leader":
            partition.leader = 2
    outcome = run(made, [wanted], tmp_path).only
    assert outcome.status is (Status.SATISFIED if moved == "leader" else Status.STALE)
    assert made.requests == []


def test_unclean_elections_need_a_leaderless_partition(made: FakeCluster, tmp_path: Path) -> None:
    """The partition has a leader again, so no unclean election is sent."""
    made.partition(AT).leader = None
    wanted = election(made, AT, Election.UNCLEAN)
    made.partition(AT).leader = 3
    assert run(made, [wanted], tmp_path).only.status is Status.SATISFIED
    assert made.requests == []


def test_a_leaderless_partition_waits_for_its_leader(made: FakeCluster, tmp_path: Path) -> None:
    """Without a leader the request is retried, and applied when there is one."""
    wanted = purge(made, AT, 60)
    made.partition(AT).leader = None
    clock = FakeClock()
    sleep = clock.sleep

    def slept(seconds: float) -> None:
        sleep(seconds)
        made.partition(AT).leader = 2

    clock.sleep = slept  # type: ignore[method-assign]
    assert run(made, [wanted], tmp_path, clock=clock).only.status is Status.APPLIED


def test_requests_are_split_by_leader(made: FakeCluster, tmp_path: Path) -> None:
    """A leader moved since the plan: each DeleteRecords has partitions of one leader only."""
    other = TopicPartition("orders", 1)
    made.partition(other).leader = made.partition(AT).leader
    wanted = [purge(made, AT, 60), purge(made, other, 60)]
    made.partition(other).leader = 3
    assert {outcome.status for outcome in run(made, wanted, tmp_path).outcomes} == {Status.APPLIED}
    assert sorted(len(request.subjects) for request in made.requests) == [1, 1]


def test_the_order_is_elections_groups_records(made: FakeCluster, tmp_path: Path) -> None:
    """The least destructive operations are first, in any order of the plan."""
    made.partition(AT).replicas = (2, 3, 1)
    wanted = [purge(made, AT, 60), removal(made, "billing"), election(made, AT)]
    run(made, wanted, tmp_path)
    assert [request.operation for request in made.requests] == [
        Operation.ELECT_LEADER,
        Operation.DELETE_GROUP,
        Operation.DELETE_RECORDS,
    ]
