"""Versions of requests: what they say about a broker, and what an answer that is none says."""

import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest

from reconciler.doctor import apply_request
from reconciler.kafka.api_versions import (
    find_controllers,
    find_untold,
    know_classic_only,
    read_api_versions,
    tell_no_types,
)
from reconciler.kafka.connect import Connection
from reconciler.kafka.doctor import broker_version
from reconciler.kafka.futures import Deadline
from reconciler.kafka.group_listing import CLUSTER_RIGHTS
from reconciler.kafka.permissions import planning_requests
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import Unknown
from reconciler.operations import OPERATIONS
from tests.fakes.listener import Server

REQUESTS = sorted(map(apply_request, OPERATIONS), key=lambda request: request.name)
KAFKA_3_7 = {16: (0, 4), 68: (0, 0)}
KAFKA_3_8 = {16: (0, 5), 69: (0, 0)}


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """A listener on loopback that sends these bytes to each client."""

    def talk(client: socket.socket) -> None:
        client.recv(64)
        client.sendall(answer)

    with closing(Server(talk)) as listener:
        yield listener.address


OLDER = {16: (0, 4)}
AWAY = Unknown("it is away")


@pytest.mark.parametrize(
    ("decide", "of_brokers", "expected"),
    [
        (tell_no_types, [KAFKA_3_7, KAFKA_3_7], True),
        (tell_no_types, [KAFKA_3_8], False),
        (tell_no_types, [KAFKA_3_7, KAFKA_3_8], False),  # in a rolling upgrade
        (tell_no_types, [KAFKA_3_7, AWAY], False),
        (tell_no_types, [{**OLDER, 69: (0, 0)}], False),  # a consumer protocol without types
        (tell_no_types, [{}], False),
        (tell_no_types, [], False),
        # Where `__consumer_offsets` is hidden, this alone proves that all groups are classic.
        (know_classic_only, [OLDER, OLDER], True),
        (know_classic_only, [OLDER, KAFKA_3_7], False),  # it advertises the heartbeat of its early access
        (know_classic_only, [OLDER, AWAY], False),
        (know_classic_only, [], False),
    ],
)
def test_brokers_have_no_other_types_only_if_each_of_them_says_so(
    decide: Callable[..., bool], of_brokers: list[Mapping[int, tuple[int, int]] | Unknown], expected: bool
) -> None:
    assert decide(dict(enumerate(of_brokers))) is expected


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
    assert (old.broker, old.kafka_4) == ("b2:9092", False)
    assert [request.name for request in old.lacking] == ["DeleteGroups", "ElectLeaders"]
    assert away.unread == Unknown("no answer")


def test_what_planning_lacks_is_named_with_what_fails() -> None:
    """Doctor knew the requests of apply only: all was well where every floor was blocked. Removals need no topic id."""
    floors = TopicRequest(topics=(Selector("a"),), offsets=True, readers=True, records=True)
    removals = GroupRequest(groups=(Selector("g"),), activity=True)
    requests = planning_requests(ScanRequest(topics=(floors,), groups=(removals,)))
    redpanda = {1: (0, 11), 2: (0, 4), 3: (0, 7), 9: (0, 7), 10: (0, 3), 15: (0, 4), 16: (0, 4), 32: (0, 4)}
    (lacking,) = broker_version("b:1", redpanda, requests).lacking
    assert (lacking.name, lacking.first, lacking.breaks) == (
        "Metadata",
        10,
        "topics have no id: floors and elections are blocked",
    )
    assert broker_version("b:1", redpanda, planning_requests(ScanRequest(groups=(removals,)))).lacking == ()
    without_states = broker_version("b:1", {**redpanda, 16: (0, 3)}, planning_requests(ScanRequest(groups=(removals,))))
    assert [request.breaks for request in without_states.lacking] == [
        "the states of groups are not told: removals are blocked"
    ]
    assert planning_requests(ScanRequest()) == ()


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({}, None),
        ({1: {3: (0, 8)}, 2: {3: (0, 13)}}, None),
        ({1: {3: (0, 7)}, 2: {3: (0, 13)}}, "Metadata before version 8"),
        ({1: Unknown("no answer")}, None),
    ],
)
def test_brokers_that_do_not_tell_rights_refuse_none(versions: dict[int, Any], expected: str | None) -> None:
    """An answer without rights read as "no right", and the advice was to grant what was granted."""
    untold = find_untold(versions, "rights", *CLUSTER_RIGHTS)
    assert (untold is None) if expected is None else (untold is not None and expected in untold.reason)


def test_a_controller_is_no_broker() -> None:
    """It lists no topic. One that is not a controller, or does not answer, may be a broker."""
    controller = struct.pack(">ihi", 1, 0, 2) + struct.pack(">hhh", 18, 0, 4) + struct.pack(">hhh", 63, 0, 2)
    with server(struct.pack(">i", len(controller)) + controller) as address:
        cause = find_controllers(Connection((address,)), Deadline.after(10))
        assert cause is not None
        assert "a controller answered" in cause
        assert find_controllers(Connection((address, "127.0.0.1:1")), Deadline.after(10)) is None
