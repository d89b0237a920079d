"""The executor on real brokers: Kafka's own tools show the planned effects and no others.

A second apply changes nothing.
"""

import itertools
import time
import uuid
from pathlib import Path
from typing import Any

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
from reconciler.operations.delete_records import DeleteRecords
from tests import kafka_client
from tests.fakes.runs import intercept, last_purges
from tests.strategies.examples import election, purge, removal
from tests.toolbox import (
    list_groups,
    log_start_offsets,
    partition_leaders,
    run_kafka_tool,
    wait_for_topic,
    warm_tools,
)

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


def deletion(facts: Any, before_offset: int) -> DeleteRecords:
    """A deletion as planned on these facts of a partition."""
    return purge(
        facts.partition.topic,
        facts.partition.partition,
        policy="floor",
        before_offset=before_offset,
        end=facts.high_watermark,
        topic_id=facts.topic_id,
        log_start=facts.log_start,
        leader=facts.leader,
        replicas=facts.replicas,
        in_sync=facts.replicas,
    )


@pytest.fixture
def journal(tmp_path: Path) -> ActionJournal:
    return ActionJournal(JournalFile(tmp_path / "journal.jsonl"))


class Planned:
    """A topic with ten records in each of three partitions, a dead group and a bystander, and what is planned.

    The leader of the second partition is not the preferred one. Both groups have read eight records. `actions`:
    delete six records of the first partition, remove the dead group, elect the second leader.
    """

    def __init__(self, cluster: SandboxCluster, gateway: KafkaGateway, journal: ActionJournal) -> None:
        self.servers, self.gateway, self.journal = cluster.bootstrap_servers, gateway, journal
        name = uuid.uuid4().hex[:12]
        self.topic, self.group, self.bystander = f"apply-{name}", f"dead-{name}", f"bystander-{name}"
        self.create_topic()
        client.commit(self.servers, self.group, {(self.topic, 0): 8})
        client.commit(self.servers, self.bystander, {(self.topic, 0): 9})
        with warm_tools():
            tools.change_preferred_leaders(cluster, [(self.topic, 1)])
        first, second = (TopicPartition(self.topic, number) for number in (0, 1))
        facts: Any = gateway.read_partitions([first, second], offsets=True)
        of_group = gateway.read_groups([self.group])[self.group]
        counts = {"commits": 1, "commit_topics": 1, "fingerprint": of_group.fingerprint}
        no_evidence = {"idle_for_ms": 0, "last_activity_ms": None, "newest_record": None}
        self.actions: list[Any] = [
            deletion(facts[first], 6),
            removal(self.group, policy="dead", **counts, **no_evidence),
            election(
                self.topic,
                1,
                policy="leaders",
                leader_wanted=facts[second].replicas[0],
                topic_id=facts[second].topic_id,
                leader=facts[second].leader,
                replicas=facts[second].replicas,
                in_sync=facts[second].replicas,
            ),
        ]

    def create_topic(self, records: int = 10) -> None:
        client.create_topics(self.servers, [client.Topic(self.topic, 3, 3)])
        client.produce(self.servers, self.topic, {number: [client.Record(b"x")] * records for number in range(3)})

    def send(self, *indexes: int) -> list[Outcome]:
        """Apply these actions, by default all of them."""
        return send([self.actions[index] for index in indexes or range(3)], self.gateway, self.journal)


RECORDS, LEADER = 0, 2


@pytest.fixture
def planned(cluster: SandboxCluster, gateway: KafkaGateway, journal: ActionJournal) -> Planned:
    return Planned(cluster, gateway, journal)


@pytest.mark.parametrize("journal_type", ["file", "topic"])
def test_apply_does_what_was_planned_and_nothing_else(
    cluster: SandboxCluster, connection: Connection, planned: Planned, journal_type: str
) -> None:
    """All three operations work with either journal, according to Kafka's tools.

    Other subjects are untouched, and the second apply sends nothing.
    """
    topic = planned.topic
    if journal_type == "topic":
        name = f"_journal.{topic}"
        journal_topic.create_topic(KafkaSession(connection), name)
        wait_for_topic(cluster, name)
        planned.journal = ActionJournal(JournalTopic(KafkaSession(connection), name))
    outcomes = planned.send()
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    read_back = [f"leader {planned.actions[LEADER].leader_wanted}", "absent", "log start 6"]
    assert [outcome.read_back for outcome in outcomes] == read_back
    assert [outcome.low_watermark for outcome in outcomes] == [None, None, 6]
    assert log_start_offsets(cluster, topic) == {0: 6, 1: 0, 2: 0}
    client.wait_until(
        lambda: all(leader == preferred for leader, preferred in partition_leaders(cluster, topic).values()),
        30,
        "preferred leaders in the metadata",
    )
    groups = list_groups(cluster)
    assert planned.group not in groups
    assert planned.bystander in groups
    second_outcomes = planned.send()
    assert {outcome.status for outcome in second_outcomes} == {Status.SATISFIED}
    assert sum(outcome.sends for outcome in second_outcomes) == 0
    entries = [entry.event.value for entry in planned.journal.entries()]
    assert entries == ["intent", "outcome"] * 3 + ["outcome"] * 3
    assert set(last_purges(planned.journal)) == {TopicPartition(topic, 0)}
    assert planned.journal.open_intents("sha256:plan") == {}


