"""Rows and listings become the snapshot. Decided here: what makes a fact unread, and when listings and readers are complete.

Every number comes with its error or is `Unknown`; a row that should be there and is not is unread, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.kafka.coordinator import log_partition
from reconciler.kafka.groups import GroupListing, GroupMetadata
from reconciler.kafka.topics import PartitionMetadata, TopicListing, summarize
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import (
    NOT_ASKED,
    ConsumerPosition,
    GroupFacts,
    GroupType,
    PartitionFacts,
    TopicFacts,
    Unknown,
)
from reconciler.scan.requests import PartitionRequest, selected_groups
from reconciler.scan.rows import Row, Rows

_LISTED_TYPES = ("classic", "consumer")
"""What a group seems to be that would be on the current list call if it were: a Connect group begins with a record that names no protocol."""
_NO_COMMITS = {"commits": None, "commit_topics": None, "fingerprint": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLog:
    """How the reading of the commit log went. `partitions` 0: the topic provably does not exist, so nobody ever committed.

    `unread`: partitions that were not read to their end. `missing`: why none was read at all.
    """

    partitions: int = 0
    unread: Mapping[int, Unknown] = field(default_factory=dict)
    missing: Unknown | None = None
    records: int = 0
    skipped: int = 0
    garbled: int = 0

    def of(self, group: str) -> Unknown | None:
        """Why what the log says of this group is not known; None: it is."""
        if self.missing is not None or not self.partitions:
            return self.missing
        return self.unread.get(log_partition(group, self.partitions))

    @property
    def complete(self) -> bool:
        return self.missing is None and not self.unread


def commit_log(runs: Iterable[Row], *, partitions: int, asked: bool, missing: Unknown | None) -> CommitLog:
    """What the log's own rows say about how it was read. A partition without a row was not read."""
    if not asked:
        return CommitLog(missing=NOT_ASKED)
    if missing is not None or partitions == 0:
        return CommitLog(missing=missing)
    of_log = {row["number"]: row for row in runs if row["name"] == "commit_log"}
    unread = {
        number: Unknown(f"__consumer_offsets[{number}] was not read to its end: {of_log[number]['error']}")
        if number in of_log
        else Unknown(f"__consumer_offsets[{number}] was not read: it has no leader")
        for number in range(partitions)
        if number not in of_log or of_log[number]["error"] is not None
    }
    return CommitLog(
        partitions=partitions,
        unread=unread,
        records=sum(row["records"] or 0 for row in of_log.values()),
        skipped=sum(row["skipped"] or 0 for row in of_log.values()),
        garbled=sum(row["garbled"] or 0 for row in of_log.values()),
    )


def partition_facts(
    wishes: Iterable[PartitionRequest],
    rows: Rows,
    log: CommitLog,
    last_purges: Mapping[TopicPartition, int] | Unknown,
) -> Iterator[PartitionFacts]:
    """Facts of every wished partition."""
    for wish in wishes:
        for listed in wish.partitions:
            partition = TopicPartition(wish.topic.name, listed.number)
            purge: int | Unknown | None = NOT_ASKED
            if wish.last_purge:
                purge = last_purges if isinstance(last_purges, Unknown) else last_purges.get(partition)
            yield _partition(partition, wish, listed, rows.partitions.get(partition), log, purge)


def _partition(
    partition: TopicPartition,
    wish: PartitionRequest,
    listed: PartitionMetadata,
    row: Row | None,
    log: CommitLog,
    purge: int | Unknown | None,
) -> PartitionFacts:
    if not wish.full:
        return PartitionFacts(
            partition=partition,
            topic_id=wish.topic.topic_id,
            leader=listed.leader,
            replicas=listed.replicas,
            in_sync=listed.in_sync,
            last_purge_ms=purge,
        )
    unread = _why_unread(listed, row)
    row = row or {}
    log_start = _value(row, "log_start", unread)
    stable_end = _value(row, "stable_end", unread)
    at: Sequence[int | None] = row.get("offsets_at") or [None] * len(wish.instants)
    offsets_at: dict[int, int | Unknown | None] = {}
    for instant, offset in zip(wish.instants, at, strict=True):
        # -1 means: no record at or after the instant, up to the stable end that was read before the question.
        offsets_at[instant] = None if offset == -1 else unread if offset is None else offset
    readers: tuple[ConsumerPosition, ...] | Unknown = NOT_ASKED
    if wish.readers or wish.named:
        readers = _readers(wish, row, log_start, log)
    # Not the former with `replace`, which takes longer than all the rest.
    return PartitionFacts(
        partition=partition,
        topic_id=wish.topic.topic_id,
        leader=listed.leader,
        replicas=listed.replicas,
        in_sync=listed.in_sync,
        last_purge_ms=purge,
        log_start=log_start,
        stable_end=stable_end,
        high_watermark=_value(row, "high_watermark", unread),
        offsets_at=offsets_at,
        readers=readers,
        readers_below=stable_end if wish.readers else NOT_ASKED,
    )


