"""How a repository on GitHub is protected, asked of a server on loopback that answers as GitHub
documents.

Source of the answers' form: GitHub's REST API, version 2022-11-28.
"""

import base64
import json
from pathlib import Path, PurePosixPath
from subprocess import CompletedProcess
from typing import Any
from urllib.parse import urlsplit

import pytest

from reconciler.cli.app import run
from reconciler.companions.github.api import GitHub, GitHubUnavailable
from reconciler.companions.github.protection import (
    ProtectionFinding,
    State,
    _has_owner,
    check_environment,
    check_repository,
    environments_of,
)
from reconciler.errors import ExitCode, UsageError
from reconciler.manifest.files import source_of, validate_sources
from tests.build import cluster_manifest, policy
from tests.command import reconciler
from tests.unit.companions.github.conftest import FORBIDDEN, NOT_FOUND, TOKEN, FakeApi

APPLY = "environments/reconciler-apply-prod"
MANIFESTS = f"""{cluster_manifest("%s", limits="", name="prod")}\
  client: {{security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: ci, sasl.password: "${{env:KAFKA_PASSWORD}}"}}
---
{policy("LeaderPolicy", "all", 'topics: ["*"]', mode="continuous")}"""
"""The manifests of a cluster at the servers in the place of `%s`, which elects leaders and converges."""
NEEDS = validate_sources([source_of("prod.yaml", (MANIFESTS % "b:9092").encode())], now_ms=0).by_cluster[0]
ENVIRONMENTS = environments_of(NEEDS)
REVIEWERS = {
    "id": 2,
    "type": "required_reviewers",
    "prevent_self_review": True,
    "reviewers": [{"type": "Team", "reviewer": {"id": 7, "slug": "platform"}}],
}
ONLY_MAIN = {"total_count": 1, "branch_policies": [{"id": 1, "name": "main", "type": "branch"}]}


def environment(*rules: dict[str, Any], **values: Any) -> dict[str, Any]:
    policy = {"protected_branches": False, "custom_branch_policies": True}
    all_rules = [*rules, {"id": 3, "type": "branch_policy"}]
    return {"id": 1, "protection_rules": all_rules, "deployment_branch_policy": policy} | values


def owners(text: str) -> dict[str, str]:
    return {"encoding": "base64", "content": base64.encodebytes(text.encode()).decode()}


def tree(*files: str, truncated: bool = False) -> dict[str, Any]:
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents[:-1]}
    rows = [{"path": name, "type": "tree"} for name in folders] + [{"path": name, "type": "blob"} for name in files]
    return {"sha": "4f2c9aa", "tree": rows, "truncated": truncated}


def protected() -> dict[str, Any]:
    """Return path → answer of a repository in which nothing is missing."""
    answers: dict[str, Any] = {"": {"default_branch": "main", "private": True}}
    timer = {"id": 9, "type": "wait_timer", "wait_timer": 30}
    for name in ENVIRONMENTS:
        path = f"environments/{name}"
        answers[path] = environment(REVIEWERS, timer, can_admins_bypass=False)
        answers[f"{path}/deployment-branch-policies"] = ONLY_MAIN
        answers[f"{path}/secrets"] = {"total_count": 1, "secrets": [{"name": "KAFKA_PASSWORD"}]}
        answers[f"{path}/variables"] = {"total_count": 0, "variables": []}
    pull_request = {
        "required_approving_review_count": 1,
        "dismiss_stale_reviews_on_push": True,
        "require_last_push_approval": True,
        "require_code_owner_review": True,
    }
    return answers | {
        "actions/secrets": {"total_count": 1, "secrets": [{"name": "OTHER"}]},
        "actions/organization-secrets": {"total_count": 0, "secrets": []},
        "branches/main/protection": (404, {"message": "Branch not protected"}),
        "rules/branches/main": [
            {"type": "deletion", "ruleset_id": 1},
            {"type": "pull_request", "ruleset_id": 1, "parameters": pull_request},
            {
                "type": "required_status_checks",
                "ruleset_id": 1,
                "parameters": {"required_status_checks": [{"context": "reconciler", "integration_id": 15368}]},
            },
        ],
        "rulesets/1": {"id": 1, "name": "main", "bypass_actors": []},
        "contents/.github/CODEOWNERS": owners(
            "* @acme/all\n/manifests/ @acme/kafka # the rules\n/.github/ @acme/kafka\n"
        ),
        "git/trees/main": tree("README.md", "manifests/prod/cluster.yaml", ".github/workflows/apply.yml"),
        "codeowners/errors": {"errors": []},
    }


