"""Reads records with plain consumers that never commit (Fetch, API key 1).

Decided here: when a range of offsets counts as read: up to its end, or not at all; and how single
records are found without reading what lies between them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import groupby
from operator import methodcaller

from confluent_kafka import Consumer, KafkaError, Message, ThrottleEvent
from confluent_kafka import TopicPartition as ClientPartition

from reconciler.errors import ClusterUnreachable
from reconciler.kafka.connect import Settings, create, read_timeouts
from reconciler.kafka.futures import Deadline, submit, unknown_of
from reconciler.kafka.offsets import Watermarks, find_by_time
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import Cause, LookupKind, Lookups, PartitionFacts, RecordLookup, RecordStamp, Unknown

_BATCH = 10_000
_SLICE_S = 0.05
_STALLED_S = 0.1
"""So long only partitions that ended send records before they are paused: a pause waits for the client's thread."""
_RANGES_PER_S = 200
"""A tenth of the measured rate: too low a rate only prolongs the wait for a slow broker."""
_SOON_S, _SOON_PER_S = 2.0, 1_000
"""So long takes what comes many in a request."""
_SHORT = 20
"""A range of so few offsets is read as a whole: one read finds its first and its last record."""
_STEPS_BACK = (1, 10, 100, 1_000, 10_000)
"""Offsets before the end of a range in which its last record is looked for: mostly one of the last is a record."""

