"""The file journal: what is stored before and after requests, what survives crashes and full disks, and what follows from it."""

import fcntl
import json
import os
import pickle
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from reconciler.errors import JournalUnavailable
from reconciler.journal import file as file_journal
from reconciler.journal import interrupted
from reconciler.journal.entry import Author, Event
from reconciler.journal.file import FileJournal
from reconciler.kafka.error_mapping import Operation
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from tests.fakes.cluster import FakeCluster, Fault
from tests.fakes.runs import Ticker, election, purge, removal, run

AT = TopicPartition("orders", 0)
PLAN = "sha256:plan"


@pytest.fixture
def made() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create_topic("orders", 2)
    cluster.produce("orders", {0: 100, 1: 100})
    cluster.commit("billing", {AT: 80})
    return cluster


@pytest.fixture
def journal(tmp_path: Path) -> FileJournal:
    return FileJournal(tmp_path / "kept" / "journal.jsonl", author=Author(who="ann", commit="4f2c9aa"))


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file of this process may grow beyond `room` bytes: what a full disk looks like, up to the error's name."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def outcome(action: object, *, sends: int, status: Status = Status.APPLIED) -> Outcome:
    return Outcome(action=action, status=status, detail="", sends=sends)  # type: ignore[arg-type]


def test_no_file_is_an_empty_journal(journal: FileJournal) -> None:
    """No journal yet means never purged; reading makes no file."""
    assert journal.last_purges() == {}
    assert list(journal.entries()) == []
    assert not (journal._path).exists()


def test_entries_say_who_did_what_and_when(made: FakeCluster, tmp_path: Path, journal: FileJournal) -> None:
    """Intent before, outcome after, with author, plan and request, for all three operations."""
    made.partition(AT).replicas = (2, 3, 1)
    actions = [purge(made, AT, 60), removal(made, "billing"), election(made, AT)]
    run(made, actions, tmp_path, journal=journal)
    entries = list(journal.entries())
    assert [(each.operation, each.event) for each in entries] == [
        (operation, event)
        for operation in ("elect_leader", "delete_group", "delete_records")
        for event in (Event.INTENT, Event.OUTCOME)
    ]
    assert {(each.who, each.commit, each.plan_digest) for each in entries} == {("ann", "4f2c9aa", PLAN)}
    assert dict(entries[4].request) == {"topic": "orders", "partition": 0, "before_offset": 60}
    assert entries[5].status is Status.APPLIED
    only = list(journal.entries(lambda address: address.kind == "GroupRemoval"))
    assert {each.address.name for each in only} == {"billing"}


def test_every_request_has_its_intent_first(made: FakeCluster, tmp_path: Path, journal: FileJournal) -> None:
    """When a request reaches the brokers, the file already holds its intent: for the first try and for each retry."""
    held = []
    made.faults.append(Fault(Operation.DELETE_RECORDS, KafkaError._TIMED_OUT, times=2))
    made.meanwhile = lambda _operation: held.append(len(list(journal.entries())))
    run(made, [purge(made, AT, 60)], tmp_path, journal=journal)
    assert held == [1, 2, 3]


def test_names_survive_the_journal(made: FakeCluster, tmp_path: Path, journal: FileJournal) -> None:
    """Group ids are arbitrary text: newlines and quotes come back as they were."""
    names = ["a\nb", 'quo"te', "\u2028", "a/b[3]", "x" * 5_000]
    for name in names:
        made.commit(name, {AT: 1})
    run(made, [removal(made, name) for name in names], tmp_path, journal=journal)
    assert {each.address.name for each in journal.entries()} == set(names)


def test_a_name_that_is_no_text_is_refused_before_anything_is_sent(made: FakeCluster, journal: FileJournal) -> None:
    """Half a surrogate pair cannot come from Kafka, whose names are UTF-8, and no JSON can hold it: no intent, no request."""
    made.commit("\ud800", {AT: 1})
    with pytest.raises(JournalUnavailable, match="nothing is sent without it"):
        journal.record_intents([removal(made, "\ud800")], run_id="r", plan_digest=PLAN, at_ms=1)
    assert list(journal.entries()) == []


@pytest.mark.parametrize(
    "line",
    [
        b'{"v":2,"at_ms":1.0,"event":"intent","run":"r","plan":"p","address":"A/b","operation":"o","request":{}}',
        b'{"v":2,"at_ms":1,"event":"intent","run":"r","plan":"p","address":"A/b","operation":"o","request":{},"x":1}',
        b'{"v":2,"at_ms":1,"event":"intent","run":"r","plan":"p","address":"A/b","operation":"o"}',
        b'{"v":2,"at_ms":1,"event":"intent","run":"r","run":"r","plan":"p","address":"A/b","operation":"o","request":{}}',
        b'{"v":2,"at_ms":1,"event":"meant","run":"r","plan":"p","address":"A/b","operation":"o","request":{}}',
    ],
)
def test_a_line_that_is_not_as_it_was_written_is_damage(journal: FileJournal, line: bytes) -> None:
    """1.0 for 1, an unknown, a missing or a repeated field: the clock cannot be trusted."""
    journal._path.parent.mkdir()
    journal._path.write_bytes(line + b"\n")
    with pytest.raises(JournalUnavailable, match="damaged in the line"):
        journal.last_purges()


