"""The workflows that `init` writes, run for real: pull request, merge, drift, and every refusal."""

import json
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.plan import plan_file
from tests.build import waiver
from tests.command import reconciler
from tests.e2e.github.gh import REPOSITORY
from tests.e2e.github.repository import Repository, cluster_manifest, leaders, removal
from tests.e2e.workspace import create_journal, floor
from tests.strategies.examples import election
from tests.strategies.examples import plan as example_plan
from tests.toolbox import list_groups

PLANNED = dict.fromkeys(("Find the pull request", "Validate", "Plan eu", "Comment", "Gate"), "success")


@pytest.fixture(scope="module")
def other_cluster() -> Iterator[SandboxCluster]:
    """Another cluster, because two manifests must not name the same one."""
    with stopping(start(1, name="workflows", cluster_id="d29ya2Zsb3dzLS1vdGhlcg", heap_mib=256)) as cluster:
        yield cluster


@pytest.fixture
def repository(tmp_path: Path, cluster: SandboxCluster) -> Repository:
    return Repository(tmp_path, {"eu": cluster})


def _log_start(cluster: SandboxCluster, topic: str) -> int:
    return client.watermarks(cluster.bootstrap_servers, topic, 0)[0]


def _create_group(cluster: SandboxCluster, name: str, topic: str) -> str:
    client.commit(cluster.bootstrap_servers, name, {(topic, 0): 1})
    return name


def test_a_pull_request_and_its_merge(
    tmp_path: Path, cluster: SandboxCluster, other_cluster: SandboxCluster, topic: str
) -> None:
    """Each cluster has one comment, edited in place; the merge applies the reviewed plan after one
    approval, and posts the results.

    Then nothing drifts.
    """
    repository = Repository(tmp_path, {"eu": cluster, "us": other_cluster})
    group = f"dead-{topic}"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 100})
    last = floor(topic, "keep: {last: 60}", name="floor, cluster: eu")
    runs = repository.propose(floor=last, groups=removal(group))
    assert runs["validate.yml"].results() == {"Validate": "success", "queue": "skipped"}
    planned = runs["plan.yml"]
    assert planned.results() == PLANNED | {"Plan us": "success"}, planned.log
    assert repository.hub.entered == ["reconciler-plan-eu", "reconciler-plan-us"]
    assert repository.gate() == "success"
    comments = repository.comments()
    assert set(comments) == {"eu", "us"}
    assert topic in comments["eu"]
    assert group in comments["eu"]
    assert topic in planned.jobs["Plan eu"].summary
    assert repository.update()["plan.yml"].results()["Comment"] == "success"
    assert set(repository.comments()) == {"eu", "us"}
    assert (_log_start(cluster, topic), group in list_groups(cluster)) == (0, True)

    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"y")] * 20})
    repository.hub.entered.clear()
    apply_run = repository.approve_and_merge()
    assert set(apply_run.results().values()) == {"success"}, apply_run.log
    assert sorted(repository.hub.entered) == ["reconciler-apply-eu", "reconciler-plan-eu", "reconciler-plan-us"]
    assert apply_run.jobs["Apply to eu"].concurrency == "reconciler-apply-eu"
    assert _log_start(cluster, topic) == 40, "the reviewed target, although the rule now allows 60"
    assert group not in list_groups(cluster)
    results = json.loads((repository.artifact("results_apply_eu_1") / "eu/apply/results.json").read_text())
    assert results["exit_code"] == 0
    assert "**Applied**: records of 1 partition deleted; 1 group removed" in apply_run.jobs["Apply to eu"].summary
    [applied] = repository.commands("apply")
    assert applied["arguments"][applied["arguments"].index("--operations") + 1] == "DeleteGroups,DeleteRecords"
    assert "--release" in applied["arguments"]
    told = ("RECONCILER_APPROVER", "RECONCILER_RUN_URL", "RECONCILER_PAUSED", "RECONCILER_UNREVIEWED")
    assert {name: value for name, value in applied["variables"].items() if name in told} == {
        "RECONCILER_APPROVER": "approver",
        "RECONCILER_RUN_URL": f"https://github.com/{REPOSITORY}/actions/runs/{apply_run.id}/attempts/1",
    }
    [posted] = [comment for comment in repository.state.comments if "reconciler plan" not in comment["body"]]
    assert "records of 1 partition deleted; 1 group removed" in posted["body"]
    assert f"{REPOSITORY}/actions/runs/{apply_run.id}/attempts/1" in posted["body"]

    drift_run = repository.hub.schedule("drift.yml")
    assert set(drift_run.results().values()) == {"success"}, drift_run.log
    assert repository.state.issues == []


