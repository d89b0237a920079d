"""Clients are made where no signal is delivered: no broker is needed to see it."""

import _thread
import signal
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.errors import ClusterUnreachable
from reconciler.kafka.connect import Connection, admin, consumer, producer


class _Pressed(str):
    """A property's name; Ctrl-C is pressed while the library reads it."""

    def __str__(self) -> str:
        _thread.interrupt_main(signal.SIGINT)
        return str.__str__(self)


@pytest.mark.parametrize("make", [admin, consumer, producer])
def test_ctrl_c_while_a_client_is_made_is_no_wrong_property(make: Callable[[Connection], Any]) -> None:
    """The library turned it into a TypeError, and the manifest was told to be wrong."""
    connection = Connection(("127.0.0.1:1",), {_Pressed("client.rack"): "a"})
    with pytest.raises(KeyboardInterrupt):
        make(connection)


def test_a_wrong_property_is_still_told() -> None:
    """From the thread that made the client to whoever asked for it."""
    with pytest.raises(ClusterUnreachable, match=r"no\.such\.property.*\bspec\.client\b"):
        admin(Connection(("127.0.0.1:1",), {"no.such.property": "1"}))
