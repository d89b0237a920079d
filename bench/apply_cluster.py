"""The cluster that bench.apply measures: topics with records, dead groups and leaders to move.

It restores the same state for each contender. A turn deletes one more record of each partition, so
records are not written again. Groups are created again, and replicas are rotated again.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from bench import clusters
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import admin_client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import run_tool
from reconciler.model.progress import Progress

Partition = tuple[str, int]
"""Topic and number of a partition."""

TOPIC_PREFIX, REMOVED_PREFIX, REMAINING_PREFIX = "bench-apply-", "bench-dead-", "bench-stays-"
"""Prefixes of topics, of groups to remove, and of groups that remain."""
COMMITTED_TOPIC = "bench-committed"
COMMITS_PER_GROUP = 10
REPLICAS = 2
"""Two, so that an election waits for a replica; three exceed the usual limit of open files."""

_TOPICS_PER_REQUEST = 50


@dataclass(slots=True)
class ApplyCluster:
    """A cluster to apply to.

    `records` is the number of records of each partition, `deleted` how many of them are deleted.
    `replicas` has each partition's replicas as last written, the preferred leader first.
    """

    cluster: SandboxCluster
    progress: Progress
    topics: Sequence[str]
    partitions_per_topic: int
    records: int
    deleted: int = 0
    replicas: dict[Partition, tuple[int, ...]] = field(default_factory=dict)

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def partitions(self) -> list[Partition]:
        return [(topic, number) for topic in self.topics for number in range(self.partitions_per_topic)]

    def create_topics(self) -> None:
        """Create topics with evenly spread preferred leaders, and write records to each partition."""
        for index, (topic, number) in enumerate(self.partitions):
            self.replicas[topic, number] = tuple((index + step) % 3 + 1 for step in range(REPLICAS))
        topics = [
            NewTopic(
                name,
                num_partitions=self.partitions_per_topic,
                replica_assignment=[list(self.replicas[name, number]) for number in range(self.partitions_per_topic)],
            )
            for name in self.topics
        ]
        clusters.create_topics(self.servers, topics, batch_size=_TOPICS_PER_REQUEST, progress=self.progress)
        now_ms = time.time_ns() // 1_000_000
        records = [(*key, now_ms) for key in self.partitions for _ in range(self.records)]
        # The library sends a request per partition, and a broker answers those of a connection one
        # after the other. So the requests do not wait for followers.
        properties = {"acks": "1", "linger.ms": 50, "queue.buffering.max.messages": 2_000_000}
        clusters.write_records(self.servers, records, properties)
        self._wait_in_sync()
        self.progress(f"wrote {self.records} records to each of {len(self.partitions):,} partitions")

    def create_consumer_offsets(self) -> None:
        """Write the first commit, which creates `__consumer_offsets`."""
        client.create_topics(self.servers, [client.Topic(COMMITTED_TOPIC, COMMITS_PER_GROUP, REPLICAS)])
        client.commit(self.servers, COMMITTED_TOPIC, {(COMMITTED_TOPIC, 0): 0}, deadline_s=60)

    def create_groups(self, names: Sequence[str]) -> None:
        """Create EMPTY groups with ten commits each."""
        offsets = [TopicPartition(COMMITTED_TOPIC, number, 0) for number in range(COMMITS_PER_GROUP)]
        clusters.commit_offsets(self.servers, ((name, offsets) for name in names), progress=self.progress)

    def rotate_replicas(self, partitions: Sequence[Partition]) -> None:
        """Rotate the replicas, so that the present leader is not the preferred one.

        Waits until all brokers show the new order.
        """
        for key in partitions:
            self.replicas[key] = (*self.replicas[key][1:], self.replicas[key][0])
        rows = [
            {"topic": topic, "partition": number, "replicas": list(self.replicas[topic, number])}
            for topic, number in partitions
        ]
        path = self.cluster.dir / "replicas.json"
        path.write_text(json.dumps({"version": 1, "partitions": rows}))
        result = run_tool(
            self.cluster,
            "kafka-reassign-partitions",
            "--reassignment-json-file",
            str(path),
            "--execute",
            timeout_s=clusters.TIMEOUT_S,
        )
        assert result.returncode == 0, result.stderr[-800:]
        client.wait_until(
            lambda: self.count_non_preferred(partitions) == len(partitions), clusters.TIMEOUT_S, "the new replica order"
        )
        self._wait_in_sync()

    def count_non_preferred(self, partitions: Sequence[Partition]) -> int:
        """Count the partitions whose leader is not the first of the written replicas.

        Returns the lowest count that any broker's metadata shows.
        """
        return min(self._count_non_preferred(server, partitions) for server in self.servers.split(","))

    def _count_non_preferred(self, server: str, partitions: Sequence[Partition]) -> int:
        states = partition_states(server)
        return sum(
            states[key].replicas == self.replicas[key] and states[key].leader != self.replicas[key][0]
            for key in partitions
        )

    def _wait_in_sync(self) -> None:
        for server in self.servers.split(","):
            client.wait_until(
                partial(self._is_in_sync, server), clusters.TIMEOUT_S, "all replicas in sync", every_s=1.0
            )

    def _is_in_sync(self, server: str) -> bool:
        states = partition_states(server)
        return all(key in states and len(states[key].in_sync) == REPLICAS for key in self.replicas)


@contextmanager
def apply_cluster(
    topics: int, partitions: int, records: int, *, heap_mib: int, progress: Progress
) -> Iterator[ApplyCluster]:
    """Run the cluster during the block, with three replicas of `__consumer_offsets`.

    The topics are not created yet.
    """
    # Only the measured elections move leaders.
    properties = {"auto.leader.rebalance.enable": "false"}
    with clusters.bench_brokers("bench-apply", heap_mib=heap_mib, properties=properties, progress=progress) as brokers:
        cluster = ApplyCluster(brokers, progress, topic_names(topics), partitions, records)
        cluster.create_consumer_offsets()
        yield cluster


def topic_names(topics: int) -> list[str]:
    return [f"{TOPIC_PREFIX}{number:04}" for number in range(topics)]


def partition_states(server: str) -> dict[Partition, client.PartitionState]:
    """State of every partition in one broker's metadata."""
    topics = admin_client(server).list_topics(timeout=60).topics
    return {
        (name, number): client.PartitionState(partition.leader, tuple(partition.replicas), tuple(partition.isrs))
        for name, topic in topics.items()
        for number, partition in topic.partitions.items()
    }


def leaders(servers: str) -> dict[Partition, int]:
    """Leader of every partition that has one, in the first broker's metadata."""
    states = partition_states(servers.split(",", maxsplit=1)[0])
    return {key: state.leader for key, state in states.items() if state.leader >= 0}


def log_starts(servers: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """Read log start offsets with the client library.

    A JVM per turn takes longer than most turns.
    """
    admin = admin_client(servers)
    request = {TopicPartition(*key): OffsetSpec.earliest() for key in partitions}
    futures = admin.list_offsets(request, request_timeout=clusters.TIMEOUT_S)
    return {(key.topic, key.partition): int(future.result().offset) for key, future in futures.items()}
