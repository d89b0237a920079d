"""The executor on real brokers: Kafka's own tools show the planned effects and no others.

A second apply changes nothing.
"""

import itertools
import time
import uuid
from pathlib import Path

import pytest

from reconciler.apply import restore
from reconciler.apply.context import ApplyContext
from reconciler.apply.executor import apply
from reconciler.companions.sandbox import client, tools
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.kafka import journal_topic
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC
from reconciler.model.action import Action
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset, Unknown
from tests import kafka_client
from tests.fakes.runs import last_purges
from tests.strategies.examples import election, purge, removal
from tests.toolbox import list_groups, log_start_offsets, partition_leaders, run_kafka_tool, wait_for_topic

pytestmark = pytest.mark.brokers


def context(gateway: KafkaGateway, journal: ActionJournal) -> ApplyContext:
    return ApplyContext(
        gateway=gateway,
        journal=journal,
        run_id=uuid.uuid4().hex,
        plan_digest="sha256:plan",
        clock=lambda: time.time_ns() // 1_000_000,
        sleep=time.sleep,
    )


def send(actions: list[Action], gateway: KafkaGateway, journal: ActionJournal) -> list[Outcome]:
    return list(apply(actions, context(gateway, journal)))


def plan_actions(gateway: KafkaGateway, topic: str, group: str, before_offset: int) -> list[Action]:
    """One action of each type: delete records of the first partition, remove the group, elect the
    second leader.
    """
    purge_partition, election_partition = TopicPartition(topic, 0), TopicPartition(topic, 1)
    facts_by_partition = gateway.read_partitions([purge_partition, election_partition], offsets=True)
    group_facts = gateway.read_groups([group])[group]
    purge_facts, election_facts = facts_by_partition[purge_partition], facts_by_partition[election_partition]
    assert isinstance(purge_facts.topic_id, str)
    assert isinstance(purge_facts.leader, int)
    assert isinstance(purge_facts.replicas, tuple)
    assert isinstance(purge_facts.log_start, int)
    assert isinstance(election_facts.replicas, tuple)
    assert isinstance(group_facts.fingerprint, str)
    return [
        purge(
            topic,
            0,
            policy="floor",
            before_offset=before_offset,
            end=10,
            topic_id=purge_facts.topic_id,
            log_start=purge_facts.log_start,
            leader=purge_facts.leader,
            replicas=purge_facts.replicas,
            in_sync=purge_facts.replicas,
        ),
        removal(
            group,
            policy="dead",
            idle_for_ms=0,
            commits=1,
            commit_topics=1,
            fingerprint=group_facts.fingerprint,
            last_activity_ms=None,
            newest_record=None,
        ),
        election(
            topic,
            1,
            policy="leaders",
            leader_wanted=election_facts.replicas[0],
            topic_id=purge_facts.topic_id,
            leader=election_facts.leader if isinstance(election_facts.leader, int) else None,
            replicas=election_facts.replicas,
            in_sync=election_facts.replicas,
        ),
    ]


def create_disorder(cluster: SandboxCluster) -> tuple[str, str, str]:
    """Create a topic with ten records in each of three partitions, a dead group and a bystander.

    The leader of the second partition is not the preferred one. Both groups have read eight records.
    """
    name = uuid.uuid4().hex[:12]
    topic, group, bystander = f"apply-{name}", f"dead-{name}", f"bystander-{name}"
    servers = cluster.bootstrap_servers
    client.create_topics(servers, [client.Topic(topic, 3, 3)])
    client.produce(servers, topic, {number: [client.Record(b"x")] * 10 for number in range(3)})
    client.commit(servers, group, {(topic, 0): 8})
    client.commit(servers, bystander, {(topic, 0): 9})
    tools.change_preferred_leaders(cluster, [(topic, 1)])
    return topic, group, bystander


