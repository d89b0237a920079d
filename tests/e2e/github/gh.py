"""A fake of GitHub's API on a folder: the calls that the workflows make, over HTTP on loopback.

The token has the job's permissions, and a call without its permission is refused as on GitHub. An
unknown path fails.
"""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from tests.build import git

REPOSITORY = "acme/housekeeping"
DEFAULT_BRANCH = "main"
BOT = "github-actions[bot]"


class Refused(Exception):
    """A refused call."""


class State:
    """The documents of a repository on GitHub, as JSON files of a folder, and its Git repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> Any:
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []

    def write(self, name: str, rows: Any) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")

    def add(self, name: str, row: dict[str, Any]) -> None:
        self.write(name, [*self.read(name), row])

    def git(self, *arguments: str) -> str:
        """Run git in the repository. Raises CalledProcessError."""
        return git(self.folder.parent / "origin", *arguments)


class Api:
    """The API on the state of a repository. `permissions`: those of the job."""

    def __init__(self, folder: Path, permissions: dict[str, str]) -> None:
        self._state = State(folder)
        self._permissions = permissions

    def call(self, method: str, path: str, fields: dict[str, str]) -> Any:
        path, _, query = path.partition("?")
        fields = dict(parse_qsl(query)) | fields
        prefix = f"repos/{REPOSITORY}/"
        if (method, path) == ("GET", prefix.removesuffix("/")):
            return {"default_branch": DEFAULT_BRANCH}
        if not path.startswith(prefix):
            raise Refused(f"the fake does not know {method} {path}")
        match (method, *path.removeprefix(prefix).split("/")):
            case ("GET", "issues", number, "comments"):
                self._require_permission(self._scope(int(number)), "read")
                return [comment for comment in self._state.read("comments") if comment["issue"] == int(number)]
            case ("POST", "issues", number, "comments"):
                return self._add_comment(int(number), fields)
            case ("PATCH", "issues", "comments", identifier):
                self._require_permission("pull-requests", "write")
                return self._edit("comments", "id", int(identifier), fields)
            case ("GET", "issues"):
                self._require_permission("issues", "read")
                return [issue for issue in self._state.read("issues") if issue["state"] == fields["state"]]
            case ("POST", "issues"):
                return self._add_issue(fields)
            case ("PATCH", "issues", number):
                self._require_permission("issues", "write")
                return self._edit("issues", "number", int(number), fields)
            case ("GET", "commits", sha, "pulls"):
                self._require_permission("pull-requests", "read")
                return [pull for pull in self._state.read("pulls") if pull["merge_commit_sha"] == sha]
            case ("GET", "pulls", *remaining):
                self._require_permission("pull-requests", "read")
                return self._pulls(remaining, fields)
            case ("GET", "environments", name, *remaining):
                self._require_permission("actions", "read")
                return self._environment(name, remaining)
            case ("GET", "collaborators", login, "permission"):
                return {"permission": dict(self._state.read("permissions")).get(login, "read")}
            case ("POST", "statuses", sha):
                self._require_permission("statuses", "write")
                if (
                    fields["state"] not in ("error", "failure", "pending", "success")
                    or len(fields["description"]) > 140
                ):
                    raise Refused("HTTP 422: Validation Failed")
                self._state.add("statuses", {"sha": sha, **fields})
                return fields
            case ("GET", "git" | "compare" as kind, *remaining):
                self._require_permission("contents", "read")
                return self._git(kind, remaining)
            case ("GET", "actions", *remaining):
                self._require_permission("actions", "read")
                return self._actions(remaining, fields)
        raise Refused(f"the fake does not know {method} {path}")

    def _environment(self, name: str, path: list[str]) -> Any:
        environments = dict(self._state.read("environments"))
        if name not in environments:
            raise Refused("HTTP 404: Not Found")
        reviewers, branches = environments[name]["reviewers"], environments[name]["branches"]
        match path:
            case []:
                people = [{"type": "User", "reviewer": {"id": 1, "login": login}} for login in reviewers]
                rules = [{"type": "required_reviewers", "reviewers": people}] if people else []
                policy = {"protected_branches": False, "custom_branch_policies": True} if branches else None
                return {"name": name, "protection_rules": rules, "deployment_branch_policy": policy}
            case ["deployment-branch-policies"]:
                return {"branch_policies": [{"id": 1, "name": branch, "type": "branch"} for branch in branches]}
        raise Refused(f"the fake does not know environments/{name}/{'/'.join(path)}")

    def _git(self, kind: str, path: list[str]) -> Any:
        try:
            match (kind, *path):
                case ("git", "ref", "heads", *branch):
                    return {"object": {"sha": self._state.git("rev-parse", f"refs/heads/{'/'.join(branch)}")}}
                case ("git", "commits", sha):
                    return {
                        "parents": [
                            {"sha": parent} for parent in self._state.git("log", "-1", "--format=%P", sha).split()
                        ]
                    }
                case ("git", "trees", sha):
                    rows = [row.split(None, 3) for row in self._state.git("ls-tree", sha).splitlines()]
                    return {"tree": [{"path": name, "sha": tree} for _mode, _type, tree, name in rows]}
                case ("compare", pair):
                    base, head = pair.split("...")
                    behind, ahead = self._state.git("rev-list", "--left-right", "--count", f"{base}...{head}").split()
                    names = {(True, True): "identical", (True, False): "ahead", (False, True): "behind"}
                    return {"status": names.get((behind == "0", ahead == "0"), "diverged")}
        except subprocess.CalledProcessError as error:
            raise Refused(f"HTTP 404: Not Found ({error.stderr.strip()})") from error
        raise Refused(f"the fake does not know {kind}/{'/'.join(path)}")

    def _pulls(self, path: list[str], fields: dict[str, str]) -> Any:
        pulls = self._state.read("pulls")
        match path:
            case []:
                return [
                    pull
                    for pull in pulls
                    if pull["state"] == fields["state"]
                    and pull["base"]["ref"] == fields["base"]
                    and f"{pull['head']['repo']['owner']['login']}:{pull['head']['ref']}" == fields["head"]
                ]
            case [number]:
                return next(pull for pull in pulls if pull["number"] == int(number))
            case [number, "reviews"]:
                return [review for review in self._state.read("reviews") if review["pull"] == int(number)]
        raise Refused(f"the fake does not know pulls/{'/'.join(path)}")

    def _actions(self, path: list[str], fields: dict[str, str]) -> Any:
        artifacts = self._state.read("artifacts")
        match path:
            case ["artifacts"]:
                return {"artifacts": [artifact for artifact in artifacts if artifact["name"] == fields["name"]]}
            case ["runs", number, *remaining]:
                run = next(run for run in self._state.read("runs") if run["id"] == int(number))
                match remaining:
                    case []:
                        return run
                    case ["artifacts"]:
                        return {"artifacts": [row for row in artifacts if row["workflow_run"]["id"] == run["id"]]}
                    case ["approvals"]:
                        return [row for row in self._state.read("approvals") if row["run"] == run["id"]]
                    case ["attempts", attempt]:
                        return run["attempts"][int(attempt) - 1]
                    case ["attempts", attempt, "jobs"]:
                        return {"jobs": run["attempts"][int(attempt) - 1]["jobs"]}
        raise Refused(f"the fake does not know actions/{'/'.join(path)}")

    def _scope(self, number: int) -> str:
        is_pull_request = any(pull["number"] == number for pull in self._state.read("pulls"))
        return "pull-requests" if is_pull_request else "issues"

    def _add_comment(self, number: int, fields: dict[str, str]) -> Any:
        self._require_permission(self._scope(number), "write")
        identifier = 1000 + len(self._state.read("comments"))
        comment = {"id": identifier, "issue": number, "user": {"login": BOT}, "body": fields["body"]}
        self._state.add("comments", comment)
        return comment

    def _add_issue(self, fields: dict[str, str]) -> Any:
        self._require_permission("issues", "write")
        numbers = [row["number"] for name in ("issues", "pulls") for row in self._state.read(name)]
        issue = {"number": 1 + max(numbers, default=0), "user": {"login": BOT}, "state": "open", **fields}
        self._state.add("issues", issue)
        return issue

    def _edit(self, name: str, key: str, value: int, fields: dict[str, str]) -> Any:
        rows = self._state.read(name)
        row = next(row for row in rows if row[key] == value)
        row |= fields
        self._state.write(name, rows)
        return row

    def _require_permission(self, scope: str, level: str) -> None:
        granted = self._permissions.get(scope, "none")
        if granted != "write" and granted != level:
            raise Refused(f"HTTP 403: Resource not accessible by integration ({scope}: {level})")


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Answer requests of the API during the block, which gets the address."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            fields = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
            try:
                api = Api(folder, permissions_of(self.headers.get("Authorization", "").removeprefix("Bearer ")))
                status, document = 200, api.call(self.command, self.path.removeprefix("/"), fields)
            except Refused as error:
                code = re.search(r"HTTP (\d+)", str(error))
                status, document = int(code[1]) if code else 403, {"message": str(error)}
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        do_GET = do_POST = do_PATCH = answer  # noqa: N815  the names of http.server

        def log_message(self, *_arguments: object) -> None:
            """Write no access log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])  # seconds between its looks for an end
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def token_of(permissions: dict[str, str]) -> str:
    """Return the token of a job."""
    return "stand-in:" + json.dumps(permissions, separators=(",", ":"))


def permissions_of(token: str) -> dict[str, str]:
    """Return the permissions of a token. Raises Refused for another text."""
    if not token.startswith("stand-in:"):
        raise Refused("HTTP 401: Requires authentication")
    permissions: dict[str, str] = json.loads(token.removeprefix("stand-in:"))
    return permissions
