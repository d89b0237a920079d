"""Writes a snapshot as five tables of Parquet. docs/tables.md documents the columns; a null was not read.

Decided here: when a reading exists. Its files are written whole, and last the one without which
it does not exist: `run.json` of a folder, the row in `scans` of a history.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from operator import add, attrgetter, itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from reconciler import __version__
from reconciler.companions.sources.target import Target
from reconciler.errors import UsageError
from reconciler.model.garbage import gc_paused
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, Unknown, known_or_none
from reconciler.scan.columns import columns
from reconciler.text.escape import quoted
from reconciler.text.formatting import count, first_few

FORMAT_VERSION = "2.0"
RUN = "run.json"
_ROWS_PER_BATCH = 50_000
_ORIGIN = ("cluster_id", "observed_at_ms")

Row = tuple[Any, ...]
"""The values of a row between `_ORIGIN` and `unread`, then name and reason of what is missing inside of one of them."""


def _schema(names: str, **types: pa.DataType) -> pa.Schema:
    unread = pa.map_(pa.string(), pa.string())
    return columns(f"cluster_id! observed_at_ms! {names} unread", unread=unread, **types)


SCHEMAS: Mapping[str, pa.Schema] = {
    "partitions": _schema(
        "topic! partition! topic_id leader replicas in_sync log_start last_stable_offset high_watermark offsets_at",
        offsets_at=pa.map_(pa.int64(), pa.int64()),
    ),
    "commits": _schema("group! topic! partition! committed without_commit! topic_id"),
    "groups": _schema(
        "group! listed! type state commits commit_topics fingerprint last_activity_ms log_partition log_offset"
    ),
    "topics": _schema("topic! topic_id internal! partitions cleanup_policy records"),
    "scans": _schema(
        "format_version! tool_version! brokers! topics! groups! partitions! commits! cluster_records incomplete!",
        **dict.fromkeys(("format_version", "tool_version"), pa.string()),
        **dict.fromkeys(("topics", "groups", "partitions", "commits", "cluster_records"), pa.int64()),
        brokers=pa.list_(pa.int32()),
        incomplete=pa.map_(pa.string(), pa.string()),
    ),
}
"""The tables, in the order in which they are written."""


def write(snapshot: ClusterSnapshot, target: Target) -> tuple[str, ...]:
    """Write a folder for each table, and RUN; what was there is replaced. Raises OSError.

    Returns the names of the files. Without RUN the folder holds no whole reading.
    """
    target.remove(RUN)
    names = _write_tables(snapshot, target, "part-0", lambda schema: schema)
    target.write((json.dumps(describe_run(snapshot), indent=2) + "\n").encode(), RUN)
    return (*names, RUN)


def check_folder(folder: Path, *, history: bool) -> None:
    """Raise UsageError for a folder with anything else than one reading, or a history.

    A table of both would hold the same partitions twice, and RUN may be a file of another program.
    """
    names = sorted(entry.name for entry in folder.glob("*") if not entry.name.startswith("."))
    mixed = next(folder.glob("*/part-0.parquet" if history else "*/cluster_id=*"), None)
    if mixed is not None or (names and SCHEMAS.keys().isdisjoint(names)):
        wanted = "a history" if history else "one reading"
        present = folder / names[0] if mixed is None else mixed
        raise UsageError(
            f"{folder} has {present}, which is not of {wanted}: nothing was done; name a folder of its own"
        )


def append(snapshot: ClusterSnapshot, target: Target) -> tuple[str, ...]:
    """Add a reading to a history by cluster and date, in UTC. Raises OSError. Returns the names of the files.

    The folder says the cluster id, as tables of Hive do: the same column in a file would make
    pyarrow refuse the table.
    """
    instant = datetime.fromtimestamp(snapshot.observed_at_ms / 1000, UTC)
    place = f"cluster_id={quote(snapshot.cluster_id, safe='')}/date={instant:%Y-%m-%d}/scan-{snapshot.observed_at_ms}"
    metadata = {"cluster_id": snapshot.cluster_id}
    return _write_tables(snapshot, target, place, lambda schema: schema.remove(0).with_metadata(metadata))


def _write_tables(
    snapshot: ClusterSnapshot, target: Target, place: str, schema_of: Callable[[pa.Schema], pa.Schema]
) -> tuple[str, ...]:
    names = {name: f"{name}/{place}.parquet" for name in SCHEMAS}
    for name, file in names.items():
        target.write(_parquet(snapshot, name, schema_of(SCHEMAS[name])), *file.split("/"))
    return tuple(names.values())


def tables(snapshot: ClusterSnapshot) -> Mapping[str, pa.Table]:
    """Return the same tables in memory."""
    return {name: pa.Table.from_batches(_batches(name, snapshot), schema) for name, schema in SCHEMAS.items()}


@gc_paused()
def _parquet(snapshot: ClusterSnapshot, name: str, schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in _batches(name, snapshot):
            writer.write_batch(batch.select(schema.names))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _batches(table: str, snapshot: ClusterSnapshot) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as batches, column by column: by row it would take three times as long."""
    schema, rows = SCHEMAS[table], _ROWS[table](snapshot)
    names, types = schema.names[len(_ORIGIN) : -1], schema.types
    while part := list(islice(rows, _ROWS_PER_BATCH)):
        *facts, missing = zip(*part, strict=True)
        for index, (name, column) in enumerate(zip(names, facts, strict=True)):
            if Unknown in set(map(type, column)):
                reasons = (((name, value.reason),) if isinstance(value, Unknown) else () for value in column)
                missing = tuple(map(add, missing, reasons))
                facts[index] = tuple(map(known_or_none, column))
        origin = [pa.repeat(pa.scalar(getattr(snapshot, name)), len(part)) for name in _ORIGIN]
        columns = list(map(pa.array, facts, types[len(_ORIGIN) : -1]))
        unread = pa.array(missing, types[-1]) if any(missing) else pa.repeat(pa.scalar((), types[-1]), len(part))
        yield pa.RecordBatch.from_arrays([*origin, *columns, unread], schema=schema)