@pytest.mark.parametrize("journal_type", ["file", "topic"])
def test_apply_does_what_was_planned_and_nothing_else(
    cluster: SandboxCluster, connection: Connection, gateway: KafkaGateway, tmp_path: Path, journal_type: str
) -> None:
    """All three operations work with either journal, according to Kafka's tools.

    Other subjects are untouched, and the second apply sends nothing.
    """
    topic, group, bystander = create_disorder(cluster)
    journal: ActionJournal
    if journal_type == "file":
        journal = ActionJournal(JournalFile(tmp_path / "journal.jsonl"))
    else:
        name = f"_journal.{topic}"
        journal_topic.create_topic(KafkaSession(connection), name)
        wait_for_topic(cluster, name)
        journal = ActionJournal(JournalTopic(KafkaSession(connection), name))
    actions = plan_actions(gateway, topic, group, 6)
    outcomes = send(actions, gateway, journal)
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    assert [outcome.read_back for outcome in outcomes] == [
        f"leader {actions[2].leader_wanted}",
        "absent",
        "log start 6",
    ]  # type: ignore[union-attr]
    assert [outcome.low_watermark for outcome in outcomes] == [None, None, 6]
    assert log_start_offsets(cluster, topic) == {0: 6, 1: 0, 2: 0}
    client.wait_until(
        lambda: all(leader == preferred for leader, preferred in partition_leaders(cluster, topic).values()),
        30,
        "preferred leaders in the metadata",
    )
    groups = list_groups(cluster)
    assert group not in groups
    assert bystander in groups
    second_outcomes = send(actions, gateway, journal)
    assert {outcome.status for outcome in second_outcomes} == {Status.SATISFIED}
    assert sum(outcome.sends for outcome in second_outcomes) == 0
    assert [entry.event.value for entry in journal.entries()] == ["intent", "outcome"] * 3 + ["outcome"] * 3
    assert set(last_purges(journal)) == {TopicPartition(topic, 0)}
    assert journal.open_intents("sha256:plan") == {}


