"""Whole runs on the fake cluster: batches, rounds, interrupts, and one outcome for every action."""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest
from confluent_kafka import KafkaError

from reconciler.apply.context import Tuning
from reconciler.apply.executor import apply
from reconciler.apply.results import exit_code
from reconciler.journal.entry import Event
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.model.action import Action
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import PartitionFacts
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from tests.fakes.cluster import FakeCluster, Fault, cluster_of_orders
from tests.fakes.error_table import Operation
from tests.fakes.runs import (
    FakeClock,
    context,
    election,
    intercept,
    last_purges,
    new_journal,
    purge,
    removal,
    run,
    silence_after_consumers,
    wide_cluster,
)


def two_leaders(*leaders: int) -> tuple[FakeCluster, list[TopicPartition]]:
    """Return a cluster, and two partitions with these leaders."""
    cluster, ats = cluster_of_orders(2), [TopicPartition("orders", number) for number in (0, 1)]
    for at, leader in zip(ats, leaders, strict=True):
        cluster.partition(at).leader = leader
    return cluster, ats


SMALL = Tuning(batch_max=7, window=50)


def test_requests_are_no_larger_than_allowed_and_of_one_leader() -> None:
    """Each DeleteRecords has partitions of one leader, at most the limit. No action is lost or repeated."""
    cluster, actions = wide_cluster()
    outcomes = run(cluster, actions, tuning=SMALL).outcomes
    assert sorted(outcome.action.address for outcome in outcomes) == sorted(action.address for action in actions)
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    sizes = {Operation.DELETE_RECORDS: 7, Operation.DELETE_GROUP: 9, Operation.ELECT_LEADER: 11}
    for request in cluster.requests:
        assert 0 < len(request.subjects) <= sizes[request.operation]
        assert len(set(request.subjects)) == len(request.subjects)
        if request.operation is Operation.DELETE_RECORDS:
            assert len({cluster.partition(at).leader for at in request.targets}) == 1


class CountingGateway:
    """Counts the calls to a gateway by their names."""

    def __init__(self, gateway: FakeCluster) -> None:
        self.gateway, self.calls = gateway, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self.gateway, name)


@pytest.mark.parametrize(
    ("commits", "batch_max", "sizes"),
    [
        ([10] * 12, None, [12]),
        ([10] * 12, 5, [5, 5, 2]),
        ([60_000, 40_000, 1, 99_999, 1], None, [2, 2, 1]),
        ([100_001, 250_000, 3], None, [1, 1, 1]),
        ([0, 100_000, 0, 0], 3, [3, 1]),
    ],
    ids=["few", "--batch", "many commits", "too many in each", "none"],
)
def test_group_removals_are_batched_by_groups_and_by_commits(
    commits: list[int], batch_max: int | None, sizes: list[int]
) -> None:
    """The commits of a batch are read and held at once. A group with more of them is a batch of its own."""
    cluster = FakeCluster()
    cluster.create_topic("narrow")
    removals = []
    for number, count in enumerate(commits):
        cluster.commit(f"group-{number}", {TopicPartition("narrow", 0): 3})
        action = removal(cluster, f"group-{number}")
        removals.append(replace(action, seen=replace(action.seen, commits=count)))
    outcomes = run(cluster, removals, tuning=Tuning(batch_max=batch_max)).outcomes
    assert [len(request.subjects) for request in cluster.requests] == sizes
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}


@pytest.mark.parametrize("operation", [DeleteRecords, DeleteGroup, ElectLeader])
def test_more_subjects_in_a_batch_need_no_more_calls(operation: type[Action]) -> None:
    """Reads, requests, read-backs and writes of the journal: each is a round trip, or waits for a disk."""
    calls = []
    for count in (20, 200):
        cluster, actions = wide_cluster(partitions=count, groups=count)
        selected = [action for action in actions if isinstance(action, operation)]
        gateway, journal = CountingGateway(cluster), new_journal()
        writes = intercept(journal.store, "append")  # each waits for the disk
        outcomes = run(gateway, selected, journal=journal).outcomes  # type: ignore[arg-type]
        assert [outcome.status for outcome in outcomes] == [Status.APPLIED] * len(selected)
        calls.append((gateway.calls, len(writes)))
    assert calls[0] == calls[1]


