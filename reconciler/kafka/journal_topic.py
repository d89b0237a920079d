"""Lines of the journal in a Kafka topic, which outlives the machine that ran the reconciler.

Decided here: a line counts as stored when all in-sync replicas have it, and only `create_topic`
creates the topic. What the lines say is decided in journal/entry.py.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import NewTopic

from reconciler.clock import wall_clock_ms
from reconciler.errors import ClusterUnreachable, JournalUnavailable
from reconciler.journal.journal import Line
from reconciler.kafka import connect
from reconciler.kafka.futures import failed_with, failure_of, reason_of, text_of, wait_all
from reconciler.kafka.offsets import find_by_time, read_ends
from reconciler.kafka.records import read_records
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import describe, list_topics, read_config_entries
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import LookupKind, RecordLookup, RecordStamp, Unknown
from reconciler.text.escape import NEXT
from reconciler.text.formatting import approximate_duration, count

_POLL_S = 0.2
_ENDLESS = 1 << 63
_PARTITION = 0
"""All lines go there, so that they have one order; earlier versions used all partitions."""
_STAMPS, _BY_BROKERS = "message.timestamp.type", "LogAppendTime"
_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", _STAMPS: _BY_BROKERS}
_REPLICAS = 3
_RISKS = {
    "cleanup.policy": "it forgets entries, and is not trusted",
    "retention.ms": "it forgets entries: runs that were interrupted, purges, and the history",
    "retention.bytes": "it forgets entries: runs that were interrupted, purges, and the history",
    _STAMPS: "no run notices that the clock of its machine is wrong, and `converge` and `watch` refuse it",
    "min.insync.replicas": "an entry may be on one broker only when its request goes out",
}
"""What another value of each config leads to."""


class JournalTopic:
    """`journal.LineStore` in one topic. Safe between threads; several runs may share the topic.

    Raises JournalUnavailable where the topic is missing, was deleted and created again, cannot be
    read to its end, or cannot be written with the acknowledgement of all in-sync replicas.
    """

    def __init__(self, session: KafkaSession, topic: str) -> None:
        self._session = session
        self._topic = topic
        self._lock = Lock()
        self._producer: Producer | None = None
        self._topic_id: str | Unknown | None = None
        self._retention_ms = -1

    def append(self, lines: Sequence[bytes]) -> int | None:
        delivered: list[tuple[KafkaError | None, Message]] = []
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
                        "compression.type": "zstd",
                        "message.timeout.ms": max(1_000, int(self._session.timeout_s * 1000)),
                    },
                )
                for line in lines:
                    while True:
                        with contextlib.suppress(BufferError):
                            self._producer.produce(
                                self._topic, line, partition=_PARTITION, on_delivery=lambda *of: delivered.append(of)
                            )
                            break
                        self._producer.poll(_POLL_S)
                unacknowledged = self._producer.flush(self._session.timeout_s)
            except (KafkaException, ClusterUnreachable) as error:
                raise self._unavailable("written", reason_of(error)) from None
            failures = [text_of(error) for error, _message in delivered if error is not None]
            if failures or unacknowledged:
                # Lines in flight may still arrive; an extra intent is harmless.
                self._producer = None
                raise self._unavailable("written", failures[0] if failures else "no acknowledgement in time")
        stamps = [message.timestamp() for _error, message in delivered]
        by_brokers = all(kind == TIMESTAMP_LOG_APPEND_TIME for kind, _time_ms in stamps)
        return max(time_ms for _kind, time_ms in stamps) if stamps and by_brokers else None

    def lines(self, *, since_ms: int = 0, containing: bytes = b"") -> Iterator[Line]:
        messages: list[Message] = []
        try:
            ends = read_ends(self._session, self._topic, self._partitions())
            self._check_retention(since_ms)
            since, ever = (RecordLookup(LookupKind.UNCOMMITTED, at_ms) for at_ms in (since_ms, 0))
            partitions = [TopicPartition(self._topic, number) for number in ends if since_ms > 0]
            # First from any time on: a broker may remove that segment between the two.
            found = find_by_time(self._session, [(at, ever) for at in partitions])
            found |= find_by_time(self._session, [(at, since) for at in partitions])
            unread = [answer.reason for answer in found.values() if isinstance(answer, Unknown)]
            # Where every record is older, none is read: the ends were read before. A search that finds none from any time
            # on proves nothing: it ends in a segment that DeleteRecords left to the brokers.
            nothing = {at: _ENDLESS if found[at, ever] else 0 for at in partitions}
            read_to = {
                at.partition: of.offset if isinstance(of := found[at, since], RecordStamp) else nothing[at]
                for at in partitions
            }
            errors = read_records(
                self._session, self._topic, ends, lambda _partition, records: messages.extend(records), read_to=read_to
            )
            unread += [error.reason for error in errors.values()]
        except (ClusterUnreachable, KafkaException) as error:
            raise self._unavailable("read", reason_of(error)) from None
        if unread:
            raise self._unavailable("read", unread[0])
        if len(ends) > 1:
            messages.sort(key=lambda message: message.timestamp()[1])
        for message in messages:
            value = message.value()
            if value is not None and containing in value:
                kind, time_ms = message.timestamp()
                location = f"record {message.offset()} of partition {message.partition()}"
                yield Line(value, location, time_ms if kind == TIMESTAMP_LOG_APPEND_TIME else None)

    def damaged(self, location: str, error: ValueError) -> JournalUnavailable:
        return self._unavailable("trusted", f"{location} is {error}: name another topic in spec.journal of the Cluster")

    def _partitions(self) -> tuple[int, ...]:
        """The topic's partitions, after a check that it is the topic of the last call.

        Refuses a compacted topic: compaction keeps only the last line of each action, so the
        journal would forget purges. Without the right to read the configs there is no check.
        """
        described = describe(self._session, [self._topic])[self._topic]
        if described is None:
            command = create_command(self._topic, brokers=len(list_topics(self._session).brokers))
            raise JournalUnavailable(
                f"the journal topic {self._topic} does not exist; no request is sent without its intent"
                f"{NEXT}create it with a broker's address as --bootstrap-server: {command}"
            )
        if isinstance(described, Unknown):
            raise self._unavailable("read", described.reason)
        facts, partitions = described
        if self._topic_id is None:
            configs = _read_configs(self._session, self._topic)
            configs = {} if isinstance(configs, Unknown) else configs
            if (policy := configs.get("cleanup.policy", "delete")) != "delete":
                reason = f"its cleanup.policy is {policy or 'empty'}, which forgets entries: set it to delete"
                raise self._unavailable("trusted", reason)
            self._retention_ms = int(configs.get("retention.ms", -1))
        elif facts.topic_id != self._topic_id:
            raise self._unavailable("trusted", "it was deleted and created again during the run")
        self._topic_id = facts.topic_id
        return tuple(partition.partition.partition for partition in partitions)

    def _check_retention(self, since_ms: int) -> None:
        """Refuse a topic that forgets entries of the time that is read."""
        age_ms = wall_clock_ms() - since_ms
        if since_ms > 0 and 0 <= self._retention_ms < age_ms:
            limit, needed = approximate_duration(self._retention_ms), approximate_duration(age_ms)
            reason = f"its retention.ms forgets entries after {limit}, and those of the last {needed} are needed: set it to -1"
            raise self._unavailable("trusted", reason)

    def _unavailable(self, verb: str, reason: str) -> JournalUnavailable:
        return JournalUnavailable(
            f"the journal topic {self._topic} cannot be {verb}: {reason}; no request is sent without its intent"
            f"{NEXT}see with `reconciler doctor` what is wrong with it"
        )


def create_command(topic: str, *, brokers: int = _REPLICAS) -> str:
    """Kafka's command for the journal's topic on a cluster of so many brokers."""
    replicas = min(brokers, _REPLICAS)
    configs = " ".join(f"--config {name}={value}" for name, value in _configs(replicas).items())
    return f"kafka-topics --create --topic {topic} --partitions 1 --replication-factor {replicas} {configs}"


def create_topic(session: KafkaSession, topic: str) -> bool:
    """Create the topic as `create_command` does. Return False if it existed, and stays as it is.

    Raises JournalUnavailable and ClusterUnreachable.
    """
    replicas = min(len(list_topics(session).brokers), _REPLICAS)
    request = NewTopic(topic, num_partitions=1, replication_factor=replicas, config=_configs(replicas))
    client = session.client("controller")
    deadline = session.deadline()
    answer: Future[Any] = client.create_topics([request], request_timeout=deadline.request_timeout_s)[topic]
    wait_all((client,), (answer,), deadline)
    failure = failure_of(answer)
    if failure is not None and not failed_with(answer, {KafkaError.TOPIC_ALREADY_EXISTS}):
        raise JournalUnavailable(f"the journal topic {topic} could not be created: {failure.reason}")
    return failure is None


def check_topic(session: KafkaSession, topic: str) -> Sequence[str] | Unknown | None:
    """Return a sentence for each way in which the topic may lose entries, or their time.

    None: there is no such topic. Rights: DESCRIBE and DESCRIBE_CONFIGS on the topic.
    """
    described = describe(session, [topic])[topic]
    configs = _read_configs(session, topic)
    if not isinstance(described, tuple):
        return described
    if isinstance(configs, Unknown):
        return configs
    (_facts, partitions), risks = described, []
    replicas = min((len(p.replicas) for p in partitions if not isinstance(p.replicas, Unknown)), default=0)
    enough = min(len(list_topics(session).brokers), _REPLICAS)
    if replicas < enough:
        lost = "its entries are lost with them" if replicas > 1 else "its entries are lost with it"
        risks.append(
            f"the journal {topic} has {count(replicas, 'replica')}, and {lost}: give it {enough} "
            "(kafka-reassign-partitions)"
        )
    in_sync = min((len(p.in_sync) for p in partitions if not isinstance(p.in_sync, Unknown)), default=0)
    least = configs.get("min.insync.replicas", "")
    if least.isdecimal() and in_sync < int(least):
        risks.append(
            f"the journal {topic} has {count(in_sync, 'replica')} in sync, and its min.insync.replicas is {least}, so no "
            "entry can be written: start the brokers of the others, or see their logs"
        )
    for name, value in _configs(replicas).items():
        present = configs.get(name, "unknown")
        if name == "min.insync.replicas" and present.isdecimal() and int(present) >= int(value):
            continue
        if present != value:
            risks.append(f"{name} of the journal {topic} is {present}, so {_RISKS[name]}: {_alter(topic, name, value)}")
    return risks


def check_stamps(session: KafkaSession, topic: str) -> None:
    """Raise JournalUnavailable for a topic whose records the brokers do not stamp.

    Without the right to read the config, the first entry that is stored tells.
    """
    configs = _read_configs(session, topic)
    present = _BY_BROKERS if isinstance(configs, Unknown) else configs.get(_STAMPS, _BY_BROKERS)
    if present != _BY_BROKERS:
        raise JournalUnavailable(
            f"the journal topic {topic} cannot be trusted: its {_STAMPS} is {present}, so a run without a review would not "
            f"notice that the clock of its machine is wrong: nothing was done; {_alter(topic, _STAMPS, _BY_BROKERS)}"
        )


def _read_configs(session: KafkaSession, topic: str) -> Mapping[str, str] | Unknown:
    entries = read_config_entries(session, [topic])[topic]
    return entries if isinstance(entries, Unknown) else {name: entry.value for name, entry in entries.items()}


def _alter(topic: str, name: str, value: str) -> str:
    return f"kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {name}={value}"


def _configs(replicas: int) -> Mapping[str, str]:
    return {**_CONFIGS, "min.insync.replicas": str(max(1, replicas - 1))}