@pytest.fixture
def api(api: FakeApi) -> FakeApi:
    """The API of a protected repository."""
    api.answers |= protected()
    return api


def gaps(findings: object) -> list[ProtectionFinding]:
    return [finding for finding in findings if finding.state in (State.GAP, State.UNKNOWN)]  # type: ignore[attr-defined]


def test_a_protected_repository_has_no_gap(api: FakeApi) -> None:
    findings = check_repository(api.repository(), [NEEDS])
    assert gaps(findings) == []
    assert {finding.subject for finding in findings} == {
        *(f"environment {name}" for name in ENVIRONMENTS),
        *(f"secrets of environment {name}" for name in ENVIRONMENTS),
        "secrets of the repository",
        "secrets of the organization",
        "branch main",
        "ruleset 1",
        "CODEOWNERS",
    }


CHANGES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no environment": ({APPLY: NOT_FOUND}, "reconciler-apply-prod: does not exist", f"--method PUT repos/acme/kafka/{APPLY} "),
    "no reviewers": ({APPLY: environment()}, "has no required reviewers", "'reviewers[][id]='\"$(gh api users/LOGIN --jq .id)\""),
    "an empty list of reviewers": (
        {APPLY: environment(REVIEWERS | {"reviewers": []})}, "has no required reviewers", "-F prevent_self_review=true"
    ),
    "every branch": (
        {APPLY: environment(REVIEWERS, deployment_branch_policy=None)},
        "every branch may use it",
        "-f 'reviewers[][type]=Team' -F 'reviewers[][id]='7 ",
    ),
    "every protected branch": (
        {APPLY: environment(REVIEWERS, deployment_branch_policy={"protected_branches": True, "custom_branch_policies": False})},
        "every protected branch may use it",
        "'deployment_branch_policy[custom_branch_policies]=true'",
    ),
    "another branch": (
        {f"{APPLY}/deployment-branch-policies": {"branch_policies": [
            {"id": 1, "name": "main", "type": "branch"}, {"id": 5, "name": "*", "type": "branch"}
        ]}},
        "branch rule * may use it, too",
        f"--method DELETE repos/acme/kafka/{APPLY}/deployment-branch-policies/5",
    ),
    "a tag of that name": (
        {f"{APPLY}/deployment-branch-policies": {"branch_policies": [{"id": 5, "name": "main", "type": "tag"}]}},
        "no rule allows main",
        "-f name=main -f type=branch",
    ),
    "no secret": (
        {f"{APPLY}/secrets": {"secrets": []}}, "KAFKA_PASSWORD is not set there", "gh secret set KAFKA_PASSWORD --repo acme/kafka --env"
    ),
    "a secret of the repository": (
        {"actions/secrets": {"secrets": [{"name": "KAFKA_PASSWORD"}]}},
        "every workflow on every branch reads it",
        "--method DELETE repos/acme/kafka/actions/secrets/KAFKA_PASSWORD",
    ),
    "a secret on the second page": (
        {"actions/secrets": {"secrets": [*({"name": f"S{n}"} for n in range(100)), {"name": "KAFKA_PASSWORD"}]}},
        "KAFKA_PASSWORD is there",
        "actions/secrets/KAFKA_PASSWORD",
    ),
    "no owners": ({"contents/.github/CODEOWNERS": NOT_FOUND}, "there is no such file", "/manifests/ @OWNER/TEAM"),
    "no owner of workflows": (
        {"contents/.github/CODEOWNERS": owners("/manifests/ @acme/kafka\n")}, "names no owner of /.github/", "'/.github/ @OWNER/TEAM'"
    ),
    "an owner taken away": (
        {"contents/.github/CODEOWNERS": owners("* @a\n/manifests/prod/\n")}, "names no owner of /manifests/", "/manifests/"
    ),
    "a folder without an owner": (
        {"contents/.github/CODEOWNERS": owners("* @a\n/manifests/dev/\n"), "git/trees/main": tree("manifests/dev/eu/a.yaml", "manifests/prod/a.yaml")},
        "names no owner of /manifests/dev/eu/:",
        "'/manifests/dev/eu/ @OWNER/TEAM'",
    ),
    "a workflow without an owner": (
        {"contents/.github/CODEOWNERS": owners("* @a\nlate.yml\n"), "git/trees/main": tree(".github/workflows/late.yml", ".github/late.yml")},
        "names no owner of /.github/workflows/:",
        "'/.github/workflows/ @OWNER/TEAM'",
    ),
    "wrong owners": ({"codeowners/errors": {"errors": [{"line": 1}]}}, "has 1 errors", "codeowners/errors"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "text", "command"), CHANGES.values(), ids=CHANGES)
