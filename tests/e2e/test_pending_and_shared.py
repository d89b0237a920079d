"""Consumers without a visible commit: commits in open transactions, rebalancing groups, and share groups.

A group whose first commit was in an open transaction was not a consumer, and a floor took 70 records that
it still needed. One share group anywhere blocked every floor of the cluster.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import kafka_version
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC
from tests.build import head
from tests.command import reconciler
from tests.e2e import raw_groups
from tests.e2e.test_unseen_consumers import blocks, read_plan, write_floor, write_manifests
from tests.kafka_client import committed_offsets, pending_commit, remove_group, share_member
from tests.toolbox import log_start_offsets

pytestmark = pytest.mark.brokers

RECORDS = 100
BLOCK, CLAMP, IGNORE = (f"keep: {{last: 10}}, consumers: {policy}" for policy in ("block", "clamp", "ignore"))


@pytest.fixture
def topic(cluster: SandboxCluster) -> str:
    """A topic of one partition with 100 records, on a cluster that has `__consumer_offsets`."""
    return create_topic(cluster)


def create_topic(cluster: SandboxCluster) -> str:
    topic = f"pending-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * RECORDS})
    client.commit(cluster.bootstrap_servers, f"done-{topic}", {(topic, 0): RECORDS})
    return topic


def target(folder: Path, cluster: SandboxCluster, topic: str, rule: str = CLAMP, *, exit_code: int = 0) -> int | str:
    """The first offset that a plan keeps, or the code of its block; 0: nothing may go."""
    write_floor(folder, cluster, topic, rule)
    plan = read_plan(folder, exit_code=exit_code)
    address = f"RetentionFloor/floor/{topic}[0]"
    if (block := blocks(plan).get(address)) is not None:
        return str(block["code"])
    return next((action["request"]["before_offset"] for action in plan["actions"]), 0)


# --- pending commits


def test_an_aborted_commit_behind_an_open_transaction_blocks_its_topic_only(
    cluster: SandboxCluster, topic: str, tmp_path: Path
) -> None:
    """Of two transactions in one partition of `__consumer_offsets` the first one hangs, the second is aborted.

    Once its group is gone, nothing but the aborted record names it: it blocked every floor of the cluster
    as long as the other transaction hung.
    """
    servers, other = cluster.bootstrap_servers, create_topic(cluster)
    partitions = len(client.partition_states(servers, CONSUMER_OFFSETS_TOPIC))
    hanging = f"hanging-{topic}"
    names = (f"eos-{topic}-{number}" for number in range(100 * partitions))
    group = next(name for name in names if log_partition(name, partitions) == log_partition(hanging, partitions))
    with pending_commit(servers, hanging, other, 20):
        with pending_commit(servers, group, other, 20):
            pass
        remove_group(servers, group)
        assert target(tmp_path, cluster, other, BLOCK) == "B204"
        assert target(tmp_path, cluster, topic, BLOCK) == 90
        assert reconciler(tmp_path, "apply", "plan.json").returncode == 0
        assert log_start_offsets(cluster, topic) == {0: 90}


def test_a_commit_below_0_is_no_position(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """Coordinators take any number, and Kafka's clients take one below 0 for none: the group reads the topic.

    -1 made it no consumer at all, and -5 one of all topics; neither group could be removed.
    """
    for number in (-1, -5):
        group, read = f"below-{number}-{topic}", create_topic(cluster)
        raw_groups.commit(cluster.bootstrap_servers, group, read, 0, number)
        assert target(tmp_path, cluster, read, BLOCK) == "B204"
        assert target(tmp_path, cluster, topic, BLOCK) == 90
        write_manifests(
            tmp_path, cluster, f"{head('GroupRemoval', 'dead')}\nspec: {{groups: [{group}], idleFor: 1s}}\n"
        )
        client.wait_until(lambda: read_plan(tmp_path)["actions"], 60, f"a plan that removes {group}", every_s=1.0)


def test_an_aborted_commit_keeps_no_group_for_ever(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """Its coordinator has one commit, and the log two keys: nobody could tell whether a right was missing.

    As long as the transaction is open, the group is in use, however old its record.
    """
    servers, group, other = cluster.bootstrap_servers, f"eos-{topic}", create_topic(cluster)
    client.commit(servers, group, {(topic, 0): 20})
    removal = f"{head('GroupRemoval', 'dead')}\nspec: {{groups: [{group}], idleFor: 1s}}\n"
    write_manifests(tmp_path, cluster, removal)
    with pending_commit(servers, group, other, 20):
        (block,) = blocks(read_plan(tmp_path)).values()
        assert (block["code"], "open transaction" in block["reason"]) == ("B304", True)
    client.wait_until(lambda: read_plan(tmp_path)["actions"], 60, f"a plan that removes {group}", every_s=1.0)


@pytest.mark.parametrize(("visible", "pending", "kept"), [(50, 20, 20), (50, 80, 50)], ids=["lower", "higher"])
def test_the_lower_of_both_commits_counts(
    cluster: SandboxCluster, topic: str, tmp_path: Path, visible: int, pending: int, kept: int
) -> None:
    """An application that goes back commits a lower offset; until the end of the transaction both are possible."""
    servers, group = cluster.bootstrap_servers, f"eos-{topic}"
    client.commit(servers, group, {(topic, 0): visible})
    with pending_commit(servers, group, topic, pending, commits=True):
        assert target(tmp_path, cluster, topic) == kept
    client.wait_until(
        lambda: committed_offsets(servers, group, [(topic, 0)]) == {(topic, 0): pending}, 30, "the commit to be visible"
    )
    assert target(tmp_path, cluster, topic) == pending


def test_a_transaction_holds_back_no_other_topic_and_no_other_group(
    cluster: SandboxCluster, topic: str, tmp_path: Path
) -> None:
    """A hanging transaction stops the last stable offset of its partition of `__consumer_offsets`.

    Plain commits of other groups behind it are visible, and the newest one is the position.
    """
    servers, other, hanging = cluster.bootstrap_servers, create_topic(cluster), f"hanging-{topic}"
    partitions = len(client.partition_states(servers, CONSUMER_OFFSETS_TOPIC))
    names = (f"plain-{topic}-{number}" for number in count())
    group = next(n for n in names if log_partition(n, partitions) == log_partition(hanging, partitions))
    with pending_commit(servers, hanging, other, 20):
        assert target(tmp_path, cluster, topic, BLOCK) == 90
        for offset in (30, 60):
            client.commit(servers, group, {(topic, 0): offset})
        assert target(tmp_path, cluster, topic) == 60


def test_a_commit_that_becomes_pending_after_the_recheck_stops_the_request(
    cluster: SandboxCluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look before the request reads the end of `__consumer_offsets` once more."""
    servers, group = cluster.bootstrap_servers, f"late-{topic}"
    assert target(tmp_path, cluster, topic, BLOCK) == 90
    answer = apply_after(
        monkeypatch, tmp_path, lambda stack: stack.enter_context(pending_commit(servers, group, topic, 20))
    )
    assert answer.returncode == 4, answer.stdout + answer.stderr
    assert group in answer.stdout
    assert log_start_offsets(cluster, topic) == {0: 0}


