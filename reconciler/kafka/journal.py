"""The journal as a Kafka topic: an audit trail that outlives the machine that ran the reconciler.

Decided here: a record counts as stored when all in-sync replicas have it, and no call of this module but `create_topic` makes the
topic. What the records say is in model/entry.py.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from reconciler.errors import ClusterUnreachable, JournalUnavailable
from reconciler.journal import entry
from reconciler.journal.entry import Author, JournalEntry, PurgeClock
from reconciler.kafka import connect
from reconciler.kafka.connect import Connection
from reconciler.kafka.futures import Deadline, reason_of, wait_all
from reconciler.kafka.topics import cleanup_policies
from reconciler.model.action import Action
from reconciler.model.names import Address
from reconciler.model.names import TopicPartition as Partition
from reconciler.model.outcome import Outcome
from reconciler.model.snapshot import Unknown

UNKNOWN = Author()
_POLL_S = 0.2


class TopicJournal:
    """`model.ports.Journal` in one topic. Safe between threads; several runs may share the topic.

    Raises JournalUnavailable where the topic is missing, was made anew, or cannot be read to its end or written with the
    acknowledgement of all in-sync replicas.
    """

    def __init__(self, connection: Connection, topic: str, *, author: Author = UNKNOWN) -> None:
        self._connection = connection
        self._topic = topic
        self._author = author
        self._lock = Lock()
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None
        self._topic_id: str | None = None
        self._clock = PurgeClock()
        self._read_to: dict[int, int] = {}

    def record_intents(self, actions: Sequence[Action], *, run_id: str, plan_digest: str, at_ms: int) -> None:
        self._store(entry.intents(actions, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms, author=self._author))

    def record(self, outcomes: Sequence[Outcome], *, run_id: str, plan_digest: str, at_ms: int) -> None:
        self._store(entry.outcomes(outcomes, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms, author=self._author))

    def last_purges(self, *, but_of: str | None = None) -> Mapping[Partition, int]:
        """Reads what was stored since it was last asked: a loop may ask before every batch."""
        with self._lock:
            self._clock.update(self._read(self._read_to))
            return self._clock.last_purges(but_of=but_of)

    def entries(self, wanted: Callable[[Address], bool] = lambda _address: True) -> Iterator[JournalEntry]:
        """Oldest first, of the addresses wanted."""
        return (each for each in self._read({}) if wanted(each.address))

    def unfinished(self, plan_digest: str) -> Mapping[Address, JournalEntry]:
        """What runs of that plan had begun and never ended, by address."""
        return entry.open_intents(self.entries(), plan_digest)

    def _store(self, entries: Sequence[JournalEntry]) -> None:
        if not entries:
            return
        failed: list[KafkaError] = []
        with self._lock:
            # A producer makes a missing topic where the brokers allow it, and no setting of the client forbids it.
            try:
                self._partitions()
                producer = self._opened()
                for each in entries:
                    _produce(producer, self._topic, each, failed)
                left = producer.flush(self._connection.timeout_s)
            except (KafkaException, BufferError) as refused:
                raise self._unavailable("written", reason_of(refused)) from None
            except ClusterUnreachable as unopened:
                raise self._unavailable("written", str(unopened)) from None
            if failed or left:
                # What is still under way may arrive: an intent too many is harmless, a request without one is not.
                self._producer = None
                raise self._unavailable("written", failed[0].str() if failed else "no acknowledgement in time")

    def _opened(self) -> Producer:
        if self._producer is None:
            self._producer = connect.producer(
                self._connection,
                {
                    "acks": "all",
                    "enable.idempotence": True,
                    "linger.ms": 5,
                    "message.timeout.ms": max(1_000, int(self._connection.timeout_s * 1000)),
                },
            )
        return self._producer

    def _partitions(self) -> tuple[int, ...]:
        client = self._admin = self._admin or connect.admin(self._connection)
        deadline = Deadline.after(self._connection.timeout_s)
        described = client.describe_topics(
            TopicCollection([self._topic]), request_timeout=max(0.1, deadline.left_s * 0.9)
        )
        answer = described[self._topic]
        wait_all(client, (answer,), deadline)
        if not answer.done():
            raise self._unavailable("read", "no broker described it in time")
        failure = answer.exception()
        if failure is not None:
            error = failure.args[0] if isinstance(failure, KafkaException) else None
            if isinstance(error, KafkaError) and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise JournalUnavailable(
                    f"the journal topic {self._topic} does not exist, and nothing makes it by accident: "
                    f"{create_command(self._topic)}, with --bootstrap-server"
                )
            raise self._unavailable("read", reason_of(failure))
        found = answer.result()
        topic_id = str(found.topic_id)
        if self._topic_id is None:
            self._refuse_compaction()
        elif topic_id != self._topic_id:
            raise self._unavailable("trusted", "it was deleted and made again while it was in use")
        self._topic_id = topic_id
        return tuple(partition.id for partition in found.partitions)

    def _refuse_compaction(self) -> None:
        """A topic made by hand may be compacted: of an intent and its outcome the outcome would be left, and the purge forgotten. Who may
        not see the policy goes on without.
        """
        found = cleanup_policies(self._connection, [self._topic])[self._topic]
        if not isinstance(found, Unknown) and found != {"delete"}:
            raise self._unavailable(
                "trusted",
                f"its cleanup.policy is {','.join(sorted(found)) or 'empty'}, which forgets entries: set it to delete",
            )

    def _read(self, read_to: dict[int, int]) -> Iterator[JournalEntry]:
        """Entries after `read_to` (partition → offset, moved on) up to the end of now, in the order of their times."""
        try:
            partitions = self._partitions()
            deadline = Deadline.after(self._connection.timeout_s)
            consumer = connect.consumer(self._connection, {"isolation.level": "read_uncommitted"})
        except ClusterUnreachable as unopened:
            raise self._unavailable("read", str(unopened)) from None
        try:
            ends = {number: self._span(consumer, number, read_to, deadline) for number in partitions}
            open_ones = {number for number, (start, end) in ends.items() if start < end}
            consumer.assign([TopicPartition(self._topic, number, ends[number][0]) for number in open_ones])
            found: list[JournalEntry] = []
            while open_ones:
                messages = consumer.consume(1_000, timeout=_POLL_S)
                if messages:
                    deadline = Deadline.after(self._connection.timeout_s)
                elif deadline.over:
                    raise self._unavailable("read", "its leader did not answer in time")
                for message in messages:
                    found += self._taken(message, ends, open_ones)
        except KafkaException as failure:
            raise self._unavailable("read", reason_of(failure)) from None
        finally:
            consumer.close()
        read_to.update({number: end for number, (_start, end) in ends.items()})
        yield from sorted(found, key=lambda each: each.at_ms)

    def _span(self, consumer: Consumer, number: int, read_to: Mapping[int, int], deadline: Deadline) -> tuple[int, int]:
        at = TopicPartition(self._topic, number)
        low, high = consumer.get_watermark_offsets(at, timeout=max(0.1, deadline.left_s))
        if low < 0 or high < 0:
            raise self._unavailable("read", "its leader did not answer in time")
        return max(low, read_to.get(number, 0)), high

    def _taken(self, message: Message, ends: Mapping[int, tuple[int, int]], open_ones: set[int]) -> list[JournalEntry]:
        error = message.error()
        number = message.partition()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            # The end that whoever answered knows of: a leader of a moment ago may not have heard of all yet.
            if number is not None and (message.offset() or 0) >= ends[number][1]:
                open_ones.discard(number)
            return []
        offset, value = message.offset(), message.value()
        assert number is not None
        assert offset is not None
        if offset + 1 >= ends[number][1]:
            open_ones.discard(number)
        if offset >= ends[number][1] or value is None:
            return []
        try:
            return [entry.parse(value)]
        except ValueError as broken:
            raise self._unavailable("trusted", f"record {offset} of partition {number} is {broken}") from None

    def _unavailable(self, what: str, why: str) -> JournalUnavailable:
        return JournalUnavailable(
            f"the journal topic {self._topic} cannot be {what}: {why}; nothing is sent without its intent"
        )


def create_command(topic: str) -> str:
    """A command of Kafka's own that makes the topic as `create_topic` does."""
    return (
        f"kafka-topics --create --topic {topic} --partitions 1 --config cleanup.policy=delete --config retention.ms=-1"
    )


