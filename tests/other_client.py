"""Commits and members through kafka-python, and records of `__consumer_offsets`, read byte by byte.

The client of the program writes a NUL byte behind the metadata of a commit, and reads metadata
beyond its end. Its own words about metadata would prove nothing.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as Partition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError, NoError
from kafka.structs import OffsetAndMetadata

from reconciler.companions.sandbox.client import wait_until
from tests.kafka_client import read_to_end

LOG = "__consumer_offsets"

Offsets = Mapping[tuple[str, int], tuple[int, str | None]]
"""Offset and metadata by topic and partition."""


def commit(servers: str, groups: Mapping[str, Offsets]) -> None:
    """Commit offsets with metadata for groups without members."""
    admin = KafkaAdminClient(bootstrap_servers=servers.split(","))
    try:
        for group, offsets in groups.items():
            request = {
                Partition(*at): OffsetAndMetadata(offset, metadata, -1) for at, (offset, metadata) in offsets.items()
            }
            wait_until(partial(_is_committed, admin, group, request), 30, f"the commits of {group}")
    finally:
        admin.close()


class _OwnBytes(RangePartitionAssignor):
    """Assigns what no consumer's protocol has: the leader of a group may send any bytes."""

    name = "own-bytes"

    def assign(self, _cluster: object, members: Iterable[Any]) -> dict[str, Any]:
        return {member.member_id: self for member in members}

    def encode(self) -> bytes:
        return b"\xff\xff"


@contextmanager
def member_with_own_bytes(servers: str, group: str, topic: str) -> Iterator[None]:
    """A member whose assignment nobody can decode, itself included, during the block."""
    assignors = [_OwnBytes]
    consumer = KafkaConsumer(
        topic, bootstrap_servers=servers.split(","), group_id=group, partition_assignment_strategy=assignors
    )
    try:
        with suppress(struct.error):
            consumer.poll(timeout_ms=30_000)
        yield
    finally:
        consumer.close(autocommit=False)


def _is_committed(admin: KafkaAdminClient, group: str, request: Mapping[Partition, OffsetAndMetadata]) -> bool:
    """Whether every offset was taken. A new cluster has no coordinator yet, and a moving one names another."""
    try:
        return set(admin.alter_group_offsets(group, request).values()) == {NoError}
    except KafkaError as error:
        if not error.retriable:
            raise
        return False


def logged_commits(servers: str) -> dict[str, dict[tuple[str, int], tuple[int, bytes]]]:
    """Offset and metadata of the newest commit record of each group and partition; none for a tombstone."""
    groups: dict[str, dict[tuple[str, int], tuple[int, bytes]]] = {}
    for record in read_to_end(servers, LOG, isolation="read_uncommitted"):
        key, value = record.key(), record.value()
        if key[:2] not in (b"\0\0", b"\0\1"):
            continue
        fields = BytesIO(key[2:])
        group, topic = (fields.read(*struct.unpack(">h", fields.read(2))).decode() for _ in range(2))
        at = topic, *struct.unpack(">i", fields.read(4))
        if value is None:
            groups.get(group, {}).pop(at, None)
        else:
            groups.setdefault(group, {})[at] = _commit_of(value)
    return groups


def _commit_of(value: bytes) -> tuple[int, bytes]:
    """OffsetCommitValue of Kafka: a compact string since version 4, and a leader epoch since 3."""
    version, offset = struct.unpack_from(">hq", value)
    fields = BytesIO(value[14 if version >= 3 else 10 :])
    if version < 4:
        return offset, fields.read(*struct.unpack(">h", fields.read(2)))
    size = shift = 0
    while (byte := fields.read(1)[0]) >= 0x80:
        size |= (byte & 0x7F) << shift
        shift += 7
    return offset, fields.read((size | byte << shift) - 1)
