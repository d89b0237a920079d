"""Groups that no list of consumer groups shows: Streams, Connect, and a group without a name.

A Streams-protocol group has positions, which count like those of any other group. A Connect group
has none, those of a group without a name cannot be read, and they no longer block the purges of a
whole cluster.
"""

from collections.abc import Iterator

import pytest

from reconciler.companions.sandbox.tools import kafka_version
from tests.e2e import raw_groups
from tests.e2e.workspace import Workspace, blocks, floor, removal, targets
from tests.kafka_client import remove_group, share_member
from tests.toolbox import group_types

LAST = "keep: {last: 10}"
REMOVAL = "idleFor: 1s, expectAtMost: 1000"


def assert_is_never_removed(space: Workspace, group: str) -> None:
    """No exact name and no pattern plans a removal, which the brokers would carry out."""
    assert space.plan(removal(f'"{group}*"', REMOVAL))["actions"] == []
    plan = space.plan(removal(group, "idleFor: 0s"))
    assert plan["actions"] == []
    assert blocks(plan)[f"GroupRemoval/dead/{group}"]["code"] == "B302"


@pytest.fixture
def streams_group(space: Workspace, topic: str) -> Iterator[str]:
    """A stopped Streams application that has read 30 records of the topic."""
    group = f"streams-{topic}"
    raw_groups.join_streams_group(space.servers, group, topic)
    raw_groups.leave_streams_group(space.servers, group)
    raw_groups.commit(space.servers, group, topic, 0, 30)
    assert group_types(space.cluster)[group] == "streams"
    yield group
    raw_groups.delete(space.servers, group)


def test_a_streams_group_has_a_position(space: Workspace, topic: str, streams_group: str) -> None:
    """It blocks a floor above its position and vouches for one below it; its removal stays refused.

    Its type once left the scan with the rows that no policy needs, and it blocked every floor.
    """
    blocked = blocks(space.plan(floor(topic, LAST)))[f"RetentionFloor/floor/{topic}[0]"]
    assert blocked["code"] == "B204"
    assert f'group "{streams_group}" is at 30' in blocked["reason"]
    assert targets(space.plan(floor(topic, f"keep: {{unreadBy: [{streams_group}]}}, consumers: clamp"))) == [30]
    space.apply()
    assert space.log_start(topic) == 30
    assert_is_never_removed(space, streams_group)


def test_a_share_group_is_never_removed(space: Workspace, topic: str) -> None:
    """Its type is in no list that the program reads; test_pending_and_shared.py has the floors that it blocks."""
    if kafka_version(space.cluster) < (4, 1):
        pytest.skip("no share groups before Kafka 4.1")
    group = f"share-{topic}"
    try:
        with share_member(space.servers, group, [topic]):
            assert group_types(space.cluster)[group] == "share"
            assert_is_never_removed(space, group)
        assert_is_never_removed(space, group)
    finally:
        remove_group(space.servers, group)


def test_a_streams_group_without_a_commit_blocks(space: Workspace, topic: str) -> None:
    """Its members cannot be described, so it may have joined and be about to read from the log start."""
    group, address = f"starting-{topic}", f"RetentionFloor/floor/{topic}[0]"
    raw_groups.join_streams_group(space.servers, group, topic)
    try:
        plan = space.plan(floor(topic, LAST), code=1)
        plan_without_group = space.plan(floor(topic, f"{LAST}, exceptGroups: [{group}]"))
        assert_is_never_removed(space, group)
    finally:
        raw_groups.leave_streams_group(space.servers, group)
        raw_groups.delete(space.servers, group)
    assert plan["actions"] == []
    assert blocks(plan)[address]["code"] == "B211"
    assert f'"{group}" is a Streams group without a commit' in blocks(plan)[address]["reason"]
    assert [action["address"] for action in plan_without_group["actions"]] == [address]


def test_groups_that_never_commit_block_no_floor(space: Workspace, topic: str) -> None:
    """A Connect worker's group and a group without a name, which are never removed either."""
    connect, address = f"connect-{topic}", f"GroupRemoval/dead/connect-{topic}"
    raw_groups.commit(space.servers, "", topic, 0, 5)
    try:
        raw_groups.join_group(space.servers, connect, "connect")
        assert group_types(space.cluster)[connect] == "classic", "its protocol is Connect's"
        plan = space.plan(floor(topic, LAST))
        raw_groups.join_group(space.servers, connect, "connect")
        space.apply()
        raw_groups.join_group(space.servers, connect, "connect")
        removals = space.plan(removal(f'"*", {connect}', REMOVAL))
    finally:
        raw_groups.delete(space.servers, "")
    assert targets(plan) == [90]
    assert space.log_start(topic) == 90
    assert not {"GroupRemoval/dead/", address} & {action["address"] for action in removals["actions"]}
    assert blocks(removals)[address]["code"] == "B302"
