"""The reduction of __consumer_offsets to one row per group."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kafka.consumer_offsets import Reduction
from reconciler.model.snapshot import GroupType, Unknown
from tests.strategies.consumer_offsets import (
    Commit,
    commit_key,
    commit_value,
    commits,
    consumer_member_value,
    generation_value,
    group_key,
    group_value,
    share_member_value,
    share_state_value,
)

ID_A, ID_B = b"\x01" * 16, b"\x02" * 16
TEXT_A, TEXT_B = "AQEBAQEBAQEBAQEBAQEBAQ", "AgICAgICAgICAgICAgICAg"
COMMIT = Commit("g", "t", 0, 5, -1, b"", 1_000, ID_A)


def reduce(*records: tuple[bytes | None, bytes | None, int], requested: str = "") -> Reduction:
    """Records as (key, value, record timestamp), at offsets from 0. `requested`: a group with commits."""
    reduction = Reduction(frozenset({requested}))
    reduction.add_records(
        (key, value, (TIMESTAMP_CREATE_TIME, timestamp_ms), offset)
        for offset, (key, value, timestamp_ms) in enumerate(records)
    )
    return reduction


def only_activity(reduction: Reduction) -> dict[str, Any]:
    (activity,) = reduction.activities()
    return activity


def active(group: str, newest_ms: int, offset: int, seems: GroupType, *, live: bool, commits: int) -> dict[str, Any]:
    return {
        "group": group,
        "last_activity_ms": newest_ms,
        "log_offset": offset,
        "seems": seems.value,
        "live": live,
        "commit_keys": commits,
        "members": 0,
        **({"may_read": []} if commits else {}),
    }


def origins(reduction: Reduction, requested: dict[str, set[str]] | None) -> set[tuple[object, ...]]:
    """Group, topic, partition, newest offset and topic id of each origin."""
    return {tuple(row.values()) for row in reduction.origins(requested, {})}


@given(
    st.lists(
        st.tuples(commits.map(lambda c: replace(c, group="g")), st.integers(0, 4), st.integers(-1, 2**48)), min_size=1
    )
)
def test_reduce_newest_activity_is_the_newest_of_all_times(records: list[tuple[Commit, int, int]]) -> None:
    """Commits and records of every record count, overwritten ones too, of any version."""
    reduction = reduce(*[(commit_key(c), commit_value(c, version), at) for c, version, at in records])
    newest = max(max(commit.commit_ms, at) for commit, _, at in records)
    keys = len({commit_key(commit) for commit, _, _ in records})
    assert only_activity(reduction) == active("g", newest, len(records) - 1, GroupType.CLASSIC, live=True, commits=keys)
    assert (reduction.records, reduction.skipped, reduction.malformed) == (len(records), 0, 0)


Record = tuple[bytes | None, bytes | None, int]


FUTURE_MS = 2**48


@pytest.mark.parametrize(
    ("before_ms", "at_ms", "expected"),
    [(9_000, 1_000, 9_000), (1_000, 9_000, 9_000), (FUTURE_MS, 1_000, 1_000), (9_000, -1, None)],
    ids=["behind", "as it should be", "a stamp of the future proves nothing", "no stamp stays none"],
)
def test_a_record_was_written_after_those_before_it(before_ms: int, at_ms: int, expected: int | None) -> None:
    """A group looked idle for ten days whose coordinator had moved to a broker with a clock ten days behind."""
    earlier, late = (commit_key(replace(COMMIT, group=group)) for group in ("earlier", "g"))
    value = commit_value(replace(COMMIT, commit_ms=-1), 4)
    activities = reduce((earlier, value, before_ms), (late, value, at_ms)).activities()
    assert {row["group"]: row["last_activity_ms"] for row in activities} == {"earlier": before_ms, "g": expected}


def written(at: int = 1, version: int = 4, **changes: Any) -> Record:
    """Return the record of a commit."""
    commit = replace(COMMIT, **changes)
    return commit_key(commit), commit_value(commit, version), at


def committed(offset: int, **changes: Any) -> Record:
    return written(1_000, offset=offset, topic_id=None, **changes)


def tombstone(at: int = 1_000) -> Record:
    return commit_key(COMMIT), None, at


def member(protocol: str, at: int = 1) -> Record:
    """Return the metadata of a classic group."""
    return group_key(2, "g"), group_value(3, protocol), at


def key(kind: int, value: bytes | None = b"x", at: int = 1) -> Record:
    return group_key(kind, "g"), value, at


CLASSIC, STREAMS = GroupType.CLASSIC, GroupType.STREAMS
JOINED = [key(19), key(22), key(17)]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        # A quiet consumer commits one offset again and again: only the log's times move.
        ([written(1_000), written(9_000, commit_ms=9_000)], {"last_activity_ms": 9_000}),
        # A tombstone has a time and unsets its key: activity, but no state at the coordinator.
        ([written(1_000), tombstone(7_000)], active("g", 7_000, 1, CLASSIC, live=False, commits=0)),
        # The broker writes a group's metadata whenever its members change.
        (
            [member("consumer", 3_000)],
            active("g", 3_000, 0, CLASSIC, live=True, commits=0) | {"may_read": None},
        ),
        # An unknown record is activity of a known group: the result never shows less.
        ([written(1_000), key(99, at=8_000)], {"last_activity_ms": 8_000, "log_offset": 1}),
        # A group whose records have no time has no activity, instead of one in 1970.
        ([member("consumer", -1)], {"last_activity_ms": None}),
        # After a change of protocol the live keys tell the type; Connect shows in its metadata.
        ([member("consumer"), key(3, at=2), (group_key(2, "g"), None, 3)], {"seems": GroupType.CONSUMER}),
        ([member("connect")], {"seems": GroupType.CONNECT}),
        ([member("sr")], {"seems": GroupType.HIDDEN}),
        ([key(11)], {"seems": GroupType.SHARE}),
        ([key(17), written(2)], {"seems": STREAMS}),
        # A member is a set key of type 19, which its tombstone takes away; targets and tasks are none.
        (JOINED, {"members": 1}),
        ([*JOINED, key(19, None, 2)], {"members": 0, "seems": STREAMS, "live": True}),
        ([key(5)], {"members": 0}),
        # Coordinators store and answer any number; clients take one below 0 for none.
        ([committed(-1), committed(-5, topic="u"), committed(0, topic="v")], {"commit_keys": 1}),
    ],
)
def test_reduce_what_the_records_of_a_group_say(records: list[Record], expected: dict[str, Any]) -> None:
    activity = only_activity(reduce(*records))
    assert {name: activity[name] for name in expected} == expected
    assert len(expected) < 5 or activity == expected


MOVED, MADE_AGAIN = written(offset=8), written(3, offset=2, topic_id=ID_B)


@pytest.mark.parametrize(
    ("records", "requested", "expected"),
    [
        # Commits outlive a deleted topic: each topic id is there, with its newest offset.
        ([written(), MOVED, MADE_AGAIN], {"t": {"g"}}, {("g", "t", 0, 8, TEXT_A), ("g", "t", 0, 2, TEXT_B)}),
        ([written(), MOVED, MADE_AGAIN], {"other": {"g"}, "t": {"h"}}, set()),
        # After a tombstone only later commits count for the group.
        ([written(), tombstone(2), MADE_AGAIN], None, {("g", "t", 0, 2, TEXT_B)}),
        # Brokers before 4.2 write no topic id, so it is None.
        ([written(version=3)], None, {("g", "t", 0, 5, None)}),
    ],
)
def test_reduce_the_topic_ids_that_were_committed_for(
    records: list[Record], requested: dict[str, set[str]] | None, expected: set[tuple[object, ...]]
) -> None:
    assert origins(reduce(*records), requested) == expected


OPEN = [committed(3), committed(7, group="h"), committed(9, topic="other"), committed(5, group="")]


@pytest.mark.parametrize(
    ("records", "last_stable_offset", "pending"),
    [
        # The record at the last stable offset is the first one of an open transaction.
        (OPEN, 0, [("g", "t", 0, 3), ("h", "t", 0, 7)]),
        (OPEN, 1, [("h", "t", 0, 7)]),
        (OPEN, 2, []),
        # The newest commit of a key decides: no end of a transaction replaces one that was written later.
        ([committed(3), committed(9)], 0, [("g", "t", 0, 9)]),
        ([committed(9), committed(3)], 0, [("g", "t", 0, 3)]),
        ([committed(9), tombstone()], 0, []),
        # One that cannot be decoded has no offset.
        ([(commit_key(COMMIT), b"\0\x09later", 1_000)], 0, [("g", "t", 0, None)]),
    ],
)
def test_a_commit_is_pending_from_the_last_stable_offset_on(
    records: list[Record], last_stable_offset: int, pending: list[tuple[object, ...]]
) -> None:
    rows = reduce(*records).pending(last_stable_offset, {"t"})
    assert [tuple(row.values()) for row in rows] == pending


def test_reduce_counts_what_it_cannot_read() -> None:
    """Unknown types are skipped, malformed bytes counted; neither stops it nor adds a group."""
    reduction = reduce(
        (group_key(99, "phantom"), b"x", 1),
        (None, b"x", 2),
        (b"\x00", b"x", 3),
        (commit_key(COMMIT), b"\x00\x63garbage", 4),
    )
    assert (reduction.records, reduction.skipped, reduction.malformed) == (4, 1, 3)
    assert only_activity(reduction) == active("g", 4, 3, GroupType.CLASSIC, live=True, commits=1)


def test_reduce_tells_the_newest_record_unless_one_may_be_of_any_group() -> None:
    """A record of an unknown key type is of its group; one whose key is malformed may be of each."""
    records = [(commit_key(COMMIT), b"x", 1), (group_key(99, "phantom"), b"x", 2), (commit_key(COMMIT), b"y", 3)]
    assert reduce(*records).newest() == {"g": 2, "phantom": 1}
    assert reduce(*records, (b"\x00", b"x", 4)).newest() == Unknown("a record has a malformed key")


def test_reduce_tells_commits_in_force_for_another_topic_id() -> None:
    """Of the newest commit of each key, by any group; a value without an id proves nothing."""
    old, new = [written()], [written(2, offset=2, topic_id=ID_B)]
    ids = {"t": TEXT_B}
    assert [tuple(row.values()) for row in reduce(*old).origins({}, ids)] == [("g", "t", 0, 5, TEXT_A)]
    assert [tuple(row.values()) for row in reduce(*new, *old).origins({}, ids)] == [("g", "t", 0, 5, TEXT_A)]
    for records in ((*old, *new), new, (*old, written(3, version=3)), (*old, tombstone(3))):
        assert not list(reduce(*records).origins({}, ids))
    assert not list(reduce(*old).origins({}, {"other": TEXT_B}))


def test_reduce_a_commit_that_cannot_be_read_ends_earlier_commits() -> None:
    """The older commit's topic id once counted for the newest, of an unknown version."""
    newer = commit_value(replace(COMMIT, offset=9, topic_id=ID_B), 4)
    records = [written(), (commit_key(COMMIT), b"\0\5" + newer[2:], 2)]
    reduction = reduce(*records)
    assert origins(reduction, None) == set()
    assert (reduction.malformed, only_activity(reduction)) == (
        1,
        active("g", 1_000, 1, GroupType.CLASSIC, live=True, commits=1),
    )
    assert origins(reduce(*records, (commit_key(COMMIT), newer, 3)), None) == {("g", "t", 0, 9, TEXT_B)}


