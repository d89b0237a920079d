"""Rows of the error table with real brokers: the cluster changes between the last check and the
request.

The gateway is the real one. A wrapper changes the cluster immediately before the request goes to
the brokers.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import admin_client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.kafka.gateway import KafkaGateway
from reconciler.model.action import Action
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Election, ItemResult
from reconciler.operations.delete_records import DeleteRecords
from tests import kafka_client
from tests.kafka.test_apply import create_disorder, plan_actions, send
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


RECORDS, GROUP, LEADER = 0, 1, 2


class Planned:
    """A topic in disorder, a dead group, and an action of each operation, as planned."""

    def __init__(self, cluster: SandboxCluster, gateway: KafkaGateway, folder: Path) -> None:
        self.servers, self._gateway = cluster.bootstrap_servers, gateway
        self.topic, self.group, _ = create_disorder(cluster)
        self.actions: list[Any] = plan_actions(gateway, self.topic, self.group, 6)
        self._journal = ActionJournal(JournalFile(folder / "journal.jsonl"))

    def apply_after(self, index: int, change: Callable[[], None]) -> Outcome:
        """Apply one action, with a change of the cluster before its request."""
        gateway: Any = ChangingGateway(self._gateway, change)
        (outcome,) = send([self.actions[index]], gateway, self._journal)
        return outcome

    def send(self, *actions: Action) -> list[Outcome]:
        return send(list(actions), self._gateway, self._journal)


@pytest.fixture
def planned(cluster: SandboxCluster, gateway: KafkaGateway, tmp_path: Path) -> Planned:
    return Planned(cluster, gateway, tmp_path)


def test_offset_out_of_range_is_stale(cluster: SandboxCluster, planned: Planned) -> None:
    """The topic is created again with fewer records; the broker refuses, and the new topic keeps
    all of them.

    DeleteRecords names a topic by name, not by id.
    """
    topic, servers = planned.topic, planned.servers

    def recreate_topic() -> None:
        kafka_client.delete_topics(servers, [topic])
        client.create_topics(servers, [client.Topic(topic, 3, 3)])
        client.produce(servers, topic, {0: [client.Record(b"x")] * 3})

    outcome = planned.apply_after(RECORDS, recreate_topic)
    assert (outcome.status, outcome.code, outcome.removed_max) == (Status.STALE, "OFFSET_OUT_OF_RANGE", 0)
    assert log_start_offsets(cluster, topic)[0] == 0


@pytest.mark.parametrize("index", [RECORDS, LEADER])
def test_a_deleted_topic_is_stale(planned: Planned, index: int) -> None:
    """After a deletion of the topic the client or the broker does not know the partition, for both
    operations.
    """
    outcome = planned.apply_after(index, lambda: kafka_client.delete_topics(planned.servers, [planned.topic]))
    if outcome.code == "REQUEST_TIMED_OUT":
        # A broker's metadata changes before its replicas go: up to Kafka 3.8 it may still take the request.
        assert (outcome.status, outcome.read_back, outcome.removed_max) == (Status.FAILED, "gone", 6), outcome
        return
    assert outcome.status is Status.STALE, outcome
    assert outcome.code in ("UNKNOWN_TOPIC_OR_PARTITION", "_NOENT", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"), outcome
    assert outcome.removed_max == 0


def test_policy_violation_is_failed(cluster: SandboxCluster, gateway: KafkaGateway, planned: Planned) -> None:
    """A topic that is only compacted fails at once, and the other topic of the request is
    truncated.
    """
    compacted, servers, valid = f"compacted-{planned.topic}", planned.servers, planned.actions[RECORDS]
    leader = client.partition_states(servers, planned.topic)[0].leader
    replicas = (leader, *(number for number in (1, 2, 3) if number != leader))
    client.create_topics(
        servers, [client.Topic(compacted, configs={"cleanup.policy": "compact"}, assignment=(replicas,))]
    )
    client.produce(servers, compacted, {0: [client.Record(b"x", b"key")] * 10})
    invalid = with_partition(gateway, valid, TopicPartition(compacted, 0))
    outcomes = {outcome.action: outcome for outcome in planned.send(invalid, valid)}
    assert (outcomes[invalid].status, outcomes[invalid].code, outcomes[invalid].sends) == (
        Status.FAILED,
        "POLICY_VIOLATION",
        1,
    )
    assert outcomes[valid].status is Status.APPLIED
    assert log_start_offsets(cluster, compacted)[0] == 0


def test_invalid_topic_is_failed(gateway: KafkaGateway, planned: Planned) -> None:
    """An internal topic loses nothing, even if a forged plan names it and no recheck runs."""
    internal_topic, servers, valid = "__consumer_offsets", planned.servers, planned.actions[RECORDS]
    partitions = client.partition_states(servers, internal_topic)
    partition = next(number for number in partitions if client.watermarks(servers, internal_topic, number)[1] > 0)
    forged = replace(with_partition(gateway, valid, TopicPartition(internal_topic, partition)), before_offset=1)
    (outcome,) = planned.send(forged)
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


def test_non_empty_group_is_stale(planned: Planned) -> None:
    """A member joins between check and request: the broker refuses, and the group keeps its
    commits.
    """
    topic, group = planned.topic, planned.group
    with ExitStack() as stack:
        member = client.member(planned.servers, group, [topic])
        outcome = planned.apply_after(GROUP, lambda: stack.enter_context(member))
    assert (outcome.status, outcome.code) == (Status.STALE, "NON_EMPTY_GROUP")
    assert kafka_client.committed_offsets(planned.servers, group, [(topic, 0)])[topic, 0] is not None


def remove_group(admin: AdminClient, planned: Planned) -> None:
    admin.delete_consumer_groups([planned.group])[planned.group].result(timeout=30)


def elect(admin: AdminClient, planned: Planned) -> None:
    admin.elect_leaders(ElectionType.PREFERRED, [ClientPartition(planned.topic, 1)]).result(timeout=30)


@pytest.mark.parametrize(
    ("index", "change", "code"),
    [(GROUP, remove_group, "GROUP_ID_NOT_FOUND"), (LEADER, elect, "ELECTION_NOT_NEEDED")],
    ids=["removed", "elected"],
)
def test_what_another_client_has_done_is_satisfied(
    planned: Planned, index: int, change: Callable[[AdminClient, Planned], None], code: str
) -> None:
    """It does so between check and request: satisfied, not applied."""
    admin = admin_client(planned.servers)
    outcome = planned.apply_after(index, lambda: change(admin, planned))
    assert (outcome.status, outcome.code) == (Status.SATISFIED, code)


def test_preferred_leader_not_available_waits(cluster: SandboxCluster, gateway: KafkaGateway, planned: Planned) -> None:
    """The preferred leader's broker ends between check and request: waiting, which is not a failure.

    After the broker's restart the same action is applied.
    """
    preferred = partition_leaders(cluster, planned.topic)[1][1]
    try:
        outcome = planned.apply_after(LEADER, lambda: cluster.terminate(preferred))
    finally:
        cluster.restart(preferred)
    assert (outcome.status, outcome.code) == (Status.WAITING, "PREFERRED_LEADER_NOT_AVAILABLE")
    # Stale, and sent to no broker, until the broker that the gateway asks shows the replica in sync.
    deadline_s = time.monotonic() + 90
    second_outcome = outcome
    while second_outcome.status in (Status.WAITING, Status.STALE) and time.monotonic() < deadline_s:
        time.sleep(0.5)
        gateway.refresh()
        (second_outcome,) = planned.send(planned.actions[LEADER])
    assert second_outcome.status in (Status.APPLIED, Status.SATISFIED), second_outcome.detail
    await_leader(cluster, planned.topic, 1, preferred)
