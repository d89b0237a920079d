"""`reconciler scan` on real brokers: what it reads without manifests and with `--all`, and where it writes."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sources import export
from tests.command import reconciler
from tests.e2e.workspace import Workspace, floor


@pytest.fixture
def topic(space: Workspace) -> str:
    name = space.create_topic(10, partitions=2)
    client.commit(space.servers, f"{name}-g", {(name, 0): 4, (name, 1): 10})
    return name


def test_two_scans_without_manifests_make_a_history(space: Workspace, topic: str) -> None:
    """Everything is read, a group at the end of a partition, too; the folders name cluster and date."""
    for _ in range(2):
        output = space.run("scan", "--bootstrap-server", space.servers, "--append", "history", "-q")
    tables = {name: pq.read_table(space.folder / "history" / name) for name in export.SCHEMAS}
    commits = [row for row in tables["commits"].to_pylist() if row["topic"] == topic]
    assert sorted((row["partition"], row["committed"]) for row in commits) == [(0, 4), (0, 4), (1, 10), (1, 10)]
    assert {row["cluster_id"] for row in commits} == {space.cluster.cluster_id}
    scans = tables["scans"].to_pylist()
    assert [row["incomplete"] for row in scans] == [[], []]
    assert {row["observed_at_ms"] for row in scans} == {row["observed_at_ms"] for row in commits}
    assert sum(row["partitions"] for row in scans) == tables["partitions"].num_rows
    assert output.splitlines()[-1].startswith(f"history/scans/cluster_id={space.cluster.cluster_id}/date=")


def test_all_reads_what_no_policy_needs(space: Workspace, topic: str) -> None:
    """Policies need no commit at the end of a partition; `--all` has both, and lag is one join."""
    space.write(floor(topic, "keep: {last: 10}"))
    for option, expected in (((), [(0, 6)]), (("--all",), [(0, 6), (1, 0)])):
        space.run("scan", "--out", "facts", *option)
        keys = ["cluster_id", "observed_at_ms", "topic", "partition"]
        commits = pq.read_table(space.folder / "facts" / "commits", columns=[*keys, "committed"])
        partitions = pq.read_table(space.folder / "facts" / "partitions", columns=[*keys, "last_stable_offset"])
        joined = commits.join(partitions, keys, join_type="inner").to_pylist()
        lag = [
            (row["partition"], row["last_stable_offset"] - row["committed"]) for row in joined if row["topic"] == topic
        ]
        assert sorted(lag) == expected


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "name one place"),
        (("--out", "a", "--append", "b"), "name one place"),
        (("--append", ""), "name one place"),
        (("--out", "s3a://lake/x"), "s3a:// is s3:// here"),
        (("--append", "file"), "it is not a folder"),
        (("--out", "facts", "manifests"), "leave the paths out"),
    ],
)
def test_wrong_words_end_before_a_scan(words: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    """Nothing is read and no folder is left. `s3://bucket/x` once left a folder `s3:`."""
    (tmp_path / "file").touch()
    done = reconciler(tmp_path, "scan", "--bootstrap-server", "127.0.0.1:1", *words)
    assert done.returncode == 64, done.stderr
    assert reason in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
