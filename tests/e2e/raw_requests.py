"""Creates groups and records that librdkafka cannot create, with the bytes of one request each.

A Connect group or a Streams-protocol group needs no worker and no library: the first member's
request defines the group for the coordinator. The functions also allow ids that librdkafka would
trim (blanks) or cut (null characters). Clients before message format 1, and some that people wrote
themselves, send records without a timestamp.
"""

import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest
from kafka.protocol.consumer import JoinGroupRequest, OffsetCommitRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.strategies.consumer_offsets import encode_compact, encode_string

_STREAMS_GROUP_HEARTBEAT = 88
NO_TIMESTAMP = -1
_NOT_YET = frozenset({3, 6, 14, 15, 16})
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""


def produce(servers: str, topic: str, stamps: Sequence[int], *, value: bytes = b"x") -> None:
    """Append one batch to partition 0 with a record for each timestamp, in epoch ms."""
    builder = DefaultRecordBatchBuilder(
        2, 0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=2**30
    )
    for number, stamp in enumerate(stamps):
        builder.append(number, stamp, None, value, [])
    data = [(topic, [(0, bytes(builder.build()))])]
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=data)
    # response: topics, its name, its partitions, its number, error
    _send(servers, _encode(request, 8), error_at=4 + len(encode_string(topic)) + 4 + 4)


def commit(servers: str, group: str, topic: str, partition: int, offset: int, metadata: bytes = b"") -> None:
    """Commit an offset of a group without members, with any id and metadata (OffsetCommit version 2)."""
    topics = [(topic, [(partition, offset, "?" * len(metadata))])]
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", retention_time_ms=-1, topics=topics
    )
    # The metadata is the last field, and need not be a text.
    request_bytes = _encode(request, 2).removesuffix(b"?" * len(metadata)) + metadata
    # response: topics, its name, its partitions, its number, error
    _send(servers, request_bytes, error_at=4 + len(encode_string(topic)) + 4 + 4)


def delete(servers: str, group: str) -> None:
    """Remove a group without members (DeleteGroups version 0)."""
    # response: throttle time, groups, its id, error
    _send(servers, _encode(DeleteGroupsRequest(groups_names=[group]), 0), error_at=4 + 4 + len(encode_string(group)))


def join_group(servers: str, group: str, protocol_type: str) -> None:
    """Join a classic group (JoinGroup version 2) and never send or fetch an assignment.

    The group completes no rebalance, and the member expires after ten seconds.
    """
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type=protocol_type,
        protocols=[("sessioned", b"")],
    )
    # response: throttle time, error
    _send(servers, _encode(request, 2), error_at=4)


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
    header = struct.pack(">hhi", _STREAMS_GROUP_HEARTBEAT, 0, 1) + encode_string("tests") + b"\x00"
    # response: tagged fields of the header, throttle time, error
    _send(servers, header + body, error_at=5)


def _encode(request: Any, version: int) -> bytes:
    """Return a request of kafka-python, with its header."""
    request.API_VERSION = version
    request.with_header(1, "tests")
    return bytes(request.encode(header=True))


def _send(servers: str, request: bytes, *, error_at: int) -> None:
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
    def receive_exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = connection.recv(size - len(data))
            assert chunk, "the broker closed the connection: it could not read the request"
            data += chunk
        return data

    (size,) = struct.unpack(">i", receive_exactly(4))
    return receive_exactly(size)
