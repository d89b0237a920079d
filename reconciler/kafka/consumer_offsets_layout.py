"""Decodes the keys and values of `__consumer_offsets`. Bytes that do not fit exactly raise ValueError.

Layouts: Apache Kafka, group-coordinator/src/main/resources/common/message (OffsetCommit*,
GroupMetadata*, and Consumer-, Share-, StreamsGroup*), and ConsumerProtocol*.
"""

import base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

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
    version = fields.version
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
    fields = _Fields(data, compact_from=4)
    version = fields.version
    if not 0 <= version <= 4:
        raise ValueError(f"commit value version {version}")
    offset = fields.integer(8)
    if version >= 3:
        fields.take(4)  # leader epoch
    metadata = fields.string()
    commit_ms = fields.integer(8)
    if version == 1:
        fields.take(8)  # expiry
    topic_id = NO_TOPIC_ID
    for _ in range(fields.varint() if fields.compact else 0):
        tag, value = fields.varint(), fields.take(fields.varint())
        if tag == _TOPIC_ID_TAG:
            topic_id = value
    fields.end()
    if len(topic_id) != len(NO_TOPIC_ID):
        raise ValueError(f"a topic id of {len(topic_id)} bytes")
    return CommitValue(offset, commit_ms, topic_id, metadata)


_TOPIC, _TEXT, _NULLABLE_TEXT, _REFUSED, _NO_PATTERN = "topic", "text", "nullable text", "refused", "no pattern"
_Layout = Sequence[Any]
"""The fields of a value in their order: one of these texts, so many bytes, or a list: an array of such fields.

_REFUSED: what is there does not tell all topics. _NO_PATTERN: a nullable text, refused unless it is empty.
"""

_CONSUMER_MEMBER: _Layout = [
    *(_NULLABLE_TEXT, _NULLABLE_TEXT, _TEXT, _TEXT),  # instance id, rack, client id, host
    [_TOPIC],
    _NO_PATTERN,
    *(4, _NULLABLE_TEXT),  # rebalance timeout, assignor
]
_CLASSIC_MEMBER_TAG = 0

_SHARE_MEMBER: _Layout = [_NULLABLE_TEXT, _TEXT, _TEXT, [_TOPIC]]  # rack, client id, host, subscribed topics
# Initializing, initialized and deleting: topic id, name, partitions.
_SHARE_STATE: _Layout = [[16, _TOPIC, [4]], [16, _TOPIC, [4]], [16, _TOPIC]]
_SUBTOPOLOGY: _Layout = [
    _TEXT,  # id
    [_TOPIC],
    [_REFUSED],  # patterns of topics
    [_TEXT, 6, [_TEXT, _TEXT]],  # changelogs: what restores a state has no position
    [_TEXT],  # repartition topics that it writes
    [_TOPIC, 6, [_TEXT, _TEXT]],  # repartition topics: name, partitions and replication factor, configs
    [[2], [2], [2]],  # copartitioned sources
]
_TOPOLOGY: _Layout = [4, _SUBTOPOLOGY]  # epoch, subtopologies


def _decode_topics(layout: _Layout, data: bytes, *, tags: Collection[int] = ()) -> set[str]:
    """Decode the topics in a value of version 0 with this layout. `tags`: of tagged fields that tell no topic."""
    fields = _Fields(data, compact_from=0)
    if fields.version != 0:
        raise ValueError(f"version {fields.version} of a value")
    topics = set(fields.topics(layout))
    fields.no_tags(tags)
    fields.end()
    return topics


