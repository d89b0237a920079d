"""The decoder of __consumer_offsets against an independent encoder and arbitrary bytes; the partition of a group."""

import base64
import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.kafka.consumer_offsets_layout import (
    GROUP_TYPES,
    NO_TOPIC_ID,
    SUBSCRIPTIONS,
    CommitValue,
    RecordKey,
    decode_commit,
    decode_key,
    decode_protocol_type,
    encode_topic_id,
    log_partition,
)
from reconciler.model.snapshot import GroupType
from tests.strategies.consumer_offsets import (
    Commit,
    commit_key,
    commit_value,
    commits,
    consumer_member_value,
    generation_value,
    group_key,
    group_value,
    names,
    share_member_value,
    share_state_value,
    topology_value,
)

TYPES = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), GroupType.CONSUMER),
    **dict.fromkeys(range(9, 16), GroupType.SHARE),
    **dict.fromkeys(range(17, 24), GroupType.STREAMS),
    2: None,
}
decode_generation, decode_consumer_member, decode_share_member, decode_share_state, decode_topology = (
    SUBSCRIPTIONS[key] for key in (2, 5, 10, 15, 23)
)
PLAIN = Commit("g", "t", 0, 5, -1, b"", 1_000, b"\x01" * 16)


@given(commits, st.sampled_from([0, 1]))
def test_decoder_reads_every_commit_key(commit: Commit, version: int) -> None:
    """A commit's key of either version gives back group, topic and partition."""
    assert decode_key(commit_key(commit, version)) == RecordKey(version, commit.group, commit.topic, commit.partition)


@given(names, st.sampled_from(sorted(TYPES)), st.binary(max_size=30))
def test_decoder_reads_the_type_of_a_group_from_its_key(group: str, version: int, suffix: bytes) -> None:
    """Each known key type has the group and its protocol; fields after the group do not matter."""
    key = group_key(version, group, b"" if version == 2 else suffix)
    assert decode_key(key) == RecordKey(version, group)
    assert GROUP_TYPES[version] is TYPES[version]


@given(names, st.integers(24, 32_767), st.binary(max_size=30))
def test_decoder_does_not_guess_later_key_types(group: str, version: int, suffix: bytes) -> None:
    """A key type of a later broker is unknown: neither malformed nor an exception."""
    assert decode_key(group_key(version, group, suffix)) == RecordKey(version, group)
    assert version not in GROUP_TYPES


@given(commits, st.integers(0, 4), st.dictionaries(st.integers(1, 300), st.binary(max_size=40), max_size=3))
@example(PLAIN, 4, {}).via("the usual shape")
@example(PLAIN, 3, {}).via("the shape before 4.2")
def test_decoder_reads_every_commit_value(commit: Commit, version: int, extra: dict[int, bytes]) -> None:
    """Versions 0 to 4, with any metadata and tagged fields of later writers."""
    topic_id = commit.topic_id if version == 4 and commit.topic_id else NO_TOPIC_ID
    read = decode_commit(commit_value(commit, version, extra))
    assert read == CommitValue(commit.offset, commit.commit_ms, topic_id, commit.metadata)


@given(commits, st.integers(0, 4), st.data())
def test_decoder_notices_truncated_values(commit: Commit, version: int, data: st.DataObject) -> None:
    """A truncated value is malformed: a part of a record is never read as a record."""
    value = commit_value(commit, version)
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(ValueError, match="record"):
        decode_commit(value[:cut])


@given(commits, st.integers(0, 4), st.binary(min_size=1, max_size=9))
def test_decoder_notices_values_that_are_too_long(commit: Commit, version: int, tail: bytes) -> None:
    """Bytes after a value mean that it has another layout."""
    with pytest.raises(ValueError, match="bytes after the record"):
        decode_commit(commit_value(commit, version) + tail)


