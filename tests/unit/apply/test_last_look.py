"""The executor's check directly before each request, retries included, on the fake cluster."""

from collections.abc import Callable, Sequence
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
from reconciler.model.snapshot import Consumers, ExternalPosition, GroupFacts, GroupState, GroupType, Unknown
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy
from tests.fakes.cluster import FakeCluster, Fault, cluster_of_orders
from tests.fakes.error_table import Operation
from tests.fakes.runs import (
    START_MS,
    FakeClock,
    election,
    intercept,
    last_purges,
    purge,
    removal,
    run,
    silence_after_consumers,
)
from tests.golden.wording import mentions
from tests.strategies.facts import external_reader

AT, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = cluster_of_orders(2)
    cluster.commit("billing", {AT: 80, OTHER: 80})
    return cluster


def recreate(cluster: FakeCluster, count: int = 500) -> None:
    cluster.delete_topic("orders")
    cluster.create_topic("orders", 2)
    cluster.produce("orders", {0: count, 1: count})


def grow_old(cluster: FakeCluster, clock: FakeClock, seconds: int) -> None:
    """Let time pass, and silence a broker: the next reading of the consumers is not complete."""
    clock.sleep(seconds)
    cluster.silent = {3}


def purge_both(cluster: FakeCluster, clock: FakeClock, **of_context: Any) -> list[Outcome]:
    """Purge one partition after the other, with one retry."""
    actions, tuning = [purge(cluster, AT, 60), purge(cluster, OTHER, 60)], Tuning(lanes_at_once=1, attempts=2)
    return run(cluster, actions, clock=clock, tuning=tuning, **of_context).outcomes


# --- what changed since the plan

Make, Change = Callable[[FakeCluster], Action], Callable[[FakeCluster], object]


def planned(make: Make, *before: Change) -> Make:
    """Return what plans an action after these changes of the cluster."""
    return lambda cluster: ([change(cluster) for change in before], make(cluster))[1]


def as_streams(cluster: FakeCluster) -> None:
    cluster.groups["billing"].type, cluster.groups["billing"].hidden = GroupType.STREAMS, True


def lose_consumer_offsets(cluster: FakeCluster) -> None:
    cluster.read_consumer_offsets = lambda starts: dict.fromkeys(starts, Unknown("lost"))  # type: ignore[method-assign]


def log_record(cluster: FakeCluster, *groups: str) -> None:
    cluster.consumer_offsets[cluster.newest_record("billing")[0]] += groups


def move(cluster: FakeCluster, **fields: object) -> None:
    """Set fields of the partition, such as its leader."""
    for name, value in fields.items():
        setattr(cluster.partition(AT), name, value)


def read_to_50(cluster: FakeCluster) -> None:
    cluster.external[external_reader("orders")] = ExternalPosition({AT: 50}, START_MS)


def nothing(_cluster: FakeCluster) -> None:
    """Change nothing."""


def to_60(cluster: FakeCluster) -> Action:
    return purge(cluster, AT, 60)


def named(cluster: FakeCluster) -> Action:
    return purge(cluster, AT, 60, named=("billing",))


def remove(cluster: FakeCluster) -> Action:
    return removal(cluster, "billing")


def remove_idle(cluster: FakeCluster) -> Action:
    return removal(cluster, "billing", idle_for_ms=86_400_000)


def elect(cluster: FakeCluster) -> Action:
    return election(cluster, AT)


def elect_unclean(cluster: FakeCluster) -> Action:
    return election(cluster, AT, Election.UNCLEAN)


def paced(cluster: FakeCluster) -> Action:
    return purge(cluster, AT, 60, every_ms=30_000)