def apply_after(monkeypatch: pytest.MonkeyPatch, folder: Path, change: Any) -> Any:
    """Apply the plan, with a change of the cluster between the recheck and the look before the request."""
    read_consumers = KafkaGateway.read_consumers
    done = []
    with ExitStack() as stack:

        def change_first(self: KafkaGateway, *arguments: Any, **more: Any) -> Any:
            if not done:
                done.append(change(stack))
            return read_consumers(self, *arguments, **more)

        monkeypatch.setattr(KafkaGateway, "read_consumers", change_first)
        answer = reconciler(folder, "apply", "plan.json")
    assert done
    return answer


# --- groups that rebalance


def test_a_rebalancing_group_blocks_the_topics_of_its_last_generation_only(
    cluster: SandboxCluster, topic: str, tmp_path: Path
) -> None:
    """A consumer that does not poll rejoins after max.poll.interval.ms. It blocked every floor until then."""
    servers, read = cluster.bootstrap_servers, create_topic(cluster)
    properties = {"bootstrap.servers": servers, "group.id": f"slow-{read}", "auto.offset.reset": "earliest"}
    with closing(Consumer(properties)) as slow, closing(Consumer(properties)) as joining:
        slow.subscribe([read])
        assert slow.poll(30) is not None
        joining.subscribe([read])
        assert joining.poll(2) is None
        assert target(tmp_path, cluster, read, BLOCK, exit_code=1) == "B211"
        assert target(tmp_path, cluster, topic, BLOCK) == 90
        assert reconciler(tmp_path, "apply", "plan.json").returncode == 0
        assert log_start_offsets(cluster, topic) == {0: 90}


