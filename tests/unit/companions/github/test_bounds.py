"""Which reviewed plan bounds a merge: each rule, over answers in the form that GitHub documents, and
what happens where an answer is missing.

Anyone who may push a branch may also start runs, name artifacts, and delete both.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.companions.code_host import CodeHostUnavailable
from reconciler.companions.github import bounds
from reconciler.companions.github.bounds import Bound, Finder, RunAttempt, bound_of
from reconciler.errors import Refused
from tests.unit.companions.github.conftest import FORBIDDEN, FakeApi, workflow_run

MERGE, HEAD, TIP = "c" * 40, "a" * 40, "d" * 40
DIGEST = "b" * 64


def at(hour: int, second: int = 0) -> str:
    return f"2026-11-23T{hour:02}:00:{second:02}Z"


def time(hour: int, second: int = 0) -> datetime:
    return datetime(2026, 11, 23, hour, 0, second, tzinfo=UTC)


def pull(number: int = 7, **changes: Any) -> dict[str, Any]:
    row = {"number": number, "merge_commit_sha": MERGE, "merged_at": at(12), "base": {"ref": "main"}}
    return row | {"head": {"sha": HEAD}} | changes


def review(login: str = "reviewer", state: str = "APPROVED", hour: int = 10, **changes: Any) -> dict[str, Any]:
    row = {"state": state, "commit_id": HEAD, "submitted_at": at(hour), "user": {"login": login, "type": "User"}}
    return row | changes


def job(cluster: str, conclusion: str, hour: int) -> dict[str, Any]:
    return {"name": f"Plan {cluster}", "conclusion": conclusion, "completed_at": at(hour)}


def run_of(path: str = "plan.yml", event: str = "workflow_run", **changes: Any) -> dict[str, Any]:
    row = {"path": f".github/workflows/{path}", "event": event, "head_branch": "main", "head_sha": "e" * 40}
    return row | {"run_attempt": 1, "head_repository": {"full_name": "acme/kafka"}} | changes


def attempt(hour: int, *, run: int = 5, number: int = 1, lost: set[str] | None = None, **plans: int) -> RunAttempt:
    return RunAttempt(run=run, number=number, ended=time(hour), plans=plans, lost=lost or set())


# --- the rules ---


BOT = {"login": "copilot[bot]", "type": "Bot"}
REVIEWS: dict[str, tuple[list[Any], list[str]]] = {
    "the last first": ([review("a", hour=9), review("b", hour=10)], ["b", "a"]),
    "taken back": ([review(), review(state="CHANGES_REQUESTED")], []),
    "dismissed": ([review(), review(state="DISMISSED")], []),
    "a comment decides nothing": ([review(), review(state="COMMENTED")], ["reviewer"]),
    "only a comment": ([review(state="COMMENTED")], []),
    "an older commit": ([review(commit_id="f" * 40)], []),
    "an approval of an older commit after it": ([review(), review(commit_id="f" * 40)], []),
    "a deleted account": ([review(user=None)], []),
    "a bot": ([review("copilot[bot]", user=BOT)], []),
    "an app without brackets": ([review("helper", user={"login": "helper", "type": "Bot"})], []),
    "a managed user, whose login was read as a bot's": ([review("octocat_acme")], ["octocat_acme"]),
}


@pytest.mark.parametrize(("reviews", "logins"), REVIEWS.values(), ids=REVIEWS)
def test_the_last_decision_of_each_person_on_the_head_counts(reviews: list[Any], logins: list[str]) -> None:
    assert [login for _time, login in bounds.approvals(reviews, HEAD)] == logins


def test_an_artifact_is_a_plan_of_its_whole_name() -> None:
    """Of this pull request, head and attempt, and not expired: GitHub still lists what it has deleted."""
    names = {
        f"plan_eu_7_{HEAD}_1": {},
        f"plan_us_7_{HEAD}_1": {"expired": True},
        f"plan_eu_7_{HEAD}_2": {},
        f"plan_a_8_{HEAD}_1": {},
        f"plan_b_7_{'f' * 40}_1": {},
        f"plan_c_7_{HEAD}_1_1": {},
        f"xplan_d_7_{HEAD}_1": {},
    }
    rows = [{"id": number, "name": name, **changes} for number, (name, changes) in enumerate(names.items())]
    assert bounds.plans_of(rows, number=7, head=HEAD, attempt=1) == {"eu": 0}


JOBS: dict[str, tuple[dict[str, Any], bool]] = {
    "failed": (job("eu", "failure", 9), True),
    "cancelled": (job("eu", "cancelled", 9), True),
    "its artifact is gone": (job("eu", "success", 8), True),
    "not repeated": (job("eu", "success", 7), False),
    "skipped": (job("eu", "skipped", 9), False),
    "another job": ({"name": "Comment", "conclusion": "failure", "completed_at": at(9)}, False),
}


@pytest.mark.parametrize(("row", "lost"), JOBS.values(), ids=JOBS)
def test_an_attempt_that_planned_and_has_no_plan_lost_it(row: dict[str, Any], lost: bool) -> None:
    """The attempt began at 8. *Re-run failed jobs* lists the job that succeeded in the attempt before."""
    assert bounds.lost_plans([row], started=time(8), plans=[]) == ({"eu"} if lost else set())
    assert bounds.lost_plans([row], started=time(8), plans=["eu"]) == set()


# --- what the definition decides ---


@pytest.mark.parametrize(
    ("attempts", "approved", "expected"),
    [
        ([attempt(8, eu=1)], time(10), 1),
        ([attempt(8, eu=1), attempt(9, number=2, eu=2)], time(10), 2),
        ([attempt(8, eu=1), attempt(11, number=2, eu=2)], time(10), 1),
        ([attempt(8, eu=1), attempt(9, run=6, us=2)], time(10), 1),
        ([], time(10), "has no plan for eu"),
        ([attempt(8, us=1)], time(10), "has no plan for eu"),
        ([attempt(8, eu=1)], None, "No person with write permission"),
        ([attempt(11, eu=1)], time(10), "Planned after the approval: eu was planned at 2026-11-23T11:00:00Z"),
        ([attempt(8, lost={"eu"}), attempt(11, number=2, eu=1)], time(10), "Planned after the approval"),
    ],
)
def test_the_newest_plan_before_the_approval_bounds(
    attempts: list[RunAttempt], approved: datetime | None, expected: int | str
) -> None:
    found = bound_of("eu", attempts, approved)
    if isinstance(expected, int):
        [run] = [attempt.run for attempt in attempts if attempt.plans.get("eu") == expected]
        assert found == Bound(cluster="eu", artifact=str(expected), run=str(run))
    else:
        assert expected in found.refusal
        assert found.artifact == ""


@pytest.mark.parametrize("run", [5, 6])
def test_an_attempt_without_a_plan_takes_the_earlier_one_away(run: int) -> None:
    """Its comment said *No plan*, so the approval that followed is of no plan. Also: whoever may push
    may delete the artifact that was reviewed, and the larger plan of an attempt before it was taken.
    """
    attempts = [attempt(8, eu=1), attempt(9, run=run, number=2, lost={"eu"})]
    found = bound_of("eu", attempts, time(10))
    assert found.artifact == ""
    assert "an earlier plan is not what was approved" in found.refusal
    assert bound_of("eu", [*attempts, attempt(11, run=7, eu=3)], time(12)).artifact == "3"


def test_an_approval_in_the_second_in_which_the_plan_ended_does_not_count() -> None:
    """GitHub's times have seconds, and nobody reads a plan in the second in which it appears."""
    late = replace(attempt(8, eu=1), ended=time(10, 0))
    assert "Planned after the approval" in bound_of("eu", [late], time(10, 0)).refusal
    assert bound_of("eu", [late], time(10, 1)).artifact == "1"
    assert bound_of("eu", [late, attempt(7, eu=2)], time(10, 0)).artifact == "2"


