"""Checks whether a repository on GitHub protects what an apply rests on: environments, secrets,
branch, owners.

Reads only, and decides nothing about a cluster. What a token may not see is unknown, never missing.
"""

import base64
import binascii
import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from reconciler.companions.code_host import Hidden
from reconciler.companions.github.api import GitHub, GitHubUnavailable
from reconciler.manifest.files import ClusterManifests
from reconciler.model.action import Mode
from reconciler.references import REFERENCE

UNREVIEWED = "RECONCILER_UNREVIEWED"
"""The variable with the clusters, separated by commas, to which an operator applies without reviewers."""
CHECK = "reconciler"
"""The check that a merge has to require: all others report through it."""
_ENVIRONMENT = re.compile("reconciler-(plan|apply|elect|converge)-(.+)")
_REVIEWED_ROLES = ("apply", "elect")
_OWNERS_FILES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""Where GitHub looks for the file, in this order."""


class State(StrEnum):
    """What a check has seen. Only GAP fails it."""

    OK = "ok"
    GAP = "MISSING"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class ProtectionFinding:
    """One fact about the repository. `command`: the call that mends it; empty: nothing to mend."""

    state: State
    subject: str
    text: str
    command: str = ""


def environments_of(manifests: ClusterManifests) -> tuple[str, ...]:
    """Return the environments that the jobs of one cluster need."""
    roles = ["plan", "apply"]
    roles += ["elect"] if any(policy.OPERATION.RIGHT.resource == "cluster" for policy in manifests.policies) else []
    roles += ["converge"] if any(policy.mode is Mode.CONTINUOUS for policy in manifests.policies) else []
    return tuple(f"reconciler-{role}-{manifests.cluster.metadata.name}" for role in roles)


def _variables_of(manifests: ClusterManifests) -> set[str]:
    """Return the variables that the connection of one cluster reads."""
    spec = manifests.cluster.spec
    texts = [*spec.bootstrap_servers, *(value for value in spec.client.values() if isinstance(value, str))]
    return {match["env"] for text in texts for match in REFERENCE.finditer(text) if match["env"]}


_Facts = Iterator[tuple[State, str] | tuple[State, str, str] | ProtectionFinding]
"""Facts about the subject of a check: state, text and perhaps the command; and findings about others."""


def check_environment(github: GitHub, name: str, *, unreviewed: Collection[str] = ()) -> Sequence[ProtectionFinding]:
    """Return who may use an environment. `unreviewed`: clusters that an operator accepts without reviewers."""
    match = _ENVIRONMENT.fullmatch(name)
    role, cluster = (match[1], match[2]) if match else ("apply", name)
    reviewed, accepted = role in _REVIEWED_ROLES, cluster in unreviewed
    return _guarded(f"environment {name}", _environment(github, name, reviewed=reviewed, accepted=accepted))


def check_repository(
    github: GitHub, clusters: Sequence[ClusterManifests], *, unreviewed: Collection[str] = (), folder: str = "manifests"
) -> Sequence[ProtectionFinding]:
    """Return what protects the clusters' environments, their secrets, the default branch and the manifests."""
    findings: list[ProtectionFinding] = []
    for cluster in clusters:
        for name in environments_of(cluster):
            findings += check_environment(github, name, unreviewed=unreviewed)
            findings += _guarded(f"secrets of environment {name}", _variables(github, name, _variables_of(cluster)))
    names = set[str]().union(*map(_variables_of, clusters))
    for level, path in (("repository", "actions/secrets"), ("organization", "actions/organization-secrets")):
        findings += _guarded(f"secrets of the {level}", _shared_secrets(github, level, path, names))
    with GitHub.documented_form():
        branch = f"branch {github.default_branch}"
    findings += _guarded(branch, _branch(github))
    return [*findings, *_guarded("CODEOWNERS", _owners(github, folder))]


def _guarded(subject: str, facts: _Facts, hidden: str = "") -> Sequence[ProtectionFinding]:
    """Return the findings about a subject, up to the first fact that the token may not see: that is the last one.

    `hidden`: what that one is about, if not the subject. Raises GitHubUnavailable for an answer of another form
    than GitHub documents.
    """
    found: list[ProtectionFinding] = []
    with GitHub.documented_form():
        try:
            for fact in facts:
                found.append(
                    fact if isinstance(fact, ProtectionFinding) else ProtectionFinding(fact[0], subject, *fact[1:])
                )
        except Hidden as error:
            found.append(ProtectionFinding(State.UNKNOWN, hidden or subject, _reason(error)))
    return found