SLOW = planned(lambda c: purge(c, AT, 60, accepted=(AcceptedLag("slow", 30),)), lambda c: c.commit("slow", {AT: 30}))
IMPLIED: Make = lambda c: purge(c, AT, 60, accepted=(AcceptedLag("implied", 0),))  # noqa: E731
EXCEPTED = planned(
    lambda c: purge(c, AT, 60, accepted=(AcceptedLag("console-1", 50),), except_groups=("console-*",)),
    lambda c: c.commit("console-1", {AT: 50}),
)
EOS, EXPIRED_TO_50 = planned(to_60, lambda c: c.commit("eos", {AT: 90})), planned(to_60, lambda c: c.expire(AT, 50))
ON_2_3_1 = planned(elect, lambda c: move(c, replicas=(2, 3, 1)))
UNCLEAN, STREAMS = planned(elect_unclean, lambda c: move(c, leader=None)), planned(remove_idle, as_streams)
APPLIED, STALE, SATISFIED, NOT_ATTEMPTED = Status.APPLIED, Status.STALE, Status.SATISFIED, Status.NOT_ATTEMPTED
SINCE_THE_PLAN: dict[str, tuple[Make, Change, Status, str]] = {
    "a recreated topic": (to_60, recreate, STALE, ""),
    "a deleted topic": (to_60, lambda c: c.delete_topic("orders"), STALE, ""),
    "a deleted topic of an election": (elect, lambda c: c.delete_topic("orders"), STALE, ""),
    "the log starts at the target": (to_60, lambda c: c.expire(AT, 60), SATISFIED, ""),
    "a log cut below the target": (to_60, lambda c: move(c, high_watermark=59), STALE, ""),
    # Below the target are records that producers wrote after an unclean election.
    "a log cut and filled again": (
        to_60, lambda c: move(c, high_watermark=90), STALE, "the high watermark is 90, below the 100 of the plan",
    ),
    # Once 60 records were removed instead of 10, and the outcome said 10.
    "a log that starts lower than planned": (
        EXPIRED_TO_50, lambda c: move(c, log_start=0), STALE, "the log start is 0, below the 50 of the plan",
    ),
    "a named group moved back": (named, lambda c: c.commit("billing", {AT: 59}), STALE, ""),
    "a named group without a commit": (named, lambda c: c.groups.pop("billing"), STALE, ""),
    "an accepted group where it was": (SLOW, nothing, APPLIED, ""),
    "an accepted group further on": (SLOW, lambda c: c.commit("slow", {AT: 45}), APPLIED, ""),
    "an accepted group further behind": (SLOW, lambda c: c.commit("slow", {AT: 29}), STALE, ""),
    "an accepted group without a commit": (SLOW, lambda c: c.groups.pop("slow"), STALE, ""),
    "a group accepted at the log start needs no commit": (IMPLIED, nothing, APPLIED, ""),
    "a group accepted at the log start, with a commit of another log": (
        IMPLIED, lambda c: c.commit("implied", {AT: 101}), APPLIED, "",
    ),
    # The visible commit is above the target, and the end of the transaction may take the group back.
    "a pending commit below the target": (EOS, lambda c: c.commit_pending("eos", {AT: 20}), STALE, ""),
    "an aborted commit below the target": (
        EOS, lambda c: (c.commit_pending("eos", {AT: 20}), c.end_transaction("eos", committed=False)), APPLIED, "",
    ),
    "an external reader below the target": (
        to_60, read_to_50, STALE, "ExternalReader/lake is at 50, below the target 60",
    ),
    "an external reader below the target that is ignored": (
        lambda c: purge(c, AT, 60, consumers=LagPolicy.IGNORE), read_to_50, APPLIED, "",
    ),
    # Otherwise the plan would be stale in every run.
    "an excepted group moved back": (EXCEPTED, lambda c: c.commit("console-1", {AT: 40}), APPLIED, ""),
    "an excepted group is gone": (EXCEPTED, lambda c: c.groups.pop("console-1"), APPLIED, ""),
    "a group with a member": (remove, lambda c: c.join("billing"), STALE, ""),
    "a group that committed": (remove, lambda c: c.commit("billing", {AT: 81}), STALE, ""),
    # The commit of the transaction would succeed, and its offset be gone.
    "a group with a commit in an open transaction": (
        remove, lambda c: c.commit_pending("billing", {AT: 80}), STALE, "in an open transaction",
    ),
    "a group of another type": (
        remove, lambda c: setattr(c.groups["billing"], "type", GroupType.CONSUMER), STALE, "",
    ),
    # It may be in use again.
    "a listed group without commits": (
        remove, lambda c: setattr(c.groups["billing"], "commits", {}), NOT_ATTEMPTED, "still listed",
    ),
    "an incomplete list of groups": (remove, lambda c: setattr(c, "may_describe", False), NOT_ATTEMPTED, ""),
    "a group that another client removed": (remove, lambda c: c.groups.pop("billing"), SATISFIED, ""),
    "an idle group that another client removed": (remove_idle, lambda c: c.remove_group("billing"), SATISFIED, ""),
    "an idle group whose removal is not stored": (
        remove_idle, lambda c: c.groups.pop("billing"), NOT_ATTEMPTED, "no record of its removal",
    ),
    # Up to Kafka 3.9 its removal may store nothing.
    "an idle group without commits that another client removed": (
        planned(remove_idle, lambda c: c.groups["billing"].commits.clear()), lambda c: c.groups.pop("billing"), SATISFIED, "",
    ),
    "an idle group whose removal may not be stored": (
        remove_idle, lambda c: (c.groups.pop("billing"), lose_consumer_offsets(c)), NOT_ATTEMPTED,
        "whether its removal is stored is not known: lost",
    ),
    "other replicas": (ON_2_3_1, lambda c: move(c, replicas=(3, 2, 1)), STALE, ""),
    "a preferred leader out of sync": (ON_2_3_1, lambda c: c.partition(AT).in_sync.discard(2), STALE, ""),
    "the preferred leader leads": (ON_2_3_1, lambda c: move(c, leader=2), SATISFIED, ""),
    "a leaderless partition has a leader again": (UNCLEAN, lambda c: move(c, leader=3), SATISFIED, ""),
    # Only the log shows a commit of the same offset; records of other groups mean nothing.
    "a record of another group": (remove_idle, lambda c: log_record(c, "other"), APPLIED, ""),
    "a newer record": (remove_idle, lambda c: log_record(c, "other", "billing"), STALE, "a newer record of group \"billing\""),
    "a __consumer_offsets that is not read": (remove_idle, lose_consumer_offsets, NOT_ATTEMPTED, "lost"),
    "a Streams group with a member": (STREAMS, lambda c: c.join("billing"), STALE, ""),
    "a Streams group that had a member": (STREAMS, lambda c: (c.join("billing"), c.leave("billing")), STALE, ""),
    "a Streams group whose log is not read": (STREAMS, lose_consumer_offsets, NOT_ATTEMPTED, ""),
}  # fmt: skip


