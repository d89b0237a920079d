"""What an apply is measured on: topics with records, dead groups and misled leaders on real brokers, and the same state once more for
the next contender.

Records are not written again: a turn takes one more record from each partition. Groups are written again, replicas turned again.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from reconciler.sandbox import client
from reconciler.sandbox.client import DebugLogger, admin_client, producer_properties
from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.sandbox.tools import run_tool

Say = Callable[[str], None]
At = tuple[str, int]

TOPIC, DEAD, STAYS = "bench-apply-", "bench-dead-", "bench-stays-"
"""How names of topics begin, of groups that are removed, and of groups that stay."""
COMMITTED = "bench-committed"
COMMITS_PER_GROUP = 10
REPLICAS = 2
"""One to wait for. With three, ten thousand partitions are more files than a broker may open on a machine with usual limits."""

_TOPICS_PER_CALL = 50
_IN_FLIGHT = 500
_LIMIT_S = 300


@dataclass(slots=True)
class World:
    """`records`: of each partition. `turns`: how many of them it has lost. `preferred`: the order of each partition's replicas, as last written."""

    cluster: Cluster
    say: Say
    topics: Sequence[str]
    partitions: int
    records: int
    turns: int = 0
    preferred: dict[At, tuple[int, ...]] = field(default_factory=dict)

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def all(self) -> list[At]:
        return [(topic, number) for topic in self.topics for number in range(self.partitions)]

    def make(self) -> None:
        """Topics with explicit replicas, preferred leaders spread evenly, records in each partition."""
        for at, (topic, number) in enumerate(self.all):
            first = at % 3
            self.preferred[topic, number] = tuple((first + step) % 3 + 1 for step in range(REPLICAS))
        admin = admin_client(self.servers)
        names = self.topics
        for begin in range(0, len(names), _TOPICS_PER_CALL):
            new = []
            for name in names[begin : begin + _TOPICS_PER_CALL]:
                order = [list(self.preferred[name, number]) for number in range(self.partitions)]
                new.append(NewTopic(name, num_partitions=self.partitions, replica_assignment=order))
            for future in admin.create_topics(new, operation_timeout=_LIMIT_S, request_timeout=_LIMIT_S).values():
                future.result()
            self.say(f"made {begin + len(new):,} of {len(names):,} topics")
        for server in self.servers.split(","):
            client.wait_until(partial(self.led, server), _LIMIT_S, "leaders")
        _produce(self.servers, self.all, self.records)
        for server in self.servers.split(","):
            client.wait_until(partial(self.in_sync, server), _LIMIT_S, "all in sync", every_s=1.0)
        self.say(f"{self.records} records in each of {len(self.all):,} partitions")

    def make_commit_log(self) -> None:
        """It comes to be with the first commit."""
        client.create_topics(self.servers, [client.Topic(COMMITTED, COMMITS_PER_GROUP, REPLICAS)])
        client.commit(self.servers, COMMITTED, {(COMMITTED, 0): 0}, deadline_s=60)

    def dead_groups(self, names: Sequence[str]) -> None:
        """Groups that are EMPTY, with ten commits each."""
        # A broker answers one commit of a connection after the other.
        clients = itertools.cycle([admin_client(self.servers) for _ in range(8)])
        waiting: list[tuple[str, Future[Any]]] = []

        def settle(down_to: int) -> None:
            while len(waiting) > down_to:
                name, future = waiting.pop(0)
                try:
                    answer = future.result(_LIMIT_S)
                    refused = any(each.error for each in answer.topic_partitions)
                except KafkaException:
                    refused = True
                if refused:
                    # A coordinator that only just became one.
                    time.sleep(0.2)
                    waiting.append((name, _commit(next(clients), name)))

        for name in names:
            waiting.append((name, _commit(next(clients), name)))
            settle(_IN_FLIGHT)
        settle(0)

    def mislead(self, partitions: Sequence[At]) -> None:
        """Another order of the same replicas, so that the leader of now is not the preferred one. Waits until all brokers say so."""
        for at in partitions:
            self.preferred[at] = (*self.preferred[at][1:], self.preferred[at][0])
        rows = [{"topic": at[0], "partition": at[1], "replicas": list(self.preferred[at])} for at in partitions]
        path = self.cluster.dir / "turn.json"
        path.write_text(json.dumps({"version": 1, "partitions": rows}))
        answer = run_tool(
            self.cluster,
            "kafka-reassign-partitions",
            "--reassignment-json-file",
            str(path),
            "--execute",
            timeout_s=_LIMIT_S,
        )
        assert answer.returncode == 0, answer.stderr[-800:]
        client.wait_until(lambda: self.non_preferred(partitions) == len(partitions), _LIMIT_S, "another preference")
        for server in self.servers.split(","):
            client.wait_until(partial(self.in_sync, server), _LIMIT_S, "all in sync")

    def led(self, server: str) -> bool:
        return set(self.preferred) <= set(leaders(server))

    def in_sync(self, server: str) -> bool:
        shown = states(server)
        return all(at in shown and shown[at][2] == REPLICAS for at in self.preferred)

    def misled(self, partitions: Sequence[At]) -> int:
        """The fewest of these that any broker shows with the preferred order and another leader than its first."""
        counts = []
        for server in self.servers.split(","):
            shown = states(server)
            counts.append(
                sum(shown[at][1] == self.preferred[at] and shown[at][0] != self.preferred[at][0] for at in partitions)
            )
        return min(counts)