def test_a_pull_request_of_a_fork_is_only_validated(repository: Repository) -> None:
    """A fork gets no plan, no comment, no environment and no secret; its gate says what to do.

    Broken manifests get annotations. Without manifests its gate is green.
    """
    repository.commit(branch="change", groups=removal("some-group"))
    runs = repository.update(owner="mallory")
    assert runs["validate.yml"].results()["Validate"] == "success"
    assert runs["plan.yml"].results() == {
        "Find the pull request": "success",
        "clusters": "skipped",
        "plan": "skipped",
        "comment": "skipped",
        "Gate": "success",
    }
    assert repository.hub.entered == []
    assert repository.gate() == "failure"
    [status] = repository.state.statuses
    assert status["description"].startswith("manifests of a fork are not planned: push its commits to a branch")
    merged = repository.approve_and_merge()
    assert merged.results()["Plan eu"] == "failure"
    assert "::error title=Not reviewed::The pull request has no plan for eu" in merged.log

    invalid = removal("some-group").replace("groups:", "gruops:")
    repository.commit(branch="broken", groups=invalid)
    refused = repository.update("broken", owner="mallory", number=8)
    assert refused["validate.yml"].results()["Validate"] == "failure"
    assert "file=manifests/eu/groups.yaml,line=4" in refused["validate.yml"].log

    repository.commit({"README.md": "A page."}, branch="docs")
    repository.update("docs", owner="mallory", number=9)
    assert repository.gate(9) == "success"


def test_the_gate_reports_for_every_pull_request(repository: Repository) -> None:
    """It is green without manifests, red if the merge conflicts or is invalid, and on the commit of
    a merge queue it is the result of validate.

    No case reads a cluster or waits for a check that never starts.
    """
    repository.commit({"README.md": "A page."}, branch="docs")
    assert repository.update("docs", number=8)["plan.yml"].results()["Gate"] == "success"
    assert repository.gate(8) == "success"

    repository.commit(branch="left", groups=removal("a"))
    repository.commit(groups=removal("b"))
    repository.open("left", number=9)
    assert not repository.pull(9)["mergeable"]
    # GitHub runs no workflow of a pull request that conflicts; it may have begun before the conflict.
    repository.pull(9)["merge_commit_sha"] = repository.git("rev-parse", "left")
    repository.hub.pull_request(9)
    assert repository.gate(9) == "failure"
    assert repository.state.statuses[-1]["description"] == "it conflicts with main: merge main into it"

    repository.commit(branch="broken", groups=removal("a").replace("groups:", "gruops:"))
    runs = repository.update("broken", number=10)
    assert runs["plan.yml"].results()["Validate"] == "failure"
    assert repository.gate(10) == "failure"

    for branch, state in (("main", "success"), ("broken", "failure")):
        sha = repository.git("rev-parse", branch)
        repository.hub.merge_group(sha)
        assert repository.hub.check(sha, "reconciler") == state
    assert repository.hub.entered == []


def _connection_waiver(name: str) -> str:
    metadata = f"connection, cluster: {name}, reason: a new Cluster"
    return waiver(f"Cluster/{name}", "connection", 3, name=metadata, days=7)


def test_a_new_cluster_needs_a_waiver_and_creates_no_environment(repository: Repository) -> None:
    """A pull request that adds a Cluster is not planned there, because nothing trusted says where it
    is, and GitHub would create the environment without protection.

    The gate is red until a waiver allows the new connection.
    """
    environments, new = set(repository.state.environments), cluster_manifest("new", "bmV3LWNsdXN0ZXItbmV3Mg")
    refused = repository.propose({"manifests/new/cluster.yaml": new})["plan.yml"]
    assert "error: new: connection: connects elsewhere after the merge" in refused.jobs["Validate"].log
    assert "::error title=New Cluster::The default branch has no Cluster new: " in refused.jobs["Validate"].log
    assert (repository.gate(), repository.hub.entered) == ("failure", [])
    waived = repository.propose({"manifests/new/waiver.yaml": _connection_waiver("new")})
    assert waived["plan.yml"].results() == PLANNED
    assert set(repository.state.environments) == environments
    assert repository.hub.entered == ["reconciler-plan-eu"]
    assert repository.gate() == "success"


