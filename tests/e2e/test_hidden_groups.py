"""Share, Streams-protocol and Connect groups on a real cluster: listings hide them, and a removal
would succeed.

Where a share group and a Streams group without a commit stand cannot be known. So a plan blocks the
topics that they read, and it never has a removal of one of them, whatever a manifest says.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pytest

from reconciler.companions.sandbox.tools import run_tool
from tests.e2e.raw_groups import join_group, join_streams_group, leave_streams_group
from tests.e2e.workspace import Workspace, blocks, floor, removal
from tests.kafka_client import remove_group
from tests.toolbox import group_types

pytestmark = pytest.mark.brokers


@dataclass(frozen=True)
class HiddenGroups:
    """Names of a topic, a group of each hidden type on it, and a group that may be removed."""

    topic: str
    share: str
    streams: str
    connect: str
    dead: str

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.share, self.streams, self.connect)


@pytest.fixture
def hidden_groups(space: Workspace) -> Iterator[HiddenGroups]:
    mark = uuid4().hex[:8]
    hidden_groups = HiddenGroups(*(f"{name}-{mark}" for name in ("hidden", "share", "streams", "connect", "dead")))
    topic = space.create_topic(name=hidden_groups.topic)
    # First, because a client that searches its coordinator creates __consumer_offsets.
    space.commit(hidden_groups.dead, topic)
    try:
        consumer = ("org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--timeout-ms", "3000")
        run_tool(space.cluster, *consumer, "--topic", topic, "--group", hidden_groups.share)
        join_streams_group(space.servers, hidden_groups.streams, topic)
        join_group(space.servers, hidden_groups.connect, "connect")
        yield hidden_groups
        leave_streams_group(space.servers, hidden_groups.streams)  # otherwise the coordinator waits 45 s for it
    finally:
        # An unreadable group would block the purges of all other tests on this cluster.
        for group in hidden_groups.groups:
            remove_group(space.servers, group)


def test_hidden_groups_block_purges_and_are_never_removed(space: Workspace, hidden_groups: HiddenGroups) -> None:
    """The broker knows the types, the program only the ids; no manifest can plan a removal.

    This holds for exact names and patterns, for EMPTY groups and others.
    """
    types, topic, dead = group_types(space.cluster), hidden_groups.topic, hidden_groups.dead
    assert [types[group] for group in hidden_groups.groups] == ["share", "streams", "classic"], types
    address, keep = f"RetentionFloor/floor/{topic}[0]", "keep: {last: 90}"
    exact_plan = space.plan(floor(topic, keep), removal(", ".join([*hidden_groups.groups, dead])))
    assert [row["address"] for row in exact_plan["actions"]] == [f"GroupRemoval/dead/{dead}"]
    blocked = blocks(exact_plan)
    assert (blocked[address]["code"], hidden_groups.share in blocked[address]["reason"]) == ("B211", True)
    for group in hidden_groups.groups:
        assert blocked[f"GroupRemoval/dead/{group}"]["code"] == "B302"
    blocked = blocks(space.plan(floor(topic, f"{keep}, exceptGroups: [{hidden_groups.share}]"), removal(dead)))
    assert blocked[address]["code"] == "B211"
    assert f'"{hidden_groups.streams}" is a Streams group without a commit' in blocked[address]["reason"]
    time.sleep(1.5)  # idleFor: 1s
    excepting = floor(topic, f"{keep}, exceptGroups: {json.dumps(hidden_groups.groups)}")
    pattern = removal(f'"*{dead.removeprefix("dead")}"', "idleFor: 1s, expectAtMost: 9")
    assert {row["address"] for row in space.plan(excepting, pattern)["actions"]} == {
        f"GroupRemoval/dead/{dead}",
        address,
    }, "exceptGroups allows the purge, and the pattern selects no hidden group"
