"""Runs a workflow file like GitHub: jobs in order of their needs, `run:` steps with bash.

Third-party actions are fakes that do the same as the real actions with the inputs of these
workflows: artifacts and caches are folders, a checkout is a clone.
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
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.command import output
from tests.e2e.github import expressions, gh

REPOSITORY = "acme/housekeeping"
HOME = f"acme/reconciler@{'0123456789' * 4}"
"""The source from which the workflows install the program."""


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


@dataclass(slots=True)
class WorkflowRun:
    """The result of a run; `jobs` by displayed name, in the order of their runs."""

    id: int
    jobs: dict[str, JobRun] = field(default_factory=dict)

    @property
    def log(self) -> str:
        return "".join(f"--- {job.name}: {job.result}\n{job.log}" for job in self.jobs.values())

    def results(self) -> dict[str, str]:
        return {name: job.result for name, job in self.jobs.items()}


@dataclass(slots=True)
class GitHub:
    """One repository on GitHub.

    `environments` maps names to (vars, secrets). The runner calls `approve` before a job enters an
    environment.
    """

    origin: Path
    state: Path
    environments: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]
    approve: Callable[[str], bool] = lambda _environment: True
    machine: Mapping[str, str] = field(default_factory=dict)
    """Variables of the machine that runs the jobs."""
    runs: int = 0

    def run(self, workflow: str, event_name: str, event: dict[str, Any], *, sha: str) -> WorkflowRun:
        """Run `.github/workflows/WORKFLOW` of the commit `sha`."""
        self.runs += 1
        text = self.git("show", f"{sha}:.github/workflows/{workflow}")
        file = YAML(typ="safe").load(text)
        run = WorkflowRun(id=self.runs)
        github = {
            "repository": REPOSITORY,
            "event_name": event_name,
            "event": event,
            "sha": sha,
            "run_id": run.id,
            "run_attempt": 1,
            "server_url": "https://github.com",
            "ref": "refs/heads/main",
            "ref_name": "main",
        }
        assert file["permissions"] == {}
        needs: dict[str, dict[str, Any]] = {}
        for job_id, job in _sort_by_needs(file["jobs"]):
            predecessors = {name: needs[name] for name in _as_list(job.get("needs"))}
            results, outputs = self._job(file, job_id, job, github, predecessors, run)
            result = next((r for r in ("failure", "skipped") if r in results), "success")
            needs[job_id] = {"result": result, "outputs": outputs}
        if workflow == "plan.yml":
            title = expressions.value(
                file["run-name"], {"github": github}, expressions.functions(failed=False, workspace=Path())
            )
            self._record_run(run.id, event, title)
        return run

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.origin, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    def _job(
        self, file: Any, job_id: str, job: Any, github: dict[str, Any], needs: dict[str, Any], run: WorkflowRun
    ) -> tuple[list[str], dict[str, str]]:
        contexts: dict[str, Any] = {"github": github, "needs": needs}
        failed = any(need["result"] != "success" for need in needs.values())
        functions = expressions.functions(failed=failed, workspace=Path())
        if not _runs_if(job.get("if"), contexts, functions):
            run.jobs[job_id] = JobRun(job_id)
            return ["skipped"], {}
        matrix = expressions_in(job.get("strategy", {}).get("matrix"), contexts, functions)
        results, outputs = [], {}
        for combination in _combinations(matrix):
            finished_job = _Job(self, file, job, contexts | {"matrix": combination}, run).run()
            run.jobs[finished_job.name] = finished_job
            results.append(finished_job.result)
            outputs |= finished_job.outputs
        return results, outputs

    def _record_run(self, number: int, event: dict[str, Any], title: str) -> None:
        path = self.state / "runs.json"
        runs = json.loads(path.read_text()) if path.exists() else []
        head = event["pull_request"]["head"]
        runs.append(
            {
                "id": number,
                "status": "completed",
                "event": "pull_request",
                "head_sha": head["sha"],
                "head_repository": head["repo"],
                "display_title": title,
            }
        )
        path.write_text(json.dumps(runs))


class _Job:
    def __init__(self, hub: GitHub, file: Any, job: Any, contexts: dict[str, Any], run: WorkflowRun) -> None:
        self._hub = hub
        self._file = file
        self._spec = job
        self._run = run
        self._workspace = hub.state / "work" / f"{run.id}-{len(run.jobs)}"
        self._workspace.mkdir(parents=True)
        self._failed = False
        plain = self._functions()
        name = expressions.value(job["name"], contexts, plain)
        environment = job.get("environment")
        self.result = JobRun(name, environment=environment and expressions.value(environment, contexts, plain))
        if "concurrency" in job:
            self.result.concurrency = expressions.value(job["concurrency"]["group"], contexts, plain)
            assert job["concurrency"]["cancel-in-progress"] is False
        variables, secrets = hub.environments.get(self.result.environment or "", ({}, {}))
        if _is_from_fork(contexts["github"]["event"]):
            variables, secrets = {}, {}
        token = "stand-in:" + json.dumps(job.get("permissions", {}))
        self._contexts = contexts | {"vars": variables, "secrets": secrets, "steps": {}}
        self._contexts["github"] = contexts["github"] | {"token": token}

    def run(self) -> JobRun:
        if self.result.environment and not self._hub.approve(self.result.environment):
            self.result.result = "failure"
            self.result.log = "rejected by a reviewer\n"
            return self.result
        for number, step in enumerate(self._spec["steps"]):
            if not _runs_if(step.get("if"), self._contexts, self._functions()):
                continue
            if "run" in step:
                self._script(number, step)
            else:
                self._action(step)
        self.result.result = "failure" if self._failed else "success"
        for name, template in self._spec.get("outputs", {}).items():
            self.result.outputs[name] = expressions.text(expressions.value(template, self._contexts, self._functions()))
        return self.result

    def _functions(self) -> dict[str, Callable[..., Any]]:
        return expressions.functions(failed=self._failed, workspace=self._workspace)

    def _script(self, number: int, step: Any) -> None:
        files = {
            name: self._workspace.parent / f"{self._workspace.name}-{number}-{name}" for name in ("out", "sum", "sh")
        }
        files["out"].touch()
        files["sum"].touch()
        files["sh"].write_text(step["run"])
        assert self._file["defaults"]["run"]["shell"] == "bash"
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("RECONCILER_", "KAFKA_"))}
        environment |= self._hub.machine
        environment |= {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTOR": "octocat",
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_SHA": self._contexts["github"]["sha"],
            "GITHUB_REF_NAME": self._contexts["github"]["ref_name"],
            "GITHUB_RUN_ID": str(self._run.id),
            "GITHUB_WORKSPACE": str(self._workspace),
            "GITHUB_OUTPUT": str(files["out"]),
            "GITHUB_STEP_SUMMARY": str(files["sum"]),
            "GH_STAND_IN_STATE": str(self._hub.state),
            "PATH": f"{self._hub.state / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        for level in (self._file.get("env"), self._spec.get("env"), step.get("env")):
            for key, template in (level or {}).items():
                value = expressions.value(str(template), self._contexts, self._functions())
                environment[key] = expressions.text(value)
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(files["sh"])]
        step_output, code = run_script(command, self._workspace, environment)
        self.result.log += f"$ {step.get('name')}\n{step_output}(exit {code})\n"
        self.result.summary += files["sum"].read_text()
        pairs = (line.partition("=") for line in files["out"].read_text().splitlines())
        if "id" in step:
            self._contexts["steps"][step["id"]] = {"outputs": {name: value for name, _, value in pairs}}
        self._failed = self._failed or code != 0

    def _action(self, step: Any) -> None:
        name = step["uses"].partition("@")[0]
        inputs = {
            key: expressions.value(str(template), self._contexts, self._functions())
            for key, template in step.get("with", {}).items()
        }
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

    def _checkout(self, *, ref: str | None = None) -> None:
        """Clone the repository.

        `ref` is the present state of a branch, not its state at the start of the run.
        """
        assert self._spec["permissions"].get("contents") == "read"
        commit = self._contexts["github"]["sha"] if ref is None else self._hub.git("rev-parse", ref).strip()
        for arguments in (("clone", "-q", str(self._hub.origin), "."), ("checkout", "-q", commit)):
            subprocess.run(["git", *arguments], cwd=self._workspace, check=True, capture_output=True, timeout=60)

    @property
    def _cache(self) -> Path:
        folder = self._hub.state / "cache"
        folder.mkdir(exist_ok=True)
        return folder

    def _restore(self, inputs: Mapping[str, str]) -> None:
        # As GitHub does: the newest cache whose key begins with the restore key.
        matches = [path for path in self._cache.iterdir() if path.name.startswith(inputs["restore-keys"])]
        if matches:
            newest = max(matches, key=lambda path: path.stat().st_mtime_ns)
            shutil.copy(newest, self._workspace / inputs["path"])

    @property
    def _artifacts(self) -> Path:
        folder = self._hub.state / "artifacts" / str(self._run.id)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _upload(self, inputs: Mapping[str, str]) -> None:
        source = self._workspace / inputs["path"]
        files = [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else []
        if not files:
            assert inputs["if-no-files-found"] == "ignore"
            return
        target = self._artifacts / inputs["name"]
        if target.exists():
            assert inputs["overwrite"] == "True"
            shutil.rmtree(target)
        for path in files:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)

    def _download(self, inputs: Mapping[str, str]) -> None:
        target = self._workspace / inputs["path"]
        matches = [p for p in sorted(self._artifacts.iterdir()) if fnmatchcase(p.name, inputs.get("pattern", "*"))]
        if "name" in inputs:
            matches = [path for path in matches if path.name == inputs["name"]]
            if not matches:
                raise gh.Refused(f"Artifact '{inputs['name']}' not found")
        # GitHub puts a single artifact into the folder itself, also if a pattern matched it.
        flat = "name" in inputs or inputs.get("merge-multiple") == "True" or len(matches) == 1
        for path in matches:
            shutil.copytree(path, target if flat else target / path.name, dirs_exist_ok=True)


STEP_LIMIT_S = 300.0
SOCKET = "RECONCILER_TEST_SOCKET"
CLIENT = f"""\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.connect(os.environ.pop("{SOCKET}"))
    request = json.dumps({{"folder": os.getcwd(), "arguments": sys.argv[1:], "variables": dict(os.environ)}}).encode()
    socket.send_fds(client, [len(request).to_bytes(4, "big")], [1, 2])
    client.sendall(request)
    sys.exit(int(client.recv(4).decode() or 1))
