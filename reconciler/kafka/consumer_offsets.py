"""The commit log `__consumer_offsets`, read by a plain consumer and reduced per group: `tables.COMMIT_LOG`.

Decided here: which records count as a sign of life (all of them), when a partition of the log counts as read (up to the high
watermark it had at the start, or not at all), and which topic incarnation a commit was made for. Read uncommitted on purpose:
a commit that waits for its transaction is a sign of life, and an open transaction must not make the groups behind it look idle.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition

from reconciler.kafka.connect import Connection, consumer, read_timeouts
from reconciler.kafka.consumer_offsets_reduce import Reduction
from reconciler.kafka.futures import Deadline
from reconciler.kafka.offsets import OffsetsRequest, read_partitions
from reconciler.kafka.schemas import COMMIT_LOG
from reconciler.kafka.topics import COMMIT_LOG_TOPIC

_BATCH = 10_000
_SLICE_S = 0.05


def read_commit_log(
    connection: Connection,
    partitions: Sequence[int],
    *,
    origins: Mapping[str, Collection[str]] | None = None,
    limit_s: float | None = None,
) -> Iterator[pa.RecordBatch]:
    """Everything these partitions of the log say, reduced per group, in one batch. Never raises for a broker that is away.

    `origins`: topic ids only of these groups on these topics; None: of all. `limit_s`: how long it may take at all; no data
    for the connection's timeout ends it, too.
    """
    logs = {number: _Log(number) for number in partitions}
    (ends,) = read_partitions(connection, [OffsetsRequest(COMMIT_LOG_TOPIC, tuple(partitions), -1, full=False)])
    for row in ends.to_pylist():
        log = logs[row["partition"]]
        log.error, log.start, log.end = row["error"], row["log_start"] or 0, row["high_watermark"] or 0
    _consume(connection, [log for log in logs.values() if log.error is None and log.start < log.end], limit_s)
    yield _rows(logs.values(), origins)


_FETCH: Mapping[str, str | int | float] = {
    "isolation.level": "read_uncommitted",
    "fetch.wait.max.ms": 100,
    "fetch.max.bytes": 64 * 1024 * 1024,
    "max.partition.fetch.bytes": 8 * 1024 * 1024,
    "queued.max.messages.kbytes": 128 * 1024,
    "queued.min.messages": 200_000,
}


@dataclass(slots=True)
class _Log:
    """One partition of the log while it is read: from `start` up to `end`, the high watermark when the reading began."""

    number: int
    start: int = 0
    end: int = 0
    error: str | None = None
    reduced: Reduction = field(default_factory=Reduction)


def _consume(connection: Connection, logs: Sequence[_Log], limit_s: float | None) -> None:
    if not logs:
        return
    client = consumer(connection, {**read_timeouts(connection), **_FETCH})
    try:
        client.assign([TopicPartition(COMMIT_LOG_TOPIC, log.number, log.start) for log in logs])
        _drain(client, connection, {log.number: log for log in logs}, limit_s)
    finally:
        client.close()


def _drain(client: Consumer, connection: Connection, unfinished: dict[int, _Log], limit_s: float | None) -> None:
    idle = Deadline.after(connection.timeout_s)
    limit = None if limit_s is None else Deadline.after(limit_s)
    while unfinished:
        messages = client.consume(_BATCH, _SLICE_S)
        if messages:
            idle = Deadline.after(connection.timeout_s)
        for message in messages:
            log = unfinished.get(message.partition())
            if log is None:
                continue
            error = message.error()
            offset = message.offset()
            if error is None:
                if offset < log.end:
                    log.reduced.take(message.key(), message.value(), message.timestamp()[1], offset)
                finished = offset >= log.end - 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # The end that whoever answered knows of: a leader of a moment ago may not have heard of all yet.
                finished = offset is not None and offset >= log.end
            else:
                # Errors that name no partition (the coordinator of the reader's own group, say) never get here.
                finished = True
                log.error = _reason(error)
            if finished:
                del unfinished[log.number]
                client.pause([TopicPartition(COMMIT_LOG_TOPIC, log.number)])
        if idle.over or (limit is not None and limit.over):
            for log in unfinished.values():
                log.error = (
                    f"no data for {connection.timeout_s:.0f} s" if idle.over else f"not done after {limit_s:.0f} s"
                )
            return


def _reason(error: KafkaError) -> str:
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return f"the right READ on {COMMIT_LOG_TOPIC} is missing"
    return f"{error.str()} ({error.name()})"


def _rows(logs: Iterable[_Log], origins: Mapping[str, Collection[str]] | None) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = []
    for log in logs:
        reduced = log.reduced
        rows.append(
            {
                "log_partition": log.number,
                "records": reduced.records,
                "skipped": reduced.skipped,
                "garbled": reduced.garbled,
                "error": log.error,
            }
        )
        for life in reduced.activities():
            rows.append(
                {
                    "group": life.group,
                    "last_activity_ms": life.newest_ms,
                    "log_partition": log.number,
                    "log_offset": life.offset,
                    "seems": life.seems.value,
                    "live": life.live,
                    "commit_keys": life.commits,
                }
            )
        for origin in reduced.origins(origins):
            rows.append(
                {
                    "group": origin.group,
                    "topic": origin.topic,
                    "partition": origin.partition,
                    "committed": origin.committed,
                    "topic_id": origin.topic_id,
                }
            )
    return pa.RecordBatch.from_pylist(rows, schema=COMMIT_LOG)
