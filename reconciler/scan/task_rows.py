"""Reads one chunk in a Spark task, as rows of one table that Spark reduces.

Decided here: which rows leave a task. All sources share one schema and feed one shuffle. A row
describes one subject (partition, group, topic, or the run itself) and fills only some columns.
"""

import gc
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_commit_log
from reconciler.kafka.groups import Consumption, commit_row, read_consumption
from reconciler.kafka.offsets import STABLE_END, OffsetsRequest, read_offsets
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import GroupRequest
from reconciler.scan.chunking import Chunk, select_groups
from reconciler.scan.columns import columns, struct

PARTITION, GROUP, TOPIC, RUN = range(4)
"""The subject of a row."""

KEYS = ("subject", "name", "number")
_OFFSETS = ("error", "log_start", "stable_end", "high_watermark", "offsets_at")
COMMITS = ("commits", "commit_topics", "fingerprint")
_ACTIVITY = ("last_activity_ms", "log_partition", "log_offset", "seems", "live", "commit_keys")
_COUNTS = ("records", "skipped", "garbled")
SUMS = (*_COUNTS, "unread")
"""Of a topic (records, partitions without an answer), or of a run (what was read)."""

COLUMNS: Mapping[int, Sequence[str]] = {
    PARTITION: (*_OFFSETS, "readers", "origins"),
    GROUP: ("error", *COMMITS, *_ACTIVITY),
    TOPIC: ("records", "unread"),
    RUN: ("error", *_COUNTS, "log_offset"),
}
"""The columns of each kind of subject in the result; the query collects `readers` and `origins`."""

FACTS = columns(
    " ".join(["subject! name! number!", *_OFFSETS, "reader origin needed", *COMMITS, *_ACTIVITY, *SUMS]),
    # A reader of a partition; without a committed offset it is implied to stand at the log start.
    reader=struct("group committed named"),
    # The commit log's entry of a named reader, or of one that committed for another topic id.
    origin=struct("group committed id"),
)

LISTED_TYPES = ("classic", "consumer")
"""Types in the log that prove nothing: a group of these types would be in the current list call.

A Connect group starts with a record without a protocol, which reads as classic.
"""

_LEAST_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """What the tasks of one scan share. Pickled into the tasks.

    `readers`: partitions whose readers are requested, by topic. `topic_ids`: of these topics. `named`: groups whose position is
    requested wherever it is, by topic. `until_s`: epoch seconds at which tasks give up silent
    brokers; a wrong clock costs time, not facts. `log_limit_s`: for one chunk of the commit log.
    """

    connection: Connection
    readers: Mapping[str, Sequence[int]]
    topic_ids: Mapping[str, str]
    named: Mapping[str, frozenset[str]]
    groups: tuple[GroupRequest, ...]
    until_s: float
    log_limit_s: float