def _why_unread(listed: PartitionMetadata, row: Row | None) -> Unknown:
    if isinstance(listed.leader, Unknown):
        return listed.leader
    if listed.leader is None:
        return Unknown("the partition has no leader")
    if row is None:
        return Unknown("the scan brought no answer for the partition")
    return Unknown(row["error"] or "not read")


def _value(row: Row, column: str, unread: Unknown) -> int | Unknown:
    found = row.get(column)
    return unread if found is None else int(found)


def _readers(
    wish: PartitionRequest, row: Row, log_start: int | Unknown, log: CommitLog
) -> tuple[ConsumerPosition, ...] | Unknown:
    origins: dict[str, list[Row]] = {}
    for origin in row.get("origins") or ():
        origins.setdefault(origin["group"], []).append(origin)
    readers = []
    for found in row.get("readers") or ():
        group, committed = found["group"], found["committed"]
        if not wish.readers and group not in wish.named:
            continue
        if committed is None:
            if isinstance(log_start, Unknown):
                return Unknown(f"where {group!r} would start reading is unknown, {log_start.reason}")
            readers.append(ConsumerPosition(group, log_start, implied=True))
        elif group in wish.named:
            readers.append(
                ConsumerPosition(group, committed, topic_id=_origin(group, committed, origins.get(group, ()), log))
            )
        else:
            readers.append(ConsumerPosition(group, committed))
    return tuple(sorted(readers, key=lambda reader: reader.group))


def _origin(group: str, committed: int, origins: Sequence[Row], log: CommitLog) -> str | Unknown | None:
    unread = log.of(group)
    if unread is not None:
        return unread
    ids = {origin["id"] for origin in origins}
    if len(ids) > 1:
        # The log still holds commits for an earlier topic of this name: only the one that is in force counts.
        ids = {origin["id"] for origin in origins if origin["committed"] == committed}
    if len(ids) == 1:
        found: str | None = ids.pop()
        return found
    return Unknown(f"which topic id {group!r} committed for: the commit log does not say")


def group_facts(needs: ScanRequest, listing: GroupListing, rows: Rows, log: CommitLog) -> Iterator[GroupFacts]:
    """All listed groups, and ids that only the old list call or the commit log know."""
    names = listing.groups.keys() | {name for name, row in rows.groups.items() if row["live"]}
    needed = selected_groups(needs.groups, names)
    with_activity = selected_groups([need for need in needs.groups if need.activity], names)
    for name in sorted(names):
        listed = listing.groups.get(name)
        row = rows.groups.get(name, {})
        seems = row.get("seems") if row.get("live") else None
        kind = listed.type if listed is not None else GroupType.HIDDEN
        if seems is not None and (listed is None or (not listed.listed and seems not in _LISTED_TYPES)):
            kind = GroupType(seems)
        facts = GroupFacts(
            group=name,
            listed=listed is not None and listed.listed,
            type=kind,
            state=listed.state if listed is not None else Unknown("state: only the commit log knows this group"),
        )
        yield _with_commits(facts, listed, row, log, activity=name in with_activity) if name in needed else facts