def create_topic(connection: Connection, topic: str, *, retention_ms: int, replication: int = -1) -> None:
    """Make the journal's topic, on purpose: one partition, never compacted. One that exists already stays as it is.

    `retention_ms`: at least the longest `every` of the manifests, -1: for ever. `replication` -1: the brokers' default. Raises
    JournalUnavailable.
    """
    client = connect.admin(connection)
    configs = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
    wanted = NewTopic(topic, num_partitions=1, replication_factor=replication, config=configs)
    deadline = Deadline.after(connection.timeout_s)
    answer: Any = client.create_topics([wanted], request_timeout=max(0.1, deadline.left_s * 0.9))[topic]
    wait_all(client, (answer,), deadline)
    failure = answer.exception() if answer.done() else TimeoutError("no answer in time")
    if failure is None:
        return
    error = failure.args[0] if isinstance(failure, KafkaException) else None
    if not (isinstance(error, KafkaError) and error.code() == KafkaError.TOPIC_ALREADY_EXISTS):
        raise JournalUnavailable(f"the journal topic {topic} could not be made: {reason_of(failure)}")


def _produce(producer: Producer, topic: str, each: JournalEntry, failed: list[KafkaError]) -> None:
    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    key, value = str(each.address).encode(), entry.dump(each).encode("ascii")
    while True:
        with contextlib.suppress(BufferError):
            producer.produce(topic, value, key, on_delivery=delivered)
            return
        producer.poll(_POLL_S)
