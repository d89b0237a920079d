"""What one Spark task does: read a chunk of any source, keep what was asked, and say it in one table that Spark reduces at once.

Decided here: which rows leave a task. All sources share one schema so that each is read once and feeds the one shuffle; a row is
about a subject (partition, group, topic, or the run itself) and fills only the columns that its source knows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_commit_log
from reconciler.kafka.offsets import OffsetsRequest, read_group_commits, read_partitions
from reconciler.model.scan_request import GroupRequest

PARTITION, GROUP, TOPIC, RUN = range(4)
"""What a row is about."""

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
        # a reader of a partition; no committed offset: implied, it stands at the log start
        pa.field("reader", pa.string()),
        pa.field("committed", pa.int64()),
        pa.field("named", pa.bool_()),
        # what the commit log knows of a named reader
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
        # of a topic (records and partitions that were not read), or of a run (rows or records read, and what became of them)
        pa.field("records", pa.int64()),
        pa.field("unread", pa.int64()),
        pa.field("skipped", pa.int64()),
        pa.field("garbled", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class PartitionsChunk:
    """Offsets of up to a few thousand partitions of one leader."""

    asks: tuple[OffsetsRequest, ...]


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
    """What every chunk of one scan is read for. Pickled into the tasks.

    `readers`: needed partitions whose readers are wanted, by topic. `named`: groups wanted wherever they stand, by topic.
    `until_s`: epoch seconds at which silent brokers are given up, later than the last chunk begins where brokers answer; a clock that is
    off costs patience, not facts. `log_limit_s`: how long one chunk of the commit log may take.
    """

    connection: Connection
    readers: Mapping[str, Sequence[int]]
    named: Mapping[str, frozenset[str]]
    groups: tuple[GroupRequest, ...]
    until_s: float
    log_limit_s: float

    def needs(self, group: str) -> bool:
        """Whether some policy asked for this group."""
        return any(
            any(s.matches(group) for s in need.groups) and not any(s.matches(group) for s in need.except_groups)
            for need in self.groups
        )


def read_chunk(work: ScanTask, number: int, chunk: Chunk, *, now_s: float, isolated: bool) -> Iterator[pa.RecordBatch]:
    """One chunk as batches of `FACTS`, the last one about the run itself. `number` identifies the chunk, `isolated` is explained
    at `read_group_commits`.
    """
    # Never less than a few seconds: an executor whose clock is ahead still gets its answers from brokers that are well.
    left_s = min(work.connection.timeout_s, max(_LEAST_S, work.until_s - now_s))
    work = replace(work, connection=replace(work.connection, timeout_s=left_s))
    match chunk:
        case PartitionsChunk(asks):
            yield from _partitions(work, number, asks)
        case CommitsChunk(groups):
            yield from _commits(work, number, groups, isolated=isolated)
        case LogChunk(partitions):
            yield from _log(work, partitions)


def _partitions(work: ScanTask, number: int, asks: Sequence[OffsetsRequest]) -> Iterator[pa.RecordBatch]:
    full = {(some.topic, partition) for some in asks if some.full for partition in some.partitions}
    records: dict[str, int] = {}
    unread: dict[str, int] = {}
    read = 0
    for batch in read_partitions(work.connection, asks):
        read += batch.num_rows
        rows = batch.to_pylist()
        for row in rows:
            topic, start, end = row["topic"], row["log_start"], row["high_watermark"]
            known = start is not None and end is not None
            records[topic] = records.get(topic, 0) + (max(0, end - start) if known else 0)
            unread[topic] = unread.get(topic, 0) + (0 if known else 1)
        wanted = [row for row in rows if (row["topic"], row["partition"]) in full]
        yield _rows(
            PARTITION,
            name=[row["topic"] for row in wanted],
            number=[row["partition"] for row in wanted],
            **{
                column: [row[column] for row in wanted]
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
    yield _run("partitions", number, records=read)


def _commits(work: ScanTask, number: int, groups: Sequence[str], *, isolated: bool) -> Iterator[pa.RecordBatch]:
    wanted = {topic: p if isinstance(p, range) else frozenset(p) for topic, p in work.readers.items()}
    read = 0
    for batch in read_group_commits(work.connection, groups, topics=wanted.keys(), isolated=isolated):
        read += batch.num_rows
        columns = batch.to_pydict()
        yield _reader_rows(work, wanted, columns)
        at = [index for index, topic in enumerate(columns["topic"]) if topic is None]
        names = [columns["group"][index] for index in at]
        yield _rows(
            GROUP,
            name=names,
            number=[-1] * len(at),
            listed=[True] * len(at),
            needed=[work.needs(name) for name in names],
            **{
                column: [columns[column][index] for index in at]
                for column in ("error", "commits", "commit_topics", "fingerprint")
            },
        )
    yield _run("commits", number, records=read)


def _reader_rows(
    work: ScanTask, wanted: Mapping[str, range | frozenset[int]], columns: Mapping[str, list[Any]]
) -> pa.RecordBatch:
    """Each group's position on each needed partition of the topics it has commits on; none where it has none there (implied)."""
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
        for on_topic, known in positions.items():
            by_name = group in work.named.get(on_topic, ())
            for needed in wanted[on_topic]:
                name.append(on_topic)
                number.append(needed)
                reader.append(group)
                committed.append(known.get(needed))
                named.append(by_name)
        positions = {}
    return _rows(PARTITION, name=name, number=number, reader=reader, committed=committed, named=named)


def _log(work: ScanTask, partitions: Sequence[int]) -> Iterator[pa.RecordBatch]:
    origins: dict[str, set[str]] = {}
    for topic, groups in work.named.items():
        for group in groups:
            origins.setdefault(group, set()).add(topic)
    for batch in read_commit_log(work.connection, partitions, origins=origins, limit_s=work.log_limit_s):
        rows = batch.to_pylist()
        lives = [row for row in rows if row["group"] is not None and row["topic"] is None]
        # Where readers are wanted, every group that the cluster may hold is: the log may know ids that no listing shows.
        lives = [row for row in lives if work.readers or work.needs(row["group"])]
        yield _rows(
            GROUP,
            name=[row["group"] for row in lives],
            number=[-1] * len(lives),
            needed=[work.needs(row["group"]) for row in lives],
            **{
                column: [row[column] for row in lives]
                for column in ("last_activity_ms", "log_partition", "log_offset", "seems", "live", "commit_keys")
            },
        )
        found = [row for row in rows if row["topic"] is not None]
        yield _rows(
            PARTITION,
            name=[row["topic"] for row in found],
            number=[row["partition"] for row in found],
            origin=[row["group"] for row in found],
            origin_committed=[row["committed"] for row in found],
            origin_topic_id=[row["topic_id"] for row in found],
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
