"""Reads offsets of partitions, and the records between two of them, and never commits.

Decided here: the order of queries, what counts as an answer, how long to retry, and when a
partition counts as read: up to the first high watermark, or not at all. A negative offset is never
a number. The ends are answered before the first query by timestamp is sent, so that records
produced in between lie above them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import groupby
from operator import methodcaller
from typing import Any, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from reconciler.kafka.connect import create, read_timeouts
from reconciler.kafka.futures import (
    FINAL,
    GONE,
    Deadline,
    batched,
    cause_of,
    error_columns,
    failed_with,
    failure_of,
    reason_of,
)
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import Cause, PartitionFacts, Unknown

NO_RECORD = -1
"""The answer to a query by timestamp if every record is older. DeleteRecords takes it for "all"."""

UNKNOWN_LEADER = -1
LOG_START, HIGH_WATERMARK, STABLE_END = "log_start", "high_watermark", "last_stable_offset"

_PARTITIONS_PER_CALL = 1_000
_UNKNOWN_TO_CLIENT = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT})
_GONE_PATIENCE_S = 5.0
_BATCH = 10_000
_SLICE_S = 0.05
_SETTINGS = {
    "fetch.wait.max.ms": 100,
    "fetch.max.bytes": 64 * 1024 * 1024,
    "max.partition.fetch.bytes": 8 * 1024 * 1024,
    "queued.max.messages.kbytes": 128 * 1024,
    "queued.min.messages": 200_000,
    # The library requires one. No client joins or commits under it, so the group never exists.
    "group.id": "kafka-reconciler-reader",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    # Without the records of open transactions, the groups behind one looked idle.
    "isolation.level": "read_uncommitted",
    # A follower would answer a client of its rack, and it may be behind the leader.
    "client.rack": "",
    "enable.partition.eof": True,
}


@dataclass(frozen=True, slots=True)
class OffsetsRequest:
    """Partitions of one topic and one leader, with the same offsets requested of each.

    `full` False: log start and high watermark only. `instants` in epoch ms need `full`.
    """

    topic: str
    partitions: Sequence[int]
    leader: int
    full: bool = True
    instants: tuple[int, ...] = ()

    @property
    def ends(self) -> tuple[str, ...]:
        """The offsets that are requested by name."""
        return (*Watermarks._fields, STABLE_END) if self.full else Watermarks._fields

    def query(self, what: str | int, number: int) -> "OffsetQuery":
        """The query for one offset of one partition, by name or (int) by timestamp."""
        return OffsetQuery(what, self.topic, number, self.leader)


class Watermarks(NamedTuple):
    """The ends of one partition's log."""

    log_start: int | Unknown
    high_watermark: int | Unknown

    @property
    def size(self) -> int:
        """Number of offsets between the ends; 0 where one of them is Unknown."""
        if isinstance(self.log_start, Unknown) or isinstance(self.high_watermark, Unknown):
            return 0
        return max(0, self.high_watermark - self.log_start)


class OffsetQuery(NamedTuple):
    """A key of the answers. A tuple, because lookups are frequent."""

    what: str | int
    topic: str
    partition: int
    leader: int


