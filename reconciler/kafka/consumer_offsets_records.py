"""Decodes one record of `__consumer_offsets`: key types and value versions of the broker's schemas.

Pure functions over bytes. Bytes that do not fit their layout exactly give MalformedRecord, an unknown
key type gives UnknownKey. Neither is fatal; the reader counts both.

Layouts: Apache Kafka, group-coordinator/src/main/resources/common/message (OffsetCommitKey, OffsetCommitValue, GroupMetadataKey,
GroupMetadataValue and the Consumer-, Share- and StreamsGroup*Key files).
"""

import base64
import struct
from dataclasses import dataclass

from reconciler.model.snapshot import GroupType

_INT16 = struct.Struct(">h")
_INT64 = struct.Struct(">q")
_OFFSET_AND_EPOCH = struct.Struct(">qi")
NO_TOPIC_ID = bytes(16)
_TOPIC_ID_TAG = 0

_CONSUMER = frozenset({3, 4, 5, 6, 7, 8, 16})
_SHARE = frozenset(range(9, 16))
_STREAMS = frozenset(range(17, 24))


@dataclass(frozen=True, slots=True)
class CommitKey:
    """Key types 0 and 1: the position of a group on a partition."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Every other known key type: facts of a group. `type` None: the value of the classic metadata tells."""

    group: str
    type: GroupType | None


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A key type that this program does not know. `group`: its first string, with which all types start."""

    version: int
    group: str | None


@dataclass(frozen=True, slots=True)
class MalformedRecord:
    """Bytes that do not fit their layout."""

    reason: str


@dataclass(frozen=True, slots=True)
class CommitValue:
    """A committed offset. `topic_id`: 16 bytes; NO_TOPIC_ID: the record has none."""

    offset: int
    commit_ms: int
    topic_id: bytes


Key = CommitKey | GroupKey | UnknownKey | MalformedRecord


def decode_key(data: bytes) -> Key:
    """The key of one record. Never raises."""
    try:
        (version,) = _INT16.unpack_from(data, 0)
        if version in (0, 1):
            return _commit_key(data)
        if version == 2 or version in _CONSUMER or version in _SHARE or version in _STREAMS:
            group, at = _string(data, 2)
            if version == 2 and at != len(data):
                return MalformedRecord("bytes after the key")
            return GroupKey(group, _type_of(version))
        return UnknownKey(version, _first_string(data))
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        return MalformedRecord(str(error))


def decode_commit(data: bytes) -> CommitValue | MalformedRecord:
    """The value of a commit record, versions 0 to 4. Never raises. Later versions are malformed.

    Version 4 is flexible: with the layout of version 3 it yields plausible, wrong numbers.
    """
    try:
        (version,) = _INT16.unpack_from(data, 0)
        if version == 4:
            return _flexible_commit(data)
        if version not in (0, 1, 2, 3):
            return MalformedRecord(f"commit value version {version}")
        if version == 3:
            offset, _epoch = _OFFSET_AND_EPOCH.unpack_from(data, 2)
            at = 14
        else:
            (offset,) = _INT64.unpack_from(data, 2)
            at = 10
        _metadata, at = _string(data, at)
        (commit_ms,) = _INT64.unpack_from(data, at)
        at += 16 if version == 1 else 8
        return (
            CommitValue(offset, commit_ms, NO_TOPIC_ID)
            if at == len(data)
            else MalformedRecord("the value has another length")
        )
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        return MalformedRecord(str(error))


def decode_protocol_type(data: bytes) -> str | MalformedRecord:
    """The protocol type of a classic group: `consumer`, `connect` or empty. From the value of key type 2."""
    try:
        (version,) = _INT16.unpack_from(data, 0)
        if version < 0:
            return MalformedRecord(f"group metadata version {version}")
        return (_compact_string(data, 2) if version >= 4 else _string(data, 2))[0]
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        return MalformedRecord(str(error))


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


def _commit_key(data: bytes) -> CommitKey | MalformedRecord:
    """Without `_string`: most records are commits, and each call less is visible in the scan's time."""
    at = 4 + (data[2] << 8 | data[3]) if len(data) > 4 else 0
    topic_at = at + 2
    end = topic_at + (data[at] << 8 | data[at + 1]) if 0 < at < len(data) - 1 else 0
    if end == 0 or end + 4 != len(data) or data[2] > 127 or data[at] > 127:
        return MalformedRecord("the key has another length")
    partition = int.from_bytes(data[end:], signed=True)
    return CommitKey(data[4:at].decode(), data[topic_at:end].decode(), partition)


def _flexible_commit(data: bytes) -> CommitValue | MalformedRecord:
    offset, _epoch = _OFFSET_AND_EPOCH.unpack_from(data, 2)
    _metadata, at = _compact_string(data, 14)
    (commit_ms,) = _INT64.unpack_from(data, at)
    tags, at = _varint(data, at + 8)
    topic_id = NO_TOPIC_ID
    for _ in range(tags):
        tag, at = _varint(data, at)
        size, at = _varint(data, at)
        if at + size > len(data):
            return MalformedRecord("a tagged field ends after the value")
        if tag == _TOPIC_ID_TAG:
            if size != len(NO_TOPIC_ID):
                return MalformedRecord(f"a topic id of {size} bytes")
            topic_id = data[at : at + size]
        at += size
    return CommitValue(offset, commit_ms, topic_id) if at == len(data) else MalformedRecord("bytes after the value")


def _type_of(version: int) -> GroupType | None:
    if version == 2:
        return None
    if version in _CONSUMER:
        return GroupType.CONSUMER
    return GroupType.SHARE if version in _SHARE else GroupType.STREAMS


def _string(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _INT16.unpack_from(data, at)
    return _text(data, at + 2, size)


def _compact_string(data: bytes, at: int) -> tuple[str, int]:
    size, at = _varint(data, at)
    return _text(data, at, size - 1)


def _text(data: bytes, at: int, size: int) -> tuple[str, int]:
    if size < 0:
        raise ValueError("a string that may not be null is null")
    if at + size > len(data):
        raise ValueError("a string ends after the record")
    return data[at : at + size].decode(), at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Unsigned, at most five bytes."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            raise ValueError("a varint ends after the record")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a varint of more than five bytes")


def _first_string(data: bytes) -> str | None:
    try:
        return _string(data, 2)[0]
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
