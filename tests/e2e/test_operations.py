"""`apply --operations`: one reviewed plan, carried out by two runs with different rights or approvers."""

import json
import time
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client, tools
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.journal.release import Release
from tests.build import head, write_manifests
from tests.command import reconciler
from tests.e2e.github.repository import Repository, cluster_manifest, leaders, removal
from tests.e2e.test_workflows import PLANNED
from tests.toolbox import await_leader, list_groups, log_start_offsets, partition_leaders

pytestmark = pytest.mark.brokers


@pytest.mark.spark
def test_two_runs_finish_one_plan(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Each run does its operations, and says of the others that another run does them.

    The deletion accepts a group that the first run has removed. It was once stale without that
    group.
    """
    mark = uuid4().hex[:10]
    topic, group, servers = f"split-{mark}", f"dead-{mark}", cluster.bootstrap_servers
    client.create_topics(servers, [Topic(topic, assignment=[(1, 2, 3)])])
    client.produce(servers, topic, {0: [Record(b"x")] * 20})
    client.commit(servers, group, {(topic, 0): 5})
    tools.reassign(cluster, {(topic, 0): (2, 3, 1)})
    time.sleep(1)  # until the group is idle for as long as the policy asks
    write_manifests(
        tmp_path,
        servers,
        f"""\
{head("RetentionFloor", "floor")}
spec: {{topics: [{topic}], keep: {{fromOffset: {{0: 13}}}}, consumers: ignore}}
---
{head("GroupRemoval", "dead")}
spec: {{groups: [{group}], idleFor: 1s}}
---
{head("LeaderPolicy", "leaders")}
spec: {{topics: [{topic}]}}
""",
        limits="groups: 1, groupsPercent: 100, recordsPercentPerTopic: 100, recordsPercent: 100",
    )

    def run(*words: str) -> tuple[int, str]:
        page = "https://github.com/acme/kafka/actions/runs/7"
        variables = {"RECONCILER_RUN_URL": page, "RECONCILER_APPROVER": "ann"}
        result = reconciler(tmp_path, *words, **variables)
        return result.returncode, result.stdout + result.stderr

    def apply(names: str) -> tuple[dict[str, str], str]:
        code, shown = run("apply", "plan.json", "--operations", names, "--results", f"{names}.json")
        document = json.loads((tmp_path / f"{names}.json").read_text())
        assert (code, document["exit_code"]) == (0, 0), shown
        return {row["operation"]: row["status"] for row in document["outcomes"]}, shown

    assert run("plan", "--out", "plan.json")[0] == 0
    leader, preferred = partition_leaders(cluster, topic)[0]
    assert leader != preferred

    statuses, shown = apply("ElectLeaders")
    assert statuses == {"elect_leader": "applied", "delete_group": "deferred", "delete_records": "deferred"}
    assert "2 deferred" in shown
    assert "left to another run" in shown
    await_leader(cluster, topic, 0, preferred)
    assert group in list_groups(cluster)

    statuses, _shown = apply("DeleteGroups")
    assert statuses == {"elect_leader": "deferred", "delete_group": "applied", "delete_records": "deferred"}
    assert group not in list_groups(cluster)
    assert log_start_offsets(cluster, topic) == {0: 0}

    statuses, shown = apply("DeleteRecords,DeleteGroups")
    assert statuses == {"elect_leader": "deferred", "delete_group": "satisfied", "delete_records": "applied"}, shown
    assert log_start_offsets(cluster, topic) == {0: 13}

    statuses, shown = apply("DeleteRecords,DeleteGroups,ElectLeaders")
    assert set(statuses.values()) == {"satisfied"}, shown
    entries = list(ActionJournal(JournalFile(tmp_path / "manifests" / ".reconciler" / "local.jsonl")).history())
    assert not any(isinstance(entry, Release) for entry in entries)
    assert {entry.approver for entry in entries} == {"ann"}


def test_an_empty_plan_releases_its_manifests(cluster: SandboxCluster, tmp_path: Path) -> None:
    """A merge may change only what runs later. Its plan has no action, and converge waits for the
    record.

    A dry run and a plan that fails record nothing.
    """
    topic = f"led-{uuid4().hex[:10]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, assignment=[(1, 2, 3)])])
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "all.yaml").write_text(
        f"""\
{head("Cluster", "local")}
spec: {{clusterId: {CLUSTER_ID}, bootstrapServers: {json.dumps(cluster.bootstrap_servers.split(","))}}}
---
{head("LeaderPolicy", "leaders")}
mode: continuous
spec: {{topics: [{topic}], tolerance: 100}}
"""
    )

    def run(*words: str) -> tuple[int, str]:
        result = reconciler(tmp_path, *words)
        return result.returncode, result.stdout + result.stderr

    assert run("plan", "--out", "plan.json")[0] == 0
    assert json.loads((tmp_path / "plan.json").read_text())["actions"] == []
    assert run("apply", "plan.json", "--release", "--dry-run")[0] == 0
    code, shown = run("converge", "--reviewed")
    assert (code, "not released" in shown) == (4, True), shown
    code, shown = run("apply", "plan.json", "--release", "--operations", "DeleteRecords,DeleteGroups")
    assert code == 0, shown
    code, shown = run("converge", "--reviewed")
    assert code == 0, shown
    code, shown = run("journal")
    assert (code, shown.count("released manifests sha256:")) == (0, 1), shown


def test_an_approval_of_elections_releases_no_later_deletion(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Its approvers are others than those of deletions. Until those approve, the manifests
    are not released, so `converge` deletes nothing.
    """
    repository, mark = Repository(tmp_path, {"eu": cluster}), uuid4().hex[:8]
    journal, led, group = f"journal-{mark}", f"led-{mark}", f"dead-{mark}"
    unlimited = {"retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "LogAppendTime"}
    client.create_topics(
        cluster.bootstrap_servers, [Topic(journal, configs=unlimited), Topic(led, assignment=[(1, 2, 3)])]
    )
    tools.reassign(cluster, {(led, 0): (2, 3, 1)})
    repository.commit("journal", cluster=cluster_manifest("eu") + f"  journal: {{topic: {journal}}}\n")
    continuous = removal(group, idle_for="1s").replace("spec:", "mode: continuous\nspec:")
    planned = repository.propose(groups=continuous, leaders=leaders("eu").replace("no-such-topic-*", led))["plan.yml"]
    assert planned.results() == PLANNED, planned.log
    repository.approve()
    repository.hub.approve = lambda environment: environment == "reconciler-elect-eu"
    merged = repository.merge()
    assert merged.results().get("Apply to eu") == "failure", merged.log
    assert merged.results().get("Elect leaders on eu") == "success", merged.log
    await_leader(cluster, led, 0, 2)
    [elected] = [row for row in repository.state.read("commands") if row["arguments"][0] == "apply"]
    assert "--release" not in elected["arguments"]
    refused = repository.run_schedule("converge.yml")
    assert "not released: the newest release in the journal of Cluster/eu" in refused.jobs["Converge eu"].log