def test_deletions_go_to_the_leaders_that_the_same_run_elected() -> None:
    """In one request for each leader: a batch for the leaders of the plan would be split and checked again."""
    cluster, actions = wide_cluster(groups=0)
    gateway = CountingGateway(cluster)
    outcomes = run(gateway, actions).outcomes  # type: ignore[arg-type]
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    leaders = {cluster.partition(at).leader for request in cluster.requests for at in request.targets}
    assert gateway.calls["elect_leaders"] == 1
    assert gateway.calls["delete_records"] == gateway.calls["connect_for_deletions"] == len(leaders)
    assert gateway.calls["read_partitions"] == 2 + 2 * len(leaders)  # before and after each request


def test_late_leaders_are_waited_for_and_read_again() -> None:
    """Two leaders appear later than the others; those that never do are left to another round."""
    cluster = FakeCluster()
    cluster.create_topic("wide", 6)
    ats = [TopicPartition("wide", number) for number in range(6)]
    actions = []
    for at in ats:
        cluster.partition(at).replicas = (*cluster.partition(at).replicas[1:], cluster.partition(at).replicas[0])
        actions.append(election(cluster, at))
    late_leaders = {ats[1]: 3, ats[4]: 1}
    before = {at: cluster.partition(at).leader for at in late_leaders}

    def delay(facts: Mapping[TopicPartition, PartitionFacts]) -> Mapping[TopicPartition, PartitionFacts]:
        late = {at for at, readings in late_leaders.items() if at in facts and 1 < len(reads) < 2 + readings}
        return {**facts, **{at: replace(facts[at], leader=before[at]) for at in late}}

    reads = intercept(cluster, "read_partitions", change=delay)
    outcomes = run(cluster, actions).outcomes
    assert {(outcome.status, outcome.sends) for outcome in outcomes} == {(Status.APPLIED, 1)}
    assert reads == [(ats,), (ats,), ([ats[1], ats[4]],), ([ats[1]],), ([ats[1]],)]


def test_a_second_apply_changes_nothing() -> None:
    """The same plan again: all actions are satisfied, and no request is sent."""
    cluster, actions = wide_cluster()
    run(cluster, actions)
    cluster.requests.clear()
    second_outcomes = run(cluster, actions, run_id="run-2").outcomes
    assert {outcome.status for outcome in second_outcomes} == {Status.SATISFIED}
    assert cluster.requests == []


def test_an_interrupt_sends_nothing_new() -> None:
    """Requests in flight have outcomes, other actions are not attempted."""
    cluster, actions = wide_cluster()
    stop = threading.Event()

    def stop_after_five(_operation: Operation) -> None:
        if len(cluster.requests) == 5:
            stop.set()

    cluster.on_request = stop_after_five
    outcomes = run(cluster, actions, tuning=SMALL, stop=stop.is_set).outcomes
    assert len(outcomes) == len(actions)
    # Other leaders' requests may be under way at that moment.
    assert 5 <= len(cluster.requests) < 5 + SMALL.lanes_at_once
    sent = {outcome.action.address for outcome in outcomes if outcome.sends}
    assert {outcome.status for outcome in outcomes if outcome.action.address in sent} == {Status.APPLIED}
    assert {o.status for o in outcomes if o.action.address not in sent} == {Status.NOT_ATTEMPTED}


def test_an_interrupt_ends_the_wait_before_a_retry() -> None:
    """The stop ends the wait at once, and an unknown result stays unknown."""
    cluster, _ = wide_cluster()
    at = TopicPartition("wide", 1)
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT, times=100))
    clock = FakeClock()
    start_ms = clock.now_ms
    outcome = run(cluster, [purge(cluster, at, 7)], clock=clock, stop=lambda: bool(cluster.requests)).only
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.FAILED, 1, 7)
    assert "interrupted" in outcome.detail
    assert clock.now_ms - start_ms < 1_000


def test_the_caller_knows_whether_a_request_was_sent() -> None:
    """`sending` is called after the intents are stored, before each request, never without one."""
    cluster, actions = wide_cluster(30, 5)
    journal = new_journal()
    calls: list[tuple[int, int]] = []

    def applied(stop: bool) -> list[Status]:
        outcomes = run(
            cluster,
            actions,
            journal=journal,
            stop=lambda: stop,
            sending=lambda: calls.append((len(list(journal.entries())), len(cluster.requests))),
            tuning=Tuning(lanes_at_once=1, batch_max=4),
        ).outcomes
        return [outcome.status for outcome in outcomes]

    assert set(applied(stop=True)) == {Status.NOT_ATTEMPTED}
    assert calls == []
    assert set(applied(stop=False)) == {Status.APPLIED}
    assert [requests for _stored, requests in calls] == list(range(len(cluster.requests)))
    assert all(stored > 0 for stored, _requests in calls)
    assert max(len(request.subjects) for request in cluster.requests) == 4


