"""Work with the client library that is done in child processes, because the library may kill the process that does it.

librdkafka's calls to group coordinators (OffsetFetch, DescribeGroups, DeleteGroups) dereference a null pointer or fail an assertion
when a coordinator moves or its broker goes away (its issues 5040, 3663 and 4605). A crash is one more way of not getting an answer.
What is asked, and what no answer means, is the caller's business.
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
    """A child's own clients, opened when first asked for.

    A broker answers the requests of one connection one after the other: `several` are for those that make it wait.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._opened: list[AdminClient] = []

    @property
    def first(self) -> AdminClient:
        return self.several(1)[0]

    def several(self, count: int) -> Sequence[AdminClient]:
        while len(self._opened) < count:
            self._opened.append(admin(self._connection))
        return self._opened[:count]


Work = Callable[[ClientPool, Argument, Deadline], Result]
"""A function of a module: it travels by its name, its argument and its result by value. Its clients are the child's own."""

_LOG = logging.getLogger(__name__)
_GRACE_S = 2.0
_LENGTH = struct.Struct(">Q")
_CHILD = f"from {__name__} import serve; serve()"


class WorkerPool:
    """Child processes with a client each, started when needed and kept; safe to call from several threads.

    They end with this process, whatever ends it: what it had asked for is not begun by an orphan.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._idle: list[_Child] = []

    def call(self, work: Work[Argument, Result], argument: Argument, *, timeout_s: float) -> Result | None:
        """What `work` returned (it never returns None); None: the child died, did not come back in time, or could not be started, and what
        it sent may have been carried out."""
        try:
            with self._child() as child:
                answer: Result | None = child.ask((work, argument, timeout_s), timeout_s)
        except OSError as unstarted:
            _LOG.warning("a child process could not be started: %s", unstarted)
            return None
        return answer

    def close(self) -> None:
        """End the children; the next call starts new ones."""
        with self._lock:
            children, self._idle = self._idle, []
        for child in children:
            child.end()

    @contextmanager
    def _child(self) -> Iterator["_Child"]:
        with self._lock:
            child = self._idle.pop() if self._idle else None
        if child is None:
            child = _Child(self._connection)
        try:
            yield child
        except BaseException:
            # An answer may be on its way still, and would be taken for that of the next question.
            child.alive = False
            raise
        finally:
            if child.alive:
                with self._lock:
                    self._idle.append(child)
            else:
                child.end()


class _Child:
    def __init__(self, connection: Connection) -> None:
        path = os.pathsep.join(part for part in sys.path if part)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.alive = self._send(connection)

    def ask(self, request: object, timeout_s: float) -> Any:
        """None: the child died, or did not come back."""
        if not self.alive or not self._send(request):
            self.alive = False
            return None
        assert self._process.stdout is not None
        answer = _read_frame(self._process.stdout.fileno(), time.monotonic() + timeout_s + _GRACE_S)
        if answer is None:
            self.alive = False
            return None
        return pickle.loads(answer)  # noqa: S301 - from a child of our own

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
    """The child's life: a connection, then requests, until the parent is gone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A terminal's Ctrl-C reaches every process in front of it; the parent still reads back what was in flight.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = sys.stdin.fileno(), sys.stdout.fileno()
    clients = ClientPool(pickle.loads(_read_frame(requests) or b""))  # noqa: S301 - from the parent
    while (request := _read_frame(requests)) is not None:
        work, argument, timeout_s = pickle.loads(request)  # noqa: S301 - from the parent
        over = threading.Event()
        threading.Thread(target=_end_with_parent, args=(requests, over), daemon=True).start()
        answer = work(clients, argument, Deadline.after(timeout_s))
        over.set()
        _write_frame(answers, answer)


def _end_with_parent(requests: int, over: threading.Event) -> None:
    """The parent sends nothing while it waits for an answer: its end is all that can come."""
    while not over.is_set():
        if _readable(requests, 0.1) and not over.is_set():
            os._exit(1)


def _readable(descriptor: int, within_s: float) -> bool:
    """Something to read, or the end. Not by `select`, which knows no descriptors above 1023."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0, round(within_s * 1000))))


def _write_frame(to: int, message: object) -> None:
    data = pickle.dumps(message)
    left = memoryview(_LENGTH.pack(len(data)) + data)
    while left:
        left = left[os.write(to, left) :]


def _read_frame(descriptor: int, until_s: float | None = None) -> bytes | None:
    """None: the other end is closed, or too slow."""
    head = _read_exactly(descriptor, _LENGTH.size, until_s)
    return None if head is None else _read_exactly(descriptor, _LENGTH.unpack(head)[0], until_s)


def _read_exactly(descriptor: int, size: int, until_s: float | None) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        left_s = None if until_s is None else until_s - time.monotonic()
        if left_s is not None and (left_s <= 0 or not _readable(descriptor, left_s)):
            return None
        part = os.read(descriptor, min(1 << 20, size - len(parts)))
        if not part:
            return None
        parts += part
    return bytes(parts)
