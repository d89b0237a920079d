"""Functions for both bench clusters: three brokers, topics in batches, and commits of many groups.

The content of the clusters is in `scan_cluster` and `apply_cluster`.
"""

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from reconciler.companions.sandbox.client import DebugLogger, admin_client, producer_properties, wait_until
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.model.progress import Progress

T = TypeVar("T")

TIMEOUT_S = 300
TimedRecord = tuple[str, int, int]
"""Topic, partition and timestamp in milliseconds."""

_REQUESTS_IN_FLIGHT = 400
_CLIENTS = 8


@contextmanager
def bench_brokers(
    name: str, *, heap_mib: int, properties: Mapping[str, str], progress: Progress
) -> Iterator[SandboxCluster]:
    """Run three brokers during the block; `__consumer_offsets` has fifty partitions, as by default."""
    shared = {
        "offsets.topic.num.partitions": "50",
        # Brokers map index files at full size: ten megabytes each is too much for 30,000 replicas.
        "log.index.size.max.bytes": "65536",
        "num.io.threads": "8",
    }
    properties = shared | dict(properties)
    with stopping(
        start(3, name=name, heap_mib=heap_mib, properties=properties, timeout_s=TIMEOUT_S, progress=progress),
        timeout_s=90,
    ) as cluster:
        yield cluster


def create_topics(servers: str, topics: Sequence[NewTopic], *, batch_size: int, progress: Progress) -> None:
    """Create topics in batches, then wait until every broker's metadata shows their leaders."""
    admin = admin_client(servers)
    created = 0
    for batch in batches(topics, batch_size):
        for future in admin.create_topics(batch, operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S).values():
            future.result()
        created += len(batch)
        progress(f"created {created:,} of {len(topics):,} topics")
    wait_for_leaders(servers, [topic.topic for topic in topics])


def batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    return (list(items[start : start + size]) for start in range(0, len(items), size))


def write_records(servers: str, records: Sequence[TimedRecord], properties: Mapping[str, Any]) -> None:
    """Write records with these properties of the producer, the first time or again.

    Brokers refuse some records while they create the logs. Raises RuntimeError if they do so for too long.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while records := _write_once(servers, records, properties):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(records)} records refused, such as one for {records[0][0]}")
        time.sleep(0.5)


def _write_once(servers: str, records: Sequence[TimedRecord], properties: Mapping[str, Any]) -> list[TimedRecord]:
    """Write records with a new client, and return the refused ones, the old ones first."""
    producer = Producer(producer_properties(servers) | dict(properties), logger=DebugLogger())
    refused: list[TimedRecord] = []
    for record in records:
        topic, partition, timestamp_ms = record

        def on_delivery(error: object, _message: object, record: TimedRecord = record) -> None:
            if error is not None:
                refused.append(record)

        try:
            producer.produce(topic, b"x", partition=partition, timestamp=timestamp_ms, on_delivery=on_delivery)
        except KafkaException:
            refused.append(record)
        producer.poll(0)
    if pending := producer.flush(TIMEOUT_S):
        raise RuntimeError(f"{pending} records not acknowledged")
    return sorted(refused)


def wait_for_leaders(servers: str, names: Iterable[str]) -> None:
    """Wait until every broker's metadata shows leaders of all partitions of these topics."""
    for server in servers.split(","):
        wait_until(
            lambda server=server: _has_leaders(server, names),  # type: ignore[misc]
            TIMEOUT_S,
            f"leaders of all topics in the metadata of {server}",
        )


def commit_offsets(
    servers: str, commits: Iterable[tuple[str, Sequence[TopicPartition]]], *, progress: Progress
) -> None:
    """Commit offsets for pairs of group and partitions, with hundreds of requests in flight."""
    # A broker answers the commits of one connection one after the other.
    clients = itertools.cycle([admin_client(servers) for _ in range(_CLIENTS)])
    pending: list[tuple[str, Sequence[TopicPartition], Future[Any]]] = []
    completed = 0

    def complete_pending(*, down_to: int) -> None:
        nonlocal completed
        while len(pending) > down_to:
            group, partitions, future = pending.pop(0)
            if not _succeeded(future):
                # The coordinator is new and not ready yet.
                time.sleep(0.2)
                pending.append((group, partitions, _commit(next(clients), group, partitions)))
                continue
            completed += 1
            if completed % 5_000 == 0:
                progress(f"wrote the commits of {completed:,} groups")

    for group, partitions in commits:
        pending.append((group, partitions, _commit(next(clients), group, partitions)))
        complete_pending(down_to=_REQUESTS_IN_FLIGHT)
    complete_pending(down_to=0)


def _commit(admin: AdminClient, group: str, partitions: Sequence[TopicPartition]) -> "Future[Any]":
    request = [ConsumerGroupTopicPartitions(group, list(partitions))]
    future: Future[Any]
    (future,) = admin.alter_consumer_group_offsets(request, request_timeout=60).values()
    return future


def _succeeded(future: "Future[Any]") -> bool:
    try:
        result = future.result(TIMEOUT_S)
    except KafkaException:
        return False
    return not any(partition.error for partition in result.topic_partitions)


def _has_leaders(server: str, names: Iterable[str]) -> bool:
    topics = admin_client(server).list_topics(timeout=60).topics
    return all(
        name in topics
        and topics[name].partitions
        and all(partition.leader >= 0 for partition in topics[name].partitions.values())
        for name in names
    )