def _environment(github: GitHub, name: str, *, reviewed: bool, accepted: bool) -> _Facts:
    path = f"environments/{quote(name, safe='')}"
    _ = github.default_branch  # of a repository that the token may not see, every path is 404
    present = github.find(path)
    mend = _put_environment(github, path, present or {}, reviewed=reviewed and not accepted)
    if present is None:
        yield State.GAP, "does not exist", mend
        yield _no_rule(github, path)
        return
    rules = [rule for rule in present["protection_rules"] if rule["type"] == "required_reviewers" and rule["reviewers"]]
    if reviewed and not rules and accepted:
        yield State.NOTE, f"has no required reviewers, and {UNREVIEWED} accepts it"
    elif reviewed and not rules:
        yield State.GAP, "has no required reviewers: a run goes on without an approval", mend
    elif reviewed:
        yield State.OK, "has required reviewers"
        if not all(rule.get("prevent_self_review") for rule in rules):
            yield State.NOTE, "does not prevent self-review: who starts a run may approve it", mend
        if present.get("can_admins_bypass"):
            where = "Settings, Environments: allow administrators to bypass"
            yield State.NOTE, f"administrators may bypass the approval ({where})"
    policy, subject = present.get("deployment_branch_policy"), f"environment {name}"
    yield from _guarded(subject, _branch_rule(github, path, policy, mend), f"branch rule of {subject}")


def _branch_rule(github: GitHub, path: str, policy: Any, mend: str) -> _Facts:
    branch = github.default_branch
    if not policy or not policy["custom_branch_policies"]:
        allowed = "every protected branch" if policy else "every branch"
        yield State.GAP, f"{allowed} may use it and read its secrets, expected only {branch}", mend
    rows = github.get_all(f"{path}/deployment-branch-policies", "branch_policies") if policy else []
    names = {row["name"] for row in rows if row.get("type", "branch") == "branch"}
    others = [row for row in rows if row["name"] != branch or row.get("type", "branch") != "branch"]
    if branch not in names:
        yield _no_rule(github, path)
    for row in others:
        remove = github.call("DELETE", f"{path}/deployment-branch-policies/{int(row['id'])}")
        kind = row.get("type", "branch")
        yield State.GAP, f"the {kind} rule {row['name']} may use it, too, expected only {branch}", remove
    if names == {branch} and not others and policy["custom_branch_policies"]:
        yield State.OK, f"only {branch} may use it"


def _no_rule(github: GitHub, path: str) -> tuple[State, str, str]:
    branch = github.default_branch
    words = (f"-f name={shlex.quote(branch)}", "-f type=branch")
    command = github.call("POST", f"{path}/deployment-branch-policies", *words)
    return State.GAP, f"no rule allows {branch}", command


def _put_environment(github: GitHub, path: str, present: Mapping[str, Any], *, reviewed: bool) -> str:
    """Return the call that sets what a check expects, and keeps what there is: it replaces all settings."""
    rules = present.get("protection_rules", ())
    reviewers = [(r["type"], str(int(r["reviewer"]["id"]))) for rule in rules for r in rule.get("reviewers") or ()]
    if reviewed and not reviewers:
        reviewers = [("User", '"$(gh api users/LOGIN --jq .id)"')]
    words = [f"-F wait_timer={int(rule['wait_timer'])}" for rule in rules if rule.get("wait_timer")]
    for kind, number in reviewers:
        words += [f"-f 'reviewers[][type]={'Team' if kind == 'Team' else 'User'}'", f"-F 'reviewers[][id]='{number}"]
    words += ["-F prevent_self_review=true"] if reviewers else []
    policy = "deployment_branch_policy"
    words += [f"-F '{policy}[protected_branches]=false'", f"-F '{policy}[custom_branch_policies]=true'"]
    return github.call("PUT", path, *words)


