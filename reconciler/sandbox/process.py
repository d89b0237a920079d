"""Which process is meant by a pid, so that a pid that was given to somebody else is never signalled.

A process is its pid together with its start time. Signals go through a pidfd where there is one (Linux), which cannot
change hands between the check and the signal. Not here: who starts and who ends processes.
"""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """`started` is opaque and only compared: clock ticks since boot on Linux, the words of `ps` elsewhere."""

    pid: int
    started: str

    def alive(self) -> bool:
        """False also for a zombie: it holds no port and no file any more."""
        return _started(self.pid) == self.started

    def send(self, signal_number: int) -> bool:
        """Signal exactly this process; False if it is gone."""
        if not hasattr(os, "pidfd_open"):
            return self._send_by_pid(signal_number)
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        except OSError:  # kernels and sandboxes without the call
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
        """Wait for the end of this process, ours or not; False if it is still there after `timeout_s`."""
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
    """The process that has this pid now; None if there is none."""
    started = _started(pid)
    return None if started is None else Process(pid, started)


def _started(pid: int) -> str | None:
    return _started_linux(pid) if Path("/proc/self/stat").exists() else _started_elsewhere(pid)


def _started_linux(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name is in parentheses and may hold spaces: fields count from the last one on, state first.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else fields[19]


def _started_elsewhere(pid: int) -> str | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
