"""A fake of GitHub's command line, run as a process: a few API calls on a folder, all recorded.

The token has the job's permissions, and a call without its permission is refused as on GitHub. An
unknown path or `--jq` program fails. `tests/e2e/test_github_stand_ins.py` checks the jq programs
against recorded output.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

BOT = "github-actions[bot]"
TSV = {
    ".[] | [.id, .user.login, .body] | @tsv": (None, ("id", "user.login", "body")),
    ".[] | [.number, .user.login, .body] | @tsv": (None, ("number", "user.login", "body")),
    ".[] | [.merge_commit_sha, .head.repo.full_name, .base.ref, .head.sha, .number] | @tsv": (
        None,
        ("merge_commit_sha", "head.repo.full_name", "base.ref", "head.sha", "number"),
    ),
    ".workflow_runs[] | [.id, .status, .head_repository.full_name, .display_title] | @tsv": (
        "workflow_runs",
        ("id", "status", "head_repository.full_name", "display_title"),
    ),
}
"""jq programs: the path of the rows, and their columns."""


class Refused(Exception):
    """A refused call."""


def tsv(program: str, document: Any) -> str:
    """The output of jq -r for a known program."""
    if program not in TSV:
        raise Refused(f"the fake does not know the jq program {program}")
    rows, columns = TSV[program]
    lines = []
    for row in document if rows is None else document[rows]:
        cells = []
        for column in columns:
            cell = row
            for name in column.split("."):
                cell = cell[name] if cell is not None else None
            cells.append("" if cell is None else _escape(str(cell)))
        lines.append("\t".join(cells) + "\n")
    return "".join(lines)


def _escape(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


class Api:
    """The API on a folder: `issues.json`, `comments.json`, `pulls.json`, `runs.json`, and
    `runs/ID/NAME` for artifacts.
    """

    def __init__(self, state: Path, permissions: dict[str, str]) -> None:
        self._state = state
        self._permissions = permissions

    def call(self, method: str, path: str, fields: dict[str, str]) -> Any:
        path, _, query = path.partition("?")
        head = r"repos/acme/housekeeping"
        if match := re.fullmatch(rf"{head}/issues/(\d+)/comments", path):
            return self._comments(method, int(match[1]), fields)
        if match := re.fullmatch(rf"{head}/issues/comments/(\d+)", path):
            return self._edit_comment(method, int(match[1]), fields)
        if re.fullmatch(rf"{head}/issues", path):
            return self._issues(method, query, fields)
        if match := re.fullmatch(rf"{head}/issues/(\d+)", path):
            return self._edit_issue(method, int(match[1]), fields)
        if (match := re.fullmatch(rf"{head}/commits/([0-9a-f]{{40}})/pulls", path)) and method == "GET":
            self._require_permission("pull-requests", "read")
            return [pull for pull in self._read("pulls") if pull["merge_commit_sha"] == match[1]]
        if re.fullmatch(rf"{head}/actions/workflows/plan\.yml/runs", path) and method == "GET":
            self._require_permission("actions", "read")
            parameters = dict(part.split("=") for part in query.split("&"))
            runs = [run for run in self._read("runs") if all(str(run[key]) == text for key, text in parameters.items())]
            return {"workflow_runs": sorted(runs, key=lambda run: -run["id"])}
        raise Refused(f"the fake does not know {method} {path}")

    def download(self, run: str, name: str, target: Path) -> None:
        self._require_permission("actions", "read")
        source = self._state / "artifacts" / run / name
        if not source.is_dir():
            raise Refused("no artifact matches any of the names or patterns provided")
        shutil.copytree(source, target)

    def _comments(self, method: str, number: int, fields: dict[str, str]) -> Any:
        scope = "pull-requests" if any(pull["number"] == number for pull in self._read("pulls")) else "issues"
        comments = self._read("comments")
        if method == "GET":
            self._require_permission(scope, "read")
            return [comment for comment in comments if comment["issue"] == number]
        self._require_permission(scope, "write")
        comments.append({"id": 1000 + len(comments), "issue": number, "user": {"login": BOT}, "body": fields["body"]})
        self._write("comments", comments)
        return comments[-1]

    def _edit_comment(self, method: str, number: int, fields: dict[str, str]) -> Any:
        if method != "PATCH":
            raise Refused(f"the fake does not {method} comments")
        self._require_permission("pull-requests", "write")
        comments = self._read("comments")
        comment = next(comment for comment in comments if comment["id"] == number)
        comment["body"] = fields["body"]
        self._write("comments", comments)
        return comment

    def _issues(self, method: str, query: str, fields: dict[str, str]) -> Any:
        issues = self._read("issues")
        if method == "GET":
            self._require_permission("issues", "read")
            if query != "state=open&per_page=100":
                raise Refused(f"the fake does not know issues?{query}")
            return [issue for issue in issues if issue["state"] == "open"]
        self._require_permission("issues", "write")
        number = 1 + max(
            [issue["number"] for issue in issues] + [pull["number"] for pull in self._read("pulls")], default=0
        )
        issues.append({"number": number, "user": {"login": BOT}, "state": "open", **fields})
        self._write("issues", issues)
        return issues[-1]

    def _edit_issue(self, method: str, number: int, fields: dict[str, str]) -> Any:
        if method != "PATCH":
            raise Refused(f"the fake does not {method} issues")
        self._require_permission("issues", "write")
        issues = self._read("issues")
        issue = next(issue for issue in issues if issue["number"] == number)
        issue |= fields
        self._write("issues", issues)
        return issue

    def _require_permission(self, scope: str, level: str) -> None:
        granted = self._permissions.get(scope, "none")
        if granted != "write" and granted != level:
            raise Refused(f"HTTP 403: Resource not accessible by integration ({scope}: {level})")

    def _read(self, name: str) -> Any:
        path = self._state / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []

    def _write(self, name: str, rows: Any) -> None:
        (self._state / f"{name}.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def main(arguments: list[str]) -> int:
    state = Path(os.environ["GH_STAND_IN_STATE"])
    with (state / "calls.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(arguments) + "\n")
    try:
        token = os.environ.get("GH_TOKEN", "")
        if not token.startswith("stand-in:"):
            raise Refused("To use GitHub CLI in a GitHub Actions workflow, set the GH_TOKEN environment variable")
        api = Api(state, json.loads(token.removeprefix("stand-in:")))
        if arguments[:2] == ["run", "download"]:
            run, repository, options = arguments[2], arguments[arguments.index("--repo") + 1], arguments
            if repository != "acme/housekeeping":
                raise Refused(f"no repository {repository}")
            api.download(run, options[options.index("--name") + 1], Path(options[options.index("--dir") + 1]))
        elif arguments[0] == "api":
            _api(api, arguments[1:])
        else:
            raise Refused(f"the fake does not know gh {' '.join(arguments)}")
    except Refused as error:
        print(f"gh: {error}", file=sys.stderr)
        return 1
    return 0


def _api(api: Api, arguments: list[str]) -> None:
    method, path, program, silent, fields = "GET", "", None, False, {}
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        match argument:
            case "--paginate":
                pass
            case "--silent":
                silent = True
            case "--method":
                method = remaining.pop(0)
            case "--jq":
                program = remaining.pop(0)
            case "-f" | "-F":
                name, _, value = remaining.pop(0).partition("=")
                fields[name] = (
                    Path(value[1:]).read_text(encoding="utf-8") if argument == "-F" and value.startswith("@") else value
                )
            case _ if not argument.startswith("-") and not path:
                path = argument
            case _:
                raise Refused(f"the fake does not know {argument}")
    response = api.call(method, path, fields)
    if program is not None:
        sys.stdout.write(tsv(program, response))
    elif not silent:
        sys.stdout.write(json.dumps(response))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