def _variables(github: GitHub, environment: str, names: Collection[str]) -> _Facts:
    """Yield where an environment lacks a variable that the connection reads."""
    path = f"environments/{quote(environment, safe='')}"
    there = {row["name"] for kind in ("secrets", "variables") for row in github.get_all(f"{path}/{kind}", kind)}
    for name in sorted(set(names) - there):
        command = f"gh secret set {name} --repo {shlex.quote(github.repository)} --env {shlex.quote(environment)}"
        yield State.GAP, f"{name} is not set there", command
    if there >= set(names):
        yield State.OK, "all that the connection reads is set there"


def _shared_secrets(github: GitHub, level: str, path: str, names: Collection[str]) -> _Facts:
    """Yield which of the secrets every workflow of every branch may read."""
    shared = sorted({row["name"] for row in github.get_all(path, "secrets")} & set(names))
    for name in shared:
        command = (
            github.call("DELETE", f"{path}/{name}")
            if level == "repository"
            else f"gh secret delete {name} --org {github.repository.partition('/')[0]}"
        )
        text = f"{name} is there, so every workflow on every branch reads it: set it in the environments only"
        yield State.GAP, text, command
    if not shared:
        yield State.OK, "none of them belongs to a connection"


def _branch(github: GitHub) -> _Facts:
    """Yield what a merge into the default branch needs, by its protection and by rulesets together."""
    path = quote(github.default_branch, safe="")
    hidden: Hidden | None = None
    protection: Mapping[str, Any] = {}
    rules: Sequence[Mapping[str, Any]] = ()
    try:
        rules = github.get_all(f"rules/branches/{path}")
    except Hidden as error:
        hidden = error
    try:
        protection = github.get(f"branches/{path}/protection")
    except Hidden as error:
        if error.message != "Branch not protected":  # GitHub's words to a token that may see it
            hidden = error
    reviews = protection.get("required_pull_request_reviews") or {}
    checks = protection.get("required_status_checks") or {}
    contexts = {*checks.get("contexts", ()), *(check["context"] for check in checks.get("checks", ()))}
    of_rules = [rule.get("parameters") or {} for rule in rules if rule["type"] == "pull_request"]
    for rule in rules:
        if rule["type"] == "required_status_checks":
            contexts |= {check["context"] for check in rule["parameters"]["required_status_checks"]}

    def either(protected: str, ruled: str) -> bool:
        return bool(reviews.get(protected)) or any(parameters.get(ruled) for parameters in of_rules)

    expected = {
        f"requires the check {CHECK}": CHECK in contexts,
        "requires an approving review": either("required_approving_review_count", "required_approving_review_count"),
        "dismisses approvals of older commits": either("dismiss_stale_reviews", "dismiss_stale_reviews_on_push"),
        "requires approval of the most recent push": either("require_last_push_approval", "require_last_push_approval"),
        "requires a review of code owners": either("require_code_owner_reviews", "require_code_owner_review"),
    }
    for text, holds in expected.items():
        if holds:
            yield State.OK, text
        elif hidden is not None:
            yield State.UNKNOWN, f"whether it {text}: {_reason(hidden)}"
        else:
            yield State.GAP, f"nothing {text}", _post_ruleset(github)
    if protection and not (protection.get("enforce_admins") or {}).get("enabled"):
        command = github.call("POST", f"branches/{path}/protection/enforce_admins")
        yield State.NOTE, "administrators may merge without all that", command
    for number in sorted({int(rule["ruleset_id"]) for rule in rules if "ruleset_id" in rule}):
        yield from _guarded(f"ruleset {number}", _bypass(github, f"rulesets/{number}"))


def _bypass(github: GitHub, path: str) -> _Facts:
    """Yield how many may bypass a ruleset. GitHub tells only a token that may change the ruleset."""
    actors = github.get(path).get("bypass_actors")
    if actors is None:
        yield State.UNKNOWN, "who may bypass it cannot be seen with this token, which may not change the ruleset"
    elif not actors:
        yield State.OK, "nothing may bypass it"
    else:
        yield State.NOTE, f"{len(actors)} roles, teams, apps or keys may bypass it", github.call("GET", path)


