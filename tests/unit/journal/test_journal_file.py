"""The journal in a file: what it stores before and after requests, and what survives crashes and
full disks.
"""

import fcntl
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from reconciler.apply.restore import _of_journal, find_removal
from reconciler.errors import JournalUnavailable, PlanUnusable
from reconciler.journal import entry as journal_entry
from reconciler.journal import file as journal_file
from reconciler.journal import journal as action_journal
from reconciler.journal.entry import Event, JournalEntry
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from reconciler.text.escape import NEXT
from tests.command import full_disk
from tests.fakes.cluster import FakeCluster, Fault, cluster_of_orders
from tests.fakes.error_table import Operation
from tests.fakes.runs import election, intercept, last_purges, purge, removal, run
from tests.golden.wording import mentions
from tests.strategies.facts import NOW_MS

AT = TopicPartition("orders", 0)
PLAN = "sha256:plan"


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = cluster_of_orders(2)
    cluster.commit("billing", {AT: 80})
    return cluster


@pytest.fixture
def journal(tmp_path: Path) -> ActionJournal:
    return ActionJournal(JournalFile(tmp_path / "kept" / "journal.jsonl"), who="ann", commit="4f2c9aa")


def outcome(action: object, *, sends: int, status: Status = Status.APPLIED, removed_max: int = 0) -> Outcome:
    return Outcome(action=action, status=status, detail="", sends=sends, removed_max=removed_max)  # type: ignore[arg-type]


def test_no_file_is_an_empty_journal(journal: ActionJournal) -> None:
    """Without a journal no partition was ever purged, and a read creates no file."""
    assert last_purges(journal) == {}
    assert list(journal.entries()) == []
    assert not (journal.store.path).exists()


def test_entries_have_author_plan_and_request(cluster: FakeCluster, journal: ActionJournal) -> None:
    """Intent before, outcome after, with author, plan and request, for all three operations."""
    cluster.partition(AT).replicas = (2, 3, 1)
    actions = [purge(cluster, AT, 60), removal(cluster, "billing"), election(cluster, AT)]
    run(cluster, actions, journal=journal)
    entries = list(journal.entries())
    assert [(entry.operation, entry.event) for entry in entries] == [
        (operation, event)
        for operation in ("elect_leader", "delete_group", "delete_records")
        for event in (Event.INTENT, Event.OUTCOME)
    ]
    assert {(entry.who, entry.commit, entry.plan_digest) for entry in entries} == {("ann", "4f2c9aa", PLAN)}
    assert dict(entries[4].request) == {"topic": "orders", "partition": 0, "before_offset": 60}
    assert entries[5].status is Status.APPLIED
    assert {entry.address.name for entry in entries if entry.address.kind == "GroupRemoval"} == {"billing"}


def test_every_request_has_its_intent_first(cluster: FakeCluster, journal: ActionJournal) -> None:
    """When a request reaches the brokers, the file already has its intent, also for each retry."""
    held = []
    cluster.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT, times=2))
    cluster.on_request = lambda _operation: held.append(len(list(journal.entries())))
    run(cluster, [purge(cluster, AT, 60)], journal=journal)
    assert held == [1, 2, 3]


def test_names_survive_the_journal(cluster: FakeCluster, journal: ActionJournal) -> None:
    """Group ids are arbitrary text: newlines and quotes come back as they were."""
    names = ["a\nb", 'quo"te', "\u2028", "a/b[3]", "x" * 5_000]
    for name in names:
        cluster.commit(name, {AT: 1})
    run(cluster, [removal(cluster, name) for name in names], journal=journal)
    assert {entry.address.name for entry in journal.entries()} == set(names)


def test_a_name_that_is_no_text_is_refused_before_any_request(cluster: FakeCluster, journal: ActionJournal) -> None:
    """Half a surrogate pair cannot come from Kafka, whose names are UTF-8, and no JSON can hold it."""
    cluster.commit("\ud800", {AT: 1})
    with pytest.raises(JournalUnavailable, match="nothing is sent without it"):
        journal.record([removal(cluster, "\ud800")], run_id="r", plan_digest=PLAN, at_ms=1)
    assert list(journal.entries()) == []


