"""Reads `__consumer_offsets` with a plain consumer, and reduces its records per group.

Decided here: every record counts as activity. Uncommitted records are read on purpose: an open
transaction is activity, and must not make the groups behind it look idle. Malformed records are counted.
"""

import base64
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaException, Message

from reconciler.clock import wall_clock_ms
from reconciler.kafka.consumer_offsets_layout import (
    GROUP_TYPES,
    SUBSCRIPTIONS,
    RecordKey,
    decode_commit,
    decode_key,
    decode_protocol_type,
    encode_topic_id,
)
from reconciler.kafka.futures import error_columns
from reconciler.kafka.offsets import read_ends
from reconciler.kafka.records import read_records
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import GroupType, Unknown

# The value that brokers since 4.2 write for a commit without metadata: version 4, offset, leader
# epoch, an empty compact string, the commit timestamp, one tagged field (number 0, 16 bytes, the
# topic id). Recognised by its length and these bytes, and read by slices.
_USUAL_LENGTH = 42
_HEAD, _EMPTY, _TAGS = b"\0\4", slice(14, 15), slice(23, 26)
_ONE_TOPIC_ID = b"\1\0\x10"
_COMMIT_MS, _TOPIC_ID = slice(15, 23), slice(26, 42)
# Big-endian times compare like their numbers, unless they are negative, which starts here.
_NEGATIVE = b"\x80"
_STREAMS_MEMBER = 19
"""Key type of a member of a Streams group. It is set as long as the member belongs to the group (KIP-1071)."""
_COLUMNS = (Message.key, Message.value, Message.timestamp, Message.offset)

_BY_EVIDENCE = (
    GroupType.STREAMS,
    GroupType.SHARE,
    GroupType.CONNECT,
    GroupType.CONSUMER,
    GroupType.HIDDEN,
    GroupType.CLASSIC,
)
_CLASSIC_TYPES = {"consumer": GroupType.CLASSIC, "": GroupType.CLASSIC, "connect": GroupType.CONNECT}
_MALFORMED = RecordKey(-1 << 16, None)


