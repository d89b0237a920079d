"""What the steps of the workflows answer and report: outputs, the required check, comments and issues."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.companions.github.api import BOT, GitHubUnavailable, find_own
from reconciler.companions.github.proposal import find_proposal, gate
from reconciler.companions.github.steps import plan_jobs
from reconciler.companions.github.workflow_run import WorkflowRun, answer
from reconciler.errors import ExitCode
from reconciler.model.plan import ManifestFile
from reconciler.plan import plan_file
from tests.build import cluster_manifest
from tests.command import reconciler
from tests.strategies.examples import election, plan, purge, removal
from tests.unit.cli.loops import cluster_of
from tests.unit.companions.github.conftest import TOKEN, FakeApi, workflow_run

HEAD, MERGE, BASE, TIP = "a" * 40, "b" * 40, "c" * 40, "d" * 40


@pytest.fixture
def variables(api: FakeApi, tmp_path: Path) -> dict[str, str]:
    """The variables of a step, as GitHub's runner sets them."""
    (tmp_path / "event.json").write_text("{}")
    return {
        "GITHUB_API_URL": api.url,
        "GH_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "acme/kafka",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_SHA": MERGE,
        "GITHUB_REF_NAME": "main",
        "GITHUB_RUN_ID": "90",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_TRIGGERING_ACTOR": "octocat",
        "GITHUB_SERVER_URL": "https://github.example.org",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }


def test_an_answer_is_one_line_of_outputs_per_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No text of another origin begins a second line, which would be another output or a command."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    answer(verdict="a\nplan=yes\n::error::x", plans=[{"refusal": "b\n::error::y"}])
    lines = (tmp_path / "output").read_text().splitlines()
    assert [line.partition("=")[0] for line in lines] == ["verdict", "plans"]
    assert json.loads(lines[1].partition("=")[2]) == [{"refusal": "b\n::error::y"}]
    printed = capfd.readouterr().out
    assert json.loads(printed)["verdict"] == "a\nplan=yes\n::error::x"
    assert "::" not in printed


def test_outside_of_a_workflow_a_step_says_where_it_belongs(tmp_path: Path) -> None:
    result = reconciler(tmp_path, "github", "gate", GITHUB_REPOSITORY="", GITHUB_EVENT_NAME="")
    assert result.returncode == ExitCode.USAGE
    assert "only the workflows that `reconciler init` writes run this command" in result.stderr


