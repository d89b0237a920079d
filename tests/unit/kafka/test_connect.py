"""Clients are created in a thread without signals; these tests need no broker."""

import _thread
import signal
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable
from reconciler.kafka.connect import Connection, create


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
