"""Kafka client calls that prepare a sandbox: topics, records, committed offsets and live consumers.

These are writes that the reconciler itself must never make; only the demo, the tests and the
benches use them. Every wait has a condition and a deadline, and librdkafka's own log goes to the
debug log instead of the terminal.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from reconciler.kafka.connect import DebugLogger as DebugLogger

_LOG = logging.getLogger("reconciler.companions.sandbox.client")
_POLL_S = 0.05
_RETRY_PAUSE_S = 0.05
_TRANSIENT = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.INVALID_REPLICATION_FACTOR,  # fewer brokers are registered yet than replicas are needed
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,  # the library left a bootstrap server once it knew the brokers
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
    }
)
"""Errors that a cluster answers for a moment after its start, while leaders and coordinators move."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to create. `assignment`: each partition's replicas, the preferred one first, instead of numbers."""

    name: str
    partitions: int = 1
    replication: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record to produce; `timestamp_ms` 0 means now."""

    value: bytes
    key: bytes | None = None
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition in a broker's metadata; `leader` is -1 while there is none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


def admin_client(bootstrap: str) -> AdminClient:
    """Build an admin client. Keep a reference: the futures of a collected client fail."""
    return AdminClient({"bootstrap.servers": bootstrap, "error_cb": _log_error}, logger=DebugLogger())


def producer_properties(bootstrap: str) -> dict[str, Any]:
    """Properties of a producer: all replicas acknowledge, and no topic is created automatically."""
    return {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 5,
        "allow.auto.create.topics": False,
        "error_cb": _log_error,
    }


def consumer_properties(bootstrap: str, group: str) -> dict[str, Any]:
    """Properties of a consumer that commits only on request."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "session.timeout.ms": 10_000,
        "error_cb": _log_error,
    }


def wait_until(predicate: Callable[[], bool], deadline_s: float, what: str, *, every_s: float = 0.1) -> None:
    """Wait until `predicate()` holds. Raises TimeoutError with `what` after `deadline_s` seconds."""
    deadline = time.monotonic() + deadline_s
    while not predicate():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(every_s)


def broker_metadata(bootstrap: str, *, timeout_s: float = 10) -> ClusterMetadata:
    """Read the metadata of a broker whose address `bootstrap` names, and of no other.

    librdkafka leaves its bootstrap servers once it knows the brokers, and may ask any of them then: of
    300 new clients, each with the address of one of three brokers, 169 got the answer of another one.
    Raises KafkaException without an answer after `timeout_s`.
    """
    addresses = bootstrap.split(",")
    deadline = time.monotonic() + timeout_s
    while True:
        metadata = admin_client(bootstrap).list_topics(timeout=timeout_s)
        if metadata.orig_broker_name.rpartition("/")[0] in addresses:
            return metadata
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"only brokers other than {bootstrap} answered"))


def visible_brokers(bootstrap: str) -> frozenset[int]:
    """Ids of the brokers in the metadata that `bootstrap` answers; empty without an answer."""
    try:
        return frozenset(broker_metadata(bootstrap, timeout_s=5).brokers)
    except KafkaException:
        return frozenset()


def create_topics(bootstrap: str, topics: Collection[Topic], *, deadline_s: float = 30) -> None:
    """Create topics, then wait until every broker's metadata shows their partitions with leaders.

    Raises KafkaException for a topic that a broker refuses, TimeoutError after `deadline_s`.
    """
    topics = tuple(topics)
    admin = admin_client(bootstrap)
    for topic in topics:
        _create_topic(admin, topic, deadline_s)
    for server in bootstrap.split(","):
        what = f"all partitions of {', '.join(topic.name for topic in topics)} with leaders in the metadata of {server}"
        wait_until(partial(_have_leaders, server, topics), deadline_s, what)


def partition_states(bootstrap: str, topic: str) -> dict[int, PartitionState]:
    """Leader and replicas of each partition; empty for a topic that does not exist. Creates nothing."""
    metadata = broker_metadata(bootstrap).topics.get(topic)
    if metadata is None:
        return {}
    return {
        number: PartitionState(partition.leader, tuple(partition.replicas), tuple(partition.isrs))
        for number, partition in metadata.partitions.items()
    }


def watermarks(bootstrap: str, topic: str, partition: int, *, isolation: str = "read_uncommitted") -> tuple[int, int]:
    """Log start offset and high watermark of a partition; with `read_committed` the last stable offset."""
    consumer = Consumer(consumer_properties(bootstrap, "-") | {"isolation.level": isolation}, logger=DebugLogger())
    try:
        offsets = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
    finally:
        consumer.close()
    if offsets is None:
        raise TimeoutError(f"no watermarks of {topic}[{partition}] within 10 s")
    return int(offsets[0]), int(offsets[1])