def test_waits_grow_and_are_bounded() -> None:
    """The waits between rounds grow up to the longest backoff."""
    cluster, _ = wide_cluster()
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT, times=100))
    clock = FakeClock()
    start_ms = clock.now_ms
    tuning = Tuning(attempts=8, backoff_ms=250, backoff_max_ms=2_000)
    run(cluster, [purge(cluster, TopicPartition("wide", 1), 7)], clock=clock, tuning=tuning)
    longest = 250 + 500 + 1_000 + 4 * 2_000
    assert longest / 2 <= clock.now_ms - start_ms <= longest


@pytest.mark.parametrize("silent", [1, 2, 3])
def test_a_silent_broker_affects_its_own_partitions(silent: int) -> None:
    """It was heard when the consumers were read; of the other leaders all is applied."""
    cluster, _ = wide_cluster()
    ats = [TopicPartition("wide", number) for number in range(60)]
    purges = [purge(cluster, at, 7) for at in ats]
    silence_after_consumers(cluster, silent)
    outcomes = {o.action.address.partition: o for o in run(cluster, purges).outcomes}
    for at in ats:
        expected = Status.NOT_ATTEMPTED if cluster.partition(at).leader == silent else Status.APPLIED
        assert outcomes[at.partition].status is expected
        assert (cluster.partition(at).log_start == 7) is (expected is Status.APPLIED)


def test_progress_counts_to_the_end() -> None:
    """There is a line per batch, and the last line of each phase says that all actions have ended."""
    cluster, actions = wide_cluster(30, 5)
    states: dict[str, object] = {}
    run(cluster, actions, progress=lambda step, *state: states.update({step: state}))
    assert states == {
        "elections": ("10 of 10", 10, 10),
        "group removals": ("5 of 5", 5, 5),
        "record deletions": ("30 of 30", 30, 30),
    }


def test_progress_counts_nothing_that_was_not_attempted() -> None:
    """After Ctrl-C during the scan, it said `group removals (5 of 5)`, and nothing had been sent."""
    cluster, actions = wide_cluster(30, 5)
    states: dict[str, object] = {}
    run(cluster, actions, progress=lambda step, *state: states.update({step: state[1]}), stop=lambda: True)
    assert states == {"elections": 0, "group removals": 0, "record deletions": 0}


def test_no_request_is_sent_without_a_reader_of_outcomes() -> None:
    """A closed pipe: requests in flight end, in the journal. Once all others were sent."""
    cluster, actions = wide_cluster(40, 0)
    purges = [action for action in actions if isinstance(action, DeleteRecords)]
    started, reader_gone = threading.Event(), threading.Event()

    def delete_slowly(_operation: Operation) -> None:
        if started.is_set():
            reader_gone.wait(0.05)
        started.set()

    def raise_broken_pipe(_line: str, *_state: object) -> None:
        raise BrokenPipeError("no reader")

    cluster.on_request = delete_slowly
    journal = new_journal()
    with pytest.raises(BrokenPipeError):
        run(cluster, purges, journal=journal, progress=raise_broken_pipe, tuning=Tuning(batch_max=1))
    sent_count = len(cluster.requests)
    assert sent_count < len(purges)
    intents, outcomes = (
        {entry.address for entry in journal.entries() if entry.event is event}
        for event in (Event.INTENT, Event.OUTCOME)
    )
    assert intents == outcomes


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (BlockingIOError(11, "Resource temporarily unavailable"), "Resource temporarily unavailable"),
        (MemoryError(), "ran out of a resource: memory"),
    ],
    ids=["a thread", "memory"],
)
def test_an_exhausted_machine_loses_no_outcome(error: Exception, words: str) -> None:
    """Without a descriptor, a thread or memory the run stops; a request in flight counts as possible."""
    cluster, actions = wide_cluster(30, 5)

    def exhausted(_operation: Operation) -> None:
        raise error

    cluster.on_request = exhausted
    applied = run(cluster, actions)
    assert {outcome.action.address for outcome in applied.outcomes} == {action.address for action in actions}
    results = {(outcome.status, outcome.possible) for outcome in applied.outcomes}
    assert results <= {(Status.FAILED, True), (Status.NOT_ATTEMPTED, False)}
    assert (Status.FAILED, True) in results
    assert all(words in outcome.detail for outcome in applied.outcomes)
    assert exit_code(applied.outcomes) == 5