def test_each_gap_has_a_line_and_a_call_that_mends_it(
    api: FakeApi, change: dict[str, Any], text: str, command: str
) -> None:
    """Only what is missing is reported, and the call keeps the settings that are there."""
    api.answers |= change
    findings = gaps(check_repository(api.repository(), [NEEDS]))
    assert {finding.state for finding in findings} == {State.GAP}
    assert any(text in f"{finding.subject}: {finding.text}" and command in finding.command for finding in findings)
    assert 1 <= len(findings) <= 2


CLASSIC_REVIEWS = {
    "dismiss_stale_reviews": True,
    "require_last_push_approval": True,
    "require_code_owner_reviews": True,
    "required_approving_review_count": 1,
}


@pytest.mark.parametrize(
    ("kept", "number"),
    [((), 5), ((0, 1), 1), ((0, 2), 4)],
    ids=["no rules", "without the check", "without reviews"],
)
def test_a_merge_that_requires_too_little_is_a_gap(api: FakeApi, kept: tuple[int, ...], number: int) -> None:
    """Only active rules are listed by GitHub. Classic protection counts as well as rulesets."""
    api.answers["rules/branches/main"] = [api.answers["rules/branches/main"][rule] for rule in kept]
    findings = gaps(check_repository(api.repository(), [NEEDS]))
    assert [finding.subject for finding in findings] == ["branch main"] * number
    assert all("repos/acme/kafka/rulesets --input - <<< '{" in finding.command for finding in findings)
    body = json.loads(findings[0].command.split("<<< ")[1].strip("'"))
    assert body["conditions"]["ref_name"]["include"] == ["~DEFAULT_BRANCH"]
    api.answers["branches/main/protection"] = {
        "required_status_checks": {
            "strict": False,
            "contexts": ["reconciler"],
            "checks": [{"context": "reconciler", "app_id": 1}],
        },
        "required_pull_request_reviews": CLASSIC_REVIEWS,
        "enforce_admins": {"enabled": False},
    }
    findings = check_repository(api.repository(), [NEEDS])  # type: ignore[assignment]
    assert gaps(findings) == []
    assert any(finding.state is State.NOTE and "administrators" in finding.text for finding in findings)


@pytest.mark.parametrize("status", [FORBIDDEN, NOT_FOUND], ids=["403", "404"])
def test_what_the_token_may_not_see_is_not_missing(api: FakeApi, status: tuple[int, object]) -> None:
    """GITHUB_TOKEN sees neither secrets nor classic protection: GitHub answers 403, and often 404."""
    unseen = ("/secrets", "/variables", "organization-secrets", "/protection", "rules/branches/main")
    api.answers |= {path: status for path in api.answers if path.endswith(unseen)}
    findings = gaps(check_repository(api.repository(), [NEEDS]))
    assert {finding.state for finding in findings} == {State.UNKNOWN}
    assert all("cannot be seen with this token" in finding.text for finding in findings)
    assert len(findings) == len(ENVIRONMENTS) + 2 + 5


def test_rules_that_are_seen_count_beside_protection_that_is_not(api: FakeApi) -> None:
    api.answers["branches/main/protection"] = FORBIDDEN
    assert gaps(check_repository(api.repository(), [NEEDS])) == []


