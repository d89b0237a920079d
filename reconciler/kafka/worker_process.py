"""Runs calls to group coordinators in worker processes, because the client library may crash in them.

librdkafka's OffsetFetch, DescribeGroups and DeleteGroups dereference a null pointer or fail an assertion
when a coordinator moves or its broker goes away (its issues 5040, 3663 and 4605). The caller decides
what is requested, and what a missing answer means.
"""

import contextlib
import logging
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection as PipeEnd
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient

from reconciler.kafka.connect import Connection, admin
from reconciler.kafka.futures import Deadline

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class Clients(dict[int, AdminClient]):
    """The clients of a worker process, opened when first needed.

    A broker answers the requests of one connection in order: several clients serve requests that wait.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __missing__(self, number: int) -> AdminClient:
        client = self[number] = admin(self._connection)
        return client


Work = Callable[[Clients, Argument, Deadline], Result]
"""A module's function: pickled by its name, its argument and result by value."""

_LOG = logging.getLogger(__name__)
_GRACE_S = 2.0


class WorkerPool:
    """Worker processes with their own clients, started when needed and reused. Safe between threads.

    They end with this process, whatever ends it: an orphan starts no further request.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []

    def call(
        self, work: Work[Argument, Result], argument: Argument, *, timeout_s: float, tries: int = 1
    ) -> Result | None:
        """The result of `work`, which never returns None.

        None: the process crashed, did not answer in time or could not be started, in each of `tries`
        attempts. Its requests may have been carried out.
        """
        deadline = Deadline.after(timeout_s)
        answers = (self._call_once((work, argument, deadline.remaining_s)) for _ in range(tries) if not deadline.passed)
        return next((answer for answer in answers if answer is not None), None)

    def close(self) -> None:
        """End the processes; the next call starts new ones."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.end()

    def _call_once(self, request: tuple[object, object, float]) -> Any:
        try:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            worker = worker or _Worker(self._connection)
        except OSError as error:
            _LOG.warning("a worker process could not be started: %s", error)
            return None
        answer = None
        try:
            answer = worker.call(request)
        finally:
            # A late answer would be taken for the answer to the next request.
            if answer is None:
                worker.end()
            else:
                with self._lock:
                    self._idle.append(worker)
        return answer


class _Worker:
    """A process that runs `serve`. Raises OSError where it cannot be started."""

    def __init__(self, connection: Connection) -> None:
        self._pipe, theirs = Pipe()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
            )
        with contextlib.suppress(OSError):  # the first call notices a process that has ended
            self._pipe.send(connection)

    def call(self, request: tuple[object, object, float]) -> Any:
        """The answer; None: the process crashed, or did not answer in time."""
        with contextlib.suppress(EOFError, OSError):
            self._pipe.send(request)
            if self._pipe.poll(request[-1] + _GRACE_S):
                return self._pipe.recv()
        return None

    def end(self) -> None:
        self._pipe.close()
        self.process.kill()
        self.process.wait()


def serve(descriptor: int) -> None:
    """The worker's main loop: receives a connection, then requests, until the parent is gone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A terminal's Ctrl-C reaches all foreground processes; the parent still reads back what was in flight.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = PipeEnd(descriptor)
    received: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def receive() -> None:
        try:
            while True:
                received.put(pipe.recv())
        finally:  # the parent is gone: the process ends, also during a request
            os._exit(1)

    threading.Thread(target=receive, daemon=True).start()
    clients = Clients(received.get())
    while True:
        work, argument, timeout_s = received.get()
        pipe.send(work(clients, argument, Deadline.after(timeout_s)))
