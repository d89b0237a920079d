"""Identifies a process by its pid and start time, so that a reused pid is never signalled.

On Linux a signal goes through a pidfd, which refers to the same process before and after the check.
Other modules decide which processes start and end.
"""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A pid and a start time.

    `started` is only compared: clock ticks since boot on Linux, the text that `ps` prints on other
    systems.
    """

    pid: int
    started: str

    def alive(self) -> bool:
        """Whether the process runs. False for a zombie, which has no open port or file."""
        return _start_time(self.pid) == self.started

    def send(self, signal_number: int) -> bool:
        """Signal exactly this process; False if it has ended."""
        if not hasattr(os, "pidfd_open"):
            return self._send_by_pid(signal_number)
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        except OSError:  # a kernel without this system call
            return self._send_by_pid(signal_number)
        try:
            if not self.alive():
                return False
            signal.pidfd_send_signal(pidfd, signal_number)
        except ProcessLookupError:
            return False
        finally:
            os.close(pidfd)
        return True

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait for the end of this process; False if it still runs after `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _send_by_pid(self, signal_number: int) -> bool:
        if not self.alive():
            return False
        try:
            os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return False
        return True


def identify(pid: int) -> Process | None:
    """Return the process with this pid; None if there is none."""
    started = _start_time(pid)
    return None if started is None else Process(pid, started)


def read_process(path: Path) -> Process:
    """Read a recorded process; without the file, return a process that never runs."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Process(0, "")
    return Process(record["pid"], record["started"])


def write_process(path: Path, pid: int) -> None:
    """Record a process in a file, atomically."""
    process = identify(pid)
    started = "" if process is None else process.started  # already ended: equals no start time
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({"pid": pid, "started": started}), encoding="utf-8")
    draft.replace(path)


def _start_time(pid: int) -> str | None:
    return _start_time_linux(pid) if Path("/proc/self/stat").exists() else _start_time_ps(pid)


def _start_time_linux(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name is in parentheses and may contain spaces, so fields count from the last
    # parenthesis.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else fields[19]


def _start_time_ps(pid: int) -> str | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