def test_a_renamed_cluster_needs_a_waiver(repository: Repository) -> None:
    """No Cluster of the default branch is left to plan, and the gate does not become green by that.

    Its policies have no plan before the default branch has the Cluster, so they come later.
    """
    waived = {"waiver": _connection_waiver("europe")}
    files = {"cluster": cluster_manifest("europe"), "leaders": leaders("europe"), **waived}
    with_policies = repository.propose(**files)["plan.yml"]
    assert "its 1 policies have no plan: merge the Cluster without them first" in with_policies.jobs["Validate"].log
    assert repository.gate() == "failure"
    without_waiver = repository.propose(leaders="", waiver="")["plan.yml"]
    assert "error: europe: connection: connects elsewhere" in without_waiver.jobs["Validate"].log
    assert without_waiver.results()["plan"] == "skipped"
    assert repository.gate() == "failure"
    renamed = repository.propose(**waived)["plan.yml"]
    assert "::warning title=Cluster eu is removed::" in renamed.jobs["Validate"].log
    assert repository.gate() == "success"
    description = repository.state.statuses[-1]["description"]
    assert description == "removes the Cluster eu; no cluster of the default branch to plan"
    assert repository.hub.entered == []


def test_a_cluster_that_vanishes_is_shown(repository: Repository) -> None:
    """The log and the check name it, and the other clusters are planned."""
    repository.commit({"manifests/us/cluster.yaml": cluster_manifest("us", "bmV3LWNsdXN0ZXItbmV3Mg")})
    planned = repository.propose({"manifests/us/cluster.yaml": ""})["plan.yml"]
    assert planned.results() == PLANNED, planned.log
    assert "::warning title=Cluster us is removed::" in planned.jobs["Validate"].log
    assert repository.gate() == "success"
    assert repository.state.statuses[-1]["description"].startswith("removes the Cluster us; planned for each")


def test_a_refused_limit_fails_the_check_and_bounds_nothing(
    repository: Repository, cluster: SandboxCluster, topic: str
) -> None:
    """The plan is visible and the gate is red with the limit's name; a merge applies nothing and
    asks for no approval.
    """
    group = _create_group(cluster, f"limited-{topic}", topic)
    run = repository.propose(groups=removal(group), cluster=cluster_manifest("eu", limits="groups: 0"))["plan.yml"]
    assert run.results() == PLANNED | {"Plan eu": "failure"}
    assert "(exit 3)" in run.jobs["Plan eu"].log
    assert "::error title=REFUSED (groups)::" in run.jobs["Plan eu"].log
    assert group in repository.comments()["eu"]
    assert repository.gate() == "failure"
    repository.hub.entered.clear()
    merged = repository.approve_and_merge()
    assert merged.results()["Plan eu"] == "failure"
    assert "::error title=Not reviewed::The pull request has no plan for eu" in merged.log
    assert merged.results()["apply"] == "skipped"
    assert repository.hub.entered == ["reconciler-plan-eu"]
    assert group in list_groups(cluster)


def test_an_unreachable_cluster_replaces_the_plan_and_stops_the_merge(
    repository: Repository, cluster: SandboxCluster, topic: str
) -> None:
    """An outdated plan does not stay in the comment; without a plan nothing is applied."""
    group = _create_group(cluster, f"away-{topic}", topic)
    assert repository.propose(groups=removal(group))["plan.yml"].results() == PLANNED
    assert group in repository.comments()["eu"]
    with repository.unreachable("eu"):
        second_run = repository.propose()["plan.yml"]
    assert second_run.results() == PLANNED | {"Plan eu": "failure"}
    assert "error: eu: no broker of ${env:KAFKA_BOOTSTRAP_SERVERS} answered" in second_run.jobs["Plan eu"].log
    assert group not in repository.comments()["eu"]
    assert f"https://github.com/{REPOSITORY}/actions/runs/{second_run.id}" in repository.comments()["eu"]
    apply_run = repository.approve_and_merge()
    assert apply_run.results()["Plan eu"] == "failure"
    assert "::error title=Not reviewed::" in apply_run.jobs["Plan eu"].log
    assert group in list_groups(cluster)
    [issue] = repository.state.issues
    assert (issue["title"], issue["state"]) == ("reconciler apply fails", "open")
    assert "- [Plan eu](https://github.com/" in issue["body"]