@pytest.mark.parametrize("row", SINCE_THE_PLAN.values(), ids=SINCE_THE_PLAN)
def test_what_changed_since_the_plan_ends_an_action_without_a_request(
    cluster: FakeCluster, row: tuple[Make, Change, Status, str]
) -> None:
    """One request goes out where the action holds, and none where it does not, or where that is not known."""
    make, change, status, words = row
    action = make(cluster)
    change(cluster)
    outcome = run(cluster, [action]).only
    sends = int(status is APPLIED)
    assert (outcome.status, outcome.sends, len(cluster.requests)) == (status, sends, sends), outcome.detail
    assert sends or outcome.removed_max == 0
    assert words in outcome.detail


BEFORE_A_RETRY: dict[str, tuple[Make, int, Change, Status, int]] = {
    "a recreated topic": (to_60, KafkaError.LEADER_NOT_AVAILABLE, recreate, STALE, 0),
    # A former leader also answers so, after it deleted and waited for its followers.
    "a recreated topic, after a former leader": (
        to_60, KafkaError.NOT_LEADER_FOR_PARTITION, recreate, Status.FAILED, 60,
    ),
    "a recreated topic, after no answer": (to_60, KafkaError._TIMED_OUT, recreate, Status.FAILED, 60),
    "a lower log start": (
        EXPIRED_TO_50, KafkaError.LEADER_NOT_AVAILABLE, lambda c: move(c, log_start=40), STALE, 0,
    ),
    "a named group moved back": (
        named, KafkaError.LEADER_NOT_AVAILABLE, lambda c: c.commit("billing", {AT: 10}), STALE, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", BEFORE_A_RETRY.values(), ids=BEFORE_A_RETRY)
def test_a_retry_is_checked_again(cluster: FakeCluster, row: tuple[Make, int, Change, Status, int]) -> None:
    """No second request; the outcome says what the first may have done, and keeps its bound."""
    make, code, change, status, removed_max = row
    action = make(cluster)
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, code))
    cluster.on_request = lambda _operation: change(cluster)
    outcome = run(cluster, [action]).only
    assert (outcome.status, outcome.sends, outcome.removed_max) == (status, 1, removed_max)
    assert len(cluster.requests) == 1
    assert ("not known" in outcome.detail) == (status is Status.FAILED)
    assert cluster.partition(AT).log_start == (40 if make is EXPIRED_TO_50 else 0), "the one after the change"


class SlowJournal(ActionJournal):
    """A journal that takes `seconds` to store an intent, while the cluster changes."""

    def __init__(self, clock: FakeClock, seconds: float, change: Callable[[], None]) -> None:
        super().__init__(JournalFile(Path("journal.jsonl")))
        self.clock, self.seconds, self.change = clock, seconds, change

    def record(self, events: Sequence[Action | Outcome], **run: Any) -> None:
        super().record(events, **run)
        if not isinstance(events[0], Outcome):
            self.clock.sleep(self.seconds)
            self.change()


AFTER_A_SLOW_JOURNAL: dict[str, tuple[Make, Change, float, Status]] = {
    "a recreated topic": (to_60, recreate, 20, STALE),
    "a group that committed": (remove, lambda c: c.commit("billing", {AT: 81}), 20, STALE),
    "a named group moved back": (named, lambda c: c.commit("billing", {AT: 10}), 20, STALE),
    "a clock set back makes no check younger": (named, lambda c: c.commit("billing", {AT: 10}), -3600, STALE),
    "a moved leader gets the request": (to_60, lambda c: move(c, leader=2), 20, APPLIED),
    "a preferred leader out of sync": (ON_2_3_1, lambda c: c.partition(AT).in_sync.discard(2), 20, STALE),
    # The intent of this run does not start the interval for its own request.
    "nothing else": (paced, nothing, 20, APPLIED),
}  # fmt: skip


@pytest.mark.parametrize("row", AFTER_A_SLOW_JOURNAL.values(), ids=AFTER_A_SLOW_JOURNAL)
def test_after_a_slow_journal_facts_are_read_again(
    cluster: FakeCluster, row: tuple[Make, Change, float, Status]
) -> None:
    """A check that is too old by then does not count."""
    make, change, seconds, status = row
    clock, action = FakeClock(), make(cluster)
    journal = SlowJournal(clock, seconds, lambda: change(cluster))
    outcome = run(cluster, [action], journal=journal, clock=clock).only
    sends = int(status is APPLIED)
    assert (outcome.status, outcome.sends, len(cluster.requests)) == (status, sends, sends), outcome.detail


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"checked_at_ms": START_MS - 30 * 60_000 - 1}, "the recheck was 30 min ago, and it is good for 30 min"),
        ({"expires_ms": {"the plan": START_MS}}, "the plan expired during this run: plan again"),
        ({"expires_ms": {"the plan": START_MS + 1, "Waiver/w": START_MS}}, "Waiver/w expired during this run"),
        ({"checked_at_ms": START_MS - 30 * 60_000, "expires_ms": {"the plan": START_MS + 1}}, None),
    ],
)
def test_nothing_is_sent_on_an_old_recheck(cluster: FakeCluster, limits: dict[str, Any], reason: str | None) -> None:
    """A laptop slept between recheck and request. Both limits are exact to the millisecond."""
    outcome = run(cluster, [to_60(cluster)], **limits).only
    assert (outcome.status, len(cluster.requests)) == ((NOT_ATTEMPTED, 0) if reason else (APPLIED, 1))
    assert (reason or "") in outcome.detail


