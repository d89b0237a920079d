"""One Kafka session per run: its clients and worker processes, opened when first needed.

Decided here: which client serves which purpose, and how long a call may take. Worker processes,
each with a session of its own, call group coordinators, because librdkafka's OffsetFetch,
DescribeGroups and DeleteGroups may crash while a coordinator moves (its issues 5040, 3663, 4605).
"""

import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable, ProgramFailed, ReconcilerError
from reconciler.kafka import connect
from reconciler.kafka.api_versions import ApiVersions, find_controllers, read_api_versions
from reconciler.kafka.child import Child, serve
from reconciler.kafka.connect import Connection
from reconciler.kafka.futures import Deadline, batched, deliver_events, is_final, name_failure, submit, wait_all
from reconciler.model.garbage import gc_paused
from reconciler.model.snapshot import Unknown

Item = TypeVar("Item")
Argument = TypeVar("Argument")
Result = TypeVar("Result")

Work = Callable[["KafkaSession", Argument, Deadline], Result]
"""A module's function for a worker process, pickled by its name."""

REQUEST_GRACE_S = 3.0
"""The library looks for overdue requests once a second, so results come more than a second late."""
_WORKER_GRACE_S = REQUEST_GRACE_S + 1
"""A worker process waits REQUEST_GRACE_S for late results. If it were ended earlier, the answers that
it has would be lost.
"""
_PAUSE_S = 0.25
_LEAST_S = 0.05
_READS = "reads"
_CONNECT_S = 3.0
_START_LIMIT_S = 60.0


