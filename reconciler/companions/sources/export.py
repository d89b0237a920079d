"""Writes a snapshot as Parquet. docs/scan.md documents the columns; a null was not read."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reconciler import __version__
from reconciler.kafka.futures import batched
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, GroupFacts, PartitionFacts, TopicFacts, Unknown
from reconciler.scan.columns import columns, struct
from reconciler.text.escape import quoted
from reconciler.text.formatting import count, first_few

FORMAT_VERSION = "1.0"
_ROWS_PER_BATCH = 50_000
_REASONS = pa.map_(pa.string(), pa.string())
PARTITION_COLUMNS = columns(
    "topic! partition! topic_id leader replicas in_sync log_start last_stable_offset high_watermark offsets_at readers unread",
    offsets_at=pa.map_(pa.int64(), pa.int64()),
    readers=pa.list_(struct("group committed implied topic_id")),
    unread=_REASONS,
)
GROUP_COLUMNS = columns(
    "group! listed! type state commits commit_topics fingerprint last_activity_ms log_partition log_offset unread",
    unread=_REASONS,
)
TOPIC_COLUMNS = columns("topic! topic_id internal! partitions cleanup_policy records unread", unread=_REASONS)


def write(snapshot: ClusterSnapshot, out: Path) -> tuple[Path, ...]:
    """Write partitions/, groups/, topics/ and run.json under `out`. Raises OSError."""
    run = out / "run.json"
    written = [_parquet(out / name, schema, rows) for name, (schema, rows) in _tables(snapshot).items()]
    run.write_text(json.dumps(describe_run(snapshot), indent=2) + "\n", encoding="utf-8")
    return (*written, run)


def tables(snapshot: ClusterSnapshot) -> Mapping[str, pa.Table]:
    """Return the same tables in memory, by the names of their folders."""
    return {name: pa.Table.from_batches(rows, schema) for name, (schema, rows) in _tables(snapshot).items()}


def _tables(snapshot: ClusterSnapshot) -> Mapping[str, tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    partition = partial(_partition, _readers_unread(snapshot))
    return {
        "partitions": (PARTITION_COLUMNS, _batches(PARTITION_COLUMNS, snapshot.partitions, partition)),
        "groups": (GROUP_COLUMNS, _batches(GROUP_COLUMNS, snapshot.groups, _group)),
        "topics": (TOPIC_COLUMNS, _batches(TOPIC_COLUMNS, snapshot.topics, _topic)),
    }


def _batches(
    schema: pa.Schema, facts: Mapping[Any, Any], row: Callable[[Any], dict[str, Any]]
) -> Iterator[pa.RecordBatch]:
    for part in batched(sorted(facts), _ROWS_PER_BATCH):
        yield pa.RecordBatch.from_pylist([row(facts[name]) for name in part], schema=schema)


def _readers_unread(snapshot: ClusterSnapshot) -> Unknown | None:
    """Why partitions may have more readers; None: what each group consumes was read."""
    if snapshot.readers_incomplete is not None:
        return snapshot.readers_incomplete
    unread = [
        f"{quoted(name)}: {group.consumption_unread.reason}"
        for name, group in sorted(snapshot.groups.items())
        if group.consumption_unread is not None and group.consumption_unread != NOT_ASKED
    ]
    return (
        Unknown(
            f"what {count(len(unread), 'group')} {'reads' if len(unread) == 1 else 'read'} is not known: {first_few(unread)}"
        )
        if unread
        else None
    )


def describe_run(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """Return the contents of run.json: what was read when, and what could not be read at all."""
    incomplete = {
        "topics": snapshot.topics_incomplete,
        "groups": snapshot.groups_incomplete,
        "readers": _readers_unread(snapshot),
    }
    return {
        "format_version": FORMAT_VERSION,
        "tool": {"version": __version__},
        "cluster_id": snapshot.cluster_id,
        "observed_at_ms": snapshot.observed_at_ms,
        "brokers": list(snapshot.brokers),
        "topics": len(snapshot.topics),
        "groups": len(snapshot.groups),
        "partitions": len(snapshot.partitions),
        "cluster_records": known_or_none(snapshot.cluster_records),
        "incomplete": {name: fact.reason for name, fact in incomplete.items() if fact is not None},
    }


def _partition(readers_unread: Unknown | None, facts: PartitionFacts) -> dict[str, Any]:
    readers: Any = facts.readers
    # Values that are missing inside a column.
    inside: dict[str, object] = {f"offsets_at[{at}]": offset for at, offset in facts.offsets_at.items()}
    if not isinstance(readers, Unknown):
        # A request for named groups only returns no other group.
        inside["readers"] = NOT_ASKED if facts.readers_below == NOT_ASKED else readers_unread
        inside |= {f"readers[{reader.group}].topic_id": reader.topic_id for reader in readers}
        readers = [
            {**asdict(reader), "implied": reader.without_commit, "topic_id": known_or_none(reader.topic_id)}
            for reader in readers
        ]
    row = _row(
        facts,
        PARTITION_COLUMNS,
        topic=facts.partition.topic,
        partition=facts.partition.partition,
        offsets_at=[(at, offset) for at, offset in facts.offsets_at.items() if not isinstance(offset, Unknown)],
        readers=readers,
    )
    row["unread"] += _reasons(inside)
    return row


def _group(facts: GroupFacts) -> dict[str, Any]:
    newest = facts.newest_record
    partition, offset = (newest, newest) if isinstance(newest, Unknown) else newest
    return _row(facts, GROUP_COLUMNS, log_partition=partition, log_offset=offset)


def _topic(facts: TopicFacts) -> dict[str, Any]:
    policy = facts.cleanup_policy
    policies = policy if isinstance(policy, Unknown) else sorted(policy)
    return _row(facts, TOPIC_COLUMNS, topic=facts.name, cleanup_policy=policies)


def _row(facts: object, schema: pa.Schema, **columns: Any) -> dict[str, Any]:
    """Facts by column, those in `columns` first. `unread`: column and reason of each Unknown."""
    values = {name: columns[name] if name in columns else getattr(facts, name) for name in schema.names[:-1]}
    return {**{name: known_or_none(value) for name, value in values.items()}, "unread": _reasons(values)}


def _reasons(values: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, value.reason) for name, value in values.items() if isinstance(value, Unknown)]


def known_or_none(fact: Any) -> Any:
    """The fact; None where it is Unknown."""
    return None if isinstance(fact, Unknown) else fact


def _parquet(folder: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "part-0.parquet"
    with pq.ParquetWriter(path, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return path