def test_a_slow_check_is_repeated(cluster: FakeCluster) -> None:
    """The coordinator is slow, so the leader's earlier answer is too old: the check is repeated."""
    clock = FakeClock()

    def wait_once() -> None:
        if len(calls) == 1:
            clock.sleep(25)
            cluster.topics["orders"].topic_id = "of another incarnation"

    calls = intercept(cluster, "read_positions", wait_once)
    outcome = run(cluster, [named(cluster)], clock=clock).only
    assert (outcome.status, outcome.sends, cluster.requests) == (Status.STALE, 0, [])


def test_checks_that_are_always_slow_send_nothing(cluster: FakeCluster) -> None:
    """The outcome says so, and the journal has no open intent."""
    clock = FakeClock()
    intercept(cluster, "read_partitions", lambda: clock.sleep(11))
    applied = run(cluster, [paced(cluster)], clock=clock)
    assert (applied.only.status, applied.only.sends, cluster.requests) == (Status.NOT_ATTEMPTED, 0, [])
    assert "took longer than 10 s, 3 times in a row: a smaller --batch may help" in applied.only.detail
    assert applied.journal.open_intents("sha256:plan") == {}  # type: ignore[attr-defined]
    assert last_purges(applied.journal) == {}


def test_a_slow_check_is_not_repeated_after_a_stop(cluster: FakeCluster) -> None:
    """Each repetition waits for the silent broker again: Kubernetes killed the run before it wrote its results."""
    clock = FakeClock()
    calls = intercept(cluster, "read_partitions", lambda: clock.sleep(11))
    applied = run(cluster, [paced(cluster)], clock=clock, stop=lambda: len(calls) > 1)
    assert (applied.only.status, len(calls)) == (Status.NOT_ATTEMPTED, 2)


def test_a_group_list_that_waits_for_a_frozen_broker_delays_no_removal(cluster: FakeCluster) -> None:
    """The committed offsets tell a group from its successor, and are read after the slow list."""
    clock = FakeClock()
    intercept(cluster, "read_groups", lambda: clock.sleep(27))
    assert run(cluster, [removal(cluster, "billing")], clock=clock).only.status is Status.APPLIED


@pytest.mark.parametrize(
    "limits",
    [{}, {"expires_ms": {"the plan": START_MS + 60_000}}, {"checked_at_ms": START_MS}],
    ids=["stopped", "expired", "old"],
)
def test_a_run_that_ends_after_its_intent_sends_nothing(cluster: FakeCluster, limits: dict[str, Any]) -> None:
    """A slow journal, then an interrupt or hours of sleep: an outcome, and no interval starts."""
    clock, stored = FakeClock(), list[None]()
    journal = SlowJournal(clock, 3 * 3600, lambda: stored.append(None))
    actions, fields = [paced(cluster), removal(cluster, "billing")], limits or {"stop": lambda: bool(stored)}
    result = run(cluster, actions, journal=journal, clock=clock, **fields).outcomes
    assert [(outcome.status, outcome.sends) for outcome in result] == [(Status.NOT_ATTEMPTED, 0)] * 2
    assert cluster.requests == []
    assert journal.open_intents("sha256:plan") == last_purges(journal) == {}


def test_a_quick_journal_needs_no_second_check(cluster: FakeCluster) -> None:
    clock, looks = FakeClock(), intercept(cluster, "read_groups")
    journal = SlowJournal(clock, 2, lambda: None)
    assert run(cluster, [remove(cluster)], journal=journal, clock=clock).only.status is Status.APPLIED
    assert len(looks) == 2, "before the request and after it"


@pytest.mark.parametrize(("first", "second"), [(50, 20), (20, 50)])
def test_the_bound_counts_from_the_lowest_log_start(cluster: FakeCluster, first: int, second: int) -> None:
    """The second request meets another log start than the first, and none below the plan's.

    Records that expired since the plan do not count as removed by this run.
    """
    action = purge(cluster, AT, 60)
    cluster.expire(AT, first)
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT))
    cluster.on_request = lambda _operation: (
        setattr(cluster.partition(AT), "log_start", second) if len(cluster.requests) == 1 else None
    )
    outcome = run(cluster, [action]).only
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.APPLIED, 2, 40)


def test_a_named_group_that_cannot_be_read_stops_the_purge(cluster: FakeCluster) -> None:
    """Unread is not "at the target": the check is repeated, then fails without a request."""
    action, coordinator = named(cluster), cluster.coordinator_of("billing")
    cluster.partition(AT).leader = next(broker for broker in cluster.brokers if broker != coordinator)
    silence_after_consumers(cluster, coordinator)
    outcome = run(cluster, [action]).only
    assert (outcome.status, outcome.sends) == (Status.NOT_ATTEMPTED, 0)
    assert "billing" in outcome.detail
    assert cluster.requests == []


def test_groups_that_the_run_removed_no_longer_count(cluster: FakeCluster) -> None:
    """The plan removes the consumer group that its purge accepts, and the removal is first."""
    actions = [SLOW(cluster), removal(cluster, "slow")]
    assert {outcome.status for outcome in run(cluster, actions).outcomes} == {Status.APPLIED}