# --- the questions ---


def merge_answers(**clusters: int) -> dict[str, Any]:
    """Answers for a merge of #7: cluster → artifact of its plan, made at 8; approved at 10; merged at 12."""
    artifacts = [
        {"id": number, "name": f"plan_{name}_7_{HEAD}_1", "expired": False} for name, number in clusters.items()
    ]
    return {
        f"commits/{MERGE}/pulls": [pull()],
        "pulls/7/reviews": [review()],
        "collaborators/reviewer/permission": {"permission": "write"},
        "actions/artifacts": {"artifacts": [{"id": 40, "workflow_run": {"id": 5}}]},
        "actions/runs/5": run_of(),
        "git/ref/heads/main": {"object": {"sha": TIP}},
        f"compare/{'e' * 40}...{TIP}": {"status": "ahead"},
        "actions/runs/5/artifacts": {"artifacts": artifacts},
        "actions/runs/5/attempts/1": {"status": "completed", "run_started_at": at(7), "updated_at": at(8)},
        "actions/runs/5/attempts/1/jobs": {"jobs": [job(name, "success", 8) for name in clusters]},
    }


def finder(api: FakeApi, *clusters: str, event: Mapping[str, Any] | None = None, **changes: Any) -> Finder:
    name = "workflow_dispatch" if event else "push"
    run = workflow_run(api, name=name, event=event or {}, commit=MERGE, actor=changes.pop("actor", "octocat"))
    values: dict[str, Any] = {"unreviewed": (), "pause": lambda: None} | changes
    return Finder(run=run, clusters=clusters, **values)


