"""Decodes one record of `__consumer_offsets`: key types and value versions of the broker's schemas.

Pure functions over bytes. Bytes that do not fit their layout exactly raise ValueError; the reader
counts them.

Layouts: Apache Kafka, group-coordinator/src/main/resources/common/message (OffsetCommitKey, OffsetCommitValue, GroupMetadataKey,
GroupMetadataValue and the Consumer-, Share- and StreamsGroup*Key files).
"""

import base64
from collections.abc import Mapping
from typing import NamedTuple

from reconciler.model.snapshot import GroupType

NO_TOPIC_ID = bytes(16)
_TOPIC_ID_TAG = 0

GROUP_TYPES: Mapping[int, GroupType | None] = {
    2: None,
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), GroupType.CONSUMER),
    **dict.fromkeys(range(9, 16), GroupType.SHARE),
    **dict.fromkeys(range(17, 24), GroupType.STREAMS),
}
"""Known key types with facts of a group. None: the value of the classic metadata tells its type."""


class RecordKey(NamedTuple):
    """A key. Types 0 and 1 are the position of a group on a partition; only they have a topic.

    `group` None: a key type that this program does not know, and that does not begin with a string.
    """

    version: int
    group: str | None
    topic: str = ""
    partition: int = -1


class CommitValue(NamedTuple):
    """A committed offset. `topic_id`: 16 bytes; NO_TOPIC_ID: the record has none."""

    offset: int
    commit_ms: int
    topic_id: bytes


def decode_key(data: bytes) -> RecordKey:
    """Decode the key of one record."""
    if data[:2] in (b"\0\0", b"\0\1"):
        # Without _Fields: most records are commits, and each call less is visible in the scan's time.
        at = 4 + int.from_bytes(data[2:4])
        end = at + 2 + int.from_bytes(data[at : at + 2])
        if end + 4 != len(data):
            raise ValueError("the key has another length")
        partition = int.from_bytes(data[end:], signed=True)
        return RecordKey(data[1], data[4:at].decode(), data[at + 2 : end].decode(), partition)
    fields = _Fields(data)
    version = fields.integer(2)
    try:
        key = RecordKey(version, fields.string())
    except ValueError:
        if version in GROUP_TYPES:
            raise
        return RecordKey(version, None)
    if version == 2:
        fields.end()
    return key


def decode_commit(data: bytes) -> CommitValue:
    """Decode the value of a commit record, versions 0 to 4.

    Version 4 is flexible: with the layout of version 3 it yields plausible, wrong numbers.
    """
    fields = _Fields(data)
    version = fields.integer(2)
    if not 0 <= version <= 4:
        raise ValueError(f"commit value version {version}")
    offset = fields.integer(8)
    if version >= 3:
        fields.integer(4)  # leader epoch
    fields.string(compact=version == 4)  # metadata
    commit_ms = fields.integer(8)
    if version == 1:
        fields.integer(8)  # expiry
    topic_id = NO_TOPIC_ID
    for _ in range(fields.varint() if version == 4 else 0):
        tag, value = fields.varint(), fields.take(fields.varint())
        if tag == _TOPIC_ID_TAG:
            topic_id = value
    fields.end()
    if len(topic_id) != len(NO_TOPIC_ID):
        raise ValueError(f"a topic id of {len(topic_id)} bytes")
    return CommitValue(offset, commit_ms, topic_id)


def decode_protocol_type(data: bytes) -> str:
    """The protocol type of a classic group: `consumer`, `connect` or empty. From the value of key type 2."""
    fields = _Fields(data)
    version = fields.integer(2)
    if version < 0:
        raise ValueError(f"group metadata version {version}")
    return fields.string(compact=version >= 4)


def log_partition(group: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that holds a group; its leader is the group's coordinator.

    The broker's computation: Java's hash of the id, modulo the number of partitions.
    """
    value = 0
    encoded = group.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    # Java's Math.abs of the smallest int is itself, and the broker takes 0 for it.
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def topic_id_text(topic_id: bytes) -> str | None:
    """A topic id in the spelling of Kafka: base64, URL-safe, unpadded."""
    return None if topic_id == NO_TOPIC_ID else base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


class _Fields:
    """Takes the fields of a record one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        field = self._data[self._at : self._at + size] if size >= 0 else b""
        if len(field) != size:
            raise ValueError("a field is null, or ends after the record")
        self._at += size
        return field

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), signed=True)

    def varint(self) -> int:
        """Unsigned, at most five bytes."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a varint of more than five bytes")

    def string(self, *, compact: bool = False) -> str:
        return self.take(self.varint() - 1 if compact else self.integer(2)).decode()

    def end(self) -> None:
        if self._at != len(self._data):
            raise ValueError("bytes after the record")