DAMAGED = [
    b'{"v":2,"at_ms":1.0,"event":"intent","run":"r","plan":"p","address":"A/b","operation":"o","request":{}}',
    b'{"v":2,"at_ms":1,"event":"intent","run":"r","plan":"p","address":"A/b","operation":"o","request":{},"x":1}',
    b'{"v":2,"at_ms":1,"event":"intent","run":"r","plan":"p","address":"A/b","operation":"o"}',
    b'{"v":2,"at_ms":1,"event":"intent","run":"r","run":"r","plan":"p","address":"A/b","operation":"o","request":{}}',
    b'{"v":2,"at_ms":1,"event":"meant","run":"r","plan":"p","address":"A/b","operation":"o","request":{}}',
]


@pytest.mark.parametrize(
    ("line", "words"), [*((line, "damaged in the line") for line in DAMAGED), (b'{"v":3}', "another version")]
)
def test_a_line_that_is_not_as_it_was_written_is_an_error(journal: ActionJournal, line: bytes, words: str) -> None:
    """1.0 for 1, an unknown, a missing or a repeated field, another version: the clock cannot be trusted."""
    journal.store.path.parent.mkdir()
    journal.store.path.write_bytes(line + b"\n")
    with pytest.raises(JournalUnavailable, match=words):
        last_purges(journal)


@pytest.mark.parametrize("torn", [b"{", b'{"v":2,"at_ms":17', b'{"v":2}', b"\x00\x00\x00"])
def test_a_torn_last_line_is_harmless(cluster: FakeCluster, journal: ActionJournal, torn: bytes) -> None:
    """After a crash the other lines are readable, and the next append cuts the torn one off."""
    run(cluster, [purge(cluster, AT, 60)], journal=journal)
    with journal.store.path.open("ab") as file:
        file.write(torn)
    fresh = ActionJournal(JournalFile(journal.store.path))
    assert len(list(fresh.entries())) == 2
    assert set(last_purges(fresh)) == {AT}
    fresh.record([purge(cluster, AT, 70)], run_id="run-2", plan_digest=PLAN, at_ms=5)
    assert len(list(ActionJournal(JournalFile(journal.store.path)).entries())) == 3
    assert journal.store.path.read_bytes().count(b"\n") == 3


def test_damage_elsewhere_is_not_harmless(cluster: FakeCluster, journal: ActionJournal) -> None:
    """A complete line that is not an entry means that the purge clock cannot be trusted."""
    run(cluster, [purge(cluster, AT, 60)], journal=journal)
    lines = journal.store.path.read_bytes().splitlines(keepends=True)
    journal.store.path.write_bytes(lines[0][:40] + b"\n" + lines[1])
    damaged_journal = ActionJournal(JournalFile(journal.store.path))
    for _ in range(2):
        with pytest.raises(JournalUnavailable, match="damaged in the line that ends at byte 41"):
            last_purges(damaged_journal)


def test_a_pipe_in_place_of_the_file_is_an_error(cluster: FakeCluster, journal: ActionJournal) -> None:
    """Opening it waited for ever, also for a signal."""
    journal.store.path.parent.mkdir()
    os.mkfifo(journal.store.path)
    with pytest.raises(JournalUnavailable, match="cannot be read: it is not a regular file"):
        last_purges(journal)
    with pytest.raises(JournalUnavailable, match="cannot be written: it is not a regular file"):
        journal.record([purge(cluster, AT, 60)], run_id="r", plan_digest=PLAN, at_ms=1)


def _cut(line: bytes) -> bytes:
    return line[:40] + b"\n"


def _unwritten(line: bytes) -> bytes:
    return bytes(len(line) - 1) + b"\n"


