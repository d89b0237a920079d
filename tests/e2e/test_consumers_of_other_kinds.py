"""Groups that no list of consumer groups shows: Streams, Connect, and a group without a name.

A Streams-protocol group has positions, which count like those of any other group. A Connect group
has none, those of a group without a name cannot be read, and they no longer block the purges of a
whole cluster.
"""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from tests.build import head
from tests.command import reconciler
from tests.e2e import raw_groups
from tests.e2e.test_unseen_consumers import blocks, read_plan, write_floor, write_manifests
from tests.toolbox import log_start_offsets, run_kafka_tool

pytestmark = pytest.mark.brokers

RECORDS = 100
REMOVAL = head("GroupRemoval", "dead") + "\nspec: {groups: %s, idleFor: 1s, expectAtMost: 1000}\n"


@pytest.fixture
def topic(cluster: SandboxCluster) -> str:
    topic = f"kinds-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * RECORDS})
    # Creates __consumer_offsets on a new cluster.
    client.commit(cluster.bootstrap_servers, f"reader-{topic}", {(topic, 0): RECORDS})
    return topic


def group_types(cluster: SandboxCluster) -> dict[str, str]:
    """The type of each group, from kafka-groups."""
    listing = run_kafka_tool(cluster, "kafka-groups", "--list")
    return {cells[0]: cells[1].lower() for line in listing.splitlines() if len(cells := line.split()) > 2}


@pytest.fixture
def streams_group(cluster: SandboxCluster, topic: str) -> Iterator[str]:
    """A stopped Streams application that has read 30 records of the topic."""
    group = f"streams-{topic}"
    raw_groups.join_streams_group(cluster.bootstrap_servers, group, topic)
    raw_groups.leave_streams_group(cluster.bootstrap_servers, group)
    raw_groups.commit(cluster.bootstrap_servers, group, topic, 0, 30)
    assert group_types(cluster)[group] == "streams"
    yield group
    raw_groups.delete(cluster.bootstrap_servers, group)


def test_a_streams_group_has_a_position(
    cluster: SandboxCluster, topic: str, streams_group: str, tmp_path: Path
) -> None:
    """It blocks a floor above its position and vouches for one below it; its removal stays refused.

    Its type once left the scan with the rows that no policy needs, and it blocked every floor.
    """
    address = f"RetentionFloor/floor/{topic}[0]"
    write_floor(tmp_path, cluster, topic, "keep: {last: 10}, consumers: block")
    blocked = blocks(read_plan(tmp_path))[address]
    assert blocked["code"] == "B204"
    assert f'group "{streams_group}" is at 30' in blocked["reason"]
    write_floor(tmp_path, cluster, topic, f"keep: {{unreadBy: [{streams_group}]}}, consumers: clamp")
    (action,) = read_plan(tmp_path)["actions"]
    assert action["request"]["before_offset"] == 30
    answer = reconciler(tmp_path, "apply", "plan.json")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert log_start_offsets(cluster, topic) == {0: 30}
    write_manifests(tmp_path, cluster, REMOVAL % f"[{streams_group}]")
    plan = read_plan(tmp_path)
    assert plan["actions"] == []
    assert blocks(plan)[f"GroupRemoval/dead/{streams_group}"]["code"] == "B302"


def test_a_streams_group_without_a_commit_blocks(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """Its members cannot be described, so it may have joined and be about to read from the log start."""
    group, address = f"starting-{topic}", f"RetentionFloor/floor/{topic}[0]"
    raw_groups.join_streams_group(cluster.bootstrap_servers, group, topic)
    try:
        write_floor(tmp_path, cluster, topic, "keep: {last: 10}, consumers: block")
        plan = read_plan(tmp_path, exit_code=1)
        write_floor(tmp_path, cluster, topic, f"keep: {{last: 10}}, consumers: block, exceptGroups: [{group}]")
        plan_without_group = read_plan(tmp_path)
    finally:
        raw_groups.leave_streams_group(cluster.bootstrap_servers, group)
        raw_groups.delete(cluster.bootstrap_servers, group)
    assert plan["actions"] == []
    assert blocks(plan)[address]["code"] == "B211"
    assert group in blocks(plan)[address]["reason"]
    assert [action["address"] for action in plan_without_group["actions"]] == [address]


def test_groups_that_never_commit_block_no_floor(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """A Connect worker's group and a group without a name, which are never removed either."""
    connect = f"connect-{topic}"
    raw_groups.commit(cluster.bootstrap_servers, "", topic, 0, 5)
    try:
        write_floor(tmp_path, cluster, topic, "keep: {last: 10}, consumers: block")
        raw_groups.join_group(cluster.bootstrap_servers, connect, "connect")
        (action,) = read_plan(tmp_path)["actions"]
        raw_groups.join_group(cluster.bootstrap_servers, connect, "connect")
        answer = reconciler(tmp_path, "apply", "plan.json")
        write_manifests(tmp_path, cluster, REMOVAL % f'["*", {connect}]')
        raw_groups.join_group(cluster.bootstrap_servers, connect, "connect")
        removals = read_plan(tmp_path)
    finally:
        raw_groups.delete(cluster.bootstrap_servers, "")
    assert action["request"]["before_offset"] == 90
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert log_start_offsets(cluster, topic) == {0: 90}
    assert not {"GroupRemoval/dead/", f"GroupRemoval/dead/{connect}"} & {a["address"] for a in removals["actions"]}
    assert blocks(removals)[f"GroupRemoval/dead/{connect}"]["code"] == "B302"