def _with_commits(
    facts: GroupFacts, listed: GroupMetadata | None, row: Row, log: CommitLog, *, activity: bool
) -> GroupFacts:
    unread = Unknown(row.get("error") or "the scan brought no answer for the group's commits")
    if listed is None or not listed.listed:
        unread = Unknown("commits of a group that no list call names cannot be read")
    elif row.get("commits") is not None and row.get("commit_keys") is not None and row["commit_keys"] > row["commits"]:
        # Brokers leave commits on topics that the caller may not describe out of their answer, without an error. Only the log shows it:
        # where it is not read, which `idleFor: 0s` alone allows, the removal itself says that such commits are not counted.
        told = (
            f"the commit log holds {row['commit_keys']} commits of the group, and its coordinator told {row['commits']}"
        )
        why = "the right DESCRIBE on some of their topics is missing, or a transaction was not committed"
        row, unread = {**row, **_NO_COMMITS}, Unknown(f"{told}: {why}")
    last: int | Unknown = NOT_ASKED
    newest: tuple[int, int] | Unknown = NOT_ASKED
    if activity:
        last, newest = _activity(row, log.of(facts.group))
    return replace(
        facts,
        commits=_value(row, "commits", unread),
        commit_topics=_value(row, "commit_topics", unread),
        fingerprint=row.get("fingerprint") or unread,
        last_activity_ms=last,
        newest_record=newest,
    )


def _activity(row: Row, unread: Unknown | None) -> tuple[int | Unknown, tuple[int, int] | Unknown]:
    """Newest activity and newest record. Silence is not idleness: a group of which the log holds nothing is unread, too."""
    if unread is not None:
        return unread, unread
    if row.get("log_offset") is None:
        nothing = Unknown("the commit log holds no record of the group")
        return nothing, nothing
    last = row["last_activity_ms"]
    return (
        Unknown("no record of the group in the commit log carries a time") if last is None else last,
        (row["log_partition"], row["log_offset"]),
    )


def readers_incomplete(
    needs: ScanRequest, asked: frozenset[str], listing: GroupListing, rows: Rows, log: CommitLog
) -> Unknown | None:
    """Why nobody knows whom a purge would hurt; None: every group's position is known."""
    if not needs.readers:
        return NOT_ASKED
    if listing.incomplete is not None:
        return listing.incomplete
    if not log.complete:
        # Groups whose part of the log nobody leads are in no broker's list, and no broker says so.
        return log.missing if log.missing is not None else min(log.unread.values(), key=lambda unread: unread.reason)
    if listing.hidden_unread is not None and (log.skipped or log.garbled):
        # It would make up for the old list call if it were understood as a whole.
        return listing.hidden_unread
    if log.partitions == 0 and log.missing is None:
        return Unknown(f"commits of {summarize(sorted(asked))}: the commit log is not there yet") if asked else None
    failed = [
        # A listed group that was read and that nobody needs has no row here.
        f"{name!r} ({rows.groups[name]['error']})"
        for name in sorted(asked)
        if name in rows.groups and rows.groups[name]["error"] is not None
    ]
    return Unknown(f"commits of {len(failed)} group(s) could not be read: {summarize(failed)}") if failed else None


def topic_facts(
    listing: TopicListing,
    policies: Mapping[str, frozenset[str] | Unknown],
    rows: Rows,
    counted: frozenset[str],
) -> Iterator[TopicFacts]:
    """All listed topics."""
    for name, topic in sorted(listing.topics.items()):
        yield TopicFacts(
            name=name,
            topic_id=topic.topic_id,
            internal=topic.internal,
            partitions=topic.partitions if isinstance(topic.partitions, Unknown) else len(topic.partitions),
            cleanup_policy=policies.get(name, NOT_ASKED),
            records=_records(name, topic.partitions, rows.topics.get(name)) if name in counted else NOT_ASKED,
        )


def _records(name: str, partitions: Sequence[PartitionMetadata] | Unknown, row: Row | None) -> int | Unknown:
    if isinstance(partitions, Unknown):
        return partitions
    leaderless = sum(not isinstance(p.leader, int) for p in partitions)
    unread = leaderless + (row["unread"] or 0 if row is not None else 0)
    if unread:
        return Unknown(f"records of {name}: {unread} of {len(partitions)} partitions could not be read")
    if row is None:
        return Unknown(f"records of {name}: the scan brought no answer") if partitions else 0
    return int(row["records"])


def cluster_records(needs: ScanRequest, topics: Iterable[TopicFacts]) -> int | Unknown:
    """Records of all topics but the broker's own; unread as soon as one topic's are."""
    if not needs.cluster_records:
        return NOT_ASKED
    total = 0
    for topic in topics:
        if topic.internal:
            continue
        if isinstance(topic.records, Unknown):
            return topic.records
        total += topic.records
    return total
