"""Decodes the keys and values of `__consumer_offsets`. Bytes that do not fit exactly raise ValueError.

Layouts: Apache Kafka, group-coordinator/src/main/resources/common/message (OffsetCommit*,
GroupMetadata*, and Consumer-, Share-, StreamsGroup*), and ConsumerProtocol*.
"""

import base64
from collections.abc import Iterator, Mapping
from io import BytesIO
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
    """A committed offset. `topic_id`: 16 bytes; NO_TOPIC_ID: the record has none.

    `metadata`: as a client sent it, which need not be UTF-8.
    """

    offset: int
    commit_ms: int
    topic_id: bytes
    metadata: bytes


def decode_key(data: bytes) -> RecordKey:
    """Decode the key of one record."""
    if data[:2] in (b"\0\0", b"\0\1"):
        # Without _Fields: most records are commits, and each call costs visible time.
        at = 4 + int.from_bytes(data[2:4])
        end = at + 2 + int.from_bytes(data[at : at + 2])
        if end + 4 != len(data):
            raise ValueError("the key has another length")
        partition = int.from_bytes(data[end:], signed=True)
        return RecordKey(data[1], data[4:at].decode(), data[at + 2 : end].decode(), partition)
    fields = _Fields(data)
    version = fields.integer(2)
    try:
        key = RecordKey(version, fields.string().decode())
    except ValueError:
        if version in GROUP_TYPES:
            raise
        return RecordKey(version, None)
    if version == 2:
        fields.end()
    return key


def decode_commit(data: bytes) -> CommitValue:
    """Decode a commit's value, versions 0 to 4: read as 3, version 4 yields wrong numbers."""
    fields = _Fields(data)
    version = fields.integer(2)
    if not 0 <= version <= 4:
        raise ValueError(f"commit value version {version}")
    offset = fields.integer(8)
    if version >= 3:
        fields.integer(4)  # leader epoch
    metadata = fields.string(compact=version == 4)
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
    return CommitValue(offset, commit_ms, topic_id, metadata)


def decode_share_member(data: bytes) -> set[str]:
    """Decode the topics that a member of a share group subscribes to, from a value of key type 10."""
    fields = _Fields(data)
    if fields.integer(2) != 0:
        raise ValueError("an unknown version of the member of a share group")
    fields.nullable()  # rack
    fields.string(compact=True)  # client id
    fields.string(compact=True)  # host
    topics = {fields.string(compact=True).decode() for _ in range(fields.length())}
    fields.no_tags()
    fields.end()
    return topics


def decode_share_state(data: bytes) -> set[str]:
    """Decode the topics that a share group has a position on, gets one on or loses one on: key type 15."""
    fields = _Fields(data)
    if fields.integer(2) != 0:
        raise ValueError("an unknown version of the topics of a share group")
    topics = set()
    for has_partitions in (True, True, False):  # initializing, initialized, deleting
        for _ in range(fields.length()):
            fields.take(16)  # topic id
            topics.add(fields.string(compact=True).decode())
            if has_partitions:
                fields.take(4 * fields.length())
            fields.no_tags()
    fields.no_tags()
    fields.end()
    return topics


def _decode_early_share_state(_data: bytes) -> set[str]:
    """Raise ValueError: Kafka 4.0, an early access, has no key that survives the members."""
    raise ValueError("a share group of Kafka 4.0")


def decode_generation(data: bytes) -> set[str]:
    """Decode the topics of the last generation of a classic consumer group, from a value of key type 2.

    Subscribed and assigned ones: Kafka Streams assigns topics that it has just created. Raises
    ValueError where the generation has no member, too.
    """
    fields = _Fields(data)
    version = fields.integer(2)
    compact = version >= 4
    if not 0 <= version <= 4 or fields.string(compact=compact) != b"consumer":
        raise ValueError("no generation of consumers")
    fields.integer(4)
    fields.nullable(compact=compact)  # protocol
    fields.nullable(compact=compact)  # leader
    if version >= 2:
        fields.integer(8)  # since when
    topics = set()
    for _ in range(fields.length() if compact else fields.integer(4)):
        fields.string(compact=compact)  # member id
        if version >= 3:
            fields.nullable(compact=compact)  # group instance id
        fields.string(compact=compact)  # client id
        fields.string(compact=compact)  # host
        fields.take(8 if version >= 1 else 4)  # timeouts
        subscription, assignment = (fields.take(fields.length() if compact else fields.integer(4)) for _ in range(2))
        subscribed = _Fields(subscription)
        subscribed.integer(2)
        topics |= {subscribed.string().decode() for _ in range(subscribed.integer(4))}
        assigned = _Fields(assignment or bytes(6))  # empty: the member got nothing
        assigned.integer(2)
        for _ in range(assigned.integer(4)):
            topics.add(assigned.string().decode())
            assigned.take(4 * assigned.integer(4))
        if compact:
            fields.no_tags()
    if compact:
        fields.no_tags()
    fields.end()
    if not topics:
        raise ValueError("the group has no member")
    return topics


