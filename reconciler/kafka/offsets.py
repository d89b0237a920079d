"""Reads offsets of partitions: log start, stable end, high watermark, first offset at an instant.

Decided here: the order of queries, what counts as an answer, and how long to retry. A negative offset
is never a number. The ends are answered before the first query by timestamp is sent, so that records
produced in between lie above them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from reconciler.kafka.futures import FINAL, GONE, Deadline, batched, failed_with, failure_of
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import PartitionFacts, Unknown

NO_RECORD = -1
"""The answer to a query by timestamp: every record is older. To DeleteRecords it means "everything"."""

UNKNOWN_LEADER = -1
LOG_START, STABLE_END, HIGH_WATERMARK = "log start", "stable end", "high watermark"

_PARTITIONS_PER_CALL = 1_000
_UNKNOWN_TO_CLIENT = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT})
_GONE_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class OffsetsRequest:
    """Partitions of one topic and one leader, with the same offsets requested of each.

    `full` False: log start and high watermark only, to count records. `instants` in epoch ms need `full`.
    """

    topic: str
    partitions: Sequence[int]
    leader: int
    full: bool = True
    instants: tuple[int, ...] = ()

    @property
    def ends(self) -> tuple[str, ...]:
        """The offsets that are requested by name."""
        return (LOG_START, HIGH_WATERMARK, STABLE_END) if self.full else (LOG_START, HIGH_WATERMARK)

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


Answers = Mapping[OffsetQuery, int | Unknown]

_SPECS: Mapping[str | int, tuple[OffsetSpec, IsolationLevel]] = {
    LOG_START: (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
    HIGH_WATERMARK: (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    STABLE_END: (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
}


def read_offsets(session: KafkaSession, requests: Sequence[OffsetsRequest]) -> Answers:
    """All requested offsets. Never raises for a broker that is away."""
    answers = _query_ends(session, requests)
    # Only now: "no record at or after" refers to the ends that were just answered (traps 2 and 12).
    by_time = [
        request.query(instant, number)
        for request in requests
        for number in request.partitions
        if isinstance(answers.get(request.query(STABLE_END, number)), int)
        for instant in request.instants
    ]
    return answers | _query(session, by_time, lowest=NO_RECORD)


def read_watermarks(
    session: KafkaSession, requests: Sequence[OffsetsRequest], *, deadline: Deadline | None = None
) -> dict[TopicPartition, Watermarks]:
    """Log start and high watermark of each requested partition. Never raises for a broker that is away."""
    requests = [replace(request, full=False) for request in requests]
    answers = _query_ends(session, requests, deadline)
    return {
        TopicPartition(request.topic, number): Watermarks(
            *(answers[request.query(end, number)] for end in request.ends)
        )
        for request in requests
        for number in request.partitions
    }


def with_watermarks(
    session: KafkaSession, facts: Mapping[TopicPartition, PartitionFacts | None], *, deadline: Deadline
) -> dict[TopicPartition, PartitionFacts | None]:
    """The same facts with current log start and high watermark. A leaderless partition has none."""
    watermarks = read_watermarks(session, requests_by_leader(facts.values()), deadline=deadline)
    completed = dict(facts)
    for partition, known in facts.items():
        if known is not None and not isinstance(known.leader, Unknown):
            completed[partition] = replace(known, **watermarks.get(partition, _LEADERLESS)._asdict())
    return completed


def requests_by_leader(partitions: Iterable[PartitionFacts | None]) -> list[OffsetsRequest]:
    """Requests for the watermarks of partitions, per topic and leader; leaderless partitions are left out."""
    numbers: dict[tuple[str, int], list[int]] = {}
    for facts in partitions:
        if facts is not None and isinstance(facts.leader, int):
            numbers.setdefault((facts.partition.topic, facts.leader), []).append(facts.partition.partition)
    return [
        OffsetsRequest(topic, sorted(of_leader), leader, full=False)
        for (topic, leader), of_leader in sorted(numbers.items())
    ]


def newest_timestamps(session: KafkaSession, topic: str, partitions: Sequence[int]) -> list[int]:
    """Epoch ms of the newest record of each partition that answers. Reads no record."""

    def send(client: AdminClient, numbers: Sequence[int], limit_s: float) -> dict[int, Future[Any]]:
        request = {ClientPartition(topic, number): OffsetSpec.max_timestamp() for number in numbers}
        futures = client.list_offsets(request, request_timeout=limit_s)
        return {int(partition.partition): future for partition, future in futures.items()}

    answers = session.read(partitions, send, is_final=_is_final(NO_RECORD))
    return [int(future.result().timestamp) for future in answers.values() if future.done() and not future.exception()]


_LEADERLESS = Watermarks(Unknown("the partition has no leader"), Unknown("the partition has no leader"))


def _query_ends(
    session: KafkaSession, requests: Sequence[OffsetsRequest], deadline: Deadline | None = None
) -> dict[OffsetQuery, int | Unknown]:
    ends = ((request, end, number) for request in requests for number in request.partitions for end in request.ends)
    return _query(session, [request.query(end, number) for request, end, number in ends], deadline=deadline)


def _query(
    session: KafkaSession, queries: Sequence[OffsetQuery], *, lowest: int = 0, deadline: Deadline | None = None
) -> dict[OffsetQuery, int | Unknown]:
    """The offset of each query, or why there is none. `lowest`: the least number that is an offset."""

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
    return {query: _offset(future, lowest, session.timeout_s) for query, future in futures.items()}


def _is_final(lowest: int) -> Callable[[Future[Any]], bool]:
    # A new topic is unknown to some brokers for seconds; a deleted topic stays unknown.
    gone_deadline = Deadline.after(_GONE_PATIENCE_S)

    def is_final(future: Future[Any]) -> bool:
        if future.exception() is None:
            return int(future.result().offset) >= lowest
        return failed_with(future, FINAL | _UNKNOWN_TO_CLIENT if gone_deadline.passed else FINAL - GONE)

    return is_final


def _offset(future: Future[Any], lowest: int, timeout_s: float) -> int | Unknown:
    failure = failure_of(future, right="DESCRIBE on the topic", late=f"no answer within {timeout_s:.0f} s")
    if failure is not None:
        return failure
    offset = int(future.result().offset)
    # The library reports success with -1001 for a partition whose broker did not answer (trap 1).
    return offset if offset >= lowest else Unknown(f"its leader did not answer within {timeout_s:.0f} s")
