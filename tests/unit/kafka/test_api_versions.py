"""Versions of requests: what they say about a broker, and what an answer that is none says."""

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from reconciler.kafka.api_versions import read_api_versions, tell_no_types
from reconciler.kafka.connect import Connection
from reconciler.kafka.doctor import broker_version
from reconciler.kafka.futures import Deadline
from reconciler.model.snapshot import Unknown
from reconciler.operations import OPERATIONS

REQUESTS = sorted(operation.API for operation in OPERATIONS)
KAFKA_3_7 = {16: (0, 4), 68: (0, 0)}
KAFKA_3_8 = {16: (0, 5), 69: (0, 0)}


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """A listener on loopback that sends these bytes to the first client, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            stream, _ = listener.accept()
            with stream:
                stream.recv(64)
                stream.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("of_brokers", "expected"),
    [
        ({1: KAFKA_3_7, 2: KAFKA_3_7}, True),
        ({1: KAFKA_3_8}, False),
        ({1: KAFKA_3_7, 2: KAFKA_3_8}, False),  # in a rolling upgrade
        ({1: KAFKA_3_7, 2: Unknown("it is away")}, False),
        ({1: {16: (0, 4), 69: (0, 0)}}, False),  # a consumer protocol without types
        ({1: {}}, False),
        ({}, False),
    ],
)
def test_brokers_tell_no_types_only_if_each_of_them_says_so(
    of_brokers: Mapping[int, Mapping[int, tuple[int, int]] | Unknown], expected: bool
) -> None:
    assert tell_no_types(of_brokers) is expected


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">i", 10) + b"short",
        struct.pack(">iihi", 10, 7, 0, 0),  # of another request
        struct.pack(">iihi", 10, 1, 35, 0),  # UNSUPPORTED_VERSION
        struct.pack(">iihi", 13, 1, 0, 1) + b"abc",  # half a row
    ],
)
def test_what_is_no_answer_of_a_broker_is_unknown(answer: bytes) -> None:
    with server(answer) as address:
        versions = read_api_versions(Connection((address,)), {1: address}, Deadline.after(10))
    assert isinstance(versions[1], Unknown)


def test_what_a_broker_lacks_is_named() -> None:
    """Two brokers of two releases, one without DeleteGroups and election types, and one that is away."""
    new = broker_version("b1:9092", {1: (4, 18), 21: (0, 2), 42: (0, 2), 43: (0, 2)}, REQUESTS)
    old = broker_version("b2:9092", {1: (0, 17), 21: (0, 2), 43: (0, 0)}, REQUESTS)
    away = broker_version("b3:9092", Unknown("no answer"), REQUESTS)
    assert (new.broker, new.kafka_4, new.lacking) == ("b1:9092", True, ())
    assert (old.broker, old.kafka_4, old.lacking) == ("b2:9092", False, ("DeleteGroups", "ElectLeaders"))
    assert away.unread == Unknown("no answer")
