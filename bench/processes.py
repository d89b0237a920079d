"""Runs a command as a process and measures its time and its peak memory.

A thread reads the memory from /proc four times per second: the high-water mark of each process, and
the largest sum of proportional set sizes of Spark's Python workers, which share pages with the
daemon that forks them.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.model.progress import Progress

SPARK_PROCESS = "reconciler.scan.spark_process"
"""Part of the command line of the process that owns Spark."""

_EVERY_S = 0.25
_KIB = 1024


@dataclass(slots=True)
class Peaks:
    """Peak memory in MiB: the command's process, Spark's process, its JVM, and all Python workers."""

    driver: float = 0.0
    spark: float = 0.0
    jvm: float = 0.0
    workers: float = 0.0

    @property
    def total(self) -> float:
        """The command, Spark's process and its JVM, without the Python workers."""
        return self.driver + self.spark + self.jvm


@dataclass(slots=True)
class ProcessResult:
    """The result of a command."""

    seconds: float
    exit_code: int
    stdout: str
    stderr: str
    peaks: Peaks = field(default_factory=Peaks)


def run(
    command: Sequence[str],
    *,
    timeout_s: float = 1_800,
    memory: bool = False,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> ProcessResult:
    """Run a command to its end. Raises RuntimeError after `timeout_s` seconds.

    `environment`: variables that differ from ours.
    """
    peaks, ended = Peaks(), threading.Event()
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks, ended))
    if memory:
        watcher.start()
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise RuntimeError(f"{command[:3]} … took longer than {timeout_s:.0f} s") from None
    finally:
        ended.set()
        if memory:
            watcher.join()
    return ProcessResult(time.perf_counter() - start, process.returncode, stdout, stderr, peaks)


def check(result: ProcessResult, name: str) -> None:
    """Raise RuntimeError with the last output unless the exit code is zero."""
    if result.exit_code:
        raise RuntimeError(f"{name}: exit code {result.exit_code}\n{result.stdout[-1_000:]}\n{result.stderr[-2_000:]}")


def run_module(module: str, *arguments: str, timeout_s: float = 1_800) -> Any:
    """Run a module of this project and return the JSON that it prints.

    Raises RuntimeError if it fails.
    """
    result = run([sys.executable, "-m", module, *arguments], timeout_s=timeout_s)
    check(result, " ".join([module, *arguments]))
    return json.loads(result.stdout)


@contextmanager
def background_module(module: str, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """Run a module of this project, which ends with its standard input, during the block."""
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def measure_seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def take_turns(contenders: Mapping[str, Callable[[], float]], runs: int, progress: Progress) -> dict[str, list[float]]:
    """Run each contender once per turn, each turn starting with another one, and return their seconds."""
    turns: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(runs):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            turns[name].append(contenders[name]())
            progress(f"{turn + 1} of {runs}, {name}: {turns[name][-1]:.2f} s")
    return turns


def descendants(root: int) -> list[int]:
    """Ids of all present descendants of a process."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _read(folder / "stat")):
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    pids: list[int] = []
    pending = [root]
    while pending:
        pids_of_parent = children.get(pending.pop(), [])
        pids += pids_of_parent
        pending += pids_of_parent
    return pids


def command_line(pid: int) -> str:
    """Command line of a process, separated by spaces; empty for a process that has ended."""
    return _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()


def memory_mib(pid: int | str, name: str, file: str = "status") -> float:
    """VmHWM or VmRSS of `status`, or Pss of `smaps_rollup`, of a process or `self`; zero if it has ended."""
    for line in _read(Path(f"/proc/{pid}/{file}")).splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / _KIB
    return 0.0


def _watch(root: int, peaks: Peaks, ended: threading.Event) -> None:
    while not ended.wait(_EVERY_S):
        peaks.driver = max(peaks.driver, memory_mib(root, "VmHWM"))
        workers = 0.0
        for pid in descendants(root):
            command = command_line(pid)
            if "org.apache.spark" in command:
                peaks.jvm = max(peaks.jvm, memory_mib(pid, "VmHWM"))
            elif SPARK_PROCESS in command:
                peaks.spark = max(peaks.spark, memory_mib(pid, "VmHWM"))
            elif "pyspark" in command:
                workers += memory_mib(pid, "Pss", "smaps_rollup")
        peaks.workers = max(peaks.workers, workers)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