def produce(
    bootstrap: str, topic: str, records: Mapping[int, Iterable[Record]], *, deadline_s: float = 60
) -> dict[int, int]:
    """Write records by partition, in order, and wait for the acknowledgement of all replicas.

    Returns, for each partition, the offset after its last record. Raises KafkaException for a
    refused record, TimeoutError if a record has no acknowledgement after `deadline_s`.
    """
    ends: dict[int, int] = {}
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
            return
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None:
            ends[partition] = max(ends.get(partition, 0), offset + 1)

    producer = Producer(producer_properties(bootstrap), logger=DebugLogger())
    for partition, batch in records.items():
        for record in batch:
            while True:
                try:
                    producer.produce(
                        topic,
                        record.value,
                        record.key,
                        partition=partition,
                        timestamp=record.timestamp_ms,
                        on_delivery=on_delivery,
                    )
                    break
                except BufferError:
                    producer.poll(_POLL_S)
    try:
        pending = producer.flush(deadline_s)
    except SystemError as error:  # Ctrl-C in a callback of the client, which loses it
        raise KeyboardInterrupt from error
    if errors:
        raise KafkaException(errors[0])
    if pending:
        raise TimeoutError(f"{pending} records of {topic} were not acknowledged within {deadline_s:.0f} s")
    return ends


def commit(
    bootstrap: str,
    group: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    had_members: bool = False,
    deadline_s: float = 30,
) -> None:
    """Commit offsets like a consumer that assigns partitions itself: the group stays EMPTY.

    `had_members`: after a member has joined the group and left it. Raises KafkaException for a refused
    partition, for example if the group has members.
    """
    if had_members:
        topics = sorted({topic for topic, _partition in offsets})
        with member(bootstrap, group, topics, properties={"enable.auto.commit": "false"}):
            pass
    consumer = Consumer(consumer_properties(bootstrap, group), logger=DebugLogger())
    try:
        _retry(lambda: _commit(consumer, offsets), deadline_s)
    finally:
        consumer.close()


@contextmanager
def member(
    bootstrap: str,
    group: str,
    topics: Sequence[str],
    *,
    deadline_s: float = 60,
    properties: Mapping[str, str | None] | None = None,
) -> Iterator[None]:
    """Run a live consumer of `group` during the block, in a thread that polls and commits.

    The block starts once the consumer has an assignment. `properties`: None removes a property.
    Raises TimeoutError if it gets no assignment within `deadline_s`.
    """
    configured = (
        consumer_properties(bootstrap, group)
        | {"enable.auto.commit": True, "auto.commit.interval.ms": 500, "auto.offset.reset": "earliest"}
        | dict(properties or {})
    )
    consumer = Consumer({name: value for name, value in configured.items() if value is not None}, logger=DebugLogger())
    assigned = threading.Event()

    def poll(leave: threading.Event) -> None:
        consumer.subscribe(list(topics), on_assign=lambda *_: assigned.set())
        while not leave.is_set():
            consumer.poll(_POLL_S)
        consumer.close()

    with run_in_background(poll, f"member-{group}"):
        if not assigned.wait(deadline_s):
            raise TimeoutError(f"a member of {group} got no assignment within {deadline_s:.0f} s")
        yield


@contextmanager
def standalone_committer(
    bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int], *, every_s: float = 1.0
) -> Iterator[None]:
    """Commit the same offsets again and again during the block, without joining the group.

    The group is EMPTY and still in use. The first commit is complete before the block starts.
    """
    commit(bootstrap, group, offsets)

    def repeat(leave: threading.Event) -> None:
        consumer = Consumer(consumer_properties(bootstrap, group), logger=DebugLogger())
        while not leave.wait(every_s):
            try:
                _commit(consumer, offsets)
            except KafkaException as error:
                # Tests stop brokers on purpose; the next commit may succeed again.
                _LOG.debug("standalone_commit_failed group=%s reason=%s", group, error)
        consumer.close()

    with run_in_background(repeat, f"standalone-{group}"):
        yield


@contextmanager
def run_in_background(work: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """Run `work` in a thread during the block. It has to return soon after its event is set."""
    leave = threading.Event()
    thread = threading.Thread(target=work, args=(leave,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        leave.set()
        thread.join(60)


def _retry(call: Callable[[], None], deadline_s: float) -> None:
    """Repeat a call while it raises a transient error, for at most `deadline_s` seconds."""
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() not in _TRANSIENT or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_PAUSE_S)


def _log_error(error: KafkaError) -> None:
    """Log librdkafka's background errors; the calls raise the ones that matter."""
    _LOG.debug("client_error=%s", error.name())


def _create_topic(admin: AdminClient, topic: Topic, deadline_s: float) -> None:
    config = dict(topic.configs)
    if topic.assignment is None:
        new_topic = NewTopic(topic.name, topic.partitions, topic.replication, config=config)
    else:
        replicas = [list(brokers) for brokers in topic.assignment]
        new_topic = NewTopic(topic.name, len(replicas), replica_assignment=replicas, config=config)
    attempts = 0

    def create() -> None:
        nonlocal attempts
        attempts += 1
        try:
            admin.create_topics([new_topic], operation_timeout=10)[topic.name].result(timeout=30)
        except KafkaException as error:
            # A broker may have carried out an earlier request whose answer was lost.
            if attempts == 1 or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    _retry(create, deadline_s)


def _have_leaders(server: str, topics: Collection[Topic]) -> bool:
    present = broker_metadata(server).topics
    for topic in topics:
        partitions = present[topic.name].partitions.values() if topic.name in present else ()
        count = topic.partitions if topic.assignment is None else len(topic.assignment)
        if len(partitions) != count or any(partition.leader < 0 for partition in partitions):
            return False
    return True


def _commit(consumer: Consumer, offsets: Mapping[tuple[str, int], int]) -> None:
    requested = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    for result in consumer.commit(offsets=requested, asynchronous=False) or []:
        if result.error is not None:
            raise KafkaException(result.error)