def read_chunks(task: ScanTask, chunks: Sequence[Chunk], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over a range, in a Python worker of Spark: an id is a chunk's number."""
    # Garbage collection took a third of the time.
    with gc_paused():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_chunk(task, chunks[number], isolated=is_retry())


def is_retry() -> bool:
    """Whether this task failed before: the library can crash, so a retry uses a worker process."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection, for all threads, while many objects are created that all stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read_chunk(task: ScanTask, chunk: Chunk, *, isolated: bool) -> Iterator[pa.RecordBatch]:
    """One chunk as batches of `FACTS`, and a row about the run. `isolated`: see `read_consumption`."""
    # At least a few seconds, because the executor's clock may be ahead.
    remaining_s = min(task.connection.timeout_s, max(_LEAST_S, task.until_s - time.time()))
    with closing(KafkaSession(replace(task.connection, timeout_s=remaining_s))) as session:
        if chunk.requests:
            yield from _read_partitions(session, chunk.requests)
        if chunk.groups:
            yield from _read_commits(session, task, chunk, isolated=isolated)
        if chunk.log:
            yield from _read_log(session, task, chunk.log)


def _read_partitions(session: KafkaSession, requests: Sequence[OffsetsRequest]) -> Iterator[pa.RecordBatch]:
    records: Counter[str] = Counter()
    unread: Counter[str] = Counter()
    rows = read_offsets(session, requests)
    for row in rows:
        topic, start, end = row["topic"], row["log_start"], row["high_watermark"]
        known = start is not None and end is not None
        records[topic] += max(0, end - start) if known else 0
        unread[topic] += not known
    # Partitions that are only counted have no stable end.
    requested = (row for row in rows if STABLE_END in row)
    yield _rows(PARTITION, ({**row, "name": row["topic"], "number": row["partition"]} for row in requested))
    yield _rows(TOPIC, ({"name": name, "records": records[name], "unread": unread[name]} for name in records))
    yield _rows(RUN, [{"name": "partitions", "records": len(rows)}])


def _read_commits(session: KafkaSession, task: ScanTask, chunk: Chunk, *, isolated: bool) -> Iterator[pa.RecordBatch]:
    read: Counter[str] = Counter(groups=0, commits=0)
    for part in read_consumption(session, chunk.groups, with_members=chunk.with_members, isolated=isolated):
        yield _readers(task, part)
        needed = select_groups(task.groups, part)
        rows = []
        for group, consumption in part.items():
            row = {**commit_row(group, consumption.commits), "name": group, "needed": group in needed}
            if consumption.unread is not None:
                row["error"] = consumption.unread.reason
            rows.append(row)
        yield _rows(GROUP, rows)
        read.update(groups=len(rows), commits=sum(row.get("commits", 0) for row in rows))
    yield _rows(RUN, [{"name": name, "records": number} for name, number in read.items()])


def _readers(task: ScanTask, part: Mapping[str, Consumption]) -> pa.RecordBatch:
    """Positions on requested partitions of the topics that each group consumes.

    `committed` is null where the group has no commit on the partition (an implied position).
    """
    names: list[str] = []
    numbers: list[int] = []
    readers: list[tuple[str, int | None, bool]] = []
    for group, consumption in part.items():
        for topic in sorted(consumption.topics.intersection(task.readers)):
            by_number, requested = consumption.of_topic(topic), task.readers[topic]
            named = group in task.named.get(topic, ())
            names += [topic] * len(requested)
            numbers += requested
            readers += [(group, by_number.get(number), named) for number in requested]
    # A row per position: dictionaries would take longer than the reading.
    columns = {"subject": [PARTITION] * len(names), "name": names, "number": numbers, "reader": readers}
    nulls = pa.nulls(len(names))
    return pa.RecordBatch.from_pydict({name: columns.get(name, nulls) for name in FACTS.names}, schema=FACTS)


def _read_log(session: KafkaSession, task: ScanTask, partitions: Sequence[int]) -> Iterator[pa.RecordBatch]:
    origins: dict[str, set[str]] = {}
    for topic, named in task.named.items():
        for name in named:
            origins.setdefault(name, set()).add(topic)
    rows = read_commit_log(session, partitions, origins=origins, topic_ids=task.topic_ids, limit_s=task.log_limit_s)
    needed = select_groups(task.groups, {row["group"] for row in rows if "group" in row})
    groups, topic_ids, logs = [], [], []
    for row in rows:
        group = row.get("group")
        if group is None:
            logs.append({**row, "name": "commit_log", "number": row["log_partition"]})
        elif "topic" in row:
            origin = {"group": group, "committed": row["committed"], "id": row["topic_id"]}
            topic_ids.append({"name": row["topic"], "number": row["partition"], "origin": origin})
        elif task.readers or group in needed:
            # For readers every group counts: the log may know ids that no listing shows. Only the log
            # tells the types of groups that are neither classic nor consumer groups.
            groups.append({**row, "name": group, "needed": group in needed or row["seems"] not in LISTED_TYPES})
    yield _rows(GROUP, groups)
    yield _rows(PARTITION, topic_ids)
    yield _rows(RUN, logs)


def _rows(subject: int, rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows with some columns of `FACTS`; other columns are null, and other keys have no column."""
    return pa.RecordBatch.from_pylist([{"subject": subject, "number": -1, **row} for row in rows], schema=FACTS)
