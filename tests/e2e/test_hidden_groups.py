"""Share, Streams-protocol and Connect groups on a real cluster: listings hide them, and a removal
would succeed.

Where a share group and a Streams group without a commit stand cannot be known. So a plan blocks the
topics that they read, and it never has a removal of one of them, whatever a manifest says.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import run_tool
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.session import KafkaSession
from tests.build import head, write_manifests
from tests.command import reconciler
from tests.e2e.raw_groups import join_group, join_streams_group, leave_streams_group
from tests.toolbox import run_kafka_tool

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
def hidden_groups(cluster: SandboxCluster) -> Iterator[HiddenGroups]:
    mark = uuid4().hex[:8]
    hidden_groups = HiddenGroups(*(f"{name}-{mark}" for name in ("hidden", "share", "streams", "connect", "dead")))
    servers = cluster.bootstrap_servers
    client.create_topics(servers, [Topic(hidden_groups.topic)])
    client.produce(servers, hidden_groups.topic, {0: [Record(b"x")] * 100})
    consumer = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    # First, because a client that searches its coordinator creates __consumer_offsets.
    client.commit(servers, hidden_groups.dead, {(hidden_groups.topic, 0): 100})
    try:
        run_tool(
            cluster, consumer, "--topic", hidden_groups.topic, "--group", hidden_groups.share, "--timeout-ms", "3000"
        )
        join_streams_group(servers, hidden_groups.streams, hidden_groups.topic)
        join_group(servers, hidden_groups.connect, "connect")
        yield hidden_groups
        leave_streams_group(servers, hidden_groups.streams)  # otherwise the coordinator waits 45 s for it
    finally:
        # An unreadable group would block the purges of all other tests on this cluster.
        gateway = KafkaGateway(KafkaSession(Connection(tuple(servers.split(",")), timeout_s=20.0)))
        removed_codes = ("NONE", "GROUP_ID_NOT_FOUND")
        for group in hidden_groups.groups:
            client.wait_until(
                lambda group=group: gateway.delete_groups([group])[group].code in removed_codes,
                90,
                f"{group} to go",
                every_s=1.0,
            )
        gateway.session.close()


def write_plan(folder: Path, cluster: SandboxCluster, policies: str) -> dict[str, Any]:
    """The plan file of the command line for these policies."""
    write_manifests(folder, cluster.bootstrap_servers, policies)
    result = reconciler(folder, "plan", "--out", "plan.json", "--full")
    assert result.returncode == 0, result.stderr
    plan: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return plan


FLOOR = head("RetentionFloor", "floor") + "\nspec: {topics: [%s], keep: {last: 90}%s}\n---\n"
FLOOR += head("GroupRemoval", "dead") + "\nspec: {groups: %s, %s}\n"


def test_hidden_groups_block_purges_and_are_never_removed(
    cluster: SandboxCluster, hidden_groups: HiddenGroups, tmp_path: Path
) -> None:
    """The broker knows the types, the program only the ids; no manifest can plan a removal.

    This holds for exact names and patterns, for EMPTY groups and others.
    """
    listing = run_kafka_tool(cluster, "kafka-groups", "--list")
    types = {cells[0]: cells[1].lower() for line in listing.splitlines() if len(cells := line.split()) > 2}
    assert [types[group] for group in hidden_groups.groups] == ["share", "streams", "classic"], listing
    exact_plan = write_plan(
        tmp_path,
        cluster,
        FLOOR % (hidden_groups.topic, "", json.dumps([*hidden_groups.groups, hidden_groups.dead]), "idleFor: 0s"),
    )
    assert [row["address"] for row in exact_plan["actions"]] == [f"GroupRemoval/dead/{hidden_groups.dead}"]
    blocked = {row["address"]: row for row in (*exact_plan["blocked"], *exact_plan["unread"])}
    floor = blocked[f"RetentionFloor/floor/{hidden_groups.topic}[0]"]
    assert (floor["code"], hidden_groups.share in floor["reason"]) == ("B211", True)
    for group in hidden_groups.groups:
        assert blocked[f"GroupRemoval/dead/{group}"]["code"] == "B302"
    excepted = f", exceptGroups: [{hidden_groups.share}]"
    share_plan = write_plan(
        tmp_path, cluster, FLOOR % (hidden_groups.topic, excepted, json.dumps([hidden_groups.dead]), "idleFor: 0s")
    )
    blocked = {row["address"]: row for row in (*share_plan["blocked"], *share_plan["unread"])}
    floor = blocked[f"RetentionFloor/floor/{hidden_groups.topic}[0]"]
    assert floor["code"] == "B211"
    assert f'"{hidden_groups.streams}" is a Streams group without a commit' in floor["reason"]
    time.sleep(1.5)  # idleFor: 1s
    mark = hidden_groups.dead.removeprefix("dead")
    excepted = f", exceptGroups: {json.dumps(hidden_groups.groups)}"
    pattern_plan = write_plan(
        tmp_path, cluster, FLOOR % (hidden_groups.topic, excepted, f'["*{mark}"]', "idleFor: 1s, expectAtMost: 9")
    )
    assert {row["address"] for row in pattern_plan["actions"]} == {
        f"GroupRemoval/dead/{hidden_groups.dead}",
        f"RetentionFloor/floor/{hidden_groups.topic}[0]",
    }, "exceptGroups allows the purge, and the pattern selects no hidden group"
