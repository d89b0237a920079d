"""The workflows that `init` writes, run for real: pull request, merge, drift, and every refusal."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from reconciler import gitops
from reconciler.plan import plan_file
from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import CLUSTER_ID, Cluster, start, stop
from tests.command import reconciler
from tests.e2e.github.runner import HOME, REPOSITORY, GitHub, WorkflowRun, write_fakes
from tests.toolbox import list_groups, run_kafka_tool

pytestmark = pytest.mark.brokers

PULL = 7


class Repository:
    """A user's repository with the files of `init`, and the events that GitHub would send."""

    def __init__(self, folder: Path, clusters: Mapping[str, Cluster]) -> None:
        self.folder = folder / "origin"
        self.state = folder / "state"
        environments: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
            f"{name}{purpose}": ({"KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap_servers}, {"KAFKA_PASSWORD": "unused"})
            for name, cluster in clusters.items()
            for purpose in ("", "-plan", "-converge")
        }
        self.entered: list[str] = []
        self.hub = GitHub(self.folder, self.state, environments, approve=self._enter)
        write_fakes(self.state)
        self.folder.mkdir()
        self.git("init", "-q", "-b", "main")
        for path, text in gitops.github(HOME).items():
            self._write(path, text)
        for name, cluster in clusters.items():
            self._write(f"manifests/{name}/cluster.yaml", _cluster_manifest(name, cluster.cluster_id))
            self._write(f"manifests/{name}/leaders.yaml", _leaders(name))
        self.base = self.commit("init")

    def _enter(self, environment: str) -> bool:
        self.entered.append(environment)
        return True

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=octocat", "-c", "user.email=octocat@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    def _write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def commit(self, message: str, **files: str) -> str:
        for name, text in files.items():
            self._write(f"manifests/eu/{name}.yaml", text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def pull_request(self, head: str, *, repository: str = REPOSITORY, number: int = PULL) -> WorkflowRun:
        """Push a commit to the pull request."""
        event: dict[str, Any] = {
            "pull_request": {
                "number": number,
                "base": {"ref": "main"},
                "head": {"sha": head, "repo": {"full_name": repository}},
            }
        }
        pulls = [{"merge_commit_sha": None, **event["pull_request"]}]
        (self.state / "pulls.json").write_text(json.dumps(pulls))
        return self.hub.run("plan.yml", "pull_request", event, sha=head)

    def merge(self, head: str, *, associated: bool = True) -> WorkflowRun:
        """Squash the pull request onto main and run its workflows."""
        self.git("checkout", "-q", "-B", "main", self.base)
        self.git("checkout", "-q", head, "--", ".")
        merged = self.commit("merged")
        if associated:
            path = self.state / "pulls.json"
            pulls = json.loads(path.read_text())
            pulls[0]["merge_commit_sha"] = merged
            path.write_text(json.dumps(pulls))
        return self.hub.run("apply.yml", "push", {}, sha=merged)

    def run_schedule(self, workflow: str) -> WorkflowRun:
        return self.hub.run(workflow, "schedule", {}, sha=self.git("rev-parse", "HEAD"))

    def read_rows(self, name: str) -> list[dict[str, Any]]:
        path = self.state / f"{name}.json"
        rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
        return rows

    def comments(self) -> dict[str, str]:
        """Body of the comment on each cluster. Fails if a cluster has two."""
        bodies = [comment["body"] for comment in self.read_rows("comments") if comment["issue"] == PULL]
        by_cluster = {body.split("-->")[0].split()[-1]: body for body in bodies}
        assert len(by_cluster) == len(bodies)
        return by_cluster


def _cluster_manifest(
    name: str, cluster_id: str = CLUSTER_ID, limits: str = "{groupsPercent: 100, recordsPercent: 100}"
) -> str:
    return f"""\
apiVersion: reconciler/v1
kind: Cluster
metadata: {{name: {name}}}
spec:
  clusterId: {cluster_id}
  bootstrapServers: ["${{env:KAFKA_BOOTSTRAP_SERVERS}}"]
  limits: {limits}
"""


def _leaders(name: str) -> str:
    return f"""\
apiVersion: reconciler/v1
kind: LeaderPolicy
metadata: {{name: leaders, cluster: {name}}}
spec: {{topics: [no-such-topic-*]}}
"""


def _removal(*groups: str, idle_for: str = "0s") -> str:
    """`idleFor: 0s` needs no evidence, so planning takes two seconds instead of eight."""
    return f"""\
apiVersion: reconciler/v1
kind: GroupRemoval
metadata: {{name: dead, cluster: eu}}
spec: {{groups: {json.dumps(groups)}, idleFor: {idle_for}}}
"""


@pytest.fixture(scope="module")
def other_cluster() -> Iterator[Cluster]:
    """Another cluster, because two manifests must not name the same one."""
    cluster = start(1, name="workflows", cluster_id="d29ya2Zsb3dzLS1vdGhlcg", heap_mib=256)
    try:
        yield cluster
    finally:
        stop(cluster)


@pytest.fixture
def repository(tmp_path: Path, cluster: Cluster) -> Repository:
    return Repository(tmp_path, {"eu": cluster})


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Create a topic with 100 records."""
    name = f"flow-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(name)])
    client.produce(cluster.bootstrap_servers, name, {0: [Record(b"x")] * 100})
    return name


def _log_start(cluster: Cluster, topic: str) -> int:
    return client.watermarks(cluster.bootstrap_servers, topic, 0)[0]


def test_a_pull_request_and_its_merge(tmp_path: Path, cluster: Cluster, other_cluster: Cluster, topic: str) -> None:
    """Each cluster has one comment, edited in place; the merge applies the reviewed plan after one
    approval.

    Then nothing drifts.
    """
    repository = Repository(tmp_path, {"eu": cluster, "us": other_cluster})
    group = f"dead-{topic}"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 100})
    floor = f"""\
apiVersion: reconciler/v1
kind: RetentionFloor
metadata: {{name: floor, cluster: eu}}
spec: {{topics: [{topic}], keep: {{last: 60}}}}
"""
    head = repository.commit("change", floor=floor, groups=_removal(group))

    review_run = repository.pull_request(head)
    assert review_run.results() == dict.fromkeys(("Validate", "Plan eu", "Plan us", "Comment"), "success"), (
        review_run.log
    )
    assert repository.entered == ["eu-plan", "us-plan"]
    comments = repository.comments()
    assert set(comments) == {"eu", "us"}
    assert topic in comments["eu"]
    assert group in comments["eu"]
    assert topic in review_run.jobs["Plan eu"].summary
    assert repository.pull_request(head).results()["Comment"] == "success"
    assert set(repository.comments()) == {"eu", "us"}
    assert (_log_start(cluster, topic), group in list_groups(cluster)) == (0, True)

    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"y")] * 20})
    repository.entered.clear()
    apply_run = repository.merge(head)
    assert set(apply_run.results().values()) == {"success"}, apply_run.log
    assert sorted(repository.entered) == ["eu", "eu-plan", "us-plan"]
    assert apply_run.jobs["Apply to eu"].concurrency == "reconciler-apply-eu"
    assert _log_start(cluster, topic) == 40, "the reviewed target, although the rule now allows 60"
    assert group not in list_groups(cluster)
    results = json.loads((repository.state / f"artifacts/{apply_run.id}/results-eu/results.json").read_text())
    assert results["exit_code"] == 0
    assert topic in apply_run.jobs["Apply to eu"].summary

    drift_run = repository.run_schedule("drift.yml")
    assert set(drift_run.results().values()) == {"success"}, drift_run.log
    assert repository.read_rows("issues") == []


def test_a_pull_request_of_a_fork_is_only_validated(repository: Repository) -> None:
    """A fork gets no plan, no comment, no environment and no secret; broken manifests get
    annotations.
    """
    head = repository.commit("change", groups=_removal("some-group"))
    run = repository.pull_request(head, repository="mallory/housekeeping")
    assert run.results() == {"Validate": "success", "plan": "skipped", "comment": "skipped"}
    assert repository.entered == []
    assert not (repository.state / "calls.jsonl").exists()
    invalid = repository.commit("broken", groups=_removal("some-group").replace("groups:", "gruops:"))
    refused = repository.pull_request(invalid, repository="mallory/housekeeping")
    assert refused.results()["Validate"] == "failure"
    assert "file=manifests/eu/groups.yaml,line=4" in refused.log
    pulls = repository.read_rows("pulls")
    assert pulls[0]["head"]["repo"]["full_name"] == "mallory/housekeeping"
    merged = repository.merge(head)
    assert merged.results()["Find what was reviewed"] == "failure"
    assert "::error title=Not reviewed::" in merged.log


def test_a_group_that_appears_after_the_review_is_not_removed(
    repository: Repository, cluster: Cluster, topic: str
) -> None:
    """A group that appears after the review is beyond it: only the reviewed group is removed.

    The output reports the other one.
    """
    reviewed, later = f"reviewed-{topic}", f"later-{topic}"
    client.commit(cluster.bootstrap_servers, reviewed, {(topic, 0): 1})
    head = repository.commit("change", groups=_removal(reviewed, later))
    assert repository.pull_request(head).results()["Comment"] == "success"
    client.commit(cluster.bootstrap_servers, later, {(topic, 0): 1})
    merged = repository.merge(head)
    assert merged.results()["Apply to eu"] == "success", merged.log
    assert "B108" in merged.jobs["Plan eu"].summary
    assert (reviewed in list_groups(cluster), later in list_groups(cluster)) == (False, True)


def test_a_refused_limit_fails_the_check_and_stops_the_merge(
    repository: Repository, cluster: Cluster, topic: str
) -> None:
    """The plan is visible and the check is red with the limit's name; a merge applies nothing and
    asks for no approval.
    """
    group = f"limited-{topic}"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 1})
    head = repository.commit("change", groups=_removal(group), cluster=_cluster_manifest("eu", limits="{groups: 0}"))
    run = repository.pull_request(head)
    assert run.results() == {"Validate": "success", "Plan eu": "failure", "Comment": "success"}
    assert "(exit 3)" in run.jobs["Plan eu"].log
    assert "::error title=REFUSED (groups)::" in run.jobs["Plan eu"].log
    assert group in repository.comments()["eu"]
    repository.entered.clear()
    merged = repository.merge(head)
    assert merged.results()["Plan eu"] == "failure"
    assert merged.results()["apply"] == "skipped"
    assert repository.entered == ["eu-plan"]
    assert group in list_groups(cluster)


def test_an_unreachable_cluster_replaces_the_plan_and_stops_the_merge(
    repository: Repository, cluster: Cluster, topic: str
) -> None:
    """An outdated plan does not stay in the comment; without a plan nothing is applied."""
    group = f"away-{topic}"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 1})
    head = repository.commit("change", groups=_removal(group))
    assert repository.pull_request(head).results()["Comment"] == "success"
    assert group in repository.comments()["eu"]
    unreachable = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    environments = repository.hub.environments
    repository.hub.environments = {**environments, "eu-plan": (unreachable, {})}
    repository.hub.machine = {**repository.hub.machine, "RECONCILER_TIMEOUT": "2"}
    second_head = repository.commit("again")
    second_run = repository.pull_request(second_head)
    assert second_run.results() == {"Validate": "success", "Plan eu": "failure", "Comment": "success"}
    assert "error: eu: no broker of 127.0.0.1:1 answered" in second_run.jobs["Plan eu"].log
    assert group not in repository.comments()["eu"]
    assert f"https://github.com/{REPOSITORY}/actions/runs/{second_run.id}" in repository.comments()["eu"]
    repository.hub.environments = environments
    apply_run = repository.merge(second_head)
    assert apply_run.results()["Plan eu"] == "failure"
    assert "::error title=Not reviewed::" in apply_run.jobs["Plan eu"].log
    assert group in list_groups(cluster)


def test_drift_opens_keeps_and_closes_one_issue(repository: Repository, cluster: Cluster, topic: str) -> None:
    """Each cluster has one issue: opened on drift, unchanged while nothing changes, closed in sync.

    A run that could not read the cluster keeps it.
    """
    group = f"drifting-{topic}"
    repository.commit("merged long ago", groups=_removal(group))
    assert set(repository.run_schedule("drift.yml").results().values()) == {"success"}
    assert repository.read_rows("issues") == []
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 1})
    assert set(repository.run_schedule("drift.yml").results().values()) == {"success"}
    [opened] = repository.read_rows("issues")
    assert (opened["title"], opened["state"]) == ("Drift on eu", "open")
    assert f'"{group}"' in opened["body"]
    environments = repository.hub.environments
    repository.hub.environments = {**environments, "eu-plan": ({"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, {})}
    machine = repository.hub.machine
    repository.hub.machine = {**machine, "RECONCILER_TIMEOUT": "2"}
    unreachable_run = repository.run_schedule("drift.yml")
    assert unreachable_run.results() == {"List the clusters": "success", "Drift of eu": "failure", "Issue": "success"}
    repository.hub.environments = environments
    repository.hub.machine = machine
    assert set(repository.run_schedule("drift.yml").results().values()) == {"success"}
    assert repository.read_rows("issues") == [opened], "an unchanged drift leaves the issue unchanged, with its *since*"
    run_kafka_tool(cluster, "kafka-consumer-groups", "--delete", "--group", group)
    assert set(repository.run_schedule("drift.yml").results().values()) == {"success"}
    [closed] = repository.read_rows("issues")
    assert (closed["number"], closed["state"]) == (opened["number"], "closed")
    assert repository.read_rows("comments")[-1]["body"] == "In sync again."


def test_a_push_without_a_pull_request_applies_nothing(repository: Repository, cluster: Cluster, topic: str) -> None:
    """Without a reviewed plan nothing is applied; the search for it was repeated with pauses."""
    group = f"pushed-{topic}"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 1})
    (repository.state / "pulls.json").write_text("[]")
    run = repository.merge(repository.commit("pushed", groups=_removal(group)), associated=False)
    assert run.results()["Find what was reviewed"] == "failure"
    assert "::error title=Not reviewed::" in run.log
    assert (repository.state / "sleeps").read_text().splitlines() == ["sleep 5"] * 3
    assert repository.entered == []
    assert group in list_groups(cluster)


def test_only_the_approved_plan_is_applied(repository: Repository, cluster: Cluster, topic: str) -> None:
    """A plan that was replaced during the approval is refused by its digest, even if it is valid."""
    approved, replaced = f"approved-{topic}", f"replaced-{topic}"
    for group in (approved, replaced):
        client.commit(cluster.bootstrap_servers, group, {(topic, 0): 1})
    head = repository.commit("change", groups=_removal(approved, replaced))
    assert repository.pull_request(head).results()["Comment"] == "success"

    def replace_plan(environment: str) -> bool:
        if environment == "eu":
            path = repository.state / "artifacts" / str(repository.hub.runs) / "apply-eu" / "eu" / "plan.json"
            plan = plan_file.read(path)
            decisions = tuple(action for action in plan.actions if replaced in str(action.address))
            plan_file.write(replace(plan, decisions=decisions), path)
        return True

    repository.hub.approve = replace_plan
    merged = repository.merge(head)
    assert merged.results()["Apply to eu"] == "failure"
    assert "(exit 4)" in merged.jobs["Apply to eu"].log
    assert {approved, replaced} <= list_groups(cluster)


def test_a_protection_that_was_merged_since_the_plan_holds(
    repository: Repository, cluster: Cluster, topic: str
) -> None:
    """A protection that is merged during the approval prevents the apply.

    A rerun plans with the protection, within the same review.
    """
    protected, removed = f"protected-{topic}", f"removed-{topic}"
    for group in (protected, removed):
        client.commit(cluster.bootstrap_servers, group, {(topic, 0): 1})
    head = repository.commit("change", groups=_removal(protected, removed))
    assert repository.pull_request(head).results()["Comment"] == "success"

    def protect(environment: str) -> bool:
        if environment == "eu":
            manifest = _cluster_manifest("eu") + f"  protect: {{groups: [{protected}]}}\n"
            repository.commit("protect", cluster=manifest)
        return True

    repository.hub.approve = protect
    merged = repository.merge(head)
    assert merged.results()["Apply to eu"] == "failure"
    assert "::error title=Planned before::" in merged.jobs["Apply to eu"].log
    assert {protected, removed} <= list_groups(cluster)
    repository.hub.approve = lambda _environment: True
    sha = repository.read_rows("pulls")[0]["merge_commit_sha"]
    rerun = repository.hub.run("apply.yml", "push", {}, sha=sha)
    assert rerun.results()["Apply to eu"] == "success", rerun.log
    assert (protected in list_groups(cluster), removed in list_groups(cluster)) == (True, False)


def test_a_plan_of_another_pull_request_with_the_same_commit_bounds_nothing(
    repository: Repository, cluster: Cluster, topic: str
) -> None:
    """One commit can be the head of two pull requests: the run of the other one does not count.

    No reviewer of this pull request has seen the workflow of that branch.
    """
    group = f"bounded-{topic}"
    head = repository.commit("change", groups=_removal(group))
    assert repository.pull_request(head).results()["Comment"] == "success"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 1})
    assert repository.pull_request(head, number=PULL + 1).results()["Comment"] == "success"
    pulls = repository.read_rows("pulls")
    (repository.state / "pulls.json").write_text(json.dumps([{**pulls[0], "number": PULL}]))
    merged = repository.merge(head)
    assert merged.results() == {
        "Find what was reviewed": "success",
        "Plan eu": "success",
        "What there is to approve": "success",
        "apply": "skipped",
    }, merged.log
    assert "B108" in merged.jobs["Plan eu"].summary
    assert group in list_groups(cluster)


def test_converge_runs_only_for_clusters_with_a_continuous_policy(
    repository: Repository, cluster: Cluster, topic: str
) -> None:
    """The schedule enters only the environments of clusters with a continuous policy, and applies
    that policy.
    """
    idle = repository.run_schedule("converge.yml")
    assert idle.results() == {"List the clusters": "success", "converge": "skipped"}
    continuous = _removal(f"dead-{topic}", idle_for="1s").replace("spec:", "mode: continuous\nspec:")
    repository.commit("continuous", groups=continuous)
    client.commit(cluster.bootstrap_servers, f"dead-{topic}", {(topic, 0): 1})
    time.sleep(1.5)  # idleFor: 1s
    run = repository.run_schedule("converge.yml")
    assert run.results() == {"List the clusters": "success", "Converge eu": "success"}, run.log
    assert repository.entered == ["eu-converge"]
    assert run.jobs["Converge eu"].concurrency == "reconciler-converge-eu"
    assert f"dead-{topic}" not in list_groups(cluster)


def test_a_target_may_belong_to_one_of_two_clusters(
    tmp_path: Path, cluster: Cluster, other_cluster: Cluster, topic: str
) -> None:
    """A target without a decision on one of two clusters is valid; without any decision it is wrong
    usage.

    The first case was once reported as a bug.
    """
    texts = []
    for name, sandbox in (("eu", cluster), ("us", other_cluster)):
        servers = json.dumps(sandbox.bootstrap_servers.split(","))
        texts.append(_cluster_manifest(name, sandbox.cluster_id).replace('["${env:KAFKA_BOOTSTRAP_SERVERS}"]', servers))
    texts += [_leaders("eu").replace("no-such-topic-*", topic), _leaders("us")]
    (tmp_path / "all.yaml").write_text("---\n".join(texts))
    target = f"LeaderPolicy/leaders/{topic}"
    result = reconciler(tmp_path, "plan", "all.yaml", "--target", target)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Cluster ") == 1
    unknown_target = reconciler(tmp_path, "plan", "all.yaml", "--target", f"{target}-not")
    assert unknown_target.returncode == 64, unknown_target.stderr
    assert f"{target}-not: nothing is decided about it" in unknown_target.stderr