@pytest.mark.parametrize("kind", ["rulesets", "classic protection"])
def test_approval_of_the_most_recent_push_is_required(api: FakeApi, kind: str) -> None:
    """Without it, the author of the last commit may be the one who approves it."""
    pull_request = api.answers["rules/branches/main"][1]["parameters"]
    del pull_request["require_last_push_approval"]
    if kind == "classic protection":
        api.answers["rules/branches/main"] = [api.answers["rules/branches/main"][2]]
        reviews = CLASSIC_REVIEWS | {"require_last_push_approval": False}
        api.answers["branches/main/protection"] = {"required_pull_request_reviews": reviews}
    [finding] = gaps(check_repository(api.repository(), [NEEDS]))
    assert (finding.state, finding.text) == (State.GAP, "nothing requires approval of the most recent push")
    assert '"require_last_push_approval": true' in finding.command


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        ({"bypass_actors": []}, State.OK, "nothing may bypass it"),
        ({"bypass_actors": [{"actor_id": 1}, {"actor_id": None}]}, State.NOTE, "2 roles, teams, apps or keys"),
        ({"name": "main", "current_user_can_bypass": "never"}, State.UNKNOWN, "cannot be seen with this token"),
        (NOT_FOUND, State.UNKNOWN, "cannot be seen with this token"),
        (FORBIDDEN, State.UNKNOWN, "cannot be seen with this token"),
    ],
)
def test_what_may_bypass_a_ruleset_is_counted(api: FakeApi, answer: Any, state: State, words: str) -> None:
    """A token without write access to the ruleset gets no list: it is unknown, not empty."""
    api.answers["rulesets/1"] = answer
    findings = [f for f in check_repository(api.repository(), [NEEDS]) if f.subject == "ruleset 1"]
    assert [finding.state for finding in findings] == [state]
    assert words in findings[0].text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (tree("manifests/prod/a.yaml", truncated=True), "GitHub lists only 3 entries of main"),
        (FORBIDDEN, "cannot be seen with this token"),
    ],
)
def test_owners_of_files_that_are_not_listed_are_unknown(api: FakeApi, answer: Any, words: str) -> None:
    """Sample names are judged in any case."""
    api.answers["git/trees/main"] = answer
    [finding] = gaps(check_repository(api.repository(), [NEEDS]))
    assert (finding.state, words in finding.text) == (State.UNKNOWN, True)
    api.answers["contents/.github/CODEOWNERS"] = owners("/.github/ @a\n")
    findings = gaps(check_repository(api.repository(), [NEEDS]))
    assert [finding.state for finding in findings] == [State.UNKNOWN, State.GAP]
    assert "names no owner of /manifests/:" in findings[1].text


def test_self_review_and_administrators_are_mentioned(api: FakeApi) -> None:
    """A team of one cannot prevent it, so it is not a gap."""
    api.answers[APPLY] = environment(REVIEWERS | {"prevent_self_review": False}, can_admins_bypass=True)
    findings = check_environment(api.repository(), "reconciler-apply-prod")
    notes = [finding for finding in findings if finding.state is State.NOTE]
    assert ["self-review" in notes[0].text, "administrators" in notes[1].text] == [True, True]
    assert "prevent_self_review=true" in notes[0].command
    assert gaps(findings) == []


@pytest.mark.parametrize("role", ["plan", "converge"])
def test_environments_of_schedules_need_no_reviewers(api: FakeApi, role: str) -> None:
    """A schedule needs no reviewers; but no other branch may read its secrets."""
    name = f"reconciler-{role}-prod"
    api.answers[f"environments/{name}"] = environment()
    assert gaps(check_environment(api.repository(), name)) == []
    api.answers[f"environments/{name}"] = environment(deployment_branch_policy=None)
    assert gaps(check_environment(api.repository(), name))


GATE = ("--environment", "reconciler-apply-prod")


def doctor(folder: Path, url: str, *words: str, **variables: str) -> CompletedProcess[str]:
    of_api = {"GITHUB_API_URL": url, "GITHUB_TOKEN": TOKEN}
    return reconciler(folder, "doctor", "--github", "acme/kafka", *words, **of_api, **variables)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (environment(), "no required reviewers"),
        (environment(REVIEWERS, deployment_branch_policy=None), "every branch may use it"),
        (NOT_FOUND, "does not exist"),
        (FORBIDDEN, "cannot be seen with this token"),
        ((500, {"message": "oops"}), "answered 500"),
        ((401, {"message": "Bad credentials"}), "token of GH_TOKEN or GITHUB_TOKEN is not valid"),
        ((200, b"<html>"), "something else than JSON"),
        ({"id": 1}, "another form"),
        ((403, {"message": "API rate limit exceeded", "headers": {"X-RateLimit-Remaining": "0"}}), "no more requests"),
        ((403, {"message": f"no {TOKEN} \x1b[2J\n::error::x"}), ""),
        (None, "127.0.0.1:1 could not be asked"),
    ],
)  # fmt: skip
def test_the_gate_of_apply_fails_closed(api: FakeApi, tmp_path: Path, answer: Any, words: str) -> None:
    """An approval that cannot be shown is none. The refusal begins with `not protected`.

    A server may repeat the header in its message, and has no command of a terminal or of a runner for us.
    """
    api.answers[APPLY] = answer
    done = doctor(tmp_path, api.url if answer else "http://127.0.0.1:1", *GATE)
    assert done.returncode == ExitCode.ERROR
    assert done.stdout.startswith("not protected: environment reconciler-apply-prod: ")
    assert words in done.stdout.splitlines()[0]
    assert TOKEN not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout
    assert "::error" not in done.stdout


