"""Readers that Kafka does not list, on real brokers: a checkpoint of Spark, syncs of MirrorMaker 2, and a table."""

import json
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from tests.build import head
from tests.command import reconciler
from tests.e2e.test_unseen_consumers import blocks, write_manifests
from tests.toolbox import log_start_offsets

pytestmark = pytest.mark.brokers

FLOOR = head("RetentionFloor", "floor") + "\nspec: {topics: [%s], keep: {last: 10}, consumers: %s}\n"
READER = "---\n" + head("ExternalReader", "lake") + "\nspec: {topics: [%s], position: {%s}}\n"
WRITER = """\
import json, os, sys, time
from pathlib import Path
checkpoint, topic, step = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def write(path, text):
    (path.parent / f".{path.name}.tmp").write_text(text)
    (path.parent / f".{path.name}.tmp").rename(path)
def position():
    commits = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    newest = max(commits, default=-1)
    text = (checkpoint / "offsets" / str(newest)).read_text() if commits else ""
    return newest, json.loads(text.split("\\n")[2])[topic]["0"] if commits else 0
newest, offset = position()
while offset + step <= 100:
    newest, offset = newest + 1, offset + step
    write(checkpoint / "offsets" / str(newest), "v1\\n\\n" + json.dumps({topic: {"0": offset}}))
    time.sleep(0.02)
    write(checkpoint / "commits" / str(newest), "v1\\n{}")
    for old in (checkpoint / "offsets").glob("[0-9]*"):
        if int(old.name) < newest - 1:
            old.unlink()
    time.sleep(0.1)
"""
"""Writes batches like Spark, and keeps the offsets of two."""


@pytest.fixture
def topic(cluster: SandboxCluster) -> str:
    name = f"lake-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(name)])
    client.produce(cluster.bootstrap_servers, name, {0: [Record(b"x")] * 100})
    # Creates __consumer_offsets on a new cluster.
    client.commit(cluster.bootstrap_servers, f"reader-{name}", {(name, 0): 100})
    return name


def write_checkpoint(checkpoint: Path, topic: str, *offsets: int, commits: int = 1) -> None:
    """Write a batch for each offset, and commit the first ones."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id":"x"}')
    for number, offset in enumerate(offsets):
        (checkpoint / "offsets" / str(number)).write_text("v1\n\n" + json.dumps({topic: {"0": offset}}))
    for number in range(commits):
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")


def sync(topic: str, offset: int) -> Record:
    """A record of MirrorMaker's offset syncs."""
    key = struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">i", 0)
    return Record(struct.pack(">qq", offset, 0), key=key)


def plan(folder: Path, **variables: str) -> Mapping[str, object]:
    answer = reconciler(folder, "plan", "--out", "plan.json", "--full", **variables)
    assert answer.returncode in (0, 1), answer.stderr
    document: Mapping[str, object] = json.loads((folder / "plan.json").read_text())
    return document


def test_a_checkpoint_holds_a_floor_from_plan_to_request(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """`block` names it, `clamp` ends at it, and an apply after it went back ends at where it is then.

    The batch that is not committed runs again, so its end is not a position.
    """
    checkpoint, roots = tmp_path / "checkpoint", {"RECONCILER_READER_ROOTS": str(tmp_path)}
    write_checkpoint(checkpoint, topic, 40, 90)
    reader = READER % (topic, f"sparkCheckpoint: {checkpoint}")
    address = f"RetentionFloor/floor/{topic}[0]"
    write_manifests(tmp_path, cluster, FLOOR % (topic, "block") + reader)
    blocked = blocks(plan(tmp_path, **roots))[address]
    assert (blocked["code"], blocked["reason"].startswith("ExternalReader/lake is at 40")) == ("B204", True)
    assert blocks(plan(tmp_path))[address]["code"] == "B218", "no root is set"

    write_manifests(tmp_path, cluster, FLOOR % (topic, "clamp") + reader)
    (action,) = plan(tmp_path, **roots)["actions"]
    assert action["request"]["before_offset"] == 40
    write_checkpoint(checkpoint, topic, 30, 90)
    stale = reconciler(tmp_path, "apply", "plan.json", **roots)
    assert log_start_offsets(cluster, topic) == {0: 30}, stale.stdout + stale.stderr
    (checkpoint / "offsets" / "0").write_text("torn")
    assert blocks(plan(tmp_path, **roots))[address]["code"] == "B218"


def test_syncs_and_tables_hold_a_floor(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """The newest sync counts, a table of another cluster does not, and no file at all blocks."""
    syncs, table = f"mm2-offset-syncs.{topic}.internal", tmp_path / "positions.csv"
    client.create_topics(cluster.bootstrap_servers, [Topic(syncs)])
    client.produce(cluster.bootstrap_servers, syncs, {0: [sync(topic, 20), sync("gone", 7), sync(topic, 60)]})
    write_manifests(tmp_path, cluster, FLOOR % (topic, "clamp"))
    assert any(syncs in row["reason"] for row in plan(tmp_path)["unmatched"])
    write_manifests(tmp_path, cluster, FLOOR % (topic, "clamp") + READER % (topic, f"mirrorMakerSyncs: {syncs}"))
    planned = plan(tmp_path)
    assert not any(syncs in row["reason"] for row in planned["unmatched"])
    (action,) = planned["actions"]
    assert action["request"]["before_offset"] == 60

    write_manifests(tmp_path, cluster, FLOOR % (topic, "block") + READER % (topic, f"table: {table}"))
    roots = {"RECONCILER_READER_ROOTS": str(tmp_path)}
    (unread,) = blocks(plan(tmp_path, **roots)).values()
    assert (unread["code"], "no such file" in unread["reason"]) == ("B218", True)
    rows = [("another", 5), (CLUSTER_ID, 95)]
    lines = [f"{cluster_id},{topic},0,{offset},2026-11-26T06:40:00Z" for cluster_id, offset in rows]
    table.write_text("\n".join(["cluster_id,topic,partition,offset,written_at", *lines, ""]))
    (action,) = plan(tmp_path, **roots)["actions"]
    assert action["request"]["before_offset"] == 90, "the table is above the floor"
    table.write_text(table.read_text().replace(",95,2026", ",50,2999"))
    (block,) = blocks(plan(tmp_path, **roots)).values()
    assert (block["code"], "later than the scan" in block["reason"]) == ("B204", True), "its writer has a wrong clock"


def test_a_writer_that_is_killed_finds_what_it_needs(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """Beside plans and applies, a query that is killed at any moment restarts at or above the log start."""
    checkpoint, roots = tmp_path / "checkpoint", {"RECONCILER_READER_ROOTS": str(tmp_path)}
    write_checkpoint(checkpoint, topic, 0)
    reader = READER % (topic, f"sparkCheckpoint: {checkpoint}")
    write_manifests(tmp_path, cluster, FLOOR % (topic, "clamp") + reader)
    starts = [0]
    for _round in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(checkpoint), topic, "3"])
        plan(tmp_path, **roots)
        reconciler(tmp_path, "apply", "plan.json", **roots)
        writer.kill()
        writer.wait()
        starts.append(log_start_offsets(cluster, topic)[0])
        newest = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
        restart = json.loads((checkpoint / "offsets" / str(newest)).read_text().split("\n")[2])[topic]["0"]
        assert starts[-1] <= restart, "the query would miss records"
    assert starts[-1] > 0, "nothing was deleted, so nothing was shown"
