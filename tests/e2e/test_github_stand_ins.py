"""The fakes of the workflow tests agree with GitHub's rules, of expressions, permissions and events."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.github import expressions, gh
from tests.e2e.github.gh import Environment
from tests.e2e.github.repository import PULL, Repository


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("github.repository == 'ACME/housekeeping'", True),
        ("!cancelled() && needs.a.result == 'success' && needs.b.result != 'skipped'", True),
        ("needs.a.outputs.list != '[]'", False),
        ("fromJSON(needs.a.outputs.names)", ["eu", "us"]),
        ("toJSON(needs.b)", '{"result": "failure", "outputs": {}}'),
        ("'it''s' == 'It''S' || ''", True),
        ("hashFiles('nowhere.json') != ''", False),
        ("github.missing == ''", True),
        ("github.missing != '' || needs.b.outputs.missing", None),
        ("format('{0} of {1}', 'a', 'b')", "a of b"),
    ],
)
def test_expressions_have_the_documented_values(expression: str, expected: object, tmp_path: Path) -> None:
    """Strings compare without case, missing properties are null, `&&` and `||` return operands.

    Unknown syntax raises an error, and so does a comparison of something else than texts.
    """
    names = {
        "github": {"repository": "acme/housekeeping"},
        "needs": {
            "a": {"result": "success", "outputs": {"list": "[]", "names": '["eu", "us"]'}},
            "b": {"result": "failure", "outputs": {}},
        },
    }
    names |= expressions.functions(failed=False, workspace=tmp_path)
    assert expressions.evaluate(expression, names) == expected
    for unknown in (f"{expression} == null_", f"{expression} * 'a'", "github == ''"):
        with pytest.raises(expressions.Unknown):
            expressions.evaluate(unknown, names)


def test_the_fakes_check_the_permissions_of_the_job(tmp_path: Path) -> None:
    """The fake API checks permissions, so that a workflow with too few fails here as it does on
    GitHub.
    """
    call = partial(gh.call, gh.State(tmp_path, tmp_path), {"contents": "read"})
    for method, path in (
        ("GET", "repos/acme/housekeeping/issues?state=open&per_page=100"),
        ("POST", "repos/acme/housekeeping/issues/7/comments"),
        ("GET", "repos/acme/housekeeping/actions/artifacts?name=plan"),
        ("POST", "repos/acme/housekeeping/statuses/abc"),
    ):
        with pytest.raises(gh.Refused, match="403"):
            call(method, path, {"body": "x"})
    with pytest.raises(gh.Refused, match="does not know"):
        call("DELETE", "repos/acme/housekeeping", {})


WORKFLOW = """\
name: reconciler validate
on: EVENTS
permissions: {}
jobs:
  job:
    name: reconciler
    runs-on: ubuntu-24.04
    permissions: {contents: read, statuses: write}
    environment: production
    steps:
      - uses: actions/upload-artifact@v0
        with: {name: same, path: ., if-no-files-found: ignore}
      - env: {GH_TOKEN: "${{ github.token }}", SECRET: "${{ secrets.KEY }}"}
        run: echo "$GH_TOKEN $SECRET" > secret; cat secret
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository without manifests, and one environment with a secret for the branch main."""
    repository = Repository(tmp_path, {})
    protected = Environment(secrets={"KEY": "hidden"}, branches=("main",))
    repository.state.environments["production"] = protected
    repository.git("rm", "-q", "-r", ".github")
    repository.save()
    return repository


def _write_workflow(repository: Repository, branch: str, events: str) -> str:
    repository.checkout(branch)
    repository.write(".github/workflows/any.yml", WORKFLOW.replace("EVENTS", events))
    return repository.save()


def test_a_pull_request_runs_the_workflow_of_its_merge(repository: Repository) -> None:
    """So a file of the base or of the head runs, whichever branches they are, as on GitHub."""
    _write_workflow(repository, "base", "[pull_request]")
    repository.commit(branch="change")
    repository.open(base="base")
    [run] = repository.hub.pull_request(PULL)
    assert run.results() == {"reconciler": "failure"}
    assert "refs/pull/7/merge is not allowed to deploy to production" in run.log
    repository.open(base="main")
    assert repository.hub.pull_request(PULL) == []


def test_an_environment_that_does_not_exist_is_created_without_protection(repository: Repository) -> None:
    """A branch rule keeps the secret of an environment from a branch; a missing environment has
    neither rule nor secret.
    """
    _write_workflow(repository, "main", "[push]")
    [run] = repository.hub.push("refs/heads/main", "main~1")
    assert "hidden" in run.log
    del repository.state.environments["production"]
    [run] = repository.hub.push("refs/heads/main", "main~1")
    assert run.results() == {"reconciler": "success"}
    assert "hidden" not in run.log
    assert repository.state.environments["production"] == Environment()


def test_a_rejected_job_does_not_run(repository: Repository) -> None:
    """The reviewers of an environment are asked before the job has its secrets."""
    _write_workflow(repository, "main", "[push]")
    protected = repository.state.environments["production"]
    repository.state.environments["production"] = replace(protected, reviewers=("approver",))
    repository.hub.approve = lambda _environment: False
    [run] = repository.hub.push("refs/heads/main", "main~1")
    assert run.log == "--- reconciler: failure\nrejected by a reviewer\n"


def test_a_fork_gets_no_secret_and_no_token_that_writes(repository: Repository) -> None:
    """Its pull requests run with `statuses: read`, whatever their workflow asks for."""
    repository.state.environments["production"] = Environment(secrets={"KEY": "hidden"})
    _write_workflow(repository, "change", "[pull_request]")
    repository.open(owner="mallory")
    [run] = repository.hub.pull_request(PULL)
    assert '{"contents":"read","statuses":"read"}' in run.log
    assert "hidden" not in run.log
    repository.open()
    [run] = repository.hub.pull_request(PULL)
    assert '"statuses":"write"} hidden' in run.log


def test_a_second_attempt_cannot_upload_an_artifact_of_the_same_name(repository: Repository) -> None:
    """An attempt belongs to its run, and a name to one artifact of the run."""
    repository.state.environments.clear()
    repository.checkout("main")
    text = WORKFLOW.replace("EVENTS", "[push]").replace("      - uses", "      - run: echo > file\n      - uses")
    repository.write(".github/workflows/any.yml", text)
    repository.save()
    [run] = repository.hub.push("refs/heads/main", "main~1")
    assert run.results() == {"reconciler": "success"}, run.log
    rerun = repository.hub.rerun(run)
    assert (rerun.id, rerun.attempt) == (run.id, 2)
    assert "(409) Conflict: an artifact with this name already exists" in rerun.log


def test_a_workflow_run_runs_the_file_of_the_default_branch(repository: Repository) -> None:
    """It follows each run of that name, also of a branch, with the default branch's file and commit."""
    repository.state.environments.clear()
    followed = WORKFLOW.replace("reconciler validate", "follower").replace(
        "EVENTS", "{workflow_run: {workflows: [reconciler validate], types: [completed]}}"
    )
    repository.checkout("main")
    repository.write(".github/workflows/follower.yml", followed)
    main = repository.save()
    repository.checkout("change")
    repository.write(".github/workflows/follower.yml", followed.replace("name: reconciler\n", "name: forged\n"))
    _write_workflow(repository, "change", "[push]")
    first, second = repository.hub.push("refs/heads/change", "main")
    assert (first.path, second.path) == (".github/workflows/any.yml", ".github/workflows/follower.yml")
    assert (second.trigger.sha, second.trigger.head["ref"]) == (main, "main")
    assert second.results() == {"reconciler": "success"}


def test_a_required_check_needs_the_status_and_the_check_run_of_its_name(repository: Repository) -> None:
    """A check run cannot replace a red status; without any report the check is expected."""
    assert repository.hub.check("abc", "reconciler") == "expected"
    repository.state.checks.append({"sha": "abc", "name": "reconciler", "conclusion": "success"})
    assert repository.hub.check("abc", "reconciler") == "success"
    repository.state.statuses.append({"sha": "abc", "context": "reconciler", "state": "failure"})
    assert repository.hub.check("abc", "reconciler") == "failure"