def test_the_gate_of_apply_opens(api: FakeApi, tmp_path: Path) -> None:
    """It needs no manifests, and asks nothing but the environment."""
    done = doctor(tmp_path, api.url, *GATE)
    assert done.returncode == ExitCode.DONE
    assert "not protected" not in done.stdout
    assert {urlsplit(path).path.removeprefix("/repos/acme/kafka") for path, _ in api.requests} == {
        "",
        f"/{APPLY}",
        f"/{APPLY}/deployment-branch-policies",
    }


@pytest.mark.parametrize(("names", "code"), [("prod", 0), ("dev, prod", 0), ("dev", 1), ("", 1), ("prod-eu,pro", 1)])
def test_an_operator_may_accept_a_cluster_without_reviewers(
    api: FakeApi, tmp_path: Path, names: str, code: int
) -> None:
    """Private repositories may have no reviewers. The branch rule is not given up."""
    for answer, expected in ((environment(), code), (environment(deployment_branch_policy=None), ExitCode.ERROR)):
        api.answers[APPLY] = answer
        assert doctor(tmp_path, api.url, *GATE, RECONCILER_UNREVIEWED=names).returncode == expected


def test_the_doctor_prints_gaps_with_their_calls(api: FakeApi, tmp_path: Path) -> None:
    """The manifests say which environments and which secrets there have to be."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "prod.yaml").write_text(MANIFESTS % "${env:KAFKA_SERVERS}")
    done = doctor(tmp_path, api.url)
    assert done.returncode == ExitCode.ERROR
    lines = done.stdout.splitlines()
    missing = [line for line in lines if line.startswith("MISSING")]
    assert len(missing) == len(ENVIRONMENTS)
    assert all("KAFKA_SERVERS is not set there" in line for line in missing)
    assert sum("$ gh secret set KAFKA_SERVERS" in line for line in lines) == len(missing)
    for name in ENVIRONMENTS:
        api.answers[f"environments/{name}/variables"] = {"variables": [{"name": "KAFKA_SERVERS", "value": "b:1"}]}
    done = doctor(tmp_path, api.url, "-o", "json")
    assert done.returncode == ExitCode.DONE
    document = json.loads(done.stdout)
    assert document["repository"] == "acme/kafka"
    assert {finding["state"] for finding in document["findings"]} == {"ok"}


def test_an_environment_without_a_repository_is_wrong_usage() -> None:
    assert run(["doctor", "--environment", "reconciler-apply-prod"]) == ExitCode.USAGE
    assert run(["doctor", "--github", "acme"]) == ExitCode.USAGE


@pytest.mark.parametrize("other", [["--acls"], ["--github", "acme/kafka"]])
def test_a_list_of_clusters_is_no_check(other: list[str], tmp_path: Path) -> None:
    """The other option was left out without a word."""
    (tmp_path / "cluster.yaml").write_text(cluster_manifest("127.0.0.1:1"))
    assert run(["doctor", "--list", str(tmp_path)]) == ExitCode.DONE
    assert run(["doctor", "--list", *other, str(tmp_path)]) == ExitCode.USAGE


@pytest.mark.parametrize(
    ("repository", "environment", "message"),
    [
        # No repository names another path.
        *((name, {}, "expected OWNER/NAME") for name in (
            "", "acme", "acme/", "acme/..", "a/b/c", "acme/kafka?x=1", "../acme", "acme/ka fka", "acme/kafka\n"
        )),
        # Literal loopback addresses are the exception, for tests: a name may mean any host.
        *(("acme/kafka", {"GITHUB_API_URL": url}, "GITHUB_API_URL is not") for url in (
            "http://api.github.com", "http://10.0.0.1", "http://localhost.evil.example", "http://localhost",
            "ftp://127.0.0.1", "file:///etc/passwd", "https://user@host", "https://host?x", "https://host#x",
            "https://", "https://ho st", "http://[::1",
        )),
        *(("acme/kafka", {"GH_TOKEN": token}, "is not a token") for token in ("a b", "a\r\nX-Evil: 1", "ä")),
    ],
)  # fmt: skip
def test_the_token_goes_to_one_repository_by_tls_or_nowhere(
    repository: str, environment: dict[str, str], message: str
) -> None:
    """No message and no text of the object has a value of the environment."""
    with pytest.raises(UsageError, match=message) as caught:
        GitHub.of(repository, timeout_s=1, environment=environment)
    assert not any(value in str(caught.value) for value in environment.values())
    assert TOKEN not in repr(GitHub.of("acme/kafka", timeout_s=1, environment={"GH_TOKEN": TOKEN}))


@pytest.mark.parametrize(
    "url", ["https://api.github.com", "https://ghe.example/api/v3/", "http://127.0.0.1:1", "http://[::1]:1"]
)
def test_other_addresses_are_accepted(url: str) -> None:
    assert GitHub.of("acme/kafka", timeout_s=1, environment={"GITHUB_API_URL": url}).url == url.rstrip("/")


def test_no_other_host_gets_the_token(api: FakeApi) -> None:
    """A redirect of a renamed repository stays on its host."""
    moved = (301, {"message": "Moved Permanently", "headers": {"Location": f"{api.url}/repos/acme/kafka/renamed"}})
    api.answers |= {APPLY: moved, "renamed": environment(REVIEWERS)}
    assert gaps(check_environment(api.repository(), "reconciler-apply-prod")) == []
    assert all(headers["Authorization"] == f"Bearer {TOKEN}" for _path, headers in api.requests)
    count = len(api.requests)
    for other in (api.url.replace("127.0.0.1", "localhost"), "https://evil.example", "http://127.0.0.1:1"):
        api.answers[APPLY] = (301, {"headers": {"Location": f"{other}/repos/acme/kafka/renamed"}})
        with pytest.raises(GitHubUnavailable, match="redirects to another host") as caught:
            check_environment(api.repository(), "reconciler-apply-prod")
        assert TOKEN not in str(caught.value)
    assert sum("renamed" in path for path, _headers in api.requests[count:]) == 0


def test_a_proxy_does_not_get_a_request_without_tls(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert gaps(check_environment(api.repository(), "reconciler-apply-prod")) == []


def test_a_repository_that_is_not_seen_has_no_findings(api: FakeApi) -> None:
    """Its environments would otherwise all seem to be missing."""
    api.answers = {}
    with pytest.raises(GitHubUnavailable, match="acme/kafka does not exist, or this token may not see it"):
        check_environment(api.repository(), "reconciler-apply-prod")


@pytest.mark.parametrize(
    ("text", "name", "owned"),
    [
        ("* @a", "manifests/x.yaml", True),
        ("*.yaml @a", "manifests/prod/x.yaml", True),
        ("*.yaml @a", ".github/workflows/a.yml", False),
        ("/manifests/ @a", "manifests/prod/x.yaml", True),
        ("/manifests @a", "manifests/prod/x.yaml", True),
        ("manifests/ @a", "other/manifests/x.yaml", True),
        ("/manifests/ @a", "other/manifests/x.yaml", False),
        ("manifests/* @a", "manifests/x.yaml", True),
        ("manifests/* @a", "manifests/prod/x.yaml", False),
        ("/manifests/** @a", "manifests/prod/x.yaml", True),
        ("**/prod/ @a", "manifests/prod/x.yaml", True),
        ("**/prod/ @a", "manifests/dev/x.yaml", False),
        ("# * @a", "x", False),
        ("* # @a", "x", False),
        ("* @a\n*.md", "x.md", False),
        ("* @a\n\n  \n*.md @b", "x.yaml", True),
        ("x.yam? @a", "x.yaml", True),
        ("x+yaml @a", "x.yaml", False),
    ],
)  # fmt: skip
def test_the_last_pattern_that_matches_names_the_owner(text: str, name: str, owned: bool) -> None:
    """As GitHub documents CODEOWNERS; a line without an owner takes it away."""
    assert _has_owner(text, name) is owned
