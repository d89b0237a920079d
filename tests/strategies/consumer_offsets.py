"""Records of `__consumer_offsets`, written from the published layouts, independently of the reader."""

import struct
from dataclasses import dataclass

from hypothesis import strategies as st

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
offsets = st.integers(0, 2**62)
times = st.integers(0, 2**48)
epochs = st.integers(-1, 2**20)
topic_ids = st.binary(min_size=16, max_size=16).filter(any)


@dataclass(frozen=True)
class Commit:
    """A committed offset in the log. `topic_id` is None if the writer did not know it."""

    group: str
    topic: str
    partition: int
    offset: int
    epoch: int
    metadata: bytes
    commit_ms: int
    topic_id: bytes | None


commits = st.builds(
    Commit,
    group=names,
    topic=names,
    partition=st.integers(0, 2**31 - 1),
    offset=offsets,
    epoch=epochs,
    metadata=st.one_of(st.just(b""), st.binary(max_size=20), st.binary(min_size=130, max_size=200)),
    commit_ms=times,
    topic_id=st.one_of(st.none(), topic_ids),
)


def encode_string(text: str | bytes) -> bytes:
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack(">h", len(data)) + data


def encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def encode_compact(text: str | bytes | None) -> bytes:
    if text is None:
        return b"\0"
    data = text if isinstance(text, bytes) else text.encode()
    return encode_varint(len(data) + 1) + data


def encode_array(texts: list[str]) -> bytes:
    """Encode an array of strings, both compact."""
    return encode_varint(len(texts) + 1) + b"".join(map(encode_compact, texts))


def encode_tagged(fields: dict[int, bytes]) -> bytes:
    encoded = encode_varint(len(fields))
    for tag, data in sorted(fields.items()):
        encoded += encode_varint(tag) + encode_varint(len(data)) + data
    return encoded


def commit_key(commit: Commit, version: int = 1) -> bytes:
    head = struct.pack(">h", version) + encode_string(commit.group) + encode_string(commit.topic)
    return head + struct.pack(">i", commit.partition)


def group_key(version: int, group: str, suffix: bytes = b"") -> bytes:
    return struct.pack(">h", version) + encode_string(group) + suffix


def commit_value(commit: Commit, version: int, extra: dict[int, bytes] | None = None) -> bytes:
    """Encode a commit value of version 0 to 4.

    `extra` are tagged fields that a later writer may add to version 4.
    """
    encoded = struct.pack(">hq", version, commit.offset)
    if version >= 3:
        encoded += struct.pack(">i", commit.epoch)
    if version == 4:
        fields = dict(extra or {})
        if commit.topic_id is not None:
            fields[0] = commit.topic_id
        return encoded + encode_compact(commit.metadata) + struct.pack(">q", commit.commit_ms) + encode_tagged(fields)
    encoded += encode_string(commit.metadata) + struct.pack(">q", commit.commit_ms)
    return encoded + (struct.pack(">q", commit.commit_ms + 1) if version == 1 else b"")


def group_value(version: int, protocol_type: str) -> bytes:
    """Encode the start of a classic group's metadata: version and protocol type.

    The reader ignores the rest.
    """
    text = encode_compact(protocol_type) if version >= 4 else encode_string(protocol_type)
    return struct.pack(">h", version) + text + struct.pack(">i", 7)