@pytest.mark.parametrize("torn", [b"{", b'{"v":2,"at_ms":17', b'{"v":2}', b"\x00\x00\x00"])
def test_a_torn_last_line_is_harmless(made: FakeCluster, tmp_path: Path, journal: FileJournal, torn: bytes) -> None:
    """A crash while appending: the rest reads on, and the next append cuts the torn line off."""
    run(made, [purge(made, AT, 60)], tmp_path, journal=journal)
    with journal._path.open("ab") as file:
        file.write(torn)
    fresh = FileJournal(journal._path)
    assert len(list(fresh.entries())) == 2
    assert set(fresh.last_purges()) == {AT}
    fresh.record_intents([purge(made, AT, 70)], run_id="run-2", plan_digest=PLAN, at_ms=5)
    assert len(list(FileJournal(journal._path).entries())) == 3
    assert journal._path.read_bytes().count(b"\n") == 3


def test_damage_elsewhere_is_not_harmless(made: FakeCluster, tmp_path: Path, journal: FileJournal) -> None:
    """A whole line that is no entry means that the clock cannot be trusted."""
    run(made, [purge(made, AT, 60)], tmp_path, journal=journal)
    lines = journal._path.read_bytes().splitlines(keepends=True)
    journal._path.write_bytes(lines[0][:40] + b"\n" + lines[1])
    with pytest.raises(JournalUnavailable, match="damaged in the line that ends at byte 41"):
        FileJournal(journal._path).last_purges()


def test_a_journal_that_is_cut_off_while_it_is_read(made: FakeCluster, tmp_path: Path, journal: FileJournal) -> None:
    """By whoever rotates logs by copying: said, not waited for."""
    journal.record_intents([purge(made, AT, 60)] * 500, run_id="r", plan_digest="sha256:plan", at_ms=1)
    reading = journal.entries()
    next(reading)
    path = tmp_path / "kept" / "journal.jsonl"
    os.truncate(path, len(b"".join(path.read_bytes().splitlines(keepends=True)[:400])))
    with pytest.raises(JournalUnavailable, match="was cut off at byte"):
        list(reading)


def test_another_format_is_refused(journal: FileJournal) -> None:
    """A line of a later version is not guessed at."""
    journal._path.parent.mkdir()
    journal._path.write_text(json.dumps({"v": 3}) + "\n")
    with pytest.raises(JournalUnavailable, match="another version"):
        journal.last_purges()


def test_no_intent_no_request(made: FakeCluster, tmp_path: Path, journal: FileJournal) -> None:
    """The disk is full: nothing is sent, everything is not attempted, and the reason is said."""
    journal.record_intents([purge(made, AT, 1)], run_id="run-0", plan_digest=PLAN, at_ms=1)
    size = journal._path.stat().st_size
    with full_disk(size + 100):
        outcomes = run(made, [purge(made, AT, 60), removal(made, "billing")], tmp_path, journal=journal).outcomes
    assert {ended.status for ended in outcomes} == {Status.NOT_ATTEMPTED}
    assert "cannot be written" in outcomes[0].detail
    assert made.requests == []
    assert journal._path.stat().st_size == size
    assert len(list(journal.entries())) == 1


def test_disk_full_between_batches_stops_the_rest(made: FakeCluster, tmp_path: Path, journal: FileJournal) -> None:
    """The outcome of what was done is still told; what came after was not attempted."""
    wanted = [removal(made, "billing"), purge(made, AT, 60)]
    room = 500  # an intent and a part of its outcome
    with full_disk(room):
        ended = {o.action.address.kind: o for o in run(made, wanted, tmp_path, journal=journal).outcomes}
    assert ended["GroupRemoval"].status is Status.APPLIED
    assert ended["RetentionFloor"].status is Status.NOT_ATTEMPTED
    assert [each.event for each in journal.entries()] == [Event.INTENT]
    assert set(journal.unfinished(PLAN)) == {wanted[0].address}


def test_unreadable_folders_are_said(made: FakeCluster, tmp_path: Path) -> None:
    """A journal below a file cannot be written, and the message names it."""
    (tmp_path / "file").write_text("")
    journal = FileJournal(tmp_path / "file" / "journal.jsonl")
    with pytest.raises(JournalUnavailable, match=r"journal\.jsonl cannot be written"):
        journal.record_intents([purge(made, AT, 60)], run_id="r", plan_digest=PLAN, at_ms=1)
    with pytest.raises(JournalUnavailable, match=r"journal\.jsonl cannot be read"):
        journal.last_purges()