@pytest.mark.parametrize("position", [None, 2], ids=["a member without a commit", "a commit below"])
def test_a_removed_group_that_is_created_again_counts(cluster: FakeCluster, position: int | None) -> None:
    """Its name was ignored for the rest of the run, and a purge took what its new members had not read."""
    actions = [SLOW(cluster), removal(cluster, "slow")]

    def create_again() -> None:
        if position is None:
            cluster.join("slow", "orders")
        else:
            cluster.commit("slow", {AT: position})

    intercept(cluster, "read_consumers", create_again)
    removed, purged = run(cluster, actions).outcomes
    assert (removed.status, purged.status, purged.sends) == (Status.APPLIED, Status.STALE, 0)
    assert '"slow"' in purged.detail


def test_a_group_that_joined_during_the_run_is_not_gone_with_its_coordinator(cluster: FakeCluster) -> None:
    """Only groups of the recheck were missed when no broker listed them any more."""
    clock = FakeClock()
    cluster.join("late", "shipments")
    cluster.create_topic("shipments", 1)
    known = cluster.read_groups(["billing"])
    readings = intercept(cluster, "read_consumers", lambda: cluster.moving.update({"late"} if readings[1:] else ()))
    cluster.on_request = lambda _operation: clock.sleep(61)
    outcomes = purge_both(cluster, clock, known_groups=known)
    assert [outcome.sends for outcome in outcomes] == [1, 0]
    assert mentions(outcomes[1].detail, '"late"', "not listed")


def test_a_group_that_the_run_saw_created_again_is_not_gone_with_its_coordinator(cluster: FakeCluster) -> None:
    """The removal itself said that a group of that name was created since, and the purge ignored it."""
    actions = [SLOW(cluster), removal(cluster, "slow")]
    known = cluster.read_groups(["slow"])

    def create_again() -> None:
        if cluster.requests and not cluster.moving:
            cluster.join("slow", "orders")

    intercept(cluster, "read_groups", create_again)
    intercept(cluster, "read_consumers", lambda: cluster.moving.add("slow"))
    removed, purged = run(cluster, actions, known_groups=known, tuning=Tuning(attempts=2)).outcomes
    assert (removed.status, removed.read_back) == (Status.APPLIED, "listed, STABLE")
    assert (purged.sends, cluster.partition(AT).log_start) == (0, 0)


def test_a_reading_from_before_the_clock_was_set_back_is_not_kept(cluster: FakeCluster) -> None:
    """A later reading that knows less replaced it only after its time, which had become hours."""
    clock = FakeClock(START_MS + 3_600_000)

    def set_back(_operation: Operation) -> None:
        clock.now_ms = START_MS
        cluster.silent = {3}

    cluster.on_request = set_back
    outcomes = purge_both(cluster, clock)
    assert [outcome.status for outcome in outcomes] == [Status.APPLIED, Status.NOT_ATTEMPTED]


