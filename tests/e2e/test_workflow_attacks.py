"""What a person who can push branches, but not merge, tries in order to enlarge what a merge does.

In each attack a group appears after the review. The reviewed plan does not have it, so only a plan
without a review could remove it. The same attacks succeed against workflows whose pull requests
run the plan themselves (docs/adr/0016-plans-come-from-the-default-branch.md). Each rule has its
cases in tests/unit/companions/github/test_bounds.py.
"""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster
from tests.command import reconciler
from tests.e2e.github.repository import PULL, Repository, cluster_manifest, removal
from tests.e2e.github.runner import WorkflowRun
from tests.e2e.workspace import Workspace, create_journal
from tests.toolbox import list_groups

UPLOADS = """\
      - uses: actions/checkout@v0
        with: {persist-credentials: false}
      - uses: actions/upload-artifact@v0
        with: {name: pull_PULL_HEAD, path: forged, if-no-files-found: error}
      - uses: actions/upload-artifact@v0
        with: {name: plan_eu_PULL_HEAD_1, path: forged, if-no-files-found: error}
"""
FORGED = f"""\
name: reconciler plan
run-name: Plan of pull request {PULL}
on: [pull_request, push]
permissions: {{}}
jobs:
  forged:
    name: Forged
    runs-on: ubuntu-24.04
    permissions: {{contents: read, statuses: write}}
    steps:
{UPLOADS}"""
GREEN = """\
name: green
on: [pull_request]
permissions: {}
jobs:
  green:
    name: reconciler
    runs-on: ubuntu-24.04
    permissions: {contents: read, statuses: write}
    steps:
      - run: STEPS
"""


class Attack:
    """A pull request that is planned and approved, and a group that appears after the review."""

    def __init__(self, folder: Path, cluster: SandboxCluster) -> None:
        self.repository = Repository(folder, {"eu": cluster})
        self.cluster = cluster
        self.topic = Workspace(cluster, folder).create_topic(0)
        self.reviewed, self.later = f"reviewed-{self.topic}", f"later-{self.topic}"
        self.create(self.reviewed)
        self.change = removal(self.reviewed, self.later)

    def create(self, group: str) -> None:
        client.commit(self.cluster.bootstrap_servers, group, {(self.topic, 0): 1})

    def forge(self, workflow: str, head: str) -> None:
        """Write a workflow and a plan with the later group to the checkout."""
        self.create(self.later)
        repository = self.repository
        repository.write(".github/workflows/plan.yml", workflow.replace("PULL", str(PULL)).replace("HEAD", head))
        repository.write("manifests/eu/groups.yaml", self.change)
        (repository.folder / "forged").mkdir()
        servers = self.cluster.bootstrap_servers
        plan = reconciler(repository.folder, "plan", "--out", "forged/plan.json", KAFKA_BOOTSTRAP_SERVERS=servers)
        assert plan.returncode == 0, plan.stderr
        assert self.later in (repository.folder / "forged" / "plan.json").read_text()
        repository.git("checkout", "-q", "--", "manifests")
        repository.git("clean", "-q", "-f", "manifests")

    def groups(self) -> tuple[bool, bool]:
        """Whether the reviewed and the later group exist."""
        groups = list_groups(self.cluster)
        return self.reviewed in groups, self.later in groups


@pytest.fixture
def attack(tmp_path: Path, cluster: SandboxCluster) -> Attack:
    return Attack(tmp_path, cluster)


@pytest.fixture
def repository(attack: Attack) -> Repository:
    return attack.repository


def _applied(run: WorkflowRun) -> bool:
    return run.results().get("Apply to eu") == "success"


def test_a_forged_plan_workflow_bounds_nothing(attack: Attack, repository: Repository) -> None:
    """A run of a file called plan.yml counts only if the default branch holds the file.

    The forged runs have the path, the name, the title and the artifacts of a real one, and the head of
    the reviewed pull request.
    """
    repository.propose(groups=attack.change)
    repository.approve()
    head = repository.head()
    before = repository.git("rev-parse", "main")
    repository.checkout("evil")
    attack.forge(FORGED, head)
    repository.save()

    def pull_request_of_a_fork() -> list[WorkflowRun]:
        repository.open("evil", owner="mallory", number=9)
        repository.pull(9)["head"]["ref"] = "main"
        return repository.hub.pull_request(9)

    repository.open("change", base="evil", number=8)
    ways = [repository.hub.pull_request(8), pull_request_of_a_fork(), repository.hub.push("refs/heads/evil", before)]
    repository.git("tag", "main", "evil")
    ways.append(repository.hub.push("refs/tags/main", before))
    forgeries = [run for runs in ways for run in runs if run.results() == {"Forged": "success"}]
    assert len(forgeries) == len(ways)
    artifacts = repository.state.artifacts
    for forged in forgeries:
        own = [row["name"] for row in artifacts if row["workflow_run"]["id"] == forged.id]
        assert f"plan_eu_{PULL}_{head}_1" in own

    merged = repository.merge()
    for forged in forgeries:
        row = repository.state.runs[forged.id - 1]
        assert (
            f"::warning title=Not trusted::Run {forged.id} (.github/workflows/plan.yml on {forged.trigger.name}, "
            f"{row['head_branch']} of {row['head_repository']['full_name']}, commit {row['head_sha']}) "
            "is not plan.yml of main, so its artifacts do not count."
        ) in merged.log
    assert "B108" in merged.jobs["Plan eu"].summary
    assert _applied(merged), merged.log
    assert attack.groups() == (False, True)