def test_apply_leaves_a_changed_cluster_alone(cluster: SandboxCluster, planned: Planned) -> None:
    """After a new topic with the same name and new activity of the group, both actions are stale.

    The new topic keeps every record and commit.
    """
    topic, group = planned.topic, planned.group
    kafka_client.delete_topics(planned.servers, [topic])
    planned.create_topic()
    client.commit(planned.servers, group, {(topic, 2): 1})
    assert {outcome.status for outcome in planned.send()} == {Status.STALE}
    assert log_start_offsets(cluster, topic) == {0: 0, 1: 0, 2: 0}
    assert kafka_client.committed_offsets(planned.servers, group, [(topic, 2)]) == {(topic, 2): 1}


def test_apply_keeps_a_live_group(planned: Planned) -> None:
    """A member joins between plan and apply, so the group stays; records that it has read go."""
    with client.member(planned.servers, planned.group, [planned.topic]):
        statuses = {outcome.action.address.kind: outcome.status for outcome in planned.send()}
    assert statuses["GroupRemoval"] is Status.STALE
    assert statuses["RetentionFloor"] is Status.APPLIED


def test_apply_without_a_journal_topic_sends_nothing(
    cluster: SandboxCluster, connection: Connection, planned: Planned
) -> None:
    """Without the journal's topic apply attempts nothing, and nothing creates the topic by
    accident.
    """
    missing = f"_journal.missing.{planned.topic}"
    planned.journal = ActionJournal(JournalTopic(KafkaSession(connection), missing))
    outcomes = planned.send()
    assert {outcome.status for outcome in outcomes} == {Status.NOT_ATTEMPTED}
    assert missing in outcomes[0].detail
    assert log_start_offsets(cluster, planned.topic) == {0: 0, 1: 0, 2: 0}
    assert missing not in run_kafka_tool(cluster, "kafka-topics", "--list").split()


def test_offset_out_of_range_is_stale(cluster: SandboxCluster, planned: Planned) -> None:
    """Between check and request the topic is created again with fewer records; the broker refuses, and the new
    topic keeps all of them.

    DeleteRecords names a topic by name, not by id.
    """

    def recreate_topic() -> None:
        kafka_client.delete_topics(planned.servers, [planned.topic])
        planned.create_topic(records=3)

    intercept(planned.gateway, "delete_records", recreate_topic)
    (outcome,) = planned.send(RECORDS)
    assert (outcome.status, outcome.code, outcome.removed_max) == (Status.STALE, "OFFSET_OUT_OF_RANGE", 0)
    assert log_start_offsets(cluster, planned.topic)[0] == 0


@pytest.mark.parametrize(("index", "method"), [(RECORDS, "delete_records"), (LEADER, "elect_leaders")])
def test_a_deleted_topic_is_stale(planned: Planned, index: int, method: str) -> None:
    """After a deletion of the topic between check and request the client or the broker does not know the
    partition, for both operations.
    """
    intercept(planned.gateway, method, lambda: kafka_client.delete_topics(planned.servers, [planned.topic]))
    (outcome,) = planned.send(index)
    if outcome.code == "REQUEST_TIMED_OUT":
        # A broker's metadata changes before its replicas go: up to Kafka 3.8 it may still take the request.
        assert (outcome.status, outcome.read_back, outcome.removed_max) == (Status.FAILED, "gone", 6), outcome
        return
    assert outcome.status is Status.STALE, outcome
    assert outcome.code in ("UNKNOWN_TOPIC_OR_PARTITION", "_NOENT", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"), outcome
    assert outcome.removed_max == 0


def test_invalid_topic_is_failed(planned: Planned) -> None:
    """An internal topic loses nothing, even if a forged plan names it and no recheck runs."""
    servers, topic = planned.servers, CONSUMER_OFFSETS_TOPIC
    partitions = client.partition_states(servers, topic)
    at = next(TopicPartition(topic, n) for n in partitions if client.watermarks(servers, topic, n)[1] > 0)
    planned.actions = [deletion(planned.gateway.read_partitions([at], offsets=True)[at], 1)]
    (outcome,) = planned.send(RECORDS)
    assert (outcome.status, outcome.code, outcome.sends) == (Status.FAILED, "INVALID_TOPIC_EXCEPTION", 1)
    assert client.watermarks(servers, topic, at.partition)[0] == 0


def test_a_group_whose_tombstones_cannot_be_stored_is_not_called_removed(
    cluster: SandboxCluster, gateway: KafkaGateway, journal: ActionJournal
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
        (outcome,) = send([action], gateway, journal)
        assert (outcome.status, outcome.possible) == (Status.FAILED, True), outcome
        assert limit in outcome.detail if outcome.code == "NONE" else group in list_groups(cluster)
    finally:
        run_kafka_tool(cluster, "kafka-configs", *config, "--delete-config", limit)
        # Otherwise the rest of the group would block the floors of other tests.
        client.wait_until(lambda: fits(group), 30, "the leader to take such a batch")
        assert gateway.delete_groups([group])[group].code == "NONE"


def test_offsets_beyond_one_batch_of_the_consumer_offsets_are_restored(
    cluster: SandboxCluster, gateway: KafkaGateway, journal: ActionJournal
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
    outcomes = restore.restore(removed, restore.find_unwritable(removed, gateway), context(gateway, journal))
    assert {outcome.status for outcome in outcomes.values()} == {Status.APPLIED}
    assert gateway.read_groups([group])[group].offsets == offsets
