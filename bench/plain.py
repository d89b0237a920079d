"""The opponent of the warm scan: the same facts by the same librdkafka calls, in the same shape, in plain Python and nothing else.

Calls of 1,000 partitions, pipelined; hundreds of groups in flight; one consumer for the commit log, of which the newest time per
group is kept. No snapshot, no status per row, no retry, no deadline: what a script would do that trusts its cluster.
"""

import struct
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from bench.world import DAY_MS, LOG

_PER_CALL = 1_000
_NAMES_PER_CALL = 20
_IN_FLIGHT = 400
_SHORT = struct.Struct(">h")


def measured(servers: str, repeat: int) -> dict[str, list[float]]:
    """Seconds of each run after a first one, and of its parts."""
    found: dict[str, list[float]] = {"plain_s": [], "offsets_s": [], "commits_s": [], "log_s": []}
    for turn in range(repeat + 1):
        began = time.perf_counter()
        client = AdminClient({"bootstrap.servers": servers})
        topics = client.list_topics(timeout=60).topics
        names = [name for name in topics if name.startswith("bench-")]
        _describe(client, names)
        groups = _groups(client)
        listed = time.perf_counter()
        _offsets(client, [(name, number) for name in names for number in topics[name].partitions])
        offsets = time.perf_counter()
        _commits(client, groups)
        commits = time.perf_counter()
        _log(servers, sorted(topics[LOG].partitions))
        ended = time.perf_counter()
        if turn:
            found["plain_s"].append(ended - began)
            found["offsets_s"].append(offsets - listed)
            found["commits_s"].append(commits - offsets)
            found["log_s"].append(ended - commits)
    return found


def _describe(client: AdminClient, names: Sequence[str]) -> None:
    futures: list[Future[Any]] = []
    for part in _slices(names, _NAMES_PER_CALL):
        futures += client.describe_topics(TopicCollection(list(part))).values()
        futures += client.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in part]).values()
    for future in futures:
        future.result()


def _groups(client: AdminClient) -> list[str]:
    listing = client.list_consumer_groups()
    rights = client.describe_cluster(include_authorized_operations=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        client.list_groups(timeout=60)
    rights.result()
    return [group.group_id for group in listing.result().valid]


def _offsets(client: AdminClient, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], list[int]]:
    committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    found: dict[tuple[str, int], list[int]] = {}
    week_ago = OffsetSpec.for_timestamp(time.time_ns() // 1_000_000 - 7 * DAY_MS)
    ends = [(OffsetSpec.earliest(), uncommitted), (OffsetSpec.latest(), uncommitted), (OffsetSpec.latest(), committed)]
    for specs in (ends, [(week_ago, committed)]):
        futures: list[tuple[TopicPartition, Future[Any]]] = []
        for spec, isolation in specs:
            for part in _slices(partitions, _PER_CALL):
                request = {TopicPartition(*each): spec for each in part}
                futures += client.list_offsets(request, isolation_level=isolation).items()
        for partition, future in futures:
            found.setdefault((partition.topic, partition.partition), []).append(future.result().offset)
    return found


def _commits(client: AdminClient, groups: Sequence[str]) -> dict[str, list[tuple[str, int, int]]]:
    found: dict[str, list[tuple[str, int, int]]] = {}
    for part in _slices(groups, _IN_FLIGHT):
        futures: dict[str, Future[Any]] = {}
        for group in part:
            futures |= client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        for group, future in futures.items():
            found[group] = [(p.topic, p.partition, p.offset) for p in future.result().topic_partitions]
    return found


def _log(servers: str, numbers: Sequence[int]) -> dict[str, int]:
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
    consumer.assign([TopicPartition(LOG, number, 0) for number in numbers])
    newest: dict[str, int] = {}
    ended = 0
    while ended < len(numbers):
        for message in consumer.consume(10_000, 0.05):
            if message.error() is not None:
                ended += 1
                continue
            key = message.key()
            (size,) = _SHORT.unpack_from(key, 2)
            group = key[4 : 4 + size].decode()
            at = message.timestamp()[1]
            if at > newest.get(group, 0):
                newest[group] = at
    consumer.close()
    return newest


def _slices(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[begin : begin + size] for begin in range(0, len(items), size))
