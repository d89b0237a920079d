"""Reads one chunk in a task, and answers with a few typed tables.

Decided here: what leaves a task. Every row describes one subject and says what was read; a chunk also
counts what it read, and a subject without a row was not read.
"""

import pickle
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from reconciler.errors import ScanFailed
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_consumer_offsets
from reconciler.kafka.coordinators import read_consumption
from reconciler.kafka.futures import error_columns
from reconciler.kafka.group_listing import cluster_id_in_metadata
from reconciler.kafka.groups import commit_row
from reconciler.kafka.offsets import HIGH_WATERMARK, STABLE_END, OffsetsRequest, read_offsets
from reconciler.kafka.session import KafkaSession
from reconciler.model.garbage import gc_paused
from reconciler.references import UnresolvedReference
from reconciler.scan.chunks import Chunk
from reconciler.scan.columns import columns

_NAMES = pa.dictionary(pa.int32(), pa.string())
SCHEMAS: Mapping[str, pa.Schema] = {
    "partitions": columns(
        "topic! partition! log_start last_stable_offset high_watermark offsets_at stamps_at error unanswered"
    ),
    # Records of the partitions that were read, and the number of these partitions.
    "topics": columns("topic! records! read!"),
    "groups": columns("group! error unanswered commits commit_topics fingerprint"),
    # `committed` null: the group consumes the topic and has no commit on the partition.
    "positions": columns("group! topic! partition! committed", group=_NAMES, topic=_NAMES),
    # Each group with the topics that it consumes, also where its positions are left out.
    "consumers": columns("group! topic!"),
    # As of `read_consumer_offsets`.
    "activity": columns("group! last_activity_ms log_partition! log_offset seems live commit_keys members may_read"),
    "pending": columns("group! topic! partition! committed log_partition!"),
    "origins": columns("topic! partition! group! committed topic_id"),
    "commits": columns("group! topic! partition! committed! topic_id metadata_base64"),
    "runs": columns("log_partition! error unanswered records skipped garbled log_offset"),
}
"""The tables of an answer."""

Answer = Mapping[str, bytes]
"""What one chunk answers, by table; without a table there are no rows.

Encoded until a table of one answer is read: of each of millions of commits the driver holds six bytes.
"""

_LEAST_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """What the tasks of one scan share. Pickled into the tasks.

    `cluster_id`: of the cluster that was listed; None: no broker has answered with it. `readers`:
    partitions whose readers are requested, by topic. `topic_ids`: of these topics. `named`: groups
    whose position is requested wherever it is, by topic. `last_stable_offsets`: of
    `__consumer_offsets`, read before any commit. `until_s`: epoch seconds at which tasks give up silent
    brokers; a wrong clock costs time, not facts. `log_limit_s`: for one chunk of `__consumer_offsets`.
    Others: as of `read_consumer_offsets`.
    """

    connection: Connection
    cluster_id: str | None = None
    readers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, frozenset[str]] = field(default_factory=dict)
    until_s: float
    log_limit_s: float
    with_commits: frozenset[str] = frozenset()
    last_stable_offsets: Mapping[int, int] = field(default_factory=dict)

    @property
    def patience_s(self) -> float:
        """Seconds that a chunk that starts now waits for silent brokers.

        At least a few, because the executor's clock may be ahead.
        """
        return min(self.connection.timeout_s, max(_LEAST_S, self.until_s - time.time()))

    def __reduce__(self) -> tuple[Any, ...]:
        # What grows with the cluster is unpickled once per process: each of many tasks would repeat it.
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        by_topic = pickle.dumps({name: values.pop(name) for name in _GROWING})
        return _task, (values, by_topic)


_GROWING = ("readers", "topic_ids", "named", "with_commits")


def _task(values: Mapping[str, Any], by_topic: bytes) -> ScanTask:
    return ScanTask(**values, **_unpickle(by_topic))


@lru_cache(maxsize=1)
def _unpickle(data: bytes) -> Any:
    return pickle.loads(data)  # noqa: S301  a part of a task, which Spark has unpickled, too


def read_encoded(task: ScanTask, chunk: Chunk) -> bytes:
    """Read a chunk in a task of Spark, and return its answer for `load_answer`."""
    try:
        connection = replace(task.connection.resolve_here(), timeout_s=task.patience_s)
    except UnresolvedReference as reason:
        raise ScanFailed(
            f"{reason}, on the executor {socket.gethostname()}: set it there, or leave --executor-secrets out"
        ) from None
    # Garbage collection took a third of the time.
    with gc_paused(), closing(KafkaSession(connection, isolates=is_retry())) as session:
        answer = read_chunk(session, task, chunk)
        return dump_answer(answer if answers_for(session, task.cluster_id) else {})


