"""The witnesses of the fault trials can fail: what they lose and no plan announced is a violation."""

from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import kafka_version
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy
from tests.faults import witness as module
from tests.faults.verification import announced_losses, witness_violations
from tests.faults.witness import Gap, PartitionKey, Witness
from tests.strategies import examples
from tests.toolbox import log_start_offsets

RECORDS = 60
FLOOR = 30
PAUSE = 10
KEY = ("orders", 0)


def deletion(key: PartitionKey = KEY, **guard: object) -> DeleteRecords:
    """A planned deletion below FLOOR."""
    return examples.purge(*key, before_offset=FLOOR, log_start=0, end=RECORDS, **guard)


def witness(*gap: int, commits: bool = True, lost: bool = False) -> Witness:
    """A witness that has read nothing yet, or did not receive the records of this gap."""
    gaps = [Gap(KEY, *gap)] if gap else []
    return Witness("127.0.0.1:1", "w", {KEY: 0}, commits=commits, gaps=gaps, lost=lost)


def accepting(group: str, committed: int, key: PartitionKey = KEY, **guard: object) -> DeleteRecords:
    return deletion(key, consumers=LagPolicy.IGNORE, accepted=(AcceptedLag(group, committed),), **guard)


@pytest.mark.parametrize(
    ("actions", "announced"),
    [
        ([deletion(), accepting("v", 0, except_groups=("v*",)), accepting("w", 0, ("orders", 1))], range(0)),
        ([accepting("w", 12)], range(12, FLOOR)),
        ([deletion(except_groups=("w",))], range(FLOOR)),
    ],
    ids=["another group and another partition", "from the accepted position to the target", "of exceptGroups"],
)
def test_a_plan_announces_the_losses_of_the_groups_that_it_names(
    actions: list[DeleteRecords], announced: range
) -> None:
    assert announced_losses(actions, "w", KEY) == set(announced)


LOSSES: dict[str, tuple[Witness, list[DeleteRecords], str]] = {
    "announced": (witness(12, FLOOR), [accepting("w", 12)], ""),
    "one record before the announced ones": (witness(11, FLOOR), [accepting("w", 12)], "offsets 11 to 11"),
    "one record behind them": (witness(12, FLOOR + 1), [accepting("w", 12)], f"offsets {FLOOR} to {FLOOR}"),
    "not announced": (witness(0, FLOOR), [], f"offsets 0 to {FLOOR - 1}"),
    "a committed position stands": (witness(), [deletion()], ""),
    # Its group begins at the log start again.
    "a member without a commit loses what it has read": (
        witness(commits=False),
        [deletion()],
        f"offsets 0 to {FLOOR - 1}",
    ),
    "a lost membership without a commit protects nothing": (witness(commits=False, lost=True), [deletion()], ""),
}


@pytest.mark.parametrize(("reader", "actions", "lost"), LOSSES.values(), ids=LOSSES)
def test_what_a_witness_lost_and_no_plan_announced_is_a_violation(
    reader: Witness, actions: list[DeleteRecords], lost: str
) -> None:
    """Losses of a topic that the trial itself changed do not count."""
    sentences = list(witness_violations([reader], actions, {KEY: FLOOR}))
    assert len(sentences) == bool(lost)
    assert all(lost in sentence for sentence in sentences)
    assert list(witness_violations([reader], actions, {KEY: FLOOR}, changed_topics={KEY[0]})) == []


def create_topic(cluster: SandboxCluster, partitions: int = 1) -> str:
    """Create a topic with RECORDS records in each partition: a witness reads all of them."""
    topic = f"witnessed-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, partitions)])
    client.produce(cluster.bootstrap_servers, topic, dict.fromkeys(range(partitions), [Record(b"x")] * RECORDS))
    return topic


@pytest.fixture
def topic(cluster: SandboxCluster) -> str:
    return create_topic(cluster)