_SPECS: Mapping[str | int, tuple[OffsetSpec, IsolationLevel]] = {
    LOG_START: (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
    HIGH_WATERMARK: (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    STABLE_END: (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
}


def read_offsets(session: KafkaSession, requests: Sequence[OffsetsRequest]) -> list[dict[str, Any]]:
    """A row per requested partition: its offsets, and as `error` why one is None.

    `offsets_at`: the offset at each of `instants`. `unanswered`: as of `error_columns`. Never raises
    for a broker that is away.
    """
    partitions = [(request, number) for request in requests for number in request.partitions]
    answers = _query(session, [request.query(end, number) for request, number in partitions for end in request.ends])
    # Only now: "no record at or after" refers to the ends that were just answered, so records that
    # are produced in between lie above them.
    by_time = [
        request.query(instant, number)
        for request, number in partitions
        if isinstance(answers.get(request.query(STABLE_END, number)), int)
        for instant in request.instants
    ]
    answers |= _query(session, by_time, lowest=NO_RECORD)
    rows = []
    for request, number in partitions:
        ends = {end: answers[request.query(end, number)] for end in request.ends}
        at = [answers.get(request.query(instant, number)) for instant in request.instants]
        facts = (*ends.items(), *(("offset at an instant", fact) for fact in at))
        errors = (
            replace(fact, reason=f"{what.replace('_', ' ')}: {fact.reason} (leader {request.leader})")
            for what, fact in facts
            if isinstance(fact, Unknown)
        )
        rows.append(
            {
                "topic": request.topic,
                "partition": number,
                **{end: _known(fact) for end, fact in ends.items()},
                "instants": request.instants,
                "offsets_at": [_known(fact) for fact in at],
                **error_columns(next(errors, None)),
            }
        )
    return rows


def _known(answer: int | Unknown | None) -> int | None:
    return answer if isinstance(answer, int) else None


def read_watermarks(
    session: KafkaSession, requests: Sequence[OffsetsRequest], *, deadline: Deadline | None = None
) -> dict[TopicPartition, Watermarks]:
    """Log start and high watermark of each partition. Never raises for an absent broker."""
    ends = Watermarks._fields
    partitions = [(request, number) for request in requests for number in request.partitions]
    queries = [request.query(end, number) for request, number in partitions for end in ends]
    answers = _query(session, queries, deadline=deadline)
    return {
        TopicPartition(request.topic, number): Watermarks(*(answers[request.query(end, number)] for end in ends))
        for request, number in partitions
    }


def with_watermarks(
    session: KafkaSession, facts: Mapping[TopicPartition, PartitionFacts | None], *, deadline: Deadline
) -> dict[TopicPartition, PartitionFacts | None]:
    """The same facts with current log start and high watermark. A leaderless partition has none."""
    watermarks = read_watermarks(session, requests_by_leader(facts.values()), deadline=deadline)
    no_leader = Unknown("the partition has no leader")
    completed = dict(facts)
    for partition, known in facts.items():
        if known is not None and not isinstance(known.leader, Unknown):
            ends = watermarks.get(partition, Watermarks(no_leader, no_leader))
            completed[partition] = replace(known, **ends._asdict())
    return completed


def requests_by_leader(partitions: Iterable[PartitionFacts | None]) -> list[OffsetsRequest]:
    """Requests for watermarks, per topic and leader. Leaderless partitions are left out."""
    numbers: dict[tuple[str, int], list[int]] = {}
    for facts in partitions:
        if facts is not None and isinstance(facts.leader, int):
            numbers.setdefault((facts.partition.topic, facts.leader), []).append(facts.partition.partition)
    return [
        OffsetsRequest(topic, sorted(of_leader), leader, full=False)
        for (topic, leader), of_leader in sorted(numbers.items())
    ]


def read_ends(session: KafkaSession, topic: str, partitions: Sequence[int]) -> dict[int, Watermarks]:
    """The current ends of some partitions whose leaders are not known."""
    request = OffsetsRequest(topic, partitions, UNKNOWN_LEADER)
    return {partition.partition: ends for partition, ends in read_watermarks(session, [request]).items()}


def read_stable_ends(session: KafkaSession, topic: str, partitions: Iterable[int]) -> dict[int, int | Unknown]:
    """The last stable offset of some partitions whose leaders are not known."""
    answers = _query(session, [OffsetQuery(STABLE_END, topic, number, UNKNOWN_LEADER) for number in partitions])
    return {query.partition: offset for query, offset in answers.items()}


def first_offsets(
    session: KafkaSession, topic: str, ends: Mapping[int, Watermarks], since_ms: int
) -> dict[int, int | Unknown]:
    """The first offset of each partition stamped at or after an instant, in epoch ms.

    Where every record is older, it is the end, which was read before.
    """
    answers = _query(
        session, [OffsetQuery(since_ms, topic, number, UNKNOWN_LEADER) for number in ends], lowest=NO_RECORD
    )
    return {
        query.partition: ends[query.partition].high_watermark if offset == NO_RECORD else offset
        for query, offset in answers.items()
    }


def read_records(
    session: KafkaSession,
    topic: str,
    ends: Mapping[int, Watermarks],
    on_records: Callable[[int, list[Message]], None],
    *,
    read_to: Mapping[int, int] | None = None,
    limit_s: float | None = None,
) -> dict[int, Unknown]:
    """Call `on_records` with a partition's number and its next records, up to its end.

    Returns why a partition was not read to its end, by number. `ends`: of the partitions, by number.
    `read_to`: where earlier calls ended. `limit_s`: upper bound of the whole call, which also ends
    after the session's timeout without data. Raises ClusterUnreachable and KafkaException.
    """
    errors: dict[int, Unknown] = {}
    assignment: list[ClientPartition] = []
    unfinished: dict[int, int] = {}
    for number, (start, end) in ends.items():
        if isinstance(start, Unknown):
            errors[number] = replace(start, reason=f"log start: {start.reason}")
        elif isinstance(end, Unknown):
            errors[number] = replace(end, reason=f"high watermark: {end.reason}")
        elif (start := max(start, (read_to or {}).get(number, 0))) < end:
            assignment.append(ClientPartition(topic, number, start))
            unfinished[number] = end
    if not unfinished:
        return errors
    client = create(Consumer, session.connection, read_timeouts(session.connection) | _SETTINGS)
    idle = session.deadline()
    limit = Deadline.after(float("inf") if limit_s is None else limit_s)
    try:
        client.assign(assignment)
        while unfinished and not idle.passed and not limit.passed:
            messages = client.consume(_BATCH, _SLICE_S)
            if messages:
                idle = session.deadline()
            # Few calls for each record: a scan reads millions.
            for number, run in groupby(messages, methodcaller("partition")):
                if number not in unfinished:
                    continue
                end = unfinished[number]
                records, at_end, failure = _until_failure(list(run))
                # A former leader may know an earlier end and lack the last records.
                is_read = at_end >= end or (bool(records) and (records[-1].offset() or 0) >= end - 1)
                on_records(number, [m for m in records if (m.offset() or 0) < end] if is_read else records)
                if failure is not None and not is_read:
                    denied = failure.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
                    reason = f"the right READ on {topic} is missing" if denied else reason_of(failure)
                    errors[number] = Unknown(reason, cause_of(failure))
                if is_read or failure is not None:
                    del unfinished[number]
                    client.pause([ClientPartition(topic, number)])
    finally:
        client.close()
    unread = Unknown(f"no data for {session.timeout_s:.0f} s", Cause.NO_ANSWER)
    if limit_s is not None and not idle.passed:
        unread = Unknown(f"not done after {limit_s:.0f} s")
    return errors | dict.fromkeys(unfinished, unread)


def _until_failure(messages: list[Message]) -> tuple[list[Message], int, KafkaError | None]:
    """Split messages of one partition: records, the end that the broker knows (-1: not reached), and the failure.

    Nothing after a failure counts: what it skipped was not read. Errors without a partition, as of
    the reader's group, never get here.
    """
    if all(message.error() is None for message in messages):
        return messages, -1, None
    records: list[Message] = []
    at_end = -1
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            at_end = message.offset() or 0
        else:
            return records, at_end, error
    return records, at_end, None


def newest_timestamps(session: KafkaSession, topic: str, partitions: Sequence[int]) -> list[int]:
    """Epoch ms of the newest record of each partition that answers. Reads no record."""

    def send(client: AdminClient, numbers: Sequence[int], limit_s: float) -> dict[int, Future[Any]]:
        request = {ClientPartition(topic, number): OffsetSpec.max_timestamp() for number in numbers}
        futures = client.list_offsets(request, request_timeout=limit_s)
        return {int(partition.partition): future for partition, future in futures.items()}

    answers = session.read(partitions, send, is_final=_is_final(NO_RECORD))
    return [int(future.result().timestamp) for future in answers.values() if future.done() and not future.exception()]


def _query(
    session: KafkaSession, queries: Sequence[OffsetQuery], *, lowest: int = 0, deadline: Deadline | None = None
) -> dict[OffsetQuery, int | Unknown]:
    """The offset of each query, or why there is none. `lowest`: the least valid offset."""

    def send(client: AdminClient, pending: Sequence[OffsetQuery], limit_s: float) -> dict[OffsetQuery, Future[Any]]:
        # A call answers when its slowest broker does: a silent leader must not delay the others.
        calls: dict[tuple[str | int, int], list[OffsetQuery]] = {}
        for query in pending:
            calls.setdefault((query.what, query.leader), []).append(query)
        futures: dict[OffsetQuery, Future[Any]] = {}
        for (what, leader), of_call in calls.items():
            spec, isolation = _SPECS.get(what) or (OffsetSpec.for_timestamp(int(what)), IsolationLevel.READ_COMMITTED)
            for part in batched(of_call, _PARTITIONS_PER_CALL):
                request = {ClientPartition(query.topic, query.partition): spec for query in part}
                answers = client.list_offsets(request, isolation_level=isolation, request_timeout=limit_s)
                futures.update(
                    (OffsetQuery(what, p.topic, p.partition, leader), future) for p, future in answers.items()
                )
        return futures

    futures = session.read(queries, send, is_final=_is_final(lowest), deadline=deadline)
    return {query: _offset(future, lowest, session, query.leader) for query, future in futures.items()}


def _is_final(lowest: int) -> Callable[[Future[Any]], bool]:
    # A new topic is unknown to some brokers for seconds; a deleted topic stays unknown.
    gone_deadline = Deadline.after(_GONE_PATIENCE_S)

    def is_final(future: Future[Any]) -> bool:
        if future.exception() is None:
            return int(future.result().offset) >= lowest
        return failed_with(future, FINAL | _UNKNOWN_TO_CLIENT if gone_deadline.passed else FINAL - GONE)

    return is_final


def _offset(future: Future[Any], lowest: int, session: KafkaSession, leader: int) -> int | Unknown:
    failure = failure_of(future, right="DESCRIBE on the topic")
    if failure is not None and not failure.unanswered:
        return failure
    # The library reports success with -1001 for a partition whose broker did not answer.
    if failure is None and (offset := int(future.result().offset)) >= lowest:
        return offset
    broker, cause = "its leader", Cause.NO_ANSWER
    if leader != UNKNOWN_LEADER:
        broker, cause = session.broker(leader), Cause.SILENT_BROKER
    return Unknown(f"{broker} did not answer within {session.timeout_s:.0f} s", cause)
