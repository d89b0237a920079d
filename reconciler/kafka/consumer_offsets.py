"""Reads `__consumer_offsets` with a plain consumer and reduces it per group: `schemas.COMMIT_LOG`.

Decided here: which records count as activity (all). Uncommitted records are read on purpose: a commit in
an open transaction is activity, and the transaction must not make the groups behind it look idle.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from reconciler.kafka.consumer_offsets_records import (
    GROUP_TYPES,
    RecordKey,
    decode_commit,
    decode_key,
    decode_protocol_type,
    topic_id_text,
)
from reconciler.kafka.schemas import COMMIT_LOG
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topic_reader import read_ends, read_records
from reconciler.kafka.topics import COMMIT_LOG_TOPIC
from reconciler.model.snapshot import GroupType, PartitionFacts

# The value that brokers since 4.2 write for a commit without metadata: version 4, offset, leader epoch,
# an empty compact string, the commit timestamp, one tagged field (number 0, 16 bytes, the topic id).
# Recognised by its length and these bytes, and read by slices.
_USUAL_LENGTH = 42
_HEAD, _EMPTY, _TAGS = b"\0\4", slice(14, 15), slice(23, 26)
_ONE_TOPIC_ID = b"\1\0\x10"
_COMMIT_MS, _TOPIC_ID = slice(15, 23), slice(26, 42)
# Big-endian times compare like their numbers, unless they are negative, which starts here.
_NEGATIVE = b"\x80"

_BY_EVIDENCE = (
    GroupType.STREAMS,
    GroupType.SHARE,
    GroupType.CONNECT,
    GroupType.CONSUMER,
    GroupType.HIDDEN,
    GroupType.CLASSIC,
)
_CLASSIC_TYPES = {"consumer": GroupType.CLASSIC, "": GroupType.CLASSIC, "connect": GroupType.CONNECT}


def read_commit_log(
    session: KafkaSession,
    partitions: Sequence[int],
    *,
    origins: Mapping[str, Collection[str]] | None = None,
    limit_s: float | None = None,
) -> pa.RecordBatch:
    """Everything that these partitions of the log say, reduced per group.

    Never raises for a broker that is away. `origins`: topic ids only of these groups on these topics;
    None: of all. `limit_s`: as of `read_records`.
    """
    logs = {number: Reduction() for number in partitions}

    def add(message: Message) -> None:
        logs[message.partition()].add_record(message.key(), message.value(), message.timestamp()[1], message.offset())

    ends = read_ends(session, COMMIT_LOG_TOPIC, partitions)
    errors = read_records(session, COMMIT_LOG_TOPIC, ends, add, limit_s=limit_s)
    rows: list[dict[str, Any]] = []
    for number, log in logs.items():
        counts = {"records": log.records, "skipped": log.skipped, "garbled": log.malformed}
        rows.append({"log_partition": number, **counts, "error": errors.get(number)})
        rows += ({"log_partition": number, **activity} for activity in log.activities())
        rows += log.origins(origins)
    return pa.RecordBatch.from_pylist(rows, schema=COMMIT_LOG)


def log_sizes(session: KafkaSession, partitions: Sequence[PartitionFacts]) -> dict[int, int]:
    """Number of offsets of each partition of the log; 0 for a leaderless or unknown one.

    The reader of such a partition reports why it could not be read.
    """
    sizes = {facts.partition.partition: 0 for facts in partitions}
    led = [facts.partition.partition for facts in partitions if isinstance(facts.leader, int)]
    return sizes | {number: ends.size for number, ends in read_ends(session, COMMIT_LOG_TOPIC, led).items()}


@dataclass(slots=True)
class KeyState:
    """All records of one key so far. `newest_ms`: of record timestamps, and of commits of an unusual shape."""

    key: RecordKey | None
    """None: malformed."""
    is_commit: bool
    newest_ms: int = -1
    offset: int = -1
    value: bytes | None = None
    # The newest commit timestamp of the usual shape, raw, and the last value under each topic id.
    commit_ms: bytes = b""
    committed: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether it proves its group: a commit, or a known key type."""
        return self.is_commit or (self.key is not None and self.key.version in GROUP_TYPES)


@dataclass(slots=True)
class Reduction:
    """The reduction of one partition of the log. Takes its records in offset order.

    The inner loop of a scan over millions of records: one dictionary lookup and a few slices per record
    of the usual shape, the exact decoder for the others.
    """

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
            try:
                decoded = decode_key(key)
                state = KeyState(decoded, decoded.version in (0, 1))
            except ValueError:
                state = KeyState(None, False)
            self._states[key] = state
        state.offset = offset
        state.value = value
        if timestamp_ms > state.newest_ms:
            state.newest_ms = timestamp_ms
        if not state.is_commit:
            self.malformed += state.key is None
            self.skipped += state.key is not None and not state.is_known
        elif value is None:
            # A tombstone: only later commits count for the group.
            state.committed.clear()
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
            try:
                commit = decode_commit(value)
                state.committed[commit.topic_id] = value
                state.newest_ms = max(state.newest_ms, commit.commit_ms)
            except ValueError:
                # It is the current commit, of an unknown topic: earlier commits prove nothing any more.
                state.committed.clear()
                self.malformed += 1

    def activities(self) -> Iterator[dict[str, Any]]:
        """One row per group of a known key. Records of unknown key types count as activity of such groups."""
        by_group: dict[str, list[KeyState]] = {}
        for state in self._states.values():
            if state.key is not None and state.key.group is not None:
                by_group.setdefault(state.key.group, []).append(state)
        for group, states in by_group.items():
            known = [state for state in states if state.is_known]
            if not known:
                continue
            newest_ms = max(
                max(state.newest_ms, int.from_bytes(state.commit_ms or b"\xff", signed=True)) for state in states
            )
            yield {
                "group": group,
                "last_activity_ms": newest_ms if newest_ms >= 0 else None,
                "log_offset": max(state.offset for state in states),
                "seems": _group_type(known).value,
                "live": any(state.value is not None for state in known),
                "commit_keys": sum(state.is_commit and state.value is not None for state in known),
            }

    def origins(self, requested: Mapping[str, Collection[str]] | None) -> Iterator[dict[str, Any]]:
        """One row per topic id of the commits of each requested group on its topics; None: of all groups."""
        for state in self._states.values():
            if state.key is None or not state.is_commit:
                continue
            _, group, topic, partition = state.key
            assert group is not None
            if requested is None or topic in requested.get(group, ()):
                for topic_id, value in state.committed.items():
                    yield {
                        "group": group,
                        "topic": topic,
                        "partition": partition,
                        "committed": decode_commit(value).offset,
                        "topic_id": topic_id_text(topic_id),
                    }


def _group_type(states: Sequence[KeyState]) -> GroupType:
    """By its set keys, else by its tombstones. A group with commits only is a standalone consumer."""
    types: dict[bool, set[GroupType]] = {True: set(), False: set()}
    for state in states:
        if state.key is not None and not state.is_commit:
            group_type = GROUP_TYPES[state.key.version] or _classic_type(state.value)
            types[state.value is not None].add(group_type)
    candidates = types[True] or types[False] or {GroupType.CLASSIC}
    return next(group_type for group_type in _BY_EVIDENCE if group_type in candidates)


def _classic_type(value: bytes | None) -> GroupType:
    """The type of a group with the classic protocol. HIDDEN: neither consumers nor Connect."""
    try:
        return _CLASSIC_TYPES.get("consumer" if value is None else decode_protocol_type(value), GroupType.HIDDEN)
    except ValueError:
        return GroupType.HIDDEN
