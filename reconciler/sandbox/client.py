"""The other side of a cluster: topics, records, commits, members and transactions, for the sandbox and the tests.

Nothing from a manifest to a plan imports this module. Here are the writes that the reconciler itself must never make; every
wait is on a condition with a deadline, and the client's own log stays off the terminal.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from reconciler.sandbox.clients import Quiet, admin_client, consumer_properties, producer_properties, retrying

_LOG = logging.getLogger("reconciler.sandbox.client")
_SLICE_S = 0.05


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to be created: `partitions` counts them, or `assignment` lists each partition's replicas, preferred first."""

    name: str
    partitions: int = 1
    replication: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record to be produced; `timestamp_ms` 0 means now."""

    value: bytes
    key: bytes | None = None
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What the metadata says of one partition; `leader` is -1 while there is none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


def wait_until(predicate: Callable[[], bool], deadline_s: float, what: str, *, every_s: float = 0.1) -> None:
    """Return once `predicate()` holds. Raises TimeoutError naming `what` if it does not within `deadline_s` seconds."""
    deadline = time.monotonic() + deadline_s
    while not predicate():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(every_s)


def brokers_seen_by(bootstrap: str, *, timeout_s: float = 5) -> frozenset[int]:
    """Ids of the brokers in the metadata of whoever answers at `bootstrap`; empty if nobody does."""
    try:
        return frozenset(admin_client(bootstrap).list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return frozenset()


def create_topics(bootstrap: str, topics: Iterable[Topic], *, deadline_s: float = 30) -> None:
    """Create topics and wait until every broker's metadata has all their partitions with leaders. Raises KafkaException."""
    wanted = tuple(topics)
    admin = admin_client(bootstrap)
    for topic in wanted:
        retrying(lambda topic=topic: _create(admin, topic), deadline_s)  # type: ignore[misc]
    for server in bootstrap.split(","):
        for topic in wanted:
            count = topic.partitions if topic.assignment is None else len(topic.assignment)
            wait_until(
                lambda server=server, name=topic.name, count=count: _ready(server, name, count),  # type: ignore[misc]
                deadline_s,
                f"{count} partitions of {topic.name} with leaders in the metadata of {server}",
            )


def delete_topics(bootstrap: str, names: Sequence[str], *, deadline_s: float = 30) -> None:
    """Delete topics and wait until no broker's metadata has them. Raises KafkaException."""
    admin = admin_client(bootstrap)  # held: a client that is collected fails its futures
    for future in admin.delete_topics(list(names), operation_timeout=deadline_s).values():
        future.result(timeout=deadline_s)
    for server in bootstrap.split(","):
        wait_until(
            lambda server=server: not set(names) & set(admin_client(server).list_topics(timeout=5).topics),  # type: ignore[misc]
            deadline_s,
            f"{', '.join(names)} gone from the metadata of {server}",
        )


def partition_states(bootstrap: str, topic: str) -> dict[int, PartitionState]:
    """Leader and replicas of each partition of a topic; empty for a topic that is not there. Creates nothing."""
    found = admin_client(bootstrap).list_topics(timeout=10).topics.get(topic)
    if found is None:
        return {}
    return {
        number: PartitionState(partition.leader, tuple(partition.replicas), tuple(partition.isrs))
        for number, partition in found.partitions.items()
    }


def produce(
    bootstrap: str, topic: str, records: Mapping[int, Iterable[Record]], *, deadline_s: float = 60
) -> dict[int, int]:
    """Write records, by partition and in order, acknowledged by all replicas; answers the offset after the last per partition.

    Raises KafkaException if any was refused, TimeoutError if not all were acknowledged in time.
    """
    ends: dict[int, int] = {}
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error)
            return
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None:
            ends[partition] = max(ends.get(partition, 0), offset + 1)

    producer = Producer(producer_properties(bootstrap), logger=Quiet())
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
                        on_delivery=delivered,
                    )
                    break
                except BufferError:
                    producer.poll(_SLICE_S)
    left = producer.flush(deadline_s)
    if refused:
        raise KafkaException(refused[0])
    if left:
        raise TimeoutError(f"{left} records of {topic} were not acknowledged within {deadline_s:.0f} s")
    return ends


def commit(
    bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int], *, metadata: str = "", deadline_s: float = 30
) -> None:
    """Commit positions as a consumer does that assigns partitions itself: the group is EMPTY before, while and after.

    Raises KafkaException for a refused partition, for example a group that has members.
    """
    consumer = Consumer(consumer_properties(bootstrap, group), logger=Quiet())
    try:
        retrying(lambda: _commit(consumer, offsets, metadata), deadline_s)
    finally:
        consumer.close()