def test_one_cluster_that_fails_stops_no_other(
    tmp_path: Path, cluster: SandboxCluster, other_cluster: SandboxCluster, topic: str
) -> None:
    """The plan, the merge and the drift of eu go on while us is not reachable, and the red run has an
    issue, which the next green run closes.
    """
    repository = Repository(tmp_path, {"eu": cluster, "us": other_cluster})
    group = _create_group(cluster, f"one-{topic}", topic)
    repository.propose(groups=removal(group))
    repository.approve()
    with repository.unreachable("us"):
        merged = repository.merge()
        assert (merged.results()["Plan us"], merged.results()["Apply to eu"]) == ("failure", "success"), merged.log
        assert group not in list_groups(cluster)
        [issue] = repository.state.issues
        assert "- [Plan us]" in issue["body"]
        assert "Plan eu" not in issue["body"]
        _create_group(cluster, group, topic)
        drift_run = repository.hub.schedule("drift.yml")
    assert (drift_run.results()["Drift of us"], drift_run.results()["Issue"]) == ("failure", "success"), drift_run.log
    assert [issue["title"] for issue in repository.state.issues][1:] == ["Drift on eu"]
    again = repository.hub.rerun(merged)
    assert again.results()["Report / Issue"] == "success", again.log
    assert repository.state.issues[0]["state"] == "closed"


def test_drift_opens_keeps_and_closes_one_issue(repository: Repository, cluster: SandboxCluster, topic: str) -> None:
    """Each cluster has one issue: opened on drift, unchanged while nothing changes, closed in sync.

    It links the run by hand. A run that could not read the cluster keeps it. A run that is started
    again has the manifests of the moment.
    """
    group = f"drifting-{topic}"
    repository.commit(groups=removal(group))
    assert set(repository.hub.schedule("drift.yml").results().values()) == {"success"}
    assert repository.state.issues == []
    _create_group(cluster, group, topic)
    assert set(repository.hub.schedule("drift.yml").results().values()) == {"success"}
    [opened] = deepcopy(repository.state.issues)
    assert (opened["title"], opened["state"]) == ("Drift on eu", "open")
    assert f'"{group}"' in opened["body"]
    assert f"(https://github.com/{REPOSITORY}/actions/workflows/apply.yml) for the cluster `eu`" in opened["body"]
    with repository.unreachable("eu"):
        unreachable_run = repository.hub.schedule("drift.yml")
    assert unreachable_run.results() == {"List the clusters": "success", "Drift of eu": "failure", "Issue": "success"}
    assert set(repository.hub.schedule("drift.yml").results().values()) == {"success"}
    assert repository.state.issues == [opened], "an unchanged drift leaves the issue unchanged, with its *since*"
    drifting = repository.hub.schedule("drift.yml")
    repository.commit(groups=removal(f"not-{group}"))
    assert set(repository.hub.rerun(drifting).results().values()) == {"success"}
    [closed] = repository.state.issues
    assert (closed["number"], closed["state"]) == (opened["number"], "closed")
    assert repository.state.comments[-1]["body"] == "In sync again."


def test_a_push_without_a_pull_request_applies_nothing(
    repository: Repository, cluster: SandboxCluster, topic: str
) -> None:
    """Without a reviewed plan nothing is applied."""
    group = _create_group(cluster, f"pushed-{topic}", topic)
    repository.commit(branch="change", groups=removal(group))
    repository.open()
    repository.hub.machine = {"RECONCILER_TIMEOUT": "1"}
    run = repository.merge(associated=False)
    assert run.results()["Find what was reviewed"] == "failure"
    assert "::error title=Not reviewed::This commit was not merged from a pull request" in run.log
    assert repository.hub.entered == []
    assert group in list_groups(cluster)


def test_a_run_by_hand_brings_drift_back(repository: Repository, cluster: SandboxCluster, topic: str) -> None:
    """It plans the default branch, waits for the environment's approval, and applies.

    It has no pull request that bounds it: the approval of its digest does.
    """
    group = _create_group(cluster, f"drifted-{topic}", topic)
    repository.commit(groups=removal(group))
    unknown = repository.hub.dispatch("apply.yml", cluster="us", digest="")
    assert "::error title=Not reviewed::There is no Cluster us" in unknown.log
    repository.hub.approve = lambda _environment: False
    rejected = repository.hub.dispatch("apply.yml", cluster="eu", digest="")
    assert rejected.results().get("Apply to eu") == "failure", rejected.log
    assert group in rejected.jobs["Plan eu"].summary
    assert group in list_groups(cluster)
    repository.hub.approve = lambda _environment: True
    run = repository.hub.dispatch("apply.yml", cluster="eu", digest="")
    assert run.results()["Apply to eu"] == "success", run.log
    assert group not in list_groups(cluster)
    assert repository.state.issues == [], "a person watches a run by hand"