def read_consumer_offsets(
    session: KafkaSession,
    partitions: Sequence[int],
    *,
    origins: Mapping[str, Collection[str]] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    with_commits: Collection[str] = (),
    last_stable_offsets: Mapping[int, int] | None = None,
    pending_of: Collection[str] = (),
    limit_s: float | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Everything that these partitions of the log say, reduced per group, as the rows of five tables.

    `runs`: a partition of the log, with its numbers of records, skipped (unknown key types) and
    malformed ones (`garbled`), its end, or an error. `activity`: a group's newest activity, where its
    newest record is, the type that its records suggest, whether any of its keys is still set, the number
    of set commit keys, of members if it is a Streams group, and the topics that a share group may read (none:
    of a group that its commits alone tell of).
    `origins`: a topic id of a group's commits on a partition, with the newest offset committed under it
    (`topic_id` None: by a value version without ids). `commits`: a newest commit of a group of
    `with_commits`, with its metadata. `pending`: a newest commit on topics of `pending_of`, if its record
    lies at or above the offset in `last_stable_offsets`.

    Never raises for a broker that is away. `origins`: by topic, the groups of whose commits the topic
    ids are needed; None: of all. `topic_ids`: the present ones of some topics, whose commits of every group
    that are for another id are in the table, too. `limit_s`: as of `read_records`.
    """
    logs = reduce_partitions(session, partitions, with_commits=frozenset(with_commits), limit_s=limit_s)
    tables: dict[str, list[dict[str, Any]]] = {"runs": [], "activity": [], "origins": [], "commits": [], "pending": []}
    for number, log in logs.items():
        at = {"log_partition": number}
        counts = {"records": log.records, "skipped": log.skipped, "garbled": log.malformed}
        tables["runs"].append({**at, **counts, **error_columns(log.unread), "log_offset": log.end})
        tables["activity"] += ({**at, **activity} for activity in log.activities())
        tables["origins"] += log.origins(origins, topic_ids or {})
        tables["commits"] += log.commits()
        if last_stable_offsets is not None and number in last_stable_offsets:
            pending = log.pending(last_stable_offsets[number], frozenset(pending_of))
            tables["pending"] += ({**at, **commit} for commit in pending)
    return tables


def read_newest_records(session: KafkaSession, starts: Mapping[int, int]) -> dict[int, dict[str, int] | Unknown]:
    """The offset of each group's newest record in partitions of the log, from some offsets on.

    Commits of open transactions count, too. Unknown: a partition that was not read to its end, or
    a record that cannot be attributed to a group. Raises ClusterUnreachable.
    """
    newest: dict[int, dict[str, int] | Unknown] = {}
    for number, log in reduce_partitions(session, sorted(starts), starts=starts).items():
        found = log.newest() if log.unread is None else log.unread
        where = f"{CONSUMER_OFFSETS_TOPIC}[{number}] was not read from offset {starts[number]} to its end"
        newest[number] = found.about(where) if isinstance(found, Unknown) else found
    return newest


def read_committed_keys(
    session: KafkaSession, last_stable_offsets: Mapping[int, int]
) -> dict[int, dict[str, dict[str, Any]]]:
    """The `activity` of groups below the last stable offsets of partitions, without aborted transactions.

    Partitions that cannot be read to there are left out. Raises ClusterUnreachable.
    """
    try:
        logs = reduce_partitions(session, sorted(last_stable_offsets), last_stable_offsets=last_stable_offsets)
    except KafkaException:
        return {}
    return {
        number: {activity["group"]: activity for activity in log.activities()}
        for number, log in logs.items()
        if log.unread is None
    }


def reduce_partitions(
    session: KafkaSession,
    partitions: Sequence[int],
    *,
    starts: Mapping[int, int] = MappingProxyType({}),
    with_commits: frozenset[str] = frozenset(),
    last_stable_offsets: Mapping[int, int] | None = None,
    limit_s: float | None = None,
) -> dict[int, "Reduction"]:
    """Read partitions from `starts` or their beginning. Never raises for a broker that is away.

    `last_stable_offsets`: where to end instead, without aborted transactions.
    """
    logs = {number: Reduction(with_commits) for number in partitions}

    def add(partition: TopicPartition, messages: list[Message]) -> None:
        # Without a line of Python for each of millions of records.
        columns = (map(of_message, messages) for of_message in _COLUMNS)
        logs[partition.partition].add_records(zip(*columns, strict=True))

    watermarks = read_ends(session, CONSUMER_OFFSETS_TOPIC, partitions)
    for number, of in watermarks.items():
        if isinstance(of.high_watermark, int):
            logs[number].end = of.high_watermark
            if of.high_watermark < (start := starts.get(number, 0)):
                logs[number].unread = Unknown(f"it ends at offset {of.high_watermark}, below {start}: it was cut")
    if last_stable_offsets is not None:
        watermarks = {n: of._replace(high_watermark=last_stable_offsets[n]) for n, of in watermarks.items()}
    unread = read_records(
        session,
        CONSUMER_OFFSETS_TOPIC,
        watermarks,
        add,
        read_to=starts,
        committed=last_stable_offsets is not None,
        limit_s=limit_s,
    )
    for number, reason in unread.items():
        logs[number].unread = reason
    return logs


@dataclass(slots=True)
class KeyState:
    """All records of one key. `newest_ms`: of records, and of commits of an unusual shape."""

    key: RecordKey
    is_commit: bool
    newest_ms: int = -1
    offset: int = -1
    value: bytes | None = None
    # The newest commit timestamp of the usual shape, raw, and the last value under each topic id.
    commit_ms: bytes = b""
    committed: dict[bytes, bytes] = field(default_factory=dict)
    # Of a group with commits requested: each metadata of the newest offset. A transaction may repeat the
    # offset with other metadata, and be aborted: the coordinator then has the commit before it.
    is_requested: bool = False
    metadata: dict[int, set[bytes]] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether it proves its group: a commit, or a known key type."""
        return self.is_commit or self.key.version in GROUP_TYPES

    def row(self, committed: int | None) -> dict[str, Any]:
        """Return the first columns of the row of a commit."""
        return {
            "group": self.key.group,
            "topic": self.key.topic,
            "partition": self.key.partition,
            "committed": committed,
        }


@dataclass(slots=True)
class Reduction:
    """The reduction of one partition of the log. Takes its records in offset order.

    `end`: that of the partition, if it is known. `unread`: why it was not read to there.

    The inner loop of a scan over millions of records: one dictionary lookup and a few slices per
    record of the usual shape, the exact decoder for the others. `requested`: groups whose commits are
    requested.
    """

    requested: frozenset[str] = frozenset()
    end: int | None = None
    unread: Unknown | None = None
    records: int = 0
    skipped: int = 0
    malformed: int = 0
    _states: dict[bytes | None, KeyState] = field(default_factory=dict)
    _written_ms: int = -1
    """The newest timestamp so far, without those of the future."""
    _read_ms: int = field(default_factory=wall_clock_ms)

    def add_records(self, records: Iterable[tuple[bytes | None, bytes | None, tuple[int, int], int]]) -> None:
        """Add records: key, value, type and milliseconds of the timestamp, offset.

        A tombstone has no value; without a time the timestamp is negative.
        """
        states, written_ms, read_ms = self._states, self._written_ms, self._read_ms
        for key, value, (_, timestamp_ms), offset in records:
            self.records += 1
            # It was written after all records before it, also where the clock of its broker is behind theirs.
            if timestamp_ms > written_ms:
                written_ms = timestamp_ms if timestamp_ms <= read_ms else written_ms
            elif timestamp_ms >= 0:
                timestamp_ms = written_ms
            state = states.get(key)
            if state is None:
                try:
                    decoded = decode_key(key or b"")
                except ValueError:
                    decoded = _MALFORMED
                is_requested = decoded.group in self.requested
                state = states[key] = KeyState(decoded, decoded.version in (0, 1), is_requested=is_requested)
            state.offset = offset
            state.value = value
            if timestamp_ms > state.newest_ms:
                state.newest_ms = timestamp_ms
            if not state.is_commit:
                self.malformed += state.key is _MALFORMED
                self.skipped += state.key is not _MALFORMED and not state.is_known
            elif value is None:
                # A tombstone: only later commits count for the group.
                state.committed.clear()
                state.metadata.clear()
            elif (
                len(value) == _USUAL_LENGTH
                and value[_TAGS] == _ONE_TOPIC_ID
                and value[_EMPTY] == b"\1"
                and value.startswith(_HEAD)
                and value[_COMMIT_MS] < _NEGATIVE
                and not state.is_requested
            ):
                state.committed[value[_TOPIC_ID]] = value
                commit_ms = value[_COMMIT_MS]
                if commit_ms > state.commit_ms:
                    state.commit_ms = commit_ms
            else:
                try:
                    commit = decode_commit(value)
                    state.committed[commit.topic_id] = value
                    state.newest_ms = max(state.newest_ms, commit.commit_ms)
                    if state.is_requested:
                        state.metadata = {commit.offset: state.metadata.get(commit.offset, set()) | {commit.metadata}}
                except ValueError:
                    # The current commit, of an unknown topic: earlier commits prove nothing.
                    state.committed.clear()
                    state.metadata.clear()
                    self.malformed += 1
        self._written_ms = written_ms

    def activities(self) -> Iterator[dict[str, Any]]:
        """One row per group of a known key. Records of its unknown key types are activity, too."""
        by_group: dict[str, list[KeyState]] = {}
        for state in self._states.values():
            if state.key.group is not None:
                by_group.setdefault(state.key.group, []).append(state)
        for group, states in by_group.items():
            known = [state for state in states if state.is_known]
            if not known:
                continue
            live = [state for state in known if state.value is not None]
            newest_ms = max(
                max(state.newest_ms, int.from_bytes(state.commit_ms or b"\xff", signed=True)) for state in states
            )
            yield {
                "group": group,
                "last_activity_ms": newest_ms if newest_ms >= 0 else None,
                "log_offset": max(state.offset for state in states),
                "seems": _group_type(known).value,
                "live": bool(live),
                # Kafka's clients take an offset below 0 for none (ConsumerCoordinator).
                "commit_keys": sum(state.is_commit and (state.value or b"")[2:3] < _NEGATIVE for state in live),
                "members": sum(state.key.version == _STREAMS_MEMBER and state.value is not None for state in known),
                **_subscription(live),
            }

    def newest(self) -> dict[str, int] | Unknown:
        """The offset of each group's newest record, of unknown key types, too; Unknown: a record may be of any group."""
        newest: dict[str, int] = {}
        for state in self._states.values():
            if state.key is _MALFORMED:
                return Unknown("a record has a malformed key")
            if state.key.group is not None:
                newest[state.key.group] = max(state.offset, newest.get(state.key.group, -1))
        return newest

    def pending(self, last_stable_offset: int, topics: Container[str]) -> Iterator[dict[str, Any]]:
        """One row per partition of these topics whose newest commit may be of an open transaction.

        The end of a transaction does not replace a commit whose record is newer
        (OffsetMetadataManager.replayEndTransactionMarker since 3.8, GroupMetadata before), so only the newest
        record of a key counts. The early access to KIP-848 of 3.7 replaces it. A group without a name has no
        positions.
        """
        for state in self._states.values():
            is_open = state.offset >= last_stable_offset and state.value is not None
            if is_open and state.key.topic in topics and state.key.group:
                try:
                    yield state.row(decode_commit(state.value or b"").offset)
                except ValueError:
                    yield state.row(None)

    def origins(
        self, requested: Mapping[str, Collection[str]] | None, topic_ids: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        """One row per topic id of the commits on each topic by the groups requested for it; None: of all.

        And one per newest commit of any group that is for another topic id than the present one.
        """
        for state in self._states.values():
            group, topic, present_id = state.key.group, state.key.topic, topic_ids.get(state.key.topic)
            is_requested = requested is None or group in requested.get(topic, ())
            for topic_id, value in state.committed.items():
                is_newest = present_id is not None and value is state.value
                if is_requested or (is_newest and encode_topic_id(topic_id) not in (None, present_id)):
                    yield _origin(state, topic_id, value)

    def commits(self) -> Iterator[dict[str, Any]]:
        """One row per newest commit of the requested groups."""
        for state in self._states.values():
            for topic_id, value in state.committed.items() if state.is_requested else ():
                if value is state.value:
                    row = _origin(state, topic_id, value)
                    texts = [base64.b64encode(metadata).decode() for metadata in state.metadata[row["committed"]]]
                    yield {**row, "metadata_base64": texts[0] if len(texts) == 1 else None}


def _origin(state: KeyState, topic_id: bytes, value: bytes) -> dict[str, Any]:
    return {**state.row(decode_commit(value).offset), "topic_id": encode_topic_id(topic_id)}


def _subscription(live: Sequence[KeyState]) -> dict[str, list[str] | None]:
    """The topics in the set keys of a group's members; None: not all can be decoded. Empty without such a key.

    A group with keys of commits only reads no other topics.
    """
    with_topics = [state for state in live if state.key.version in SUBSCRIPTIONS]
    if not with_topics and not (live and all(state.is_commit for state in live)):
        return {}
    try:
        topics = {topic for state in with_topics for topic in SUBSCRIPTIONS[state.key.version](state.value or b"")}
    except ValueError:
        return {"may_read": None}
    return {"may_read": sorted(topics)}


def _group_type(states: Sequence[KeyState]) -> GroupType:
    """The type by set keys, else by tombstones; with commits only, a standalone consumer."""
    types: dict[bool, set[GroupType]] = {True: set(), False: set()}
    for state in states:
        if not state.is_commit:
            group_type = GROUP_TYPES[state.key.version] or _classic_type(state.value)
            types[state.value is not None].add(group_type)
    return min(types[True] or types[False] or {GroupType.CLASSIC}, key=_BY_EVIDENCE.index)


def _classic_type(value: bytes | None) -> GroupType:
    """The type of a group with the classic protocol. HIDDEN: neither consumers nor Connect."""
    try:
        return _CLASSIC_TYPES.get("consumer" if value is None else decode_protocol_type(value), GroupType.HIDDEN)
    except ValueError:
        return GroupType.HIDDEN
