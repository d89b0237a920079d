"""Readers that Kafka does not list, on real brokers: a checkpoint of Spark, syncs of MirrorMaker 2, and a table."""

import json
import struct
import subprocess
import sys
from pathlib import Path

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record
from reconciler.companions.sandbox.cluster import CLUSTER_ID
from tests.build import policy
from tests.command import reconciler
from tests.e2e.workspace import Workspace, blocks, floor, targets

LAST = "keep: {last: 10}"
CLAMP = f"{LAST}, consumers: clamp"
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


def write_checkpoint(checkpoint: Path, topic: str, *offsets: int) -> None:
    """Write a batch for each offset, and commit the first one."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id":"x"}')
    for number, offset in enumerate(offsets):
        (checkpoint / "offsets" / str(number)).write_text("v1\n\n" + json.dumps({topic: {"0": offset}}))
    (checkpoint / "commits" / "0").write_text("v1\n{}")


def sync(topic: str, offset: int) -> Record:
    """A record of MirrorMaker's offset syncs."""
    key = struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">i", 0)
    return Record(struct.pack(">qq", offset, 0), key=key)


def reader(topic: str, position: str) -> str:
    return policy("ExternalReader", "lake", f"topics: [{topic}], position: {{{position}}}")


def test_a_checkpoint_holds_a_floor_from_plan_to_request(space: Workspace, topic: str) -> None:
    """`block` names it, `clamp` ends at it, and an apply after it went back ends at where it is then.

    The batch that is not committed runs again, so its end is not a position.
    """
    checkpoint, roots = space.folder / "checkpoint", {"RECONCILER_READER_ROOTS": str(space.folder)}
    address, query = f"RetentionFloor/floor/{topic}[0]", reader(topic, f"sparkCheckpoint: {checkpoint}")
    write_checkpoint(checkpoint, topic, 40, 90)
    blocked = blocks(space.plan(floor(topic, LAST), query, **roots))[address]
    assert (blocked["code"], blocked["reason"].startswith("ExternalReader/lake is at 40")) == ("B204", True)
    assert blocks(space.plan(code=1))[address]["code"] == "B218", "no root is set"

    assert targets(space.plan(floor(topic, CLAMP), query, **roots)) == [40]
    write_checkpoint(checkpoint, topic, 30, 90)
    space.apply(**roots)
    assert space.log_start(topic) == 30
    (checkpoint / "offsets" / "0").write_text("torn")
    assert blocks(space.plan(code=1, **roots))[address]["code"] == "B218"


def test_syncs_and_tables_hold_a_floor(space: Workspace, topic: str) -> None:
    """The newest sync counts, a table of another cluster does not, and no file at all blocks."""
    syncs = space.create_topic(0, name=f"mm2-offset-syncs.{topic}.internal")
    client.produce(space.servers, syncs, {0: [sync(topic, 20), sync("gone", 7), sync(topic, 60)]})
    assert any(syncs in row["reason"] for row in space.plan(floor(topic, CLAMP))["unmatched"])
    planned = space.plan(floor(topic, CLAMP), reader(topic, f"mirrorMakerSyncs: {syncs}"))
    assert not any(syncs in row["reason"] for row in planned["unmatched"])
    assert targets(planned) == [60]

    table, roots = space.folder / "positions.csv", {"RECONCILER_READER_ROOTS": str(space.folder)}
    (unread,) = blocks(space.plan(floor(topic, LAST), reader(topic, f"table: {table}"), code=1, **roots)).values()
    assert (unread["code"], "no such file" in unread["reason"]) == ("B218", True)
    rows = [("another", 5), (CLUSTER_ID, 95)]
    lines = [f"{cluster_id},{topic},0,{offset},2026-11-26T06:40:00Z" for cluster_id, offset in rows]
    table.write_text("\n".join(["cluster_id,topic,partition,offset,written_at", *lines, ""]))
    assert targets(space.plan(**roots)) == [90], "the table is above the floor"
    table.write_text(table.read_text().replace(",95,2026", ",50,2999"))
    (block,) = blocks(space.plan(**roots)).values()
    assert (block["code"], "later than the scan" in block["reason"]) == ("B204", True), "its writer has a wrong clock"


def test_a_writer_that_is_killed_finds_what_it_needs(space: Workspace, topic: str) -> None:
    """Beside plans and applies, a query that is killed at any moment restarts at or above the log start."""
    checkpoint, roots = space.folder / "checkpoint", {"RECONCILER_READER_ROOTS": str(space.folder)}
    write_checkpoint(checkpoint, topic, 0)
    space.write(floor(topic, CLAMP), reader(topic, f"sparkCheckpoint: {checkpoint}"))
    starts = [0]
    for _round in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(checkpoint), topic, "3"])
        space.plan(**roots)
        reconciler(space.folder, "apply", "plan.json", **roots)
        writer.kill()
        writer.wait()
        starts.append(space.log_start(topic))
        newest = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
        restart = json.loads((checkpoint / "offsets" / str(newest)).read_text().split("\n")[2])[topic]["0"]
        assert starts[-1] <= restart, "the query would miss records"
    assert starts[-1] > 0, "nothing was deleted, so nothing was shown"