def _partitions(snapshot: ClusterSnapshot) -> Iterator[Row]:
    readers_unread = _readers_unread(snapshot)
    facts_of = attrgetter(*SCHEMAS["partitions"].names[4:-2])
    for partition, facts in sorted(snapshot.partitions.items(), key=itemgetter(0)):
        missing = tuple(
            (f"offsets_at[{at}]", of.reason) for at, of in facts.offsets_at.items() if isinstance(of, Unknown)
        )
        # A request for named groups only returns no other group.
        named_only = NOT_ASKED if facts.readers_below == NOT_ASKED else readers_unread
        if (unread := facts.readers if isinstance(facts.readers, Unknown) else named_only) is not None:
            missing += (("commits", unread.reason),)
        offsets_at = [(at, offset) for at, offset in facts.offsets_at.items() if not isinstance(offset, Unknown)]
        yield partition.topic, partition.partition, *facts_of(facts), offsets_at, missing


def _commits(snapshot: ClusterSnapshot) -> Iterator[Row]:
    for partition, facts in sorted(snapshot.partitions.items(), key=itemgetter(0)):
        topic, number = partition.topic, partition.partition
        for reader in () if isinstance(facts.readers, Unknown) else facts.readers:
            if reader.without_commit:
                yield reader.group, topic, number, None, True, None, ()
            else:
                yield reader.group, topic, number, reader.committed, False, reader.topic_id, ()


def _groups(snapshot: ClusterSnapshot) -> Iterator[Row]:
    facts_of = attrgetter(*SCHEMAS["groups"].names[2:-3])
    for _name, facts in sorted(snapshot.groups.items()):
        newest = facts.newest_record
        yield *facts_of(facts), *((newest, newest) if isinstance(newest, Unknown) else newest), ()


def _topics(snapshot: ClusterSnapshot) -> Iterator[Row]:
    for name, facts in sorted(snapshot.topics.items()):
        policy = facts.cleanup_policy
        policies = policy if isinstance(policy, Unknown) else sorted(policy)
        yield name, facts.topic_id, facts.internal, facts.partitions, policies, facts.records, ()


_ROWS: Mapping[str, Callable[[ClusterSnapshot], Iterator[Row]]] = {
    "partitions": _partitions,
    "commits": _commits,
    "groups": _groups,
    "topics": _topics,
    "scans": lambda snapshot: iter([(*_scan(snapshot).values(), ())]),
}


def _scan(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """Return the columns of the row in `scans`. `incomplete`: lists that may lack entries, with the reasons."""
    incomplete = {
        "topics": snapshot.topics_incomplete,
        "groups": snapshot.groups_incomplete,
        "readers": _readers_unread(snapshot),
    }
    partitions = snapshot.partitions.values()
    return {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        "brokers": list(snapshot.brokers),
        "topics": len(snapshot.topics),
        "groups": len(snapshot.groups),
        "partitions": len(partitions),
        "commits": sum(len(facts.readers) for facts in partitions if not isinstance(facts.readers, Unknown)),
        "cluster_records": _cluster_records(snapshot),
        "incomplete": {name: fact.reason for name, fact in incomplete.items() if fact is not None},
    }


def _cluster_records(snapshot: ClusterSnapshot) -> int | Unknown:
    """Return the records of the cluster: for a limit, what was not read counts as none, which no table may say."""
    facts: list[object] = [snapshot.cluster_records, snapshot.topics_incomplete]
    for topic in snapshot.topics.values():
        facts += () if topic.is_system else (topic.records, topic.cleanup_policy)
    return next((fact for fact in facts if isinstance(fact, Unknown)), snapshot.cluster_records)


def describe_run(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """Return the contents of RUN: what was read when, and what could not be read at all."""
    row = {name: getattr(snapshot, name) for name in _ORIGIN} | _scan(snapshot)
    tool = {"version": row.pop("tool_version")}
    return {"format_version": row.pop("format_version"), "tool": tool} | {
        name: known_or_none(value) for name, value in row.items()
    }


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
