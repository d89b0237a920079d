"""High watermarks below a commit are read again, on real brokers."""

from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import ConsumerPosition, PartitionFacts, Unknown
from reconciler.scan.scan import refresh_watermarks

pytestmark = pytest.mark.brokers


def facts(partition: TopicPartition, *, end: int | Unknown, committed: int, leader: int | None) -> PartitionFacts:
    return PartitionFacts(
        partition=partition,
        topic_id="any",
        leader=leader,
        replicas=(1, 2, 3),
        in_sync=(1, 2, 3),
        log_start=0,
        last_stable_offset=end,
        high_watermark=end,
        readers=(ConsumerPosition("live", committed),),
        readers_below=end,
    )


def test_a_commit_of_a_live_group_is_compared_with_the_current_end(cluster: SandboxCluster) -> None:
    """A commit above the high watermark causes a second read of the high watermark.

    The last stable offset stays, and a commit above the new high watermark stays above it. A live group
    once blocked its own purge for ever, because its commit was always newer than the first read.
    """
    topic = f"overtaken-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [client.Topic(topic, partitions=3)])
    client.produce(cluster.bootstrap_servers, topic, {n: [client.Record(b"x")] * 20 for n in range(3)})
    leaders = {n: state.leader for n, state in client.partition_states(cluster.bootstrap_servers, topic).items()}
    behind, beyond, unread = (TopicPartition(topic, number) for number in range(3))
    before = {
        behind: facts(behind, end=5, committed=10, leader=leaders[0]),
        beyond: facts(beyond, end=5, committed=1_000_000, leader=leaders[1]),
        unread: facts(unread, end=Unknown("no answer"), committed=10, leader=leaders[2]),
    }
    after = refresh_watermarks(KafkaSession(Connection(tuple(cluster.bootstrap_servers.split(",")))), before)
    assert (after[behind].high_watermark, after[behind].last_stable_offset) == (20, 5)
    assert (after[beyond].high_watermark, after[beyond].last_stable_offset) == (20, 5)
    assert isinstance(after[unread].high_watermark, Unknown)
