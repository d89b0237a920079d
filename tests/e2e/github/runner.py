"""Runs the workflows of an event like GitHub: jobs in order of their needs, `run:` steps with bash.

It models which commit's workflow files an event runs, whose token, secrets and environments their
jobs get, and what a run leaves: attempts, artifacts, statuses and checks. Third-party actions are
fakes that do the same as the real actions with the inputs of these workflows: artifacts and caches
are folders, a checkout is a clone.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.build import git
from tests.command import output
from tests.e2e.github import expressions, gh
from tests.e2e.github.gh import DEFAULT_BRANCH, REPOSITORY, Environment

HOME = f"acme/reconciler@{'0123456789' * 4}"
"""The source from which the workflows install the program."""
START = datetime(2026, 11, 23, tzinfo=UTC)
LOCAL_WORKFLOW = "./.github/workflows/"
MAIN = f"refs/heads/{DEFAULT_BRANCH}"


@dataclass(slots=True, kw_only=True)
class Trigger:
    """An event and the commit whose workflow files it runs.

    `head`: sha, ref and repo of the branch that GitHub names as the head of the run.
    """

    name: str
    event: dict[str, Any]
    sha: str
    ref: str
    head: dict[str, Any]
    changed: Sequence[str] = ()

    @property
    def is_from_fork(self) -> bool:
        """Whether the run gets no secret and only tokens that read."""
        return self.name == "pull_request" and self.head["repo"]["full_name"] != REPOSITORY


@dataclass(slots=True)
class JobRun:
    """One job, or one job of a matrix. `log` is the output of its steps."""

    name: str
    result: str = "skipped"
    environment: str | None = None
    concurrency: str | None = None
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""
    summary: str = ""
    completed_at: str = ""


@dataclass(slots=True)
class WorkflowRun:
    """An attempt of a run; `jobs` by displayed name, in the order of their runs."""

    id: int
    path: str
    trigger: Trigger
    attempt: int = 1
    jobs: dict[str, JobRun] = field(default_factory=dict)

    @property
    def log(self) -> str:
        return "".join(f"--- {job.name}: {job.result}\n{job.log}" for job in self.jobs.values())

    @property
    def conclusion(self) -> str:
        results = set(self.results().values())
        return next((result for result in ("failure", "success") if result in results), "skipped")

    def results(self) -> dict[str, str]:
        return {name: job.result for name, job in self.jobs.items()}


@dataclass(slots=True)
class GitHub:
    """One repository on GitHub. The runner calls `approve` if an environment has reviewers."""

    state: gh.State
    approve: Callable[[str], bool] = lambda _environment: True
    machine: Mapping[str, str] = field(default_factory=dict)
    """Variables of the machine that runs the jobs."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Configuration variables of the repository."""
    actor: str = "octocat"
    """Who starts the runs and their attempts."""
    entered: list[str] = field(default_factory=list)
    """The environments that jobs entered."""
    commands: list[dict[str, Any]] = field(default_factory=list)
    """The commands of this program that jobs ran: their arguments and their variables."""
    _events: int = 0

    def now(self) -> str:
        """Return the time of the next event, a minute after the last one."""
        self._events += 1
        return (START + timedelta(minutes=self._events)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def push(self, ref: str, before: str) -> list[WorkflowRun]:
        """Run what a push to `refs/heads/…` or `refs/tags/…` starts."""
        changed = self.state.git("diff", "--name-only", before, f"{ref}^{{commit}}").splitlines()
        return self.emit(self._trigger("push", ref, changed=changed))

    def pull_request(self, number: int) -> list[WorkflowRun]:
        """Run what a push to a pull request starts: the workflow files of its merge."""
        pull = deepcopy(gh.find(self.state.pulls, "number", number))
        merge = pull["merge_commit_sha"]
        return self.emit(
            Trigger(
                name="pull_request",
                event={"action": "synchronize", "number": number, "pull_request": pull},
                sha=merge,
                ref=f"refs/pull/{number}/merge",
                head=pull["head"],
                changed=self.state.git("diff", "--name-only", f"{merge}^1", merge).splitlines(),
            )
        )

    def merge_group(self, sha: str) -> list[WorkflowRun]:
        """Run what the merge queue starts for a commit."""
        ref = f"refs/heads/gh-readonly-queue/{DEFAULT_BRANCH}/pr-1-{sha}"
        return self.emit(self._trigger("merge_group", ref, sha=sha, event={"merge_group": {}}))

    def schedule(self, workflow: str) -> WorkflowRun:
        """Run one workflow of the default branch on its schedule."""
        return self._start(workflow, self._trigger("schedule", MAIN))

    def dispatch(self, workflow: str, **inputs: str) -> WorkflowRun:
        """Run a workflow of the default branch by hand."""
        return self._start(workflow, self._trigger("workflow_dispatch", MAIN, event={"inputs": inputs}))

    def rerun(self, run: WorkflowRun) -> WorkflowRun:
        """Run all jobs again: the same event and the same commit, another attempt."""
        again = WorkflowRun(run.id, run.path, run.trigger, run.attempt + 1)
        self._execute(again)
        return again

    def emit(self, trigger: Trigger) -> list[WorkflowRun]:
        """Run each workflow file of the trigger's commit that names the event, and what follows."""
        listing = self.state.git("ls-tree", "--name-only", trigger.sha, ".github/workflows/").splitlines()
        return [
            run
            for path in listing
            if _starts_on(trigger, _load(self.state.git("show", f"{trigger.sha}:{path}")))
            for run in self._run_and_follow(Path(path).name, trigger)
        ]

    def check(self, sha: str, name: str) -> str:
        """The state of a required check: of the last status and the last check run of that name.

        Both count if both exist, as on GitHub. A skipped check run counts as a success.
        """
        statuses = [row["state"] for row in self.state.statuses if (row["sha"], row["context"]) == (sha, name)]
        checks = [row["conclusion"] for row in self.state.checks if (row["sha"], row["name"]) == (sha, name)]
        last = {state.replace("skipped", "success") for state in (*statuses[-1:], *checks[-1:])}
        return "expected" if not last else "success" if last == {"success"} else "failure"

    def _trigger(
        self, name: str, ref: str, *, sha: str = "", event: gh.Row | None = None, changed: Sequence[str] = ()
    ) -> Trigger:
        """Return an event of a branch or tag of this repository. `sha`: of a ref that git does not have."""
        sha = sha or self.state.git("rev-parse", f"{ref}^{{commit}}")
        repo = {"full_name": REPOSITORY, "owner": {"login": REPOSITORY.partition("/")[0]}}
        head = {"sha": sha, "ref": ref.removeprefix("refs/heads/").removeprefix("refs/tags/"), "repo": repo}
        return Trigger(name=name, event=event or {}, sha=sha, ref=ref, head=head, changed=changed)

    def _run_and_follow(self, workflow: str, trigger: Trigger) -> Iterator[WorkflowRun]:
        run = self._start(workflow, trigger)
        yield run
        if trigger.name == "workflow_run":
            return
        # GitHub runs the files of the default branch, whatever the run was.
        row = gh.find(self.state.runs, "id", run.id)
        event = {"action": "completed", "workflow_run": {**row, "conclusion": run.conclusion, "pull_requests": []}}
        yield from self.emit(self._trigger("workflow_run", MAIN, event=event))

    def _start(self, workflow: str, trigger: Trigger) -> WorkflowRun:
        run = WorkflowRun(len(self.state.runs) + 1, f".github/workflows/{workflow}", trigger)
        row = {
            "id": run.id,
            "path": run.path,
            "name": _load(self._text(run))["name"],
            "event": trigger.name,
            "head_branch": trigger.head["ref"],
            "head_sha": trigger.head["sha"],
            "head_repository": trigger.head["repo"],
            "attempts": [],
        }
        self.state.runs.append(row)
        self._execute(run)
        return run

    def _text(self, run: WorkflowRun) -> str:
        return self.state.git("show", f"{run.trigger.sha}:{run.path}")

    def _execute(self, run: WorkflowRun) -> None:
        file = _load(self._text(run))
        ref = run.trigger.ref
        github = {
            "repository": REPOSITORY,
            "event_name": run.trigger.name,
            "event": {**run.trigger.event, "repository": {"full_name": REPOSITORY, "default_branch": DEFAULT_BRANCH}},
            "sha": run.trigger.sha,
            "run_id": run.id,
            "run_attempt": run.attempt,
            "server_url": "https://github.com",
            "ref": ref,
            "ref_name": ref.removeprefix("refs/heads/").removeprefix("refs/tags/").removeprefix("refs/"),
            "triggering_actor": self.actor,
        }
        self._save(run, status="in_progress")
        inputs = run.trigger.event.get("inputs", {})
        self._run_jobs(file, {"github": github, "inputs": inputs, "vars": self.variables}, run, prefix="")
        self._save(run, status="completed")
        sha = run.trigger.head["sha"]
        self.state.checks += ({"sha": sha, "name": job.name, "conclusion": job.result} for job in run.jobs.values())

    def _run_jobs(self, file: Any, contexts: dict[str, Any], run: WorkflowRun, *, prefix: str) -> list[str]:
        """Run the jobs of a file and return their results. `prefix`: name of the calling job."""
        names = contexts | expressions.functions(failed=False, workspace=Path())
        expressions.value([file.get("run-name"), file.get("concurrency")], names)
        needs: dict[str, dict[str, Any]] = {}
        for job_id, job in _sort_by_needs(file["jobs"]):
            predecessors = {name: needs[name] for name in _as_list(job.get("needs"))}
            results, outputs = self._job(file, job_id, job, {**contexts, "needs": predecessors}, run, prefix)
            result = next((r for r in ("failure", "skipped") if r in results), "success")
            needs[job_id] = {"result": result, "outputs": outputs}
            self._save(run, status="in_progress")
        return [need["result"] for need in needs.values()]

    def _job(
        self, file: Any, job_id: str, job: Any, contexts: dict[str, Any], run: WorkflowRun, prefix: str
    ) -> tuple[list[str], dict[str, str]]:
        failed = any(need["result"] != "success" for need in contexts["needs"].values())
        names = contexts | expressions.functions(failed=failed, workspace=Path())
        if not _runs_if(job.get("if"), names):
            run.jobs[prefix + job_id] = JobRun(prefix + job_id)
            return ["skipped"], {}
        if "uses" in job:
            return self._call(job, contexts | {"inputs": expressions.value(job["with"], names)}, run), {}
        matrix = expressions.value(job.get("strategy", {}).get("matrix"), names)
        results, outputs = [], {}
        for combination in _combinations(matrix):
            finished_job = _Job(self, file, job, contexts | {"matrix": combination}, run, prefix).run()
            finished_job.completed_at = self.now()
            run.jobs[finished_job.name] = finished_job
            results.append(finished_job.result)
            outputs |= finished_job.outputs
        return results, outputs

    def _call(self, job: Any, contexts: dict[str, Any], run: WorkflowRun) -> list[str]:
        """Run a workflow of the same commit that this job calls, with no more than its permissions."""
        path = job["uses"].removeprefix("./")
        file = _load(self.state.git("show", f"{run.trigger.sha}:{path}"))
        assert job["uses"].startswith(LOCAL_WORKFLOW)
        assert "workflow_call" in file["on"]
        for called in file["jobs"].values():
            assert called["permissions"].items() <= job["permissions"].items()
        return self._run_jobs(file, contexts, run, prefix=f"{job['name']} / ")

    def _save(self, run: WorkflowRun, *, status: str) -> None:
        row = gh.find(self.state.runs, "id", run.id)
        jobs = [
            {
                "name": job.name,
                "conclusion": job.result,
                "completed_at": job.completed_at,
                "html_url": f"https://github.com/{REPOSITORY}/actions/job/{number}",
            }
            for number, job in enumerate(run.jobs.values())
        ]
        now, before = self.now(), row["attempts"][: run.attempt - 1]
        started = next((attempt["run_started_at"] for attempt in row["attempts"][run.attempt - 1 :]), now)
        attempt = {"status": status, "run_started_at": started, "updated_at": now, "jobs": jobs}
        row |= {"run_attempt": run.attempt, "attempts": [*before, attempt]}


class _Job:
    def __init__(
        self, hub: GitHub, file: Any, job: Any, contexts: dict[str, Any], run: WorkflowRun, prefix: str
    ) -> None:
        self._hub = hub
        self._file = file
        self._spec = job
        self._run = run
        self._contexts = contexts
        self._workspace = hub.state.folder / "work" / f"{run.id}-{run.attempt}-{len(run.jobs)}"
        self._workspace.mkdir(parents=True)
        self._failed = False
        environment = job.get("environment")
        self.result = JobRun(prefix + self._value(job["name"]), environment=environment and self._value(environment))
        if "concurrency" in job:
            self.result.concurrency = self._value(job["concurrency"]["group"])
            assert job["concurrency"]["cancel-in-progress"] is False
        self._permissions = job.get("permissions", file.get("permissions", {}))
        if run.trigger.is_from_fork:
            self._permissions = {scope: "read" for scope, level in self._permissions.items() if level != "none"}

    def run(self) -> JobRun:
        values = Environment()
        if self.result.environment:
            # GitHub creates an environment that does not exist, without protection.
            values = self._hub.state.environments.setdefault(self.result.environment, Environment())
            if refusal := self._refusal(self.result.environment, values):
                self.result.result = "failure"
                self.result.log = f"{refusal}\n"
                return self.result
            self._hub.entered.append(self.result.environment)
        secrets = {} if self._run.trigger.is_from_fork else values.secrets
        token = gh.token_of(self._permissions)
        self._contexts = self._contexts | {
            "vars": {**self._contexts["vars"], **values.variables},
            "secrets": secrets,
            "steps": {},
            "github": self._contexts["github"] | {"token": token},
        }
        for number, step in enumerate(self._spec["steps"]):
            if _runs_if(step.get("if"), self._names()):
                self._script(number, step) if "run" in step else self._action(step)
        self.result.result = "failure" if self._failed else "success"
        for name, template in self._spec.get("outputs", {}).items():
            self.result.outputs[name] = expressions.text(self._value(template))
        return self.result

    def _refusal(self, name: str, environment: Environment) -> str | None:
        """Why the protection of an environment refuses this job; None if it may run."""
        ref = self._contexts["github"]["ref"]
        if environment.branches and ref not in {f"refs/heads/{branch}" for branch in environment.branches}:
            return f"{ref} is not allowed to deploy to {name} due to environment protection rules"
        if environment.reviewers:
            if not self._hub.approve(name):
                return "rejected by a reviewer"
            user = {"login": environment.reviewers[0], "type": "User"}
            approval = {"run": self._run.id, "state": "approved", "user": user, "environments": [{"name": name}]}
            self._hub.state.approvals.append(approval)
        return None

    def _value(self, template: Any) -> Any:
        return expressions.value(str(template), self._names())

    def _names(self) -> dict[str, Any]:
        return self._contexts | expressions.functions(failed=self._failed, workspace=self._workspace)

    def _script(self, number: int, step: Any) -> None:
        github = self._contexts["github"]
        files = {
            name: self._workspace.parent / f"{self._workspace.name}-{number}-{name}"
            for name in ("out", "sum", "sh", "event")
        }
        files["out"].touch()
        files["sum"].touch()
        files["sh"].write_text(step["run"])
        files["event"].write_text(json.dumps(github["event"]))
        assert "defaults" not in self._file or self._file["defaults"] == {"run": {"shell": "bash"}}
        environment = {
            **self._hub.machine,
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_TRIGGERING_ACTOR": github["triggering_actor"],
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_EVENT_NAME": self._run.trigger.name,
            "GITHUB_EVENT_PATH": str(files["event"]),
            "GITHUB_SHA": github["sha"],
            "GITHUB_REF_NAME": github["ref_name"],
            "GITHUB_RUN_ID": str(self._run.id),
            "GITHUB_RUN_ATTEMPT": str(self._run.attempt),
            "GITHUB_SERVER_URL": github["server_url"],
            "GITHUB_WORKSPACE": str(self._workspace),
            "GITHUB_OUTPUT": str(files["out"]),
            "GITHUB_STEP_SUMMARY": str(files["sum"]),
        }
        for level in (self._file.get("env"), self._spec.get("env"), step.get("env")):
            for key, template in (level or {}).items():
                environment[key] = expressions.text(self._value(template))
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(files["sh"])]
        with gh.serve(self._hub.state) as url:
            environment["GITHUB_API_URL"] = url
            step_output, code = run_script(command, self._workspace, environment, self._hub.commands)
        self.result.log += f"$ {step.get('name')}\n{step_output}(exit {code})\n"
        self.result.summary += files["sum"].read_text()
        if "id" in step:
            self._contexts["steps"][step["id"]] = {"outputs": read_outputs(files["out"])}
        self._failed = self._failed or code != 0

    def _action(self, step: Any) -> None:
        name = step["uses"].partition("@")[0]
        inputs = {key: self._value(template) for key, template in step.get("with", {}).items()}
        try:
            match name:
                case "actions/checkout":
                    assert inputs.pop("persist-credentials") == "False"
                    self._checkout(**inputs)
                case "acme/reconciler":
                    # tests/e2e/test_packaging.py tests the action. Here `reconciler` is that of
                    # this tree.
                    assert step["uses"].partition("@")[2] == HOME.partition("@")[2]
                case "actions/upload-artifact":
                    self._upload(inputs)
                case "actions/download-artifact":
                    self._download(inputs)
                case "actions/cache/restore":
                    self._restore(inputs)
                case "actions/cache/save":
                    shutil.copy(self._workspace / inputs["path"], self._cache / inputs["key"])
                case _:
                    raise AssertionError(f"the runner does not know {name}")
        except gh.Refused as error:
            self.result.log += f"$ {name}\n{error}\n"
            self._failed = True

    def _checkout(self, *, ref: str | None = None, path: str = ".") -> None:
        """Clone the repository.

        `ref` is a commit, or the present state of a branch, not its state at the start of the run.
        Like GitHub's action, this first empties a folder that is not a clone.
        """
        assert self._permissions.get("contents") == "read"
        commit = self._contexts["github"]["sha"]
        if ref is not None:
            commit = ref if len(ref) == 40 else self._hub.state.git("rev-parse", f"refs/heads/{ref}")
        folder = self._workspace / path
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        # A local clone copies all objects, as GitHub answers a request for the SHA of a pull request.
        git(folder, "clone", "-q", "-n", str(self._hub.state.origin), ".")
        git(folder, "checkout", "-q", commit)

    @property
    def _cache(self) -> Path:
        folder = self._hub.state.folder / "cache"
        folder.mkdir(exist_ok=True)
        return folder

    def _restore(self, inputs: Mapping[str, str]) -> None:
        # As GitHub does: the newest cache whose key begins with the restore key.
        matches = [path for path in self._cache.iterdir() if path.name.startswith(inputs["restore-keys"])]
        if matches:
            newest = max(matches, key=lambda path: path.stat().st_mtime_ns)
            shutil.copy(newest, self._workspace / inputs["path"])

    def _upload(self, inputs: Mapping[str, str]) -> None:
        source = self._workspace / inputs["path"]
        files = [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else []
        if source.is_file():
            files, source = [source], source.parent
        if not files:
            if inputs["if-no-files-found"] == "error":
                raise gh.Refused(f"No files were found with the provided path: {inputs['path']}")
            return
        artifacts = self._hub.state.artifacts
        same = [row for row in artifacts if (row["name"], row["workflow_run"]["id"]) == (inputs["name"], self._run.id)]
        if same and inputs.get("overwrite") != "True":
            raise gh.Refused("(409) Conflict: an artifact with this name already exists on the workflow run")
        identifier = 1 + max((row["id"] for row in artifacts), default=0)
        row = {"id": identifier, "name": inputs["name"], "workflow_run": {"id": self._run.id}}
        artifacts[:] = [*(row for row in artifacts if row not in same), row]
        for path in files:
            copy = self._hub.state.folder / "artifacts" / str(identifier) / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)

    def _download(self, inputs: Mapping[str, str]) -> None:
        """Download artifacts of all attempts of a run: of this one, or by their id of the one that is named."""
        target = self._workspace / inputs["path"]
        run = int(inputs.get("run-id", self._run.id))
        if run != self._run.id:
            assert gh.permissions_of(inputs["github-token"])["actions"] == "read"
        rows = [row for row in self._hub.state.artifacts if row["workflow_run"]["id"] == run]
        matches = [
            row
            for row in rows
            if fnmatchcase(row["name"], inputs.get("name", inputs.get("pattern", "*")))
            and str(row["id"]) == inputs.get("artifact-ids", str(row["id"]))
        ]
        if ("name" in inputs or "artifact-ids" in inputs) and not matches:
            raise gh.Refused(f"Artifact {inputs} not found")
        # GitHub puts a single artifact into the folder itself, also if a pattern matched it.
        flat = "name" in inputs or inputs.get("merge-multiple") == "True" or len(matches) == 1
        for row in matches:
            source = self._hub.state.folder / "artifacts" / str(row["id"])
            shutil.copytree(source, target if flat else target / row["name"], dirs_exist_ok=True)