@pytest.mark.parametrize("after_intent", [False, True])
def test_actions_before_an_exhausted_machine_were_not_sent(after_intent: bool) -> None:
    """The check, or the step after the intent, fails: no request, and no interval starts."""
    cluster = cluster_of_orders()
    clock, journal = FakeClock(), new_journal()
    action = purge(cluster, TopicPartition("orders", 0), 60, every_ms=30_000)

    def exhausted() -> None:
        clock.sleep(20)
        if len(reads) == 1 + after_intent:
            raise BlockingIOError(11, "Resource temporarily unavailable")

    reads = intercept(cluster, "read_partitions", exhausted)
    outcome = run(cluster, [action], journal=journal, clock=clock).only
    assert (outcome.status, outcome.sends, outcome.possible) == (Status.NOT_ATTEMPTED, 0, False)
    assert exit_code([outcome]) == 1
    assert (cluster.requests, last_purges(journal), journal.open_intents("sha256:plan")) == ([], {}, {})
    assert len(list(journal.entries())) == 2 * after_intent


def test_intents_without_a_reader_of_outcomes_are_ended() -> None:
    """The caller stops reading after one intent: the lane sends nothing, the journal says so."""
    cluster, ats = two_leaders(1, 2)
    stored, reader_gone = threading.Event(), threading.Event()

    class Late(ActionJournal):
        def record(self, events: Sequence[Action | Outcome], **run: Any) -> None:
            super().record(events, **run)
            if not isinstance(events[0], Outcome) and events[0].address.partition == 1:
                stored.set()
                reader_gone.wait(30)

    journal = Late(JournalFile(Path("journal.jsonl")))
    of_run = context(cluster, journal=journal, stop=reader_gone.is_set)
    outcomes = apply([purge(cluster, at, 60) for at in ats], of_run)
    assert next(outcomes).status is Status.APPLIED
    assert stored.wait(30)
    reader_gone.set()
    outcomes.close()  # type: ignore[attr-defined]
    assert len(cluster.requests) == 1
    assert journal.open_intents("sha256:plan") == {}
    assert set(last_purges(journal)) == {ats[0]}


def test_a_lane_without_a_thread_of_its_own_loses_no_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of another lane may take it before the run knows that no thread could be started."""
    cluster, ats = two_leaders(1, 2)
    refused, taken = threading.Event(), threading.Event()
    start, names = threading.Thread.start, []

    def start_one(thread: threading.Thread) -> None:
        if thread.name.startswith("apply"):
            names.append(thread.name)
            if len(names) == 2:
                refused.set()
                assert taken.wait(30)
                raise RuntimeError("can't start new thread")
        start(thread)

    def wait_for_both(_operation: Operation) -> None:
        assert refused.wait(30)
        if len(cluster.requests) == 2:
            taken.set()
            time.sleep(0.2)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    cluster.on_request = wait_for_both
    journal = new_journal()
    with pytest.raises(RuntimeError, match="can't start new thread"):
        run(cluster, [purge(cluster, at, 60) for at in ats], journal=journal)
    assert len(cluster.requests) == 2
    assert journal.open_intents("sha256:plan") == {}


def test_outcomes_before_a_bug_are_stored() -> None:
    """The first leader's purge is in the journal, although the request to the second one ends the run."""
    cluster, ats = two_leaders(3, 1)
    actions = [purge(cluster, at, 60) for at in ats]
    seen_leader = [replace(action, seen=replace(action.seen, leader=1)) for action in actions]

    def raise_bug(_operation: Operation) -> None:
        if cluster.requests[1:]:
            raise RuntimeError("a bug")

    cluster.on_request = raise_bug
    journal = new_journal()
    with pytest.raises(RuntimeError, match="a bug"):
        run(cluster, seen_leader, journal=journal)
    outcomes = [entry for entry in journal.entries() if entry.event is Event.OUTCOME]
    assert [(str(entry.address), entry.status) for entry in outcomes] == [
        ("RetentionFloor/floor/orders[0]", Status.APPLIED.value)
    ]


def test_the_threads_of_all_rounds_and_windows_have_the_same_few_names() -> None:
    """The gateway opens a client for each name: a plan of a million actions must not open hundreds."""
    cluster, _ = wide_cluster(partitions=40, groups=0)
    names = set()
    cluster.on_request = lambda _operation: names.add(current_thread().name)
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError.NOT_LEADER_FOR_PARTITION, times=20))
    purges = [purge(cluster, TopicPartition("wide", number), 7) for number in range(40)]
    outcomes = run(cluster, purges, tuning=Tuning(batch_max=1, window=5, lanes_at_once=3)).outcomes
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    assert 1 <= len(names) <= 3