def test_a_merge_is_bounded_by_its_plans(api: FakeApi) -> None:
    """One row for each cluster of the manifests, and the number of the pull request."""
    api.answers |= merge_answers(eu=41, old=42)
    (eu, us), number = finder(api, "eu", "us").find()
    assert (number, eu, us.cluster) == ("7", Bound(cluster="eu", artifact="41", run="5"), "us")
    assert "no plan for us" in us.refusal


def test_an_attempt_that_runs_has_no_plan_yet(api: FakeApi) -> None:
    api.answers |= merge_answers(eu=41)
    api.answers["actions/runs/5/attempts/1"]["status"] = "in_progress"
    [bound] = finder(api, "eu").find()[0]
    assert "no plan for eu" in bound.refusal


def test_the_merge_is_the_approval_of_a_cluster_that_an_operator_names(api: FakeApi) -> None:
    """Also if a person approved before the plan ended, which once made the rule stricter."""
    api.answers |= merge_answers(eu=41)
    api.answers["pulls/7/reviews"] = [review(hour=7)]
    assert "Planned after" in finder(api, "eu").find()[0][0].refusal
    assert finder(api, "eu", unreviewed={"eu"}).find()[0][0].artifact == "41"
    api.answers["pulls/7/reviews"] = []
    assert finder(api, "eu", unreviewed={"us"}).find()[0][0].refusal.startswith("No person")
    assert finder(api, "eu", unreviewed={"eu"}).find()[0][0].artifact == "41"
    api.answers["actions/runs/5/attempts/1"]["updated_at"] = at(13)
    assert "Planned after" in finder(api, "eu", unreviewed={"eu"}).find()[0][0].refusal


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, True),
        ({"merged_at": None}, False),
        ({"base": {"ref": "release"}}, False),
        ({"merge_commit_sha": "f" * 40}, False),
    ],
)
def test_only_a_merge_of_this_commit_into_the_branch_is_the_pull_request(
    api: FakeApi, changes: dict[str, Any], found: bool
) -> None:
    api.answers |= merge_answers(eu=41) | {f"commits/{MERGE}/pulls": [pull(**changes)]}
    with nullcontext() if found else pytest.raises(Refused, match="not merged from a pull request"):
        assert finder(api, "eu").find()[1] == "7"