def test_without_reviewers_only_a_run_with_the_digest_applies(
    repository: Repository, cluster: SandboxCluster, topic: str
) -> None:
    """An environment that does not exist, which GitHub creates without protection, applies nothing.

    A run by hand with the digest of a plan applies exactly that plan.
    """
    group, later = _create_group(cluster, f"by-hand-{topic}", topic), f"later-{topic}"
    protected = repository.state.environments.pop("reconciler-apply-eu")
    repository.propose(groups=removal(group, later))
    merged = repository.approve_and_merge()
    assert merged.results().get("Apply to eu") == "failure", merged.log
    assert "not protected: environment reconciler-apply-eu: has no required reviewers" in merged.jobs["Apply to eu"].log
    assert group in list_groups(cluster)
    planned = repository.hub.dispatch("apply.yml", cluster="eu", digest="")
    assert "not protected" in planned.jobs["Apply to eu"].log

    repository.state.environments["reconciler-apply-eu"] = replace(protected, reviewers=())
    digest = repository.digest()
    _create_group(cluster, later, topic)
    other = repository.hub.dispatch("apply.yml", cluster="eu", digest=f"sha256:{0:064}")
    assert "::error title=Not reviewed::No run of this workflow has a plan of eu with the digest" in other.log
    applied = repository.hub.dispatch("apply.yml", cluster="eu", digest=digest)
    assert applied.results()["Apply to eu"] == "success", applied.log
    [command] = repository.commands("apply")
    assert command["variables"]["RECONCILER_APPROVER"] == "octocat", "who runs it with a digest approves"
    assert (group in list_groups(cluster), later in list_groups(cluster)) == (False, True)


def test_elections_have_a_job_and_an_environment_of_their_own(repository: Repository, cluster: SandboxCluster) -> None:
    """One reviewed plan with an election enters the environment of elections and no other."""
    plan = example_plan(election(), cluster="eu")
    digest = plan_file.digest(plan)
    folder = repository.state.folder / "artifacts" / "1" / "eu" / "1"
    folder.mkdir(parents=True)
    plan_file.write(plan, folder / "plan.json")
    (folder / "plan.md").write_text("elections")
    sha = repository.git("rev-parse", "main")
    head = {"event": "push", "head_branch": "main", "head_sha": sha, "head_repository": {"full_name": REPOSITORY}}
    repository.state.runs.append({"id": 1, "path": ".github/workflows/apply.yml", "attempts": [], **head})
    artifact = {"id": 1, "name": f"apply_eu_{digest.partition(':')[2]}", "workflow_run": {"id": 1}}
    repository.state.artifacts.append(artifact)
    run = repository.hub.dispatch("apply.yml", cluster="eu", digest=digest)
    assert repository.hub.entered == ["reconciler-plan-eu", "reconciler-elect-eu"], run.log
    assert run.jobs["Elect leaders on eu"].concurrency == "reconciler-elect-eu"
    assert "(exit 4)" in run.jobs["Elect leaders on eu"].log