"""
"""`reconciler` on the PATH of a step: the test's process runs the command line for it."""


def run_script(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[str, int]:
    """Run a step and return its output and exit code.

    Its `reconciler` commands run in this process, which has a warm Spark session.
    """
    deadline = time.monotonic() + STEP_LIMIT_S
    with (
        # The address of a socket has at most 103 bytes on macOS and 107 on Linux.
        tempfile.TemporaryDirectory(dir="/tmp") as folder_name,
        socket.socket(socket.AF_UNIX) as listener,
        tempfile.TemporaryFile() as step_output,
    ):
        address = f"{folder_name}/socket"
        listener.bind(address)
        listener.listen()
        listener.settimeout(0.02)
        with subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, SOCKET: address},
            stdin=subprocess.DEVNULL,
            stdout=step_output,
            stderr=step_output,
        ) as process:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    process.kill()
                    raise TimeoutError(f"the step did not end within {STEP_LIMIT_S:.0f} s: {command}")
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    _run_request(connection)
        step_output.seek(0)
        return step_output.read().decode(), process.returncode


def _run_request(connection: socket.socket) -> None:
    connection.settimeout(10)
    header, descriptors, _flags, _address = socket.recv_fds(connection, 4, 2)
    with connection.makefile("rb") as stream:
        request = json.loads(stream.read(int.from_bytes(header, "big")))
    result = output(Path(request["folder"]), *request["arguments"], **request["variables"])
    for descriptor, text in zip(descriptors, (result.stdout, result.stderr), strict=True):
        with open(descriptor, "wb") as stream:  # noqa: PTH123 - a descriptor
            stream.write(text)
    connection.sendall(str(result.returncode).encode())