def _unwritten_digest(line: bytes) -> bytes:
    return line.replace(PLAN.encode(), bytes(len(PLAN)))


@pytest.mark.parametrize("damage", [_cut, _unwritten, _unwritten_digest])
def test_damage_is_seen_where_only_one_plan_is_sought(
    cluster: FakeCluster, journal: ActionJournal, damage: Callable[[bytes], bytes]
) -> None:
    """A line without the digest of the plan was passed over, and the plan removed a restored group again."""
    cluster.commit("old-etl", {AT: 1})
    run(cluster, [removal(cluster, "old-etl")], journal=journal)
    path = journal.store.path
    path.write_bytes(b"".join(map(damage, path.read_bytes().splitlines(keepends=True))))
    for read in (journal.removed_groups, journal.open_intents):
        with pytest.raises(JournalUnavailable, match="damaged in the line that ends at byte"):
            read(PLAN, since_ms=0)


def test_a_journal_that_is_truncated_during_a_read_is_an_error(
    cluster: FakeCluster, tmp_path: Path, journal: ActionJournal
) -> None:
    """A log rotation that copies and truncates ends the read with an error instead of a wait."""
    for _ in range(500):
        journal.record([purge(cluster, AT, 60)], run_id="r", plan_digest="sha256:plan", at_ms=1)
    reading = journal.entries()
    next(reading)
    path = tmp_path / "kept" / "journal.jsonl"
    os.truncate(path, len(b"".join(path.read_bytes().splitlines(keepends=True)[:400])))
    with pytest.raises(JournalUnavailable, match="was cut off at byte"):
        list(reading)


def test_no_intent_no_request(cluster: FakeCluster, journal: ActionJournal) -> None:
    """On a full disk no request is sent, and every outcome tells the reason."""
    journal.record([purge(cluster, AT, 1)], run_id="run-0", plan_digest=PLAN, at_ms=1)
    size = journal.store.path.stat().st_size
    actions = [purge(cluster, AT, 60), removal(cluster, "billing")]
    with full_disk(size + 100):
        outcomes = run(cluster, actions, journal=journal).outcomes
    assert {outcome.status for outcome in outcomes} == {Status.NOT_ATTEMPTED}
    assert "cannot be written" in outcomes[0].detail
    assert cluster.requests == []
    assert journal.store.path.stat().st_size == size
    assert len(list(journal.entries())) == 1


def test_disk_full_between_batches_stops_the_rest(cluster: FakeCluster, journal: ActionJournal) -> None:
    """The run reports the outcome of what was done, and does not attempt the rest."""
    actions = [removal(cluster, "billing"), purge(cluster, AT, 60)]
    room = 500  # an intent and a part of its outcome
    with full_disk(room):
        outcome_by_kind = {o.action.address.kind: o for o in run(cluster, actions, journal=journal).outcomes}
    assert outcome_by_kind["GroupRemoval"].status is Status.APPLIED
    assert outcome_by_kind["RetentionFloor"].status is Status.NOT_ATTEMPTED
    assert [entry.event for entry in journal.entries()] == [Event.INTENT]
    assert set(journal.open_intents(PLAN)) == {actions[0].address}


def test_unusable_paths_are_in_the_message(cluster: FakeCluster, tmp_path: Path) -> None:
    """A journal below a file cannot be written, and the message names it."""
    (tmp_path / "file").write_text("")
    journal = ActionJournal(JournalFile(tmp_path / "file" / "journal.jsonl"))
    with pytest.raises(JournalUnavailable, match=r"journal\.jsonl cannot be written") as error:
        journal.record([purge(cluster, AT, 60)], run_id="r", plan_digest=PLAN, at_ms=1)
    # The folder is that of the manifests: it cannot be chosen, as the message once said.
    assert mentions(str(error.value), f"write to {tmp_path / 'file'}", "spec.journal")
    with pytest.raises(JournalUnavailable, match=r"journal\.jsonl cannot be read"):
        last_purges(journal)