class KafkaSession:
    """Clients and worker processes for one cluster. Safe between threads, not picklable.

    Reads, deletions and elections have separate clients: a DeleteRecords request that waits for a
    slow replica blocks its connection, and a read behind it times out, or answers -1001 as an
    offset. Methods that open a client raise ClusterUnreachable.

    `cluster_id`: of the cluster whose groups count; None: of any. A group of the same name on another one is
    another group. `isolates`: whether `call_worker` uses worker processes; a task of Spark, which is retried,
    needs none.
    """

    def __init__(self, connection: Connection, *, cluster_id: str | None = None, isolates: bool = True) -> None:
        self.connection = connection
        self.cluster_id = cluster_id
        self.isolates = isolates
        self.addresses: dict[int, str] = {}
        """Host and port of each broker that metadata has named so far."""
        self._lock = threading.Lock()
        self._clients: dict[str, AdminClient] = {}
        self._idle_workers: list[_Worker] = []
        self._api_versions: dict[int, ApiVersions | Unknown] = {}

    @classmethod
    def open(cls, connection: Connection) -> "KafkaSession":
        """A session whose cluster has answered with its id. Raises ClusterUnreachable."""
        client, cluster_id = connect.open_client(connection, find_cause=find_controllers)
        session = cls(connection, cluster_id=cluster_id)
        session._clients[_READS] = client
        return session

    @property
    def timeout_s(self) -> float:
        return self.connection.timeout_s

    def broker(self, number: int) -> str:
        """The broker as messages name it, with its address where that is known."""
        address = self.addresses.get(number)
        return f"broker {number}" if address is None else f"broker {number} ({address})"

    def api_versions(self, brokers: Collection[int] | None = None) -> Mapping[int, ApiVersions | Unknown]:
        """The versions of these brokers that metadata has named, read once per session; None: of all."""
        named = self.addresses.keys() if brokers is None else self.addresses.keys() & brokers
        missing = {broker: self.addresses[broker] for broker in named - self._api_versions.keys()}
        self._api_versions |= read_api_versions(self.connection, missing, self.deadline())
        return {broker: self._api_versions[broker] for broker in named}

    def deadline(self) -> Deadline:
        return Deadline.after(self.timeout_s)

    def reader(self) -> AdminClient:
        return self.client(_READS, connect.read_timeouts(self.connection))

    def client(
        self, purpose: str, settings: connect.Settings | None = None, *, deadline: Deadline | None = None
    ) -> AdminClient:
        """The client for one purpose. Its requests wait for the answers to the ones before.

        `deadline`: until when a new client waits for its first answer.
        """
        with self._lock:
            client = self._clients.get(purpose)
            is_new = client is None
            if client is None:
                client = self._clients[purpose] = connect.create(AdminClient, self.connection, settings)
        if is_new:
            connect.request_metadata(client, self.connection, deadline)
        deliver_events(client)
        return client

    def clients(
        self, purpose: str, count: int, settings: connect.Settings | None = None, *, deadline: Deadline
    ) -> list[AdminClient]:
        """Several clients for one purpose, with a connection to every broker that answers at once.

        A new client that gets many requests for coordinators looks all of them up again with each
        connection that opens: three lookups for each request. Waits for silent brokers for at most a
        third of the time until the deadline, which is that of the requests.
        """
        names = [f"{purpose} {number}" for number in range(count)]
        connected = Deadline.after(min(_CONNECT_S, deadline.remaining_s / 3))
        with self._lock:
            new = [name for name in names if name not in self._clients]
        # Each waits for metadata.
        opened = {name: submit(partial(self.client, name, settings, deadline=connected)) for name in names}
        clients = {name: future.result() for name, future in opened.items()}
        if not connected.passed:
            # No group is in this state, and every broker has to answer.
            listings = [
                clients[name].list_consumer_groups(
                    states={ConsumerGroupState.DEAD}, request_timeout=connected.request_timeout_s
                )
                for name in new
            ]
            wait(listings, timeout=connected.remaining_s)
        return list(clients.values())

    def read(
        self,
        items: Sequence[Item],
        call: Callable[[AdminClient, Sequence[Item], float], Mapping[Item, Future[Any]]],
        *,
        per_call: int = sys.maxsize,
        is_final: Callable[[Future[Any]], bool] = is_final,
        deadline: Deadline | None = None,
    ) -> dict[Item, Future[Any]]:
        """The last answer for each item, after retries until it is final or time is up.

        `call` sends one request for at most `per_call` items, with a timeout in seconds. An attempt
        takes at most a third of the time: the library sends lookups to any broker that looks alive,
        and a frozen broker looks alive until its first request times out.
        """
        deadline = deadline or self.deadline()
        attempt_s = deadline.remaining_s / 3
        answers: dict[Item, Future[Any]] = {}
        pending = list(items)
        while pending and (not deadline.passed or not answers):
            client = self.reader()
            limit_s = max(_LEAST_S, min(attempt_s, deadline.remaining_s))
            parts = [call(client, part, limit_s) for part in batched(pending, per_call)]
            futures = {item: future for part in parts for item, future in part.items()}
            wait_all((client,), futures.values(), deadline)
            # A partial earlier answer is worth more than a later call without any answer.
            answers.update((item, future) for item, future in futures.items() if future.done() or item not in answers)
            pending = [item for item in pending if not (answers[item].done() and is_final(answers[item]))]
            if pending:
                time.sleep(min(_PAUSE_S, deadline.remaining_s))
        return answers

    def call(self, call: Callable[[AdminClient, float], Any]) -> Future[Any]:
        """The last answer of a blocking call with a client and seconds, with retries."""

        def send(client: AdminClient, items: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
            return dict.fromkeys(items, submit(lambda: call(client, limit_s)))

        return self.read(("call",), send)["call"]

    def call_worker(
        self, work: Work[Argument, Result], argument: Argument, *, timeout_s: float, tries: int = 1
    ) -> Result | None:
        """The result of `work`, which never returns None, in a worker process if the session isolates.

        None: the process crashed or did not answer in time, in each of `tries` attempts. Its
        requests may have been carried out. Processes are reused; they end with this process, whatever
        ends it: an orphan starts no further request. Raises ClusterUnreachable where `work` does, or
        where no process can be started, and ProgramFailed for other exceptions of `work`.
        """
        deadline = Deadline.after(timeout_s)
        if not self.isolates:
            return work(self, argument, deadline)
        for _ in range(tries):
            if deadline.passed:
                break
            with self._lock:
                worker = self._idle_workers.pop() if self._idle_workers else None
            if worker is None:
                remaining_s = deadline.remaining_s
                try:
                    worker = _Worker(self.connection)
                except OSError as error:
                    message = f"no worker process could be started: {error}; see this machine's limits"
                    raise ClusterUnreachable(message) from None
                # The start of a process says nothing about the brokers' patience.
                deadline = Deadline.after(remaining_s)
            answer: Result | ReconcilerError | None = None
            try:
                answer = worker.call((work, argument, deadline.remaining_s))
            finally:
                # A late answer would be taken for the answer to the next request.
                if answer is None:
                    worker.end()
            if answer is not None:
                with self._lock:
                    self._idle_workers.append(worker)
                if isinstance(answer, ReconcilerError):
                    raise answer
                return answer
        return None

    def refresh(self) -> None:
        """Drop all clients and workers: the library has no other way to forget moved leaders."""
        with self._lock:
            workers, self._idle_workers = self._idle_workers, []
            clients, self._clients = self._clients, {}
            self._api_versions = {}
        connect.release(clients)
        for worker in workers:
            worker.end()

    close = refresh


class _Worker(Child):
    """A process that runs `main` of this module, and is ready. Raises OSError where it cannot be started."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(__name__)
        self.send(connection)
        if self.receive(_START_LIMIT_S) is None:
            self.end()
            raise OSError(f"it ended, or was not ready after {_START_LIMIT_S:.0f} s")

    def call(self, request: tuple[object, object, float]) -> Any:
        """The answer; None: the process crashed, or did not answer in time."""
        self.send(request)
        return self.receive(request[-1] + _WORKER_GRACE_S)


def main(descriptor: int) -> None:
    """In a worker process: receive a connection, then requests, until the parent is gone."""
    pipe, received = serve(descriptor)
    session = KafkaSession(received.get())
    pipe.send("ready")
    while True:
        work, argument, timeout_s = received.get()
        with gc_paused():
            try:
                answer = work(session, argument, Deadline.after(timeout_s))
            except ClusterUnreachable as error:
                answer = error
            except Exception as error:  # noqa: BLE001 - a dead process would look like a silent broker
                answer = ProgramFailed(name_failure(error))
            pipe.send(answer)
