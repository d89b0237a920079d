"""Committed offsets of groups, read in a child process, because reading them can kill the process that does.

librdkafka's admin call for OffsetFetch dereferences a null pointer when a broker answers NOT_COORDINATOR or
COORDINATOR_NOT_AVAILABLE (its issue 5040): on a fresh cluster, and whenever a coordinator moves. A crash here is one more way of not
getting an answer. Which groups and what for is the caller's business.
"""

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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from reconciler.kafka.asking import Deadline, reason_of, settle
from reconciler.kafka.connect import Connection, admin
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import Unread

Positions = dict[TopicPartition, int | Unread | None]
"""Committed offsets of one group; None: asked for by name and not committed."""

_NO_COMMIT = (-1001, -1)
_GRACE_S = 2.0
_LENGTH = struct.Struct(">Q")
_TRIES = 2
_CHILD = f"import sys; from {__name__} import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"


@dataclass(frozen=True, slots=True)
class _Request:
    """`wanted`: partitions of each group; None: every commit of the group."""

    wanted: Mapping[str, tuple[TopicPartition, ...] | None]
    timeout_s: float


class OffsetFetcher:
    """Children that are started when needed and kept; safe to call from several threads. They end with this process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._idle: list[_Child] = []

    def fetch(
        self, wanted: Mapping[str, Sequence[TopicPartition] | None], *, timeout_s: float
    ) -> dict[str, Positions | Unread]:
        """Each group's positions, or why they could not be read. A child that dies is replaced once: a new client looks anew
        for the coordinators."""
        nothing = {group: Positions() for group, some in wanted.items() if some is not None and not some}
        asked = {group: None if some is None else tuple(some) for group, some in wanted.items() if group not in nothing}
        if not asked:
            # The library refuses an empty list of partitions.
            return {**nothing}
        deadline = Deadline.after(timeout_s)
        for _ in range(_TRIES):
            if deadline.over:
                break
            with self._child() as child:
                answer = child.ask(_Request(asked, deadline.left_s))
            if answer is not None:
                return answer
        return dict.fromkeys(
            asked, Unread("the commits could not be read: the coordinator moves, or there is none yet")
        )

    def close(self) -> None:
        """End the children; the next fetch starts new ones."""
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

    def ask(self, request: _Request) -> dict[str, Positions | Unread] | None:
        """None: the child died, or did not come back."""
        if not self.alive or not self._send(request):
            self.alive = False
            return None
        assert self._process.stdout is not None
        data = _read_frame(self._process.stdout.fileno(), time.monotonic() + request.timeout_s + _GRACE_S)
        if data is None:
            self.alive = False
            return None
        answer: dict[str, Positions | Unread] = pickle.loads(data)  # noqa: S301 - from a child of our own
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _send(self, message: object) -> bool:
        assert self._process.stdin is not None
        try:
            _write_frame(self._process.stdin, message)
        except OSError:
            return False
        return True


def positions(future: Future[Any]) -> Positions | Unread:
    """One group's answer as facts. An offset below zero is "no commit" where that is what it says, and nothing else."""
    if not future.done():
        return Unread("the group's coordinator did not answer in time")
    failure = future.exception()
    if failure is not None:
        return Unread(f"the group's commits could not be read: {reason_of(failure)}")
    found: Positions = {}
    for each in future.result().topic_partitions or ():
        partition = TopicPartition(each.topic, each.partition)
        if each.error is not None:
            found[partition] = Unread(f"the group's commit could not be read: {reason_of(KafkaException(each.error))}")
        elif each.offset >= 0:
            found[partition] = int(each.offset)
        elif each.offset in _NO_COMMIT:
            found[partition] = None
        else:
            found[partition] = Unread(f"the group's commit reads as {each.offset}")
    return found


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """The child's life: a connection, then requests, until the parent is gone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A terminal's Ctrl-C reaches every process in front of it; the parent still reads back what was in flight.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection: Connection = _next(requests)
    client = admin(connection)
    while (request := _next(requests)) is not None:
        deadline = Deadline.after(request.timeout_s)
        futures = {}
        for group, wanted in request.wanted.items():
            asked = None if wanted is None else [ClientPartition(p.topic, p.partition) for p in wanted]
            call = client.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, asked)], request_timeout=max(0.1, deadline.left_s)
            )
            futures[group] = call[group]
        settle(client, futures.values(), deadline)
        _write_frame(answers, {group: positions(future) for group, future in futures.items()})


def _next(requests: IO[bytes]) -> Any:
    head = requests.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return pickle.loads(requests.read(_LENGTH.unpack(head)[0]))  # noqa: S301 - from the parent


def _write_frame(to: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    to.write(_LENGTH.pack(len(data)) + data)
    to.flush()


def _read_frame(descriptor: int, until_s: float) -> bytes | None:
    head = _read_exactly(descriptor, _LENGTH.size, until_s)
    return None if head is None else _read_exactly(descriptor, _LENGTH.unpack(head)[0], until_s)


def _read_exactly(descriptor: int, size: int, until_s: float) -> bytes | None:
    """None: the other end is closed, or too slow."""
    parts = bytearray()
    while len(parts) < size:
        left_s = until_s - time.monotonic()
        if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
            return None
        part = os.read(descriptor, size - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)