def starts_after_deletion(cluster: SandboxCluster, reader: Witness, key: PartitionKey) -> dict[PartitionKey, int]:
    """Delete as anyone may who asks no witness, let it read on, and return the log start offsets."""
    admin = client.admin_client(cluster.bootstrap_servers)  # a reference: the futures of a collected client fail
    for future in admin.delete_records([TopicPartition(*key, FLOOR)]).values():
        future.result(30)
    assert list(reader.read_to({key: RECORDS})) == []
    return {(key[0], number): offset for number, offset in log_start_offsets(cluster, key[0]).items()}


@pytest.mark.brokers
@pytest.mark.parametrize(
    "settings",
    [
        {"commits": False},
        {"commits": False, "protocol": "consumer"},
        {},
        {"transactional": True},
        {"joins": False},
    ],
    ids=["newcomer", "newcomer of the new protocol", "committing", "committing in transactions", "standalone"],
)
def test_a_deletion_that_ignores_a_witness_is_a_violation(
    cluster: SandboxCluster, topic: str, settings: dict[str, Any]
) -> None:
    """A plain admin client deletes records between its position and the target of a plan."""
    key = (topic, 0)
    reader = Witness(cluster.bootstrap_servers, f"witness-{topic}", {key: 0}, {key: PAUSE}, **settings)
    with reader.reading():
        client.wait_until(lambda: reader.expected[key] == PAUSE, 30, f"the witness at {PAUSE}")
        starts = starts_after_deletion(cluster, reader, key)
    violations = list(witness_violations([reader], [deletion(key)], starts))
    assert any(f"offsets {PAUSE} to {FLOOR - 1} of" in sentence for sentence in violations)
    assert list(witness_violations([reader], [accepting(reader.group, 0, key)], starts)) == []


@pytest.mark.brokers
def test_a_deletion_under_a_share_group_is_a_violation(cluster: SandboxCluster, topic: str) -> None:
    """Its position is not known, so it stands at the log start; its group goes with it."""
    if kafka_version(cluster) < (4, 2):
        pytest.skip("share groups are a preview there")
    key = (topic, 0)
    reader = Witness(cluster.bootstrap_servers, f"witness-{topic}", {key: 0}, commits=False, protocol="share")
    with reader.reading():
        starts = starts_after_deletion(cluster, reader, key)
    (sentence,) = witness_violations([reader], [deletion(key)], starts)
    assert f"offsets 0 to {FLOOR - 1} of" in sentence


@pytest.mark.brokers
def test_a_witness_that_goes_back_reads_again_from_there(cluster: SandboxCluster, topic: str) -> None:
    """Its commit is lower before it reads again, so a plan can see it there."""
    key = (topic, 0)
    reader = Witness(cluster.bootstrap_servers, f"witness-{topic}", {key: 5}, {key: PAUSE}, joins=False)
    with reader.reading():
        client.wait_until(lambda: reader.expected[key] == PAUSE, 30, f"the witness at {PAUSE}")
        reader.rewind({key: 2})
        assert list(reader.read_to({key: RECORDS})) == []
    assert reader.records == PAUSE - 5 + RECORDS - 2
    assert reader.gaps == []


@pytest.mark.brokers
@pytest.mark.parametrize("commits", [False, True])
def test_a_witness_that_stands_still_is_restarted(
    cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    """Of two partitions the client library never fetched one again after its leader had been away."""
    topic = create_topic(cluster, partitions=2)
    keys = [(topic, number) for number in range(2)]
    monkeypatch.setattr(module, "STALLED_S", 1)
    monkeypatch.setattr(Witness, "_resume", lambda *_arguments: None)
    starts = dict.fromkeys(keys, 0)
    reader = Witness(cluster.bootstrap_servers, f"witness-{topic}", starts, {keys[0]: PAUSE}, commits=commits)
    with reader.reading():
        client.wait_until(lambda: reader.expected == {keys[0]: PAUSE, keys[1]: RECORDS}, 30, "a paused partition")
        assert list(reader.read_to(dict.fromkeys(keys, RECORDS))) == []
    assert reader.restarts
    assert reader.gaps == []