def decode_topology(data: bytes) -> set[str]:
    """Decode the source and repartition topics of a Streams group, from a value of key type 23.

    Raises ValueError for a pattern, too. Without changelogs: what restores a state has no position.
    """
    fields = _Fields(data)
    if fields.integer(2) != 0:
        raise ValueError("an unknown version of the topology of a Streams group")
    fields.integer(4)  # epoch
    topics = set()

    def internal_topics() -> Iterator[str]:
        for _ in range(fields.length()):
            yield fields.string(compact=True).decode()
            fields.take(6)  # partitions, replication factor
            for _ in range(fields.length()):
                fields.string(compact=True)
                fields.string(compact=True)
                fields.no_tags()
            fields.no_tags()

    for _ in range(fields.length()):
        fields.string(compact=True)  # subtopology id
        topics |= {fields.string(compact=True).decode() for _ in range(fields.length())}
        if fields.length():
            raise ValueError("a Streams group that reads topics by a pattern")
        list(internal_topics())  # changelogs
        for _ in range(fields.length()):
            fields.string(compact=True)  # a repartition topic that it writes
        topics.update(internal_topics())
        for _ in range(fields.length()):
            for _ in range(3):
                fields.take(2 * fields.length())  # copartitioned sources
            fields.no_tags()
        fields.no_tags()
    fields.no_tags()
    fields.end()
    return topics


SUBSCRIPTIONS = {
    2: decode_generation,
    9: _decode_early_share_state,
    10: decode_share_member,
    15: decode_share_state,
    23: decode_topology,
}
"""Key types that say what a group reads. No release after 4.0 writes 9."""


def decode_protocol_type(data: bytes) -> str:
    """The protocol type in a value of key type 2: `consumer`, `connect` or empty."""
    fields = _Fields(data)
    version = fields.integer(2)
    if version < 0:
        raise ValueError(f"group metadata version {version}")
    return fields.string(compact=version >= 4).decode()


def log_partition(group: str, partitions: int) -> int:
    """A group's partition of `__consumer_offsets`: Java's hash of its id, modulo `partitions`."""
    value = 0
    encoded = group.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    # Java's Math.abs of the smallest int is itself, and the broker takes 0 for it.
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def encode_topic_id(topic_id: bytes) -> str | None:
    """Return a topic id in the spelling of Kafka: base64, URL-safe, unpadded. None: there is none."""
    return None if topic_id == NO_TOPIC_ID else base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


class _Fields(BytesIO):
    """Takes the fields of a record one after another."""

    def take(self, size: int) -> bytes:
        field = self.read(max(0, size))
        if len(field) != size:
            raise ValueError("a field is null, or ends after the record")
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

    def string(self, *, compact: bool = False) -> bytes:
        return self.take(self.length() if compact else self.integer(2))

    def length(self) -> int:
        """Of a compact array or string, which is not null."""
        length = self.varint() - 1
        if length < 0:
            raise ValueError("a field is null")
        return length

    def nullable(self, *, compact: bool = True) -> None:
        """Skip a string that may be null."""
        self.take(max(0, self.varint() - 1 if compact else self.integer(2)))

    def no_tags(self) -> None:
        """Raise ValueError for tagged fields, which may change what the others mean."""
        if self.varint():
            raise ValueError("unknown tagged fields")

    def end(self) -> None:
        if self.read():
            raise ValueError("bytes after the record")
