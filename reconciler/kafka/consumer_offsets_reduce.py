"""Reduces records of `__consumer_offsets` to the activity, type and topic ids of each group.

The inner loop of a scan over millions of records: one dictionary lookup and a few slices per record of
the usual shape, the exact decoder for the others. Reads nothing itself.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.kafka.consumer_offsets_records import (
    CommitKey,
    CommitValue,
    GroupKey,
    Key,
    MalformedRecord,
    UnknownKey,
    decode_commit,
    decode_key,
    decode_protocol_type,
    topic_id_text,
)
from reconciler.model.snapshot import GroupType

# The value that brokers since 4.2 write for a commit without metadata: version 4, offset, leader epoch,
# an empty compact string, the commit timestamp, one tagged field (number 0, 16 bytes, the topic id).
# Recognised by its length and these bytes, and read by slices.
_USUAL_LENGTH = 42
_HEAD, _EMPTY, _TAGS = b"\0\4", slice(14, 15), slice(23, 26)
_ONE_TOPIC_ID = b"\1\0\x10"
_COMMIT_MS, _TOPIC_ID = slice(15, 23), slice(26, 42)
# Big-endian times compare like their numbers, unless they are negative, which starts here.
_NEGATIVE = b"\x80"


@dataclass(frozen=True, slots=True)
class GroupActivity:
    """One group's newest activity. `newest_ms` None: no record of it has a time.

    `offset`: of its newest record. `live`: at least one of its keys is set, so the coordinator still
    holds state of it. `commits`: number of its set commit keys.
    """

    group: str
    newest_ms: int | None
    offset: int
    group_type: GroupType
    live: bool
    commits: int


@dataclass(frozen=True, slots=True)
class CommittedTopicId:
    """A topic id that a group committed for on a partition, and the newest offset committed under it."""

    group: str
    topic: str
    partition: int
    committed: int
    topic_id: str | None


@dataclass(slots=True)
class KeyState:
    """All records of one key so far. `newest_ms`: of record timestamps, and of commits of an unusual shape."""

    key: Key
    is_commit: bool
    newest_ms: int = -1
    offset: int = -1
    value: bytes | None = None
    # The newest commit timestamp of the usual shape, raw, and the last value under each topic id.
    commit_ms: bytes = b""
    committed: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Reduction:
    """The reduction of one partition of the log. Takes its records in offset order."""

    records: int = 0
    skipped: int = 0
    malformed: int = 0
    _states: dict[bytes, KeyState] = field(default_factory=dict)

    def add_record(self, key: bytes | None, value: bytes | None, timestamp_ms: int, offset: int) -> None:
        """Add one record. A tombstone has no value; a record without a time has a negative timestamp."""
        self.records += 1
        if key is None:
            self.malformed += 1
            return
        state = self._states.get(key)
        if state is None:
            decoded = decode_key(key)
            state = self._states[key] = KeyState(decoded, isinstance(decoded, CommitKey))
        state.offset = offset
        state.value = value
        if timestamp_ms > state.newest_ms:
            state.newest_ms = timestamp_ms
        if not state.is_commit or value is None:
            self._add_other(state)
        elif (
            len(value) == _USUAL_LENGTH
            and value[_TAGS] == _ONE_TOPIC_ID
            and value[_EMPTY] == b"\1"
            and value.startswith(_HEAD)
            and value[_COMMIT_MS] < _NEGATIVE
        ):
            state.committed[value[_TOPIC_ID]] = value
            commit_ms = value[_COMMIT_MS]
            if commit_ms > state.commit_ms:
                state.commit_ms = commit_ms
        else:
            self._add_commit(state, value)

    def _add_commit(self, state: KeyState, value: bytes) -> None:
        commit = decode_commit(value)
        if isinstance(commit, MalformedRecord):
            # It is the current commit, of an unknown topic: earlier commits prove nothing any more.
            state.committed.clear()
            self.malformed += 1
            return
        state.committed[commit.topic_id] = value
        state.newest_ms = max(state.newest_ms, commit.commit_ms)

    def _add_other(self, state: KeyState) -> None:
        if state.is_commit:
            # A tombstone: only later commits count for the group.
            state.committed.clear()
        elif isinstance(state.key, UnknownKey):
            self.skipped += 1
        elif isinstance(state.key, MalformedRecord):
            self.malformed += 1

    def activities(self) -> Iterator[GroupActivity]:
        """One per group of a known key. Records of unknown key types count as activity of such groups."""
        builders: dict[str, _ActivityBuilder] = {}
        for state in self._states.values():
            if isinstance(state.key, CommitKey | GroupKey):
                builders.setdefault(state.key.group, _ActivityBuilder()).add(state)
        for state in self._states.values():
            if isinstance(state.key, UnknownKey) and state.key.group in builders:
                builders[state.key.group].add_times(state)
        for group, builder in builders.items():
            newest_ms = builder.newest_ms if builder.newest_ms >= 0 else None
            yield GroupActivity(group, newest_ms, builder.offset, builder.group_type(), builder.live, builder.commits)

    def origins(self, requested: Mapping[str, Collection[str]] | None) -> Iterator[CommittedTopicId]:
        """Topic ids of the commits of each requested group on its topics; None: of all groups."""
        for state in self._states.values():
            if not isinstance(state.key, CommitKey):
                continue
            group, topic = state.key.group, state.key.topic
            if requested is None or topic in requested.get(group, ()):
                for value in state.committed.values():
                    commit = decode_commit(value)
                    if isinstance(commit, CommitValue):
                        yield CommittedTopicId(
                            group, topic, state.key.partition, commit.offset, topic_id_text(commit.topic_id)
                        )


@dataclass(slots=True)
class _ActivityBuilder:
    """One group during the collection of its keys."""

    newest_ms: int = -1
    offset: int = -1
    live: bool = False
    commits: int = 0
    types: dict[bool, set[GroupType]] = field(default_factory=lambda: {True: set(), False: set()})

    def add_times(self, state: KeyState) -> None:
        self.newest_ms = max(
            self.newest_ms, state.newest_ms, int.from_bytes(state.commit_ms) if state.commit_ms else -1
        )
        self.offset = max(self.offset, state.offset)

    def add(self, state: KeyState) -> None:
        self.add_times(state)
        live = state.value is not None
        self.live = self.live or live
        self.commits += live and state.is_commit
        if isinstance(state.key, GroupKey):
            self.types[live].add(state.key.type or _classic(state.value))

    def group_type(self) -> GroupType:
        """By its set keys, else by its tombstones. A group with commits only is a standalone consumer."""
        types = self.types[True] or self.types[False] or {GroupType.CLASSIC}
        return next(group_type for group_type in _BY_EVIDENCE if group_type in types)


_BY_EVIDENCE = (
    GroupType.STREAMS,
    GroupType.SHARE,
    GroupType.CONNECT,
    GroupType.CONSUMER,
    GroupType.HIDDEN,
    GroupType.CLASSIC,
)


def _classic(value: bytes | None) -> GroupType:
    """The type of a group with the classic protocol. HIDDEN: neither consumers nor Connect."""
    protocol = "consumer" if value is None else decode_protocol_type(value)
    match protocol:
        case "consumer" | "":
            return GroupType.CLASSIC
        case "connect":
            return GroupType.CONNECT
        case _:
            return GroupType.HIDDEN