@contextmanager
def world(topics: int, partitions: int, records: int, *, heap_mib: int, say: Say) -> Iterator[World]:
    """Three brokers that end with the block; each topic has `REPLICAS` replicas, the commit log three."""
    properties = {
        "offsets.topic.num.partitions": "50",
        # Index files are mapped at full size; ten megabytes for a few records is what 30,000 replicas do not forgive.
        "log.index.size.max.bytes": "65536",
        "num.io.threads": "8",
        # Nothing but what is measured moves leaders.
        "auto.leader.rebalance.enable": "false",
    }
    cluster = start(3, name="bench-apply", heap_mib=heap_mib, properties=properties, progress=say)
    try:
        made = World(cluster, say, topic_names(topics), partitions, records)
        made.make_commit_log()
        yield made
    finally:
        stop(cluster, timeout_s=90)


def topic_names(topics: int) -> list[str]:
    return [f"{TOPIC}{number:04}" for number in range(topics)]


def states(server: str) -> dict[At, tuple[int, tuple[int, ...], int]]:
    """Leader, replicas and how many of them are in sync, of every partition, by one broker's metadata."""
    topics = admin_client(server).list_topics(timeout=60).topics
    return {
        (name, number): (partition.leader, tuple(partition.replicas), len(partition.isrs))
        for name, topic in topics.items()
        for number, partition in topic.partitions.items()
    }


def leaders(server: str) -> dict[At, int]:
    return {at: leader for at, (leader, _replicas, _in_sync) in states(server).items() if leader >= 0}


def log_starts(servers: str, partitions: Sequence[At]) -> dict[At, int]:
    """By the bare client, as the brokers say it: a JVM for each turn would take longer than most turns."""
    admin = admin_client(servers)
    request = {TopicPartition(*at): OffsetSpec.earliest() for at in partitions}
    answers = admin.list_offsets(request, request_timeout=_LIMIT_S)
    return {(at.topic, at.partition): int(answer.result().offset) for at, answer in answers.items()}


def batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


def _commit(admin: AdminClient, group: str) -> "Future[Any]":
    commits = [TopicPartition(COMMITTED, number, 0) for number in range(COMMITS_PER_GROUP)]
    request = [ConsumerGroupTopicPartitions(group, commits)]
    future: Future[Any]
    (future,) = admin.alter_consumer_group_offsets(request, request_timeout=60).values()
    return future


def _produce(servers: str, partitions: Sequence[At], count: int) -> None:
    """At least `count` records in each; what is refused while brokers still make their logs is written again."""
    refused: list[At] = []
    # The library sends a request per partition, and a broker answers those of a connection one by one: not after its followers.
    properties = producer_properties(servers) | {
        "acks": "1",
        "linger.ms": 50,
        "queue.buffering.max.messages": 2_000_000,
    }

    def delivered(error: object, message: Message) -> None:
        topic, number = message.topic(), message.partition()
        if error is not None and topic is not None and number is not None:
            refused.append((topic, number))

    wanted = [at for at in partitions for _ in range(count)]
    for _ in range(10):
        refused.clear()
        producer = Producer(properties, logger=DebugLogger())
        for done, (topic, number) in enumerate(wanted):
            producer.produce(topic, b"x", partition=number, on_delivery=delivered)
            if done % 100 == 0:
                producer.poll(0)
        left = producer.flush(_LIMIT_S)
        if left:
            raise RuntimeError(f"{left} records not acknowledged")
        if not refused:
            return
        wanted = list(refused)
        time.sleep(1.0)
    raise RuntimeError(f"{len(refused)} records refused")
