"""Two test clusters with the same methods: brokers in memory and real brokers.

Every test of this folder runs on both.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import OffsetSpec

from reconciler.companions.sandbox import client, tools
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ExternalReaderRequest
from reconciler.model.snapshot import ExternalPosition, GroupState, GroupType, Unknown
from tests import kafka_client
from tests.e2e import raw_requests
from tests.fakes.cluster import LOG_PARTITIONS, FakeCluster, FakeGroup
from tests.fakes.error_table import InterpretingGateway


def unique_name() -> str:
    """Return a name that no topic and no group has."""
    return f"contract-{uuid.uuid4().hex[:12]}"


class FakeEnvironment(FakeCluster):
    """The changes that a contract test makes to a cluster, here in memory.

    `external`: what readers outside of groups answer. `has_new_groups`: whether there are share groups and
    groups of Streams, from Kafka 4.2 on.
    """

    has_new_groups = True

    def __init__(self) -> None:
        super().__init__()
        self.gateway = InterpretingGateway(self)

    def new_topic(self, partitions: int, *, compacted: bool = False) -> str:
        """Create a topic with replicas on all brokers and return its name."""
        name = unique_name()
        self.create_topic(name, partitions, cleanup=("compact",) if compacted else ("delete",))
        return name

    def log_partitions(self) -> int:
        """Return the number of partitions of `__consumer_offsets`."""
        return LOG_PARTITIONS

    @contextmanager
    def member(self, group: str, topic: str) -> Iterator[None]:
        """Let a member that never commits read the topic during the block."""
        self.join(group, topic)
        yield
        self.leave(group)

    @contextmanager
    def pending_commit(self, group: str, topic: str, offset: int) -> Iterator[None]:
        """Hold a transaction with a commit of partition 0 open during the block, then abort it."""
        self.commit_pending(group, {TopicPartition(topic, 0): offset})
        yield
        self.end_transaction(group, committed=False)

    @contextmanager
    def share_member(self, group: str, topic: str) -> Iterator[None]:
        """Let a member of a share group read the topic during the block; the group goes with it."""
        self.subscribe(group, topic)
        yield
        del self.groups[group]

    def streams_group(self, group: str, at: TopicPartition, offset: int) -> None:
        """Create a group of the Streams protocol without members that has committed once."""
        self.groups[group] = FakeGroup(type=GroupType.STREAMS, hidden=True)
        self.commit(group, {at: offset})

    def change_preferred_leader(self, at: TopicPartition) -> None:
        """Change the preferred leader of a partition; the leader stays."""
        partition = self.partition(at)
        partition.replicas = (*partition.replicas[1:], partition.replicas[0])


class RealEnvironment:
    """The same changes on real brokers."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        self.servers = cluster.bootstrap_servers
        self.has_new_groups = tools.kafka_version(cluster) >= (4, 2)
        self.external: dict[ExternalReaderRequest, ExternalPosition | Unknown] = {}
        session = KafkaSession(Connection(tuple(self.servers.split(",")), timeout_s=20.0))
        self.gateway = InterpretingGateway(KafkaGateway(session, read_external=lambda: dict(self.external)))

    def new_topic(self, partitions: int, *, compacted: bool = False) -> str:
        name = unique_name()
        configs = {"cleanup.policy": "compact"} if compacted else {}
        client.create_topics(self.servers, [client.Topic(name, partitions, 3, configs)])
        return name

    def delete_topic(self, topic: str) -> None:
        kafka_client.delete_topics(self.servers, [topic])

    def create_topic(self, topic: str, partitions: int) -> None:
        """Wait for its offsets, too: a broker's metadata shows a topic before it has the replicas."""
        client.create_topics(self.servers, [client.Topic(topic, partitions, 3)])
        admin = client.admin_client(self.servers)

        def answers() -> bool:
            queries = {ClientPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
            return all(answer.exception(10) is None for answer in admin.list_offsets(queries).values())

        client.wait_until(answers, 30, f"{topic} to answer for its offsets")

    def produce(self, topic: str, counts: Mapping[int, int]) -> None:
        records = {number: [client.Record(b"x", key=b"k")] * count for number, count in counts.items()}
        client.produce(self.servers, topic, records)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        client.commit(self.servers, group, {(at.topic, at.partition): offset for at, offset in offsets.items()})
        client.wait_until(lambda: self.gateway.read_groups([group])[group].listed is True, 30, f"{group} to be listed")

    def log_partitions(self) -> int:
        return len(client.partition_states(self.servers, CONSUMER_OFFSETS_TOPIC))

    @contextmanager
    def member(self, group: str, topic: str) -> Iterator[None]:
        with client.member(self.servers, group, [topic], properties={"enable.auto.commit": "false"}):
            client.wait_until(
                lambda: self.gateway.read_groups([group])[group].state is GroupState.STABLE, 30, f"{group} to be stable"
            )
            yield

    def pending_commit(self, group: str, topic: str, offset: int) -> AbstractContextManager[None]:
        return kafka_client.pending_commit(self.servers, group, topic, offset)

    @contextmanager
    def share_member(self, group: str, topic: str) -> Iterator[None]:
        try:
            with kafka_client.share_member(self.servers, group, [topic]):
                yield
        finally:
            kafka_client.remove_group(self.servers, group)

    def streams_group(self, group: str, at: TopicPartition, offset: int) -> None:
        raw_requests.join_streams_group(self.servers, group, at.topic)
        raw_requests.leave_streams_group(self.servers, group)
        raw_requests.commit(self.servers, group, at.topic, at.partition, offset)

    def change_preferred_leader(self, at: TopicPartition) -> None:
        tools.change_preferred_leaders(self.cluster, [(at.topic, at.partition)])


Environment = FakeEnvironment | RealEnvironment
