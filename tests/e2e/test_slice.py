"""The main workflow as a user types it: validate, plan, apply, plan again.

Kafka's own tools, not our client, show the effects.
"""

import json
import time
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from tests.build import head, write_manifests
from tests.command import WARM_SPARK, reconciler, reconciler_process
from tests.toolbox import await_leader, list_groups, log_start_offsets, partition_leaders, run_kafka_tool

pytestmark = pytest.mark.brokers

DAY_MS = 86_400_000


def test_plan_apply_plan_on_all_three_kinds(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Exactly the planned changes happen, and the next plan is empty.

    A second apply of the file changes nothing. A continuous policy converges by the same engine.
    """
    mark = uuid4().hex[:8]
    topic, other_topic, group, live_group = f"slice-{mark}", f"other-{mark}", f"dead-{mark}", f"live-{mark}"
    now_ms = int(time.time() * 1000)
    client.create_topics(
        cluster.bootstrap_servers,
        [Topic(topic, partitions=2, replication=3), Topic(other_topic, partitions=1, replication=3)],
    )
    for name, partitions in ((topic, 2), (other_topic, 1)):
        old_records = [Record(b"old", timestamp_ms=now_ms - 30 * DAY_MS)] * 40
        new_records = [Record(b"new", timestamp_ms=now_ms)] * 60
        client.produce(
            cluster.bootstrap_servers, name, {number: [*old_records, *new_records] for number in range(partitions)}
        )
    client.commit(cluster.bootstrap_servers, group, {(other_topic, 0): 10})
    client.commit(cluster.bootstrap_servers, live_group, {(other_topic, 0): 20})
    policies = f"""\
{head("RetentionFloor", "slice, owner: tests")}
spec:
  topics: [{topic}]
  keep: {{newerThan: 7d}}
---
{head("GroupRemoval", "dead")}
spec:
  groups: ["dead-{mark}*"]
  idleFor: 1s
  expectAtMost: 3
---
{head("LeaderPolicy", "leaders")}
spec:
  topics: [{topic}]
"""
    limits = "groupsPercent: 100, recordsPercent: 100"
    write_manifests(tmp_path, cluster.bootstrap_servers, policies, limits=limits)
    time.sleep(1.5)  # idleFor: 1s
    first_plan = reconciler(tmp_path, "plan", "--out", "plan.json", "--detailed-exitcode", **WARM_SPARK)
    assert first_plan.returncode == 2, first_plan.stderr + first_plan.stdout
    assert f"{topic} (" in first_plan.stdout
    assert "Cannot be undone: records of 2 partitions of 1 topic deleted" in first_plan.stdout
    explanation = reconciler(tmp_path, "explain", group)
    assert explanation.returncode == 0, explanation.stderr
    assert explanation.stdout.startswith(f"GroupRemoval/dead/{group}: group removal\n")
    assert "read 0 partitions" in explanation.stderr, "explaining a group needs no offset of a topic"
    election = reconciler(tmp_path, "explain", f"LeaderPolicy/leaders/{topic}[0]")
    assert " groups" not in election.stderr, "groups that nothing listed once were 0 groups"
    first_apply = reconciler(tmp_path, "apply", "plan.json", "--results", "results.json")
    assert first_apply.returncode == 0, first_apply.stderr + first_apply.stdout
    assert log_start_offsets(cluster, topic) == {0: 40, 1: 40}
    assert log_start_offsets(cluster, other_topic) == {0: 0}
    remaining = list_groups(cluster)
    assert group not in remaining
    assert live_group in remaining
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["exit_code"] == 0
    second_apply = reconciler(tmp_path, "apply", "plan.json")
    assert second_apply.returncode == 0, second_apply.stderr + second_apply.stdout
    assert log_start_offsets(cluster, topic) == {0: 40, 1: 40}
    second_plan = reconciler(tmp_path, "plan", "--detailed-exitcode", **WARM_SPARK)
    assert second_plan.returncode == 0, second_plan.stderr + second_plan.stdout

    continuous = policies.replace("spec:", "mode: continuous\nspec:", 1).replace("newerThan: 7d", "last: 50")
    write_manifests(tmp_path, cluster.bootstrap_servers, continuous, limits=limits)
    converge = reconciler(tmp_path, "converge", **WARM_SPARK)
    assert converge.returncode == 0, converge.stderr + converge.stdout
    assert log_start_offsets(cluster, topic) == {0: 50, 1: 50}


def test_elections_move_leaders_back(cluster: SandboxCluster, tmp_path: Path) -> None:
    """A LeaderPolicy plan needs no Spark; afterwards kafka-topics shows the first replica as leader
    everywhere.
    """
    topic = f"led-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, assignment=((1, 2, 3), (2, 3, 1), (3, 1, 2)))])
    reassignment = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [2, 1, 3]}]}
    (tmp_path / "move.json").write_text(json.dumps(reassignment))
    run_kafka_tool(
        cluster, "kafka-reassign-partitions", "--reassignment-json-file", str(tmp_path / "move.json"), "--execute"
    )
    client.wait_until(lambda: partition_leaders(cluster, topic)[0] == (1, 2), 30, "the preferred replica to change")
    policy = f"{head('LeaderPolicy', 'leaders')}\nspec: {{topics: [{topic}]}}\n"
    write_manifests(tmp_path, cluster.bootstrap_servers, policy, limits="")
    plan = reconciler_process(tmp_path, "plan", "--out", "plan.json", PATH=str(Path("/usr/bin")))
    assert plan.returncode == 0, plan.stderr
    assert f"{topic}[0] (leaders): from 1 to 2" in plan.stdout
    apply_run = reconciler(tmp_path, "apply", "plan.json")
    assert apply_run.returncode == 0, apply_run.stderr + apply_run.stdout
    await_leader(cluster, topic, 0, 2)


def test_a_wrong_cluster_id_is_refused(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Exit 4, the error names both ids, and nothing changes."""
    policy = head("LeaderPolicy", "leaders") + "\nspec: {topics: ['*']}\n"
    write_manifests(tmp_path, cluster.bootstrap_servers, policy)
    path = tmp_path / "manifests" / "all.yaml"
    path.write_text(path.read_text().replace(CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAAAA"))
    result = reconciler(tmp_path, "plan")
    assert result.returncode == 4
    assert CLUSTER_ID in result.stderr
    assert "AAAAAAAAAAAAAAAAAAAAAA" in result.stderr


def test_a_reviewed_plan_and_a_digest_bound_an_apply(cluster: SandboxCluster, tmp_path: Path) -> None:
    """--within lowers a floor that is higher than reviewed; --expect-digest refuses any other plan."""
    mark = uuid4().hex[:8]
    topic = f"bounded-{mark}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 100})
    policy = f"{head('RetentionFloor', 'bounded')}\nspec: {{topics: [{topic}], keep: {{last: 90}}}}\n"
    write_manifests(tmp_path, cluster.bootstrap_servers, policy, limits="")
    reviewed_plan = reconciler(tmp_path, "plan", "--out", "reviewed.json")
    assert reviewed_plan.returncode == 0, reviewed_plan.stderr
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 50})
    bounded_plan = reconciler(tmp_path, "plan", "--within", "reviewed.json", "--out", "plan.json")
    assert bounded_plan.returncode == 0, bounded_plan.stderr
    refused_apply = reconciler(tmp_path, "apply", "plan.json", "--expect-digest", "sha256:" + "0" * 64)
    assert refused_apply.returncode == 4
    assert log_start_offsets(cluster, topic) == {0: 0}
    apply_run = reconciler(tmp_path, "apply", "plan.json")
    assert apply_run.returncode == 0, apply_run.stderr
    assert log_start_offsets(cluster, topic) == {0: 10}