def committed(
    bootstrap: str, group: str, partitions: Iterable[tuple[str, int]], *, deadline_s: float = 30
) -> dict[tuple[str, int], int | None]:
    """Committed positions; None where the group has none on a partition."""
    consumer = Consumer(consumer_properties(bootstrap, group), logger=Quiet())
    try:
        answers = consumer.committed([TopicPartition(*each) for each in partitions], timeout=deadline_s)
    finally:
        consumer.close()
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return {(each.topic, each.partition): each.offset if each.offset >= 0 else None for each in answers}


@contextmanager
def member(
    bootstrap: str,
    group: str,
    topics: Sequence[str],
    *,
    deadline_s: float = 60,
    properties: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """A live consumer in `group`, polling in a thread and committing what it read, from before the block to its end."""
    consumer = Consumer(
        consumer_properties(bootstrap, group)
        | {"enable.auto.commit": True, "auto.commit.interval.ms": 500, "auto.offset.reset": "earliest"}
        | dict(properties or {}),
        logger=Quiet(),
    )
    assigned, leave = threading.Event(), threading.Event()

    def run() -> None:
        consumer.subscribe(list(topics), on_assign=lambda *_: assigned.set())
        while not leave.is_set():
            consumer.poll(_SLICE_S)
        consumer.close()

    thread = threading.Thread(target=run, name=f"member-{group}", daemon=True)
    thread.start()
    try:
        if not assigned.wait(deadline_s):
            raise TimeoutError(f"a member of {group} was assigned nothing within {deadline_s:.0f} s")
        yield
    finally:
        leave.set()
        thread.join(deadline_s)


@contextmanager
def standalone_committer(
    bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int], *, every_s: float = 1.0
) -> Iterator[None]:
    """A worker that assigns partitions itself and commits the same positions again and again: EMPTY, and at work.

    The first commit is made before the block begins.
    """
    commit(bootstrap, group, offsets)
    leave = threading.Event()

    def run() -> None:
        consumer = Consumer(consumer_properties(bootstrap, group), logger=Quiet())
        while not leave.wait(every_s):
            try:
                _commit(consumer, offsets, "")
            except KafkaException as failure:
                # A broker may be away for a moment: that is what sandboxes are for.
                _LOG.debug("standalone_commit_failed group=%s reason=%s", group, failure)
        consumer.close()

    thread = threading.Thread(target=run, name=f"standalone-{group}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        leave.set()
        thread.join(30)


@contextmanager
def open_transaction(
    bootstrap: str, topic: str, partitions: Iterable[int], *, transactional_id: str, deadline_s: float = 60
) -> Iterator[None]:
    """One record per partition in a transaction that is open during the block and aborted after it.

    Meanwhile the last stable offset stays at that record, below the high watermark.
    """
    producer = Producer(
        producer_properties(bootstrap) | {"transactional.id": transactional_id, "transaction.timeout.ms": 600_000},
        logger=Quiet(),
    )
    producer.init_transactions(deadline_s)
    producer.begin_transaction()
    try:
        for partition in partitions:
            producer.produce(topic, b"undecided", partition=partition)
        if producer.flush(deadline_s):
            raise TimeoutError(f"an open transaction on {topic} was not acknowledged within {deadline_s:.0f} s")
        yield
    finally:
        producer.abort_transaction(deadline_s)


def watermarks(bootstrap: str, topic: str, partition: int, *, isolation: str = "read_uncommitted") -> tuple[int, int]:
    """(log start, high watermark) of a partition; with `read_committed` the second is the last stable offset."""
    consumer = Consumer(consumer_properties(bootstrap, "-") | {"isolation.level": isolation}, logger=Quiet())
    try:
        answer = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
    finally:
        consumer.close()
    if answer is None:
        raise TimeoutError(f"no watermarks of {topic}[{partition}] within 10 s")
    return int(answer[0]), int(answer[1])


def _create(admin: AdminClient, topic: Topic) -> None:
    new = (
        NewTopic(topic.name, topic.partitions, topic.replication, config=dict(topic.configs))
        if topic.assignment is None
        else NewTopic(
            topic.name,
            len(topic.assignment),
            replica_assignment=[list(replicas) for replicas in topic.assignment],
            config=dict(topic.configs),
        )
    )
    for future in admin.create_topics([new], operation_timeout=10).values():
        future.result(timeout=30)


def _ready(server: str, name: str, count: int) -> bool:
    partitions = partition_states(server, name)
    return len(partitions) == count and all(partition.leader >= 0 for partition in partitions.values())


def _commit(consumer: Consumer, offsets: Mapping[tuple[str, int], int], metadata: str) -> None:
    wanted = [TopicPartition(topic, partition, offset, metadata) for (topic, partition), offset in offsets.items()]
    for answer in consumer.commit(offsets=wanted, asynchronous=False) or []:
        if answer.error is not None:
            raise KafkaException(answer.error)
