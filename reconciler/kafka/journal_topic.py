"""Lines of the journal in a Kafka topic, which outlives the machine that ran the reconciler.

Decided here: a line counts as stored when all in-sync replicas have it, and only `create_topic`
creates the topic. What the lines say is decided in journal/journal.py.
"""

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import NewTopic

from reconciler.errors import ClusterUnreachable, JournalUnavailable
from reconciler.journal.journal import Line
from reconciler.kafka import connect
from reconciler.kafka.futures import code_of, reason_of, wait_all
from reconciler.kafka.offsets import read_ends, read_records
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import cleanup_policies, describe
from reconciler.model.snapshot import Unknown

_POLL_S = 0.2
_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1"}


class JournalTopic:
    """`journal.LineStore` in one topic. Safe between threads; several runs may share the topic.

    Raises JournalUnavailable where the topic is missing, was deleted and created again, cannot be
    read to its end, or cannot be written with the acknowledgement of all in-sync replicas.
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
        errors: list[KafkaError | None] = []
        with self._lock:
            try:
                # A producer creates a missing topic; no client setting forbids it.
                self._partitions()
                self._producer = self._producer or connect.create(
                    Producer,
                    self._session.connection,
                    {
                        "acks": "all",
                        "enable.idempotence": True,
                        "linger.ms": 5,
                        "message.timeout.ms": max(1_000, int(self._session.timeout_s * 1000)),
                    },
                )
                for key, line in lines:
                    while True:
                        with contextlib.suppress(BufferError):
                            self._producer.produce(
                                self._topic, line, key.encode(), on_delivery=lambda error, _: errors.append(error)
                            )
                            break
                        self._producer.poll(_POLL_S)
                unacknowledged = self._producer.flush(self._session.timeout_s)
            except (KafkaException, ClusterUnreachable) as error:
                raise self._unavailable("written", reason_of(error)) from None
            failures = [error.str() for error in errors if error is not None]
            if failures or unacknowledged:
                # Lines in flight may still arrive; an extra intent is harmless.
                self._producer = None
                raise self._unavailable("written", failures[0] if failures else "no acknowledgement in time")

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

    def _partitions(self) -> tuple[int, ...]:
        """The topic's partitions, after a check that it is the topic of the last call.

        Refuses a compacted topic: compaction keeps only the last line of each action, so the
        journal would forget purges. Without the right to read the policy there is no check.
        """
        described = describe(self._session, [self._topic])[self._topic]
        if described is None:
            raise JournalUnavailable(
                f"the journal topic {self._topic} does not exist, and nothing creates it by accident: "
                f"{create_command(self._topic)}, with --bootstrap-server"
            )
        if isinstance(described, Unknown):
            raise self._unavailable("read", described.reason)
        facts, partitions = described
        if self._topic_id is None:
            policies = cleanup_policies(self._session, [self._topic])[self._topic]
            if not isinstance(policies, Unknown) and policies != {"delete"}:
                policy = ",".join(sorted(policies)) or "empty"
                reason = f"its cleanup.policy is {policy}, which forgets entries: set it to delete"
                raise self._unavailable("trusted", reason)
        elif facts.topic_id != self._topic_id:
            raise self._unavailable("trusted", "it was deleted and created again during the run")
        self._topic_id = facts.topic_id
        return tuple(partition.partition.partition for partition in partitions)

    def _read(self, read_to: dict[int, int]) -> Iterator[Line]:
        """Lines after `read_to` (offset by partition, updated) up to the current ends."""
        lines: list[Line] = []

        def add(message: Message) -> None:
            if (value := message.value()) is not None:
                lines.append((value, f"record {message.offset()} of partition {message.partition()}"))

        try:
            ends = read_ends(self._session, self._topic, self._partitions())
            errors = read_records(self._session, self._topic, ends, add, read_to=read_to)
        except (ClusterUnreachable, KafkaException) as error:
            raise self._unavailable("read", reason_of(error)) from None
        if errors:
            raise self._unavailable("read", next(iter(errors.values())))
        for number, watermarks in ends.items():
            assert isinstance(watermarks.high_watermark, int)
            read_to[number] = watermarks.high_watermark
        yield from lines

    def _unavailable(self, verb: str, reason: str) -> JournalUnavailable:
        return JournalUnavailable(
            f"the journal topic {self._topic} cannot be {verb}: {reason}; no request is sent without its intent"
        )


def create_command(topic: str) -> str:
    """Kafka's command for the journal's topic: one partition, no compaction, endless retention."""
    configs = " ".join(f"--config {name}={value}" for name, value in _CONFIGS.items())
    return f"kafka-topics --create --topic {topic} --partitions 1 {configs}"


def create_topic(session: KafkaSession, topic: str) -> None:
    """Create the topic as `create_command` does, unless it exists. Raises JournalUnavailable."""
    request = NewTopic(topic, num_partitions=1, config=_CONFIGS)
    client = session.client("controller")
    deadline = session.deadline()
    answer: Future[Any] = client.create_topics([request], request_timeout=deadline.request_timeout_s)[topic]
    wait_all(client, (answer,), deadline)
    error = answer.exception() if answer.done() else TimeoutError("no answer in time")
    if error is not None and code_of(error) != KafkaError.TOPIC_ALREADY_EXISTS:
        raise JournalUnavailable(f"the journal topic {topic} could not be created: {reason_of(error)}")