def _post_ruleset(github: GitHub) -> str:
    """Return the call that adds all rules; rulesets and protections add up."""
    pull_request = {
        "required_approving_review_count": 1,
        "dismiss_stale_reviews_on_push": True,
        "require_code_owner_review": True,
        "require_last_push_approval": True,
        "required_review_thread_resolution": False,
    }
    checks = {"strict_required_status_checks_policy": False, "required_status_checks": [{"context": CHECK}]}
    ruleset = {
        "name": "reconciler",
        "target": "branch",
        "enforcement": "active",
        "conditions": {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}},
        "rules": [
            {"type": "pull_request", "parameters": pull_request},
            {"type": "required_status_checks", "parameters": checks},
        ],
    }
    return github.call("POST", "rulesets", f"--input - <<< {shlex.quote(json.dumps(ruleset))}")


def _owners(github: GitHub, folder: str) -> _Facts:
    """Yield whether code owners review the manifests, the workflows and the list of owners itself.

    The files of the default branch need an owner, and so do files that a pull request may add.
    """
    found = ((path, file) for path in _OWNERS_FILES if (file := github.find(f"contents/{path}")) is not None)
    path, file = next(found, (_OWNERS_FILES[0], {"content": ""}))
    try:
        text = base64.b64decode(file["content"]).decode("utf-8", "replace")
    except binascii.Error:
        raise GitHubUnavailable(f"{path} did not arrive as base64") from None
    samples = {
        f"/{folder}/": (f"{folder}/a.yaml", f"{folder}/prod/a.yaml"),
        "/.github/": (".github/workflows/apply.yml", ".github/actions/a/action.yml"),
        f"/{path}": (path,),
    }
    lacking = [pattern for pattern, names in samples.items() if not all(_has_owner(text, name) for name in names)]
    try:
        listing = github.get(f"git/trees/{quote(github.default_branch, safe='')}?recursive=1")
    except Hidden as error:
        yield ProtectionFinding(State.UNKNOWN, f"files of {github.default_branch}", _reason(error))
        listing = {"tree": ()}
    if listing.get("truncated"):
        shown = f"GitHub lists only {len(listing['tree']):,} entries of {github.default_branch}"
        yield State.UNKNOWN, f"{shown}: owners of other files were not checked"
    reviewed = (f"{folder}/", ".github/workflows/")
    files = [row["path"] for row in listing["tree"] if row["type"] != "tree" and row["path"].startswith(reviewed)]
    for parent in sorted({f"/{PurePosixPath(name).parent}/" for name in files if not _has_owner(text, name)}):
        if not parent.startswith(tuple(lacking)):
            lacking.append(parent)
    if lacking:
        lines = " ".join(shlex.quote(f"{pattern} @OWNER/TEAM") for pattern in lacking)
        what = f"{path} names no owner of {', '.join(lacking)}" if text else "there is no such file"
        command = f"printf '%s\\n' {lines} >> {path}"
        yield State.GAP, f"{what}: add the lines in a pull request", command
    else:
        yield State.OK, f"{path} covers {', '.join(samples)}"
    if text:
        yield from _guarded("CODEOWNERS", _ignored_lines(github, path), "errors of CODEOWNERS")


def _ignored_lines(github: GitHub, path: str) -> _Facts:
    if errors := github.get("codeowners/errors")["errors"]:
        command = github.call("GET", "codeowners/errors")
        yield State.GAP, f"{path} has {len(errors)} errors, and GitHub ignores such lines", command


def _has_owner(text: str, name: str) -> bool:
    """Whether the last line that matches the file names an owner, as GitHub reads CODEOWNERS."""
    owned = False
    for line in text.splitlines():
        pattern, *owners = re.sub(r"(^|\s)#.*", "", line).split() or [""]
        if pattern and re.fullmatch(_pattern(pattern), name):
            owned = bool(owners)
    return owned


def _pattern(pattern: str) -> str:
    """Return the regular expression of a pattern, which is one of gitignore without `!` and `[…]`."""
    body = pattern.removesuffix("/").removeprefix("/")
    anchored = pattern.startswith("/") or "/" in body
    parts = re.split(r"(\*\*/|/\*\*|\*\*|\*|\?)", body)
    meanings = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    expression = "".join(meanings.get(part, re.escape(part)) for part in parts)
    # `docs/*` owns the files of that folder, and not those of folders in it.
    below = "/.*" if pattern.endswith("/") else "" if body.endswith("/*") else "(?:/.*)?"
    return f"{'' if anchored else '(?:.*/)?'}{expression}{below}"


def _reason(error: Hidden) -> str:
    return f"cannot be seen with this token ({error.message})"