def test_a_step_without_the_api_fails(tmp_path: Path, variables: dict[str, str]) -> None:
    """It answers nothing, and prints no token."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "a.yaml").write_text(cluster_manifest("b:9092", name="eu"))
    result = reconciler(tmp_path, "github", "bounds", **variables | {"GITHUB_API_URL": "http://127.0.0.1:1"})
    assert result.returncode == ExitCode.ERROR, result.stderr
    assert "could not be asked" in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "output").exists()
    assert TOKEN not in result.stderr


# --- what there is to approve ---


def test_a_plan_has_a_job_for_each_principal_that_it_needs() -> None:
    """Deletions and elections have principals of their own. Without an action no job asks anyone."""
    kinds = {
        "nothing": (plan(), []),
        "records": (plan(purge()), ["apply"]),
        "a group": (plan(removal()), ["apply"]),
        "an election": (plan(election()), ["elect"]),
        "both": (plan(purge(), election()), ["apply", "elect"]),
    }
    for name, (example, kind) in kinds.items():
        assert [job["kind"] for job in plan_jobs(example)] == kind, name
    apply, elect = plan_jobs(plan(purge(), election()))
    assert (apply["operations"], elect["operations"]) == ("DeleteGroups,DeleteRecords", "ElectLeaders")


def test_the_outputs_of_a_step_are_its_own(tmp_path: Path, variables: dict[str, str]) -> None:
    """The step asks `plan` about a new Cluster, which is refused: the exit code became an output of the step."""
    for folder, names in {"manifests": ["one"], "proposed": ["one", "two"]}.items():
        for name in names:
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"{name}.yaml").write_text(cluster_of(name).partition("---")[0])
    result = reconciler(tmp_path, "github", "clusters", "proposed", **variables)
    assert result.returncode == ExitCode.REFUSED
    assert "::error title=New Cluster::" in result.stderr
    assert not (tmp_path / "output").exists()


def test_the_agenda_has_the_last_attempt_of_each_cluster(tmp_path: Path, variables: dict[str, str]) -> None:
    """An attempt without a plan takes the plan of the attempt before away; 10 comes after 9."""
    for name, attempts in {"prod-eu": (1, 9, 10), "us": (1,)}.items():
        for attempt in attempts:
            (tmp_path / "plans" / name / str(attempt)).mkdir(parents=True)
    plan_file.write(plan(removal("old")), tmp_path / "plans/prod-eu/9/plan.json")
    plan_file.write(plan(removal("new")), tmp_path / "plans/prod-eu/10/plan.json")
    result = reconciler(tmp_path, "github", "agenda", "plans", **variables)
    assert result.returncode == 0, result.stderr
    [job] = json.loads(result.stdout)["jobs"]
    assert (job["cluster"], job["attempt"], job["digest"]) == ("prod-eu", "10", plan_file.digest(plan(removal("new"))))
    assert "::notice title=No plan for us::Attempt 1 of this run has no plan for us" in result.stderr


@pytest.mark.parametrize(
    ("unreviewed", "reviewed", "release"),
    [("", None, "yes"), ("prod-eu", "ab", "yes"), ("prod-eu", "cd", ""), ("prod-eu", None, ""), ("us", "cd", "yes")],
)
def test_a_merge_that_is_the_approval_releases_the_manifests_of_its_plan(
    unreviewed: str, reviewed: str | None, release: str, tmp_path: Path, variables: dict[str, str]
) -> None:
    """Another merge in between makes a set that no plan has shown."""

    def write(digit_pair: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        files = (ManifestFile(path="manifests/a.yaml", sha256=digit_pair * 32),)
        planned = plan(purge())
        plan_file.write(replace(planned, source=replace(planned.source, manifests=files)), folder / "plan.json")

    write("ab", tmp_path / "plans/prod-eu/1")
    if reviewed is not None:
        write(reviewed, tmp_path / "plans/prod-eu/1/reviewed")
    result = reconciler(tmp_path, "github", "agenda", "plans", **variables, RECONCILER_UNREVIEWED=unreviewed)
    assert result.returncode == 0, result.stderr
    assert [job["release"] for job in json.loads(result.stdout)["jobs"]] == [release]


@pytest.mark.parametrize("name", ["us", "prod-eu"])
def test_the_agenda_refuses_a_plan_that_is_not_the_one_that_was_asked_for(
    name: str, tmp_path: Path, variables: dict[str, str]
) -> None:
    """Of another cluster than its folder says, or of another digest than the person typed in."""
    (tmp_path / "plans" / name / "1").mkdir(parents=True)
    plan_file.write(plan(removal()), tmp_path / "plans" / name / "1/plan.json")
    digest = "" if name == "us" else f"sha256:{'0' * 64}"
    (tmp_path / "event.json").write_text(json.dumps({"inputs": {"cluster": name, "digest": digest}}))
    result = reconciler(tmp_path, "github", "agenda", "plans", **variables)
    assert result.returncode == ExitCode.PLAN_UNUSABLE, result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(("digest", "expected"), [("", "a,b[bot]"), ("sha256:x", "a,b[bot],octocat")])
def test_approvers_are_of_the_environment(
    digest: str, expected: str, api: FakeApi, tmp_path: Path, variables: dict[str, str]
) -> None:
    """Who rejected, and who approved another environment, is none. Who types a digest in approves it."""

    def row(login: str, state: str, environment: str) -> dict[str, Any]:
        return {"user": {"login": login}, "state": state, "environments": [{"name": environment}]}

    api.answers["actions/runs/90/approvals"] = [
        row("b[bot]", "approved", "reconciler-apply-eu"),
        row("a", "approved", "reconciler-apply-eu"),
        row("c", "rejected", "reconciler-apply-eu"),
        row("d", "approved", "reconciler-elect-eu"),
    ]
    (tmp_path / "event.json").write_text(json.dumps({"inputs": {"cluster": "eu", "digest": digest}}))
    result = reconciler(tmp_path, "github", "approvers", "reconciler-apply-eu", **variables)
    assert json.loads(result.stdout) == {"approver": expected}


# --- the pull request that is planned ---


def proposal_answers() -> dict[str, Any]:
    repo = {"full_name": "acme/kafka", "owner": {"login": "acme"}}
    pull = {"number": 7, "mergeable": True, "merge_commit_sha": MERGE, "head": {"sha": HEAD, "repo": repo}}
    return {
        "pulls": [pull],
        "pulls/7": pull,
        "git/ref/heads/main": {"object": {"sha": TIP}},
        f"git/commits/{MERGE}": {"parents": [{"sha": BASE}, {"sha": HEAD}]},
        f"compare/{BASE}...{TIP}": {"status": "ahead"},
        f"git/trees/{BASE}": {"tree": [{"path": "manifests", "mode": "040000", "sha": "1"}]},
        f"git/trees/{MERGE}": {"tree": [{"path": "manifests", "mode": "040000", "sha": "2"}]},
    }


def checked(api: FakeApi, **changes: Any) -> WorkflowRun:
    run = {
        "head_sha": HEAD,
        "head_branch": "x",
        "head_repository": {"full_name": "acme/kafka", "owner": {"login": "acme"}},
    }
    return workflow_run(api, event={"workflow_run": run | changes, "repository": {"default_branch": "main"}})


@pytest.mark.parametrize("late", ["mergeable", "an older head", "an older base"])
def test_the_merge_of_head_and_base_is_awaited(api: FakeApi, late: str) -> None:
    """GitHub computes it on its own, and the last one may be of an older head, or of another branch."""
    api.answers |= proposal_answers()
    path, changes = {
        "mergeable": ("pulls/7", {"mergeable": None}),
        "an older head": (f"git/commits/{MERGE}", {"parents": [{"sha": BASE}, {"sha": "f" * 40}]}),
        "an older base": (f"compare/{BASE}...{TIP}", {"status": "diverged"}),
    }[late]
    right = api.answers[path]
    api.answers[path] = right | changes
    pauses: list[int] = []

    def pause() -> None:
        pauses.append(1)
        if len(pauses) == 7:
            api.answers[path] = right

    found = find_proposal(checked(api), pause)
    assert (found["number"], len(pauses)) == ("7", 5)
    assert "GitHub has not merged its head with main yet" in found["verdict"]
    assert find_proposal(checked(api), pause) == {"number": "7", "merge": MERGE, "plan": "yes"}


@pytest.mark.parametrize(
    "changes", [{"head_sha": "f" * 40}, {"head_repository": None}], ids=["a newer head", "a deleted fork"]
)
def test_a_run_of_no_open_pull_request_is_not_planned(api: FakeApi, changes: dict[str, Any]) -> None:
    api.answers |= proposal_answers()
    assert find_proposal(checked(api, **changes), lambda: None) == {}


def test_manifests_behind_a_link_are_not_said_to_stay(api: FakeApi) -> None:
    """A pull request that changed only what the link leads to had a green check and no plan."""
    link = {"tree": [{"path": "manifests", "mode": "120000", "sha": "1"}]}
    api.answers |= proposal_answers() | {f"git/trees/{commit}": link for commit in (BASE, MERGE)}
    assert "manifests is no folder" in find_proposal(checked(api), lambda: None)["verdict"]


@pytest.mark.parametrize("broken", [(500, {"message": "x"}), {}, b"<html>"], ids=str)
def test_what_cannot_be_read_is_not_planned(api: FakeApi, broken: Any) -> None:
    """The job fails, so that the check is red; no verdict says that nothing changes."""
    for path in proposal_answers():
        if path == "pulls" and broken == {}:
            continue
        api.answers = {**proposal_answers(), path: broken}
        with pytest.raises(GitHubUnavailable):
            find_proposal(checked(api), lambda: None)


def needs(*results: str, verdict: str = "", clusters: str = "", removed: str = "") -> dict[str, Any]:
    outputs = {"find": {"verdict": verdict}, "clusters": {"clusters": clusters, "removed": removed}}
    names = ("find", "clusters", "plan", "comment")
    return {
        name: {"result": result, "outputs": outputs.get(name, {})} for name, result in zip(names, results, strict=True)
    }


DONE, SKIPPED = ("success",) * 4, ("success", "skipped", "skipped", "skipped")


@pytest.mark.parametrize(
    ("jobs", "state", "text"),
    [
        (needs(*SKIPPED, verdict="no manifests change"), "success", "no manifests change"),
        (needs(*SKIPPED, verdict="it conflicts"), "failure", "it conflicts"),
        (needs(*SKIPPED), "failure", "no valid plan"),
        (needs(*DONE, clusters='["eu"]'), "success", "planned for each cluster"),
        (needs(*DONE, clusters='["eu"]', verdict="no manifests change"), "failure", "no valid plan"),
        (needs(*DONE[:3], "failure", clusters='["eu"]'), "failure", "no valid plan"),
        (needs("success", "success", "failure", "success", clusters='["eu"]'), "failure", "no valid plan"),
        (
            needs("success", "success", "skipped", "skipped", clusters="[]"),
            "success",
            "no cluster of the default branch",
        ),
        (needs("success", "success", "skipped", "skipped", clusters='["eu"]'), "failure", "no valid plan"),
        (needs("success", "failure", "skipped", "skipped"), "failure", "no valid plan"),
        (needs("failure", "skipped", "skipped", "skipped"), "failure", "no valid plan"),
        (needs(*DONE, clusters='["eu"]', removed="us"), "success", "removes the Cluster us; planned"),
        ({"validate": {"result": "success", "outputs": {}}}, "success", "validate of the merge queue: success"),
        ({"validate": {"result": "cancelled", "outputs": {}}}, "failure", "validate of the merge queue: failure"),
    ],
)
def test_only_what_is_known_to_be_complete_is_green(jobs: dict[str, Any], state: str, text: str) -> None:
    found, description = gate(jobs)
    assert found == state
    assert description.startswith(text)
    assert len(gate(jobs | {"clusters": {"result": "success", "outputs": {"removed": "x" * 200}}})[1]) <= 140


# --- comments and issues ---


def test_only_a_comment_of_the_workflows_is_edited() -> None:
    """A person may write the marker, too; accounts are deleted, and bodies may be empty."""
    rows = [
        {"id": 1, "user": {"login": "mallory"}, "body": "<!-- m -->"},
        {"id": 2, "user": None, "body": "<!-- m -->"},
        {"id": 3, "user": {"login": BOT}, "body": None},
        {"id": 4, "user": {"login": BOT}, "body": "text <!-- m -->"},
        {"id": 5, "user": {"login": BOT}, "body": "<!-- m -->\ntext"},
    ]
    assert find_own(rows, "<!-- m -->") == rows[4]
    assert find_own(rows[:4], "<!-- m -->") is None


def test_the_failure_of_one_comment_stops_no_other(api: FakeApi, tmp_path: Path, variables: dict[str, str]) -> None:
    """The step fails, and says of which cluster."""
    for name in ("eu", "us"):
        (tmp_path / "comments" / name).mkdir(parents=True)
        (tmp_path / "comments" / name / "plan.md").write_text(f"plan of {name}")
    own = {"user": {"login": BOT}}
    api.answers["issues/7/comments"] = [
        {**own, "id": number, "body": f"<!-- reconciler plan {name} -->"} for number, name in enumerate(("eu", "us"))
    ]
    api.answers["issues/comments/1"] = {}
    jobs = {"find": {"outputs": {"number": "7"}}, "clusters": {"outputs": {"clusters": '["eu", "us"]'}}}
    result = reconciler(tmp_path, "github", "plan-comments", "comments", NEEDS=json.dumps(jobs), **variables)
    assert result.returncode == ExitCode.ERROR
    assert "error: eu: GitHub refuses issues/comments/0 to this token (Not Found)" in result.stderr
    assert api.sent[1:] == [("PATCH", "issues/comments/1", {"body": "<!-- reconciler plan us -->\nplan of us"})]


@pytest.mark.parametrize("status", [301, 302, 307])
def test_what_is_written_follows_no_redirect(api: FakeApi, status: int) -> None:
    """urllib would repeat it as a GET, which writes nothing and looks like success."""
    api.answers["issues"] = (status, {"headers": {"Location": f"{api.url}/repos/acme/kafka/other"}})
    api.answers["other"] = {}
    with pytest.raises(GitHubUnavailable):
        api.repository().send("POST", "issues", title="x")
    assert [method for method, _path, _fields in api.sent] == ["POST"]
