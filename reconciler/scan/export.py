"""Writes a snapshot as Parquet. docs/scan.md documents the columns; a null was not read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reconciler import __version__
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, GroupFacts, PartitionFacts, TopicFacts, Unknown

FORMAT_VERSION = "1.0"
_ROWS_PER_BATCH = 50_000

PARTITION_COLUMNS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("topic_id", pa.string()),
        pa.field("leader", pa.int32()),
        pa.field("replicas", pa.list_(pa.int32())),
        pa.field("in_sync", pa.list_(pa.int32())),
        pa.field("log_start", pa.int64()),
        pa.field("stable_end", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("offsets_at", pa.map_(pa.int64(), pa.int64())),
        pa.field(
            "readers",
            pa.list_(
                pa.struct(
                    [
                        pa.field("group", pa.string()),
                        pa.field("committed", pa.int64()),
                        pa.field("implied", pa.bool_()),
                        pa.field("topic_id", pa.string()),
                    ]
                )
            ),
        ),
        pa.field("unread", pa.map_(pa.string(), pa.string())),
    ]
)
GROUP_COLUMNS = pa.schema(
    [
        pa.field("group", pa.string(), nullable=False),
        pa.field("listed", pa.bool_(), nullable=False),
        pa.field("type", pa.string()),
        pa.field("state", pa.string()),
        pa.field("commits", pa.int32()),
        pa.field("commit_topics", pa.int32()),
        pa.field("fingerprint", pa.string()),
        pa.field("last_activity_ms", pa.int64()),
        pa.field("log_partition", pa.int32()),
        pa.field("log_offset", pa.int64()),
        pa.field("unread", pa.map_(pa.string(), pa.string())),
    ]
)
TOPIC_COLUMNS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("topic_id", pa.string()),
        pa.field("internal", pa.bool_(), nullable=False),
        pa.field("partitions", pa.int32()),
        pa.field("cleanup_policy", pa.list_(pa.string())),
        pa.field("records", pa.int64()),
        pa.field("unread", pa.map_(pa.string(), pa.string())),
    ]
)


def write(snapshot: ClusterSnapshot, out: Path) -> tuple[Path, ...]:
    """Write partitions/, groups/, topics/ and run.json under `out`. Replaces existing files. Raises OSError."""
    written = [
        _parquet(
            out / "partitions",
            PARTITION_COLUMNS,
            (_partition(snapshot, p) for _, p in sorted(snapshot.partitions.items())),
        ),
        _parquet(out / "groups", GROUP_COLUMNS, (_group(g) for _, g in sorted(snapshot.groups.items()))),
        _parquet(out / "topics", TOPIC_COLUMNS, (_topic(t) for _, t in sorted(snapshot.topics.items()))),
    ]
    run = out / "run.json"
    run.write_text(json.dumps(_run(snapshot), indent=2) + "\n", encoding="utf-8")
    return (*written, run)


def _run(snapshot: ClusterSnapshot) -> dict[str, object]:
    return {
        "format_version": FORMAT_VERSION,
        "tool": {"version": __version__},
        "cluster_id": snapshot.cluster_id,
        "observed_at_ms": snapshot.observed_at_ms,
        "brokers": list(snapshot.brokers),
        "topics": len(snapshot.topics),
        "groups": len(snapshot.groups),
        "partitions": len(snapshot.partitions),
        "cluster_records": _known(snapshot.cluster_records),
        "incomplete": {
            name: fact.reason
            for name, fact in (
                ("topics", snapshot.topics_incomplete),
                ("groups", snapshot.groups_incomplete),
                ("readers", snapshot.readers_incomplete),
            )
            if isinstance(fact, Unknown)
        },
    }


def _partition(snapshot: ClusterSnapshot, facts: PartitionFacts) -> dict[str, Any]:
    readers = facts.readers
    return {
        "topic": facts.partition.topic,
        "partition": facts.partition.partition,
        **_known_of(facts, "topic_id", "leader", "replicas", "in_sync", "log_start", "stable_end", "high_watermark"),
        "offsets_at": [
            (at, _known(offset)) for at, offset in facts.offsets_at.items() if not isinstance(offset, Unknown)
        ],
        "readers": None
        if isinstance(readers, Unknown)
        else [{**asdict(reader), "topic_id": _known(reader.topic_id)} for reader in readers],
        "unread": [*_unread(facts, PARTITION_COLUMNS.names), *_unread_within(snapshot, facts)],
    }


def _unread_within(snapshot: ClusterSnapshot, facts: PartitionFacts) -> Iterator[tuple[str, str]]:
    """The same for parts of a column that has a value."""
    for at, offset in facts.offsets_at.items():
        if isinstance(offset, Unknown):
            yield f"offsets_at[{at}]", offset.reason
    if isinstance(facts.readers, Unknown):
        return
    # A request for named groups only returns no other group.
    missing = NOT_ASKED if facts.readers_below == NOT_ASKED else snapshot.readers_incomplete
    if missing is not None:
        yield "readers", missing.reason
    for reader in facts.readers:
        if isinstance(reader.topic_id, Unknown):
            yield f"readers[{reader.group}].topic_id", reader.topic_id.reason


def _group(facts: GroupFacts) -> dict[str, Any]:
    newest = facts.newest_record
    return {
        **_known_of(
            facts, "group", "listed", "type", "state", "commits", "commit_topics", "fingerprint", "last_activity_ms"
        ),
        "log_partition": None if isinstance(newest, Unknown) else newest[0],
        "log_offset": None if isinstance(newest, Unknown) else newest[1],
        "unread": [
            *_unread(facts, GROUP_COLUMNS.names),
            *((name, newest.reason) for name in ("log_partition", "log_offset") if isinstance(newest, Unknown)),
        ],
    }


def _topic(facts: TopicFacts) -> dict[str, Any]:
    policy = facts.cleanup_policy
    return {
        "topic": facts.name,
        **_known_of(facts, "topic_id", "internal", "partitions", "records"),
        "cleanup_policy": None if isinstance(policy, Unknown) else sorted(policy),
        "unread": _unread(facts, TOPIC_COLUMNS.names),
    }


def _known_of(facts: object, *names: str) -> dict[str, Any]:
    return {name: _known(getattr(facts, name)) for name in names}


def _known(fact: Any) -> Any:
    return None if isinstance(fact, Unknown) else fact


def _unread(facts: object, names: Sequence[str]) -> list[tuple[str, str]]:
    """Column and reason of each Unknown fact: "not asked", or why it could not be read."""
    values: Mapping[str, object] = {name: getattr(facts, name, None) for name in names if name != "unread"}
    return [(name, value.reason) for name, value in values.items() if isinstance(value, Unknown)]


def _parquet(folder: Path, schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "part-0.parquet"
    with pq.ParquetWriter(path, schema) as writer:
        batch: list[dict[str, Any]] = []
        for row in rows:
            batch.append(row)
            if len(batch) == _ROWS_PER_BATCH:
                writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=schema))
                batch = []
        if batch:
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=schema))
    return path