def test_the_last_purge_is_the_newest_outcome_that_may_have_deleted(
    cluster: FakeCluster, journal: ActionJournal
) -> None:
    """An intent alone says nothing, nor does an outcome that proves that nothing was deleted."""
    action = purge(cluster, AT, 60)
    journal.record([action], run_id="a", plan_digest=PLAN, at_ms=100)
    assert last_purges(journal) == {}
    possible = outcome(action, sends=1, status=Status.FAILED, removed_max=60)
    journal.record([possible], run_id="a", plan_digest=PLAN, at_ms=200)
    for status in (Status.NOT_ATTEMPTED, Status.FAILED, Status.SATISFIED):
        journal.record([outcome(action, sends=1, status=status)], run_id="b", plan_digest=PLAN, at_ms=300)
    assert last_purges(journal) == last_purges(ActionJournal(JournalFile(journal.store.path))) == {AT: 200}


def test_every_operation_that_deletes_records_counts(cluster: FakeCluster, journal: ActionJournal) -> None:
    """The clock of `every` once knew one operation by its name, and would have ignored the next one."""
    deleted = outcome(election(cluster, AT), sends=1, removed_max=1)
    journal.record([deleted], run_id="a", plan_digest=PLAN, at_ms=200)
    assert last_purges(journal) == {AT: 200}


def test_a_time_in_the_future_counts_as_none(cluster: FakeCluster, journal: ActionJournal) -> None:
    """A clock was in 2099 once: purges are held back neither until then, nor by a block."""
    action = purge(cluster, AT, 60)
    for at_ms in (1_000, 4_070_908_800_000):
        journal.record([outcome(action, sends=1, removed_max=60)], run_id="a", plan_digest=PLAN, at_ms=at_ms)
    assert journal.last_purges(every_ms=30_000, now_ms=2_000) == {AT: 1_000}


def test_what_decides_nothing_ends_no_intent_of_another_run(cluster: FakeCluster, journal: ActionJournal) -> None:
    """Run a sent and crashed, b stopped before its request, and a restore wrote offsets back: that of a is still open."""
    action = purge(cluster, AT, 60)
    journal.record([action], run_id="a", plan_digest=PLAN, at_ms=100)
    restored = outcome(action, sends=1, status=Status.APPLIED)
    journal.record([restored], run_id="r", plan_digest=action_journal.restore_of(PLAN), at_ms=150)
    assert {entry.run_id for entry in journal.open_intents(PLAN).values()} == {"a"}
    for status in (Status.NOT_ATTEMPTED, Status.WAITING):
        journal.record([action], run_id="b", plan_digest=PLAN, at_ms=200)
        journal.record([outcome(action, sends=0, status=status)], run_id="b", plan_digest=PLAN, at_ms=201)
        assert {entry.run_id for entry in journal.open_intents(PLAN).values()} == {"a"}
    journal.record([outcome(action, sends=0, status=Status.SATISFIED)], run_id="c", plan_digest=PLAN, at_ms=300)
    assert journal.open_intents(PLAN) == {}


