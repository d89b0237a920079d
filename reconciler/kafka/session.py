"""One Kafka session per run: its clients and worker processes, opened when first needed.

The session is opened once per command and handed to the scan, the gateway, the journal topic and
`doctor`. It decides which client serves which purpose, and how long a call may take.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient

from reconciler.kafka import connect
from reconciler.kafka.connect import Connection
from reconciler.kafka.futures import Deadline, call_with_retry, is_final, submit
from reconciler.kafka.worker_process import WorkerPool

Item = TypeVar("Item")


class KafkaSession:
    """Clients and worker processes for one cluster. Safe between threads, not picklable.

    Reads, deletions and elections have separate clients: a DeleteRecords request that waits for a slow
    replica blocks its connection, and a read behind it on the same client times out, or answers -1001
    as if it were an offset. Every method that opens a client raises ClusterUnreachable.
    """

    def __init__(self, connection: Connection, *, cluster_id: str | None = None) -> None:
        self.connection = connection
        self.cluster_id = cluster_id
        self.readers = WorkerPool(connection)
        self.removers = WorkerPool(connection)
        self._lock = threading.Lock()
        self._clients: dict[str, AdminClient] = {}
        self._idle_deleters: list[AdminClient] = []

    @classmethod
    def open(cls, connection: Connection) -> "KafkaSession":
        """A session whose cluster has answered with its id. Raises ClusterUnreachable."""
        return cls(connection, cluster_id=connect.cluster_id(connection))

    @property
    def timeout_s(self) -> float:
        return self.connection.timeout_s

    def deadline(self) -> Deadline:
        """The deadline of a step that starts now."""
        return Deadline.after(self.timeout_s)

    def reader(self) -> AdminClient:
        """The client for reads."""
        return self._client("reader", connect.read_timeouts(self.connection))

    def controller_client(self) -> AdminClient:
        """The client for requests to the controller: elections and topic creation."""
        return self._client("controller", {})

    @contextmanager
    def borrow_deleter(self) -> Iterator[AdminClient]:
        """A client for one DeleteRecords call; a second call would wait behind the first one's answer."""
        with self._lock:
            client = self._idle_deleters.pop() if self._idle_deleters else None
        if client is None:
            client = connect.admin(self.connection)
        client.poll(0)
        try:
            yield client
        finally:
            with self._lock:
                self._idle_deleters.append(client)

    def read(
        self,
        items: Sequence[Item],
        call: Callable[[AdminClient, Sequence[Item], float], Mapping[Item, Future[Any]]],
        *,
        is_final: Callable[[Future[Any]], bool] = is_final,
        deadline: Deadline | None = None,
    ) -> dict[Item, Future[Any]]:
        """The last answer for each item, with retries on the client for reads. No items: no client."""
        if not items:
            return {}
        return call_with_retry(self.reader(), items, call, is_final=is_final, deadline=deadline or self.deadline())

    def call(self, call: Callable[[AdminClient, float], Any]) -> Future[Any]:
        """The last answer of a blocking call with a client and seconds, with retries."""

        def send(client: AdminClient, items: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
            return dict.fromkeys(items, submit(partial(call, client, limit_s)))

        return self.read(("call",), send)["call"]

    def refresh(self) -> None:
        """Drop all clients and worker processes, and with them the leaders and coordinators that they remember.

        The library has no other way to forget them. Later calls open new clients.
        """
        with self._lock:
            self._clients.clear()
            self._idle_deleters.clear()
        self.readers.close()
        self.removers.close()

    close = refresh

    def _client(self, purpose: str, tuning: connect.Tuning) -> AdminClient:
        with self._lock:
            client = self._clients.get(purpose)
            if client is None:
                client = self._clients[purpose] = connect.admin(self.connection, tuning)
            client.poll(0)
            return client