def test_the_clock_is_the_newest_intent(made: FakeCluster, journal: FileJournal) -> None:
    """An intent without an outcome counts: nobody proved that nothing was sent."""
    journal.record_intents([purge(made, AT, 60)], run_id="a", plan_digest=PLAN, at_ms=100)
    journal.record_intents([purge(made, AT, 60)], run_id="b", plan_digest=PLAN, at_ms=200)
    assert journal.last_purges() == {AT: 200}


@pytest.mark.parametrize(("sends", "clock"), [(0, 100), (1, 201)])
def test_only_proof_that_nothing_was_sent_turns_the_clock_back(
    made: FakeCluster, journal: FileJournal, sends: int, clock: int
) -> None:
    """An outcome with no send takes its own run's intent off the clock; a failure that was sent moves it to when the answer was there."""
    journal.record_intents([purge(made, AT, 60)], run_id="a", plan_digest=PLAN, at_ms=100)
    journal.record_intents([purge(made, AT, 60)], run_id="b", plan_digest=PLAN, at_ms=200)
    ended = outcome(purge(made, AT, 60), sends=sends, status=Status.FAILED)
    journal.record([ended], run_id="b", plan_digest=PLAN, at_ms=201)
    assert journal.last_purges() == {AT: clock}
    assert FileJournal(journal._path).last_purges() == {AT: clock}


def test_a_run_that_did_nothing_ends_no_intent_of_another(made: FakeCluster, journal: FileJournal) -> None:
    """Run a sent and died; run b was stopped before its request. Whether a's was carried out is still to be read back."""
    action = purge(made, AT, 60)
    journal.record_intents([action], run_id="a", plan_digest=PLAN, at_ms=100)
    for status in (Status.NOT_ATTEMPTED, Status.WAITING):
        journal.record_intents([action], run_id="b", plan_digest=PLAN, at_ms=200)
        journal.record([outcome(action, sends=0, status=status)], run_id="b", plan_digest=PLAN, at_ms=201)
        assert {entry.run_id for entry in journal.unfinished(PLAN).values()} == {"a"}
    journal.record([outcome(action, sends=0, status=Status.SATISFIED)], run_id="c", plan_digest=PLAN, at_ms=300)
    assert journal.unfinished(PLAN) == {}