# --- Streams groups


def test_a_streams_group_reads_the_topics_of_its_topology(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """Without a commit it blocked every floor. With one on another topic it lost what it had not read yet."""
    servers, read, other = cluster.bootstrap_servers, create_topic(cluster), create_topic(cluster)
    group = f"app-{read}"
    if kafka_version(cluster) < (4, 2):
        pytest.skip("groups of the Streams protocol need Kafka 4.2")
    raw_groups.join_streams_group(servers, group, read)
    assert target(tmp_path, cluster, read, BLOCK, exit_code=1) == "B211"
    assert target(tmp_path, cluster, topic, BLOCK) == 90
    raw_groups.leave_streams_group(servers, group)
    remove_group(servers, group)
    client.commit(servers, group, {(other, 0): RECORDS})
    raw_groups.join_streams_group(servers, group, read)
    assert [target(tmp_path, cluster, name, BLOCK) for name in (read, topic)] == ["B204", 90]
    raw_groups.leave_streams_group(servers, group)
    assert target(tmp_path, cluster, read, BLOCK) == 90
    remove_group(servers, group)


# --- share groups


@pytest.fixture
def share_group(cluster: SandboxCluster, topic: str) -> Iterator[str]:
    """The name of a share group; it is removed at the end, because its topics stay blocked."""
    if kafka_version(cluster) < (4, 1):
        pytest.skip("no share groups before Kafka 4.1")
    group = f"share-{topic}"
    yield group
    remove_group(cluster.bootstrap_servers, group)


def test_a_share_group_blocks_its_topics_only(
    cluster: SandboxCluster, topic: str, share_group: str, tmp_path: Path
) -> None:
    """Those that its members subscribe to, and those that it has a position on once they have left.

    `consumers: ignore` blocks there, too: nothing says what the group would lose.
    """
    servers, second, other, to_come = (
        cluster.bootstrap_servers,
        create_topic(cluster),
        create_topic(cluster),
        f"to-come-{topic}",
    )
    with share_member(servers, share_group, [topic]):
        assert target(tmp_path, cluster, topic, BLOCK) == "B211"
        assert target(tmp_path, cluster, topic, IGNORE) == "B211"
        assert target(tmp_path, cluster, other, BLOCK) == 90
    with share_member(servers, share_group, [second, to_come]):
        assert [target(tmp_path, cluster, name) for name in (topic, second, other)] == ["B211", "B211", 90]
    assert [target(tmp_path, cluster, name) for name in (topic, second, other)] == ["B211", "B211", 90]
    assert target(tmp_path, cluster, topic, f"{BLOCK}, exceptGroups: [{share_group}]") == 90
    remove_group(servers, share_group)
    assert [target(tmp_path, cluster, name) for name in (topic, second)] == [90, 90]


def test_a_share_group_that_waits_for_its_topic_blocks_no_other(
    cluster: SandboxCluster, topic: str, share_group: str, tmp_path: Path
) -> None:
    """It has a member and no position: only the key of the member says what it reads."""
    with share_member(cluster.bootstrap_servers, share_group, [f"to-come-{topic}"]):
        assert target(tmp_path, cluster, topic, BLOCK) == 90
        answer = reconciler(tmp_path, "apply", "plan.json")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert log_start_offsets(cluster, topic) == {0: 90}


@pytest.mark.parametrize("knows_group", [False, True], ids=["a new group", "a group of another topic"])
def test_a_share_group_that_subscribes_after_the_recheck_stops_the_request(
    cluster: SandboxCluster,
    topic: str,
    share_group: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    knows_group: bool,
) -> None:
    """The records of share groups since the recheck are read before the request."""
    servers = cluster.bootstrap_servers
    if knows_group:
        with share_member(servers, share_group, [create_topic(cluster)]):
            pass
    assert target(tmp_path, cluster, topic, BLOCK) == 90
    answer = apply_after(
        monkeypatch, tmp_path, lambda stack: stack.enter_context(share_member(servers, share_group, [topic]))
    )
    assert answer.returncode == 4, answer.stdout + answer.stderr
    assert share_group in answer.stdout
    assert log_start_offsets(cluster, topic) == {0: 0}