def commits_of(*records: tuple[bytes, bytes | None, int], of: str = "g") -> set[tuple[object, ...]]:
    """Partition, offset, topic id and metadata in base64 of each row of a requested group."""
    rows = list(reduce(*records, requested=of).commits())
    assert {(row["group"], row["topic"]) for row in rows} <= {(of, "t")}
    return {(row["partition"], row["committed"], row["topic_id"], row["metadata_base64"]) for row in rows}


def test_reduce_tells_the_topic_id_and_the_metadata_of_each_newest_commit() -> None:
    """A removal keeps them. A record before 4.2 has no id; a tombstone and a broken record have no row."""
    records = [
        written(),
        written(2, offset=9, topic_id=ID_B),
        written(3, partition=1),
        written(4, version=3, partition=1, offset=6, metadata=b"\xff"),
        *((commit_key(replace(COMMIT, group="h", partition=n)), commit_value(COMMIT, 4), 5) for n in range(3)),
        (commit_key(replace(COMMIT, group="h", partition=1)), None, 6),
        (commit_key(replace(COMMIT, group="h", partition=2)), b"broken", 7),
    ]
    assert commits_of(*records) == {(0, 9, TEXT_B, ""), (1, 6, None, "/w==")}
    assert commits_of(*records, of="h") == {(0, 5, TEXT_A, "")}
    assert list(reduce(*records).commits()) == []


