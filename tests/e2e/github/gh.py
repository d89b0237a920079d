"""A fake of GitHub's API on a repository: the calls that the workflows make, over HTTP on loopback.

The token has the job's permissions, and a call without its permission is refused as on GitHub. An
unknown path fails.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from tests.build import git
from tests.fakes.listener import http_server

REPOSITORY = "acme/housekeeping"
DEFAULT_BRANCH = "main"
BOT = "github-actions[bot]"
SCOPES = {
    "actions": "actions",
    "commits": "pull-requests",
    "compare": "contents",
    "environments": "actions",
    "git": "contents",
    "issues": "issues",
    "pulls": "pull-requests",
    "statuses": "statuses",
}
"""First part of a path → what a token needs a permission for."""

Row = dict[str, Any]


class Refused(Exception):
    """A refused call."""


@dataclass(slots=True)
class Environment:
    """An environment: its values, and its protection. No branches: each branch may use it."""

    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    reviewers: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()


@dataclass(slots=True)
class State:
    """What GitHub has of a repository: commits, environments, and documents in their order.

    `folder`: of artifacts, caches and jobs. `permissions`: login → permission of a collaborator.
    """

    folder: Path
    origin: Path
    environments: dict[str, Environment] = field(default_factory=dict)
    permissions: dict[str, str] = field(default_factory=dict)
    approvals: list[Row] = field(default_factory=list)
    artifacts: list[Row] = field(default_factory=list)
    checks: list[Row] = field(default_factory=list)
    comments: list[Row] = field(default_factory=list)
    issues: list[Row] = field(default_factory=list)
    pulls: list[Row] = field(default_factory=list)
    reviews: list[Row] = field(default_factory=list)
    runs: list[Row] = field(default_factory=list)
    statuses: list[Row] = field(default_factory=list)

    def git(self, *arguments: str) -> str:
        """Run git in the repository. Raises CalledProcessError."""
        return git(self.origin, *arguments)


def find(rows: list[Row], key: str, value: int) -> Row:
    return next(row for row in rows if row[key] == value)


def call(state: State, permissions: Mapping[str, str], method: str, path: str, fields: Row) -> Any:
    """Answer a call with a job's permissions. Raises Refused."""
    path, _, query = path.partition("?")
    fields = dict(parse_qsl(query)) | fields
    base = f"repos/{REPOSITORY}"
    parts = path.removeprefix(f"{base}/").split("/")
    if (method, path) == ("GET", base):
        return {"default_branch": DEFAULT_BRANCH}
    if path.startswith(f"{base}/"):
        _require_permission(permissions, _scope(state, parts), "read" if method == "GET" else "write")
    try:
        match (method, *parts):
            case ("GET", "issues", number, "comments"):
                return [comment for comment in state.comments if comment["issue"] == int(number)]
            case ("POST", "issues", number, "comments"):
                user = {"issue": int(number), "user": {"login": BOT}}
                state.comments.append({"id": 1000 + len(state.comments), **user, "body": fields["body"]})
                return state.comments[-1]
            case ("PATCH", "issues", "comments", identifier):
                comment = find(state.comments, "id", int(identifier))
                comment |= fields
                return comment
            case ("GET", "issues"):
                return [issue for issue in state.issues if issue["state"] == fields["state"]]
            case ("POST", "issues"):
                number = 1 + max((row["number"] for row in (*state.issues, *state.pulls)), default=0)
                state.issues.append({"number": number, "user": {"login": BOT}, "state": "open", **fields})
                return state.issues[-1]
            case ("PATCH", "issues", number):
                issue = find(state.issues, "number", int(number))
                issue |= fields
                return issue
            case ("GET", "commits", sha, "pulls"):
                return [pull for pull in state.pulls if pull["merge_commit_sha"] == sha]
            case ("GET", "pulls"):
                wanted = (fields["state"], fields["base"], fields["head"])
                return [pull for pull in state.pulls if _searched(pull) == wanted]
            case ("GET", "pulls", number):
                return find(state.pulls, "number", int(number))
            case ("GET", "pulls", number, "reviews"):
                return [review for review in state.reviews if review["pull"] == int(number)]
            case ("GET", "environments", name, *rest) if name in state.environments:
                return _environment(name, state.environments[name], rest)
            case ("GET", "environments", *_):
                raise Refused("HTTP 404: Not Found")
            case ("GET", "collaborators", login, "permission"):
                return {"permission": state.permissions.get(login, "read")}
            case ("POST", "statuses", sha):
                states = ("error", "failure", "pending", "success")
                if fields["state"] not in states or len(fields["description"]) > 140:
                    raise Refused("HTTP 422: Validation Failed")
                state.statuses.append({"sha": sha, **fields})
                return fields
            case ("GET", "git", "ref", "heads", *branch):
                return {"object": {"sha": state.git("rev-parse", f"refs/heads/{'/'.join(branch)}")}}
            case ("GET", "git", "commits", sha):
                return {"parents": [{"sha": parent} for parent in state.git("log", "-1", "--format=%P", sha).split()]}
            case ("GET", "git", "trees", sha):
                rows = [row.split(None, 3) for row in state.git("ls-tree", sha).splitlines()]
                return {"tree": [{"path": name, "mode": mode, "sha": tree} for mode, _type, tree, name in rows]}
            case ("GET", "compare", pair):
                behind, ahead = state.git("rev-list", "--left-right", "--count", pair).split()
                names = {(True, True): "identical", (True, False): "ahead", (False, True): "behind"}
                return {"status": names.get((behind == "0", ahead == "0"), "diverged")}
            case ("GET", "actions", "artifacts"):
                return {"artifacts": [row for row in state.artifacts if row["name"] == fields["name"]]}
            case ("GET", "actions", "runs", number, *rest):
                return _run(state, find(state.runs, "id", int(number)), rest)
    except subprocess.CalledProcessError as error:
        raise Refused(f"HTTP 404: Not Found ({error.stderr.strip()})") from error
    raise Refused(f"the fake does not know {method} {path}")