@given(st.binary(max_size=80))
def test_decoder_survives_any_bytes(data: bytes) -> None:
    """The decoders raise nothing but ValueError. Those of share groups know the layout of version 0 only."""
    for decode in (decode_key, decode_commit, decode_protocol_type):
        with suppress(ValueError):
            decode(data)
    for decode_share in (decode_consumer_member, decode_share_member, decode_share_state, decode_topology):
        with suppress(ValueError):
            decode_share(b"\0\0" + data)
    for version in range(5):
        with suppress(ValueError):
            decode_generation(group_value(version, "consumer") + data)


@given(st.integers(0, 5), names)
def test_decoder_reads_the_protocol_type_of_a_classic_group(version: int, protocol: str) -> None:
    """Old and flexible versions of a classic group's metadata begin with its protocol type."""
    assert decode_protocol_type(group_value(version, protocol)) == protocol


@given(st.integers(0, 4), st.lists(st.lists(names, min_size=1, max_size=3), min_size=1, max_size=3), st.none() | names)
@example(3, [["orders"], ["orders", "clicks"]], None).via("two versions of an application")
def test_decoder_reads_the_last_generation(version: int, subscriptions: list[list[str]], instance: str | None) -> None:
    """What all members subscribed to. A value with more or less is another layout."""
    value = generation_value(version, subscriptions, instance)
    subscribed = {topic for topics in subscriptions for topic in topics}
    assert decode_generation(value) == subscribed
    assigned = generation_value(version, subscriptions, instance, assigns=True)
    assert decode_generation(assigned) == subscribed | {f"{topic}-created" for topic in subscribed}
    for changed in (value[:-1], value + b"\0", b"\0\5" + value[2:]):
        with pytest.raises(ValueError):  # noqa: PT011 - of any kind
            decode_generation(changed)


@given(st.lists(names, max_size=4), st.none() | names, st.sampled_from([None, ""]), st.booleans())
@example(["orders"], None, "", True).via("as Kafka 4.3 writes it")
def test_decoder_reads_the_topics_of_a_consumer_member(
    topics: list[str], instance: str | None, pattern: str | None, is_classic: bool
) -> None:
    """Key type 5 has the topics that a member of the new protocol subscribes to, also one that still speaks the old."""
    protocols = b"\1" + struct.pack(">i", 45_000) + b"\1" + b"\0"
    value = consumer_member_value(topics, instance=instance, pattern=pattern, tags={0: protocols} if is_classic else {})
    assert decode_consumer_member(value) == set(topics)


@given(st.binary(min_size=16, max_size=16).filter(any))
def test_topic_ids_read_as_kafka_prints_them(raw: bytes) -> None:
    """Kafka prints URL-safe base64 without padding; no id at all is None."""
    text = encode_topic_id(raw)
    assert text is not None
    assert len(text) == 22
    assert base64.urlsafe_b64decode(text + "==") == raw
    assert encode_topic_id(NO_TOPIC_ID) is None


topic_counts = st.dictionaries(names, st.integers(0, 200), max_size=3)


@given(st.lists(names, max_size=4), st.none() | names)
@example(["orders"], None).via("a member without a rack")
def test_decoder_reads_the_topics_of_a_share_member(topics: list[str], rack: str | None) -> None:
    """Key type 10 has the topics that a member subscribes to, in the layout of Kafka 4.0 to 4.3."""
    assert decode_share_member(share_member_value(topics, rack=rack)) == set(topics)


@given(topic_counts, topic_counts, st.lists(names, max_size=3))
@example({}, {}, []).via("a group that reads nothing")
@example({"orders": 200}, {}, []).via("a group before its first fetch")
def test_decoder_reads_the_topics_of_a_share_group(
    initializing: dict[str, int], initialized: dict[str, int], deleting: list[str]
) -> None:
    """Key type 15 has three lists of topics, and all count: one that is being deleted is not deleted yet."""
    value = share_state_value(initializing, initialized, deleting)
    assert decode_share_state(value) == {*initializing, *initialized, *deleting}