def read_outputs(file: Path) -> dict[str, str]:
    """Return what a step wrote to GITHUB_OUTPUT."""
    pairs = (line.partition("=") for line in file.read_text().splitlines())
    return {name: value for name, _, value in pairs}


@lru_cache
def _load(text: str) -> Any:
    """The document of a workflow, which no caller changes: each event asks for each workflow again."""
    return YAML(typ="safe").load(text)


def _starts_on(trigger: Trigger, file: Any) -> bool:
    """Whether an event starts a workflow. Raises AssertionError for a filter it does not know."""
    events = file["on"]
    if not isinstance(events, Mapping):
        return trigger.name in _as_list(events)
    if trigger.name not in events:
        return False
    filters = dict(events[trigger.name] or {})
    branches, paths = filters.pop("branches", None), filters.pop("paths", None)
    if branches and not any(fnmatchcase(trigger.ref, f"refs/heads/{name}") for name in branches):
        return False
    if paths and not any(fnmatchcase(path, name) for path in trigger.changed for name in paths):
        return False
    if trigger.name == "workflow_run":
        assert filters.pop("types") == ["completed"]
        return trigger.event["workflow_run"]["name"] in filters.pop("workflows")
    assert not filters, f"the runner does not know {filters}"
    return True


STEP_LIMIT_S = 300.0
SOCKET = "RECONCILER_TEST_SOCKET"
CLIENT = f"""\
import _socket, posix, sys
words = [word.encode(sys.getfilesystemencoding(), "surrogateescape") for word in sys.argv[1:]]
variables = [name + b"=" + value for name, value in posix.environ.items()]
request = b"\\0".join([posix.getcwdb(), b"%d" % len(words), *words, *variables])
client = _socket.socket(_socket.AF_UNIX)
client.connect(posix.environ[b"{SOCKET}"])
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (1, 2))
client.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
client.sendall(request)
posix._exit(int(client.recv(4) or 1))
"""
"""`reconciler` on the PATH of a step: the test's process runs the command line for it.

A workflow runs it 26 times. Without the modules `json`, `os` and `socket` it takes a third of the CPU time.
"""