@pytest.mark.parametrize(
    ("offsets_and_metadata", "expected"),
    [
        ([(5, b"a"), (5, b"")], None),
        ([(5, b""), (5, b"a")], None),
        ([(5, b"a"), (5, b"a")], "YQ=="),
        ([(5, b"b"), (6, b"a"), (6, b"a")], "YQ=="),
        ([(5, b"a"), None, (5, b"")], ""),
    ],
    ids=["metadata is gone", "metadata came", "equal", "of another offset", "after a tombstone"],
)
def test_metadata_is_known_where_the_records_of_the_offset_agree(
    offsets_and_metadata: Sequence[tuple[int, bytes] | None], expected: str | None
) -> None:
    """The newest record may be of an aborted transaction that repeated the offset; the log does not tell."""
    values = [
        pair and commit_value(replace(COMMIT, offset=pair[0], metadata=pair[1]), 4) for pair in offsets_and_metadata
    ]
    [(_, _, _, metadata)] = commits_of(*((commit_key(COMMIT), value, at) for at, value in enumerate(values)))
    assert metadata == expected


MEMBER_KEY, SECOND_KEY = group_key(10, "s", b"\0\1a"), group_key(10, "s", b"\0\1b")
STATE_KEY, GROUP_KEY = group_key(15, "s"), group_key(11, "s")
BY_MEMBER, BY_STATE = share_member_value(["a", "b"]), share_state_value({}, {"b": 1}, ["c"])