def test_a_changed_base_bounds_nothing(attack: Attack, repository: Repository) -> None:
    """A pull request that was approved against another branch has no plan when its base becomes the
    default branch; the plan that follows is later than the approval, until a reviewer approves again.
    """
    repository.commit(branch="change", groups=attack.change)
    head = repository.git("rev-parse", "change")
    repository.checkout("evil")
    attack.forge(FORGED, head)
    repository.save()
    repository.open("change", base="evil")
    assert repository.hub.pull_request(PULL)[0].results() == {"Forged": "success"}
    assert repository.gate() == "expected"
    repository.approve()
    repository.open("change")
    assert repository.gate() == "expected", "the required check blocks the merge"
    planned = repository.update("change")["plan.yml"]
    assert planned.results()["Plan eu"] == "success", planned.log
    merged = repository.merge()
    assert not _applied(merged)
    assert "::error title=Not reviewed::Planned after the approval: eu was planned at " in merged.log
    assert "Approve again after the plan." in merged.log
    assert attack.groups() == (True, True)
    repository.approve("second-reviewer")
    again = repository.hub.rerun(merged)
    assert _applied(again), again.log


def test_a_title_a_comment_and_a_check_name_prove_nothing(attack: Attack, repository: Repository) -> None:
    """The gate stays red beside a check run of its name, and a forged status applies nothing: the
    plan was refused, so none bounds the merge.
    """
    repository.checkout("change")
    repository.write(".github/workflows/green.yml", GREEN.replace("STEPS", "echo green"))
    runs = repository.propose(groups=attack.change, cluster=cluster_manifest("eu", limits="groups: 0"))
    assert runs["green.yml"].results() == {"reconciler": "success"}
    assert runs["plan.yml"].results()["Plan eu"] == "failure"
    assert repository.gate() == "failure", "a status and a check of one name must both pass"
    repository.pull()["title"] = f"Plan of pull request {PULL}"
    [comment] = repository.state.comments
    comment["body"] = "<!-- reconciler plan eu -->\nNothing to do."
    repository.state.statuses.append({"sha": repository.head(), "context": "reconciler", "state": "success"})
    assert repository.gate() == "success", "who may push may post a status"
    merged = repository.approve_and_merge()
    assert "::error title=Not reviewed::The pull request has no plan for eu" in merged.log
    assert attack.groups() == (True, False)


