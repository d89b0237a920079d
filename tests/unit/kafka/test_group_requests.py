"""Requests of many groups: none waits for the answer to the one before it.

The library sends a request per group. A phase that waited for each answer would take as many round
trips as there are groups, so most clients of these tests answer when they have all requests.
Removals go out in waves.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Timer
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from reconciler.errors import ClusterUnreachable, ProgramFailed
from reconciler.kafka import coordinators
from reconciler.kafka import gateway as gateway_module
from reconciler.kafka import session as session_module
from reconciler.kafka.connect import Connection, Settings, request_metadata
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.coordinators import REMOVING_CLIENTS, SETTINGS, Fetched, Members, ask_for_positions
from reconciler.kafka.futures import Deadline
from reconciler.kafka.gateway import KafkaGateway, _delete_in_worker
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import Cause, GroupState, Unknown

GROUPS = [f"group-{number}" for number in range(1_000)]


class StubSession(KafkaSession):
    """Its clients answer nothing before each group of the phase has a request at one of them."""

    def __init__(self, groups: Sequence[str] = GROUPS) -> None:
        super().__init__(Connection(("127.0.0.1:9",), timeout_s=1.0))
        self.groups, self.limit = groups, Deadline.after(10)
        self.client_of: dict[str, dict[str, str]] = defaultdict(dict)
        self.first_calls: dict[str, list[object]] = defaultdict(list)
        self.metadata_limits_s: list[float] = []
        self.listing_limits_s: list[float] = []
        self.pending: list[tuple[Future[Any], object]] = []

    def client(self, purpose: str, settings: Settings | None = None, *, deadline: Deadline | None = None) -> Any:
        assert settings == SETTINGS
        assert deadline is not None
        self.metadata_limits_s.append(deadline.remaining_s)
        if purpose not in self._clients:
            self._clients[purpose] = StubClient(self, purpose)  # type: ignore[assignment]
        return self._clients[purpose]

    def send(self, phase: str, client: str, group: str, answer: object) -> Future[Any]:
        assert group not in self.client_of[phase], "one request per group"
        assert not self.limit.passed, "requests waited for answers that come after the last request"
        self.client_of[phase][group] = client
        future = Future[Any]()
        self.pending.append((future, answer))
        if self.client_of[phase].keys() == set(self.groups):
            for waiting, its_answer in self.pending:
                waiting.set_result(its_answer)
            self.pending = []
        return future


class StubClient:
    def __init__(self, session: StubSession, name: str) -> None:
        self.session, self.name = session, name

    def poll(self, _timeout_s: float) -> None:
        pass

    def list_consumer_groups(self, *, states: set[ConsumerGroupState], request_timeout: float) -> Future[Any]:
        self.session.first_calls[self.name].append(states)
        self.session.listing_limits_s.append(request_timeout)
        answer = Future[Any]()
        answer.set_result(None)
        return answer

    def describe_consumer_groups(self, groups: Sequence[str], **_options: float) -> Mapping[str, Future[Any]]:
        description = SimpleNamespace(state=ConsumerGroupState.DEAD, members=())
        return {group: self.session.send("describe", self.name, group, description) for group in groups}

    def list_consumer_group_offsets(self, requests: Sequence[Any], **_options: float) -> Mapping[str, Future[Any]]:
        (request,) = requests
        committed = SimpleNamespace(topic_partitions=())
        return {request.group_id: self.session.send("offsets", self.name, request.group_id, committed)}

    def delete_consumer_groups(self, groups: Sequence[str], **_options: float) -> Mapping[str, Future[Any]]:
        return {group: self.session.send("delete", self.name, group, None) for group in groups}


def test_removals_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One coordinator stores its groups together, so they go out at different connections."""
    monkeypatch.setattr(coordinators, "_PACE_S", 0.01)
    session = StubSession()
    results = _delete_in_worker(session, GROUPS, session.limit)
    assert {group: result.code for group, result in results.items()} == dict.fromkeys(GROUPS, "NONE")
    clients = session.client_of["delete"]
    assert len(set(clients.values())) == 24
    by_partition: defaultdict[int, list[str]] = defaultdict(list)
    for group, client in clients.items():
        by_partition[log_partition(group, 50)].append(client)
    assert all(len(set(names)) == len(names) for names in by_partition.values())


class WaveSession(StubSession):
    """Answers removals 20 ms after the first of them, together. `silent`: groups without an answer."""

    def __init__(self, groups: Sequence[str], *, silent: Collection[str] = ()) -> None:
        super().__init__(groups)
        self.silent = frozenset(silent)
        self.lock = Lock()
        self.unanswered: list[tuple[str, Future[Any]]] = []
        self.at_once_max = 0
        self.last_sent_s = 0.0

    def send(self, phase: str, client: str, group: str, answer: object) -> Future[Any]:  # noqa: ARG002
        future = Future[Any]()
        self.last_sent_s = time.monotonic()
        if group not in self.silent:
            with self.lock:
                self.unanswered.append((client, future))
                if len(self.unanswered) == 1:
                    Timer(0.02, self.answer_all).start()
        return future

    def answer_all(self) -> None:
        with self.lock:
            answered, self.unanswered = self.unanswered, []
        self.at_once_max = max(self.at_once_max, *Counter(client for client, _ in answered).values())
        for _client, future in answered:
            future.set_result(None)


