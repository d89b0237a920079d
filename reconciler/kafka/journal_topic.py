"""Lines of the journal in a Kafka topic, which outlives the machine that ran the reconciler.

Decided here: a line counts as stored when all in-sync replicas have it, and only `create_topic` creates
the topic. What the lines say is decided in journal/entry.py.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from reconciler.errors import ClusterUnreachable, JournalUnavailable
from reconciler.kafka import connect
from reconciler.kafka.futures import Deadline, code_of, reason_of, wait_all
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import cleanup_policies, describe_topic
from reconciler.model.snapshot import Unknown

_POLL_S = 0.2

Line = tuple[bytes, str]
"""A line, and its location for an error message."""


class JournalTopic:
    """`journal.LineStore` in one topic. Safe between threads; several runs may share the topic.

    Raises JournalUnavailable where the topic is missing, was deleted and created again, cannot be read to
    its end, or cannot be written with the acknowledgement of all in-sync replicas.
    """

    is_ordered = False

    def __init__(self, session: KafkaSession, topic: str) -> None:
        self._session = session
        self._topic = topic
        self._lock = Lock()
        self._producer: Producer | None = None
        self._topic_id: str | Unknown | None = None
        self._read_to: dict[int, int] = {}

    def append(self, lines: Sequence[tuple[str, bytes]]) -> None:
        failures: list[KafkaError] = []
        with self._lock:
            # A producer creates a missing topic where the brokers allow it; no client setting forbids it.
            try:
                self._partitions()
                producer = self._open_producer()
                for key, line in lines:
                    _produce(producer, self._topic, key.encode(), line, failures)
                unacknowledged = producer.flush(self._session.timeout_s)
            except (KafkaException, BufferError) as error:
                raise self._unavailable("written", reason_of(error)) from None
            except ClusterUnreachable as error:
                raise self._unavailable("written", str(error)) from None
            if failures or unacknowledged:
                # Lines in flight may still arrive: an extra intent is harmless, a missing one is not.
                self._producer = None
                raise self._unavailable("written", failures[0].str() if failures else "no acknowledgement in time")

    def lines(self, *, containing: bytes = b"") -> Iterator[Line]:
        return (line for line in self._read({}) if containing in line[0])

    @contextlib.contextmanager
    def new_lines(self) -> Iterator[Iterator[Line]]:
        with self._lock:
            read_to = dict(self._read_to)
            yield self._read(read_to)
            self._read_to = read_to

    def damaged(self, location: str, error: ValueError) -> JournalUnavailable:
        return self._unavailable("trusted", f"{location} is {error}")

    def _open_producer(self) -> Producer:
        if self._producer is None:
            tuning: connect.Tuning = {
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": max(1_000, int(self._session.timeout_s * 1000)),
            }
            self._producer = connect.producer(self._session.connection, tuning)
        return self._producer

    def _partitions(self) -> tuple[int, ...]:
        """The topic's partitions, after a check that it is the topic of the last call."""
        described = describe_topic(self._session, self._topic)
        if described is None:
            raise JournalUnavailable(
                f"the journal topic {self._topic} does not exist, and nothing creates it by accident: "
                f"{create_command(self._topic)}, with --bootstrap-server"
            )
        if isinstance(described, Unknown):
            raise self._unavailable("read", described.reason)
        facts, partitions = described
        if self._topic_id is None:
            self._refuse_compaction()
        elif facts.topic_id != self._topic_id:
            raise self._unavailable("trusted", "it was deleted and created again during the run")
        self._topic_id = facts.topic_id
        return tuple(partition.partition.partition for partition in partitions)

    def _refuse_compaction(self) -> None:
        """Compaction keeps only the last line of each action, so the journal would forget purges.

        A caller without the right to read the policy continues without this check.
        """
        policies = cleanup_policies(self._session, [self._topic])[self._topic]
        if not isinstance(policies, Unknown) and policies != {"delete"}:
            policy = ",".join(sorted(policies)) or "empty"
            raise self._unavailable(
                "trusted", f"its cleanup.policy is {policy}, which forgets entries: set it to delete"
            )

    def _read(self, read_to: dict[int, int]) -> Iterator[Line]:
        """Lines after `read_to` (offset by partition, updated) up to the current ends."""
        try:
            partitions = self._partitions()
            deadline = self._session.deadline()
            consumer = connect.consumer(self._session.connection, {"isolation.level": "read_uncommitted"})
        except ClusterUnreachable as error:
            raise self._unavailable("read", str(error)) from None
        try:
            spans = {number: self._span(consumer, number, read_to, deadline) for number in partitions}
            unfinished = {number for number, (start, end) in spans.items() if start < end}
            consumer.assign([TopicPartition(self._topic, number, spans[number][0]) for number in unfinished])
            lines: list[Line] = []
            while unfinished:
                messages = consumer.consume(1_000, timeout=_POLL_S)
                if messages:
                    deadline = self._session.deadline()
                elif deadline.passed:
                    raise self._unavailable("read", "its leader did not answer in time")
                for message in messages:
                    lines += _lines(message, spans, unfinished)
        except KafkaException as error:
            raise self._unavailable("read", reason_of(error)) from None
        finally:
            consumer.close()
        read_to.update({number: end for number, (_start, end) in spans.items()})
        yield from lines

    def _span(self, consumer: Consumer, number: int, read_to: Mapping[int, int], deadline: Deadline) -> tuple[int, int]:
        """First offset to read, and the high watermark."""
        partition = TopicPartition(self._topic, number)
        low, high = consumer.get_watermark_offsets(partition, timeout=max(0.1, deadline.remaining_s))
        if low < 0 or high < 0:
            raise self._unavailable("read", "its leader did not answer in time")
        return max(low, read_to.get(number, 0)), high

    def _unavailable(self, verb: str, reason: str) -> JournalUnavailable:
        return JournalUnavailable(
            f"the journal topic {self._topic} cannot be {verb}: {reason}; no request is sent without its intent"
        )


