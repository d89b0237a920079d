"""Combines the answers of all chunks into one row per subject, column by column.

Decided here: which positions matter. A group at or above the last stable offset holds nothing back, so its
position is left out unless a policy names the group, it committed for another topic id, or it stands
above the high watermark, where no commit can be.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import CommittedOffset, GroupType, PendingCommit
from reconciler.scan.select import select_groups
from reconciler.scan.task_rows import SCHEMAS, Answer, decode

Row = Mapping[str, Any]

LISTED_TYPES = ("classic", "consumer")
"""Types in the log that prove nothing: a group of these types would be in the current list call.

A Connect group starts with a record without a protocol, which reads as classic.
"""


class PartitionRow(NamedTuple):
    """The offsets of a partition; None: not read. A tuple, because a dictionary takes five times as much."""

    log_start: int | None = None
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    offsets_at: Sequence[int | None] | None = None
    stamps_at: Sequence[int | None] | None = None
    error: str | None = None
    unanswered: bool | None = None


class Position(NamedTuple):
    """Where a group stands; None: it consumes the topic and has no commit on the partition."""

    group: str
    committed: int | None
    pending: PendingCommit | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one scan by subject. Those of partitions by topic and number.

    `origins`: by topic, partition and group, offsets committed with the topic id that each is for; None: the broker
    wrote none. `consumers`: the groups that consume a topic, by topic. `groups_read`: how many groups were read, whose
    rows may have been left out, with `commits_read` commits. `runs`: as of `read_consumer_offsets`.
    """

    partitions: Mapping[str, Mapping[int, PartitionRow]]
    groups: Mapping[str, Row]
    topics: Mapping[str, Row]
    runs: Sequence[Row]
    readers: Mapping[tuple[str, int], Sequence[Position]] = field(default_factory=dict)
    origins: Mapping[tuple[str, int, str], Sequence[tuple[int, str | None]]] = field(default_factory=dict)
    commits: Mapping[str, Mapping[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    consumers: Mapping[str, Collection[str]] = field(default_factory=dict)
    groups_read: int = 0
    commits_read: int = 0


def combine(answers: Sequence[Answer], request: ScanRequest, named: Mapping[str, frozenset[str]]) -> Rows:
    """Return the rows of all answers. `named`: groups whose position is requested wherever it is, by topic."""
    partitions: defaultdict[str, dict[int, PartitionRow]] = defaultdict(dict)
    for topic, number, *offsets in _records(answers, "partitions", "topic", "partition", *PartitionRow._fields):
        partitions[topic][number] = PartitionRow(*offsets)
    origins: defaultdict[tuple[str, int, str], list[tuple[int, str | None]]] = defaultdict(list)
    for topic, number, group, committed, topic_id in _records(answers, "origins", *SCHEMAS["origins"].names):
        origins[topic, number, group].append((committed, topic_id))
    pending: defaultdict[tuple[str, str], dict[int, PendingCommit]] = defaultdict(dict)
    for group, topic, number, *waiting in _records(answers, "pending", *SCHEMAS["pending"].names):
        pending[topic, group][number] = PendingCommit(*waiting)
    readers: defaultdict[tuple[str, int], list[Position]] = defaultdict(list)
    for group, topic, number, committed in _records(answers, "positions", "group", "topic", "partition", "committed"):
        row = partitions[topic].get(number)
        waits = pending[topic, group].get(number) if (topic, group) in pending else None
        is_kept = waits is not None or group in named.get(topic, ()) or (topic, number, group) in origins
        if is_kept or _matters(row, committed):
            readers[topic, number].append(Position(group, committed, waits))
    topics: dict[str, dict[str, int]] = {}
    for topic, records, read in _records(answers, "topics", "topic", "records", "read"):
        counts = topics.setdefault(topic, {"records": 0, "read": 0})
        counts["records"] += records
        counts["read"] += read
    runs = list(_rows(answers, "runs"))
    commits: defaultdict[str, dict[TopicPartition, CommittedOffset]] = defaultdict(dict)
    for group, topic, number, offset, topic_id, metadata in _records(answers, "commits", *SCHEMAS["commits"].names):
        commit = CommittedOffset(
            topic=topic, topic_id=topic_id, partition=number, offset=offset, metadata_base64=metadata
        )
        commits[group][commit.at] = commit
    consumers: defaultdict[str, set[str]] = defaultdict(set)
    for group, topic in _records(answers, "consumers", "group", "topic"):
        consumers[topic].add(group)

    def add_without_commit(topic: str, group: str) -> None:
        # It consumes all partitions, as a group with a commit does.
        if group not in consumers[topic]:
            consumers[topic].add(group)
            for number in partitions[topic]:
                readers[topic, number].append(Position(group, None, pending[topic, group].get(number)))

    for topic, group in pending:  # perhaps its first commit on the topic
        add_without_commit(topic, group)
    activity = {row["group"]: row for row in _rows(answers, "activity")}
    for group, of_log in activity.items():
        for topic in partitions.keys() & (of_log["may_read"] or ()) if of_log["live"] else ():
            if of_log["seems"] == GroupType.SHARE:
                consumers[topic].add(group)
            # While a member gives a partition up in a cooperative rebalance (KIP-429), nobody has it, and its group is
            # STABLE. A topology stays without members.
            elif of_log["seems"] != GroupType.STREAMS or of_log["members"]:
                add_without_commit(topic, group)
    read = {row["group"]: row for row in _rows(answers, "groups")}
    groups, commits_read = _groups(read, activity, request), sum(row["commits"] or 0 for row in read.values())
    return Rows(partitions, groups, topics, runs, readers, origins, commits, consumers, len(read), commits_read)


def _rows(answers: Iterable[Answer], table: str) -> Iterator[dict[str, Any]]:
    for answer in answers:
        if table in answer:
            yield from decode(answer[table]).to_pylist()


def _records(answers: Iterable[Answer], table: str, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of these columns. Equal texts of an answer are one object."""
    for answer in answers:
        if table in answer:
            batch = decode(answer[table])
            yield from zip(*(_values(batch.column(name)) for name in names), strict=True)


def _values(column: pa.Array) -> Iterable[Any]:
    if not (pa.types.is_string(column.type) or pa.types.is_dictionary(column.type)):
        values: list[Any] = column.to_pylist()
        return values
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    return (None if index is None else texts[index] for index in encoded.indices.to_pylist())


def _matters(row: PartitionRow | None, committed: int | None) -> bool:
    """Whether a position on the partition holds records back, or proves nothing. None: without a commit.

    Without a commit, a group starts at the log start. Above the high watermark no commit can be.
    """
    if row is None or row.last_stable_offset is None:
        return True
    if committed is None:
        return (row.log_start or 0) < row.last_stable_offset
    return row.high_watermark is None or not row.last_stable_offset <= committed <= row.high_watermark


def _groups(read: Mapping[str, Row], activity: Mapping[str, Row], request: ScanRequest) -> dict[str, Row]:
    """The rows of groups: commits from their coordinators (`read`), activity from `__consumer_offsets`.

    A group that was read needs no row unless the request selects it, or only the log tells its type.
    """
    requested = select_groups(request.groups, read.keys() | activity.keys())
    groups: dict[str, Row] = {}
    for group in sorted(read.keys() | activity.keys()):
        row, of_log = read.get(group), activity.get(group)
        if group not in requested:
            if row is None and not request.readers:
                continue
            tells_type = of_log is not None and of_log["seems"] not in LISTED_TYPES
            if row is not None and row["error"] is None and not tells_type:
                continue
        groups[group] = {**(of_log or {}), **(row or {})}
    return groups