def test_two_pull_requests_with_one_merge_bound_nothing(api: FakeApi) -> None:
    """GitHub closes each pull request whose head the merge brings in. Anyone may open a second one with
    the same head, and its review is not the one that counted: the first of a list was taken.
    """
    api.answers |= merge_answers(eu=41) | {f"commits/{MERGE}/pulls": [pull(), pull(9)]}
    with pytest.raises(Refused, match="#7, #9"):
        finder(api, "eu").find()


@pytest.mark.parametrize("permission", ["admin", "write", "read", "none", "triage", "left the repository"])
def test_only_who_may_write_approves(api: FakeApi, permission: str) -> None:
    """The approval before that of a stranger counts."""
    api.answers |= merge_answers(eu=41)
    api.answers["pulls/7/reviews"] = [review(hour=9), review("last", hour=11)]
    if permission != "left the repository":
        api.answers["collaborators/last/permission"] = {"permission": permission}
    api.answers["actions/runs/5/attempts/1"]["updated_at"] = at(10)
    [bound] = finder(api, "eu").find()[0]
    assert (bound.artifact == "41") is (permission in ("admin", "write"))
    assert bound.artifact or "the last approval is of 2026-11-23T09:00:00Z" in bound.refusal


def test_an_approver_whose_permission_cannot_be_read_is_not_passed_over(api: FakeApi) -> None:
    """The approval before that one is of an earlier plan."""
    api.answers |= merge_answers(eu=41)
    api.answers["pulls/7/reviews"] = [review(hour=9), review("hidden", hour=11)]
    api.answers["collaborators/hidden/permission"] = FORBIDDEN
    with pytest.raises(CodeHostUnavailable, match="collaborators/hidden/permission"):
        finder(api, "eu").find()


def test_github_may_report_the_pull_request_late(api: FakeApi) -> None:
    """The question is repeated three times, with pauses. Then the commit has no pull request."""
    api.answers |= merge_answers(eu=41)
    pauses: list[int] = []
    rows, api.answers[f"commits/{MERGE}/pulls"] = api.answers[f"commits/{MERGE}/pulls"], []

    def pause() -> None:
        pauses.append(len(pauses))
        if len(pauses) == 5:
            api.answers[f"commits/{MERGE}/pulls"] = rows

    with pytest.raises(Refused, match="not merged from a pull request"):
        finder(api, "eu", pause=pause).find()
    assert len(pauses) == 3
    assert finder(api, "eu", pause=pause).find()[0][0].artifact == "41"


