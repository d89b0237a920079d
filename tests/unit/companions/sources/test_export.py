"""A null in the Parquet files has its reason in `unread`, and a reading exists once its last file does."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from reconciler.companions.sources import export
from reconciler.companions.sources.target import Folder, open_target
from reconciler.errors import UsageError
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, ConsumerPosition, Unknown
from tests.strategies.facts import group, partition, snapshot, topic


def exported(facts: ClusterSnapshot, out: Path, table: str = "partitions") -> list[dict[str, Any]]:
    export.write(facts, Folder(out))
    return [{**row, "unread": dict(row["unread"])} for row in pq.read_table(out / table).to_pylist()]


def test_what_was_read_has_no_reason(tmp_path: Path) -> None:
    """Null: an instant that every record is older than, and a commit without a topic id."""
    facts = snapshot(partition(offsets_at={5: None, 1: 0}, readers=(ConsumerPosition("g", 7, topic_id=None),)))
    [row] = exported(facts, tmp_path)
    assert row["offsets_at"] == [(5, None), (1, 0)]
    assert row["unread"] == {}
    (commit,) = exported(facts, tmp_path, "commits")
    assert (commit["group"], commit["committed"], commit["without_commit"], commit["topic_id"]) == ("g", 7, False, None)
    assert commit["unread"] == {}


def test_a_group_without_a_commit_has_no_offset(tmp_path: Path) -> None:
    """A member without a commit counts from the log start, which is no offset that it committed."""
    (commit,) = exported(
        snapshot(partition(readers=(ConsumerPosition("g", 3, without_commit=True),))), tmp_path, "commits"
    )
    assert (commit["committed"], commit["without_commit"], commit["unread"]) == (None, True, {})


def test_an_instant_without_an_answer_has_a_reason(tmp_path: Path) -> None:
    """Once it was neither in the map nor in `unread`."""
    [row] = exported(snapshot(partition(offsets_at={1: Unknown("the broker was silent"), 5: 3})), tmp_path)
    assert row["offsets_at"] == [(5, 3)]
    assert row["unread"] == {"offsets_at[1]": "the broker was silent"}


def test_an_unknown_topic_id_has_a_reason(tmp_path: Path) -> None:
    """Its null once meant both that the broker wrote none and that it was not read."""
    readers = (
        ConsumerPosition("a", 7, topic_id=None),
        ConsumerPosition("b", 7, topic_id=Unknown("no leader")),
        ConsumerPosition("c", 7),
    )
    commits = exported(snapshot(partition(readers=readers)), tmp_path, "commits")
    assert [commit["topic_id"] for commit in commits] == [None, None, None]
    assert [commit["unread"].get("topic_id") for commit in commits] == [None, "no leader", "not asked"]


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
    assert [row["unread"] for row in exported(facts, tmp_path)] == [{"commits": expected}]
    assert [commit["group"] for commit in exported(facts, tmp_path, "commits")] == ["g"]


def test_a_group_that_was_not_read_makes_the_lists_of_readers_incomplete(tmp_path: Path) -> None:
    """Each row said that no group is behind, and so did run.json."""
    facts = snapshot(
        partition(readers=(), readers_below=20),
        group("billing", consumption_unread=Unknown("its coordinator was away")),
        group("orders", consumption_unread=NOT_ASKED),
        group("read", consumption_unread=None),
    )
    [row] = exported(facts, tmp_path)
    reason = 'what 1 group reads is not known: "billing": its coordinator was away'
    assert row["unread"] == {"commits": reason}
    assert json.loads((tmp_path / "run.json").read_text())["incomplete"]["readers"] == reason


def test_unknown_readers_have_one_reason(tmp_path: Path) -> None:
    """The partition's own reason wins."""
    facts = snapshot(partition(readers=Unknown("no leader")), readers_incomplete=Unknown("a coordinator was away"))
    [row] = exported(facts, tmp_path)
    assert row["unread"] == {"commits": "no leader"}
    assert exported(facts, tmp_path, "commits") == []


def test_an_unknown_newest_record_has_a_reason(tmp_path: Path) -> None:
    """One fact in two columns: both once were null without a reason."""
    [row] = exported(snapshot(group(newest_record=Unknown("the log has no leader"))), tmp_path, "groups")
    assert (row["log_partition"], row["log_offset"]) == (None, None)
    assert row["unread"] == dict.fromkeys(("log_partition", "log_offset"), "the log has no leader")


@pytest.mark.parametrize(
    ("changes", "of_cluster", "reason"),
    [
        ({"records": Unknown("1 of 2 partitions")}, {}, "1 of 2 partitions"),
        ({"cleanup_policy": Unknown("denied")}, {}, "denied"),
        ({}, {"topics_incomplete": Unknown("a part of the listing")}, "a part of the listing"),
        ({}, {}, None),
    ],
)
def test_records_of_a_cluster_that_were_not_all_read_are_no_number(
    changes: dict[str, Any], of_cluster: dict[str, Any], reason: str | None, tmp_path: Path
) -> None:
    """With a silent broker the table once said the records of the others, and nothing was incomplete.

    Kafka's own topics do not count.
    """
    own = topic("__own", records=Unknown("not asked"))
    facts = snapshot(topic(**changes), own, cluster_records=198, **of_cluster)
    [row] = exported(facts, tmp_path, "scans")
    assert row["cluster_records"] == (198 if reason is None else None)
    assert row["unread"].get("cluster_records") == reason
    assert json.loads((tmp_path / "run.json").read_text())["cluster_records"] == row["cluster_records"]


