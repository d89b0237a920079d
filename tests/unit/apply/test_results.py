"""results.json and the exit code of a run."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reconciler.apply import results
from reconciler.apply.results import exit_code
from reconciler.errors import UsageError
from reconciler.journal.entry import Event
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from tests.fakes.cluster import FakeCluster, cluster_of_orders
from tests.fakes.runs import HEADER, election, purge, removal, run
from tests.golden.wording import mentions

AT = TopicPartition("orders", 0)


def create_cluster() -> FakeCluster:
    cluster = cluster_of_orders(12)
    cluster.commit("\u202e<b>", {AT: 80})
    cluster.partition(AT).replicas = (2, 3, 1)
    return cluster


OUTCOME = Outcome(action=purge(create_cluster(), AT, 60), status=Status.FAILED, detail="", read_back="log start 0")


def outcome_of(status: Status, **fields: Any) -> Outcome:
    return replace(OUTCOME, status=status, **fields)


APPLIED = outcome_of(Status.APPLIED, sends=1, removed_max=60)
SATISFIED, STALE = outcome_of(Status.SATISFIED), outcome_of(Status.STALE)
WAITING, BLOCKED = outcome_of(Status.WAITING), outcome_of(Status.BLOCKED)
HELD = replace(WAITING, held=True)
FAILED, REFUSED = outcome_of(Status.FAILED), outcome_of(Status.FAILED, sends=1)
UNKNOWN = outcome_of(Status.FAILED, sends=1, removed_max=60)
UNREAD = outcome_of(Status.FAILED, sends=3, read_back=None)
LEFT, DEFERRED = outcome_of(Status.NOT_ATTEMPTED), outcome_of(Status.DEFERRED)
MADE_AGAIN = outcome_of(Status.FAILED, sends=1, possible=True)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], 0),
        ([APPLIED], 0),
        ([APPLIED, SATISFIED, WAITING], 0),
        ([SATISFIED, WAITING], 0),
        ([APPLIED, STALE], 5),
        ([APPLIED, FAILED], 5),
        ([APPLIED, LEFT], 5),
        ([APPLIED, BLOCKED], 5),
        ([UNKNOWN], 5),
        ([UNREAD, SATISFIED], 5),
        ([FAILED], 1),
        ([REFUSED, STALE], 1),
        ([LEFT], 1),
        ([LEFT, SATISFIED], 1),
        ([BLOCKED, STALE], 3),
        ([STALE], 4),
        ([STALE, STALE], 4),
        ([STALE, SATISFIED], 4),
        ([STALE, WAITING], 4),
        ([HELD], 4),
        ([HELD, SATISFIED, WAITING], 4),
        ([HELD, BLOCKED], 3),
        ([HELD, LEFT], 1),
        ([HELD, APPLIED], 5),
        ([MADE_AGAIN], 5),
    ],
)
def test_the_exit_code_shows_whether_the_run_is_complete(outcomes: list[Outcome], code: int) -> None:
    """A write, or a possible write, makes the difference between 5 and other codes; an incomplete
    run is never 0.

    What waits for a clock is complete: the clock runs by itself. What a group or a broker holds back is not.
    """
    assert exit_code(outcomes) == code
    assert exit_code(outcomes[::-1]) == code


def test_the_document_fits_its_schema(tmp_path: Path) -> None:
    """Outcomes of all operations, in the order of addresses, one per line, ASCII only."""
    cluster = create_cluster()
    actions = [purge(cluster, TopicPartition("orders", n), 60) for n in (10, 2, 0)]
    actions += [removal(cluster, "\u202e<b>"), election(cluster, AT)]
    outcomes = run(cluster, actions).outcomes
    path = tmp_path / "out" / "results.json"
    results.write(path, outcomes, HEADER)
    text = path.read_text(encoding="utf-8")
    assert text.isascii()
    assert text == "".join(results.lines(outcomes, HEADER))
    document = json.loads(text)
    jsonschema.Draft202012Validator(results.schema()).validate(document)
    assert [line["address"] for line in document["outcomes"]] == [
        "GroupRemoval/dead/\u202e<b>",
        "LeaderPolicy/leaders/orders[0]",
        "RetentionFloor/floor/orders[0]",
        "RetentionFloor/floor/orders[2]",
        "RetentionFloor/floor/orders[10]",
    ]
    assert document["summary"]["applied"] == 5
    assert {line["possible"] for line in document["outcomes"]} == {True}
    assert document["started_at"] == "2027-01-15T08:00:00Z"
    assert sum('"address"' in line for line in text.splitlines()) == 5


def test_an_empty_document_is_valid() -> None:
    """A run without actions has a valid document."""
    document = json.loads("".join(results.lines([], HEADER)))
    jsonschema.Draft202012Validator(results.schema()).validate(document)
    assert document["outcomes"] == []


def test_a_failed_write_keeps_the_previous_document(tmp_path: Path) -> None:
    """The file is replaced as a whole: a failure leaves neither a part of a file nor a draft."""
    path = tmp_path / "results.json"
    results.write(path, [APPLIED], HEADER)
    before = path.read_text()

    def failing_outcomes() -> object:
        yield APPLIED
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        results.write(path, failing_outcomes(), HEADER)  # type: ignore[arg-type]
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_removal_keeps_topic_ids_and_metadata_of_the_log() -> None:
    """The coordinator tells no id, and the log may hold another offset, of an open transaction."""
    cluster = create_cluster()
    ats = [TopicPartition("orders", number) for number in range(3)]
    cluster.commit("etl", dict.fromkeys(ats, 5))
    scanned = cluster.read_groups(["etl"])["etl"]
    records = [
        CommittedOffset(topic="orders", topic_id="of-the-deleted-topic", partition=0, offset=5, metadata_base64="YQ=="),
        CommittedOffset(topic="orders", topic_id="of-a-transaction", partition=1, offset=6, metadata_base64=""),
        CommittedOffset(topic="orders", partition=2, offset=5, metadata_base64=""),
    ]
    scanned = replace(scanned, commit_records={commit.at: commit for commit in records})
    ended = run(cluster, [removal(cluster, "etl")], known_groups={"etl": scanned})
    present = cluster.topics["orders"].topic_id
    assert ended.only.removed_offsets is not None
    assert [(commit.topic_id, commit.metadata_base64) for commit in ended.only.removed_offsets] == [
        ("of-the-deleted-topic", "YQ=="),
        (present, None),
        (present, ""),
    ]


def test_a_removal_that_an_exhausted_machine_interrupts_keeps_its_offsets() -> None:
    """Its request may have removed the group. Its outcome once had no offsets, so no results could restore them."""
    cluster = create_cluster()
    cluster.commit("etl", {AT: 5})

    def exhausted(_operation: object) -> None:
        raise MemoryError

    cluster.on_request = exhausted
    outcome = run(cluster, [removal(cluster, "etl")]).only
    assert (outcome.status, outcome.possible, outcome.sends) == (Status.FAILED, True, 1)
    assert [commit.offset for commit in outcome.removed_offsets or ()] == [5]


# --- several runs of one plan


def removal_of(status: Status, *offsets: int, sends: int = 1, possible: bool = True) -> Outcome:
    """The removal of a group, with these committed offsets right before its request."""
    commits = tuple(CommittedOffset(topic="orders", partition=at, offset=offset) for at, offset in enumerate(offsets))
    action, removed = removal(create_cluster(), "\u202e<b>"), commits or None
    return outcome_of(
        status, action=action, sends=sends, possible=possible, read_back="absent", removed_offsets=removed
    )


GONE = removal_of(Status.SATISFIED, sends=0, possible=False)
REMOVED, REMOVED_AGAIN = removal_of(Status.APPLIED, 7), removal_of(Status.APPLIED, 9)
REMOVED_UNREAD = removal_of(Status.APPLIED)
PERHAPS_REMOVED = removal_of(Status.FAILED, 7)
REPEATED = removal_of(Status.SATISFIED, 7, possible=False)
"""The client repeated a request that was carried out, and was told that there is no such group."""
IN_USE = removal_of(Status.STALE, 7, possible=False)


@pytest.mark.parametrize(
    ("runs", "kept"),
    [
        ([REMOVED, GONE], REMOVED),
        ([REMOVED, GONE, GONE], REMOVED),
        ([GONE, REMOVED], REMOVED),
        ([LEFT, APPLIED], APPLIED),
        ([LEFT, APPLIED, SATISFIED], APPLIED),
        ([APPLIED, STALE], APPLIED),
        ([FAILED, SATISFIED], SATISFIED),
        ([UNKNOWN, SATISFIED], UNKNOWN),
        ([UNKNOWN, APPLIED], APPLIED),
        ([PERHAPS_REMOVED, GONE], PERHAPS_REMOVED),
        ([REPEATED, GONE], REPEATED),
        ([IN_USE, GONE], GONE),
        ([IN_USE, REMOVED_AGAIN], REMOVED_AGAIN),
        ([REMOVED, REMOVED_AGAIN], REMOVED_AGAIN),
        ([REMOVED, REMOVED_AGAIN, GONE], REMOVED_AGAIN),
        ([REMOVED, REMOVED_UNREAD], REMOVED),
        ([STALE, BLOCKED], BLOCKED),
        # The other half of the plan, with other --operations, once hid why the first one ended so.
        ([BLOCKED, DEFERRED], BLOCKED),
        ([DEFERRED, SATISFIED, DEFERRED], SATISFIED),
    ],
)
def test_runs_of_one_plan_keep_what_it_did(tmp_path: Path, runs: list[Outcome], kept: Outcome) -> None:
    """A second `apply` with the same file replaced the offsets of a removed group by "not listed any more"."""
    path = tmp_path / "results.json"
    for number, outcome in enumerate(runs):
        assert results.write(path, [outcome], replace(HEADER, run_id=f"run-{number}", exit_code=number)) == path
    header, rows = results.parse(path.read_text())
    assert (header.run_id, header.exit_code) == (f"run-{len(runs) - 1}", len(runs) - 1), "the last run's"
    assert [(row.status, row.removed_offsets, row.removed_max) for row in rows] == [
        (kept.status, kept.removed_offsets, kept.removed_max)
    ]
    assert json.loads(path.read_text())["summary"][kept.status] == 1


def test_runs_that_did_different_parts_of_an_action_both_stay(tmp_path: Path) -> None:
    """A group held the first run back at 30. The row of the second run, from 30 to 60, once replaced it."""
    path = tmp_path / "results.json"
    part = replace(APPLIED, action=purge(create_cluster(), AT, 30), removed_max=30)
    rest = replace(APPLIED, removed_max=30)
    for outcome in (STALE, part, STALE, rest, rest, SATISFIED):
        results.write(path, [outcome], HEADER)
    _header, rows = results.parse(path.read_text())
    assert [(row.request["before_offset"], row.removed_max) for row in rows] == [(30, 30), (60, 30)]


@pytest.mark.parametrize("text", ["{}", "old", '{"kind": "Results"}', "\xff", " ", "another plan", "another format"])
def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    """It may be the undo of another plan. If it is written during a run, the results go beside it."""
    path = tmp_path / "results.json"
    if text.startswith("another"):
        results.write(path, [REMOVED], replace(HEADER, plan_digest="sha256:other"))
        if text == "another format":
            path.write_text(path.read_text().replace("sha256:other", HEADER.plan_digest).replace('"2.0"', '"2.1"'))
    else:
        path.write_bytes(text.encode("latin-1"))
    before = path.read_bytes()
    with pytest.raises(UsageError) as refused:
        results.read_earlier(path, HEADER.plan_digest)
    assert mentions(str(refused.value), str(path), "nothing was done; choose another file")
    written = results.write(path, [APPLIED], HEADER)
    assert written == tmp_path / "results-run-1.json"
    assert path.read_bytes() == before
    assert len(results.parse(written.read_text())[1]) == 1


def test_no_file_and_an_empty_one_are_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    assert results.read_earlier(path, HEADER.plan_digest) == []
    empty = tmp_path / "empty.json"
    empty.touch()
    assert results.read_earlier(empty, HEADER.plan_digest) == []
    assert results.read_earlier(Path(os.devnull), HEADER.plan_digest) == []
    for each in (path, empty):
        assert results.write(each, [APPLIED], HEADER) == each


def test_runs_that_end_at_the_same_time_lose_no_row(tmp_path: Path) -> None:
    """Each reads the file again when it writes, and the other one waits for it, also behind a link from another folder."""
    path, cluster = tmp_path / "results.json", create_cluster()
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "results.json"
    link.symlink_to(path)
    outcomes = [replace(APPLIED, action=purge(cluster, TopicPartition("orders", n), 60)) for n in range(12)]
    with ThreadPoolExecutor(max_workers=12) as pool:
        written = pool.map(lambda place, outcome: results.write(place, [outcome], HEADER), [path, link] * 6, outcomes)
        assert set(written) == {path, link}
    assert len(results.parse(path.read_text())[1]) == 12


def test_results_and_journal_hold_the_offsets_of_removed_groups(tmp_path: Path) -> None:
    """The intent, so that a killed run can be undone, and the results; None where nothing was sent."""
    cluster = create_cluster()
    cluster.commit("etl", {AT: 80, TopicPartition("orders", 1): 3})
    cluster.commit("busy", {AT: 5})
    actions = [removal(cluster, "etl"), removal(cluster, "busy"), purge(cluster, AT, 60)]
    topic_id = cluster.topics["orders"].topic_id
    cluster.join("busy", "orders")
    ended = run(cluster, actions)
    offsets = (
        CommittedOffset(topic="orders", topic_id=topic_id, partition=0, offset=80),
        CommittedOffset(topic="orders", topic_id=topic_id, partition=1, offset=3),
    )
    by_group = {outcome.action.address.name: outcome.removed_offsets for outcome in ended.outcomes}
    assert by_group == {"etl": offsets, "busy": None, "orders": None}
    intents = {e.address.name: e.removed_offsets for e in ended.journal.entries() if e.event is Event.INTENT}
    assert intents == {"etl": offsets}
    results.write(tmp_path / "results.json", ended.outcomes, HEADER)
    rows = json.loads((tmp_path / "results.json").read_text())["outcomes"]
    assert [row["removed_offsets"] for row in rows if row["operation"] != "delete_group"] == [None]
    (row,) = (row for row in rows if row["removed_offsets"])
    assert row["removed_offsets"][1] == {
        "topic": "orders",
        "topic_id": topic_id,
        "partition": 1,
        "offset": 3,
        "leader_epoch": None,
        "metadata": None,
    }
