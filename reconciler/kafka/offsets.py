"""Reads offsets of partitions with ListOffsets (API key 2).

Decided here: the order of queries, what counts as an answer, and how long to retry. A negative offset
is never a number. The ends are answered before the first query by timestamp is sent, so that records
produced in between lie above them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from reconciler.kafka.api_versions import LIST_OFFSETS, find_untold
from reconciler.kafka.futures import FINAL, GONE, Deadline, batched, error_columns, failed_with, failure_of
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import NOT_ASKED, Cause, LookupKind, PartitionFacts, RecordLookup, RecordStamp, Unknown
from reconciler.text.formatting import broker_ids

NO_RECORD = -1
"""The answer to a query by timestamp if every record is older. DeleteRecords takes it for "all"."""

UNKNOWN_LEADER = -1
LOG_START, HIGH_WATERMARK, STABLE_END = "log_start", "high_watermark", "last_stable_offset"

Moment = str | int | RecordLookup
"""What a query asks for: an end by name, the first offset at a timestamp in epoch ms, or a lookup."""

_PARTITIONS_PER_CALL = 1_000
_UNKNOWN_TO_CLIENT = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT})
_GONE_PATIENCE_S = 5.0


class Watermarks(NamedTuple):
    """The ends of one partition's log, as far as they are requested."""

    log_start: int | Unknown = NOT_ASKED
    high_watermark: int | Unknown = NOT_ASKED
    last_stable_offset: int | Unknown = NOT_ASKED

    @property
    def size(self) -> int:
        """Number of offsets between the ends; 0 where one of them is Unknown."""
        if isinstance(self.log_start, Unknown) or isinstance(self.high_watermark, Unknown):
            return 0
        return max(0, self.high_watermark - self.log_start)


@dataclass(frozen=True, slots=True)
class OffsetsRequest:
    """Partitions of one topic and one leader, with the same offsets requested of each.

    `ends`: fields of Watermarks. `instants` in epoch ms need the last stable offset.
    """

    topic: str
    partitions: Sequence[int]
    leader: int
    ends: tuple[str, ...] = Watermarks._fields
    instants: tuple[int, ...] = ()

    def query(self, what: Moment, number: int) -> "OffsetQuery":
        return OffsetQuery(what, self.topic, number, self.leader)


class OffsetQuery(NamedTuple):
    """A key of the answers. A tuple, because lookups are frequent."""

    what: Moment
    topic: str
    partition: int
    leader: int