def _searched(pull: Row) -> tuple[str, str, str]:
    """What a search of pull requests looks at: state, base and head."""
    head = pull["head"]
    return pull["state"], pull["base"]["ref"], f"{head['repo']['owner']['login']}:{head['ref']}"


def _environment(name: str, environment: Environment, path: list[str]) -> Any:
    if path == ["deployment-branch-policies"]:
        return {"branch_policies": [{"id": 1, "name": name, "type": "branch"} for name in environment.branches]}
    people = [{"type": "User", "reviewer": {"id": 1, "login": login}} for login in environment.reviewers]
    rules = [{"type": "required_reviewers", "reviewers": people}] if people else []
    policy = {"protected_branches": False, "custom_branch_policies": True} if environment.branches else None
    return {"name": name, "protection_rules": rules, "deployment_branch_policy": policy}


def _run(state: State, run: Row, path: list[str]) -> Any:
    match path:
        case []:
            return run
        case ["artifacts"]:
            return {"artifacts": [row for row in state.artifacts if row["workflow_run"]["id"] == run["id"]]}
        case ["approvals"]:
            return [row for row in state.approvals if row["run"] == run["id"]]
        case ["attempts", attempt]:
            return run["attempts"][int(attempt) - 1]
        case ["attempts", attempt, "jobs"]:
            return {"jobs": run["attempts"][int(attempt) - 1]["jobs"]}
    raise Refused(f"the fake does not know {'/'.join(path)} of a run")


def _scope(state: State, parts: list[str]) -> str | None:
    match parts:
        case ["issues", "comments", *_]:
            return "pull-requests"
        case ["issues", number, "comments"] if any(pull["number"] == int(number) for pull in state.pulls):
            return "pull-requests"
    return SCOPES.get(parts[0])


def _require_permission(permissions: Mapping[str, str], scope: str | None, level: str) -> None:
    if scope and permissions.get(scope, "none") not in ("write", level):
        raise Refused(f"HTTP 403: Resource not accessible by integration ({scope}: {level})")


def serve(state: State) -> AbstractContextManager[str]:
    """Answer requests of the API during the block, which gets the address."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            fields = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
            try:
                permissions = permissions_of(self.headers.get("Authorization", "").removeprefix("Bearer "))
                status, document = 200, call(state, permissions, self.command, self.path.removeprefix("/"), fields)
            except Refused as error:
                code = re.search(r"HTTP (\d+)", str(error))
                status, document = int(code[1]) if code else 403, {"message": str(error)}
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        do_GET = do_POST = do_PATCH = answer  # noqa: N815  the names of http.server

    return http_server(Handler)


def token_of(permissions: dict[str, str]) -> str:
    """Return the token of a job."""
    return "stand-in:" + json.dumps(permissions, separators=(",", ":"))


def permissions_of(token: str) -> dict[str, str]:
    """Return the permissions of a token. Raises Refused for another text."""
    if not token.startswith("stand-in:"):
        raise Refused("HTTP 401: Requires authentication")
    permissions: dict[str, str] = json.loads(token.removeprefix("stand-in:"))
    return permissions
