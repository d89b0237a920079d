"""Identifies a process by its pid and start time, so that a reused pid is never signalled.

On Linux a signal goes through a pidfd, which refers to the same process before and after the check.
"""

import json
import os
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from reconciler.atomic_file import write_bytes


@dataclass(frozen=True, slots=True)
class Process:
    """A pid and a start time.

    `started` is only compared: clock ticks since boot on Linux, the text of `ps` on other systems.
    """

    pid: int
    started: str

    def alive(self) -> bool:
        """Whether the process runs. False for a zombie, which has no open port or file."""
        return _start_time(self.pid) == self.started

    def send(self, signal_number: int) -> bool:
        """Signal exactly this process; False if it has ended."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        except (AttributeError, OSError):  # a system without this call
            pidfd = -1
        try:
            if not self.alive():
                return False
            if pidfd >= 0:
                signal.pidfd_send_signal(pidfd, signal_number)
            else:
                os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return False
        finally:
            if pidfd >= 0:
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


def identify(pid: int) -> Process | None:
    """Return the process with this pid; None if there is none."""
    started = _start_time(pid)
    return None if started is None else Process(pid, started)


def read_process(path: Path) -> Process:
    """Read a recorded process; without the file, return a process that never runs."""
    try:
        return Process(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Process(0, "")


def write_process(path: Path, pid: int) -> None:
    """Record a process in a file, atomically."""
    process = identify(pid) or Process(pid, "")  # one that has ended equals no start time
    write_bytes(path, [json.dumps(asdict(process)).encode()], mode=0o644)


def _start_time(pid: int) -> str | None:
    if not Path("/proc/self/stat").exists():
        command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        state, _, started = answer.stdout.strip().partition(" ")
        return None if not started or state.startswith("Z") else started.strip()
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name is in parentheses and may contain spaces, so fields count from the last parenthesis.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else fields[19]