_NEWEST = RecordLookup(LookupKind.NEWEST)
_NEWEST_STAMPS = ("the newest timestamp", "ListOffsets", LIST_OFFSETS, 7)
"""The request whose answer has the newest timestamp, and from which version on (KIP-734, Kafka 3.0)."""
_SPECS: Mapping[Moment, tuple[OffsetSpec, IsolationLevel]] = {
    LOG_START: (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
    HIGH_WATERMARK: (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    STABLE_END: (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
    _NEWEST: (OffsetSpec.max_timestamp(), IsolationLevel.READ_UNCOMMITTED),
}


def _spec(what: Moment) -> tuple[OffsetSpec, IsolationLevel]:
    if what in _SPECS:
        return _SPECS[what]
    if isinstance(what, RecordLookup):
        return OffsetSpec.for_timestamp(what.start), IsolationLevel.READ_UNCOMMITTED
    return OffsetSpec.for_timestamp(int(what)), IsolationLevel.READ_COMMITTED


def read_offsets(session: KafkaSession, requests: Sequence[OffsetsRequest]) -> list[dict[str, Any]]:
    """A row per requested partition: its offsets, and as `error` why one is None.

    `offsets_at`: the offset at each of `instants`, `stamps_at`: the timestamp of that record.
    `unanswered`: as of `error_columns`. Never raises for a broker that is away.
    """
    partitions = [(request, number) for request in requests for number in request.partitions]
    watermarks = read_watermarks(session, requests)
    # Only now: "no record at or after" refers to the ends that were just answered, so records that
    # are produced in between lie above them.
    by_time = [
        request.query(instant, number)
        for request, number in partitions
        if isinstance(watermarks[TopicPartition(request.topic, number)].last_stable_offset, int)
        for instant in request.instants
    ]
    stamps = _stamps(session, by_time, lowest=NO_RECORD)
    rows = []
    for request, number in partitions:
        ends = {end: getattr(watermarks[TopicPartition(request.topic, number)], end) for end in request.ends}
        found = [stamps.get(request.query(instant, number)) for instant in request.instants]
        at = [of.offset if isinstance(of, RecordStamp) else of for of in found]
        facts = (*ends.items(), *(("offset at an instant", fact) for fact in at))
        errors = (
            replace(fact, reason=f"{what.replace('_', ' ')}: {fact.reason} (asked broker {request.leader})")
            for what, fact in facts
            if isinstance(fact, Unknown)
        )
        rows.append(
            {
                "topic": request.topic,
                "partition": number,
                **{end: _known(fact) for end, fact in ends.items()},
                "instants": request.instants,
                "offsets_at": list(map(_known, at)),
                "stamps_at": [of.timestamp_ms if isinstance(of, RecordStamp) else None for of in found],
                **error_columns(next(errors, None)),
            }
        )
    return rows


def _known(answer: int | Unknown | None) -> int | None:
    return answer if isinstance(answer, int) else None


def read_watermarks(
    session: KafkaSession, requests: Sequence[OffsetsRequest], *, deadline: Deadline | None = None
) -> dict[TopicPartition, Watermarks]:
    """The requested ends of each partition. Never raises for an absent broker."""
    partitions = [(request, number) for request in requests for number in request.partitions]
    queries = [request.query(end, number) for request, number in partitions for end in request.ends]
    stamps = _stamps(session, queries, deadline=deadline)
    answers = {query: of.offset if isinstance(of, RecordStamp) else of for query, of in stamps.items()}
    return {
        TopicPartition(request.topic, number): Watermarks(
            **{end: answers[request.query(end, number)] for end in request.ends}
        )
        for request, number in partitions
    }


def with_watermarks(
    session: KafkaSession, facts: Mapping[TopicPartition, PartitionFacts | None], *, deadline: Deadline
) -> dict[TopicPartition, PartitionFacts | None]:
    """The same facts with current log start and high watermark. A leaderless partition has none."""
    requests = requests_by_leader(facts.values(), LOG_START, HIGH_WATERMARK)
    watermarks = read_watermarks(session, requests, deadline=deadline)
    completed = dict(facts)
    for partition, known in facts.items():
        if known is not None and not isinstance(known.leader, Unknown):
            replicas = "unknown" if isinstance(known.replicas, Unknown) else broker_ids(known.replicas)
            no_leader = Unknown(f"the partition has no leader; brokers with a replica: {replicas}")
            ends = watermarks.get(partition, Watermarks(no_leader, no_leader))
            completed[partition] = replace(known, **ends._asdict())
    return completed


def requests_by_leader(partitions: Iterable[PartitionFacts | None], *ends: str) -> list[OffsetsRequest]:
    """Requests for these ends, per topic and leader. Leaderless partitions are left out."""
    numbers: dict[tuple[str, int], list[int]] = {}
    for facts in partitions:
        if facts is not None and isinstance(facts.leader, int):
            numbers.setdefault((facts.partition.topic, facts.leader), []).append(facts.partition.partition)
    return [
        OffsetsRequest(topic, sorted(of_leader), leader, ends) for (topic, leader), of_leader in sorted(numbers.items())
    ]


def read_ends(session: KafkaSession, topic: str, partitions: Sequence[int], *ends: str) -> dict[int, Watermarks]:
    """These ends of some partitions whose leaders are not known; without any, log start and high watermark."""
    request = OffsetsRequest(topic, partitions, UNKNOWN_LEADER, ends or (LOG_START, HIGH_WATERMARK))
    return {partition.partition: of for partition, of in read_watermarks(session, [request]).items()}


def read_last_stable_offsets(
    session: KafkaSession, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | Unknown]:
    """The last stable offset of some partitions whose leaders are not known."""
    requests = [OffsetsRequest(at.topic, [at.partition], UNKNOWN_LEADER, (STABLE_END,)) for at in partitions]
    return {at: ends.last_stable_offset for at, ends in read_watermarks(session, requests).items()}


def find_by_time(
    session: KafkaSession,
    asked: Iterable[tuple[TopicPartition, RecordLookup]],
    facts: Mapping[TopicPartition, PartitionFacts] = MappingProxyType({}),
) -> dict[tuple[TopicPartition, RecordLookup], RecordStamp | Unknown | None]:
    """The records that lookups NEWEST and UNCOMMITTED find; None: there is none. `facts`: with leaders, if known."""
    queries = {}
    for partition, lookup in asked:
        leader = facts[partition].leader if partition in facts else None
        at = leader if isinstance(leader, int) else UNKNOWN_LEADER
        queries[partition, lookup] = OffsetQuery(lookup, partition.topic, partition.partition, at)
    # Older brokers take the question for a timestamp that every record has, and answer with the first record.
    newest = {query.leader for query in queries.values() if query.what == _NEWEST}
    versions = {leader: session.api_versions(None if leader == UNKNOWN_LEADER else {leader}) for leader in newest}
    untold = {leader: find_untold(versions[leader], *_NEWEST_STAMPS) for leader in newest}
    told = [query for query in queries.values() if query.what != _NEWEST or untold[query.leader] is None]
    answers = _stamps(session, told, lowest=NO_RECORD)
    found = {pair: answers[query] if query in answers else untold[query.leader] for pair, query in queries.items()}
    return {
        pair: None if isinstance(answer, RecordStamp) and answer.offset == NO_RECORD else answer
        for pair, answer in found.items()
    }


def _stamps(
    session: KafkaSession, queries: Sequence[OffsetQuery], *, lowest: int = 0, deadline: Deadline | None = None
) -> dict[OffsetQuery, RecordStamp | Unknown]:
    """Offset and timestamp of each query, or why there is none. `lowest`: the least valid offset."""

    def send(client: AdminClient, pending: Sequence[OffsetQuery], limit_s: float) -> dict[OffsetQuery, Future[Any]]:
        # A call answers when its slowest broker does: a silent leader must not delay the others.
        calls: dict[tuple[Moment, int], list[OffsetQuery]] = {}
        for query in pending:
            calls.setdefault((query.what, query.leader), []).append(query)
        futures: dict[OffsetQuery, Future[Any]] = {}
        for (what, leader), of_call in calls.items():
            spec, isolation = _spec(what)
            for part in batched(of_call, _PARTITIONS_PER_CALL):
                request = {ClientPartition(query.topic, query.partition): spec for query in part}
                answers = client.list_offsets(request, isolation_level=isolation, request_timeout=limit_s)
                futures.update(
                    (OffsetQuery(what, p.topic, p.partition, leader), future) for p, future in answers.items()
                )
        return futures

    futures = session.read(queries, send, is_final=_is_final(lowest), deadline=deadline)
    return {query: _stamp(future, lowest, session, query.leader) for query, future in futures.items()}


def _is_final(lowest: int) -> Callable[[Future[Any]], bool]:
    # A new topic is unknown to some brokers for seconds; a deleted topic stays unknown.
    gone_deadline = Deadline.after(_GONE_PATIENCE_S)

    def is_final(future: Future[Any]) -> bool:
        if future.exception() is None:
            return int(future.result().offset) >= lowest
        return failed_with(future, FINAL | _UNKNOWN_TO_CLIENT if gone_deadline.passed else FINAL - GONE)

    return is_final


def _stamp(future: Future[Any], lowest: int, session: KafkaSession, leader: int) -> RecordStamp | Unknown:
    failure = failure_of(future, right="DESCRIBE on the topic")
    if failure is not None and not failure.unanswered:
        return failure
    # The library reports success with -1001 for a partition whose broker did not answer.
    if failure is None and (answer := future.result()).offset >= lowest:
        return RecordStamp(int(answer.offset), int(answer.timestamp))
    broker, cause = "its leader", Cause.NO_ANSWER
    if leader != UNKNOWN_LEADER:
        broker, cause = session.broker(leader), Cause.SILENT_BROKER
    return Unknown(f"{broker} did not answer within {session.timeout_s:.0f} s", cause)