def test_an_unclean_election_that_may_have_been_held_is_not_waiting(cluster: FakeCluster) -> None:
    """The second answer says that no replica is there to lead; the first request may have elected one."""
    partition = cluster.partition(AT)
    partition.leader = None
    action = election(cluster, AT, Election.UNCLEAN)
    cluster.faults += [
        Fault(Operation.ELECT_LEADER, KafkaError.REQUEST_TIMED_OUT),
        Fault(Operation.ELECT_LEADER, KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ]
    outcome = run(cluster, [action], tuning=Tuning(effect_wait_ms=0)).only
    assert (outcome.status, outcome.sends, outcome.possible) == (Status.FAILED, 2, True)
    assert "not known whether it was carried out" in outcome.detail


def test_groups_that_an_interrupted_run_removed_no_longer_count(cluster: FakeCluster) -> None:
    """Interrupted between removal and purge: the next run was stale for ever once."""
    action = SLOW(cluster)
    del cluster.groups["slow"]
    assert run(cluster, [action]).only.status is Status.STALE
    assert run(cluster, [action], removed_groups=["slow"]).only.status is Status.APPLIED


def test_a_purge_of_another_run_costs_a_request_and_no_record(cluster: FakeCluster) -> None:
    """`every` paces the plans of one run. Two runs may purge within it, each up to its own target."""
    first, second = purge(cluster, AT, 30, every_ms=30_000), purge(cluster, AT, 60, every_ms=30_000)
    applied = run(cluster, [first])
    outcome = run(cluster, [second], journal=applied.journal, run_id="run-2").only
    assert (outcome.status, len(cluster.requests), cluster.partition(AT).log_start) == (Status.APPLIED, 2, 60)


def test_a_group_that_goes_between_its_listing_and_its_commits_is_satisfied(cluster: FakeCluster) -> None:
    """Another run removes the group: it is still listed, and has no commits already."""
    action = removal(cluster, "billing")
    cluster.groups["billing"].commits = {}
    intercept(cluster, "read_groups", after=lambda: cluster.groups.pop("billing", None))
    outcome = run(cluster, [action]).only
    assert (outcome.status, outcome.sends) == (Status.SATISFIED, 0)


def test_a_retry_does_not_remove_a_recreated_group(cluster: FakeCluster) -> None:
    """The first removal loses its response, and the group is created again: no second request."""
    action = removal(cluster, "billing")
    cluster.faults.append(Fault(Operation.DELETE_GROUP, KafkaError._TIMED_OUT, has_effect=True))
    reads = intercept(cluster, "read_groups", lambda: len(reads) == 2 and cluster.commit("billing", {AT: 3}))
    outcome = run(cluster, [action]).only
    assert outcome.status is Status.FAILED
    assert outcome.sends == len(cluster.requests) == 1
    assert cluster.groups["billing"].commits == {AT: 3}
    assert "nothing was done" not in outcome.detail
    assert exit_code([outcome]) == 5, "the first of that name is gone"


def test_a_leaderless_partition_waits_for_its_leader(cluster: FakeCluster) -> None:
    """Without a leader the request is retried, and applied when there is one."""
    action = purge(cluster, AT, 60)
    cluster.partition(AT).leader = None
    clock = FakeClock()
    intercept(clock, "sleep", after=lambda: move(cluster, leader=2))
    assert run(cluster, [action], clock=clock).only.status is Status.APPLIED


def test_requests_are_split_by_leader(cluster: FakeCluster) -> None:
    """A leader moved since the plan: each DeleteRecords has partitions of one leader only, and none waits for a retry."""
    cluster.partition(OTHER).leader = cluster.partition(AT).leader
    actions = [purge(cluster, AT, 60), purge(cluster, OTHER, 60)]
    cluster.partition(OTHER).leader, clock = 3, FakeClock()
    outcomes = run(cluster, actions, clock=clock).outcomes
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    assert sorted(len(request.subjects) for request in cluster.requests) == [1, 1]
    assert clock() == START_MS


def test_the_order_is_elections_groups_records(cluster: FakeCluster) -> None:
    """The least destructive operations are first, in any order of the plan."""
    cluster.partition(AT).replicas = (2, 3, 1)
    actions = [purge(cluster, AT, 60), removal(cluster, "billing"), election(cluster, AT)]
    run(cluster, actions)
    assert [request.operation for request in cluster.requests] == [
        Operation.ELECT_LEADER,
        Operation.DELETE_GROUP,
        Operation.DELETE_RECORDS,
    ]


@pytest.mark.parametrize(
    ("age_s", "asked_s", "status"), [(49, 0, APPLIED), (51, 0, NOT_ATTEMPTED), (49, 30, NOT_ATTEMPTED)]
)
def test_consumers_are_good_for_a_minute(cluster: FakeCluster, age_s: int, asked_s: int, status: Status) -> None:
    """The last complete reading, if a broker is silent; ten seconds of it are for the request.

    Its age was once taken before a silent broker was asked: a reading of 89 s let the request go out.
    """
    clock = FakeClock()
    intercept(cluster, "read_consumers", lambda: clock.sleep(asked_s if cluster.silent else 0))
    cluster.on_request = lambda _operation: grow_old(cluster, clock, age_s)
    outcomes = purge_both(cluster, clock)
    assert [outcome.status for outcome in outcomes] == [Status.APPLIED, status]
    assert status is APPLIED or "the list of groups is not complete" in outcomes[1].detail


def test_a_minute_includes_the_time_until_the_request(cluster: FakeCluster) -> None:
    """A check that took readings of 55 s sent its request 9 s later: they were 64 s old."""
    clock, readings, sent = FakeClock(), list[int](), list[int]()

    def note(consumers: Consumers) -> Consumers:
        readings.extend([clock.now_ms] if consumers.incomplete is None else [])
        return consumers

    def age(_operation: Operation) -> None:
        sent.append(clock.now_ms - readings[-1])
        grow_old(cluster, clock, 46)

    intercept(cluster, "read_consumers", change=note)
    cluster.on_request = age
    purge_both(cluster, clock, journal=SlowJournal(clock, 9, lambda: None))
    assert sent
    assert max(sent) <= 60_000


@pytest.mark.parametrize("unreadable", ["", "new"])
def test_a_group_that_cannot_be_read_hides_no_other(cluster: FakeCluster, unreadable: str) -> None:
    """With a group without a name, no reading was complete: for a minute the first one stayed, and a
    consumer that joined was not seen. A group that is new and cannot be read yet may be behind.
    """
    clock = FakeClock()
    if not unreadable:
        cluster.join("")

    def partly(consumers: Consumers) -> Consumers:
        rebalancing = {"consumption_unread": Unknown("rebalancing")}
        groups = {
            name: replace(of, **rebalancing if name == unreadable else {}) for name, of in consumers.groups.items()
        }
        return replace(consumers, groups=groups)

    def join(_operation: Operation) -> None:
        clock.now_ms += 11_000
        cluster.join(unreadable or "late", "orders")

    intercept(cluster, "read_consumers", change=partly)
    cluster.on_request = join
    outcomes = purge_both(cluster, clock)
    assert [outcome.sends for outcome in outcomes] == [1, 0]
    assert (unreadable or "late") in outcomes[1].detail


@pytest.mark.parametrize("gone", [False, True])
def test_a_group_whose_coordinator_moves_is_not_gone(cluster: FakeCluster, gone: bool) -> None:
    """No broker listed it and no error said so: it had moved back since the recheck, and lost records."""
    known = cluster.read_groups(["billing"])
    cluster.commit("billing", {AT: 10})
    if gone:
        del cluster.groups["billing"]
    else:
        cluster.moving = {"billing"}
    outcome = run(cluster, [purge(cluster, AT, 60)], known_groups=known).only
    assert (outcome.status, outcome.sends) == ((Status.APPLIED, 1) if gone else (Status.NOT_ATTEMPTED, 0))
    assert gone or mentions(outcome.detail, '"billing"', "not listed")


@pytest.mark.parametrize("seconds", [9, 15, 40])
def test_consumers_that_take_long_to_read_are_good_for_the_next_check(cluster: FakeCluster, seconds: int) -> None:
    """On a cluster with tens of thousands of groups every check read them again, and was too old."""
    clock = FakeClock()
    intercept(cluster, "read_consumers", lambda: clock.sleep(seconds))
    assert run(cluster, [purge(cluster, AT, 60)], clock=clock).only.status is Status.APPLIED


def test_a_consumer_that_joins_during_the_run_is_seen(cluster: FakeCluster) -> None:
    """It has no commit, so it stands at the log start: the rest of its topic is not purged."""
    clock = FakeClock()
    cluster.on_request = lambda _operation: (clock.sleep(11), cluster.join("late", "orders"))
    outcomes = purge_both(cluster, clock)
    assert [outcome.status for outcome in outcomes] == [Status.APPLIED, Status.STALE]
    assert '"late"' in outcomes[1].detail


def test_a_group_that_gets_members_and_cannot_be_read_is_news(cluster: FakeCluster) -> None:
    """It was EMPTY, and its new member rebalances: the reading from before it joined stayed for a minute."""
    clock = FakeClock()
    cluster.create_topic("shipments", 1)
    cluster.commit("late", {TopicPartition("shipments", 0): 0})

    def join(_operation: Operation) -> None:
        clock.now_ms += 11_000
        cluster.join("late", "orders")
        cluster.groups["late"].unread = True

    cluster.on_request = join
    outcomes = purge_both(cluster, clock)
    assert [(outcome.status, outcome.sends) for outcome in outcomes] == [(Status.APPLIED, 1), (Status.NOT_ATTEMPTED, 0)]
    assert mentions(outcomes[1].detail, '"late"', "rebalancing")


@pytest.mark.parametrize(
    ("known", "sends"),
    [({"shipments"}, 1), ({"shipments", "orders"}, 0), (None, 0), (set(), 0)],
    ids=["of another topic", "here", "new", "with pending commits only in the recheck"],
)
def test_a_rebalancing_group_counts_on_the_topics_of_its_last_generation(
    cluster: FakeCluster, known: set[str] | None, sends: int
) -> None:
    """`known`: in the recheck. The readings before a request say nothing of its members until it is stable."""
    cluster.join("slow", "shipments")
    facts = {} if known is None else {"slow": replace(cluster.read_groups(["slow"])["slow"], may_read=frozenset(known))}
    cluster.groups["slow"].unread = True
    assert run(cluster, [purge(cluster, AT, 60)], known_groups=facts).only.sends == sends


@pytest.mark.parametrize(
    ("known", "news", "sends"),
    [({"shipments"}, set(), 1), ({"orders"}, set(), 0), (None, {"orders"}, 0), (set(), {"orders"}, 0)],
    ids=["of another topic", "here", "new", "of members since the recheck"],
)
@pytest.mark.parametrize("kind", [GroupType.CLASSIC, GroupType.CONSUMER])
def test_a_stable_group_counts_where_its_members_subscribe(
    cluster: FakeCluster, kind: GroupType, known: set[str] | None, news: set[str], sends: int
) -> None:
    """In a cooperative rebalance nobody has a partition that a member gives up, and the group is STABLE (KIP-429)."""
    cluster.join("moving", "shipments")
    cluster.groups["moving"].type = kind
    cluster.record_activity("moving")
    facts = cluster.read_groups(["moving"])["moving"]
    recheck = {} if known is None else {"moving": replace(facts, may_read=frozenset(known))}
    cluster.subscriptions[cluster.newest_record("moving")] = frozenset(news)
    outcome = run(cluster, [purge(cluster, AT, 60)], known_groups=recheck).only
    assert outcome.sends == sends
    assert sends or mentions(outcome.detail, '"moving"', "is at 0")


@pytest.mark.parametrize(
    ("kind", "has_left", "sends"),
    [(GroupType.CLASSIC, True, 1), (GroupType.CLASSIC, False, 0), (GroupType.STREAMS, True, 1)],
)
def test_what_members_subscribed_to_counts_while_there_are_members(
    cluster: FakeCluster, kind: GroupType, has_left: bool, sends: int
) -> None:
    """An EMPTY group without a commit on a topic reads nothing there. Of Streams no call tells the state."""
    cluster.join("moving", "shipments")
    seen = cluster.read_groups(["moving"])["moving"]
    facts = {"moving": replace(seen, type=kind, may_read=frozenset({"orders"}))}
    cluster.groups["moving"].hidden = kind is GroupType.STREAMS
    if has_left:
        cluster.leave("moving")
    assert run(cluster, [purge(cluster, AT, 60)], known_groups=facts).only.sends == sends


def test_a_streams_group_is_removed_by_what_the_consumer_offsets_says(cluster: FakeCluster) -> None:
    """No call tells its type and state: the plan read both from the log, and the log has no newer record."""
    action = STREAMS(cluster)
    outcome = run(cluster, [action]).only
    assert (outcome.status, outcome.sends, outcome.read_back) == (Status.APPLIED, 1, "absent")
    assert outcome.removed_offsets is not None
    assert run(cluster, [action]).only.status is Status.SATISFIED


@pytest.mark.parametrize("readings", [None, 3], ids=["never", "with the third reading"])
def test_a_removal_is_done_once_its_tombstones_are_read(cluster: FakeCluster, readings: int | None) -> None:
    """Up to Kafka 3.9 NONE comes before the followers have them, or although none could be written."""
    action = remove_idle(cluster)
    cluster.remove_group = cluster.groups.pop  # type: ignore[method-assign, assignment]
    seen = intercept(cluster, "read_consumer_offsets", lambda: len(seen) == readings and log_record(cluster, "billing"))
    outcome = run(cluster, [action]).only
    assert (outcome.sends, outcome.possible, len(cluster.requests)) == (1, True, 1)
    if readings is None:
        assert outcome.status is Status.FAILED
        assert "no record of its removal" in outcome.detail
        assert outcome.removed_offsets, "restore-group can write them"
    else:
        assert (outcome.status, outcome.read_back) == (Status.APPLIED, "absent")


def test_a_group_that_commits_the_same_offsets_again_is_another_one(cluster: FakeCluster) -> None:
    """A consumer without new records does. The removal failed, it was said, and the same group was still listed."""
    action, remove = remove_idle(cluster), cluster.remove_group

    def remove_and_commit(group: str) -> None:
        again = cluster.groups[group]
        remove(group)
        cluster.groups[group] = again
        log_record(cluster, group)

    cluster.remove_group = remove_and_commit  # type: ignore[method-assign]
    outcome = run(cluster, [action]).only
    assert (outcome.status, outcome.sends, outcome.read_back) == (Status.APPLIED, 1, "listed, EMPTY")
    assert "created since (__consumer_offsets holds newer records" in outcome.detail


@pytest.mark.parametrize("state", [GroupState.DEAD, GroupState.UNKNOWN, Unknown("no answer")])
def test_a_listed_group_in_no_known_state_is_no_proof_of_its_removal(
    cluster: FakeCluster, state: GroupState | Unknown
) -> None:
    """The former coordinator and the new one both list it: it was called created again, and then ignored."""
    action, before = removal(cluster, "billing"), cluster.read_groups(["billing"])["billing"]
    listed = {"billing": replace(before, state=state)}
    intercept(cluster, "read_groups", change=lambda read: listed if cluster.requests else read)
    outcome = run(cluster, [action], tuning=Tuning(effect_wait_ms=0)).only
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
    cluster: FakeCluster, committed: int | None, members: int, status: Status, detail: str
) -> None:
    """The broker answered NONE, and the list was incomplete then. Later a group of that name may be there."""
    action = removal(cluster, "billing")
    cluster.on_request = lambda _operation: setattr(cluster, "may_describe", False)

    def create_again() -> None:
        if not cluster.may_describe and committed is not None:
            cluster.commit("billing", {AT: committed, OTHER: 80})
            cluster.groups["billing"].members = members
        cluster.may_describe = True

    intercept(cluster, "read_groups", after=create_again)
    outcome = run(cluster, [action], tuning=Tuning(effect_wait_ms=0)).only
    assert outcome.status is status, outcome.detail
    assert detail in outcome.detail
    assert len(cluster.requests) == outcome.sends == 1


