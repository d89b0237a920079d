"""The main workflow as a user types it: validate, plan, apply, plan again.

Kafka's own tools, not our client, show the effects.
"""

import json
import time
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import CLUSTER_ID, Cluster
from tests.command import reconciler, reconciler_process
from tests.toolbox import list_groups, log_start_offsets, partition_leaders, run_kafka_tool

pytestmark = pytest.mark.brokers

DAY_MS = 86_400_000


def cluster_manifest(cluster: Cluster, *, more: str = "") -> str:
    servers = json.dumps(cluster.bootstrap_servers.split(","))
    return f"""\
apiVersion: reconciler/v1
kind: Cluster
metadata: {{name: local}}
spec:
  clusterId: {CLUSTER_ID}
  bootstrapServers: {servers}
{more}"""


def manifests(folder: Path, cluster: Cluster, policies: str, *, more: str = "") -> None:
    (folder / "manifests").mkdir()
    (folder / "manifests" / "cluster.yaml").write_text(cluster_manifest(cluster, more=more))
    (folder / "manifests" / "policies.yaml").write_text(policies)


def test_plan_apply_plan_on_all_three_kinds(cluster: Cluster, tmp_path: Path) -> None:
    """Exactly the planned changes happen, and the next plan is empty.

    A second apply of the file changes nothing.
    """
    mark = uuid4().hex[:8]
    topic, other, group, live = f"slice-{mark}", f"other-{mark}", f"dead-{mark}", f"live-{mark}"
    now_ms = int(time.time() * 1000)
    client.create_topics(
        cluster.bootstrap_servers,
        [Topic(topic, partitions=2, replication=3), Topic(other, partitions=1, replication=3)],
    )
    for name, partitions in ((topic, 2), (other, 1)):
        old = [Record(b"old", timestamp_ms=now_ms - 30 * DAY_MS)] * 40
        new = [Record(b"new", timestamp_ms=now_ms)] * 60
        client.produce(cluster.bootstrap_servers, name, {number: [*old, *new] for number in range(partitions)})
    client.commit(cluster.bootstrap_servers, group, {(other, 0): 10})
    client.commit(cluster.bootstrap_servers, live, {(other, 0): 20})
    manifests(
        tmp_path,
        cluster,
        f"""\
apiVersion: reconciler/v1
kind: RetentionFloor
metadata: {{name: slice, owner: tests}}
spec:
  topics: [{topic}]
  keep: {{newerThan: 7d}}
---
apiVersion: reconciler/v1
kind: GroupRemoval
metadata: {{name: dead}}
spec:
  groups: ["dead-{mark}*"]
  idleFor: 1s
  expectAtMost: 3
---
apiVersion: reconciler/v1
kind: LeaderPolicy
metadata: {{name: leaders}}
spec:
  topics: [{topic}]
""",
        more="  limits: {groupsPercent: 100, recordsPercent: 100}\n",
    )
    time.sleep(1.5)  # idleFor: 1s
    planned = reconciler(tmp_path, "plan", "--out", "plan.json", "--detailed-exitcode")
    assert planned.returncode == 2, planned.stderr + planned.stdout
    assert f"{topic}[0]" in planned.stdout
    assert "IRREVERSIBLE" in planned.stdout
    applied = reconciler(tmp_path, "apply", "plan.json", "--results", "results.json")
    assert applied.returncode == 0, applied.stderr + applied.stdout
    assert log_start_offsets(cluster, topic) == {0: 40, 1: 40}
    assert log_start_offsets(cluster, other) == {0: 0}
    remaining = list_groups(cluster)
    assert group not in remaining
    assert live in remaining
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["exit_code"] == 0
    again = reconciler(tmp_path, "apply", "plan.json")
    assert again.returncode == 0, again.stderr + again.stdout
    assert log_start_offsets(cluster, topic) == {0: 40, 1: 40}
    after = reconciler(tmp_path, "plan", "--detailed-exitcode")
    assert after.returncode == 0, after.stderr + after.stdout


def test_elections_move_leaders_back(cluster: Cluster, tmp_path: Path) -> None:
    """A LeaderPolicy plan needs no Spark; afterwards kafka-topics shows the first replica as leader
    everywhere.
    """
    topic = f"led-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, assignment=((1, 2, 3), (2, 3, 1), (3, 1, 2)))])
    moved = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [2, 1, 3]}]}
    (tmp_path / "move.json").write_text(json.dumps(moved))
    run_kafka_tool(
        cluster, "kafka-reassign-partitions", "--reassignment-json-file", str(tmp_path / "move.json"), "--execute"
    )
    client.wait_until(lambda: partition_leaders(cluster, topic)[0] == (1, 2), 30, "the preferred replica to change")
    manifests(
        tmp_path,
        cluster,
        f"apiVersion: reconciler/v1\nkind: LeaderPolicy\nmetadata: {{name: leaders}}\nspec: {{topics: [{topic}]}}\n",
    )
    planned = reconciler_process(tmp_path, "plan", "--out", "plan.json", PATH=str(Path("/usr/bin")))
    assert planned.returncode == 0, planned.stderr
    assert "leader 1 -> 2" in planned.stdout
    applied = reconciler(tmp_path, "apply", "plan.json")
    assert applied.returncode == 0, applied.stderr + applied.stdout
    assert partition_leaders(cluster, topic)[0] == (2, 2)


def test_a_wrong_cluster_id_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """Exit 4, the error names both ids, and nothing changes."""
    manifests(
        tmp_path,
        cluster,
        "apiVersion: reconciler/v1\nkind: LeaderPolicy\nmetadata: {name: leaders}\nspec: {topics: ['*']}\n",
    )
    path = tmp_path / "manifests" / "cluster.yaml"
    path.write_text(path.read_text().replace(CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAAAA"))
    refused = reconciler(tmp_path, "plan")
    assert refused.returncode == 4
    assert CLUSTER_ID in refused.stderr
    assert "AAAAAAAAAAAAAAAAAAAAAA" in refused.stderr


def test_a_reviewed_plan_bounds_and_a_digest_binds(cluster: Cluster, tmp_path: Path) -> None:
    """--within lowers a floor that is higher than reviewed; --expect-digest refuses any other plan."""
    mark = uuid4().hex[:8]
    topic = f"bounded-{mark}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 100})
    policy = (
        "apiVersion: reconciler/v1\nkind: RetentionFloor\nmetadata: {name: bounded}\n"
        f"spec: {{topics: [{topic}], keep: {{last: 90}}}}\n"
    )
    manifests(tmp_path, cluster, policy)
    reviewed = reconciler(tmp_path, "plan", "--out", "reviewed.json")
    assert reviewed.returncode == 0, reviewed.stderr
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 50})
    planned = reconciler(tmp_path, "plan", "--within", "reviewed.json", "--out", "plan.json")
    assert planned.returncode == 0, planned.stderr
    refused = reconciler(tmp_path, "apply", "plan.json", "--expect-digest", "sha256:" + "0" * 64)
    assert refused.returncode == 4
    assert log_start_offsets(cluster, topic) == {0: 0}
    applied = reconciler(tmp_path, "apply", "plan.json")
    assert applied.returncode == 0, applied.stderr
    assert log_start_offsets(cluster, topic) == {0: 10}
