"""A Python process of this program with a pipe to its parent, which it never outlives.

Values are pickled. The parent kills the process; the process ends itself if the parent is gone.
"""

import contextlib
import importlib
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection as PipeEnd
from typing import IO, Any

__all__ = ["Child", "PipeEnd", "serve"]

_PARENTS_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What a terminal (Ctrl-C, its end) and systemd send to all processes of a command. The parent decides."""


class Child:
    """A process that runs `main(descriptor)` of a module, with the descriptor of its end of the pipe.

    It ends with `end`, with this object, or with this process.

    `log`: gets its output; None: no one does. `environment`: variables that differ from ours.
    `new_session`: it is the leader of a process group of its own, which `end` kills; a terminal's
    Ctrl-C does not reach it. Raises OSError where it cannot be started.
    """

    def __init__(
        self,
        module: str,
        *,
        log: IO[bytes] | None = None,
        environment: Mapping[str, str] | None = None,
        new_session: bool = False,
    ) -> None:
        self.pipe, child_end = Pipe()
        output = subprocess.DEVNULL if log is None else log
        path = os.pathsep.join(part for part in sys.path if part)
        with child_end, _signals_blocked():
            self.process = subprocess.Popen(
                # -P: no module of the current folder, which in CI is a checkout. Not -c: pyspark takes a process that
                # runs no module for one of its tests, whose packages its light client lacks.
                [sys.executable, "-P", "-m", __name__, module, str(child_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[child_end.fileno()],
                env={**os.environ, "PYTHONPATH": path, **(environment or {})},
                start_new_session=new_session,
            )
            self.end = weakref.finalize(self, _end, self.process, self.pipe, leads_group=new_session)

    def send(self, value: object) -> None:
        """Send a value; if the process has ended, the next `receive` notices it."""
        with contextlib.suppress(OSError):
            self.pipe.send(value)

    def receive(self, timeout_s: float) -> Any:
        """Return the next value that the process sends; None: none in time, or it has ended."""
        with contextlib.suppress(EOFError, OSError):
            if self.pipe.poll(timeout_s):
                return self.pipe.recv()
        return None

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block the parent's signals in this thread, and so in a process that it starts, until `serve` ignores them.

    A process that was still starting ended, and its parent took that for a limit of the machine.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PARENTS_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: subprocess.Popen[bytes], pipe: PipeEnd, *, leads_group: bool) -> None:
    """Kill a process, with its group if it leads one."""
    if leads_group:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    pipe.close()  # last: the process would take it for the end of its parent, and clean up


def serve(descriptor: int, *, orphaned: Callable[[], None] = lambda: None) -> "tuple[PipeEnd, queue.SimpleQueue[Any]]":
    """Return the pipe, and a queue of what the parent sends. The process ends with its parent.

    `orphaned`: called before the end. The parent's signals are ignored: it still reads back.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in _PARENTS_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PARENTS_SIGNALS)  # `Child` started this process with them blocked
    pipe = PipeEnd(descriptor)
    received: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def receive() -> None:
        try:
            while True:
                received.put(pipe.recv())
        finally:  # the parent is gone: the process ends, also in the middle of a request
            orphaned()
            os._exit(1)

    threading.Thread(target=receive, daemon=True).start()
    return pipe, received


if __name__ == "__main__":
    importlib.import_module(sys.argv[1]).main(int(sys.argv[2]))
