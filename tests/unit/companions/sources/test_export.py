"""A null in the Parquet files has its reason in `unread`, and no unknown fact is written as zero."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from reconciler.companions.sources import export
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, ConsumerPosition, Unknown
from tests.strategies.facts import group, partition, snapshot


def export_row(facts: ClusterSnapshot, out: Path, table: str = "partitions") -> dict[str, Any]:
    export.write(facts, out)
    (exported,) = pq.read_table(out / table).to_pylist()
    return {**exported, "unread": dict(exported["unread"])}


def test_what_was_read_has_no_reason(tmp_path: Path) -> None:
    """Null are here only an instant that every record is older than, and the topic id of a commit
    that carries none.
    """
    exported = export_row(
        snapshot(partition(offsets_at={5: None, 1: 0}, readers=(ConsumerPosition("g", 7, topic_id=None),))), tmp_path
    )
    assert exported["offsets_at"] == [(5, None), (1, 0)]
    assert exported["readers"] == [{"group": "g", "committed": 7, "implied": False, "topic_id": None}]
    assert exported["unread"] == {}


def test_an_instant_without_an_answer_has_a_reason(tmp_path: Path) -> None:
    """Once it was neither in the map nor in `unread`."""
    exported = export_row(snapshot(partition(offsets_at={1: Unknown("the broker was silent"), 5: 3})), tmp_path)
    assert exported["offsets_at"] == [(5, 3)]
    assert exported["unread"] == {"offsets_at[1]": "the broker was silent"}


def test_an_unknown_topic_id_has_a_reason(tmp_path: Path) -> None:
    """Its null once meant both that the broker wrote none and that it was not read."""
    readers = (
        ConsumerPosition("a", 7, topic_id=None),
        ConsumerPosition("b", 7, topic_id=Unknown("no leader")),
        ConsumerPosition("c", 7),
    )
    exported = export_row(snapshot(partition(readers=readers)), tmp_path)
    assert [reader["topic_id"] for reader in exported["readers"]] == [None, None, None]
    assert exported["unread"] == {"readers[b].topic_id": "no leader", "readers[c].topic_id": "not asked"}


@pytest.mark.parametrize(
    ("readers_below", "incomplete", "expected"),
    [(20, Unknown("a coordinator was away"), "a coordinator was away"), (NOT_ASKED, None, "not asked")],
    ids=["not all were read", "only those that a policy names"],
)
def test_an_incomplete_list_of_readers_has_a_reason(
    tmp_path: Path, readers_below: int | Unknown, incomplete: Unknown | None, expected: str
) -> None:
    """The known readers are listed. The row once looked complete."""
    facts = snapshot(
        partition(readers=(ConsumerPosition("g", 7, topic_id="id"),), readers_below=readers_below),
        readers_incomplete=incomplete,
    )
    exported = export_row(facts, tmp_path)
    assert [reader["group"] for reader in exported["readers"]] == ["g"]
    assert exported["unread"] == {"readers": expected}


def test_a_group_that_was_not_read_makes_the_lists_of_readers_incomplete(tmp_path: Path) -> None:
    """Each row said that no group is behind, and so did run.json."""
    facts = snapshot(
        partition(readers=(), readers_below=20),
        group("billing", consumption_unread=Unknown("its coordinator was away")),
        group("orders", consumption_unread=NOT_ASKED),
        group("read", consumption_unread=None),
    )
    exported = export_row(facts, tmp_path)
    reason = 'what 1 group reads is not known: "billing": its coordinator was away'
    assert exported["unread"] == {"readers": reason}
    assert json.loads((tmp_path / "run.json").read_text())["incomplete"]["readers"] == reason


def test_unknown_readers_have_one_reason(tmp_path: Path) -> None:
    """The partition's own reason wins."""
    facts = snapshot(partition(readers=Unknown("no leader")), readers_incomplete=Unknown("a coordinator was away"))
    exported = export_row(facts, tmp_path)
    assert exported["readers"] is None
    assert exported["unread"] == {"readers": "no leader"}


def test_an_unknown_newest_record_has_a_reason(tmp_path: Path) -> None:
    """One fact in two columns: both once were null without a reason."""
    exported = export_row(snapshot(group(newest_record=Unknown("the log has no leader"))), tmp_path, "groups")
    assert (exported["log_partition"], exported["log_offset"]) == (None, None)
    assert exported["unread"] == dict.fromkeys(("log_partition", "log_offset"), "the log has no leader")