@given(st.lists(st.tuples(st.lists(names, max_size=3), st.lists(names, max_size=2)), max_size=3))
@example([(["orders"], []), ([], ["app-by-key-repartition"])]).via("an application that repartitions")
def test_decoder_reads_what_a_streams_group_reads(subtopologies: list[tuple[list[str], list[str]]]) -> None:
    """Its source and repartition topics, without changelogs, and without topics that it only writes."""
    value = topology_value(subtopologies)
    assert decode_topology(value) == {topic for parts in subtopologies for topics in parts for topic in topics}
    for changed in (value[:-1], value + b"\0", b"\0\1" + value[2:]):
        with pytest.raises(ValueError):  # noqa: PT011 - of any kind
            decode_topology(changed)


MEMBER, STATE = share_member_value(["orders"]), share_state_value({"orders": 2}, {"clicks": 1}, ["old"])


@pytest.mark.parametrize("decode", [decode_share_member, decode_share_state])
@pytest.mark.parametrize(
    "change",
    [
        lambda value: value[:-1],
        lambda value: value + b"\0",
        lambda value: b"\0\1" + value[2:],
        lambda value: value[:-1] + b"\1\x05\0",
        lambda _value: b"",
    ],
    ids=["too short", "too long", "another version", "unknown tagged field", "empty"],
)
def test_decoder_refuses_another_layout_of_share_groups(
    decode: Callable[[bytes], object], change: Callable[[bytes], bytes]
) -> None:
    """A later broker may say with it that the group reads more topics."""
    value = MEMBER if decode is decode_share_member else STATE
    with pytest.raises(ValueError):  # noqa: PT011 - of any kind
        decode(change(value))


GENERATION = generation_value(3, [["orders"], ["clicks"]])
REFUSED: dict[str, tuple[Callable[[bytes], object], bytes, str]] = {
    "version 5 of a commit": (decode_commit, b"\0\5" + commit_value(PLAIN, 4)[2:], "version"),
    "version 4, which once gave plausible, wrong numbers as version 3": (
        decode_commit, b"\0\3" + commit_value(PLAIN, 4)[2:], "record",
    ),
    "no member: those that join may read any topic": (decode_generation, generation_value(3, []), "no member"),
    "members without a topic": (decode_generation, generation_value(4, [[]]), "no member"),
    "workers of Connect": (decode_generation, group_value(3, "connect"), "no generation"),
    "a null list of members": (
        decode_generation, GENERATION.replace(b"\0\3\0\0\0\1", b"\0\3\xff\xff\xff\xff", 1), "null",
    ),
    "a null list of topics, which once read as an empty one": (decode_share_state, b"\0\0\1\0\1\0", "null"),
    "a pattern, which may match a topic to come": (
        decode_consumer_member, consumer_member_value(["orders"], pattern="clicks.*"), "pattern",
    ),
    "a pattern of Streams": (decode_topology, topology_value([(["orders"], [])], "clicks.*"), "pattern"),
    "a field of a later version": (
        decode_consumer_member, consumer_member_value(["orders"], tags={7: b"x"}), "unknown tagged fields",
    ),
    "beside a known one": (
        decode_consumer_member, consumer_member_value(["orders"], tags={0: b"x", 7: b"x"}), "unknown tagged fields",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("decode", "value", "words"), REFUSED.values(), ids=REFUSED)
def test_decoder_refuses_what_may_say_more(decode: Callable[[bytes], object], value: bytes, words: str) -> None:
    """What it does not know all topics of is no group that reads none."""
    with pytest.raises(ValueError, match=words):
        decode(value)


@pytest.mark.parametrize(
    ("group", "partition"),
    [("", 0), ("g0", 41), ("g1", 42), ("share1", 36), ("txgroup", 37), ("newproto", 18), ("polygenelubricants", 0)],
)
def test_log_partition_is_the_brokers(group: str, partition: int) -> None:
    """Observed on a broker with 50 partitions, except the last: its hash is Java's smallest int."""
    assert log_partition(group, 50) == partition


def test_log_partition_hashes_utf_16() -> None:
    """Java hashes UTF-16 units: a character outside the basic plane counts as two."""
    assert log_partition("😀", 2**31) == 31 * 0xD83D + 0xDE00
