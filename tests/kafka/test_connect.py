"""Connections that fail: on sockets of the test's own, and on listeners of real brokers."""

import gc
import re
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from reconciler.companions.sandbox.client import wait_until
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.errors import ClusterUnreachable
from reconciler.kafka import connect
from reconciler.kafka.connect import ConnectAttempt, Connection, create, open_client
from tests.fakes.listener import Server
from tests.golden.wording import mentions
from tests.kafka.secured import SUPER_USER, USERS, access

TIMEOUT_S = 60.0
PLAINTEXT = {"security.protocol": "PLAINTEXT"}
SSL = {"security.protocol": "SSL"}
SCRAM = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": SUPER_USER, "sasl.password": USERS[SUPER_USER]}
_servers: list[Server] = []
LISTENER = "check security.protocol in the Cluster's spec.client, and the ports in bootstrapServers"


@pytest.fixture(autouse=True)
def _close_servers() -> Iterator[None]:
    """Close them: a client that failed ends in a thread of its own, and may connect once more until then."""
    yield
    while _servers:
        _servers.pop().close()


def serve(talk: Callable[[socket.socket], None]) -> Server:
    """Return a server that is closed after the test."""
    _servers.append(Server(talk))
    return _servers[-1]


def forward(target: str, change: Callable[[bytes], bytes] = bytes) -> Callable[[socket.socket], None]:
    """Return a `talk` that passes bytes on to a target, and its answers back through `change`."""

    def talk(client: socket.socket) -> None:
        host, _, port = target.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as broker:

            def answer() -> None:
                with suppress(OSError):
                    while data := broker.recv(1 << 16):
                        client.sendall(change(data))

            threading.Thread(target=answer, daemon=True).start()
            while data := client.recv(1 << 16):
                broker.sendall(data)

    return talk


def close(connection: socket.socket) -> None:
    """A `talk` that ends the connection at the first request."""
    connection.recv(1 << 16)


def hold(_connection: socket.socket) -> None:
    """A `talk` that never answers."""
    threading.Event().wait()


def closed_port() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def failure(servers: list[str], properties: dict[str, str], *, timeout_s: float = TIMEOUT_S) -> str:
    """The error of a connection. An early one says a shorter time than `timeout_s`."""
    with pytest.raises(ClusterUnreachable) as raised:
        open_client(Connection(tuple(servers), properties, timeout_s), patience_s=0.5)
    message = str(raised.value)
    assert "  " not in message
    waited = re.search(r" answered in (\d+) s: ", message)
    assert waited is None or (int(waited[1]) < timeout_s / 2) == (timeout_s == TIMEOUT_S), message
    return message


def test_a_closed_port_and_an_unknown_name_are_known_at_once() -> None:
    """Where every bootstrap server refuses, or has no address, the error comes early and names both."""
    servers = [closed_port() for _ in range(6)] + ["no-such-host.invalid:9092"]
    message = failure(servers, {})
    assert "connection refused (127.0.0.1:" in message
    assert "name not found (no-such-host.invalid:9092: " in message
    assert "check the ports in the Cluster's bootstrapServers (--bootstrap-server)" in message
    names = "check the names in the Cluster's bootstrapServers (--bootstrap-server), and the DNS of this machine"
    assert names in message


def test_a_silent_server_beside_a_closed_port_gets_the_whole_time() -> None:
    """A server that accepts a connection may still answer, so one closed port does not end the wait."""
    silent = serve(hold)
    assert "connection refused" in failure([silent.address, closed_port()], {}, timeout_s=2.0)


def test_a_frozen_broker_is_not_called_an_old_version() -> None:
    """The line quoted the library's guess, "probably due to broker version < 0.10", and said to check addresses."""
    message = failure([serve(hold).address], {}, timeout_s=4.0)
    assert mentions(message, "timed out", "accepts the connection and sends no answer", "stuck")
    assert "version" not in message


def test_a_name_stands_for_all_its_addresses() -> None:
    """The library tries one address at a time; where another one accepts, the server may still answer."""
    server = serve(close)
    port = server.address.rpartition(":")[2]
    attempt = ConnectAttempt(Connection((f"localhost:{port}",)))
    attempt.log(
        20, f"FAIL [c#1] [thrd:t]: localhost:{port}/bootstrap: Connect to ipv6#[::1]:{port} failed: Connection refused"
    )
    assert attempt.is_final
    assert attempt.may_succeed()


def test_a_lookup_that_failed_for_now_is_tried_again() -> None:
    """A name server that does not answer says nothing about the name."""
    attempt = ConnectAttempt(Connection(("kafka:9092",)))
    attempt.log(
        20,
        "FAIL [c#1] [thrd:t]: kafka:9092/bootstrap: Failed to resolve 'kafka:9092': Temporary failure in name resolution (after 1ms in state CONNECT)",
    )
    assert not attempt.is_final


