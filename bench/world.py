"""A cluster to measure on: real brokers, topics with an old and a new record per partition, groups with commits, a long commit log.

Every record of the commit log is written by a broker that answered an OffsetCommit. One replica each: questions about offsets and
commits go to leaders only, and 30,000 partitions three times are more files than one machine likes to hold open.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from reconciler.sandbox import client
from reconciler.sandbox.client import DebugLogger, admin_client, producer_properties
from reconciler.sandbox.cluster import Cluster, start, stop

PARTITIONS_PER_TOPIC = 50
COMMITS_PER_GROUP = 50
RECORDS_PER_PARTITION = 2
DAY_MS = 86_400_000
LOG = "__consumer_offsets"
FIRST = "first-commit"
"""The topic and the group of the first commit."""
Say = Callable[[str], None]

_TOPICS_PER_CALL = 20
_IN_FLIGHT = 400
_LIMIT_S = 300
_TOPICS_AT_ONCE = 50


@dataclass(slots=True)
class World:
    """A cluster, and how far it is built."""

    cluster: Cluster
    say: Say
    topics: int = 0
    groups: int = 0
    homes: int = 0
    """Topics that the groups commit on; they stay there when more topics come."""

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def partitions(self) -> int:
        return self.topics * PARTITIONS_PER_TOPIC

    def make_commit_log(self) -> None:
        """It comes to be with the first commit; until all its partitions are led, coordinators move."""
        client.create_topics(self.servers, [client.Topic(FIRST, replication=1)])
        client.commit(self.servers, FIRST, {(FIRST, 0): 0}, deadline_s=60)
        for server in self.servers.split(","):
            client.wait_until(partial(_led, server, [LOG]), 60, f"the commit log in the metadata of {server}")

    def grow_topics(self, partitions: int) -> None:
        """Until there are so many partitions, each with a record of ten days ago and one of now."""
        wanted = partitions // PARTITIONS_PER_TOPIC
        names = [topic(number) for number in range(self.topics, wanted)]
        admin = admin_client(self.servers)
        for begin in range(0, len(names), _TOPICS_PER_CALL):
            new = [NewTopic(name, PARTITIONS_PER_TOPIC, 1) for name in names[begin : begin + _TOPICS_PER_CALL]]
            for future in admin.create_topics(new, operation_timeout=_LIMIT_S, request_timeout=_LIMIT_S).values():
                future.result()
            self.say(f"made {begin + len(new):,} of {len(names):,} topics of {PARTITIONS_PER_TOPIC} partitions")
        for server in self.servers.split(","):
            client.wait_until(
                partial(_led, server, names), _LIMIT_S, f"leaders of all topics in the metadata of {server}"
            )
        _produce(self.servers, names)
        self.topics = wanted

    def grow_groups(self, groups: int) -> None:
        """Until so many groups have committed on every partition of one topic each."""
        self.homes = self.homes or self.topics
        self._commit(range(self.groups, groups), 1)
        self.groups = groups

    def grow_log(self, records: int) -> None:
        """Until the commit log holds so many records: all groups commit again and again, as live ones do."""
        left = records - log_records(self.servers)
        while left > 0:
            per_round = self.groups * COMMITS_PER_GROUP
            rounds = max(1, min(4, left // per_round))
            self._commit(range(self.groups), rounds)
            left = records - log_records(self.servers)
            self.say(f"the commit log holds {records - left:,} records")

    def _commit(self, groups: Sequence[int], rounds: int) -> None:
        admin = admin_client(self.servers)
        waiting: list[tuple[int, Future[Any]]] = []
        done = 0

        def settle(down_to: int) -> None:
            nonlocal done
            while len(waiting) > down_to:
                number, future = waiting.pop(0)
                try:
                    future.result(_LIMIT_S)
                except KafkaException:
                    # A coordinator that only just became one.
                    time.sleep(0.2)
                    waiting.append((number, self._ask(admin, number)))
                    continue
                done += 1
                if done % 5_000 == 0:
                    self.say(f"{done:,} of {len(groups) * rounds:,} groups' commits written")

        for _ in range(rounds):
            for number in groups:
                waiting.append((number, self._ask(admin, number)))
                settle(_IN_FLIGHT)
            settle(0)

    def _ask(self, admin: AdminClient, number: int) -> "Future[Any]":
        name = topic(number % self.homes)
        # A quarter of each topic's groups is one record behind on all of its partitions: readers that a plan has to name.
        offset = RECORDS_PER_PARTITION - (1 if number // self.homes % 4 == 0 else 0)
        commits = [TopicPartition(name, partition, offset) for partition in range(COMMITS_PER_GROUP)]
        request = [ConsumerGroupTopicPartitions(group(number), commits)]
        future: Future[Any]
        (future,) = admin.alter_consumer_group_offsets(request, request_timeout=30).values()
        return future


def topic(number: int) -> str:
    return f"bench-{number:04}"


def group(number: int) -> str:
    return f"bench-group-{number:05}"


@contextmanager
def world(*, heap_mib: int, say: Say) -> Iterator[World]:
    """Three brokers that end with the block. The commit log has fifty partitions, as by default, and is never compacted."""
    properties = {
        "offsets.topic.num.partitions": "50",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.segment.bytes": "1073741824",
        "default.replication.factor": "1",
        # Index files are mapped at full size; ten megabytes for two records is what 30,000 partitions do not forgive.
        "log.index.size.max.bytes": "65536",
        "num.io.threads": "8",
    }
    cluster = start(3, name="bench", heap_mib=heap_mib, properties=properties, progress=say)
    try:
        made = World(cluster, say)
        made.make_commit_log()
        yield made
    finally:
        stop(cluster, timeout_s=90)


def log_sizes(servers: str) -> dict[int, int]:
    """Offsets that each partition of the commit log spans."""
    partitions = sorted(client.partition_states(servers, LOG))
    ends = ((number, client.watermarks(servers, LOG, number)) for number in partitions)
    return {number: end - begin for number, (begin, end) in ends}


def log_records(servers: str) -> int:
    """Records of the commit log, by its offsets."""
    return sum(log_sizes(servers).values())


def _led(server: str, names: Sequence[str]) -> bool:
    topics = admin_client(server).list_topics(timeout=30).topics
    return all(
        name in topics and topics[name].partitions and all(p.leader >= 0 for p in topics[name].partitions.values())
        for name in names
    )


def _produce(servers: str, names: Sequence[str]) -> None:
    """Two records in each partition, the old one first. A few topics at a time: metadata of hundreds of new ones reach a client in parts, and
    what it once called unknown it does not ask for again soon.
    """
    now_ms = time.time_ns() // 1_000_000
    for begin in range(0, len(names), _TOPICS_AT_ONCE):
        wanted = [
            (name, partition, at_ms)
            for name in names[begin : begin + _TOPICS_AT_ONCE]
            for partition in range(PARTITIONS_PER_TOPIC)
            for at_ms in (now_ms - 10 * DAY_MS, now_ms)
        ]
        limit = time.monotonic() + _LIMIT_S
        while wanted := _refused(servers, wanted):
            if time.monotonic() > limit:
                raise RuntimeError(f"{len(wanted)} records refused, such as one for {wanted[0][0]}")
            time.sleep(0.5)


def _refused(servers: str, wanted: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """What of these (topic, partition, time) a new client could not write, in an order that puts old before new."""
    producer = Producer(producer_properties(servers) | {"linger.ms": 50}, logger=DebugLogger())
    refused: list[tuple[str, int, int]] = []
    for record in wanted:
        name, partition, at_ms = record

        def delivered(error: object, _message: object, record: tuple[str, int, int] = record) -> None:
            if error is not None:
                refused.append(record)

        try:
            producer.produce(name, b"x", partition=partition, timestamp=at_ms, on_delivery=delivered)
        except KafkaException:
            refused.append(record)
        producer.poll(0)
    if left := producer.flush(_LIMIT_S):
        raise RuntimeError(f"{left} records not acknowledged")
    return sorted(refused)