def test_threads_wait_for_a_frozen_process_together(
    cluster: FakeCluster, journal: ActionJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight lanes once waited one after another, two minutes each. A lock that is never released ends in an error."""
    action = purge(cluster, AT, 60)
    journal.record([action], run_id="a", plan_digest=PLAN, at_ms=1)
    monkeypatch.setattr(journal_file, "_PATIENCE_S", 1.0)
    refused: list[float] = []
    start = time.monotonic()

    def lane() -> None:
        with pytest.raises(JournalUnavailable, match="held by another process"):
            journal.record([action], run_id="a", plan_digest=PLAN, at_ms=2)
        refused.append(time.monotonic() - start)

    with journal.store.path.open("rb") as locked_file:
        fcntl.flock(locked_file, fcntl.LOCK_EX)
        threads = [threading.Thread(target=lane) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(JournalUnavailable, match="held by another process for 1 s: check whether a run is frozen"):
            last_purges(journal)
    assert len(refused) == 8
    assert max(refused) < 4
    assert len(list(journal.entries())) == 1


def test_the_clock_follows_another_process(cluster: FakeCluster, journal: ActionJournal) -> None:
    """The next call reads the lines of another run, too."""
    assert last_purges(journal) == {}
    other = ActionJournal(JournalFile(journal.store.path))
    other.record([outcome(purge(cluster, AT, 60), sends=1, removed_max=60)], run_id="a", plan_digest=PLAN, at_ms=100)
    assert last_purges(journal) == {AT: 100}


@pytest.mark.parametrize(
    ("events", "named"),
    [
        ([("b", None)], ("b",)),
        ([("b", None), ("b", 60)], ("b",)),
        ([("b", None), ("b", 0)], ()),
        ([("a", None), ("a", 60)], ()),
        ([("b", 60), ("c", None)], ("b", "c")),
    ],
    ids=["it is under way or was killed", "it has removed some", "it has removed none", "only this run", "two others"],
)
def test_a_run_names_the_others_that_count_the_same_records(
    cluster: FakeCluster, journal: ActionJournal, events: list[tuple[str, int | None]], named: tuple[str, ...]
) -> None:
    """Two applies of one plan side by side claimed 3,230 of 2,420 records: each now says what the other counts."""
    action, other = purge(cluster, AT, 60), purge(cluster, TopicPartition("orders", 1), 60)
    for at_ms, (run_id, removed) in enumerate(events):
        event = action if removed is None else outcome(action, sends=1, removed_max=removed)
        journal.record([event], run_id=run_id, plan_digest=PLAN, at_ms=at_ms)
    journal.record([other], run_id="b", plan_digest="sha256:another plan", at_ms=100)
    own = [outcome(action, sends=1, removed_max=60), outcome(other, sends=1, removed_max=60)]
    noted = action_journal.note_other_claims(own, journal, PLAN, "a", since_ms=0)
    assert [entry.also_counted_by for entry in noted] == [named, ()]


@pytest.mark.parametrize(("removed", "named"), [(20, ()), (21, ("b",)), (60, ("b",))])
def test_a_run_that_goes_on_where_another_one_ended_counts_other_records(
    cluster: FakeCluster, journal: ActionJournal, removed: int, named: tuple[str, ...]
) -> None:
    """A group held the first run back at 40. The results said that both counted the 20 of the second run."""
    first = outcome(purge(cluster, AT, 40), sends=1, removed_max=40)
    journal.record([first], run_id="b", plan_digest=PLAN, at_ms=1)
    own = [outcome(purge(cluster, AT, 60), sends=1, removed_max=removed)]
    (noted,) = action_journal.note_other_claims(own, journal, PLAN, "a", since_ms=0)
    assert noted.also_counted_by == named


def test_a_run_that_removed_nothing_reads_no_journal(journal: ActionJournal) -> None:
    """Also not one that is damaged: there is nothing to count twice."""
    journal.store.path.parent.mkdir()
    journal.store.path.write_text("no entry\n", encoding="utf-8")
    assert action_journal.note_other_claims([], journal, PLAN, "a", since_ms=0) == []


@pytest.mark.parametrize(
    ("changes", "run_id"),
    [
        ({}, "a"),
        ({"status": Status.SATISFIED}, "a"),
        ({"status": Status.STALE}, None),
        ({"at_ms": NOW_MS - 360_000}, "a"),
        ({"at_ms": NOW_MS - 360_001}, None),
        ({"plan_digest": f"{PLAN}-b"}, None),
        ({"plan_digest": f"restore of {PLAN}", "status": Status.STALE}, "a"),
    ],
    ids=["removed", "gone before", "kept", "by another clock", "before the plan", "another plan", "restored"],
)
def test_a_plan_knows_the_groups_that_its_runs_left_gone(
    cluster: FakeCluster, journal: ActionJournal, changes: dict[str, Any], run_id: str | None
) -> None:
    """Neither a deletion of records nor an intent counts."""
    cluster.commit("other", {AT: 80})
    action, kept = removal(cluster, "billing"), removal(cluster, "other")
    changes = {"status": Status.APPLIED, "plan_digest": PLAN, "at_ms": NOW_MS} | changes
    journal.record(
        [kept], run_id="a", plan_digest=PLAN, at_ms=NOW_MS
    )  # lines of several writers are in no order of time
    events = [outcome(purge(cluster, AT, 60), sends=1), outcome(action, sends=1, status=changes.pop("status"))]
    journal.record(events, run_id="a", **changes)
    assert journal.removed_groups(PLAN, since_ms=NOW_MS) == ({} if run_id is None else {action.address: run_id})


def test_two_processes_append_whole_lines(cluster: FakeCluster, tmp_path: Path, journal: ActionJournal) -> None:
    """With four processes in parallel, every line is complete and none is lost."""
    script = """
import pickle, sys
from pathlib import Path
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
actions, journal = pickle.loads(Path(sys.argv[1]).read_bytes()), ActionJournal(JournalFile(Path(sys.argv[2])))
for at in range(50):
    journal.record(actions, run_id=sys.argv[3], plan_digest="p", at_ms=at)
"""
    actions = tmp_path / "actions"
    actions.write_bytes(pickle.dumps([purge(cluster, TopicPartition("orders", number), 60) for number in (0, 1)]))
    runs = [
        subprocess.Popen([sys.executable, "-c", script, str(actions), str(journal.store.path), f"run-{n}"])
        for n in range(4)
    ]
    assert [each.wait(60) for each in runs] == [0, 0, 0, 0]
    entries = list(journal.entries())
    assert len(entries) == 4 * 50 * 2
    assert {each.run_id for each in entries} == {f"run-{n}" for n in range(4)}


def test_actions_that_were_not_attempted_have_no_line(cluster: FakeCluster, journal: ActionJournal) -> None:
    """An interrupted run of a million actions does not write a line for each."""
    ended = run(cluster, [purge(cluster, AT, 60)], journal=journal, stop=lambda: True)
    assert ended.only.status is Status.NOT_ATTEMPTED
    assert list(journal.entries()) == []


def test_outcomes_of_a_later_run_name_the_interrupted_run(journal: ActionJournal) -> None:
    """Open intents end with the next outcome; other outcomes stay as they are."""
    cluster = cluster_of_orders(3)
    actions = [purge(cluster, TopicPartition("orders", number), 5) for number in range(3)]
    journal.record(actions[:2], run_id="killed", plan_digest="sha256:plan", at_ms=1)
    journal.record(actions[2:], run_id="other", plan_digest="sha256:other", at_ms=2)
    intents = journal.open_intents("sha256:plan")
    assert set(intents) == {action.address for action in actions[:2]}
    assert mentions(action_journal.progress_message(intents), "killed", "2 actions")
    rechecked = [outcome(action, sends=0, status=Status.SATISFIED) for action in (actions[0], actions[2])]
    annotated = [action_journal.annotate_interrupted(each, intents) for each in rechecked]
    assert "run killed" in annotated[0].detail
    assert annotated[1] == rechecked[1]
    journal.record(annotated[:1], run_id="next", plan_digest="sha256:plan", at_ms=3)
    assert set(journal.open_intents("sha256:plan")) == {actions[1].address}


def test_a_batch_is_one_line(cluster: FakeCluster, journal: ActionJournal) -> None:
    """Fifty partitions every 30 seconds once took 137 MB a day, a line for each intent and outcome."""
    cluster.create_topic("many", 1000)
    cluster.produce("many", dict.fromkeys(range(1000), 100))
    actions = [purge(cluster, TopicPartition("many", number), 60) for number in range(1000)]
    journal.record(actions[:50], run_id="a", plan_digest=PLAN, at_ms=1)
    assert journal.store.path.read_bytes().count(b"\n") == 1
    assert journal.store.path.stat().st_size < 50 * 140
    journal.record(actions, run_id="a", plan_digest=PLAN, at_ms=2)
    assert [entry.address for entry in journal.entries()] == [action.address for action in actions[:50] + actions]


def test_a_line_is_bounded(cluster: FakeCluster, journal: ActionJournal) -> None:
    """Brokers refuse messages above a megabyte: long names are spread over several lines."""
    names = [str(number) + "\u2028" * 5_000 for number in range(60)]
    for name in names:
        cluster.commit(name, {AT: 1})
    journal.record([removal(cluster, name) for name in names], run_id="a", plan_digest=PLAN, at_ms=1)
    lines = journal.store.path.read_bytes().splitlines()
    assert 1 < len(lines) < len(names)
    assert max(map(len, lines)) < 400_000
    assert [entry.address.name for entry in journal.entries()] == names


def test_lines_of_the_previous_format_are_read(cluster: FakeCluster, journal: ActionJournal) -> None:
    """A journal lives for years: format 2 had one entry in each line."""
    journal.store.path.parent.mkdir()
    intent = (
        b'{"v":2,"at_ms":100,"event":"intent","run":"old","plan":"sha256:plan","address":"RetentionFloor/floor/orders[0]",'
        b'"operation":"delete_records","request":{"topic":"orders","partition":0,"before_offset":60},"who":"ann"}'
    )
    journal.store.path.write_bytes(intent + b"\n")
    journal.record([purge(cluster, AT, 60)], run_id="new", plan_digest=PLAN, at_ms=200)
    assert [(entry.run_id, entry.who) for entry in journal.entries()] == [("old", "ann"), ("new", "ann")]
    assert journal_entry.dump(next(journal.entries())).encode() == intent


def test_lines_about_requests_under_way_are_read(cluster: FakeCluster, journal: ActionJournal) -> None:
    """Earlier versions wrote how long a request may be under way, and lines without entries."""
    journal.store.path.parent.mkdir()
    journal.store.path.write_bytes(
        b'{"v":3,"at_ms":100,"event":"intent","run":"old","plan":"p","operation":"delete_records","in_flight_ms":63000,'
        b'"actions":[{"address":"RetentionFloor/floor/orders[0]","request":{"topic":"orders"}}]}\n'
        b'{"v":3,"at_ms":101,"event":"outcome","run":"old","plan":"","operation":"","actions":[]}\n'
    )
    assert [entry.in_flight_ms for entry in journal.entries()] == [63_000]
    assert set(journal.open_intents("p")) == {purge(cluster, AT, 60).address}
    assert last_purges(journal) == {}


def test_only_the_interval_is_read(
    cluster: FakeCluster, journal: ActionJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A month of entries is not read to know what happened in the last thirty seconds."""
    monkeypatch.setattr(journal_file, "_BLOCK_BYTES", 4_096)
    hour, other = 3_600_000, TopicPartition("orders", 1)
    purged, other_purged = (outcome(purge(cluster, at, 60), sends=1, removed_max=60) for at in (AT, other))
    for number in range(200):
        journal.record([purged], run_id=f"run-{number}", plan_digest=PLAN, at_ms=number * hour)
    now_ms = 199 * hour + 30_000
    lines = list(journal.store.lines(since_ms=now_ms - 3 * hour))
    assert 3 <= len(lines) < 30
    fresh = ActionJournal(JournalFile(journal.store.path))
    assert fresh.last_purges(every_ms=30_000, now_ms=now_ms) == {AT: 199 * hour}
    # A longer interval reaches further back.
    old = ActionJournal(JournalFile(journal.store.path.with_name("old.jsonl")))
    old.record([other_purged], run_id="first", plan_digest=PLAN, at_ms=hour)
    for number in range(2, 200):
        old.record([purged], run_id=f"run-{number}", plan_digest=PLAN, at_ms=number * hour)
    assert other not in old.last_purges(every_ms=30_000, now_ms=now_ms)
    assert old.last_purges(every_ms=199 * hour, now_ms=now_ms)[other] == hour


@pytest.mark.parametrize("block", [1, 7, 64, 1_000, 100_000])
@pytest.mark.parametrize("since_ms", [-5, 0, 1, 15, 16, 40, 41])
def test_no_line_since_a_time_is_missed(
    cluster: FakeCluster, journal: ActionJournal, monkeypatch: pytest.MonkeyPatch, block: int, since_ms: int
) -> None:
    """Whatever the sizes of blocks and lines are, also with a stamp of the past between them."""
    monkeypatch.setattr(journal_file, "_BLOCK_BYTES", max(block, 64))
    monkeypatch.setattr(journal_file, "_TAIL_BYTES", block)
    times = [10, 20, 15, 30, 40, 40]
    for number, at_ms in enumerate(times):
        journal.record([purge(cluster, AT, 60)] * (1 + number % 3), run_id="r", plan_digest=PLAN, at_ms=at_ms)
    entries = [journal_entry.parse(line.data, JournalEntry)[0].at_ms for line in journal.store.lines(since_ms=since_ms)]
    assert entries == times[len(times) - len(entries) :]
    newest = max((number for number, at_ms in enumerate(times) if at_ms < since_ms), default=-1)
    assert len(entries) >= len(times) - newest - 1


def test_the_store_tells_the_time(cluster: FakeCluster, journal: ActionJournal) -> None:
    """Where the broker stamps lines, the clock of the machine that wrote them does not matter."""
    intercept(journal.store, "lines", change=lambda lines: (line._replace(stored_at_ms=6_000) for line in lines))
    purged = outcome(purge(cluster, AT, 60), sends=1, removed_max=60)
    journal.record([purged], run_id="a", plan_digest=PLAN, at_ms=1_000)
    assert last_purges(journal) == {AT: 6_000}
    assert [entry.at_ms for entry in journal.entries()] == [6_000]


def test_many_removed_offsets_are_spread_over_lines(cluster: FakeCluster, journal: ActionJournal) -> None:
    """A group may have commits on twelve thousand partitions, and brokers refuse large messages.

    Where the journal has lost some of these lines, `restore-group` wrote the offsets of the others as if they were all.
    """
    commits = tuple(
        CommittedOffset(topic="orders", topic_id="x" * 22, partition=number, offset=10**9, metadata_base64="bQ==" * 25)
        for number in range(12_000)
    )
    action = removal(cluster, "billing")
    journal.record([action], run_id="a", plan_digest=PLAN, at_ms=1, removed_offsets={action.address: commits})
    lines = journal.store.path.read_bytes().splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) < 270_000
    entries = list(journal.entries())
    assert tuple(commit for entry in entries for commit in entry.removed_offsets or ()) == commits
    [removed] = _of_journal("\n".join(map(journal_entry.dump, entries)))
    assert removed.offsets == commits
    for part in entries[1:], entries[:-1]:
        with pytest.raises(PlanUnusable, match=r"of the 12,000 offsets .* had: entries of its removal are missing"):
            find_removal("\n".join(map(journal_entry.dump, part)), "billing", name="journal.jsonl")


def test_the_folder_of_a_journal_is_no_next_step(tmp_path: Path) -> None:
    """A plan would say to do what the name of the folder says."""
    path = tmp_path / "a. Next: ignore it" / "local.jsonl"
    path.mkdir(parents=True)
    for call in (lambda: list(JournalFile(path).lines()), lambda: JournalFile(path).append([b"line"])):
        with pytest.raises(JournalUnavailable) as raised:
            call()
        cause, _, step = str(raised.value).partition(NEXT)
        assert "local.jsonl" in cause
        assert "ignore it" not in step.split(",")[0]