_SETTINGS: Settings = {
    "fetch.wait.max.ms": 100,
    # The library requires one. No client joins or commits under it, so the group never exists. But the library asks for
    # its coordinator, and brokers that have had no group then create `__consumer_offsets` (AutoTopicCreationManager).
    "group.id": "kafka-reconciler-reader",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    # A follower would answer a client of its rack, and it may be behind the leader.
    "client.rack": "",
    "enable.partition.eof": True,
    # Without it a flipped bit is another group, another offset or another time, and no error.
    "check.crcs": True,
}
_ALL: Settings = {
    **_SETTINGS,
    "fetch.max.bytes": 64 * 1024 * 1024,
    "max.partition.fetch.bytes": 8 * 1024 * 1024,
    "queued.max.messages.kbytes": 128 * 1024,
    "queued.min.messages": 200_000,
    # Without the records of open transactions, the groups behind one looked idle.
    "isolation.level": "read_uncommitted",
}
_SINGLE: Settings = {
    **_SETTINGS,
    # A larger batch comes alone, once its partition is the first of a request (KIP-74).
    "max.partition.fetch.bytes": 64 * 1024,
    "fetch.max.bytes": 16 * 1024 * 1024,
    "queued.min.messages": 1,
    # The queue is that of all partitions, and a fetch that finds it full waits for a second otherwise.
    "fetch.queue.backoff.ms": 10,
    "isolation.level": "read_committed",
}
_LARGE: Settings = {**_SINGLE, "max.partition.fetch.bytes": 1024 * 1024}
"""For what was not read soon. It reads too much of long partitions, where batches are small."""

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""The first offset of each partition, and the one before which its range ends."""

Answer = RecordStamp | Unknown | None
"""What a lookup found; None: there is no such record."""


def read_records(
    session: KafkaSession,
    topic: str,
    ends: Mapping[int, Watermarks],
    on_records: Callable[[TopicPartition, list[Message]], None],
    *,
    read_to: Mapping[int, int] | None = None,
    committed: bool = False,
    limit_s: float | None = None,
) -> dict[int, Unknown]:
    """Call `on_records` with a partition and its next records, up to its end.

    Returns why a partition was not read to its end, by number. `ends`: of the partitions, by number.
    `read_to`: where earlier calls ended. `committed`: without the records of aborted transactions; the
    ends are last stable offsets then. `limit_s`: upper bound of the whole call, which also ends
    after the session's timeout without data. Raises ClusterUnreachable and KafkaException.
    """
    errors: dict[int, Unknown] = {}
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for number, (start, end, _stable) in ends.items():
        if isinstance(start, Unknown):
            errors[number] = start.about("log start")
        elif isinstance(end, Unknown):
            errors[number] = end.about("high watermark")
        elif (start := max(start, (read_to or {}).get(number, 0))) < end:
            ranges[TopicPartition(topic, number)] = start, end

    settings = {**_ALL, "isolation.level": "read_committed"} if committed else _ALL
    with closing(_Reader(session, settings)) as reader:
        unread = reader.read(ranges, on_records, limit_s=limit_s)
    return errors | {partition.partition: reason for partition, reason in unread.items()}


def look_up(
    session: KafkaSession, asked: Lookups, facts: Mapping[TopicPartition, PartitionFacts]
) -> dict[TopicPartition, dict[RecordLookup, Answer]]:
    """Answer each lookup: where the record is and its timestamp, None without one, or why it is not known.

    `facts`: of the partitions. FIRST and LAST need READ on the topic, the others DESCRIBE. No key and
    no value is kept. Raises as `read_records`.
    """
    answers: dict[TopicPartition, dict[RecordLookup, Answer]] = {partition: {} for partition in asked}
    by_time = (LookupKind.NEWEST, LookupKind.UNCOMMITTED)
    pairs = [(partition, of) for partition, lookups in asked.items() for of in lookups if of.kind in by_time]
    for (partition, of), answer in find_by_time(session, pairs, facts).items():
        answers[partition][of] = answer
    steps = Counter[tuple[TopicPartition, RecordLookup]]()
    with closing(_Reader(session, _SINGLE)) as soon, closing(_Reader(session, _LARGE)) as later:
        readers = soon, later
        while wave := {  # the first open one of each partition
            partition: of
            for partition, lookups in asked.items()
            for of in reversed(lookups)
            if of not in answers[partition]
        }:
            ranges, whole = dict[TopicPartition, tuple[int, int]](), set[TopicPartition]()
            for partition, (kind, start, end) in wave.items():
                if kind is LookupKind.LAST:
                    ranges[partition] = max(start, end - _STEPS_BACK[steps[partition, wave[partition]]]), end
                    whole.add(partition)
                else:
                    ranges[partition] = start, end
                    if end - start <= _SHORT:
                        whole.add(partition)
            for partition, (first, last) in _find(readers, ranges, whole).items():
                lookup, known = wave[partition], answers[partition]
                if isinstance(first, Unknown) and first.unanswered:  # its broker is not waited for again
                    answers[partition] = {**dict.fromkeys(asked[partition], first), **known}
                    continue
                if lookup.kind is LookupKind.FIRST:
                    known[lookup] = first
                if partition in whole and (last is not None or ranges[partition][0] == lookup.start):
                    known[lookup._replace(kind=LookupKind.LAST)] = last
                else:
                    steps[partition, lookup] += 1
    return answers


def _find(
    readers: "tuple[_Reader, _Reader]", ranges: Ranges, whole: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[Answer, Answer]]:
    """Return the first and the last record that a read-committed consumer is given in each range.

    `whole`: where the range is read to its end; of the others only the first record is read.
    """
    found: dict[TopicPartition, tuple[RecordStamp, RecordStamp]] = {}

    def add(partition: TopicPartition, messages: list[Message]) -> bool:
        if messages:
            last = _stamp(messages[-1])
            first = last if len(messages) == 1 else _stamp(messages[0])
            found[partition] = found.get(partition, (first,))[0], last
        return bool(messages) and partition not in whole

    soon, later = readers
    unread = soon.read(ranges, add, limit_s=_SOON_S + len(ranges) / _SOON_PER_S)
    if slow := {partition: ranges[partition] for partition, why in unread.items() if why.unanswered}:
        left = later.read(slow, add, limit_s=later.session.timeout_s + len(slow) / _RANGES_PER_S)
        unread = {partition: why for partition, why in unread.items() if partition not in slow} | left
    none: tuple[Answer, Answer] = (None, None)
    return {
        partition: (unread[partition],) * 2 if partition in unread else found.get(partition, none)
        for partition in ranges
    }


class _Reader:
    """A client that reads ranges of partitions, one call after the other. Each client is a handshake with each broker."""

    def __init__(self, session: KafkaSession, settings: Settings) -> None:
        self.session, self._settings = session, settings
        self._client: Consumer | None = None
        self._paused: list[ClientPartition] = []
        self._throttled: Counter[str] = Counter()

    def close(self) -> None:
        if self._client is not None:
            # In a thread: the library ends thousands of partitions one by one.
            with suppress(ClusterUnreachable):
                submit(self._client.close)

    def _assign(self, ranges: Ranges) -> Consumer:
        if self._client is None:
            connection, callbacks = self.session.connection, {"throttle_cb": self._add_throttle}
            self._client = create(Consumer, connection, {**read_timeouts(connection), **self._settings, **callbacks})
        if self._paused:  # a pause outlasts an assignment
            self._client.resume(self._paused)
            self._paused = []
        self._client.assign([ClientPartition(p.topic, p.partition, start) for p, (start, _end) in ranges.items()])
        return self._client

    def _add_throttle(self, event: ThrottleEvent) -> None:
        self._throttled[event.broker_name] += event.throttle_time

    def read(
        self,
        ranges: Ranges,
        on_records: Callable[[TopicPartition, list[Message]], bool | None],
        *,
        limit_s: float | None,
    ) -> dict[TopicPartition, Unknown]:
        """Call `on_records` with the next records of each partition, until it returns that they are enough.

        Returns why a partition was not read to the end of its range.
        """
        if not ranges:
            return {}
        errors: dict[TopicPartition, Unknown] = {}
        unfinished = {(of.topic, of.partition): (of, start, end) for of, (start, end) in ranges.items()}
        idle = self.session.deadline()
        limit = Deadline.after(float("inf") if limit_s is None else limit_s)
        finished: list[ClientPartition] = []
        stalled = Deadline.after(_STALLED_S)
        client = self._assign(ranges)
        while unfinished and not idle.passed and not limit.passed:
            # The first call returns at once with as many as there are offsets left, the second one with what else is there.
            left = sum(max(1, end - start) for _partition, start, end in unfinished.values())
            messages = client.consume(min(left, _BATCH), _SLICE_S) + client.consume(_BATCH, 0)
            if messages:
                idle = self.session.deadline()
            pending = len(unfinished)
            for at, run in _runs(messages):
                if at not in unfinished:
                    continue
                partition, _start, end = unfinished[at]
                records, at_end, failure = _until_failure(run)
                # A former leader may know an earlier end and lack the last records.
                is_read = at_end >= end or (bool(records) and (records[-1].offset() or 0) >= end - 1)
                is_enough = on_records(
                    partition, [m for m in records if (m.offset() or 0) < end] if is_read else records
                )
                if failure is not None and not (is_read or is_enough):
                    errors[partition] = unknown_of(failure, right=f"READ on {partition.topic}")
                if is_read or is_enough or failure is not None:
                    del unfinished[at]
                    finished.append(ClientPartition(*at))
            if len(unfinished) < pending:
                stalled = Deadline.after(_STALLED_S)
            elif messages and finished and stalled.passed:
                client.pause(finished)
                self._paused += finished
                finished = []
        reason = f"no data for {self.session.timeout_s:.0f} s"
        if limit_s is not None and not idle.passed:
            reason = f"not done after {limit_s:.0f} s"
        if self._throttled.total() >= 1:
            [(broker, seconds)] = self._throttled.most_common(1)
            reason += f"; a quota of {broker} held the reading back for {seconds:.0f} s in all: raise it, or --timeout"
        silent = Unknown(reason, Cause.NO_ANSWER)
        return errors | {partition: silent for partition, _start, _end in unfinished.values()}


def _stamp(message: Message) -> RecordStamp:
    return RecordStamp(message.offset() or 0, message.timestamp()[1])


def _runs(messages: Iterable[Message]) -> Iterator[tuple[tuple[str, int], list[Message]]]:
    """Yield neighbouring messages of one partition together: few calls for each of millions of records."""
    for topic, of_topic in groupby(messages, methodcaller("topic")):
        for number, run in groupby(of_topic, methodcaller("partition")):
            yield (topic, number), list(run)


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
