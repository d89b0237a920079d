"""Creates groups that librdkafka cannot create, with the bytes of one request each.

A Connect group or a Streams-protocol group needs no worker and no library: the first member's
request defines the group for the coordinator. The functions also allow ids that librdkafka would
trim (blanks) or cut (null characters).
"""

import socket
import struct
import time

from tests.strategies.consumer_offsets import encode_compact, encode_string

_OFFSET_COMMIT, _JOIN_GROUP, _DELETE_GROUPS, _STREAMS_GROUP_HEARTBEAT = 8, 11, 42, 88
_NOT_YET = frozenset({3, 6, 14, 15, 16})
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""


def commit(servers: str, group: str, topic: str, partition: int, offset: int, metadata: bytes = b"") -> None:
    """Commit an offset of a group without members, with any id and metadata (OffsetCommit version 2)."""
    body = b"".join(
        (
            encode_string(group),
            struct.pack(">i", -1),
            encode_string(""),
            struct.pack(">qi", -1, 1),
            encode_string(topic),
            struct.pack(">iiqh", 1, partition, offset, len(metadata)),
            metadata,
        )
    )
    # response: topics, its name, its partitions, its number, error
    send(servers, header(_OFFSET_COMMIT, 2) + body, error_at=4 + len(encode_string(topic)) + 4 + 4)


def delete(servers: str, group: str) -> None:
    """Remove a group without members (DeleteGroups version 0)."""
    body = struct.pack(">i", 1) + encode_string(group)
    # response: throttle time, groups, its id, error
    send(servers, header(_DELETE_GROUPS, 0) + body, error_at=4 + 4 + len(encode_string(group)))


def join_group(servers: str, group: str, protocol_type: str) -> None:
    """Join a classic group (JoinGroup version 2) and never send or fetch an assignment.

    The group completes no rebalance, and the member expires after ten seconds.
    """
    body = b"".join(
        (
            encode_string(group),
            struct.pack(">ii", 10_000, 10_000),
            encode_string(""),
            encode_string(protocol_type),
            struct.pack(">i", 1),
            encode_string("sessioned"),
            struct.pack(">i", 0),
        )
    )
    # response: throttle time, error
    send(servers, header(_JOIN_GROUP, 2) + body, error_at=4)


def join_streams_group(servers: str, group: str, topic: str) -> None:
    """Join a Streams-protocol group that reads `topic` (KIP-1071, StreamsGroupHeartbeat version 0)."""
    subtopology = b"".join((encode_compact("0"), b"\x02", encode_compact(topic), b"\x01" * 5, b"\x00"))
    topology = b"".join((b"\x01", struct.pack(">i", 1), b"\x02", subtopology, b"\x00"))
    no_tasks = b"\x01" * 3  # active, standby and warm-up
    _send_streams_heartbeat(servers, group, 0, topology + no_tasks + encode_compact("process") + b"\xff\x01")


def leave_streams_group(servers: str, group: str) -> None:
    """Leave the group that `join_streams_group` joined. It stays, without members."""
    unchanged = b"\xff\x00\x00\x00\x00\xff\x00"  # topology, three sorts of tasks, process, endpoint, client tags
    _send_streams_heartbeat(servers, group, -1, unchanged)


def _send_streams_heartbeat(servers: str, group: str, epoch: int, state: bytes) -> None:
    """`state`: the fields from the topology to the client tags."""
    body = b"".join(
        (
            encode_compact(group),
            encode_compact("AAAAAAAAAAAAAAAAAAAAAQ"),
            struct.pack(">ii", epoch, 0),
            b"\x00",  # no instance id
            b"\x00",  # no rack
            struct.pack(">i", 10_000),
            state,
            b"\x00",  # no task offsets
            b"\x00",  # no task end offsets
            b"\x00",  # no shutdown
            b"\x00",
        )
    )
    # response: tagged fields of the header, throttle time, error
    send(servers, header(_STREAMS_GROUP_HEARTBEAT, 0) + b"\x00" + body, error_at=5)


def header(key: int, version: int) -> bytes:
    return struct.pack(">hhi", key, version, 1) + encode_string("tests")


def send(servers: str, request: bytes, *, error_at: int) -> None:
    """Send a request to one broker after the other until the group's coordinator, or the leader, accepts it."""
    deadline = time.monotonic() + 60
    while True:
        for server in servers.split(","):
            host, _, port = server.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                response = _receive(connection)
            (error,) = struct.unpack_from(">h", response, 4 + error_at)
            if error == 0:
                return
            assert error in _NOT_YET, f"error {error}: {response!r}"
        assert time.monotonic() < deadline, "no broker coordinates the group, or leads the partition"
        time.sleep(0.5)


def _receive(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        head = stream.read(4)
        assert head, "the broker closed the connection: it could not read the request"
        return stream.read(*struct.unpack(">i", head))
