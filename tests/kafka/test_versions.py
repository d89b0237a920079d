"""Differences between the Kafka versions of `make test-matrix`.

Each test states a claim about each version, so that no version is skipped silently.
"""

from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import kafka_version, run_tool
from reconciler.errors import SandboxError
from reconciler.kafka.api_versions import tell_no_types
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets_layout import NO_TOPIC_ID, decode_commit, decode_key
from reconciler.kafka.group_listing import list_groups
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC
from reconciler.model.snapshot import GroupType
from tests.kafka_client import read_to_end

pytestmark = pytest.mark.brokers


def commits_of(servers: str, group: str) -> list[bytes]:
    """The values of a group's commits in the log."""
    records = [(decode_key(record.key()), record.value()) for record in read_to_end(servers, CONSUMER_OFFSETS_TOPIC)]
    return [value for key, value in records if key.topic and key.group == group and value]


def test_commits_carry_the_id_of_their_topic_from_kafka_4_2_on(cluster: SandboxCluster) -> None:
    """Value version 4 has the topic id, version 3 does not; the program reads both.

    With version 3 only the offset shows a commit for an earlier topic of the same name.
    """
    topic, group = f"versioned-{uuid4().hex[:8]}", f"versioned-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 7})
    [value] = commits_of(cluster.bootstrap_servers, group)
    has_topic_id = kafka_version(cluster) >= (4, 2)
    assert int.from_bytes(value[:2], "big") == (4 if has_topic_id else 3)
    read = decode_commit(value)
    assert read.offset == 7
    assert (read.topic_id != NO_TOPIC_ID) == has_topic_id


def test_brokers_before_kafka_3_8_tell_no_types(cluster: SandboxCluster, connection: Connection) -> None:
    """ListGroups has types from version 5 on; before it, the brokers' versions show that all are classic."""
    session = KafkaSession(connection)
    group = f"typed-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(group)])
    client.commit(cluster.bootstrap_servers, group, {(group, 0): 0})
    listing = list_groups(session, hidden=False)
    is_old = kafka_version(cluster) < (3, 8)
    assert listing.groups[group].type is GroupType.CLASSIC
    assert listing.without_types is is_old
    assert len(session.api_versions()) == len(cluster.brokers)
    assert tell_no_types(session.api_versions()) is is_old


def test_no_group_is_hidden_before_kafka_4(cluster: SandboxCluster, connection: Connection) -> None:
    """Share and Streams groups exist from Kafka 4 on.

    Earlier versions have no tools for them, and no ids that only the old list call returns.
    """
    topic, group = f"listed-{uuid4().hex[:8]}", f"listed-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 0})
    session = KafkaSession(connection)
    listing = list_groups(session, hidden=True)
    assert listing.hidden_unread is None
    assert listing.groups[group].type is GroupType.CLASSIC
    if kafka_version(cluster) < (4,):
        assert all(metadata.listed for metadata in listing.groups.values())
        for tool in ("kafka-share-groups", "kafka-streams-groups"):
            with pytest.raises(SandboxError, match=f"has no {tool}"):
                run_tool(cluster, tool, "--list")
    else:
        for tool in ("kafka-share-groups", "kafka-streams-groups"):
            assert run_tool(cluster, tool, "--list").returncode == 0
