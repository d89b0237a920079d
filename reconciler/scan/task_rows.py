"""Reads one chunk in a Spark task, as rows of one table that Spark reduces.

Decided here: which rows leave a task. All sources share one schema, so that each source is read once
and feeds one shuffle. A row describes one subject (partition, group, topic, or the run itself) and fills
only the columns of its source.
"""

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_commit_log
from reconciler.kafka.groups import read_commits
from reconciler.kafka.offsets import OffsetsRequest, read_offsets
from reconciler.kafka.schemas import commit_batch, offset_batch
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import GroupRequest

PARTITION, GROUP, TOPIC, RUN = range(4)
"""The subject of a row."""

_LEAST_S = 5.0

FACTS = pa.schema(
    [
        pa.field("subject", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("number", pa.int32(), nullable=False),
        pa.field("error", pa.string()),
        # of a partition
        pa.field("log_start", pa.int64()),
        pa.field("stable_end", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("offsets_at", pa.list_(pa.int64())),
        # a reader of a partition; without a committed offset it is implied to stand at the log start
        pa.field("reader", pa.string()),
        pa.field("committed", pa.int64()),
        pa.field("named", pa.bool_()),
        # the commit log's entry of a named reader
        pa.field("origin", pa.string()),
        pa.field("origin_committed", pa.int64()),
        pa.field("origin_topic_id", pa.string()),
        # of a group
        pa.field("listed", pa.bool_()),
        pa.field("needed", pa.bool_()),
        pa.field("commits", pa.int32()),
        pa.field("commit_topics", pa.int32()),
        pa.field("fingerprint", pa.string()),
        pa.field("last_activity_ms", pa.int64()),
        pa.field("log_partition", pa.int32()),
        pa.field("log_offset", pa.int64()),
        pa.field("seems", pa.string()),
        pa.field("live", pa.bool_()),
        pa.field("commit_keys", pa.int32()),
        # of a topic (records, and partitions that were not read), or of a run (rows or records read, and the failed ones)
        pa.field("records", pa.int64()),
        pa.field("unread", pa.int64()),
        pa.field("skipped", pa.int64()),
        pa.field("garbled", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class PartitionsChunk:
    """Offsets of up to a few thousand partitions of one leader."""

    requests: tuple[OffsetsRequest, ...]


@dataclass(frozen=True, slots=True)
class CommitsChunk:
    """Commits of a few hundred listed groups."""

    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Some partitions of the commit log."""

    partitions: tuple[int, ...]


Chunk = PartitionsChunk | CommitsChunk | LogChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """What the tasks of one scan share. Pickled into the tasks.

    `readers`: partitions whose readers are requested, by topic. `named`: groups whose position is requested
    wherever it is, by topic. `until_s`: epoch seconds at which tasks give up silent brokers, later than the
    start of the last chunk where brokers answer; a wrong clock costs patience, not facts. `log_limit_s`:
    upper bound for one chunk of the commit log.
    """

    connection: Connection
    readers: Mapping[str, Sequence[int]]
    named: Mapping[str, frozenset[str]]
    groups: tuple[GroupRequest, ...]
    until_s: float
    log_limit_s: float

    def needs(self, group: str) -> bool:
        """Whether the request selects this group."""
        return any(
            any(s.matches(group) for s in part.groups) and not any(s.matches(group) for s in part.except_groups)
            for part in self.groups
        )


def read_chunks(task: ScanTask, chunks: Sequence[Chunk], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over a range, in a Python worker of Spark: each id is the number of a chunk.

    code_archive.py puts everything that this module imports on the workers' path.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    # The client library can crash while a coordinator moves; the next attempt reads commits in a worker process.
    isolated = context is not None and context.attemptNumber() > 0
    # The chunk has hundreds of thousands of small objects until its end: garbage collection took a third of the
    # time.
    gc.disable()
    try:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_chunk(task, number, chunks[number], now_s=time.time(), isolated=isolated)
    finally:
        gc.enable()


def read_chunk(task: ScanTask, number: int, chunk: Chunk, *, now_s: float, isolated: bool) -> Iterator[pa.RecordBatch]:
    """One chunk as batches of `FACTS`, the last one about the run itself.

    `number` identifies the chunk; `read_commits` explains `isolated`.
    """
    # At least a few seconds: an executor whose clock is ahead still gets answers from healthy brokers.
    remaining_s = min(task.connection.timeout_s, max(_LEAST_S, task.until_s - now_s))
    with closing(KafkaSession(replace(task.connection, timeout_s=remaining_s))) as session:
        match chunk:
            case PartitionsChunk(requests):
                yield from _partitions(session, number, requests)
            case CommitsChunk(groups):
                yield from _commits(session, task, number, groups, isolated=isolated)
            case LogChunk(partitions):
                yield from _log(session, task, partitions)


def _partitions(session: KafkaSession, number: int, requests: Sequence[OffsetsRequest]) -> Iterator[pa.RecordBatch]:
    full = {(request.topic, partition) for request in requests if request.full for partition in request.partitions}
    records: dict[str, int] = {}
    unread: dict[str, int] = {}
    rows = offset_batch(requests, read_offsets(session, requests)).to_pylist()
    for row in rows:
        topic, start, end = row["topic"], row["log_start"], row["high_watermark"]
        known = start is not None and end is not None
        records[topic] = records.get(topic, 0) + (max(0, end - start) if known else 0)
        unread[topic] = unread.get(topic, 0) + (0 if known else 1)
    requested = [row for row in rows if (row["topic"], row["partition"]) in full]
    yield _rows(
        PARTITION,
        name=[row["topic"] for row in requested],
        number=[row["partition"] for row in requested],
        **{
            column: [row[column] for row in requested]
            for column in ("error", "log_start", "stable_end", "high_watermark", "offsets_at")
        },
    )
    topics = list(records)
    yield _rows(
        TOPIC,
        name=topics,
        number=[-1] * len(topics),
        records=[records[topic] for topic in topics],
        unread=[unread[topic] for topic in topics],
    )
    yield _run("partitions", number, records=len(rows))


def _commits(
    session: KafkaSession, task: ScanTask, number: int, groups: Sequence[str], *, isolated: bool
) -> Iterator[pa.RecordBatch]:
    requested = {topic: p if isinstance(p, range) else frozenset(p) for topic, p in task.readers.items()}
    read = 0
    for commits in read_commits(session, groups, isolated=isolated):
        batch = commit_batch(commits, topics=requested.keys())
        read += batch.num_rows
        columns = batch.to_pydict()
        yield _reader_rows(task, requested, columns)
        at = [index for index, topic in enumerate(columns["topic"]) if topic is None]
        names = [columns["group"][index] for index in at]
        yield _rows(
            GROUP,
            name=names,
            number=[-1] * len(at),
            listed=[True] * len(at),
            needed=[task.needs(name) for name in names],
            **{
                column: [columns[column][index] for index in at]
                for column in ("error", "commits", "commit_topics", "fingerprint")
            },
        )
    yield _run("commits", number, records=read)


def _reader_rows(
    task: ScanTask, requested: Mapping[str, range | frozenset[int]], columns: Mapping[str, list[Any]]
) -> pa.RecordBatch:
    """Each group's position on each requested partition of the topics on which it has commits.

    `committed` is null where the group has no commit on the partition (an implied position).
    """
    name: list[str] = []
    number: list[int] = []
    reader: list[str] = []
    committed: list[int | None] = []
    named: list[bool] = []
    positions: dict[str, dict[int, int]] = {}
    for group, topic, partition, offset in zip(
        columns["group"], columns["topic"], columns["partition"], columns["committed"], strict=True
    ):
        if topic is not None:
            positions.setdefault(topic, {})[partition] = offset
            continue
        # The row about the group itself follows its commits.
        for of_topic, by_partition in positions.items():
            is_named = group in task.named.get(of_topic, ())
            for requested_number in requested[of_topic]:
                name.append(of_topic)
                number.append(requested_number)
                reader.append(group)
                committed.append(by_partition.get(requested_number))
                named.append(is_named)
        positions = {}
    return _rows(PARTITION, name=name, number=number, reader=reader, committed=committed, named=named)


def _log(session: KafkaSession, task: ScanTask, partitions: Sequence[int]) -> Iterator[pa.RecordBatch]:
    origins: dict[str, set[str]] = {}
    for topic, groups in task.named.items():
        for group in groups:
            origins.setdefault(group, set()).add(topic)
    rows = read_commit_log(session, partitions, origins=origins, limit_s=task.log_limit_s).to_pylist()
    # Where readers are requested, every group counts: the log may know ids that no listing shows.
    activities = [
        row
        for row in rows
        if row["group"] is not None and row["topic"] is None and (task.readers or task.needs(row["group"]))
    ]
    yield _rows(
        GROUP,
        name=[row["group"] for row in activities],
        number=[-1] * len(activities),
        needed=[task.needs(row["group"]) for row in activities],
        **{
            column: [row[column] for row in activities]
            for column in ("last_activity_ms", "log_partition", "log_offset", "seems", "live", "commit_keys")
        },
    )
    topic_ids = [row for row in rows if row["topic"] is not None]
    yield _rows(
        PARTITION,
        name=[row["topic"] for row in topic_ids],
        number=[row["partition"] for row in topic_ids],
        origin=[row["group"] for row in topic_ids],
        origin_committed=[row["committed"] for row in topic_ids],
        origin_topic_id=[row["topic_id"] for row in topic_ids],
    )
    for row in rows:
        if row["group"] is None:
            counts = {column: row[column] for column in ("records", "skipped", "garbled", "error")}
            yield _run("commit_log", row["log_partition"], **counts)


def _run(source: str, number: int, **values: int | str | None) -> pa.RecordBatch:
    return _rows(RUN, name=[source], number=[number], **{name: [value] for name, value in values.items()})


def _rows(subject: int, **columns: list[Any]) -> pa.RecordBatch:
    size = len(columns["name"])
    columns["subject"] = [subject] * size
    arrays = [
        pa.array(columns[column.name], column.type) if column.name in columns else pa.nulls(size, column.type)
        for column in FACTS
    ]
    return pa.record_batch(arrays, schema=FACTS)