def test_clients_wait_for_each_other_after_some_removals() -> None:
    """A coordinator stores removals of one partition together only if they come at the same time."""
    session = WaveSession(GROUPS)
    results = _delete_in_worker(session, GROUPS, session.limit)
    assert {result.code for result in results.values()} == {"NONE"}
    assert session.at_once_max == 20


def test_a_silent_coordinator_does_not_hold_up_other_groups_beyond_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A limit of a second for each wave sent the last of three waves after the deadline."""
    silent = GROUPS[::3]
    monkeypatch.setattr(gateway_module, "REQUEST_GRACE_S", 0.0)
    monkeypatch.setattr(
        gateway_module, "wait", partial(_wait_for_requests, session := WaveSession(GROUPS, silent=silent))
    )
    deadline = Deadline.after(2.0)
    results = _delete_in_worker(session, GROUPS, deadline)
    assert session.last_sent_s < deadline.at_s
    assert {group for group, result in results.items() if result.code == "NONE"} == set(GROUPS) - set(silent)
    assert {results[group].code for group in silent} == {"_TIMED_OUT"}


def test_a_call_that_the_library_refuses_fails_its_own_removals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error was also the result of the removals before it, which coordinators had answered."""
    session = WaveSession(GROUPS)
    calls: Counter[str] = Counter()
    refused: list[str] = []
    delete = StubClient.delete_consumer_groups

    def refuse_second(client: StubClient, groups: Sequence[str], **options: float) -> Mapping[str, Future[Any]]:
        calls[client.name] += 1
        if client.name == "coordinators 3" and calls[client.name] == 2:
            refused.extend(groups)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG))
        return delete(client, groups, **options)

    monkeypatch.setattr(StubClient, "delete_consumer_groups", refuse_second)
    results = _delete_in_worker(session, GROUPS, session.limit)
    assert len(refused) == 20
    assert {group for group, result in results.items() if result.code != "NONE"} == set(refused)


def _wait_for_requests(session: WaveSession, futures: Collection[Future[Any]], timeout: float) -> Any:
    """Wait for the answers that will come only, where it is the wait for all of them."""
    if len(futures) == len(session.groups):
        timeout = min(timeout, 0.2)
    return wait(futures, timeout=timeout)


def ask(session: KafkaSession, groups: Any, deadline: Deadline) -> tuple[dict[str, Members], Fetched]:
    """As a worker process does for the reading before a removal."""
    return ask_for_positions(session, groups, deadline, clients=REMOVING_CLIENTS)


def test_reads_of_groups_do_not_wait_for_each_other() -> None:
    """Descriptions first, then commits, each at 24 connections to a coordinator."""
    session = StubSession()
    described, offsets = ask(session, (GROUPS, dict.fromkeys(GROUPS)), session.limit)
    assert {state for state, _topics, _is_final in described.values()} == {GroupState.DEAD}
    assert described.keys() == offsets.keys() == set(GROUPS)
    assert all(answer == ({}, True) for answer in offsets.values())
    for phase in ("describe", "offsets"):
        assert sorted(Counter(session.client_of[phase].values()).values()) == [41] * 8 + [42] * 16


class Unreadable:
    """An answer of the library that cannot be converted."""

    def __getattr__(self, name: str) -> Any:
        return b"host-1:\xff".decode()


