"""The baseline of the warm scan: the same facts from the same librdkafka calls, in plain Python.

Requests have 1,000 partitions and are pipelined, hundreds of groups are in flight, and one consumer
reads `__consumer_offsets` and keeps the newest time per group. There is no snapshot, no error per row, no
retry and no deadline, as in a script that trusts its cluster.
"""

import struct
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from bench.clusters import batches
from bench.scan_cluster import CONSUMER_OFFSETS_LOG, DAY_MS

_PARTITIONS_PER_REQUEST = 1_000
_TOPICS_PER_REQUEST = 20
_GROUPS_IN_FLIGHT = 400
_SHORT = struct.Struct(">h")


def measure(servers: str, runs: int) -> dict[str, list[float]]:
    """Return the seconds of each run and its parts, without a first run."""
    seconds: dict[str, list[float]] = {"plain_s": [], "offsets_s": [], "commits_s": [], "log_s": []}
    for run in range(runs + 1):
        start = time.perf_counter()
        client = AdminClient({"bootstrap.servers": servers})
        topics = client.list_topics(timeout=60).topics
        names = [name for name in topics if name.startswith("bench-")]
        _describe_topics(client, names)
        groups = _list_groups(client)
        listings_end = time.perf_counter()
        _list_offsets(client, [(name, number) for name in names for number in topics[name].partitions])
        offsets_end = time.perf_counter()
        _list_commits(client, groups)
        commits_end = time.perf_counter()
        _read_log(servers, sorted(topics[CONSUMER_OFFSETS_LOG].partitions))
        end = time.perf_counter()
        if run:
            seconds["plain_s"].append(end - start)
            seconds["offsets_s"].append(offsets_end - listings_end)
            seconds["commits_s"].append(commits_end - offsets_end)
            seconds["log_s"].append(end - commits_end)
    return seconds


def _describe_topics(client: AdminClient, names: Sequence[str]) -> None:
    futures: list[Future[Any]] = []
    for batch in batches(names, _TOPICS_PER_REQUEST):
        futures += client.describe_topics(TopicCollection(batch)).values()
        futures += client.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in batch]).values()
    for future in futures:
        future.result()


def _list_groups(client: AdminClient) -> list[str]:
    listing = client.list_consumer_groups()
    permissions = client.describe_cluster(include_authorized_operations=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        client.list_groups(timeout=60)
    permissions.result()
    return [group.group_id for group in listing.result().valid]


def _list_offsets(client: AdminClient, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], list[int]]:
    committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    offsets: dict[tuple[str, int], list[int]] = {}
    week_ago = OffsetSpec.for_timestamp(time.time_ns() // 1_000_000 - 7 * DAY_MS)
    ends = [(OffsetSpec.earliest(), uncommitted), (OffsetSpec.latest(), uncommitted), (OffsetSpec.latest(), committed)]
    for specs in (ends, [(week_ago, committed)]):
        futures: list[tuple[TopicPartition, Future[Any]]] = []
        for spec, isolation in specs:
            for batch in batches(partitions, _PARTITIONS_PER_REQUEST):
                request = {TopicPartition(*key): spec for key in batch}
                futures += client.list_offsets(request, isolation_level=isolation).items()
        for partition, future in futures:
            offsets.setdefault((partition.topic, partition.partition), []).append(future.result().offset)
    return offsets


def _list_commits(client: AdminClient, groups: Sequence[str]) -> dict[str, list[tuple[str, int, int]]]:
    commits: dict[str, list[tuple[str, int, int]]] = {}
    for batch in batches(groups, _GROUPS_IN_FLIGHT):
        futures: dict[str, Future[Any]] = {}
        for group in batch:
            futures |= client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        for group, future in futures.items():
            commits[group] = [(p.topic, p.partition, p.offset) for p in future.result().topic_partitions]
    return commits


def _read_log(servers: str, numbers: Sequence[int]) -> dict[str, int]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "-",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "fetch.wait.max.ms": 100,
            "max.partition.fetch.bytes": 8 * 1024 * 1024,
            "queued.min.messages": 200_000,
        }
    )
    consumer.assign([TopicPartition(CONSUMER_OFFSETS_LOG, number, 0) for number in numbers])
    newest: dict[str, int] = {}
    partitions_read = 0
    while partitions_read < len(numbers):
        for message in consumer.consume(10_000, 0.05):
            if message.error() is not None:
                partitions_read += 1
                continue
            key = message.key()
            (size,) = _SHORT.unpack_from(key, 2)
            group = key[4 : 4 + size].decode()
            timestamp_ms = message.timestamp()[1]
            newest[group] = max(newest.get(group, 0), timestamp_ms)
    consumer.close()
    return newest
