"""The journal in a topic, on real brokers.

No read or write creates the topic, each read reaches its end, and runs share it.
"""

import uuid

import pytest

from reconciler.errors import JournalUnavailable
from reconciler.journal.journal import ActionJournal
from reconciler.kafka import journal_topic
from reconciler.kafka.connect import Connection
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.sandbox import client
from reconciler.sandbox.cluster import Cluster
from tests import kafka_client
from tests.fakes.cluster import FakeCluster
from tests.fakes.runs import last_purges, purge
from tests.toolbox import run_kafka_tool

pytestmark = pytest.mark.brokers

AT = TopicPartition("orders", 0)


@pytest.fixture
def connection(cluster: Cluster) -> Connection:
    return Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=20.0)


@pytest.fixture
def fake() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create_topic("orders", 1000)
    cluster.produce("orders", dict.fromkeys(range(1000), 100))
    return cluster


def unused_topic() -> str:
    return f"_journal.{uuid.uuid4().hex[:12]}"


def test_journal_topic_is_never_created_by_accident(
    cluster: Cluster, connection: Connection, fake: FakeCluster
) -> None:
    """A missing topic is an error that shows the command for its creation.

    The brokers of the test create topics automatically.
    """
    name = unused_topic()
    journal = ActionJournal(JournalTopic(KafkaSession(connection), name))
    with pytest.raises(
        JournalUnavailable, match=f"{name} does not exist.*kafka-topics --create --topic {name} .*retention.ms=-1"
    ):
        last_purges(journal)
    with pytest.raises(
        JournalUnavailable, match=f"{name} does not exist.*kafka-topics --create --topic {name} .*retention.ms=-1"
    ):
        journal.record([purge(fake, AT, 60)], run_id="r", plan_digest="p", at_ms=1)
    with pytest.raises(
        JournalUnavailable, match=f"{name} does not exist.*kafka-topics --create --topic {name} .*retention.ms=-1"
    ):
        list(journal.entries())
    assert name not in run_kafka_tool(cluster, "kafka-topics", "--list").split()


def test_create_topic_creates_the_journal_topic_once(cluster: Cluster, connection: Connection) -> None:
    """It has one partition, is never compacted, and a second creation changes nothing."""
    name = unused_topic()
    for _ in range(2):
        journal_topic.create_topic(KafkaSession(connection), name)
    wait_for_topic(cluster, name)
    text = run_kafka_tool(cluster, "kafka-topics", "--describe", "--topic", name)
    assert "PartitionCount: 1" in text
    assert "cleanup.policy=delete" in text
    assert "retention.ms=-1" in text


def wait_for_topic(cluster: Cluster, name: str) -> None:
    """Wait until every broker's metadata has the topic; Kafka 3.9 takes longer than Kafka 4."""
    client.wait_until(
        lambda: all(client.partition_states(server, name) for server in cluster.bootstrap_servers.split(",")),
        30,
        f"{name} in the metadata of every broker",
    )


def test_journal_topic_keeps_the_purge_clock(cluster: Cluster, connection: Connection, fake: FakeCluster) -> None:
    """Two runs share a topic with a thousand intents, half of them unsent; each call reads new
    lines.
    """
    name = unused_topic()
    journal_topic.create_topic(KafkaSession(connection), name)
    wait_for_topic(cluster, name)
    journal, other_journal = (
        ActionJournal(JournalTopic(KafkaSession(connection), name)),
        ActionJournal(JournalTopic(KafkaSession(connection), name)),
    )
    assert last_purges(journal) == {}
    actions = [purge(fake, TopicPartition("orders", number), 60) for number in range(1000)]
    journal.record(actions, run_id="a", plan_digest="p", at_ms=100)
    assert last_purges(journal) == {action.partition: 100 for action in actions}
    unsent = [Outcome(action=action, status=Status.NOT_ATTEMPTED, detail="", sends=0) for action in actions[500:]]
    journal.record(unsent, run_id="a", plan_digest="p", at_ms=101)
    other_journal.record(actions[:1], run_id="b", plan_digest="p", at_ms=200)
    expected = {action.partition: 100 for action in actions[:500]} | {AT: 200}
    assert last_purges(journal) == last_purges(other_journal) == expected
    assert len(list(other_journal.entries())) == 1501
    assert len(other_journal.open_intents("p")) == 500


def test_journal_topic_that_was_created_again_is_not_trusted(
    cluster: Cluster, connection: Connection, fake: FakeCluster
) -> None:
    """A new topic of the same name is another journal."""
    name = unused_topic()
    journal_topic.create_topic(KafkaSession(connection), name)
    journal = ActionJournal(JournalTopic(KafkaSession(connection), name))
    wait_for_topic(cluster, name)
    journal.record([purge(fake, AT, 60)], run_id="a", plan_digest="p", at_ms=100)
    kafka_client.delete_topics(cluster.bootstrap_servers, [name])
    journal_topic.create_topic(KafkaSession(connection), name)
    wait_for_topic(cluster, name)
    with pytest.raises(JournalUnavailable, match="created again"):
        journal.record([purge(fake, AT, 70)], run_id="a", plan_digest="p", at_ms=101)


def test_journal_topic_that_is_compacted_is_not_trusted(
    cluster: Cluster, connection: Connection, fake: FakeCluster
) -> None:
    """An intent and its outcome share a key, so compaction would remove the intent."""
    name = unused_topic()
    client.create_topics(cluster.bootstrap_servers, [client.Topic(name, configs={"cleanup.policy": "compact"})])
    journal = ActionJournal(JournalTopic(KafkaSession(connection), name))
    with pytest.raises(
        JournalUnavailable, match=rf"{name} cannot be trusted: its cleanup\.policy is compact.*set it to delete"
    ):
        last_purges(journal)
    with pytest.raises(JournalUnavailable, match=r"cleanup\.policy is compact"):
        journal.record([purge(fake, AT, 60)], run_id="r", plan_digest="p", at_ms=1)


def test_journal_topic_with_foreign_records_is_not_trusted(cluster: Cluster, connection: Connection) -> None:
    """With records of another writer the purge clock is unknown, so the read is an error."""
    name = unused_topic()
    journal_topic.create_topic(KafkaSession(connection), name)
    wait_for_topic(cluster, name)
    client.produce(cluster.bootstrap_servers, name, {0: [client.Record(b"hello")]})
    with pytest.raises(JournalUnavailable, match="record 0 of partition 0"):
        last_purges(ActionJournal(JournalTopic(KafkaSession(connection), name)))