def test_apply_leaves_a_changed_cluster_alone(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> None:
    """After a new topic with the same name and new activity of the group, both actions are stale.

    The new topic keeps every record and commit.
    """
    topic, group, _ = create_disorder(cluster)
    actions = plan_actions(gateway, topic, group, 6)
    servers = cluster.bootstrap_servers
    kafka_client.delete_topics(servers, [topic])
    client.create_topics(servers, [client.Topic(topic, 3, 3)])
    client.produce(servers, topic, {number: [client.Record(b"x")] * 10 for number in range(3)})
    client.commit(servers, group, {(topic, 2): 1})
    outcomes = send(actions, gateway, ActionJournal(JournalFile(tmp_path / "journal.jsonl")))
    assert {outcome.status for outcome in outcomes} == {Status.STALE}
    assert log_start_offsets(cluster, topic) == {0: 0, 1: 0, 2: 0}
    assert kafka_client.committed_offsets(servers, group, [(topic, 2)]) == {(topic, 2): 1}


def test_apply_keeps_a_live_group(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> None:
    """A member joins between plan and apply, so the group stays; records that it has read go."""
    topic, group, _ = create_disorder(cluster)
    actions = plan_actions(gateway, topic, group, 6)
    with client.member(cluster.bootstrap_servers, group, [topic]):
        statuses = {
            o.action.address.kind: o.status
            for o in send(actions, gateway, ActionJournal(JournalFile(tmp_path / "j.jsonl")))
        }
    assert statuses["GroupRemoval"] is Status.STALE
    assert statuses["RetentionFloor"] is Status.APPLIED


def test_apply_without_a_journal_topic_sends_nothing(
    cluster: SandboxCluster, connection: Connection, gateway: KafkaGateway
) -> None:
    """Without the journal's topic apply attempts nothing, and nothing creates the topic by
    accident.
    """
    topic, group, _ = create_disorder(cluster)
    missing = f"_journal.missing.{topic}"
    outcomes = send(
        plan_actions(gateway, topic, group, 6),
        gateway,
        ActionJournal(JournalTopic(KafkaSession(connection), missing)),
    )
    assert {outcome.status for outcome in outcomes} == {Status.NOT_ATTEMPTED}
    assert missing in outcomes[0].detail
    assert log_start_offsets(cluster, topic) == {0: 0, 1: 0, 2: 0}
    assert missing not in run_kafka_tool(cluster, "kafka-topics", "--list").split()


def test_a_group_whose_tombstones_cannot_be_stored_is_not_called_removed(
    cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path
) -> None:
    """They are larger than a batch of `__consumer_offsets` may be.

    The coordinator of KIP-848 refuses, and keeps the group. The one before answers NONE, forgets the group, and the
    next one has it again.
    """
    servers, topic, count = cluster.bootstrap_servers, f"wide-{uuid.uuid4().hex[:12]}", 100
    group, limit = f"dead-{topic}", "max.message.bytes"
    client.create_topics(servers, [client.Topic(topic, count, 1)])
    for first in range(0, count, 10):
        client.commit(servers, group, {(topic, number): 0 for number in range(first, first + 10)})
    logs = client.partition_states(servers, CONSUMER_OFFSETS_TOPIC)
    tails = gateway.read_consumer_offsets(dict.fromkeys(logs, 0))
    (newest,) = ((n, tail[group]) for n, tail in tails.items() if not isinstance(tail, Unknown) and group in tail)
    facts = gateway.read_groups([group])[group]

    def fits(name: str) -> bool:
        """Whether the leader takes all commits of the group under this name in one batch."""
        assert not isinstance(facts.offsets, Unknown)
        return {result.code for result in gateway.commit_offsets(name, facts.offsets).values()} == {"NONE"}

    action = removal(group, commits=count, fingerprint=facts.fingerprint, newest_record=newest)
    config = ("--entity-type", "topics", "--entity-name", CONSUMER_OFFSETS_TOPIC, "--alter")
    run_kafka_tool(cluster, "kafka-configs", *config, "--add-config", f"{limit}=4000")
    probes = (
        name for number in itertools.count() if log_partition(name := f"{topic}-{number}", len(logs)) == newest[0]
    )
    try:
        client.wait_until(lambda: not fits(next(probes)), 30, "the leader to refuse such a batch")
        (outcome,) = send([action], gateway, ActionJournal(JournalFile(tmp_path / "journal.jsonl")))
        assert (outcome.status, outcome.possible) == (Status.FAILED, True), outcome
        assert limit in outcome.detail if outcome.code == "NONE" else group in list_groups(cluster)
    finally:
        run_kafka_tool(cluster, "kafka-configs", *config, "--delete-config", limit)
        # Otherwise the rest of the group would block the floors of other tests.
        client.wait_until(lambda: fits(group), 30, "the leader to take such a batch")
        assert gateway.delete_groups([group])[group].code == "NONE"


def test_offsets_beyond_one_batch_of_the_consumer_offsets_are_restored(
    cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path
) -> None:
    """One request with all of them is refused whole: it would be a batch of more than a megabyte."""
    servers, topic, count = cluster.bootstrap_servers, f"wide-{uuid.uuid4().hex[:12]}", 300
    group = topic + "x" * 4_000
    client.create_topics(servers, [client.Topic(topic, count, 1)])
    facts = gateway.read_partitions([TopicPartition(topic, 0)], offsets=False)[TopicPartition(topic, 0)]
    assert facts is not None
    assert isinstance(facts.topic_id, str)
    offsets = tuple(
        CommittedOffset(topic=topic, topic_id=facts.topic_id, partition=number, offset=0) for number in range(count)
    )
    refused = gateway.commit_offsets(f"whole-{group}", offsets)
    assert "NONE" not in {result.code for result in refused.values()}
    removed = restore.Removal(
        address=Address("GroupRemoval", "dead", group),
        offsets=offsets,
        plan_digest="p",
        source="the test",
    )
    run = context(gateway, ActionJournal(JournalFile(tmp_path / "journal.jsonl")))
    outcomes = restore.restore(removed, restore.find_unwritable(removed, gateway), run)
    assert {outcome.status for outcome in outcomes.values()} == {Status.APPLIED}
    assert gateway.read_groups([group])[group].offsets == offsets