def run_script(
    command: Sequence[str], folder: Path, variables: Mapping[str, str], commands: list[dict[str, Any]]
) -> tuple[str, int]:
    """Run a step with these variables, and none for this program or Kafka; return its output and exit code.

    Its `reconciler` commands, which it adds to `commands`, run in this process, which has a warm Spark. All
    other tools are those of this machine.
    """
    deadline = time.monotonic() + STEP_LIMIT_S
    # The write end is closed when the last process of the step has ended.
    ended, open_meanwhile = os.pipe()
    with (
        open(ended, "rb") as ending,  # noqa: PTH123 - a descriptor
        # The address of a socket has at most 103 bytes on macOS and 107 on Linux.
        tempfile.TemporaryDirectory(dir="/tmp") as folder_name,
        socket.socket(socket.AF_UNIX) as listener,
        tempfile.TemporaryFile() as step_output,
    ):
        address = f"{folder_name}/socket"
        Path(folder_name, "client.py").write_text(CLIENT)
        program = Path(folder_name, "reconciler")
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{folder_name}/client.py" "$@"\n')
        program.chmod(0o755)
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("RECONCILER_", "KAFKA_"))}
        path = f"{folder_name}{os.pathsep}{os.environ['PATH']}"
        listener.bind(address)
        listener.listen()
        with subprocess.Popen(
            command,
            cwd=folder,
            env={**inherited, **variables, "PATH": path, SOCKET: address},
            stdin=subprocess.DEVNULL,
            stdout=step_output,
            stderr=step_output,
            pass_fds=[open_meanwhile],
        ) as process:
            os.close(open_meanwhile)
            while ending not in (ready := wait([listener, ending], deadline - time.monotonic())):
                if not ready:
                    process.kill()
                    raise TimeoutError(f"the step did not end within {STEP_LIMIT_S:.0f} s: {command}")
                connection, _ = listener.accept()
                with connection:
                    commands.append(_run_request(connection))
        step_output.seek(0)
        return step_output.read().decode(), process.returncode


