"""This program as it is and as it was at an earlier commit, to run in turns.

Each version is a folder with its code, compiled as an installed package is, and a cache of its own,
so that each uses the archive of Spark's classes that it wrote itself. Both run with this interpreter
and its packages.
"""

import compileall
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import reconciler
from bench.processes import ProcessResult, check, run

Progress = Callable[[str], None]

BEFORE = "43f8504"
"""The last commit before the scan became map-only and got a process of its own."""
_PLANS_MAX = 3


@dataclass(frozen=True, slots=True)
class Program:
    """One version of this program. `code` is the folder with its package, `cache` the user's cache."""

    name: str
    code: Path
    cache: Path

    @property
    def has_archive(self) -> bool:
        """Whether it starts Spark with an archive of classes."""
        return any(self.cache.rglob("*.jsa"))

    @property
    def label(self) -> str:
        """Its name for a table; a version without an archive starts Spark more slowly."""
        return self.name if self.has_archive else f"{self.name}, without an archive of classes"

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.code), "XDG_CACHE_HOME": str(self.cache)}

    def run(
        self, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None, memory: bool = False
    ) -> ProcessResult:
        """Run a command of this version. Raises RuntimeError unless its exit code is zero."""
        command = [sys.executable, "-m", "reconciler", *arguments]
        result = run(command, cwd=cwd, environment=self.environment | dict(environment or {}), memory=memory)
        check(result, f"{self.name}: {arguments[0]}")
        return result


def current(folder: Path) -> Program:
    """Copy the code that this bench imports."""
    program = Program("now", folder / "now", folder / "cache-now")
    source = Path(reconciler.__file__).parent
    shutil.copytree(source, program.code / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return _compiled(program)


def at_commit(commit: str, folder: Path) -> Program:
    """Take the code of a commit from git. Raises RuntimeError if this clone lacks the commit."""
    program = Program(commit, folder / commit, folder / f"cache-{commit}")
    root = Path(reconciler.__file__).parents[1]
    archive = subprocess.run(["git", "archive", commit, "reconciler"], cwd=root, capture_output=True, check=False)
    if archive.returncode:
        raise RuntimeError(
            f"git has no commit {commit} in {root}: the bench compares with it; fetch it with "
            f"`git fetch --unshallow`, or leave this bench out ({archive.stderr.decode().strip()})"
        )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(program.code, filter="data")
    return _compiled(program)


def prepare(now: Program, before: Program, plan: Callable[[Program], object], progress: Progress) -> None:
    """Let both versions write their archive of Spark's classes.

    `make setup` does so now. The second `plan` of the earlier version does, if the machine is not
    so busy that it gives up after a minute.
    """
    progress("both versions write their archive of Spark's classes")
    result = run([sys.executable, "-m", "reconciler.scan.prepare"], cwd=now.code, environment=now.environment)
    check(result, "reconciler.scan.prepare")
    for number in range(_PLANS_MAX):
        if not before.has_archive:
            plan(before)
            progress(f"{before.label}: ran plan {number + 1}")


def _compiled(program: Program) -> Program:
    program.cache.mkdir()
    compileall.compile_dir(program.code, quiet=1)
    return program
