"""The sandbox's client calls have the effect that Kafka's own tools see."""

from uuid import uuid4

import pytest
from confluent_kafka import KafkaException

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import change_preferred_leaders
from tests import kafka_client
from tests.toolbox import run_kafka_tool

pytestmark = pytest.mark.brokers


def test_records_carry_their_timestamps(cluster: SandboxCluster) -> None:
    """A lookup by timestamp finds the first record of that time or later."""
    name = unique_name("stamped")
    client.create_topics(cluster.bootstrap_servers, [Topic(name, 2)])
    old_records = [Record(b"old", None, 1_600_000_000_000 + number) for number in range(10)]
    new_records = [Record(b"fresh", None, 1_700_000_000_000 + number) for number in range(5)]
    ends = client.produce(cluster.bootstrap_servers, name, {0: [*old_records, *new_records], 1: old_records})
    assert ends == {0: 15, 1: 10}
    output = run_kafka_tool(cluster, "kafka-get-offsets", "--topic", name, "--time", "1650000000000")
    assert output.split() == [f"{name}:0:10"]  # the tool leaves out partitions without such a record


def test_a_commit_creates_an_empty_group(cluster: SandboxCluster) -> None:
    """The group of a standalone consumer has committed offsets and no member."""
    name, group = unique_name("read"), unique_name("group")
    client.create_topics(cluster.bootstrap_servers, [Topic(name, 2)])
    client.produce(cluster.bootstrap_servers, name, {0: [Record(b"x")] * 4})
    client.commit(cluster.bootstrap_servers, group, {(name, 0): 3})
    assert kafka_client.committed_offsets(cluster.bootstrap_servers, group, [(name, 0), (name, 1)]) == {
        (name, 0): 3,
        (name, 1): None,
    }
    assert state(cluster, group) == "Empty"


def test_a_member_reads_and_commits_during_its_block(cluster: SandboxCluster) -> None:
    """The group is Stable inside the block and Empty after it; its reads are committed.

    Meanwhile a broker refuses the commit of another client.
    """
    name, group = unique_name("live"), unique_name("group")
    client.create_topics(cluster.bootstrap_servers, [Topic(name)])
    client.produce(cluster.bootstrap_servers, name, {0: [Record(b"x")] * 4})
    with client.member(cluster.bootstrap_servers, group, [name]):
        assert state(cluster, group) == "Stable"
        client.wait_until(
            lambda: kafka_client.committed_offsets(cluster.bootstrap_servers, group, [(name, 0)])[name, 0] == 4,
            30,
            "the member's commit",
        )
        with pytest.raises(KafkaException):
            client.commit(cluster.bootstrap_servers, group, {(name, 0): 0})
    assert state(cluster, group) == "Empty"


def test_a_standalone_committer_commits_again_and_again_and_looks_empty(cluster: SandboxCluster) -> None:
    """`__consumer_offsets` grows while the offsets stay: the only evidence of activity of such a group."""
    name, group = unique_name("standalone"), unique_name("group")
    client.create_topics(cluster.bootstrap_servers, [Topic(name)])
    before = commits_logged(cluster)
    with client.standalone_committer(cluster.bootstrap_servers, group, {(name, 0): 0}, every_s=0.1):
        client.wait_until(lambda: commits_logged(cluster) >= before + 3, 30, "three commits in the log")
        assert state(cluster, group) == "Empty"


def test_an_open_transaction_keeps_the_last_stable_offset_below_the_high_watermark(cluster: SandboxCluster) -> None:
    """During the block the last stable offset is below the high watermark; afterwards they are
    equal.
    """
    name = unique_name("undecided")
    client.create_topics(cluster.bootstrap_servers, [Topic(name)])
    client.produce(cluster.bootstrap_servers, name, {0: [Record(b"x")] * 4})

    def ends() -> tuple[int, int]:
        servers = cluster.bootstrap_servers
        stable = client.watermarks(servers, name, 0, isolation="read_committed")[1]
        return stable, client.watermarks(servers, name, 0)[1]

    with kafka_client.open_transaction(cluster.bootstrap_servers, name):
        assert ends() == (4, 5)
    client.wait_until(lambda: ends() == (6, 6), 30, "the abort marker")


def test_a_new_preferred_leader_does_not_move_the_leader(cluster: SandboxCluster) -> None:
    """The preferred leader changes, the leader stays, and all replicas are in sync."""
    name = unique_name("preference")
    client.create_topics(cluster.bootstrap_servers, [Topic(name, 2, assignment=[[1, 2, 3], [2, 3, 1]])])
    change_preferred_leaders(cluster, [(name, 0)])
    described = run_kafka_tool(cluster, "kafka-topics", "--describe", "--topic", name).split("\n")
    assert "Leader: 1\tReplicas: 2,3,1" in described[1]
    assert "Leader: 2\tReplicas: 2,3,1" in described[2]


def test_a_deleted_topic_is_gone_from_every_broker(cluster: SandboxCluster) -> None:
    """A topic with the same name is new only if no broker knows the old one."""
    name = unique_name("deleted")
    client.create_topics(cluster.bootstrap_servers, [Topic(name)])
    kafka_client.delete_topics(cluster.bootstrap_servers, [name])
    for server in cluster.bootstrap_servers.split(","):
        assert client.partition_states(server, name) == {}


def test_the_metadata_is_of_the_broker_that_the_address_names(cluster: SandboxCluster) -> None:
    """A wait for every broker must hear every broker: the client library may ask another one."""
    for broker in cluster.brokers * 10:
        metadata = client.broker_metadata(f"127.0.0.1:{broker.port}")
        assert metadata.orig_broker_name.split("/")[0] == f"127.0.0.1:{broker.port}"


def test_a_timeout_names_its_condition() -> None:
    """The timeout of a wait names its condition."""
    with pytest.raises(TimeoutError, match="not within 0 s: the impossible"):
        client.wait_until(lambda: False, 0, "the impossible")


def unique_name(prefix: str) -> str:
    return f"client-{prefix}-{uuid4().hex[:8]}"


def state(cluster: SandboxCluster, group: str) -> str:
    rows = run_kafka_tool(cluster, "kafka-consumer-groups", "--describe", "--group", group, "--state").splitlines()
    (row,) = (row.split() for row in rows if row.startswith(group))
    return row[-2]


def commits_logged(cluster: SandboxCluster) -> int:
    partitions = client.partition_states(cluster.bootstrap_servers, "__consumer_offsets")
    return sum(
        client.watermarks(cluster.bootstrap_servers, "__consumer_offsets", partition)[1] for partition in partitions
    )