def write_fakes(state: Path) -> None:
    """Write a fake `gh` and a `sleep` that does not wait to `state/bin`.

    All other tools are those of this machine.
    """
    folder = state / "bin"
    folder.mkdir(parents=True)
    scripts = {
        "gh": f'#!/bin/sh\nPYTHONPATH="{Path(__file__).parents[3]}" exec "{sys.executable}" -m tests.e2e.github.gh "$@"\n',
        "sleep": '#!/bin/sh\necho "sleep $*" >> "$GH_STAND_IN_STATE/sleeps"\n',
        "reconciler": f'#!/bin/sh\nexec "{sys.executable}" -S "{folder / "client.py"}" "$@"\n',
    }
    (folder / "client.py").write_text(CLIENT)
    for name, script in scripts.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)


def expressions_in(node: Any, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """Replace the expressions in a YAML node."""
    match node:
        case dict():
            return {key: expressions_in(inner, contexts, functions) for key, inner in node.items()}
        case str():
            return expressions.value(node, contexts, functions)
        case _:
            return node


def _runs_if(condition: Any, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> bool:
    text = str(condition or "success()").strip().removeprefix("${{").removesuffix("}}")
    if not expressions.STATUS.search(text):
        text = f"success() && ({text})"
    return bool(expressions.evaluate(text, contexts, functions))


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


def _is_from_fork(event: Mapping[str, Any]) -> bool:
    pull_request = event.get("pull_request")
    return pull_request is not None and pull_request["head"]["repo"]["full_name"] != REPOSITORY