def generation_value(
    version: int, subscriptions: list[list[str]], instance: str | None = None, *, assigns: bool = False
) -> bytes:
    """Encode a classic consumer group's metadata of version 0 to 4, with the subscription of each member.

    `assigns`: each has two partitions of `‹topic›-created` for each topic that it subscribes to.
    """
    is_flexible = version >= 4
    text = encode_compact if is_flexible else encode_string

    def data(value: bytes) -> bytes:
        return encode_compact(value) if is_flexible else struct.pack(">i", len(value)) + value

    encoded = group_value(version, "consumer") + text("range") + (b"\0" if is_flexible else b"\xff\xff")
    encoded += struct.pack(">q", 1) if version >= 2 else b""
    count = len(subscriptions)
    encoded += encode_varint(count + 1) if is_flexible else struct.pack(">i", count)
    for topics in subscriptions:
        encoded += text("member")
        if version >= 3:
            encoded += text(instance) if instance is not None else b"\0" if is_flexible else b"\xff\xff"
        encoded += text("client") + text("/127.0.0.1") + struct.pack(">i", 1) * (2 if version >= 1 else 1)
        names = b"".join(map(encode_string, topics))
        assigned = struct.pack(">hi", 1, len(topics)) + b"".join(
            encode_string(f"{topic}-created") + struct.pack(">iii", 2, 0, 1) for topic in topics
        )
        encoded += data(struct.pack(">hi", 3, len(topics)) + names + struct.pack(">i", -1))
        encoded += data(assigned + struct.pack(">i", -1) if assigns else b"")
        encoded += b"\0" if is_flexible else b""
    return encoded + (b"\0" if is_flexible else b"")


def topology_value(subtopologies: list[tuple[list[str], list[str]]], pattern: str | None = None) -> bytes:
    """Encode a value of key type 23: the topology of a Streams group, with source and repartition topics."""

    def internal(topics: list[str]) -> bytes:
        configs = b"\2" + encode_compact("cleanup.policy") + encode_compact("delete") + b"\0"
        each = (encode_compact(topic) + struct.pack(">ih", 2, 3) + configs + b"\0" for topic in topics)
        return encode_varint(len(topics) + 1) + b"".join(each)

    encoded = struct.pack(">hi", 0, 7) + encode_varint(len(subtopologies) + 1)
    for sources, repartition in subtopologies:
        encoded += encode_compact("0") + encode_array(sources) + encode_array([] if pattern is None else [pattern])
        encoded += internal(["app-store-changelog"]) + encode_array(["app-sink-repartition"]) + internal(repartition)
        encoded += b"\2" + b"\3" + struct.pack(">hh", 0, 1) + b"\1" + b"\1" + b"\0" + b"\0"
    return encoded + b"\0"


def consumer_member_value(
    topics: list[str], *, instance: str | None = None, pattern: str | None = "", tags: dict[int, bytes] | None = None
) -> bytes:
    """Encode a value of key type 5: the member of a consumer group (KIP-848), and what it subscribes to.

    `tags`: brokers write field 0, what a member of the classic protocol supports, or a null.
    """
    encoded = struct.pack(">h", 0) + encode_compact(instance) + b"\0" + encode_compact("client")
    encoded += encode_compact("/127.0.0.1") + encode_array(topics) + encode_compact(pattern)
    return encoded + struct.pack(">i", 300_000) + b"\0" + encode_tagged({0: b"\0"} if tags is None else tags)


def share_member_value(topics: list[str], *, rack: str | None = None) -> bytes:
    """Encode a value of key type 10: the member of a share group, and the topics that it subscribes to."""
    encoded = struct.pack(">h", 0) + encode_compact(rack) + encode_compact("client") + encode_compact("/127.0.0.1")
    return encoded + encode_array(topics) + encode_tagged({})


def share_state_value(initializing: dict[str, int], initialized: dict[str, int], deleting: list[str]) -> bytes:
    """Encode a value of key type 15: topics of a share group, with numbers of partitions."""
    encoded = struct.pack(">h", 0)
    for topics in (initializing, initialized):
        encoded += encode_varint(len(topics) + 1)
        for topic, count in topics.items():
            numbers = b"".join(struct.pack(">i", number) for number in range(count))
            encoded += bytes(16) + encode_compact(topic) + encode_varint(count + 1) + numbers + b"\0"
    encoded += encode_varint(len(deleting) + 1)
    encoded += b"".join(bytes(16) + encode_compact(topic) + b"\0" for topic in deleting)
    return encoded + encode_tagged({})