@pytest.mark.parametrize("phase", ["describe", "offsets", "delete"])
def test_an_error_of_this_program_has_its_name_and_fails_its_own_group_only(
    phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One value that was not UTF-8 ended the process: "the group's coordinator did not answer", for 330 groups."""
    monkeypatch.setattr(coordinators, "_PACE_S", 0.01)
    session = StubSession(GROUPS[:20])
    send = session.send

    def answer_one_wrongly(sent: str, client: str, group: str, answer: object) -> Future[Any]:
        return send(sent, client, group, Unreadable() if (sent, group) == (phase, GROUPS[7]) else answer)

    monkeypatch.setattr(session, "send", answer_one_wrongly)
    if phase == "delete":
        removed = _delete_in_worker(session, GROUPS[:20], session.limit)
        assert removed.pop(GROUPS[7]).code == "_APPLICATION"
        assert {result.code for result in removed.values()} == {"NONE"}
        return
    described, offsets = ask(session, (GROUPS[:20], dict.fromkeys(GROUPS[:20])), session.limit)
    read: dict[str, Any] = {"describe": described, "offsets": offsets}[phase]
    failure = read.pop(GROUPS[7])[0]
    assert "an error of this program" in failure.reason
    assert "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 7" in failure.reason
    assert failure.cause is Cause.OTHER
    assert all(answer[0] == (GroupState.DEAD if phase == "describe" else {}) for answer in read.values())


def divide(_session: KafkaSession, number: int, _deadline: Deadline) -> float:
    return 1 / number


def test_an_error_in_a_worker_process_has_its_name() -> None:
    """The process once ended with it, which reads as a broker that does not answer. It stays usable."""
    session = KafkaSession(Connection(("127.0.0.1:9",)))
    try:
        with pytest.raises(ProgramFailed, match=r"an error of this program.*ZeroDivisionError: division by zero"):
            session.call_worker(divide, 0, timeout_s=30, tries=2)
        [worker] = session._idle_workers
        assert session.call_worker(divide, 2, timeout_s=30) == 0.5
        assert session._idle_workers == [worker]
    finally:
        session.close()


@pytest.mark.parametrize(
    ("program", "reason"), [("/nonexistent", "No such file"), ("/bin/false", "it ended, or was not")]
)
def test_a_process_that_cannot_be_started_is_an_error(
    monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    """As under a limit of processes: it was tried 80 times a second, with a warning each, as if a broker were silent.

    Of a process that ended at once the message said that it was not ready after 60 s.
    """
    monkeypatch.setattr(sys, "executable", program)
    session = KafkaSession(Connection(("127.0.0.1:9",)))
    with pytest.raises(
        ClusterUnreachable, match=rf"no worker process could be started: .*{reason}.*this machine's limits"
    ):
        session.call_worker(divide, 1, timeout_s=30, tries=2)
    [result] = KafkaGateway(session).delete_groups(["billing"]).values()
    assert (result.code, result.sent) == ("_TRANSPORT", False)
    [position] = KafkaGateway(session).read_positions({"billing": [TopicPartition("orders", 0)]}).values()
    assert isinstance(position, Unknown)


def test_each_new_client_connects_before_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """To all brokers, and only once: requests for coordinators are looked up again with each new connection."""
    monkeypatch.setattr(coordinators, "_PACE_S", 0.01)
    session = StubSession()
    _delete_in_worker(session, GROUPS, session.limit)
    session.client_of.clear()
    _delete_in_worker(session, GROUPS, session.limit)
    assert session.first_calls == {f"coordinators {number}": [{ConsumerGroupState.DEAD}] for number in range(24)}


def test_removals_use_the_connections_of_the_reads_before_them() -> None:
    """A new client takes six round trips before its first request goes out."""
    session = StubSession(GROUPS[:20])
    ask(session, ((), dict.fromkeys(GROUPS[:20])), session.limit)
    opened = set(session._clients)
    _delete_in_worker(session, GROUPS[:20], session.limit)
    assert set(session._clients) == opened


def test_few_groups_need_few_clients() -> None:
    """Each client has a connection to every broker, with a handshake."""
    for count, clients in ((1, 1), (10, 1), (11, 2)):
        session = StubSession(GROUPS[:count])
        _delete_in_worker(session, GROUPS[:count], session.limit)
        assert len(session._clients) == clients


@pytest.mark.parametrize(("timeout_s", "limit_s"), [(0.6, 0.2), (6.0, 2.0), (60.0, 3.0)])
def test_new_clients_leave_time_for_their_requests(
    timeout_s: float, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a silent broker they once waited three seconds twice, whatever the deadline of the requests was."""
    waits_s: list[float] = []
    monkeypatch.setattr(session_module, "wait", lambda _futures, timeout: waits_s.append(timeout))
    session = StubSession(GROUPS[:20])
    assert len(session.clients("coordinators", 2, SETTINGS, deadline=Deadline.after(timeout_s))) == 2
    assert 0 < max(session.metadata_limits_s) <= limit_s
    assert 0 < max(session.listing_limits_s + waits_s) <= limit_s


def test_a_passed_deadline_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The requests are sent at once, and fail if no broker answers."""
    monkeypatch.setattr(session_module, "wait", lambda _futures, timeout: pytest.fail(f"waits for {timeout} s"))
    session = StubSession()
    assert len(session.clients("coordinators", 2, SETTINGS, deadline=Deadline.after(0))) == 2
    assert max(session.metadata_limits_s) == 0
    assert not session.first_calls
    request_metadata(None, session.connection, deadline=Deadline.after(0))  # type: ignore[arg-type]


def test_a_session_does_not_wait_for_the_end_of_its_clients() -> None:
    """The library takes minutes for it while a broker is silent, so that a scan once reached its limit."""
    is_closed = Event()
    ends: SimpleQueue[bool] = SimpleQueue()

    class SlowClient:
        def __del__(self) -> None:
            ends.put(is_closed.wait(10))

    session = KafkaSession(Connection(("127.0.0.1:9",)))
    session._clients["reads"] = SlowClient()  # type: ignore[assignment]
    session.close()
    is_closed.set()
    assert ends.get(timeout=20)


@pytest.mark.parametrize(
    ("code", "right"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "DESCRIBE on all topics of its members"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "DESCRIBE on the group"),
    ],
)
def test_a_group_that_may_not_be_described_names_the_right(code: int, right: str) -> None:
    """From Kafka 4.0 on a group of KIP-848 needs the rights of its topics; its own was named, which was there."""
    answer: Future[Any] = Future()
    answer.set_exception(KafkaException(KafkaError(code)))
    state, topics, _is_final = coordinators._parse_members(answer)
    for unknown in (state, topics):
        assert isinstance(unknown, Unknown)
        assert right in unknown.reason
