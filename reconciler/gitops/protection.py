"""Checks whether a repository on GitHub protects what an apply rests on: environments, secrets,
branch, owners.

Reads only, and decides nothing about a cluster. What a token may not see is unknown, never missing.
The token goes to the API's host and nowhere else, and appears in no message.
"""

import base64
import binascii
import http.client
import ipaddress
import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from reconciler.errors import GitHubUnavailable, UsageError
from reconciler.text.escape import escape_sentence

UNREVIEWED = "RECONCILER_UNREVIEWED"
"""The variable with the clusters, separated by commas, to which an operator applies without
reviewers.
"""
CHECK = "reconciler"
"""The check that a merge has to require: all others report through it."""
_REPOSITORY = re.compile(r"[A-Za-z0-9-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_ENVIRONMENT = re.compile("reconciler-(plan|apply|elect|converge)-(.+)")
_REVIEWED_ROLES = ("apply", "elect")
_PAGE = 100
_PAGES_MAX = 50
_BYTES_MAX = 10_000_000
_OWNERS_FILES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""Where GitHub looks for the file, in this order."""


class State(StrEnum):
    """What a check has seen. Only GAP fails it."""

    OK = "ok"
    GAP = "MISSING"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fact about the repository. `command`: the call that mends it; empty: nothing to mend."""

    state: State
    subject: str
    text: str
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNeeds:
    """What the jobs of one cluster need. `variables`: those that its connection reads."""

    name: str
    variables: Collection[str]
    elects: bool
    converges: bool

    @property
    def environments(self) -> tuple[str, ...]:
        """The names of its environments."""
        roles = ["plan", "apply", *(["elect"] if self.elects else []), *(["converge"] if self.converges else [])]
        return tuple(f"reconciler-{role}-{self.name}" for role in roles)


class _Hidden(Exception):
    """The token may not see it, or it does not exist; `message`: GitHub's reason."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class _SameHost(HTTPRedirectHandler):
    """Follows redirects of a renamed repository, but carries the token to no other host."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            fp.close()
            raise GitHubUnavailable(
                f"{old.netloc} redirects to another host, and the token is not sent there: correct OWNER/NAME or "
                "GITHUB_API_URL"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@dataclass(kw_only=True)
class GitHub:
    """One repository in GitHub's REST API.

    Every call raises GitHubUnavailable where there is no answer.
    """

    repository: str
    url: str
    token: str = field(repr=False)
    timeout_s: float = 30.0

    @classmethod
    def of(cls, repository: str, *, timeout_s: float, environment: Mapping[str, str] = os.environ) -> "GitHub":
        """Return the repository OWNER/NAME, with the API and the token of the environment.

        Raises UsageError.
        """
        if not _REPOSITORY.fullmatch(repository):
            raise UsageError(f"--github {repository or 'is empty'}: expected OWNER/NAME of a repository")
        url = (environment.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/")
        if not _is_safe(url):
            raise UsageError(
                "GITHUB_API_URL is no https address without a user, a query or a fragment: the token is sent over https only"
            )
        token = environment.get("GH_TOKEN") or environment.get("GITHUB_TOKEN") or ""
        if not re.fullmatch("[!-~]{0,1000}", token):
            raise UsageError("GH_TOKEN or GITHUB_TOKEN is no token: it has spaces, line ends or other characters")
        return cls(repository=repository, url=url, token=token, timeout_s=timeout_s)

    @cached_property
    def default_branch(self) -> str:
        """The name of the default branch."""
        try:
            return str(self.get("")["default_branch"])
        except _Hidden as error:
            hint = "" if self.token else "; set GH_TOKEN"
            raise GitHubUnavailable(
                f"the repository {self.repository} does not exist, or this token may not see it{hint}"
            ) from error

    def get(self, path: str) -> Any:
        """Return the JSON of a path below the repository. Raises _Hidden for 403 and 404."""
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        headers |= {"User-Agent": "kafka-reconciler"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )
        url = f"{self.url}/repos/{self.repository}{'/' if path else ''}{path}"
        # A proxy of the environment would read the token of a request without TLS.
        proxies = ProxyHandler() if url.startswith("https:") else ProxyHandler({})
        try:
            with build_opener(_SameHost, proxies).open(Request(url, headers=headers), timeout=self.timeout_s) as answer:  # noqa: S310  https or loopback
                content = answer.read(_BYTES_MAX)
            return json.loads(content)
        except HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise GitHubUnavailable(f"{self._host} could not be asked: {self._safe(str(reason))}") from None
        except ValueError:
            raise GitHubUnavailable(
                f"{self._host} answered {path or 'the repository'} with something else than JSON"
            ) from None

    def get_all(self, path: str, key: str = "") -> list[Any]:
        """Return all pages of a list.

        `key`: of the object that holds it; empty: the answer is the list.
        """
        rows: list[Any] = []
        for page in range(1, _PAGES_MAX + 1):
            answer = self.get(f"{path}?per_page={_PAGE}&page={page}")
            part = answer[key] if key else answer
            rows += part
            if len(part) < _PAGE:
                return rows
        raise GitHubUnavailable(f"{self._host} has more than {_PAGE * _PAGES_MAX:,} entries of {path}")

    def call(self, method: str, path: str, *words: str) -> str:
        """Return the `gh api` call for a path below the repository.

        `words`: shell words, quoted already.
        """
        return " ".join(
            [
                "gh api",
                *([] if method == "GET" else [f"--method {method}"]),
                shlex.quote(f"repos/{self.repository}/{path}"),
                *words,
            ]
        )

    @property
    def _host(self) -> str:
        return urlsplit(self.url).netloc

    def _safe(self, text: str) -> str:
        return escape_sentence(text.replace(self.token, "***") if self.token else text)

    def _refusal(self, error: HTTPError) -> Exception:
        try:
            message = self._safe(str(json.loads(error.read(_BYTES_MAX))["message"]))
        except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
            message = f"HTTP {error.code}"
        is_limited = (
            error.code == 429 or error.headers.get("X-RateLimit-Remaining") == "0" or "Retry-After" in error.headers
        )
        if is_limited:
            return GitHubUnavailable(f"{self._host} answers no more requests for now ({message}): try again later")
        if error.code in (403, 404):
            return _Hidden(error.code, message)
        hint = ": the token of GH_TOKEN or GITHUB_TOKEN is not valid" if error.code == 401 else ""
        return GitHubUnavailable(f"{self._host} answered {error.code}{hint} ({message})")


def _is_safe(url: str) -> bool:
    """Whether a token may go there: by https, or to this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if not host or "@" in parts.netloc or parts.query or parts.fragment or not re.fullmatch("[!-~]+", url):
            return False
        return parts.scheme == "https" or (parts.scheme == "http" and ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


def check_environment(github: GitHub, name: str, *, unreviewed: Collection[str] = ()) -> Sequence[Finding]:
    """Return who may use an environment.

    `unreviewed`: clusters that an operator accepts without reviewers.
    """
    match = _ENVIRONMENT.fullmatch(name)
    role, cluster = (match[1], match[2]) if match else ("apply", name)
    return _guarded(_environment(github, name, reviewed=role in _REVIEWED_ROLES, accepted=cluster in unreviewed))


def check_repository(
    github: GitHub, clusters: Sequence[ClusterNeeds], *, unreviewed: Collection[str] = (), folder: str = "manifests"
) -> Sequence[Finding]:
    """Return what protects the clusters' environments, their secrets, the default branch and the
    manifests.
    """
    findings: list[Finding] = []
    for cluster in clusters:
        for name in cluster.environments:
            findings += check_environment(github, name, unreviewed=unreviewed)
            findings += _guarded(_variables(github, name, cluster.variables))
    names = {name for cluster in clusters for name in cluster.variables}
    return [
        *findings,
        *_guarded(_shared_secrets(github, names)),
        *_guarded(_branch(github)),
        *_guarded(_owners(github, folder)),
    ]


def _guarded(findings: Iterator[Finding]) -> Sequence[Finding]:
    """Return the findings.

    Raises GitHubUnavailable for an answer of another form than GitHub documents.
    """
    try:
        return list(findings)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise GitHubUnavailable("the API answered in another form than GitHub documents") from error


def _environment(github: GitHub, name: str, *, reviewed: bool, accepted: bool) -> Iterator[Finding]:
    subject, path = f"environment {name}", f"environments/{quote(name, safe='')}"
    _ = github.default_branch  # of a repository that the token may not see, every path is 404
    try:
        present = github.get(path)
    except _Hidden as error:
        if error.status != 404:
            yield _unseen(subject, error)
            return
        command = _put_environment(github, path, {}, reviewed=reviewed and not accepted)
        yield Finding(state=State.GAP, subject=subject, text="does not exist", command=command)
        yield _no_rule(github, subject, path)
        return
    rules = [rule for rule in present["protection_rules"] if rule["type"] == "required_reviewers" and rule["reviewers"]]
    mend = _put_environment(github, path, present, reviewed=reviewed and not accepted)
    if reviewed and not rules and accepted:
        yield Finding(state=State.NOTE, subject=subject, text=f"has no required reviewers, and {UNREVIEWED} accepts it")
    elif reviewed and not rules:
        text = "has no required reviewers: a run goes on without an approval"
        yield Finding(state=State.GAP, subject=subject, text=text, command=mend)
    elif reviewed:
        yield Finding(state=State.OK, subject=subject, text="has required reviewers")
        if not all(rule.get("prevent_self_review") for rule in rules):
            text = "does not prevent self-review: who starts a run may approve it"
            yield Finding(state=State.NOTE, subject=subject, text=text, command=mend)
        if present.get("can_admins_bypass"):
            text = "administrators may bypass the approval (Settings, Environments: allow administrators to bypass)"
            yield Finding(state=State.NOTE, subject=subject, text=text)
    yield from _branch_rule(github, subject, path, present.get("deployment_branch_policy"), mend)


def _branch_rule(github: GitHub, subject: str, path: str, policy: Any, mend: str) -> Iterator[Finding]:
    branch = github.default_branch
    if not policy or not policy["custom_branch_policies"]:
        allowed = "every protected branch" if policy else "every branch"
        text = f"{allowed} may use it and read its secrets, expected only {branch}"
        yield Finding(state=State.GAP, subject=subject, text=text, command=mend)
    try:
        rows = github.get_all(f"{path}/deployment-branch-policies", "branch_policies") if policy else []
    except _Hidden as error:
        yield _unseen(f"branch rule of {subject}", error)
        return
    names = {row["name"] for row in rows if row.get("type", "branch") == "branch"}
    others = [row for row in rows if row["name"] != branch or row.get("type", "branch") != "branch"]
    if branch not in names:
        yield _no_rule(github, subject, path)
    for row in others:
        remove = github.call("DELETE", f"{path}/deployment-branch-policies/{int(row['id'])}")
        text = f"the {row.get('type', 'branch')} rule {row['name']} may use it, too, expected only {branch}"
        yield Finding(state=State.GAP, subject=subject, text=text, command=remove)
    if names == {branch} and not others and policy["custom_branch_policies"]:
        yield Finding(state=State.OK, subject=subject, text=f"only {branch} may use it")


def _no_rule(github: GitHub, subject: str, path: str) -> Finding:
    branch = github.default_branch
    words = (f"-f name={shlex.quote(branch)}", "-f type=branch")
    command = github.call("POST", f"{path}/deployment-branch-policies", *words)
    return Finding(state=State.GAP, subject=subject, text=f"no rule allows {branch}", command=command)


def _put_environment(github: GitHub, path: str, present: Mapping[str, Any], *, reviewed: bool) -> str:
    """Return the call that sets what a check expects, and keeps what there is: it replaces all
    settings.
    """
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


def _variables(github: GitHub, environment: str, names: Collection[str]) -> Iterator[Finding]:
    """Yield where an environment lacks a variable that the connection reads."""
    path, subject = f"environments/{quote(environment, safe='')}", f"secrets of environment {environment}"
    try:
        there = {row["name"] for kind in ("secrets", "variables") for row in github.get_all(f"{path}/{kind}", kind)}
    except _Hidden as error:
        yield _unseen(subject, error)
        return
    for name in sorted(set(names) - there):
        command = f"gh secret set {name} --repo {shlex.quote(github.repository)} --env {shlex.quote(environment)}"
        yield Finding(state=State.GAP, subject=subject, text=f"{name} is not set there", command=command)
    if there >= set(names):
        yield Finding(state=State.OK, subject=subject, text="all that the connection reads is set there")


def _shared_secrets(github: GitHub, names: Collection[str]) -> Iterator[Finding]:
    """Yield which of the secrets every workflow of every branch may read."""
    for level, path in (("repository", "actions/secrets"), ("organization", "actions/organization-secrets")):
        subject = f"secrets of the {level}"
        try:
            shared = sorted({row["name"] for row in github.get_all(path, "secrets")} & set(names))
        except _Hidden as error:
            yield _unseen(subject, error)
            continue
        for name in shared:
            command = (
                github.call("DELETE", f"{path}/{name}")
                if level == "repository"
                else f"gh secret delete {name} --org {github.repository.partition('/')[0]}"
            )
            text = f"{name} is there, so every workflow on every branch reads it: set it in the environments only"
            yield Finding(state=State.GAP, subject=subject, text=text, command=command)
        if not shared:
            yield Finding(state=State.OK, subject=subject, text="none of them belongs to a connection")


def _branch(github: GitHub) -> Iterator[Finding]:
    """Yield what a merge into the default branch needs, by its protection and by rulesets together."""
    branch = github.default_branch
    subject, path = f"branch {branch}", quote(branch, safe="")
    hidden: _Hidden | None = None
    protection: Mapping[str, Any] = {}
    rules: Sequence[Mapping[str, Any]] = ()
    try:
        rules = github.get_all(f"rules/branches/{path}")
    except _Hidden as error:
        hidden = error
    try:
        protection = github.get(f"branches/{path}/protection")
    except _Hidden as error:
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
            yield Finding(state=State.OK, subject=subject, text=text)
        elif hidden is not None:
            yield Finding(state=State.UNKNOWN, subject=subject, text=f"whether it {text}: {_reason(hidden)}")
        else:
            yield Finding(state=State.GAP, subject=subject, text=f"nothing {text}", command=_post_ruleset(github))
    if protection and not (protection.get("enforce_admins") or {}).get("enabled"):
        command = github.call("POST", f"branches/{path}/protection/enforce_admins")
        yield Finding(
            state=State.NOTE, subject=subject, text="administrators may merge without all that", command=command
        )
    for number in sorted({int(rule["ruleset_id"]) for rule in rules if "ruleset_id" in rule}):
        yield _bypass(github, number)


def _bypass(github: GitHub, number: int) -> Finding:
    """Return how many may bypass a ruleset. GitHub tells only a token that may change the ruleset."""
    path, subject = f"rulesets/{number}", f"ruleset {number}"
    try:
        actors = github.get(path).get("bypass_actors")
    except _Hidden as error:
        return _unseen(subject, error)
    if actors is None:
        text = "who may bypass it cannot be seen with this token, which may not change the ruleset"
        return Finding(state=State.UNKNOWN, subject=subject, text=text)
    if not actors:
        return Finding(state=State.OK, subject=subject, text="nothing may bypass it")
    text = f"{len(actors)} roles, teams, apps or keys may bypass it"
    return Finding(state=State.NOTE, subject=subject, text=text, command=github.call("GET", path))


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


def _owners(github: GitHub, folder: str) -> Iterator[Finding]:
    """Yield whether code owners review the manifests, the workflows and the list of owners itself.

    The files of the default branch need an owner, and so do files that a pull request may add.
    """
    subject = "CODEOWNERS"
    for path in _OWNERS_FILES:
        try:
            text = base64.b64decode(github.get(f"contents/{path}")["content"]).decode("utf-8", "replace")
        except _Hidden as error:
            if error.status != 404:
                yield _unseen(subject, error)
                return
            continue
        except binascii.Error:
            raise GitHubUnavailable(f"{path} did not arrive as base64") from None
        break
    else:
        path, text = _OWNERS_FILES[0], ""
    samples = {
        f"/{folder}/": (f"{folder}/a.yaml", f"{folder}/prod/a.yaml"),
        "/.github/": (".github/workflows/apply.yml", ".github/actions/a/action.yml"),
        f"/{path}": (path,),
    }
    lacking = [pattern for pattern, names in samples.items() if not all(_has_owner(text, name) for name in names)]
    try:
        listing = github.get(f"git/trees/{quote(github.default_branch, safe='')}?recursive=1")
    except _Hidden as error:
        yield _unseen(f"files of {github.default_branch}", error)
        listing = {"tree": ()}
    if listing.get("truncated"):
        count = len(listing["tree"])
        reason = (
            f"GitHub lists only {count:,} entries of {github.default_branch}: owners of other files were not checked"
        )
        yield Finding(state=State.UNKNOWN, subject=subject, text=reason)
    reviewed = (f"{folder}/", ".github/workflows/")
    files = [row["path"] for row in listing["tree"] if row["type"] != "tree" and row["path"].startswith(reviewed)]
    for parent in sorted({f"/{PurePosixPath(name).parent}/" for name in files if not _has_owner(text, name)}):
        if not parent.startswith(tuple(lacking)):
            lacking.append(parent)
    if lacking:
        lines = " ".join(shlex.quote(f"{pattern} @OWNER/TEAM") for pattern in lacking)
        what = f"{path} names no owner of {', '.join(lacking)}" if text else "there is no such file"
        command = f"printf '%s\\n' {lines} >> {path}"
        yield Finding(
            state=State.GAP, subject=subject, text=f"{what}: add the lines in a pull request", command=command
        )
    else:
        yield Finding(state=State.OK, subject=subject, text=f"{path} covers {', '.join(samples)}")
    try:
        errors = github.get("codeowners/errors")["errors"] if text else []
    except _Hidden as error:
        yield _unseen("errors of CODEOWNERS", error)
        return
    if errors:
        text = f"{path} has {len(errors)} errors, and GitHub ignores such lines"
        yield Finding(state=State.GAP, subject=subject, text=text, command=github.call("GET", "codeowners/errors"))


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


def _unseen(subject: str, error: _Hidden) -> Finding:
    return Finding(state=State.UNKNOWN, subject=subject, text=_reason(error))


def _reason(error: _Hidden) -> str:
    return f"cannot be seen with this token ({error.message})"
