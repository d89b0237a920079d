"""The cluster as the applier sees it: facts of right now, and the three requests, item by item.

Decided here: which client carries what, how long anything may take, and that no fact is made up. What an error means is decided
in `codes`, how often and in what batches to try in apply/.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from typing import Any, assert_never

from confluent_kafka import ElectionType, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable
from reconciler.kafka import connect, now, offset_fetch
from reconciler.kafka.asking import Deadline
from reconciler.kafka.child import Children, Clients
from reconciler.kafka.codes import Operation, item_answer
from reconciler.kafka.connect import Connection
from reconciler.kafka.offset_fetch import Positions
from reconciler.model.action import Election
from reconciler.model.names import TopicPartition
from reconciler.model.ports import Answer, GroupNow, ItemAnswer, PartitionNow
from reconciler.model.snapshot import Unread

# The broker gives up earlier than the client: REQUEST_TIMED_OUT from a leader says more than a silence.
_BROKER_SHARE = 0.6

_GRACE_S = 3.0
"""From the library's deadline to ours, which is for a library that forgets a call. It looks for requests that are overdue once a second,
so its answer may come more than a second after its deadline, with the results of the brokers that did answer.
"""

_SIDE_BY_SIDE = 16
"""Connections to each coordinator over which one call's group removals are spread."""


class KafkaGateway:
    """`model.ports.Gateway` over librdkafka. Safe to call from several threads. Every call comes back within about `timeout_s`.

    A client for each purpose: a DeleteRecords that waits for a slow replica blocks its connection, and a read behind it on the same client
    times out, or answers -1001 as if it were an offset. A client that cannot be opened is one more way of not getting an answer.

    `cluster_id`: whose groups these are; None: of whoever answers. A name that leads to another cluster by now would show groups as absent.
    """

    def __init__(
        self, connection: Connection, *, timeout_s: float | None = None, cluster_id: str | None = None
    ) -> None:
        self._connection = connection
        self._cluster_id = cluster_id
        self._timeout_s = connection.timeout_s if timeout_s is None else timeout_s
        self._lock = threading.Lock()
        self._clients: dict[str, AdminClient] = {}
        self._deleters: list[AdminClient] = []
        self._readers = Children(connection)
        self._removers = Children(connection)

    def cluster_id(self) -> str:
        """Raises ClusterUnreachable where no broker answers in time."""
        return connect.cluster_id(self._connection)

    def partitions_now(
        self, partitions: Iterable[TopicPartition], *, offsets: bool
    ) -> Mapping[TopicPartition, PartitionNow]:
        """Metadata first, then (with `offsets`) log starts and high watermarks from the leaders it named."""
        wanted = sorted(set(partitions))
        if not wanted:
            return {}
        try:
            client = self._client("read")
        except ClusterUnreachable as unopened:
            return dict.fromkeys(wanted, now.unknown(Unread(str(unopened)), exists=True))
        return now.partitions(client, wanted, offsets=offsets, deadline=self._deadline())

    def committed(
        self, wanted: Mapping[str, Sequence[TopicPartition]]
    ) -> Mapping[tuple[str, TopicPartition], int | Unread | None]:
        asked = {group: sorted(set(partitions)) for group, partitions in wanted.items() if partitions}
        if not asked:
            return {}
        fetched = offset_fetch.fetch(self._readers, asked, timeout_s=self._timeout_s)
        return {
            (group, partition): _position(fetched[group], partition) for group in asked for partition in asked[group]
        }

    def groups_now(self, groups: Sequence[str]) -> Mapping[str, GroupNow]:
        wanted = sorted(set(groups))
        if not wanted:
            return {}
        try:
            client = self._client("read")
        except ClusterUnreachable as unopened:
            why = Unread(str(unopened))
            return dict.fromkeys(wanted, GroupNow(listed=why, type=why, state=why, fingerprint=why))
        return now.groups(client, self._readers, wanted, cluster_id=self._cluster_id, deadline=self._deadline())

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemAnswer]:
        for partition, before_offset in before_offsets.items():
            if before_offset < 1:
                raise ValueError(f"{partition}: {before_offset} is no target; -1 would mean whatever is there by then")
        if not before_offsets:
            return {}
        request = [ClientPartition(p.topic, p.partition, offset) for p, offset in before_offsets.items()]
        deadline = self._deadline()

        def send() -> Mapping[Any, Future[Any]]:
            futures: Mapping[Any, Future[Any]] = client.delete_records(
                request, request_timeout=self._timeout_s, operation_timeout=self._timeout_s * _BROKER_SHARE
            )
            return {TopicPartition(key.topic, key.partition): future for key, future in futures.items()}

        try:
            with self._lent() as client:
                told = _codes(before_offsets, send, deadline)
        except ClusterUnreachable as unopened:
            return dict.fromkeys(before_offsets, _unsent(unopened))
        return {partition: item_answer(Operation.DELETE_RECORDS, *each) for partition, each in told.items()}

    def delete_groups(self, groups: Sequence[str]) -> Mapping[str, ItemAnswer]:
        request = sorted(set(groups))
        if not request:
            return {}

        told = self._removers.call(_delete_groups, request, timeout_s=self._timeout_s)
        if told is None:
            told = dict.fromkeys(
                request, (int(KafkaError._TRANSPORT), "the client died while it asked the coordinators")
            )
        return {group: item_answer(Operation.DELETE_GROUP, *told[group]) for group in request}

    def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ItemAnswer]:
        wanted = sorted(set(partitions))
        if not wanted:
            return {}
        match election:
            case Election.PREFERRED:
                kind = ElectionType.PREFERRED
            case Election.UNCLEAN:
                kind = ElectionType.UNCLEAN
            case _:
                assert_never(election)
        request = [ClientPartition(p.topic, p.partition) for p in wanted]
        try:
            # No timeout arguments: this library version answers them with SystemError. The client's socket.timeout.ms holds.
            answer = self._client("elections").elect_leaders(kind, request)
            results = answer.result(timeout=self._deadline().left_s + _GRACE_S)
        except ClusterUnreachable as unopened:
            return dict.fromkeys(wanted, _unsent(unopened))
        except (KafkaException, FutureTimeout) as failure:
            code, text = _code_of(failure)
            return dict.fromkeys(wanted, item_answer(Operation.ELECT_LEADER, code, text))
        found = {TopicPartition(key.topic, key.partition): error for key, error in results.items()}
        return {partition: _election_answer(partition, found) for partition in wanted}

    def refresh(self) -> None:
        """Drop the clients, and with them every leader and coordinator they remember: the library has no other way."""
        with self._lock:
            self._clients.clear()
            self._deleters.clear()
        self._readers.close()
        self._removers.close()

    def close(self) -> None:
        """Let go of the clients and end the children that read commits; a later call opens new ones."""
        self.refresh()

    def _client(self, purpose: str) -> AdminClient:
        with self._lock:
            client = self._clients.get(purpose)
            if client is None:
                client = self._clients[purpose] = self._opened()
            client.poll(0)
            return client

    @contextmanager
    def _lent(self) -> Iterator[AdminClient]:
        """A client for DeleteRecords that nobody else uses meanwhile: a second call would wait behind the first one's answer."""
        with self._lock:
            client = self._deleters.pop() if self._deleters else None
        if client is None:
            client = self._opened()
        client.poll(0)
        try:
            yield client
        finally:
            with self._lock:
                self._deleters.append(client)

    def _opened(self) -> AdminClient:
        tuning = {"socket.timeout.ms": max(1_000, min(300_000, int(self._timeout_s * 1000)))}
        return connect.admin(self._connection, tuning)

    def _deadline(self) -> Deadline:
        return Deadline.after(self._timeout_s)


