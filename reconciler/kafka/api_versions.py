"""Reads which versions of which requests each broker supports (KIP-35, ApiVersions).

Decided here: whether brokers can tell the types of groups. No call of the client library tells
versions. A broker answers ApiVersions before a login, so the request has a connection of its own.
"""

import struct
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from reconciler.kafka.connect import Connection, open_socket, tls_context
from reconciler.kafka.futures import Deadline
from reconciler.model.snapshot import Cause, Unknown
from reconciler.text.redact import redact

ApiVersions = Mapping[int, tuple[int, int]]
"""Key of a request → its first and last version on a broker."""

FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
_API_VERSIONS = 18
_BROKER_HEARTBEAT = 63
CONSUMER_GROUP_DESCRIBE = 69
_HEARTBEATS = (68, 76, 88)
"""Of members of consumer groups, share groups and Streams groups (KIP-848, KIP-932, KIP-1071)."""
_WITH_TYPES = 5
"""The version of ListGroups from which on it tells types (KIP-848, Kafka 3.8)."""
_THREADS = 8
_LARGEST = 1 << 16
_CLIENT_ID = b"kafka-reconciler"


def read_api_versions(
    connection: Connection, addresses: Mapping[int, str], deadline: Deadline
) -> dict[int, ApiVersions | Unknown]:
    """Return the versions of each broker, by its number. `addresses`: HOST:PORT of each.

    Unknown: it did not answer by the deadline, or its listener needs a client certificate that
    Python cannot load. Needs no right.
    """
    if not addresses:
        return {}
    with ThreadPoolExecutor(min(_THREADS, len(addresses))) as threads:
        answers = threads.map(lambda address: _ask(connection, address, deadline), addresses.values())
        return dict(zip(addresses, answers, strict=True))


def tell_no_types(versions: Mapping[int, ApiVersions | Unknown]) -> bool:
    """Whether every broker has answered and none knows types of groups, as up to Kafka 3.7.

    False in a cluster of mixed versions, and for a broker that did not answer.
    """
    return bool(versions) and all(
        not isinstance(of_broker, Unknown)
        and CONSUMER_GROUP_DESCRIBE not in of_broker
        and of_broker.get(LIST_GROUPS, (0, _WITH_TYPES))[1] < _WITH_TYPES
        for of_broker in versions.values()
    )


def know_classic_only(versions: Mapping[int, ApiVersions | Unknown]) -> bool:
    """Whether every broker has answered and none knows another protocol for members, as up to Kafka 3.6."""
    return bool(versions) and all(
        not isinstance(of_broker, Unknown) and of_broker.keys().isdisjoint(_HEARTBEATS)
        for of_broker in versions.values()
    )


def is_kafka_4(versions: ApiVersions) -> bool:
    """Whether a broker is of Kafka 4.0 or later, which has no version of Fetch below 4 (KIP-896)."""
    return versions.get(FETCH, (0, 0))[0] >= 4


def find_untold(
    versions: Mapping[int, ApiVersions | Unknown], what: str, name: str, key: int, first: int
) -> Unknown | None:
    """Why answers lack `what`; None: no broker is known to leave it out.

    `first`: the version of the request from which on its answer has it: rights (KIP-430), the newest
    timestamp (KIP-734).
    """
    for of_broker in versions.values():
        if not isinstance(of_broker, Unknown) and of_broker.get(key, (0, 0))[1] < first:
            return Unknown(f"the brokers do not tell {what} ({name} before version {first})")
    return None


def find_controllers(connection: Connection, deadline: Deadline) -> str | None:
    """Return why no bootstrap server is a broker; None: one may be.

    A controller answers ApiVersions, and no request for metadata (KIP-631).
    """
    servers = dict(enumerate(connection.bootstrap_servers))
    for versions in read_api_versions(connection, servers, deadline).values():
        if isinstance(versions, Unknown) or METADATA in versions or _BROKER_HEARTBEAT not in versions:
            return None
    return "a controller answered, and no broker; name the listener of brokers in bootstrapServers of the Cluster"


def _ask(connection: Connection, address: str, deadline: Deadline) -> ApiVersions | Unknown:
    try:
        with open_socket(address, deadline.request_timeout_s, tls_context(connection.properties)) as connected:
            connected.sendall(_request())
            with connected.makefile("rb") as stream:
                return _parse(_read(stream, struct.unpack(">i", _read(stream, 4))[0]))
    except (OSError, ValueError, struct.error) as error:
        return Unknown(f"the API versions of {address}: {redact(str(error))}", Cause.NO_ANSWER)


def _request() -> bytes:
    """ApiVersions version 0, which every Kafka answers, with request header 1."""
    body = struct.pack(">hhih", _API_VERSIONS, 0, 1, len(_CLIENT_ID)) + _CLIENT_ID
    return struct.pack(">i", len(body)) + body


def _read(stream: BinaryIO, size: int) -> bytes:
    """Return exactly `size` bytes. Raises OSError where the connection ends before, ValueError for a nonsensical size."""
    if not 0 <= size <= _LARGEST:
        raise ValueError("the answer is not from a Kafka broker")
    data = stream.read(size)
    if len(data) < size:
        raise ConnectionError("the broker closed the connection")
    return data


def _parse(answer: bytes) -> ApiVersions | Unknown:
    correlation, error, count = struct.unpack_from(">ihi", answer)
    if correlation != 1 or error != 0:
        return Unknown(f"the broker refused ApiVersions with error {error}")
    rows = struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])
    return {key: (low, high) for key, low, high in rows}