def test_a_client_that_failed_ends_and_has_not_hammered_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients lived until Python's garbage collection, and connected up to 2,000 times in a second: a refused login, too.

    Later ones lived, and logged in, for a third of --timeout: as long as their last call.
    """
    made: list[weakref.ref[AdminClient]] = []

    def create_noted(*arguments: Any, **settings: Any) -> AdminClient:
        client = create(*arguments, **settings)
        made.append(weakref.ref(client))
        return client

    monkeypatch.setattr(connect, "create", create_noted)
    server = serve(close)
    gc.disable()
    try:
        with pytest.raises(ClusterUnreachable) as raised:  # holds the error, and its traceback, to the end
            open_client(Connection((server.address,), {}, 600.0), patience_s=0.5)
        wait_until(lambda: all(client() is None for client in made), TIMEOUT_S, "the end of the client")
    finally:
        gc.enable()
    assert made
    assert raised.value
    assert 1 <= server.connections <= 20


def test_a_producer_that_waits_does_not_hammer_the_servers() -> None:
    """That of the journal logged in eight times in a second where the password had changed during the run."""

    def refuse(connection: socket.socket) -> None:
        close(connection)
        threading.Event().wait(0.3)  # brokers delay the refusal of a login, too

    servers = [serve(refuse) for _ in range(3)]
    producer = create(Producer, Connection(tuple(server.address for server in servers)))
    producer.produce("journal", b"line", partition=0)
    producer.flush(3.0)
    assert 1 <= sum(server.connections for server in servers) <= 15


@pytest.mark.brokers
def test_a_server_that_answers_late_is_waited_for(sasl_broker: SandboxCluster) -> None:
    """One bootstrap server closes every connection; the other one answers after the third of these."""
    closing_server = serve(close)
    passed_on = forward(sasl_broker.bootstrap_servers)

    def late(connection: socket.socket) -> None:
        wait_until(lambda: closing_server.connections >= 3, TIMEOUT_S, "connections to the server")
        passed_on(connection)

    late_server = serve(late)
    _client, cluster_id = open_client(Connection((closing_server.address, late_server.address), {}, TIMEOUT_S))
    assert cluster_id == sasl_broker.cluster_id


@pytest.mark.brokers
def test_a_listener_of_another_protocol_is_named(sasl_broker: SandboxCluster) -> None:
    """TLS, SASL or nothing where the listener wants something else: early, with the setting to change.

    test_tls_sasl.py has the listener with TLS.
    """
    plain, secure = sasl_broker.bootstrap_servers, access(sasl_broker).bootstrap_servers
    sasl = {"security.protocol": "SASL_PLAINTEXT", **SCRAM}
    for server, properties, reason in (
        (plain, SSL, "the listener has no TLS"),
        (plain, {**sasl, "security.protocol": "SASL_SSL"}, "the listener has no TLS"),
        (plain, sasl, "the listener has no SASL"),
        (secure, PLAINTEXT, "closed, as a listener with SASL does"),
        (secure, SSL, "the listener has no TLS"),
    ):
        assert_protocol_is_named(server, properties, reason)


def assert_protocol_is_named(server: str, properties: dict[str, str], reason: str) -> None:
    message = failure([server], properties)
    assert f"{reason} (" in message
    more = "; or give the brokers more connections (max.connections.per.ip)" if reason.startswith("closed") else ""
    assert message.endswith(f"; {LISTENER}{more}")


@pytest.mark.brokers
def test_brokers_that_advertise_addresses_without_a_listener_are_named(sasl_broker: SandboxCluster) -> None:
    """A bootstrap address answers, as a port that is forwarded does, and no broker is at the addresses it names."""
    host, _, port = sasl_broker.bootstrap_servers.rpartition(":")
    advertised = closed_port()
    real, other = (host.encode() + struct.pack(">i", int(number)) for number in (port, advertised.rpartition(":")[2]))
    bootstrap = serve(forward(sasl_broker.bootstrap_servers, lambda answer: answer.replace(real, other)))
    message = failure([bootstrap.address], {})
    assert message.startswith(f"{bootstrap.address} answered, but the brokers advertise {advertised}")
    assert "check advertised.listeners of the brokers, or the network" in message
    same = serve(forward(sasl_broker.bootstrap_servers))
    assert open_client(Connection((same.address,), {}, TIMEOUT_S))[1] == sasl_broker.cluster_id


@pytest.mark.brokers
@pytest.mark.parametrize("trapped", [1, 3])
def test_they_are_named_too_where_the_client_has_left_the_server_that_answered(
    sasl_broker: SandboxCluster, monkeypatch: pytest.MonkeyPatch, trapped: int
) -> None:
    """On a slow machine the library learns the brokers by itself, and then asks only them: that was "no answer".

    A new client asks the bootstrap server again, and may leave it, too.
    """
    host, _, port = sasl_broker.bootstrap_servers.rpartition(":")
    advertised, learned = closed_port(), threading.Event()
    real, other = (host.encode() + struct.pack(">i", int(number)) for number in (port, advertised.rpartition(":")[2]))

    clients: list[Any] = []

    def change(answer: bytes) -> bytes:
        if b"__consumer_offsets" in answer and len(clients) <= trapped:
            return b""
        if real in answer:
            learned.set()
        return answer.replace(real, other)

    def create_slowly(*arguments: Any, **options: Any) -> Any:
        clients.append(create(*arguments, **options))
        assert learned.wait(TIMEOUT_S)
        return clients[-1]

    bootstrap = serve(forward(sasl_broker.bootstrap_servers, change))
    monkeypatch.setattr("reconciler.kafka.connect.create", create_slowly)
    message = failure([bootstrap.address], {})
    assert message.startswith(f"{bootstrap.address} answered, but the brokers advertise {advertised}")