def test_only_the_approved_plan_is_applied_and_only_while_its_manifests_hold(
    repository: Repository, cluster: SandboxCluster, topic: str
) -> None:
    """A plan that was replaced during the approval is refused by its digest, even if it is valid.

    A protection that is merged during the approval prevents the apply. A rerun plans with the
    protection, within the same review: a group that appears after it is beyond it, and the output
    reports that.
    """
    protected, removed = (_create_group(cluster, f"{name}-{topic}", topic) for name in ("protected", "removed"))
    later = f"later-{topic}"
    repository.propose(groups=removal(protected, removed, later))
    repository.approve()
    _create_group(cluster, later, topic)

    def replace_plan(_environment: str) -> bool:
        path = repository.artifact("apply_eu_") / "eu" / "1" / "plan.json"
        plan = plan_file.read(path)
        decisions = tuple(action for action in plan.actions if removed in str(action.address))
        plan_file.write(replace(plan, decisions=decisions), path)
        return True

    repository.hub.approve = replace_plan
    merged = repository.merge()
    assert merged.results().get("Apply to eu") == "failure", merged.log
    assert "(exit 4)" in merged.jobs["Apply to eu"].log
    assert {protected, removed, later} <= list_groups(cluster)

    def protect(_environment: str) -> bool:
        manifest = cluster_manifest("eu") + f"  protect: {{groups: [{protected}]}}\n"
        repository.commit(cluster=manifest)
        return True

    repository.hub.approve = protect
    refused = repository.hub.rerun(merged)
    assert refused.results().get("Apply to eu") == "failure", refused.log
    assert "are not those that the plan was calculated from" in refused.jobs["Apply to eu"].log
    assert {protected, removed, later} <= list_groups(cluster)
    repository.hub.approve = lambda _environment: True
    rerun = repository.hub.rerun(refused)
    assert rerun.results()["Apply to eu"] == "success", rerun.log
    assert "B108" in rerun.jobs["Plan eu"].summary
    assert list_groups(cluster) & {protected, removed, later} == {protected, later}


def test_a_continuous_policy_is_approved_once_and_then_converges(
    repository: Repository, cluster: SandboxCluster, topic: str
) -> None:
    """Its merge asks for an approval although its plan is empty, because what converges later has no
    other approval.

    The schedule enters only the environments of clusters with a continuous policy, and each of its
    runs has the manifests of the moment. A later one of its commit once removed what main protected.
    """
    idle = repository.hub.schedule("converge.yml")
    assert idle.results() == {"List the clusters": "success", "converge": "skipped", "Report / Issue": "success"}
    # A file would be lost with the runner, so the release is in a topic.
    journal = create_journal(cluster)
    repository.commit(cluster=cluster_manifest("eu") + f"  journal: {{topic: {journal}}}\n")
    continuous = removal(f"dead-{topic}", idle_for="1s", mode="continuous")
    repository.propose(groups=continuous)
    repository.approve()
    repository.hub.entered.clear()
    merged = repository.merge()
    assert merged.results().get("Apply to eu") == "success", merged.log
    assert repository.hub.entered == ["reconciler-plan-eu", "reconciler-apply-eu"]

    _create_group(cluster, f"dead-{topic}", topic)
    time.sleep(1.5)  # idleFor: 1s
    repository.hub.entered.clear()
    run = repository.hub.schedule("converge.yml")
    assert run.results()["Converge eu"] == "success", run.log
    assert repository.hub.entered == ["reconciler-converge-eu"]
    assert run.jobs["Converge eu"].concurrency == "reconciler-converge-eu"
    [converge] = repository.commands("converge")
    assert "--reviewed" in converge["arguments"]
    assert f"dead-{topic}" not in list_groups(cluster)

    # Run again, or after the job waited for its turn: the merged protection has no release yet.
    _create_group(cluster, f"dead-{topic}", topic)
    protected = cluster_manifest("eu") + f"  protect: {{groups: [dead-{topic}]}}\n  journal: {{topic: {journal}}}\n"
    repository.commit(cluster=protected)
    time.sleep(1.5)  # idleFor: 1s
    again = repository.hub.rerun(run)
    assert again.results()["Converge eu"] == "failure", again.log
    assert "not released" in again.log
    assert f"dead-{topic}" in list_groups(cluster)


def test_a_target_may_belong_to_one_of_two_clusters(
    tmp_path: Path, cluster: SandboxCluster, other_cluster: SandboxCluster, topic: str
) -> None:
    """A target without a decision on one of two clusters is valid; without any decision it is wrong
    usage.

    The first case was once reported as a bug.
    """
    texts = [
        cluster_manifest(name, sandbox.cluster_id, servers=sandbox.bootstrap_servers)
        for name, sandbox in (("eu", cluster), ("us", other_cluster))
    ]
    texts += [leaders("eu", topic), leaders("us")]
    (tmp_path / "all.yaml").write_text("---\n".join(texts))
    target = f"LeaderPolicy/leaders/{topic}"
    result = reconciler(tmp_path, "plan", "all.yaml", "--target", target)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Cluster ") == 1
    unknown_target = reconciler(tmp_path, "plan", "all.yaml", "--target", f"{target}-not")
    assert unknown_target.returncode == 64, unknown_target.stderr
    assert f"{target}-not: nothing is decided about it" in unknown_target.stderr
