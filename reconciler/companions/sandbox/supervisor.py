"""The process that owns a sandbox's brokers and ends them together with its parent.

Its standard input is a pipe from the parent. When the parent closes the pipe or ends, the
supervisor kills the brokers and removes their data. After the message `detach` on the pipe
(`sandbox up`), SIGTERM ends the supervisor. If the supervisor itself is killed, Linux kills the
brokers with it.

It reads `spec.json` in its folder, writes `supervisor.json` and `node-N.json`, and starts broker N
again when `node-N.restart` appears.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from reconciler.companions.sandbox.data_dir import assert_sandbox_dir, remove
from reconciler.companions.sandbox.process import write_process

SPEC = "spec.json"
SUPERVISOR = "supervisor.json"
DETACH = b"detach\n"
POLL_S = 0.1

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """A broker to run: `command` is its argv, `log` the path of the file for its output."""

    id: int
    command: Sequence[str]
    log: str


def pid_file(folder: Path, broker_id: int) -> Path:
    """Path of the record of a broker's process."""
    return folder / f"node-{broker_id}.json"


def restart_file(folder: Path, broker_id: int) -> Path:
    """Path of the request to start a broker again."""
    return folder / f"node-{broker_id}.restart"


def supervise(folder: Path, specs: Sequence[BrokerSpec], *, parent_pipe: int, stop: Event) -> None:
    """Run the brokers until the parent's pipe closes, `stop` is set or `folder` is gone. Then remove `folder`."""
    brokers: dict[int, subprocess.Popen[bytes]] = {}
    attached = True
    try:
        for spec in specs:
            brokers[spec.id] = _start(spec, folder)
        while not stop.is_set() and folder.is_dir():  # what cleans temporary folders may take it
            readable, _, _ = select.select([parent_pipe] if attached else [], [], [], POLL_S)
            if readable:
                if os.read(parent_pipe, len(DETACH)) != DETACH:
                    return
                attached = False
            for spec in specs:
                has_ended = brokers[spec.id].poll() is not None  # also reaps
                if has_ended and restart_file(folder, spec.id).exists():
                    restart_file(folder, spec.id).unlink()
                    brokers[spec.id] = _start(spec, folder)
    finally:
        # SIGKILL, because the data is removed anyway and a broker stopped by SIGSTOP ignores SIGTERM.
        for broker in brokers.values():
            broker.kill()
        for broker in brokers.values():
            broker.wait()
        remove(folder)


def _start(spec: BrokerSpec, folder: Path) -> subprocess.Popen[bytes]:
    with Path(spec.log).open("ab") as log:
        broker = subprocess.Popen(
            spec.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            # A preexec function is safe here: this process has one thread.
            preexec_fn=_die_with_parent(os.getpid()) if sys.platform == "linux" else None,  # noqa: PLW1509
        )
    write_process(pid_file(folder, spec.id), broker.pid)
    return broker


def _die_with_parent(parent: int) -> Callable[[], None]:
    # The library is loaded before the fork, so that only the system call runs between fork and exec.
    libc = ctypes.CDLL(None, use_errno=True)

    def request_death_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the request
            os._exit(1)

    return request_death_signal


def main(folder: Path) -> None:
    """Daemonize, then supervise the brokers: `python -m reconciler.companions.sandbox.supervisor FOLDER`.

    Raises SandboxError unless `folder` is a sandbox's data folder, because it is removed at the end.
    """
    assert_sandbox_dir(folder)
    if os.fork():
        # The starter waits only for this process, so the supervisor never becomes a zombie of the starter.
        os._exit(0)
    os.setsid()  # Ctrl-C at the starter's terminal must not reach the supervisor
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _signal, _frame: stop.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    specs = [BrokerSpec(**row) for row in json.loads((folder / SPEC).read_text(encoding="utf-8"))]
    write_process(folder / SUPERVISOR, os.getpid())
    supervise(folder, specs, parent_pipe=sys.stdin.fileno(), stop=stop)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
