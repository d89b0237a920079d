"""Kafka client calls that only tests make.

They delete topics, read committed offsets and all records, hold a transaction open, and join share groups.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)

from reconciler.companions.sandbox.client import (
    DebugLogger,
    admin_client,
    broker_metadata,
    consumer_properties,
    producer_properties,
    wait_until,
)
from reconciler.kafka.connect import Connection
from reconciler.kafka.groups import read_consumers
from reconciler.kafka.session import KafkaSession

_LIMIT_S = 60


def delete_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Delete topics, then wait until no broker's metadata shows them. Raises KafkaException."""
    admin = admin_client(bootstrap)  # a reference: the futures of a collected client fail
    for future in admin.delete_topics(list(names), operation_timeout=30).values():
        future.result(timeout=_LIMIT_S)
    for server in bootstrap.split(","):
        wait_until(
            lambda server=server: not set(names) & set(broker_metadata(server, timeout_s=5).topics),  # type: ignore[misc]
            _LIMIT_S,
            f"{', '.join(names)} gone from the metadata of {server}",
        )


def committed_offsets(
    bootstrap: str, group: str, partitions: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], int | None]:
    """Committed offsets of a group; None where the group has none on a partition."""
    consumer = Consumer(consumer_properties(bootstrap, group), logger=DebugLogger())
    try:
        results = consumer.committed([TopicPartition(*partition) for partition in partitions], timeout=_LIMIT_S)
    finally:
        consumer.close()
    for result in results:
        if result.error is not None:
            raise KafkaException(result.error)
    return {(result.topic, result.partition): result.offset if result.offset >= 0 else None for result in results}


def read_to_end(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> Iterator[Message]:
    """Yield the records of a topic up to the present end of each partition; none if there is no such topic."""
    properties = {"isolation.level": isolation, "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Consumer(consumer_properties(bootstrap, "-") | properties, logger=DebugLogger())
    try:
        unfinished = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in unfinished])
        while unfinished:
            for message in consumer.consume(10_000, 0.5):
                if (error := message.error()) is None:
                    yield message
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    unfinished.discard(message.partition())
    finally:
        consumer.close()


def begin_transaction(bootstrap: str, name: str) -> Producer:
    """Begin a transaction, which Kafka aborts after ten minutes."""
    properties = producer_properties(bootstrap) | {"transactional.id": name, "transaction.timeout.ms": 600_000}
    producer = Producer(properties, logger=DebugLogger())
    producer.init_transactions(_LIMIT_S)
    producer.begin_transaction()
    return producer


@contextmanager
def open_transaction(bootstrap: str, topic: str, *, timestamp_ms: int = 0) -> Iterator[None]:
    """Hold a transaction with one record in partition 0 open during the block, then abort it.

    Meanwhile the last stable offset stays at that record, below the high watermark.
    """
    producer = begin_transaction(bootstrap, f"tx-{topic}")
    try:
        producer.produce(topic, b"undecided", partition=0, timestamp=timestamp_ms)
        if producer.flush(_LIMIT_S):
            raise TimeoutError(f"an open transaction on {topic} was not acknowledged within {_LIMIT_S} s")
        yield
    finally:
        producer.abort_transaction(_LIMIT_S)


@contextmanager
def pending_commit(bootstrap: str, group: str, topic: str, *offsets: int, commits: bool = False) -> Iterator[None]:
    """Hold a transaction open during the block, then abort or commit it.

    `offsets`: what it commits of each partition, from 0 on.
    """
    producer = begin_transaction(bootstrap, f"commit-{group}")
    try:
        consumer = Consumer(consumer_properties(bootstrap, group), logger=DebugLogger())
        try:
            at = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
            producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), _LIMIT_S)
        finally:
            consumer.close()
        yield
    finally:
        (producer.commit_transaction if commits else producer.abort_transaction)(_LIMIT_S)


@contextmanager
def share_member(bootstrap: str, group: str, topics: Sequence[str]) -> Iterator[None]:
    """Let a member of a share group subscribe to topics during the block; its group stays."""
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group}, logger=DebugLogger())
    session = KafkaSession(Connection(tuple(bootstrap.split(",")), timeout_s=20.0))
    try:
        consumer.subscribe(list(topics))

        def is_subscribed() -> bool:
            consumer.poll(0.2)
            read = read_consumers(session, (), log_starts={})
            return group in read.groups and (read.subscriptions.get(group) or frozenset()).issuperset(topics)

        wait_until(is_subscribed, 60, f"{group} to subscribe to {topics}")
        yield
    finally:
        consumer.close()
        session.close()


def remove_group(bootstrap: str, group: str) -> None:
    """Remove a group without members, a share group, too."""
    admin = admin_client(bootstrap)

    def remove() -> bool:
        try:
            admin.delete_consumer_groups([group])[group].result(30)
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND)
        return True

    wait_until(remove, 90, f"{group} to go")
