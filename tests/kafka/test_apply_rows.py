"""Rows of the error table with real brokers: the cluster changes between the last check and the
request.

The gateway is the real one. A wrapper changes the cluster immediately before the request goes to
the brokers.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as ClientPartition

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import admin_client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Election, ItemResult
from reconciler.operations.delete_records import DeleteRecords
from tests import kafka_client
from tests.kafka.test_apply import connection, create_disorder, plan_actions, send
from tests.toolbox import await_leader, log_start_offsets, partition_leaders

pytestmark = pytest.mark.brokers


class ChangingGateway:
    """A gateway to real brokers that changes the cluster before its first write."""

    def __init__(self, real: KafkaGateway, change: Callable[[], None]) -> None:
        self._real = real
        self._changes = [change]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemResult]:
        self._change()
        return self._real.delete_records(before_offsets)

    def delete_groups(self, groups: Sequence[str]) -> Mapping[str, ItemResult]:
        self._change()
        return self._real.delete_groups(groups)

    def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ItemResult]:
        self._change()
        return self._real.elect_leaders(election, partitions)

    def _change(self) -> None:
        if self._changes:
            self._changes.pop()()


@pytest.fixture
def gateway(cluster: SandboxCluster) -> Iterator[KafkaGateway]:
    gateway = KafkaGateway(KafkaSession(connection(cluster)))
    yield gateway
    gateway.session.close()


RECORDS, GROUP, LEADER = 0, 1, 2


def apply_after(
    gateway: KafkaGateway, index: int, actions: list[Any], folder: Path, change: Callable[[], None]
) -> Outcome:
    journal = ActionJournal(JournalFile(folder / "journal.jsonl"))
    (outcome,) = send([actions[index]], ChangingGateway(gateway, change), journal)  # type: ignore[arg-type]
    return outcome


def test_offset_out_of_range_is_stale(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> None:
    """The topic is created again with fewer records; the broker refuses, and the new topic keeps
    all of them.

    DeleteRecords names a topic by name, not by id.
    """
    topic, group, _ = create_disorder(cluster)
    actions = plan_actions(gateway, topic, group, 6)
    servers = cluster.bootstrap_servers

    def recreate_topic() -> None:
        kafka_client.delete_topics(servers, [topic])
        client.create_topics(servers, [client.Topic(topic, 3, 3)])
        client.produce(servers, topic, {0: [client.Record(b"x")] * 3})

    outcome = apply_after(gateway, RECORDS, actions, tmp_path, recreate_topic)
    assert (outcome.status, outcome.code, outcome.removed_max) == (Status.STALE, "OFFSET_OUT_OF_RANGE", 0)
    assert log_start_offsets(cluster, topic)[0] == 0


def test_a_deleted_topic_is_stale(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> None:
    """After a deletion of the topic the client or the broker does not know the partition, for both
    operations.
    """
    for index in (RECORDS, LEADER):
        topic, group, _ = create_disorder(cluster)
        actions = plan_actions(gateway, topic, group, 6)
        deleted_topics = [topic]
        outcome = apply_after(
            gateway,
            index,
            actions,
            tmp_path,
            lambda deleted_topics=deleted_topics: kafka_client.delete_topics(cluster.bootstrap_servers, deleted_topics),
        )
        if outcome.code == "REQUEST_TIMED_OUT":
            # A broker's metadata changes before its replicas go: up to Kafka 3.8 it may still take the request.
            assert (outcome.status, outcome.read_back, outcome.removed_max) == (Status.FAILED, "gone", 6), outcome
            continue
        assert outcome.status is Status.STALE, outcome
        assert outcome.code in ("UNKNOWN_TOPIC_OR_PARTITION", "_NOENT", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"), outcome
        assert outcome.removed_max == 0


def test_policy_violation_is_failed(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> None:
    """A topic that is only compacted fails at once, and the other topic of the request is
    truncated.
    """
    topic, group, _ = create_disorder(cluster)
    compacted = f"compacted-{uuid.uuid4().hex[:12]}"
    servers = cluster.bootstrap_servers
    leader = client.partition_states(servers, topic)[0].leader
    replicas = (leader, *(number for number in (1, 2, 3) if number != leader))
    client.create_topics(
        servers, [client.Topic(compacted, configs={"cleanup.policy": "compact"}, assignment=(replicas,))]
    )
    client.produce(servers, compacted, {0: [client.Record(b"x", b"key")] * 10})
    valid = plan_actions(gateway, topic, group, 6)[RECORDS]
    assert isinstance(valid, DeleteRecords)
    invalid = with_partition(gateway, valid, TopicPartition(compacted, 0))
    first_outcome, second_outcome = send(
        [invalid, valid], gateway, ActionJournal(JournalFile(tmp_path / "journal.jsonl"))
    )
    outcomes = {outcome.action: outcome for outcome in (first_outcome, second_outcome)}
    assert (outcomes[invalid].status, outcomes[invalid].code, outcomes[invalid].sends) == (
        Status.FAILED,
        "POLICY_VIOLATION",
        1,
    )
    assert outcomes[valid].status is Status.APPLIED
    assert log_start_offsets(cluster, compacted)[0] == 0


def test_invalid_topic_is_failed(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> None:
    """An internal topic loses nothing, even if a forged plan names it and no recheck runs."""
    topic, group, _ = create_disorder(cluster)
    valid = plan_actions(gateway, topic, group, 6)[RECORDS]
    assert isinstance(valid, DeleteRecords)
    internal_topic = "__consumer_offsets"
    servers = cluster.bootstrap_servers
    partitions = client.partition_states(servers, internal_topic)
    partition = next(number for number in partitions if client.watermarks(servers, internal_topic, number)[1] > 0)
    forged = replace(with_partition(gateway, valid, TopicPartition(internal_topic, partition)), before_offset=1)
    (outcome,) = send([forged], gateway, ActionJournal(JournalFile(tmp_path / "journal.jsonl")))
    assert (outcome.status, outcome.code, outcome.sends) == (Status.FAILED, "INVALID_TOPIC_EXCEPTION", 1)
    assert client.watermarks(servers, internal_topic, partition)[0] == 0


def with_partition(gateway: KafkaGateway, action: DeleteRecords, partition: TopicPartition) -> DeleteRecords:
    facts: Any = gateway.read_partitions([partition], offsets=True)[partition]
    observed = replace(
        action.seen,
        topic_id=facts.topic_id,
        log_start=facts.log_start,
        high_watermark=facts.high_watermark,
        leader=facts.leader,
        replicas=facts.replicas,
    )
    return replace(
        action,
        address=Address("RetentionFloor", "floor", partition.topic, partition.partition),
        partition=partition,
        seen=observed,
    )


def test_non_empty_group_is_stale(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> None:
    """A member joins between check and request: the broker refuses, and the group keeps its
    commits.
    """
    topic, group, bystander = create_disorder(cluster)
    actions = plan_actions(gateway, topic, group, 6)
    members = []

    def join() -> None:
        member = client.member(cluster.bootstrap_servers, group, [topic])
        member.__enter__()
        members.append(member)

    try:
        outcome = apply_after(gateway, GROUP, actions, tmp_path, join)
    finally:
        for member in members:
            member.__exit__(None, None, None)
    assert (outcome.status, outcome.code) == (Status.STALE, "NON_EMPTY_GROUP")
    assert kafka_client.committed_offsets(cluster.bootstrap_servers, group, [(topic, 0)])[topic, 0] is not None
    assert bystander != group


def test_group_id_not_found_is_satisfied(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> None:
    """Another client removes the group between check and request: satisfied, not applied."""
    topic, group, _ = create_disorder(cluster)
    actions = plan_actions(gateway, topic, group, 6)
    admin = admin_client(cluster.bootstrap_servers)

    def remove_group() -> None:
        admin.delete_consumer_groups([group])[group].result(timeout=30)

    outcome = apply_after(gateway, GROUP, actions, tmp_path, remove_group)
    assert (outcome.status, outcome.code) == (Status.SATISFIED, "GROUP_ID_NOT_FOUND")


def test_election_not_needed_is_satisfied(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> None:
    """Another client elects between check and request: satisfied, not applied."""
    topic, group, _ = create_disorder(cluster)
    actions = plan_actions(gateway, topic, group, 6)
    admin = admin_client(cluster.bootstrap_servers)

    def elect() -> None:
        admin.elect_leaders(ElectionType.PREFERRED, [ClientPartition(topic, 1)]).result(timeout=30)

    outcome = apply_after(gateway, LEADER, actions, tmp_path, elect)
    assert (outcome.status, outcome.code) == (Status.SATISFIED, "ELECTION_NOT_NEEDED")


def test_preferred_leader_not_available_waits(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> None:
    """The preferred leader's broker ends between check and request: waiting, which is not a failure.

    After the broker's restart the same action is applied.
    """
    topic, group, _ = create_disorder(cluster)
    actions = plan_actions(gateway, topic, group, 6)
    preferred = partition_leaders(cluster, topic)[1][1]
    try:
        outcome = apply_after(gateway, LEADER, actions, tmp_path, lambda: cluster.terminate(preferred))
    finally:
        cluster.restart(preferred)
    assert (outcome.status, outcome.code) == (Status.WAITING, "PREFERRED_LEADER_NOT_AVAILABLE")
    # Stale, and sent to no broker, until the broker that the gateway asks shows the replica in sync.
    deadline_s = time.monotonic() + 90
    second_outcome = outcome
    while second_outcome.status in (Status.WAITING, Status.STALE) and time.monotonic() < deadline_s:
        time.sleep(0.5)
        gateway.refresh()
        (second_outcome,) = send([actions[LEADER]], gateway, ActionJournal(JournalFile(tmp_path / "journal.jsonl")))
    assert second_outcome.status in (Status.APPLIED, Status.SATISFIED), second_outcome.detail
    await_leader(cluster, topic, 1, preferred)
