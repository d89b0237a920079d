"""Share, Streams-protocol and Connect groups on a real cluster: listings hide them, and a removal
would succeed.

Their offsets are unreadable. So a plan blocks every action that needs all groups, and it never has
a removal of one of them, whatever a manifest says.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.session import KafkaSession
from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import CLUSTER_ID, Cluster
from reconciler.sandbox.tools import run_tool
from tests.command import reconciler
from tests.e2e.raw_groups import join_connect_group, join_streams_group
from tests.toolbox import run_kafka_tool

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


@dataclass(frozen=True)
class Hidden:
    """Create a topic, a group of each hidden type on it, and an ordinary group that may be removed."""

    topic: str
    share: str
    streams: str
    connect: str
    dead: str

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.share, self.streams, self.connect)


@pytest.fixture
def hidden(cluster: Cluster) -> Iterator[Hidden]:
    mark = uuid4().hex[:8]
    hidden = Hidden(*(f"{name}-{mark}" for name in ("hidden", "share", "streams", "connect", "dead")))
    servers = cluster.bootstrap_servers
    client.create_topics(servers, [Topic(hidden.topic)])
    client.produce(servers, hidden.topic, {0: [Record(b"x")] * 100})
    consumer = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    client.commit(
        servers, hidden.dead, {(hidden.topic, 0): 100}
    )  # first: a client's question for a coordinator makes the commit log
    try:
        run_tool(cluster, consumer, "--topic", hidden.topic, "--group", hidden.share, "--timeout-ms", "3000")
        join_streams_group(servers, hidden.streams, hidden.topic)
        join_connect_group(servers, hidden.connect)
        yield hidden
    finally:
        # a group that nobody can read would block the purges of every other test on this cluster
        gateway = KafkaGateway(KafkaSession(Connection(tuple(servers.split(",")), timeout_s=20.0)))
        removed_codes = ("NONE", "GROUP_ID_NOT_FOUND")
        for group in hidden.groups:
            client.wait_until(
                lambda group=group: gateway.delete_groups([group])[group].code in removed_codes,
                90,
                f"{group} to go",
                every_s=1.0,
            )
        gateway.session.close()


def planned(folder: Path, cluster: Cluster, policies: str) -> dict[str, Any]:
    """The plan file of the command line for these policies."""
    (folder / "manifests").mkdir(exist_ok=True)
    (folder / "manifests" / "all.yaml").write_text(f"""\
apiVersion: reconciler/v1
kind: Cluster
metadata: {{name: local}}
spec:
  clusterId: {CLUSTER_ID}
  bootstrapServers: {json.dumps(cluster.bootstrap_servers.split(","))}
  limits: {{groupsPercent: 100, recordsPercentPerTopic: 100, recordsPercent: 100}}
---
{policies}""")
    answer = reconciler(folder, "plan", "--out", "plan.json", "--full")
    assert answer.returncode == 0, answer.stderr
    read: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return read


FLOOR = """\
apiVersion: reconciler/v1
kind: RetentionFloor
metadata: {name: floor}
spec: {topics: [%s], keep: {last: 90}%s}
---
apiVersion: reconciler/v1
kind: GroupRemoval
metadata: {name: dead}
spec: {groups: %s, %s}
"""


def test_what_no_listing_shows_blocks_purges_and_is_never_removed(
    cluster: Cluster, hidden: Hidden, tmp_path: Path
) -> None:
    """The broker knows their types, the program only their ids; no manifest can plan their removal.

    This holds for exact names and patterns, for EMPTY groups and others.
    """
    listing = run_kafka_tool(cluster, "kafka-groups", "--list")
    types = {words[0]: words[1].lower() for line in listing.splitlines() if len(words := line.split()) > 2}
    assert [types[group] for group in hidden.groups] == ["share", "streams", "classic"], listing
    exact = planned(
        tmp_path, cluster, FLOOR % (hidden.topic, "", json.dumps([*hidden.groups, hidden.dead]), "idleFor: 0s")
    )
    assert [row["address"] for row in exact["actions"]] == [f"GroupRemoval/dead/{hidden.dead}"]
    blocked = {row["address"]: row for row in (*exact["blocked"], *exact["unread"])}
    floor = blocked[f"RetentionFloor/floor/{hidden.topic}[0]"]
    assert floor["code"] == "B211"
    assert any(group in floor["reason"] for group in hidden.groups)
    for group in hidden.groups:
        assert blocked[f"GroupRemoval/dead/{group}"]["code"] == "B302"
    time.sleep(1.5)  # idleFor: 1s
    mark = hidden.dead.removeprefix("dead")
    excepted = f", exceptGroups: {json.dumps(hidden.groups)}"
    saved = planned(tmp_path, cluster, FLOOR % (hidden.topic, excepted, f'["*{mark}"]', "idleFor: 1s, expectAtMost: 9"))
    assert {row["address"] for row in saved["actions"]} == {
        f"GroupRemoval/dead/{hidden.dead}",
        f"RetentionFloor/floor/{hidden.topic}[0]",
    }, "excepted by name they block nothing, and a pattern does not take them either"
