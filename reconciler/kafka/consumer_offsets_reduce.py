"""Many records of the commit log reduced to one line per group: newest sign of life, what it seems to be, topic ids of its commits.

The inner loop of a scan over millions of records: one dictionary look-up and a few slices per record where the broker
wrote the usual shape, the exact decoder for the rest. Nothing is read here.
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

# What a broker since 4.2 writes for a commit without metadata: version 4, offset, leader epoch, an empty compact string, the commit
# timestamp, one tagged field: number 0, 16 bytes, the topic id. Recognised by its length and these bytes, taken apart by slices.
_USUAL = 42
_HEAD, _EMPTY, _TAGS = b"\0\4", slice(14, 15), slice(23, 26)
_ONE_TOPIC_ID = b"\1\0\x10"
_COMMIT_MS, _TOPIC_ID = slice(15, 23), slice(26, 42)
# Big-endian times compare like their numbers, unless they are negative; from here on they are.
_NEGATIVE = b"\x80"


@dataclass(frozen=True, slots=True)
class GroupActivity:
    """One group's newest sign of life. `newest_ms` None: no record of it carries a time. `offset`: its newest record.

    `live`: at least one of its keys is set, so the coordinator still holds something for it. `commits`: keys of commits that are set.
    """

    group: str
    newest_ms: int | None
    offset: int
    seems: GroupType
    live: bool
    commits: int


@dataclass(frozen=True, slots=True)
class CommittedTopicId:
    """A topic incarnation that a group committed for on a partition, and the newest offset committed under it."""

    group: str
    topic: str
    partition: int
    committed: int
    topic_id: str | None


@dataclass(slots=True)
class KeyState:
    """All records of one key so far. `newest_ms`: of the record timestamps, and of commits that came in an unusual shape."""

    key: Key
    is_commit: bool
    newest_ms: int = -1
    offset: int = -1
    value: bytes | None = None
    # Newest commit timestamp of the usual shape, raw; and the last value committed under each topic id.
    commit_ms: bytes = b""
    committed: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Reduction:
    """Takes the records of one partition of the log in offset order."""

    records: int = 0
    skipped: int = 0
    garbled: int = 0
    _entries: dict[bytes, KeyState] = field(default_factory=dict)

    def take(self, key: bytes | None, value: bytes | None, timestamp_ms: int, offset: int) -> None:
        """One record. A tombstone has no value; a record without a time has a negative timestamp."""
        self.records += 1
        if key is None:
            self.garbled += 1
            return
        entry = self._entries.get(key)
        if entry is None:
            decoded = decode_key(key)
            entry = self._entries[key] = KeyState(decoded, isinstance(decoded, CommitKey))
        entry.offset = offset
        entry.value = value
        if timestamp_ms > entry.newest_ms:
            entry.newest_ms = timestamp_ms
        if not entry.is_commit or value is None:
            self._take_other(entry)
        elif (
            len(value) == _USUAL
            and value[_TAGS] == _ONE_TOPIC_ID
            and value[_EMPTY] == b"\1"
            and value.startswith(_HEAD)
            and value[_COMMIT_MS] < _NEGATIVE
        ):
            entry.committed[value[_TOPIC_ID]] = value
            commit_ms = value[_COMMIT_MS]
            if commit_ms > entry.commit_ms:
                entry.commit_ms = commit_ms
        else:
            self._take_commit(entry, value)

    def _take_commit(self, entry: KeyState, value: bytes) -> None:
        commit = decode_commit(value)
        if isinstance(commit, MalformedRecord):
            # It is the commit in force, and nobody can tell for which topic: what came before it proves nothing any more.
            entry.committed.clear()
            self.garbled += 1
            return
        entry.committed[commit.topic_id] = value
        entry.newest_ms = max(entry.newest_ms, commit.commit_ms)

    def _take_other(self, entry: KeyState) -> None:
        if entry.is_commit:
            # A tombstone: only later commits speak for the group.
            entry.committed.clear()
        elif isinstance(entry.key, UnknownKey):
            self.skipped += 1
        elif isinstance(entry.key, MalformedRecord):
            self.garbled += 1

    def activities(self) -> Iterator[GroupActivity]:
        """One per group that a known key names. A record of an unknown type counts as a sign of life of a group known otherwise."""
        lives: dict[str, _Life] = {}
        for entry in self._entries.values():
            if isinstance(entry.key, CommitKey | GroupKey):
                lives.setdefault(entry.key.group, _Life()).add(entry)
        for entry in self._entries.values():
            if isinstance(entry.key, UnknownKey) and entry.key.group in lives:
                lives[entry.key.group].touch(entry)
        for group, life in lives.items():
            newest_ms = life.newest_ms if life.newest_ms >= 0 else None
            yield GroupActivity(group, newest_ms, life.offset, life.seems(), life.live, life.commits)

    def origins(self, wanted: Mapping[str, Collection[str]] | None) -> Iterator[CommittedTopicId]:
        """Topic ids of the commits of `wanted[group]` on its topics; None: of all."""
        for entry in self._entries.values():
            if not isinstance(entry.key, CommitKey):
                continue
            group, topic = entry.key.group, entry.key.topic
            if wanted is None or topic in wanted.get(group, ()):
                for value in entry.committed.values():
                    commit = decode_commit(value)
                    if isinstance(commit, CommitValue):
                        yield CommittedTopicId(
                            group, topic, entry.key.partition, commit.offset, topic_id_text(commit.topic_id)
                        )


@dataclass(slots=True)
class _Life:
    """One group while its keys are gathered."""

    newest_ms: int = -1
    offset: int = -1
    live: bool = False
    commits: int = 0
    types: dict[bool, set[GroupType]] = field(default_factory=lambda: {True: set(), False: set()})

    def touch(self, entry: KeyState) -> None:
        self.newest_ms = max(
            self.newest_ms, entry.newest_ms, int.from_bytes(entry.commit_ms) if entry.commit_ms else -1
        )
        self.offset = max(self.offset, entry.offset)

    def add(self, entry: KeyState) -> None:
        self.touch(entry)
        live = entry.value is not None
        self.live = self.live or live
        self.commits += live and entry.is_commit
        if isinstance(entry.key, GroupKey):
            self.types[live].add(entry.key.type or _classic(entry.value))

    def seems(self) -> GroupType:
        """By its live keys, else by its dead ones. A group that only ever committed is classic: a standalone consumer."""
        types = self.types[True] or self.types[False] or {GroupType.CLASSIC}
        return next(known for known in _TELLING if known in types)


_TELLING = (
    GroupType.STREAMS,
    GroupType.SHARE,
    GroupType.CONNECT,
    GroupType.CONSUMER,
    GroupType.HIDDEN,
    GroupType.CLASSIC,
)


def _classic(value: bytes | None) -> GroupType:
    """Whose protocol a classic group speaks. HIDDEN: neither a consumer's nor Connect's."""
    protocol = "consumer" if value is None else decode_protocol_type(value)
    match protocol:
        case "consumer" | "":
            return GroupType.CLASSIC
        case "connect":
            return GroupType.CONNECT
        case _:
            return GroupType.HIDDEN
