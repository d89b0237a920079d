"""A command as a process of its own: how long it took, and the most memory that it and what it started held.

Memory is read from /proc several times a second: the high-water mark of each process, and for Spark's Python workers, which share
pages with the daemon that forks them, the largest sum of proportional sizes seen.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_EVERY_S = 0.25
_KIB = 1024


@dataclass(slots=True)
class Peaks:
    """Mebibytes. `driver`: the command's first process; `jvm`: Spark's driver; `workers`: its Python workers together."""

    driver: float = 0.0
    jvm: float = 0.0
    workers: float = 0.0


@dataclass(slots=True)
class Ran:
    """What became of a command."""

    seconds: float
    exit_code: int
    stdout: str
    stderr: str
    peaks: Peaks = field(default_factory=Peaks)


def run(command: Sequence[str], *, limit_s: float = 1_800, memory: bool = False, cwd: Path | None = None) -> Ran:
    """Run to the end. Raises RuntimeError where it takes longer than `limit_s`."""
    peaks, done = Peaks(), threading.Event()
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd
    )
    watch = threading.Thread(target=_watch, args=(process.pid, peaks, done))
    if memory:
        watch.start()
    try:
        stdout, stderr = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise RuntimeError(f"{command[:3]} … took longer than {limit_s:.0f} s") from None
    finally:
        done.set()
        if memory:
            watch.join()
    return Ran(time.perf_counter() - started, process.returncode, stdout, stderr, peaks)


def ours(module: str, *words: str, limit_s: float = 1_800) -> Any:
    """JSON that a module of ours prints. Raises RuntimeError with its last words if it fails."""
    ran = run([sys.executable, "-m", module, *words], limit_s=limit_s)
    if ran.exit_code:
        raise RuntimeError(f"{module} {' '.join(words)}: exit code {ran.exit_code}\n{ran.stderr[-2_000:]}")
    return json.loads(ran.stdout)


def descendants(root: int) -> list[int]:
    """Process ids below `root`, as they are now."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _read(folder / "stat")):
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found: list[int] = []
    left = [root]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def command_of(pid: int) -> str:
    """Its command line with blanks between; empty once it is gone."""
    return _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()


def mebibytes(pid: int, name: str, file: str = "status") -> float:
    """One figure of a process: VmHWM or VmRSS of `status`, Pss of `smaps_rollup`; zero once it is gone."""
    for line in _read(Path(f"/proc/{pid}/{file}")).splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / _KIB
    return 0.0


def _watch(root: int, peaks: Peaks, done: threading.Event) -> None:
    while not done.wait(_EVERY_S):
        peaks.driver = max(peaks.driver, mebibytes(root, "VmHWM"))
        workers = 0.0
        for pid in descendants(root):
            command = command_of(pid)
            if "org.apache.spark" in command:
                peaks.jvm = max(peaks.jvm, mebibytes(pid, "VmHWM"))
            elif "pyspark" in command:
                workers += mebibytes(pid, "Pss", "smaps_rollup")
        peaks.workers = max(peaks.workers, workers)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
