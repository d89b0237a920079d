"""The creation of clients, and of child processes."""

import _thread
import gc
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable
from reconciler.kafka.child import Child, serve
from reconciler.kafka.connect import ConnectAttempt, Connection, create
from reconciler.text.redact import add_references


class _Pressed(str):
    """A property's name that triggers Ctrl-C while the library reads it."""

    def __str__(self) -> str:
        _thread.interrupt_main(signal.SIGINT)
        return str.__str__(self)


@pytest.mark.parametrize("client_class", [AdminClient, Consumer, Producer])
def test_ctrl_c_during_the_creation_of_a_client_is_no_property_error(client_class: Callable[..., Any]) -> None:
    """The library once turned it into a TypeError, and the message blamed the manifest."""
    connection = Connection(("127.0.0.1:1",), {_Pressed("client.rack"): "a"})
    with pytest.raises(KeyboardInterrupt):
        create(client_class, connection, settings={"group.id": "g"} if client_class is Consumer else {})


def test_a_wrong_property_is_an_error() -> None:
    """The error reaches the caller from the thread that created the client."""
    with pytest.raises(ClusterUnreachable, match=r"no\.such\.property.*\bspec\.client\b"):
        create(AdminClient, Connection(("127.0.0.1:1",), {"no.such.property": "1"}))


def test_a_token_that_does_not_come_is_said_whatever_the_references_stand_for() -> None:
    """A value may be a word of the library's text, which is compared as it is and shown without the value."""
    add_references({"token": "${env:OAUTH_SCOPE}"})
    attempt = ConnectAttempt(Connection(("127.0.0.1:9",)))
    attempt.add_error(KafkaError(KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: 401"))
    reason, next_step = attempt.explain()
    assert reason == "no token (Failed to acquire SASL OAUTHBEARER ${env:OAUTH_SCOPE}: 401)"
    assert "token endpoint" in next_step


def main(descriptor: int) -> None:
    """In the process: send back what comes."""
    pipe, received = serve(descriptor)
    while True:
        pipe.send(received.get())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_of_the_parent_does_not_end_a_process(number: signal.Signals) -> None:
    """`apply` said that no worker process could be started, because of limits of the machine, and ended with 1.

    A terminal that closes sends SIGHUP to all processes of its group, and systemd SIGTERM.
    """
    child = Child(__name__)
    os.kill(child.process.pid, number)
    child.send("hello")
    assert child.receive(30) == "hello"
    os.kill(child.process.pid, number)
    child.send("again")
    assert child.receive(30) == "again"
    assert number not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    child.end()


@pytest.mark.parametrize("leads_group", [False, True])
@pytest.mark.parametrize("explicit", [False, True])
def test_a_process_ends_with_its_object(explicit: bool, leads_group: bool) -> None:
    """A forgotten session would otherwise leave a process, which no one waits for."""
    child = Child(__name__, new_session=leads_group)
    child.send("hello")
    assert child.receive(30) == "hello"
    pid = child.process.pid
    if explicit:
        child.end()
        child.end()
        assert child.has_ended
    del child
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