def _run_request(connection: socket.socket) -> dict[str, Any]:
    connection.settimeout(10)
    header, descriptors, _flags, _address = socket.recv_fds(connection, 4, 2)
    with connection.makefile("rb") as stream:
        request = stream.read(int.from_bytes(header, "big"))
    folder, count, *rest = map(os.fsdecode, request.split(b"\0"))
    arguments = rest[: int(count)]
    variables = dict(pair.split("=", 1) for pair in rest[int(count) :])
    del variables[SOCKET]
    result = output(Path(folder), *arguments, **variables)
    for descriptor, text in zip(descriptors, (result.stdout, result.stderr), strict=True):
        with open(descriptor, "wb") as stream:  # noqa: PTH123 - a descriptor
            stream.write(text)
    connection.sendall(str(result.returncode).encode())
    return {"arguments": arguments, "variables": variables}


def _runs_if(condition: Any, names: Mapping[str, Any]) -> bool:
    text = str(condition or "success()").strip().removeprefix("${{").removesuffix("}}")
    if not expressions.STATUS.search(text):
        text = f"success() && ({text})"
    return bool(expressions.evaluate(text, names))


def _sort_by_needs(jobs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    pending = dict(jobs)
    while pending:
        ready = next(name for name, job in pending.items() if not pending.keys() & set(_as_list(job.get("needs"))))
        yield ready, pending.pop(ready)


def _combinations(matrix: Any) -> list[dict[str, Any]]:
    match matrix:
        case None:
            return [{}]
        case {"include": list(rows)}:
            return rows
        case {"cluster": list(names)}:
            return [{"cluster": name} for name in names]
    raise AssertionError(f"the runner does not know the matrix {matrix}")


def _as_list(needs: Any) -> list[str]:
    return [needs] if isinstance(needs, str) else list(needs or [])
