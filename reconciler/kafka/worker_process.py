"""Runs calls to group coordinators in worker processes, because the client library may crash in them.

librdkafka's OffsetFetch, DescribeGroups and DeleteGroups dereference a null pointer or fail an assertion
when a coordinator moves or its broker goes away (its issues 5040, 3663 and 4605). The caller decides
what is requested, and what a missing answer means.
"""

import logging
import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient

from reconciler.kafka.connect import Connection, admin
from reconciler.kafka.futures import Deadline

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class ClientPool:
    """The clients of a worker process, opened when first needed.

    A broker answers the requests of one connection in order: several clients serve requests that wait.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._clients: list[AdminClient] = []

    @property
    def client(self) -> AdminClient:
        return self.clients(1)[0]

    def clients(self, count: int) -> Sequence[AdminClient]:
        while len(self._clients) < count:
            self._clients.append(admin(self._connection))
        return self._clients[:count]


Work = Callable[[ClientPool, Argument, Deadline], Result]
"""A module's function: pickled by its name, its argument and result by value."""

_LOG = logging.getLogger(__name__)
_GRACE_S = 2.0
_LENGTH = struct.Struct(">Q")
_PROGRAM = f"from {__name__} import serve; serve()"


class WorkerPool:
    """Worker processes with their own clients, started when needed and reused. Safe between threads.

    They end with this process, whatever ends it: an orphan starts no further request.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []

    def call(self, work: Work[Argument, Result], argument: Argument, *, timeout_s: float) -> Result | None:
        """The result of `work`, which never returns None.

        None: the process crashed, did not answer in time or could not be started. Its requests may have
        been carried out.
        """
        try:
            with self._borrow_worker() as worker:
                answer: Result | None = worker.call((work, argument, timeout_s), timeout_s)
        except OSError as error:
            _LOG.warning("a worker process could not be started: %s", error)
            return None
        return answer

    def close(self) -> None:
        """End the processes; the next call starts new ones."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.end()

    @contextmanager
    def _borrow_worker(self) -> Iterator["_Worker"]:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is None:
            worker = _Worker(self._connection)
        try:
            yield worker
        except BaseException:
            # A late answer would be taken for the answer to the next request.
            worker.alive = False
            raise
        finally:
            if worker.alive:
                with self._lock:
                    self._idle.append(worker)
            else:
                worker.end()


class _Worker:
    def __init__(self, connection: Connection) -> None:
        path = os.pathsep.join(part for part in sys.path if part)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.alive = self._send(connection)

    def call(self, request: object, timeout_s: float) -> Any:
        """The answer; None: the process crashed, or did not answer in time."""
        if not self.alive or not self._send(request):
            self.alive = False
            return None
        assert self._process.stdout is not None
        answer = _read_frame(self._process.stdout.fileno(), time.monotonic() + timeout_s + _GRACE_S)
        if answer is None:
            self.alive = False
            return None
        return pickle.loads(answer)  # noqa: S301 - from our own process

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _send(self, message: object) -> bool:
        assert self._process.stdin is not None
        try:
            _write_frame(self._process.stdin.fileno(), message)
        except OSError:
            return False
        return True


def serve() -> None:
    """The worker's main loop: reads a connection, then requests, until the parent is gone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A terminal's Ctrl-C reaches all foreground processes; the parent still reads back what was in flight.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = sys.stdin.fileno(), sys.stdout.fileno()
    clients = ClientPool(pickle.loads(_read_frame(requests) or b""))  # noqa: S301 - from the parent
    while (request := _read_frame(requests)) is not None:
        work, argument, timeout_s = pickle.loads(request)  # noqa: S301 - from the parent
        finished = threading.Event()
        threading.Thread(target=_end_with_parent, args=(requests, finished), daemon=True).start()
        answer = work(clients, argument, Deadline.after(timeout_s))
        finished.set()
        _write_frame(answers, answer)


def _end_with_parent(requests: int, finished: threading.Event) -> None:
    """Exit when the pipe becomes readable: the waiting parent sends nothing, so only its end can come."""
    while not finished.is_set():
        if _readable(requests, 0.1) and not finished.is_set():
            os._exit(1)


def _readable(descriptor: int, within_s: float) -> bool:
    """Whether there is data or the end of the pipe. Not by `select`, which fails above descriptor 1023."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0, round(within_s * 1000))))


def _write_frame(descriptor: int, message: object) -> None:
    data = pickle.dumps(message)
    unwritten = memoryview(_LENGTH.pack(len(data)) + data)
    while unwritten:
        unwritten = unwritten[os.write(descriptor, unwritten) :]


def _read_frame(descriptor: int, until_s: float | None = None) -> bytes | None:
    """None: the other end is closed, or too slow."""
    length = _read_exactly(descriptor, _LENGTH.size, until_s)
    return None if length is None else _read_exactly(descriptor, _LENGTH.unpack(length)[0], until_s)


def _read_exactly(descriptor: int, size: int, until_s: float | None) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        remaining_s = None if until_s is None else until_s - time.monotonic()
        if remaining_s is not None and (remaining_s <= 0 or not _readable(descriptor, remaining_s)):
            return None
        part = os.read(descriptor, min(1 << 20, size - len(parts)))
        if not part:
            return None
        parts += part
    return bytes(parts)