@pytest.mark.parametrize("broken", export.SCHEMAS)
def test_a_torn_reading_does_not_exist(broken: str, tmp_path: Path) -> None:
    """Without its last file there is no reading: neither new tables below an old run.json, nor a row in scans.

    An earlier reading of the same folder once kept its run.json beside new tables.
    """
    facts = snapshot(partition())
    out, history, below = tmp_path / "out", tmp_path / "history", "cluster_id=c/date=1970-01-01/scan-2.parquet"
    export.write(facts, Folder(out))
    (out / broken / "part-0.parquet").unlink()
    (out / broken / "part-0.parquet").mkdir()
    with pytest.raises(OSError, match=r"part-0\.parquet"):
        export.write(facts, Folder(out))
    assert not (out / export.RUN).exists()
    export.append(replace(facts, cluster_id="c", observed_at_ms=1), Folder(history))
    (history / broken / below).mkdir()
    with pytest.raises(OSError, match=r"scan-2\.parquet"):
        export.append(replace(facts, cluster_id="c", observed_at_ms=2), Folder(history))
    (history / broken / below).rmdir()
    assert pq.read_table(history / "scans")["observed_at_ms"].to_pylist() == [1]


def test_two_readings_append(tmp_path: Path) -> None:
    """Each row has its cluster and time, in a folder by its columns and in a history by its folders, too.

    A column of the files that the folders name once more makes pyarrow refuse the table.
    """
    readings = [replace(snapshot(partition()), cluster_id=name, observed_at_ms=at) for name, at in (("a", 1), ("b", 2))]
    for reading in readings:
        export.write(reading, Folder(tmp_path / reading.cluster_id))
        export.append(reading, Folder(tmp_path / "history"))
    for name in export.SCHEMAS:
        both = [pq.read_table(tmp_path / reading.cluster_id / name) for reading in readings]
        for rows in ([row for table in both for row in table.to_pylist()], pq.read_table(tmp_path / "history" / name)):
            rows = rows if isinstance(rows, list) else rows.to_pylist()
            origins = {(row["cluster_id"], row["observed_at_ms"]) for row in rows}
            assert origins == ({("a", 1), ("b", 2)} if rows else set()), name
    assert (tmp_path / "history/scans/cluster_id=a/date=1970-01-01/scan-1.parquet").is_file()


def test_a_folder_holds_one_reading_or_a_history_and_nothing_else(tmp_path: Path) -> None:
    """A reading in a history counted each partition twice, and `run.json` of another program was replaced."""
    for folder in ("reading", "history", "notes", "new"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notes" / "run.json").write_text("mine")
    (tmp_path / "new" / ".DS_Store").touch()
    export.write(snapshot(partition()), Folder(tmp_path / "reading"))
    export.append(snapshot(partition()), Folder(tmp_path / "history"))
    allowed = {"reading": [False], "history": [True], "notes": [], "new": [False, True], "gone": [False, True]}
    for folder, kinds in allowed.items():
        for history in (False, True):
            with nullcontext() if history in kinds else pytest.raises(UsageError, match="name a folder of its own"):
                export.check_folder(tmp_path / folder, history=history)


def test_the_date_of_a_history_is_utc_and_a_cluster_id_is_one_folder(tmp_path: Path) -> None:
    """A millisecond before midnight is the day before, and no cluster id leads out of the history."""
    reading = replace(snapshot(partition()), cluster_id="../a=b/c", observed_at_ms=86_399_999)
    export.append(reading, Folder(tmp_path / "history"))
    (path,) = (tmp_path / "history" / "scans").rglob("*.parquet")
    assert path.relative_to(tmp_path).as_posix() == (
        "history/scans/cluster_id=..%2Fa%3Db%2Fc/date=1970-01-01/scan-86399999.parquet"
    )
    assert [child.name for child in tmp_path.iterdir()] == ["history"]
    assert pq.read_table(tmp_path / "history" / "scans")["cluster_id"].to_pylist() == ["../a=b/c"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s3a://lake/x", "s3a:// is s3:// here"),
        ("hdfs://lake/x", "unknown scheme"),
        ("s3://ID:SECRET@lake/x", "user info"),
        ("s3:///x", "no bucket"),
        ("FOLDER/file", "it is not a folder"),
        ("FOLDER/file/x", "it is not a folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_a_scan(text: str, reason: str, tmp_path: Path) -> None:
    """`s3://bucket/x` once left a folder `s3:` behind."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=reason):
        open_target(text.replace("FOLDER", str(tmp_path)), {}, limit_s=1)
    assert [child.name for child in tmp_path.iterdir()] == ["file"]


def test_a_folder_is_written_through_a_draft(tmp_path: Path) -> None:
    """Spark and pyarrow skip a name that begins with a point, so no reader meets half a file."""
    target = open_target(f"file://{tmp_path}/new", {}, limit_s=1)
    target.write(b"1", "a", "b")
    target.write(b"2", "a", "b")
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "new" / "a").iterdir()] == [("b", b"2")]
    target.remove("a", "b")
    target.remove("a", "b")
    assert list((tmp_path / "new" / "a").iterdir()) == []