@pytest.mark.parametrize(
    ("changes", "status", "trusted"),
    [
        ({}, "ahead", True),
        ({}, "identical", True),
        ({}, "diverged", False),
        ({}, "behind", False),
        ({"path": ".github/workflows/forged.yml"}, "ahead", False),
        ({"event": "push"}, "ahead", False),
        ({"head_branch": "evil"}, "ahead", False),
        ({"head_repository": {"full_name": "mallory/kafka"}}, "ahead", False),
        ({"head_repository": None}, "ahead", False),
        ({"head_sha": "f" * 40}, "ahead", False),
    ],
)
def test_a_run_counts_for_its_file_event_branch_repository_and_commit(
    api: FakeApi, changes: dict[str, Any], status: str, trusted: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """All five, because a branch, a tag of the branch's name and a fork can have runs of the same name.

    GitHub answers 404 for the commit of a fork. The warning names the run.
    """
    api.answers |= merge_answers(eu=41) | {f"compare/{'e' * 40}...{TIP}": {"status": status}}
    api.answers["actions/runs/5"] |= changes
    [bound] = finder(api, "eu").find()[0]
    assert (bound.artifact == "41", "no plan for eu" in bound.refusal) == (trusted, not trusted)
    assert ("::warning title=Not trusted::Run 5 (" in capfd.readouterr().err) is not trusted


def test_a_name_of_a_run_is_no_command_of_the_runner(api: FakeApi, capfd: pytest.CaptureFixture[str]) -> None:
    """A branch that is called like a workflow command is escaped in the warning."""
    api.answers |= merge_answers(eu=41)
    api.answers["actions/runs/5"] |= {"head_branch": "x\n::set-output name=plans::[]", "path": "%0A::stop"}
    finder(api, "eu").find()
    [line] = capfd.readouterr().err.splitlines()
    assert line.count("::") == 2
    assert "%0A" not in line.replace("%250A", "")


def dispatch_answers() -> dict[str, Any]:
    path = f"compare/{'e' * 40}...{TIP}"
    rows = [{"id": 42, "name": f"apply_eu_{DIGEST}", "workflow_run": {"id": 6}}]
    runs = {"actions/runs/6": run_of("apply.yml", "push"), "git/ref/heads/main": {"object": {"sha": TIP}}}
    return {"actions/artifacts": {"artifacts": rows}, **runs, path: {"status": "identical"}}


def dispatch(cluster: str = "eu", digest: str = f"sha256:{DIGEST}") -> dict[str, Any]:
    return {"inputs": {"cluster": cluster, "digest": digest}}


def test_a_run_by_hand_takes_the_plan_of_its_digest(api: FakeApi) -> None:
    """Without a digest nothing bounds it, because its approval is still to come."""
    api.answers |= dispatch_answers()
    assert finder(api, "eu", event=dispatch()).find() == ([Bound(cluster="eu", artifact="42", run="6")], "")
    assert finder(api, "eu", event=dispatch(digest="")).find() == ([Bound(cluster="eu")], "")


@pytest.mark.parametrize(
    ("event", "actor", "message"),
    [
        (dispatch("us"), "octocat", "There is no Cluster us"),
        *(
            (dispatch(name), "octocat", "not a name of a Cluster")
            for name in ("eu\nplans=[]", "eu\n", "eu us", 'eu"', "EU", "")
        ),
        (dispatch(digest="latest"), "octocat", "latest is not a digest"),
        (dispatch(digest=f"sha256:{DIGEST}\n"), "octocat", "is not a digest"),
        (dispatch(digest=f"sha256:{'0' * 64}"), "octocat", "No run of this workflow has a plan"),
        (dispatch(), "helper[bot]", "is a bot"),
    ],
)
def test_a_run_by_hand_is_refused(api: FakeApi, event: dict[str, Any], actor: str, message: str) -> None:
    api.answers |= dispatch_answers()
    if "0" * 64 in event["inputs"]["digest"]:
        api.answers["actions/artifacts"] = {"artifacts": []}
    with pytest.raises(Refused, match=message.replace("[", r"\[")):
        finder(api, "eu", event=event, actor=actor).find()


BROKEN: list[Any] = [FORBIDDEN, (500, {"message": "x"}), b"<html>", {}, [], None, {"message": "moved"}]


@pytest.mark.parametrize("event", [None, dispatch()], ids=["merge", "digest"])
@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_what_cannot_be_read_bounds_nothing(api: FakeApi, broken: Any, event: dict[str, Any] | None) -> None:
    """Whichever answer is an error, empty or of another form: no plan, and never *no bound*."""
    answers = dispatch_answers() if event else merge_answers(eu=41)
    assert len(answers) > 3
    for path in answers:
        if path.endswith("/jobs"):  # asked only where a cluster has no plan
            continue
        api.answers = {**answers, path: broken}
        try:
            [bound] = finder(api, "eu", event=event).find()[0]
        except (CodeHostUnavailable, Refused):
            continue
        assert bound.artifact == "", path
        assert bound.refusal, path