def create_command(topic: str) -> str:
    """The command of Kafka's own tools that creates the topic as `create_topic` does."""
    return (
        f"kafka-topics --create --topic {topic} --partitions 1 --config cleanup.policy=delete --config retention.ms=-1"
    )


def create_topic(session: KafkaSession, topic: str, *, retention_ms: int, replication: int = -1) -> None:
    """Create the journal's topic: one partition, never compacted. An existing topic is not changed.

    `retention_ms`: at least the longest `every` of the manifests, -1: for ever. `replication` -1: the
    brokers' default. Raises JournalUnavailable.
    """
    configs = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
    request = NewTopic(topic, num_partitions=1, replication_factor=replication, config=configs)
    client = session.controller_client()
    deadline = session.deadline()
    answer: Future[Any] = client.create_topics([request], request_timeout=deadline.request_timeout_s)[topic]
    wait_all(client, (answer,), deadline)
    error = answer.exception() if answer.done() else TimeoutError("no answer in time")
    if error is not None and code_of(error) != KafkaError.TOPIC_ALREADY_EXISTS:
        raise JournalUnavailable(f"the journal topic {topic} could not be created: {reason_of(error)}")


def _produce(producer: Producer, topic: str, key: bytes, line: bytes, failures: list[KafkaError]) -> None:
    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    while True:
        with contextlib.suppress(BufferError):
            producer.produce(topic, line, key, on_delivery=on_delivery)
            return
        producer.poll(_POLL_S)


def _lines(message: Message, spans: Mapping[int, tuple[int, int]], unfinished: set[int]) -> list[Line]:
    """The line of a message below the end of its partition. Removes finished partitions."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    number, offset = message.partition(), message.offset()
    assert number is not None
    end = spans[number][1]
    if error is not None:
        # The end that the answering broker knows: a former leader may lack the last records.
        if (offset or 0) >= end:
            unfinished.discard(number)
        return []
    assert offset is not None
    if offset + 1 >= end:
        unfinished.discard(number)
    value = message.value()
    return [] if offset >= end or value is None else [(value, f"record {offset} of partition {number}")]
