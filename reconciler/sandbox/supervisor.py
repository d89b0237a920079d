"""The process that owns a sandbox's brokers and never lets them outlive their owner.

Its standard input is the lifeline: it ends when whoever holds the other end ends, however that happened, and then the
brokers are killed and their data removed. The word `detach` on it cuts the line (`sandbox up`); from then on SIGTERM ends
the keeper. If the keeper itself is killed, Linux kills the brokers with it. Not here: what a broker is and when it is
ready. Files in its folder: `spec.json` (read), `keeper.json`, `node-N.json` (written), `node-N.restart` (obeyed).
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from reconciler.sandbox.data_dir import assert_sandbox_dir, remove
from reconciler.sandbox.process import identify

SPEC = "spec.json"
KEEPER = "keeper.json"
DETACH = b"detach\n"
POLL_S = 0.1

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """One broker to run: `command` as for exec, `log` takes what it writes."""

    id: int
    command: tuple[str, ...]
    log: Path

    def pid_file(self, folder: Path) -> Path:
        return folder / f"node-{self.id}.json"

    def restart_file(self, folder: Path) -> Path:
        return folder / f"node-{self.id}.restart"


@dataclass(slots=True)
class Stop:
    """Set by a signal."""

    wanted: bool = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self.wanted = True


def supervise(folder: Path, nodes: tuple[BrokerSpec, ...], *, lifeline: int, stop: Stop) -> None:
    """Run the brokers until the lifeline ends or `stop` is wanted; then kill them and remove `folder`."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    attached = True
    try:
        for node in nodes:
            running[node.id] = _start(node, folder)
        while not stop.wanted:
            readable, _, _ = select.select([lifeline] if attached else [], [], [], POLL_S)
            if readable:
                said = os.read(lifeline, len(DETACH))
                if said != DETACH:
                    return
                attached = False
            for node in nodes:
                gone = running[node.id].poll() is not None  # also reaps
                if gone and node.restart_file(folder).exists():
                    node.restart_file(folder).unlink()
                    running[node.id] = _start(node, folder)
    finally:
        # SIGKILL: the data goes too, and a broker stopped by SIGSTOP would not hear anything milder.
        for broker in running.values():
            broker.kill()
        for broker in running.values():
            broker.wait()
        remove(folder)


def write_process(path: Path, pid: int) -> None:
    """Record a process so that a reader never sees half of it."""
    process = identify(pid)
    started = "" if process is None else process.started  # it died at once: equal to no start time
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({"pid": pid, "started": started}), encoding="utf-8")
    draft.replace(path)


def _start(node: BrokerSpec, folder: Path) -> subprocess.Popen[bytes]:
    with node.log.open("ab") as log:
        broker = subprocess.Popen(
            node.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            # This process has one thread, for this.
            preexec_fn=_die_with_parent(os.getpid()) if sys.platform == "linux" else None,  # noqa: PLW1509
        )
    write_process(node.pid_file(folder), broker.pid)
    return broker


def _die_with_parent(parent: int) -> Callable[[], None]:
    # The library is loaded before the fork: only the call itself happens between fork and exec.
    libc = ctypes.CDLL(None, use_errno=True)

    def arm() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we were armed
            os._exit(1)

    return arm


def main(folder: Path) -> None:
    """Entry of `python -m reconciler.sandbox.supervisor FOLDER`: become nobody's child, then keep.

    Raises SandboxError for a folder that no sandbox made, since in the end it is removed.
    """
    assert_sandbox_dir(folder)
    if os.fork():
        # The starter waits for this exit only, so the keeper is never a zombie of a process that does not care.
        os._exit(0)
    os.setsid()  # Ctrl-C at the starter's terminal is the starter's business
    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    spec = json.loads((folder / SPEC).read_text(encoding="utf-8"))
    nodes = tuple(BrokerSpec(node["id"], tuple(node["command"]), Path(node["log"])) for node in spec)
    write_process(folder / KEEPER, os.getpid())
    supervise(folder, nodes, lifeline=sys.stdin.fileno(), stop=stop)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
