"""Worker processes of sessions as forks of a process that has imported their modules.

Python takes 0.3 s of CPU to start one, a third of what a plan of a few topics takes, and tests run a
thousand such commands in their own process. Commands that run as processes start theirs as users' do.
"""

import gc
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any

from reconciler.kafka import session
from reconciler.kafka.child import Child, PipeEnd

_MODULES = ("coordinators", "gateway", "groups", "permissions")
_LOCK = threading.Lock()
_parents: list[Child] = []


class WarmProcess:
    """What `Child` uses of a `subprocess.Popen`. No one reaps the process, so its descriptor tells its end."""

    def __init__(
        self, argv: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str], **_streams: Any
    ) -> None:
        self._descriptor = -1
        with _LOCK:
            if not _parents or _parents[-1].has_ended:
                _parents[:] = [Child(__name__)]
            parent = _parents[-1]
            parent.pipe.send((argv[-2], Path.cwd(), dict(env)))
            send_handle(parent.pipe, pass_fds[0], parent.process.pid)
            self.pid: int = parent.pipe.recv()
            self._descriptor = os.pidfd_open(self.pid)
            parent.pipe.send("go")

    def poll(self) -> int | None:
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        """None: it has not ended in time."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return 0 if poll.poll(None if timeout is None else timeout * 1000) else None

    def kill(self) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def use() -> None:
    """Start the workers of sessions of this process so, on Linux."""
    if hasattr(os, "pidfd_open"):
        session._Worker.process_class = WarmProcess  # type: ignore[assignment]


def main(descriptor: int) -> None:
    """In the parent of workers: fork one for each module, folder, environment and pipe that comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps them
    for module in _MODULES:
        importlib.import_module(f"reconciler.kafka.{module}")
    gc.freeze()
    requests = PipeEnd(descriptor)
    while True:
        try:
            module, folder, environment = requests.recv()
        except EOFError:
            return
        pipe = recv_handle(requests)
        pid = os.fork()
        if pid == 0:
            requests.close()
            try:
                _run(module, folder, environment, pipe)
            finally:
                os._exit(1)
        os.close(pipe)
        requests.send(pid)
        requests.recv()  # its parent knows it now, whatever becomes of it


def _run(module: str, folder: str, environment: Mapping[str, str], pipe: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [*environment["PYTHONPATH"].split(os.pathsep), *sys.path]
    importlib.import_module(module).main(pipe)
