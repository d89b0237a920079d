"""Runs a command of `reconciler` with everything that it starts, and lists processes from /proc."""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster
from tests.build import cluster_manifest, head

MARK = "RECONCILER_TEST_MARK"
"""A variable of the environment, which the processes of a command inherit."""


LIMIT_S = 300
END_LIMIT_S = 30


def write_manifests(
    folder: Path, cluster: SandboxCluster, topic: str, *, servers: str | None = None, keep: str = "newerThan: 7d"
) -> None:
    """Write manifests.yaml, with a policy that needs the scan."""
    servers = servers or cluster.bootstrap_servers.split(",")[0]
    manifest = cluster_manifest(servers, limits="", cluster_id=cluster.cluster_id)
    policy = f"{head('RetentionFloor', 'floor')}\nspec: {{topics: [{topic}], keep: {{{keep}}}}}\n"
    (folder / "manifests.yaml").write_text(f"{manifest}---\n{policy}", encoding="utf-8")


class ReconcilerProcess:
    """A `reconciler` in a folder with manifests.yaml, with a temporary folder and a mark of its own.

    `java`: False: the machine has none. `variables`: of its environment.
    """

    def __init__(self, folder: Path, mark: str, *arguments: str, java: bool = True, **variables: str) -> None:
        self.mark = mark
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        environment = os.environ | {MARK: mark} | temporary_folder(self.temporary) | variables
        if not java:
            (folder / "bin").mkdir(exist_ok=True)
            environment |= {"PATH": str(folder / "bin")}
            environment.pop("JAVA_HOME", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reconciler", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, text: str) -> None:
        """Wait until a line of progress contains the text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"the command ended without the line {text!r}")

    def end(self, *, names_files: bool = False) -> tuple[int, str]:
        """Wait for the end; return the exit code and stderr.

        No process remains, and no file but those that stderr names if `names_files`.
        """
        _, stderr = self.process.communicate(timeout=LIMIT_S)
        assert "Traceback" not in stderr, stderr
        assert_nothing_left(self.temporary, self.mark, except_named_in=stderr if names_files else "")
        return self.process.returncode, stderr


def temporary_folder(folder: Path) -> dict[str, str]:
    """Return the variables for a temporary folder: Java reads another one than the rest."""
    return {"TMPDIR": str(folder), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}"}


def assert_nothing_left(temporary: Path, mark: str, *, except_named_in: str = "") -> None:
    """No process with this mark and no temporary file remains, shortly after the end of a command."""
    client.wait_until(lambda: not marked(mark), END_LIMIT_S, f"the end of {marked(mark)}")
    files = [path.name for path in temporary.iterdir()]
    assert [name for name in files if not except_named_in or name not in except_named_in] == []


def marked(mark: str) -> dict[int, str]:
    """Return the command lines of the processes whose MARK has this value, by id."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                processes[int(folder.name)] = _command_line(folder)
        except OSError:
            continue
    return processes


def descendants(pid: int) -> dict[int, str]:
    """Return the command lines of the children of a process, and of their children, by id."""
    children: dict[int, list[int]] = defaultdict(list)
    lines: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines[int(folder.name)] = _command_line(folder)
            # The name of a process, in parentheses, may contain blanks.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children[parent].append(int(folder.name))
    processes: dict[int, str] = {}
    pending = [pid]
    while pending:
        for child in children[pending.pop()]:
            processes[child] = lines[child]
            pending.append(child)
    return processes


def _command_line(folder: Path) -> str:
    return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
