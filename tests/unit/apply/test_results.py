"""results.json and the exit code of a run."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from reconciler.apply import results
from reconciler.apply.results import ResultsHeader, exit_code
from reconciler.journal.entry import Event
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from tests.fakes.cluster import FakeCluster
from tests.fakes.runs import election, purge, removal, run

AT = TopicPartition("orders", 0)
HEADER = ResultsHeader(
    run_id="run-1",
    plan_digest="sha256:plan",
    cluster="prod-eu",
    cluster_id="5L6g3nShT-eMCtK--X86sw",
    started_at_ms=1_800_000_000_000,
    finished_at_ms=1_800_000_001_500,
    interrupted=False,
    exit_code=0,
    tool_version="0.1.0",
)


def create_cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create_topic("orders", 12)
    cluster.produce("orders", dict.fromkeys(range(12), 100))
    cluster.commit("\u202e<b>", {AT: 80})
    cluster.partition(AT).replicas = (2, 3, 1)
    return cluster


def outcomes_of(
    status: Status,
    *,
    sends: int = 0,
    possible: bool = False,
    removed_max: int = 0,
    read_back: str | None = "log start 0",
) -> Outcome:
    return Outcome(
        action=purge(create_cluster(), AT, 60),
        status=status,
        detail="",
        sends=sends,
        possible=possible,
        removed_max=removed_max,
        read_back=read_back,
    )


APPLIED = outcomes_of(Status.APPLIED, sends=1, removed_max=60)
SATISFIED, STALE = outcomes_of(Status.SATISFIED), outcomes_of(Status.STALE)
WAITING, BLOCKED = outcomes_of(Status.WAITING), outcomes_of(Status.BLOCKED)
HELD = replace(WAITING, held=True)
FAILED, REFUSED = outcomes_of(Status.FAILED), outcomes_of(Status.FAILED, sends=1)
UNKNOWN = outcomes_of(Status.FAILED, sends=1, removed_max=60)
UNREAD = outcomes_of(Status.FAILED, sends=3, read_back=None)
LEFT = outcomes_of(Status.NOT_ATTEMPTED)
MADE_AGAIN = outcomes_of(Status.FAILED, sends=1, possible=True)


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
    outcomes = run(cluster, actions, tmp_path).outcomes
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
    path.write_text("old")

    def failing_outcomes() -> object:
        yield APPLIED
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        results.write(path, failing_outcomes(), HEADER)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_results_and_journal_hold_the_offsets_of_removed_groups(tmp_path: Path) -> None:
    """The intent, so that a killed run can be undone, and the results; None where nothing was sent."""
    cluster = create_cluster()
    cluster.commit("etl", {AT: 80, TopicPartition("orders", 1): 3})
    cluster.commit("busy", {AT: 5})
    actions = [removal(cluster, "etl"), removal(cluster, "busy"), purge(cluster, AT, 60)]
    topic_id = cluster.topics["orders"].topic_id
    cluster.join("busy", "orders")
    ended = run(cluster, actions, tmp_path)
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