def test_a_pull_request_does_not_choose_where_the_plan_connects(attack: Attack, repository: Repository) -> None:
    """The plan connects to where the default branch says, and is refused: no byte goes to the servers
    of the pull request, neither before nor after its merge.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        elsewhere = cluster_manifest("eu", servers=address)
        runs = repository.propose(groups=attack.change, cluster=elsewhere)
        assert "::error title=REFUSED (connection)::" in runs["plan.yml"].jobs["Plan eu"].log
        assert attack.reviewed in repository.comments()["eu"], "planned on the trusted cluster"
        assert repository.gate() == "failure"
        merged = repository.approve_and_merge()
        assert "::error title=Not reviewed::The pull request has no plan for eu" in merged.log
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert attack.groups() == (True, False)


def test_a_rerun_after_the_approval_does_not_replace_the_plan(attack: Attack, repository: Repository) -> None:
    """The second attempt plans the later group and has its own artifact; the attempt that was
    approved bounds the merge.
    """
    planned = repository.propose(groups=attack.change)["plan.yml"]
    repository.approve()
    attack.create(attack.later)
    rerun = repository.hub.rerun(planned)
    assert rerun.results()["Plan eu"] == "success", rerun.log
    assert attack.later in repository.comments()["eu"]
    merged = repository.merge()
    assert "B108" in merged.jobs["Plan eu"].summary
    assert _applied(merged), merged.log
    assert attack.groups() == (False, True)


def test_only_the_last_decision_of_a_writer_on_the_last_commit_approves(attack: Attack, repository: Repository) -> None:
    """Approvals of an older commit, of a reader, and those that were taken back do not count.

    For a cluster that an operator names in RECONCILER_UNREVIEWED the merge is the approval.
    """
    repository.propose(groups=removal("no-group"))
    repository.approve("second-reviewer")
    repository.propose(groups=attack.change)
    repository.approve("a-reader")
    repository.approve("reviewer")
    repository.approve("reviewer", state="CHANGES_REQUESTED")
    repository.approve("reviewer", state="COMMENTED")
    merged = repository.merge()
    assert "::error title=Not reviewed::No person with write permission has approved the last commit" in merged.log
    assert attack.groups() == (True, False)
    repository.hub.variables = {"RECONCILER_UNREVIEWED": "us, eu"}
    rerun = repository.hub.rerun(merged)
    assert _applied(rerun), rerun.log


def test_the_merge_approves_no_rules_that_no_plan_has_shown_together(attack: Attack, repository: Repository) -> None:
    """One change removes a protection, the other adds a continuous policy, and each alone removes nothing.

    Where the merge is the approval, nobody sees a plan of both: `converge` once removed the group.
    """
    journal = f"  journal: {{topic: {create_journal(attack.cluster)}}}\n"
    protected = f"{cluster_manifest('eu')}  protect: {{groups: [{attack.reviewed}]}}\n{journal}"
    repository.commit(cluster=protected)
    environment = repository.state.environments["reconciler-apply-eu"]
    repository.state.environments["reconciler-apply-eu"] = replace(environment, reviewers=())
    repository.hub.variables = {"RECONCILER_UNREVIEWED": "eu"}
    repository.propose(cluster=cluster_manifest("eu") + journal)
    repository.commit(branch="other", groups=removal(attack.reviewed, idle_for="1s", mode="continuous"))
    repository.update("other", number=8)
    repository.merge()
    merged = repository.merge(number=8)
    assert not _applied(merged), merged.log
    assert "no plan has shown together" in merged.log
    converged = repository.hub.schedule("converge.yml")
    assert "not released" in converged.log
    assert attack.groups() == (True, False)

    # The plan of a pull request that is brought up to date shows both.
    repository.commit(branch="third", groups=removal(attack.reviewed, attack.later, idle_for="1s", mode="continuous"))
    assert attack.reviewed in repository.update("third", number=9)["plan.yml"].log
    assert _applied(repository.merge(number=9))
    assert attack.groups() == (False, False)


def test_a_refused_attempt_leaves_no_plan_of_an_earlier_one(attack: Attack, repository: Repository) -> None:
    """The review is taken back while the first attempt waits for its approval. The second attempt has
    no plan, and asks for no approval of the plan of the first.
    """
    repository.propose(groups=attack.change)
    repository.approve()
    repository.hub.approve = lambda _environment: False
    merged = repository.merge()
    assert merged.results()["Apply to eu"] == "failure", merged.log
    repository.approve(state="CHANGES_REQUESTED")
    repository.hub.approve = lambda _environment: True
    refused = repository.hub.rerun(merged)
    assert refused.results()["Plan eu"] == "failure", refused.log
    assert "::notice title=No plan for eu::Attempt 2 of this run has no plan for eu" in refused.log
    assert refused.results()["apply"] == "skipped"
    assert attack.groups() == (True, False)
    repository.approve()
    assert _applied(repository.hub.rerun(refused)), "the third attempt has a plan again"
    assert attack.groups() == (False, False)


def test_a_bot_approves_no_digest(attack: Attack, repository: Repository) -> None:
    """It can start a run, but the digest of a plan is an approval: neither its runs nor its attempts
    of a person's run apply one.
    """
    repository.commit(groups=attack.change)
    repository.hub.approve = lambda _environment: False
    repository.hub.dispatch("apply.yml", cluster="eu", digest="")
    repository.hub.approve = lambda _environment: True
    digest = repository.digest()
    repository.hub.actor = "helper[bot]"
    dispatched = repository.hub.dispatch("apply.yml", cluster="eu", digest=digest)
    assert "::error title=Not reviewed::helper[bot] is a bot" in dispatched.log
    assert set(dispatched.results().values()) == {"failure", "skipped"}
    assert attack.groups() == (True, False)
    repository.hub.actor = "octocat"
    repeated = repository.hub.rerun(dispatched)
    assert _applied(repeated), repeated.log
    assert attack.groups() == (False, False)
    repository.hub.actor = "helper[bot]"
    assert "helper[bot] is a bot" in repository.hub.rerun(repeated).log


def test_a_forged_plan_is_not_applied_by_its_digest(attack: Attack, repository: Repository) -> None:
    """A run by hand takes plans of runs of the default branch only, also if a tag has its name."""
    repository.commit(groups=attack.change)
    before = repository.git("rev-parse", "main")
    repository.checkout("evil")
    digest = "b" * 64
    forged = FORGED.replace("plan_eu_PULL_HEAD_1", f"apply_eu_{digest}")
    attack.forge(forged, "0" * 40)
    repository.git("mv", "-f", ".github/workflows/plan.yml", ".github/workflows/apply.yml")
    repository.save()
    repository.git("checkout", "-q", "main")
    repository.git("tag", "main", "evil")
    runs = [repository.hub.push(ref, before)[0] for ref in ("refs/heads/evil", "refs/tags/main")]
    dispatched = repository.hub.dispatch("apply.yml", cluster="eu", digest=f"sha256:{digest}")
    for run in runs:
        assert run.results() == {"Forged": "success"}, run.log
        assert f"::warning title=Not trusted::Run {run.id} (.github/workflows/apply.yml on push" in dispatched.log
    assert "::error title=Not reviewed::No run of this workflow has a plan of eu with the digest" in dispatched.log
    assert attack.groups() == (True, True)