@pytest.fixture
def unread() -> FakeCluster:
    """A topic that no group reads."""
    return cluster_of_orders()


@pytest.mark.parametrize(
    ("low_watermark", "words"),
    [
        (59, "low watermark 59, below the target 60: not proven on all live replicas"),
        (0, "low watermark 0, below the target 60: not proven on all live replicas"),
        (61, "the log start is 60, below the low watermark 61"),
    ],
    ids=["below the target", "zero", "of another log than was read back"],
)
def test_a_low_watermark_that_disagrees_is_read_back_once_more(
    unread: FakeCluster, low_watermark: int, words: str
) -> None:
    """The outcome says what the answer did not prove."""
    unread.low_watermarks[AT] = low_watermark
    outcome = run(unread, [to_60(unread)]).only
    assert (outcome.status, outcome.low_watermark, unread.refreshes) == (Status.APPLIED, low_watermark, 1)
    assert words in outcome.detail


@pytest.mark.parametrize("low_watermark", [None, 60])
def test_results_and_journal_hold_the_low_watermark(unread: FakeCluster, low_watermark: int | None) -> None:
    """After a timeout the log start alone proves the deletion; the missing watermark is not zero."""
    if low_watermark is None:
        unread.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError.REQUEST_TIMED_OUT, has_effect=True))
    else:
        unread.expire(AT, 30)
    result = run(unread, [to_60(unread)])
    outcome = (result.only.status, result.only.low_watermark, result.only.detail, unread.refreshes)
    assert outcome == (Status.APPLIED, low_watermark, DeleteRecords.APPLIED, 0)
    assert [entry.low_watermark for entry in result.journal.entries()] == [None, low_watermark]


def test_a_removed_group_whose_first_commit_is_pending_counts(cluster: FakeCluster) -> None:
    """It was created again in a transaction, and has no visible commit."""
    cluster.commit_pending("slow", {AT: 30})
    result = run(cluster, [purge(cluster, AT, 60)], removed_groups=["slow"])
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
    cluster: FakeCluster, known: set[str] | None, subscribes: str | None, status: Status
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
    ends = {number: len(records) for number, records in cluster.consumer_offsets.items()}
    if subscribes is not None:
        cluster.subscribe("workers", AT.topic if subscribes == "orders" else subscribes)
    action = purge(cluster, AT, 60)
    result = run(cluster, [action], known_groups={"workers": facts}, consumer_offsets_ends=ends)
    assert result.only.status is status