def answers_for(session: KafkaSession, cluster_id: str | None) -> bool:
    """Whether the brokers that this machine has read are those of the cluster; False: none answered with its id.

    Executors resolve the addresses on their own machines. Raises ScanFailed for another cluster.
    """
    if cluster_id is None:
        return True
    answered = cluster_id_in_metadata(session, limit_s=session.timeout_s)
    if answered in (None, cluster_id):
        return answered is not None
    raise ScanFailed(
        f"the brokers that {socket.gethostname()} reaches are cluster {answered}, not {cluster_id}: make "
        f"{session.connection.servers} lead to the same brokers on the executors and on the driver's machine"
    )


def encode(batch: pa.RecordBatch) -> bytes:
    """Return a table of an answer as a compressed Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def decode(stream: bytes) -> pa.RecordBatch:
    """Return the table that `encode` wrote."""
    return pa.ipc.open_stream(stream).read_next_batch()


_ANSWER = pa.schema([("table", pa.string()), ("rows", pa.binary())])


def dump_answer(answer: Answer) -> bytes:
    """Return an answer as an Arrow stream: a server of Spark Connect must not choose what the client unpickles."""
    return encode(pa.RecordBatch.from_pydict({"table": [*answer], "rows": [*answer.values()]}, schema=_ANSWER))


def load_answer(stream: bytes) -> Answer:
    """Return the answer that `dump_answer` wrote; its tables stay encoded."""
    return {row["table"]: row["rows"] for row in decode(stream).to_pylist()}


def is_retry() -> bool:
    """Whether this task failed before: the library can crash, so a retry uses a worker process."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def read_chunk(session: KafkaSession, task: ScanTask, chunk: Chunk) -> Answer:
    """Read one chunk, which has one kind of subject."""
    if chunk.requests:
        return _read_partitions(session, chunk.requests)
    if chunk.groups:
        return _read_commits(session, task, chunk)
    return _read_log(session, task, chunk.log)


def _read_partitions(session: KafkaSession, requests: Sequence[OffsetsRequest]) -> Answer:
    records: Counter[str] = Counter()
    read: Counter[str] = Counter()
    rows = read_offsets(session, requests)
    for row in rows:
        topic, start, end = row["topic"], row["log_start"], row[STABLE_END]
        is_known = start is not None and end is not None
        records[topic] += max(0, end - start) if is_known else 0
        read[topic] += is_known
    return {
        # Partitions that are only counted have no high watermark.
        "partitions": _batch("partitions", (row for row in rows if HIGH_WATERMARK in row)),
        "topics": _batch("topics", ({"topic": name, "records": records[name], "read": read[name]} for name in records)),
    }


def _read_commits(session: KafkaSession, task: ScanTask, chunk: Chunk) -> Answer:
    groups: list[dict[str, Any]] = []
    positions: dict[str, list[Any]] = {name: [] for name in SCHEMAS["positions"].names}
    consumers: dict[str, list[str]] = {name: [] for name in SCHEMAS["consumers"].names}
    for part in read_consumption(session, chunk.groups, with_members=chunk.with_members):
        for group, consumption in part.items():
            row = commit_row(group, consumption.commits)
            groups.append(row if consumption.unread is None else row | error_columns(consumption.unread))
            for topic, committed in sorted(consumption.by_topic(task.readers).items()):
                consumers["group"].append(group)
                consumers["topic"].append(topic)
                numbers = task.readers[topic]
                positions["group"] += [group] * len(numbers)
                positions["topic"] += [topic] * len(numbers)
                positions["partition"] += numbers
                positions["committed"] += map(committed.get, numbers)
    return {
        "groups": _batch("groups", groups),
        # By column: a dictionary per position would take longer than the reading.
        "positions": encode(pa.RecordBatch.from_pydict(positions, schema=SCHEMAS["positions"])),
        "consumers": encode(pa.RecordBatch.from_pydict(consumers, schema=SCHEMAS["consumers"])),
    }


def _read_log(session: KafkaSession, task: ScanTask, partitions: Sequence[int]) -> Answer:
    tables = read_consumer_offsets(
        session,
        partitions,
        origins=task.named,
        topic_ids=task.topic_ids,
        with_commits=task.with_commits,
        last_stable_offsets=task.last_stable_offsets,
        pending_of=task.readers,
        limit_s=task.log_limit_s,
    )
    return {table: _batch(table, rows) for table, rows in tables.items()}


def _batch(table: str, rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows of a table, encoded; keys without a column are left out, columns without a key null."""
    return encode(pa.RecordBatch.from_pylist(list(rows), schema=SCHEMAS[table]))


def read_batches(task: ScanTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read pickled chunks, for `mapInArrow`: a row with the encoded answer for each."""
    for batch in batches:
        for chunk in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pydict({"answer": [read_encoded(task, pickle.loads(chunk))]})  # noqa: S301
