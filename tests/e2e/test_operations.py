"""`apply --operations`: one reviewed plan, carried out by two runs with different rights or approvers."""

import time
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client, tools
from reconciler.companions.sandbox.client import Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.journal.release import Release
from tests.build import policy
from tests.e2e.github.repository import Repository, cluster_manifest
from tests.e2e.github.repository import leaders as cluster_leaders
from tests.e2e.github.repository import removal as cluster_removal
from tests.e2e.test_workflows import PLANNED
from tests.e2e.workspace import Workspace, create_journal, floor, leaders, removal
from tests.toolbox import await_leader, partition_leaders


@pytest.mark.spark
def test_two_runs_finish_one_plan(space: Workspace) -> None:
    """Each run does its operations, and says of the others that another run does them.

    The deletion accepts a group that the first run has removed. It was once stale without that
    group.
    """
    cluster, topic = space.cluster, space.create_topic(20, assignment=[(1, 2, 3)])
    group = space.commit(f"dead-{topic}", topic, 5)
    tools.reassign(cluster, {(topic, 0): (2, 3, 1)})
    time.sleep(1)  # until the group is idle for as long as the policy asks
    rule = "keep: {fromOffset: {0: 13}}, consumers: ignore"
    limits = "groups: 1, groupsPercent: 100, recordsPercentPerTopic: 100, recordsPercent: 100"
    space.write(floor(topic, rule), removal(group, "idleFor: 1s"), leaders(topic), limits=limits)
    variables = {
        "RECONCILER_RUN_URL": "https://github.com/acme/kafka/actions/runs/7",
        "RECONCILER_APPROVER": "ann",
    }

    def apply(names: str) -> tuple[dict[str, str], str]:
        shown = space.apply("--operations", names, "--results", f"{names}.json", **variables)
        document = space.read(f"{names}.json")
        assert document["exit_code"] == 0, shown
        return {row["operation"]: row["status"] for row in document["outcomes"]}, shown

    space.run("plan", "--out", "plan.json", **variables)
    leader, preferred = partition_leaders(cluster, topic)[0]
    assert leader != preferred

    statuses, shown = apply("ElectLeaders")
    assert statuses == {"elect_leader": "applied", "delete_group": "deferred", "delete_records": "deferred"}
    assert "2 deferred" in shown
    assert "left to another run" in shown
    await_leader(cluster, topic, 0, preferred)
    assert group in space.groups()

    statuses, _shown = apply("DeleteGroups")
    assert statuses == {"elect_leader": "deferred", "delete_group": "applied", "delete_records": "deferred"}
    assert group not in space.groups()
    assert space.log_start(topic) == 0

    statuses, shown = apply("DeleteRecords,DeleteGroups")
    assert statuses == {"elect_leader": "deferred", "delete_group": "satisfied", "delete_records": "applied"}, shown
    assert space.log_start(topic) == 13

    statuses, shown = apply("DeleteRecords,DeleteGroups,ElectLeaders")
    assert set(statuses.values()) == {"satisfied"}, shown
    entries = list(ActionJournal(JournalFile(space.journal_file)).history())
    assert not any(isinstance(entry, Release) for entry in entries)
    assert {entry.approver for entry in entries} == {"ann"}


def test_an_empty_plan_releases_its_manifests(space: Workspace) -> None:
    """A merge may change only what runs later. Its plan has no action, and converge waits for the
    record.

    A dry run and a plan that fails record nothing.
    """
    topic = space.create_topic(0, assignment=[(1, 2, 3)])
    spec = f"topics: [{topic}], tolerance: 100"
    assert space.plan(policy("LeaderPolicy", "leaders", spec, mode="continuous"))["actions"] == []
    space.apply("--release", "--dry-run")
    assert "not released" in space.run("converge", "--reviewed", code=4)
    space.apply("--release", "--operations", "DeleteRecords,DeleteGroups")
    space.run("converge", "--reviewed")
    assert space.run("journal").count("released manifests sha256:") == 1


def test_an_approval_of_elections_releases_no_later_deletion(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Its approvers are others than those of deletions. Until those approve, the manifests
    are not released, so `converge` deletes nothing.
    """
    repository, mark = Repository(tmp_path, {"eu": cluster}), uuid4().hex[:8]
    journal, led, group = create_journal(cluster), f"led-{mark}", f"dead-{mark}"
    client.create_topics(cluster.bootstrap_servers, [Topic(led, assignment=[(1, 2, 3)])])
    tools.reassign(cluster, {(led, 0): (2, 3, 1)})
    repository.commit(cluster=cluster_manifest("eu") + f"  journal: {{topic: {journal}}}\n")
    continuous = cluster_removal(group, idle_for="1s", mode="continuous")
    planned = repository.propose(groups=continuous, leaders=cluster_leaders("eu", led))["plan.yml"]
    assert planned.results() == PLANNED, planned.log
    repository.approve()
    repository.hub.approve = lambda environment: environment == "reconciler-elect-eu"
    merged = repository.merge()
    assert merged.results().get("Apply to eu") == "failure", merged.log
    assert merged.results().get("Elect leaders on eu") == "success", merged.log
    await_leader(cluster, led, 0, 2)
    [elected] = repository.commands("apply")
    assert "--release" not in elected["arguments"]
    refused = repository.hub.schedule("converge.yml")
    assert "not released: the newest release in the journal of Cluster/eu" in refused.jobs["Converge eu"].log