BY_SECOND = share_member_value(["d"])
LIVE_KEYS: dict[str, tuple[list[tuple[bytes, bytes | None]], object]] = {
    "a member": ([(MEMBER_KEY, BY_MEMBER)], ["a", "b"]),
    "the members left": ([(STATE_KEY, BY_STATE)], ["b", "c"]),
    "members with different topics": (
        [(MEMBER_KEY, BY_MEMBER), (SECOND_KEY, BY_SECOND), (STATE_KEY, BY_STATE)], ["a", "b", "c", "d"],
    ),
    "the topics of a member that left do not count": (
        [(MEMBER_KEY, BY_MEMBER), (MEMBER_KEY, None), (STATE_KEY, BY_STATE)], ["b", "c"],
    ),
    "a value with one byte more": ([(MEMBER_KEY, BY_MEMBER), (STATE_KEY, BY_STATE + b"\0")], None),
    "Kafka 4.0, where nothing survives the members": ([(MEMBER_KEY, BY_MEMBER), (group_key(9, "s"), b"\0\0")], None),
    "neither key, of Kafka 4.0": ([(GROUP_KEY, b"\0\0\0\0\0\1\0")], None),
    "neither key, of a later version": ([(GROUP_KEY, b"\0\0\0\0\0\1" + bytes(9))], []),
    "the group was removed": ([(MEMBER_KEY, None), (STATE_KEY, None), (GROUP_KEY, None)], "unknown"),
}  # fmt: skip


def test_the_metadata_of_a_classic_group_says_what_its_last_generation_reads() -> None:
    """Nothing else does while it rebalances. Its commits may be on more topics."""
    generation = group_key(2, "g"), generation_value(3, [["a"], ["a", "b"]]), 1_000
    assert only_activity(reduce(committed(3), generation))["may_read"] == ["a", "b"]
    assert only_activity(reduce(generation, member("consumer")))["may_read"] is None


@pytest.mark.parametrize(("records", "may_read"), LIVE_KEYS.values(), ids=LIVE_KEYS)
def test_the_live_keys_say_what_a_share_group_reads(
    records: list[tuple[bytes, bytes | None]], may_read: object
) -> None:
    """`unknown`: the row says nothing of topics, and the group may read any."""
    activity = only_activity(reduce(*((key, value, 1_000) for key, value in records)))
    assert activity["seems"] == GroupType.SHARE
    assert activity.get("may_read", "unknown") == may_read


def test_a_group_with_keys_of_commits_only_reads_no_other_topic() -> None:
    """If its commits are aborted or pending, nothing else says that it reads more. A member may."""
    member = (group_key(5, "g", b"\0\1m"), consumer_member_value(["v"]), 1_000)
    assert only_activity(reduce(committed(3), committed(4, topic="u")))["may_read"] == []
    assert only_activity(reduce(committed(3), member))["may_read"] == ["v"]
    assert "may_read" not in only_activity(reduce(committed(3), (group_key(3, "g"), b"\0\0", 1_000)))
