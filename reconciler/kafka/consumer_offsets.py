"""Reads `__consumer_offsets` with a plain consumer and reduces it per group: `schemas.COMMIT_LOG`.

Decided here: which records count as activity (all), and when a partition of the log counts as read (up
to the high watermark at the start, or not at all). Uncommitted records are read on purpose: a commit in
an open transaction is activity, and the transaction must not make the groups behind it look idle.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition

from reconciler.kafka.connect import consumer, read_timeouts
from reconciler.kafka.consumer_offsets_reduce import Reduction
from reconciler.kafka.futures import Deadline, reason_of
from reconciler.kafka.offsets import UNKNOWN_LEADER, OffsetsRequest, Watermarks, read_watermarks
from reconciler.kafka.schemas import COMMIT_LOG
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import COMMIT_LOG_TOPIC
from reconciler.model.snapshot import PartitionFacts, Unknown

_BATCH = 10_000
_SLICE_S = 0.05
_FETCH: Mapping[str, str | int | float] = {
    "isolation.level": "read_uncommitted",
    "fetch.wait.max.ms": 100,
    "fetch.max.bytes": 64 * 1024 * 1024,
    "max.partition.fetch.bytes": 8 * 1024 * 1024,
    "queued.max.messages.kbytes": 128 * 1024,
    "queued.min.messages": 200_000,
}


def read_commit_log(
    session: KafkaSession,
    partitions: Sequence[int],
    *,
    origins: Mapping[str, Collection[str]] | None = None,
    limit_s: float | None = None,
) -> pa.RecordBatch:
    """Everything that these partitions of the log say, reduced per group.

    Never raises for a broker that is away. `origins`: topic ids only of these groups on these topics;
    None: of all. `limit_s`: upper bound of the whole call. Also ends after the session's timeout
    without data.
    """
    logs = {number: PartitionLog(number) for number in partitions}
    request = OffsetsRequest(COMMIT_LOG_TOPIC, tuple(partitions), UNKNOWN_LEADER, full=False)
    for partition, ends in read_watermarks(session, [request]).items():
        log = logs[partition.partition]
        for name, end in (("log start", ends.log_start), ("high watermark", ends.high_watermark)):
            if isinstance(end, Unknown) and log.error is None:
                log.error = f"{name}: {end.reason}"
        if isinstance(ends.log_start, int) and isinstance(ends.high_watermark, int):
            log.start, log.end = ends.log_start, ends.high_watermark
    consume(session, [log for log in logs.values() if log.error is None and log.start < log.end], limit_s)
    return _rows(logs.values(), origins)


def log_sizes(session: KafkaSession, partitions: Sequence[PartitionFacts]) -> dict[int, int]:
    """Number of offsets of each partition of the log; 0 for a leaderless or unknown one.

    The reader of such a partition reports why it could not be read.
    """
    sizes = {facts.partition.partition: 0 for facts in partitions}
    led = [facts.partition.partition for facts in partitions if isinstance(facts.leader, int)]
    request = OffsetsRequest(COMMIT_LOG_TOPIC, led, UNKNOWN_LEADER, full=False)
    for partition, ends in read_watermarks(session, [request]).items():
        sizes[partition.partition] = log_size(ends)
    return sizes


def log_size(ends: Watermarks) -> int:
    """Number of offsets between the ends; 0 where one of them is Unknown."""
    if isinstance(ends.log_start, Unknown) or isinstance(ends.high_watermark, Unknown):
        return 0
    return max(0, ends.high_watermark - ends.log_start)


@dataclass(slots=True)
class PartitionLog:
    """One partition of the log: from `start` to `end`, the high watermark before the first record."""

    number: int
    start: int = 0
    end: int = 0
    error: str | None = None
    reduced: Reduction = field(default_factory=Reduction)


def consume(session: KafkaSession, logs: Sequence[PartitionLog], limit_s: float | None) -> None:
    """Read the partitions to their ends. A partition that was not read to its end has an error then."""
    if not logs:
        return
    client = consumer(session.connection, {**read_timeouts(session.connection), **_FETCH})
    try:
        client.assign([TopicPartition(COMMIT_LOG_TOPIC, log.number, log.start) for log in logs])
        _drain(client, session.timeout_s, {log.number: log for log in logs}, limit_s)
    finally:
        client.close()


def _drain(client: Consumer, timeout_s: float, unfinished: dict[int, PartitionLog], limit_s: float | None) -> None:
    idle = Deadline.after(timeout_s)
    limit = None if limit_s is None else Deadline.after(limit_s)
    while unfinished:
        messages = client.consume(_BATCH, _SLICE_S)
        if messages:
            idle = Deadline.after(timeout_s)
        for message in messages:
            log = unfinished.get(message.partition())
            if log is None:
                continue
            error = message.error()
            offset = message.offset()
            if error is None:
                if offset < log.end:
                    log.reduced.add_record(message.key(), message.value(), message.timestamp()[1], offset)
                finished = offset >= log.end - 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # The end that the answering broker knows: a former leader may lack the last records.
                finished = offset is not None and offset >= log.end
            else:
                # Errors without a partition (such as a coordinator for the reader's own group) never get here.
                finished = True
                log.error = _reason(error)
            if finished:
                del unfinished[log.number]
                client.pause([TopicPartition(COMMIT_LOG_TOPIC, log.number)])
        if idle.passed or (limit is not None and limit.passed):
            for log in unfinished.values():
                log.error = f"no data for {timeout_s:.0f} s" if idle.passed else f"not done after {limit_s:.0f} s"
            return


def _reason(error: KafkaError) -> str:
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return f"the right READ on {COMMIT_LOG_TOPIC} is missing"
    return reason_of(error)


def _rows(logs: Iterable[PartitionLog], origins: Mapping[str, Collection[str]] | None) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = []
    for log in logs:
        reduced = log.reduced
        rows.append(
            {
                "log_partition": log.number,
                "records": reduced.records,
                "skipped": reduced.skipped,
                "garbled": reduced.malformed,
                "error": log.error,
            }
        )
        for activity in reduced.activities():
            rows.append(
                {
                    "group": activity.group,
                    "last_activity_ms": activity.newest_ms,
                    "log_partition": log.number,
                    "log_offset": activity.offset,
                    "seems": activity.group_type.value,
                    "live": activity.live,
                    "commit_keys": activity.commits,
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
