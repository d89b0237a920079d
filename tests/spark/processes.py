"""Runs a command of `reconciler` with everything that it starts, and lists processes from /proc."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from reconciler.companions.sandbox import client

MARK = "RECONCILER_TEST_MARK"
"""A variable of the environment, which the processes of a command inherit."""

LIMIT_S = 300
END_LIMIT_S = 30


def run_reconciler(
    folder: Path,
    mark: str,
    *arguments: str,
    java: bool = True,
    interrupt_at: str = "",
    names_files: bool = False,
    **variables: str,
) -> tuple[int, str]:
    """Run `reconciler` in a folder with manifests, with a temporary folder and a mark; return its exit code and stderr.

    No process remains, and no file but those that stderr names if `names_files`. `java`: False: the machine
    has none. `interrupt_at`: Ctrl-C follows a line of progress with this text.
    """
    temporary, programs = folder / "tmp", folder / "bin"
    temporary.mkdir(exist_ok=True)
    environment = os.environ | {MARK: mark} | temporary_folder(temporary) | variables
    if not java:
        programs.mkdir(exist_ok=True)
        environment = {name: value for name, value in environment.items() if name != "JAVA_HOME"}
        environment["PATH"] = str(programs)
    with subprocess.Popen(
        [sys.executable, "-m", "reconciler", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        if interrupt_at:
            assert any(interrupt_at in line for line in process.stderr)
            # A terminal sends SIGINT to the foreground process group. Spark has its own session.
            os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in stderr, stderr
    assert_nothing_left(temporary, mark, except_named_in=stderr if names_files else "")
    return process.returncode, stderr


def temporary_folder(folder: Path) -> dict[str, str]:
    """Return the variables for a temporary folder: Java reads another one than the rest."""
    return {"TMPDIR": str(folder), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}"}


def assert_nothing_left(temporary: Path, mark: str, *, except_named_in: str = "") -> None:
    """No process with this mark and no temporary file remains, shortly after the end of a command.

    Both are waited for: a process that another one starts while /proc is listed is not seen.
    """

    def remaining() -> list[str]:
        files = [path.name for path in temporary.iterdir()]
        return [*marked(mark).values(), *(name for name in files if not except_named_in or name not in except_named_in)]

    with suppress(TimeoutError):
        client.wait_until(lambda: not remaining(), END_LIMIT_S, "the end of all")
    assert not (left := remaining()), left


class Process(NamedTuple):
    """A process of this user, with its command line and `NAME=VALUE` of each variable."""

    pid: int
    parent: int
    line: str
    variables: list[bytes]


def _processes() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            variables = (folder / "environ").read_bytes().split(b"\0")
            # The name of a process, in parentheses, may contain blanks.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        yield Process(int(folder.name), parent, line, variables)


def marked(mark: str) -> dict[int, str]:
    """Return the command lines of the processes whose MARK has this value, by id."""
    return {each.pid: each.line for each in _processes() if f"{MARK}={mark}".encode() in each.variables}


def descendants(pid: int) -> dict[int, str]:
    """Return the command lines of the children of a process, and of their children, by id."""
    running, found = list(_processes()), dict[int, str]()
    parents = {pid}
    while parents:
        children = [each for each in running if each.parent in parents]
        found |= {child.pid: child.line for child in children}
        parents = {child.pid for child in children}
    return found