def _decode_generation(data: bytes) -> set[str]:
    """Decode the topics of the last generation of a classic consumer group, from a value of key type 2.

    Subscribed and assigned ones: Kafka Streams assigns topics that it has just created. Raises
    ValueError where the generation has no member, too.
    """
    fields = _Fields(data, compact_from=4)
    version = fields.version
    if not 0 <= version <= 4 or fields.string() != b"consumer":
        raise ValueError("no generation of consumers")
    since = [8] if version >= 2 else []
    list(fields.topics([4, _NULLABLE_TEXT, _NULLABLE_TEXT, *since]))  # generation, protocol, leader
    instance_id = [_NULLABLE_TEXT] if version >= 3 else []
    timeouts = 8 if version >= 1 else 4
    topics: set[str] = set()
    for _ in range(fields.length()):
        list(fields.topics([_TEXT, *instance_id, _TEXT, _TEXT, timeouts]))  # member id, client id, host
        subscription, assignment = (fields.take(fields.length()) for _ in range(2))
        topics.update(_Fields(subscription).topics([[_TOPIC]]))
        if assignment:  # empty: the member got nothing
            topics.update(_Fields(assignment).topics([[_TOPIC, [4]]]))
        fields.no_tags()
    fields.no_tags()
    fields.end()
    if not topics:
        raise ValueError("the group has no member")
    return topics


SUBSCRIPTIONS: Mapping[int, Callable[[bytes], set[str]]] = {
    2: _decode_generation,
    5: partial(_decode_topics, _CONSUMER_MEMBER, tags=(_CLASSIC_MEMBER_TAG,)),
    9: partial(_decode_topics, [_REFUSED]),  # of Kafka 4.0, where no key of topics survives the members
    10: partial(_decode_topics, _SHARE_MEMBER),
    11: partial(_decode_topics, [4, 8]),  # epoch, and what Kafka 4.0 lacks: a hash of metadata
    15: partial(_decode_topics, _SHARE_STATE),
    23: partial(_decode_topics, _TOPOLOGY),
}
"""Key types that say what a group reads, and what decodes the topics in their values.

5 and 10: what a member of a consumer or share group subscribes to; 15: on what the group has a position, gets one or loses
one; no release after 4.0 writes 9. 11 shows that it would have a key 15. 23: the source and repartition topics of a Streams group.
"""


def decode_protocol_type(data: bytes) -> str:
    """The protocol type in a value of key type 2: `consumer`, `connect` or empty."""
    fields = _Fields(data, compact_from=4)
    if fields.version < 0:
        raise ValueError(f"group metadata version {fields.version}")
    return fields.string().decode()


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
    """Takes the fields of a record one after another, which begins with its version.

    `compact_from`: the first version with the lengths and tagged fields of KIP-482.
    """

    def __init__(self, data: bytes, *, compact_from: int = 1 << 15) -> None:
        super().__init__(data)
        self.version = self.integer(2)
        self.compact = self.version >= compact_from

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

    def string(self) -> bytes:
        return self.take(self.length(2))

    def length(self, size: int = 4) -> int:
        """Of an array or of bytes, or with a size of 2 of a string, which is not null."""
        length = self.varint() - 1 if self.compact else self.integer(size)
        if length < 0:
            raise ValueError("a field is null, or the record has another layout")
        return length

    def topics(self, layout: _Layout) -> Iterator[str]:
        """Take these fields, and yield the topics among them."""
        for part in layout:
            if isinstance(part, int):
                self.take(part)
            elif part == _TEXT:
                self.string()
            elif part in (_NULLABLE_TEXT, _NO_PATTERN):
                text = self.take(max(0, self.varint() - 1 if self.compact else self.integer(2)))
                if text and part == _NO_PATTERN:
                    raise ValueError("a consumer that reads topics by a pattern")
            elif part == _TOPIC:
                yield self.string().decode()
            elif part == _REFUSED:
                raise ValueError("a Streams group that reads topics by a pattern, or a share group of Kafka 4.0")
            else:
                for _ in range(self.length()):
                    yield from self.topics(part)
                    if len(part) > 1:
                        self.no_tags()

    def no_tags(self, known: Collection[int] = ()) -> None:
        """Raise ValueError for other tagged fields than `known`, which may change what the others mean."""
        for _ in range(self.varint() if self.compact else 0):
            if self.varint() not in known:
                raise ValueError("unknown tagged fields")
            self.take(self.varint())

    def end(self) -> None:
        if self.read():
            raise ValueError("bytes after the record")