def test_threads_wait_for_a_frozen_process_together(
    made: FakeCluster, journal: FileJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight lanes once waited one after another: two minutes each."""
    action = purge(made, AT, 60)
    journal.record_intents([action], run_id="a", plan_digest=PLAN, at_ms=1)
    monkeypatch.setattr(file_journal, "_PATIENCE_S", 1.0)
    refused: list[float] = []
    began = time.monotonic()

    def lane() -> None:
        with pytest.raises(JournalUnavailable, match="held by another process"):
            journal.record_intents([action], run_id="a", plan_digest=PLAN, at_ms=2)
        refused.append(time.monotonic() - began)

    with journal._path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        lanes = [threading.Thread(target=lane) for _ in range(8)]
        for each in lanes:
            each.start()
        for each in lanes:
            each.join()
    assert len(refused) == 8
    assert max(refused) < 4


def test_the_clock_of_a_run_beside_another_is_not_forgotten(made: FakeCluster, journal: FileJournal) -> None:
    """Stored between the intent and the outcome of another, it may still send; and one that was forgotten counts by its outcome."""
    action = purge(made, AT, 60)
    ended = outcome(action, sends=1, status=Status.APPLIED)
    journal.record_intents([action], run_id="a", plan_digest=PLAN, at_ms=100)
    journal.record_intents([action], run_id="b", plan_digest=PLAN, at_ms=200)
    journal.record([ended], run_id="a", plan_digest=PLAN, at_ms=150)
    assert journal.last_purges(but_of="a") == {AT: 200}
    journal.record([ended], run_id="c", plan_digest=PLAN, at_ms=300)
    journal.record([ended], run_id="b", plan_digest=PLAN, at_ms=400)
    assert journal.last_purges() == {AT: 400}
    assert journal.last_purges(but_of="b") == {}


def test_a_lock_that_nobody_lets_go_of_is_not_waited_for_for_ever(
    made: FakeCluster, journal: FileJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run that was frozen in the middle of an append."""
    journal.record_intents([purge(made, AT, 60)], run_id="a", plan_digest=PLAN, at_ms=1)
    monkeypatch.setattr(file_journal, "_PATIENCE_S", 0.05)
    with journal._path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(JournalUnavailable, match="held by another process for 0 s: see whether a run is frozen"):
            journal.last_purges()
        with pytest.raises(JournalUnavailable, match="held by another process"):
            journal.record_intents([purge(made, AT, 60)], run_id="a", plan_digest=PLAN, at_ms=2)
    assert journal.last_purges() == {AT: 1}


def test_the_clock_follows_another_process(made: FakeCluster, journal: FileJournal) -> None:
    """What another run appends is seen by the next look, without reading everything again."""
    assert journal.last_purges() == {}
    other = FileJournal(journal._path)
    other.record_intents([purge(made, AT, 60)], run_id="a", plan_digest=PLAN, at_ms=100)
    assert journal.last_purges() == {AT: 100}
    other.record_intents([purge(made, TopicPartition("orders", 1), 60)], run_id="a", plan_digest=PLAN, at_ms=101)
    assert len(journal.last_purges()) == 2


def test_an_interrupted_run_is_known_and_taken_up(made: FakeCluster, tmp_path: Path, journal: FileJournal) -> None:
    """What was begun and never ended is listed for its plan; when a later run of the plan ends it, it no longer is."""
    wanted = purge(made, AT, 60)
    journal.record_intents([wanted], run_id="killed", plan_digest=PLAN, at_ms=100)
    assert set(journal.unfinished(PLAN)) == {wanted.address}
    assert journal.unfinished("sha256:other") == {}
    assert run(made, [wanted], tmp_path, journal=journal).only.status is Status.APPLIED
    assert journal.unfinished(PLAN) == {}


def test_two_processes_append_whole_lines(made: FakeCluster, tmp_path: Path, journal: FileJournal) -> None:
    """Four processes at once: every line is whole and none is lost."""
    script = """
import pickle, sys
from pathlib import Path
from reconciler.journal.file import FileJournal
actions, journal = pickle.loads(Path(sys.argv[1]).read_bytes()), FileJournal(Path(sys.argv[2]))
for at in range(50):
    journal.intend(actions, run_id=sys.argv[3], plan_digest="p", at_ms=at)
"""
    actions = tmp_path / "actions"
    actions.write_bytes(pickle.dumps([purge(made, TopicPartition("orders", number), 60) for number in (0, 1)]))
    runs = [
        subprocess.Popen([sys.executable, "-c", script, str(actions), str(journal._path), f"run-{n}"]) for n in range(4)
    ]
    assert [each.wait(60) for each in runs] == [0, 0, 0, 0]
    entries = list(journal.entries())
    assert len(entries) == 4 * 50 * 2
    assert {each.run_id for each in entries} == {f"run-{n}" for n in range(4)}


def test_not_attempted_actions_leave_no_line(made: FakeCluster, tmp_path: Path, journal: FileJournal) -> None:
    """An interrupted run of a million actions does not journal what it never touched."""
    outcomes = run(made, [purge(made, AT, 60)], tmp_path, journal=journal, stop=lambda: True, clock=Ticker()).outcomes
    assert [ended.status for ended in outcomes] == [Status.NOT_ATTEMPTED]
    assert list(journal.entries()) == []


def test_an_interrupted_run_is_taken_up(tmp_path: Path) -> None:
    """What had begun and never ended is told with its run, recorded as ended, and is then no longer open; the rest is left as it is."""
    made = FakeCluster()
    made.create_topic("orders", 3)
    made.produce("orders", {0: 10, 1: 10, 2: 10})
    actions = [purge(made, TopicPartition("orders", number), 5) for number in range(3)]
    journal = FileJournal(tmp_path / "journal.jsonl")
    journal.record_intents(actions[:2], run_id="killed", plan_digest="sha256:plan", at_ms=1)
    journal.record_intents(actions[2:], run_id="other", plan_digest="sha256:other", at_ms=2)
    begun = journal.unfinished("sha256:plan")
    assert set(begun) == {action.address for action in actions[:2]}
    assert "killed" in interrupted.progress_message(begun)
    assert "2 actions" in interrupted.progress_message(begun)
    rechecked = [
        Outcome(action=action, status=Status.SATISFIED, detail="the log starts there already")
        for action in (actions[0], actions[2])
    ]
    every, ending = interrupted.annotate_interrupted(rechecked, begun)
    assert [outcome.action for outcome in every] == [actions[0], actions[2]]
    assert [outcome.action for outcome in ending] == [actions[0]]
    assert "run killed" in ending[0].detail
    assert every[1] == rechecked[1]
    journal.record(ending, run_id="next", plan_digest="sha256:plan", at_ms=3)
    assert set(journal.unfinished("sha256:plan")) == {actions[1].address}
    # Whoever took it up sent nothing: the clock still runs from the intent of the run that was killed.
    assert journal.last_purges()[actions[0].partition] == 1
    assert interrupted.progress_message({}) == ""