def _delete_groups(clients: Clients, groups: Sequence[str], deadline: Deadline) -> dict[str, tuple[int, str]]:
    """The library sends a request for each group, and a coordinator answers it when its followers have the tombstones."""

    def send() -> Mapping[Any, Future[Any]]:
        futures: dict[Any, Future[Any]] = {}
        for at, client in enumerate(clients.several(min(_SIDE_BY_SIDE, len(groups)))):
            share = list(groups[at::_SIDE_BY_SIDE])
            futures |= client.delete_consumer_groups(share, request_timeout=max(0.1, deadline.left_s))
        return futures

    return _codes(groups, send, deadline)


def _codes(
    items: Iterable[Any], send: Callable[[], Mapping[Any, Future[Any]]], deadline: Deadline
) -> dict[Any, tuple[int, str]]:
    """Code and text for each item, whatever happens: a call refused as a whole is every item's answer."""
    items = tuple(items)
    try:
        futures = send()
    except KafkaException as failure:
        return dict.fromkeys(items, _code_of(failure))
    answers = {}
    forgotten = Deadline.after(deadline.left_s + _GRACE_S)
    for item in items:
        code, text = KafkaError.NO_ERROR, ""
        try:
            futures[item].result(timeout=forgotten.left_s)
        except (KafkaException, FutureTimeout) as failure:
            code, text = _code_of(failure)
        answers[item] = (code, text)
    return answers


def _unsent(unopened: ClusterUnreachable) -> ItemAnswer:
    return ItemAnswer(Answer.RETRY, "_TRANSPORT", str(unopened), no_effect=True, sent=False)


def _position(fetched: Positions | Unread, partition: TopicPartition) -> int | Unread | None:
    if isinstance(fetched, Unread):
        return fetched
    return fetched.get(partition, Unread("the answer left this partition out"))


def _election_answer(partition: TopicPartition, found: Mapping[TopicPartition, Any]) -> ItemAnswer:
    if partition not in found:
        return item_answer(Operation.ELECT_LEADER, KafkaError._TIMED_OUT, "the answer left this partition out")
    error = found[partition]
    if error is None:
        return item_answer(Operation.ELECT_LEADER, KafkaError.NO_ERROR)
    code, text = _code_of(error)
    return item_answer(Operation.ELECT_LEADER, code, text)


def _code_of(failure: BaseException) -> tuple[int, str]:
    error = failure.args[0] if isinstance(failure, KafkaException) and failure.args else failure
    if isinstance(error, KafkaError):
        return int(error.code()), str(error.str())
    return int(KafkaError._TIMED_OUT), "no answer within the deadline"
