"""Builds the snapshot. Decides what makes a fact Unknown, and when listings are complete."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.futures import failure_in
from reconciler.kafka.group_listing import GroupListing
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC, RetentionFacts, TopicListing, consumer_offsets_missing
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import (
    NO_COMMIT_YET,
    NOT_ASKED,
    Cause,
    ClusterSnapshot,
    ConsumerPosition,
    GroupFacts,
    GroupState,
    GroupType,
    PartitionFacts,
    TopicFacts,
    Unknown,
)
from reconciler.scan.rows import LISTED_TYPES, PartitionRow, Row, Rows
from reconciler.scan.select import PartitionRequest, commit_groups, select_groups
from reconciler.text.escape import quoted
from reconciler.text.formatting import broker_ids, first_few

T = TypeVar("T")

_NO_ANSWER = Unknown("the scan brought no answer for the partition", Cause.NO_ANSWER)
_NO_COMMITS = Unknown("the scan brought no answer for the group's commits", Cause.NO_ANSWER)
_NOT_READ = Unknown("not read")
_HIDDEN = Unknown(f"{CONSUMER_OFFSETS_TOPIC} is hidden")
_LOG_ONLY = Unknown("state: only __consumer_offsets knows this group")

_ENDLESS = 1 << 63
_COMMITS = ("commits", "commit_topics", "fingerprint")
_LATER_PROTOCOLS = frozenset({GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOffsetsLog:
    """What is known of `__consumer_offsets`. `partitions` 0: there is none to read.

    `hidden`: the server hides it, as the Cluster says. `missing`: why nothing is known. `leaders`: the
    broker of each partition with a leader. `away`: those with replicas of the others. `sizes`: offsets of
    partitions with a leader. `last_stable_offsets`: theirs before the scan. `unanswered`: partitions whose
    leader did not answer for them when the groups were listed. `unread`: partitions that were not read to
    their end. `ends`: up to where the others were read. The counts are of records that were read.
    """

    partitions: int = 0
    hidden: bool = False
    missing: Unknown | None = None
    leaders: Mapping[int, int] = field(default_factory=dict)
    away: frozenset[int] = frozenset()
    sizes: Mapping[int, int] = field(default_factory=dict)
    last_stable_offsets: Mapping[int, int] = field(default_factory=dict)
    unanswered: Mapping[int, Unknown] = field(default_factory=dict)
    unread: Mapping[int, Unknown] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    records: int = 0
    skipped: int = 0
    malformed: int = 0

    def judge(self, listing: GroupListing, *, hidden: bool) -> "tuple[ConsumerOffsetsLog, GroupListing]":
        """Return the log, and the listing of groups with why it may be incomplete, as they judge each other.

        `hidden`: the Cluster says that its server hides the topic. Brokers without the topic have no groups.
        """
        log = self
        if not self.partitions:
            missing = consumer_offsets_missing(self.missing, listing.groups, hidden=hidden)
            log = ConsumerOffsetsLog(missing=missing, hidden=hidden and missing is None)
        return log, listing if listing.incomplete is not None else replace(listing, incomplete=log.hides_groups)

    @property
    def hides_groups(self) -> Unknown | None:
        """Why the listing may lack groups: a broker lists those of log partitions that it leads."""
        if self.missing is not None and self.missing is not NOT_ASKED:
            return self.missing.about("whether every group is listed is unknown")
        if len(self.sizes) < self.partitions:
            partitions = (
                f"{self.partitions - len(self.sizes)} of {self.partitions} partitions of {CONSUMER_OFFSETS_TOPIC}"
            )
            replicas = f" (replicas on brokers {broker_ids(sorted(self.away))})" if self.away else ""
            return Unknown(f"no broker lists the groups of {partitions}, which have no leader{replicas}")
        if self.unanswered:
            # Once the silent leader is fenced, a listing succeeds without its groups.
            number = min(self.unanswered)
            return self.unanswered[number].about(f"the groups of {CONSUMER_OFFSETS_TOPIC}[{number}] may not be listed")
        return None

    def with_rows(self, runs: Iterable[Row]) -> "ConsumerOffsetsLog":
        """The log after its reading. A partition without a row of its own was not read."""
        rows = {row["log_partition"]: row for row in runs}
        no_answer, no_leader = Unknown("its task brought no answer", Cause.NO_ANSWER), Unknown("it has no leader")
        unread: dict[int, Unknown] = {}
        for number in range(self.partitions):
            where = f"{CONSUMER_OFFSETS_TOPIC}[{number}] was not read"
            if number not in rows:
                unread[number] = (no_answer if number in self.leaders else no_leader).about(where)
            elif (failure := failure_in(rows[number])) is not None:
                unread[number] = failure.about(f"{where} to its end")
        ends = {number: row["log_offset"] for number, row in rows.items() if number not in unread}
        records, skipped, malformed = (
            sum(row[column] or 0 for row in rows.values()) for column in ("records", "skipped", "garbled")
        )
        return replace(self, unread=unread, ends=ends, records=records, skipped=skipped, malformed=malformed)

    def reason_for(self, group: str) -> Unknown | None:
        """Why the log's facts of this group are Unknown; None: they are known."""
        if self.missing is not None or not self.partitions:
            return self.missing
        return self.unread.get(log_partition(group, self.partitions)) if self.unread else None

    def coordinator_of(self, group: str) -> int | None:
        """The broker that coordinates the group, by id: the leader of its partition. None: not known."""
        return self.leaders.get(log_partition(group, self.partitions)) if self.leaders else None


def partition_facts(
    requests: Iterable[PartitionRequest],
    rows: Rows,
    log: ConsumerOffsetsLog,
    last_purges: Mapping[TopicPartition, int] | Unknown,
    observed_at_ms: int,
) -> dict[TopicPartition, PartitionFacts]:
    """Facts of every requested partition."""
    facts: dict[TopicPartition, PartitionFacts] = {}
    for request in requests:
        for listed in request.partitions:
            partition = listed.partition
            if request.last_purge:
                purge = last_purges if isinstance(last_purges, Unknown) else last_purges.get(partition)
                listed = replace(listed, last_purge=purge)
            facts[partition] = _with_offsets(listed, request, rows, log, observed_at_ms) if request.full else listed
    return facts


def _with_offsets(
    listed: PartitionFacts, request: PartitionRequest, rows: Rows, log: ConsumerOffsetsLog, observed_at_ms: int
) -> PartitionFacts:
    topic, number = listed.partition.topic, listed.partition.partition
    row = rows.partitions.get(topic, {}).get(number)
    unread = _unread_reason(listed, row)
    row = row or PartitionRow()
    log_start, last_stable_offset, high_watermark = (unread if offset is None else offset for offset in row[:3])
    at = row.offsets_at or [None] * len(request.instants)
    # -1: no record at or after the instant, below the last stable offset read before.
    found = (None if offset == -1 else unread if offset is None else offset for offset in at)
    stamps = zip(request.instants, row.stamps_at or (), strict=False)
    return replace(
        listed,
        log_start=log_start,
        last_stable_offset=last_stable_offset,
        high_watermark=high_watermark,
        offsets_at=dict(zip(request.instants, found, strict=True)),
        future_stamps={instant: stamp for instant, stamp in stamps if stamp is not None and stamp > observed_at_ms},
        readers=_readers(request, number, rows, log_start, log),
        readers_below=last_stable_offset if request.readers else NOT_ASKED,
    )


def _unread_reason(listed: PartitionFacts, row: PartitionRow | None) -> Unknown:
    if isinstance(listed.leader, Unknown):
        return listed.leader
    if listed.leader is None:
        return Unknown("the partition has no leader")
    if row is None:
        return _NO_ANSWER
    failure = None if row.error is None else failure_in(row._asdict())
    return _NOT_READ if failure is None else failure


def _readers(
    request: PartitionRequest, number: int, rows: Rows, log_start: int | Unknown, log: ConsumerOffsetsLog
) -> tuple[ConsumerPosition, ...] | Unknown:
    if not request.readers and not request.named:
        return NOT_ASKED
    readers = []
    for group, committed, pending in rows.readers.get((request.topic, number), ()):
        if not request.readers and group not in request.named:
            continue
        if committed is not None:
            origins = rows.origins.get((request.topic, number, group), ())
            topic_id = (
                _origin(group, committed, origins, log)
                if group in request.named
                # Of other groups there are only commits for another topic id.
                else next((origin for newest, origin in origins if newest == committed), NOT_ASKED)
            )
            readers.append(ConsumerPosition(group, committed, topic_id=topic_id, pending=pending))
        elif isinstance(log_start, Unknown):
            reason = f"where {quoted(group)} would start reading is unknown, {log_start.reason}"
            return replace(log_start, reason=reason)
        else:
            readers.append(ConsumerPosition(group, log_start, without_commit=True, pending=pending))
    return tuple(sorted(readers, key=lambda position: position.group))


def _origin(
    group: str, committed: int, origins: Collection[tuple[int, str | None]], log: ConsumerOffsetsLog
) -> str | Unknown | None:
    unread = log.reason_for(group)
    if unread is not None or log.hidden:
        return unread  # None, as of a broker that writes no topic id
    ids = {topic_id for _newest, topic_id in origins}
    if len(ids) > 1:
        # With commits for an earlier topic of this name only the current one counts.
        ids = {topic_id for newest, topic_id in origins if newest == committed}
    if len(ids) == 1:
        return ids.pop()
    return Unknown(f"the topic id that {quoted(group)} committed for: __consumer_offsets does not say")


def group_facts(
    request: ScanRequest, listing: GroupListing, rows: Rows, log: ConsumerOffsetsLog
) -> dict[str, GroupFacts]:
    """All listed groups, and ids that only the old list call or `__consumer_offsets` knows."""
    groups: dict[str, GroupFacts] = {}
    untold = _untold_types(listing, rows, log)
    names = listing.groups.keys() | {name for name, row in rows.groups.items() if row.get("live")}
    requested = select_groups(request.groups, names)
    with_activity = select_groups([part for part in request.groups if part.activity], names)
    read = commit_groups(request, listing) if request.readers else ()
    for name in sorted(names):
        listed = listing.groups.get(name)
        row = rows.groups.get(name, {})
        seems = row.get("seems") if row.get("live") else None
        facts = listed or GroupFacts(group=name, listed=False, type=GroupType.HIDDEN, state=_LOG_ONLY)
        if untold is not None and facts.listed is True:
            facts = replace(facts, type=untold)
        if seems is not None and facts.type is GroupType.HIDDEN and (listed is None or seems not in LISTED_TYPES):
            facts = replace(facts, type=GroupType(seems))
        topics = row.get("may_read")
        # Of a group that no call lists, nobody reads the commits, which may be on more topics.
        is_read = listed is not None and facts.type in (*LISTED_TYPES, GroupType.STREAMS)
        if (topics and is_read) or (facts.type is GroupType.SHARE and topics is not None):
            facts = replace(facts, may_read=frozenset(topics))
        elif row.get("pending_only"):
            # It counts for the topics of these commits, which are read apart: aborted ones may hang behind
            # an open transaction of another group.
            facts = replace(facts, may_read=frozenset())
        if facts.type is GroupType.STREAMS and listed is not None:
            by_log = GroupState.STABLE if row.get("members") else GroupState.EMPTY
            log_unread = log.reason_for(name)
            facts = replace(facts, listed=True, state=by_log if log_unread is None else log_unread)
        if name in read:
            # A group that was read and not requested has no row here.
            unread = failure_in(row)
            if unread is None and facts.type is GroupType.STREAMS and not row.get("commits"):
                unread = NO_COMMIT_YET
            facts = replace(facts, consumption_unread=unread)
        if name in with_activity:
            commits_only = facts.type is GroupType.CLASSIC and row.get("may_read") == []
            facts = replace(facts, commit_records=rows.commits.get(name, {}), commits_only=commits_only)
            facts = _with_activity(facts, row, _HIDDEN if log.hidden else log.reason_for(name), log)
        groups[name] = _with_commits(facts, row) if name in requested else facts
    return groups


def _untold_types(listing: GroupListing, rows: Rows, log: ConsumerOffsetsLog) -> Unknown | None:
    """Why listed groups may not be classic, though no broker knows another protocol; None: they are, or types were told.

    The early access of Kafka 3.7 writes keys of the consumer protocol, and lists its groups without a type.
    """
    if not listing.without_types or (log.hidden and listing.classic_only):
        return None
    reason = "no broker tells types of groups (ListGroups before version 5), and "
    # A skipped key is of an unknown protocol.
    if log.hidden or log.missing is not None or log.unread or log.skipped or log.malformed:
        return Unknown(
            f"{reason}{CONSUMER_OFFSETS_TOPIC} was not read in full, which shows that all of them are classic"
        )
    others = (name for name, row in rows.groups.items() if row.get("live") and row["seems"] in _LATER_PROTOCOLS)
    if other := min(others, default=None):
        return Unknown(f"{reason}{CONSUMER_OFFSETS_TOPIC} holds keys of another protocol, of group {quoted(other)}")
    return None


def _with_commits(facts: GroupFacts, row: Row) -> GroupFacts:
    failure = failure_in(row)
    unread = _NO_COMMITS if failure is None else failure
    if not facts.listed:
        unread = Unknown("commits of a group that no list call names cannot be read")
    elif row.get("commits") is not None and row.get("commit_keys") is not None and row["commit_keys"] > row["commits"]:
        # Brokers omit commits on topics that the caller may not describe, without an error. Only
        # the log shows them. Only `idleFor: 0s` works without the log, as its removals say.
        unread = Unknown(
            f"__consumer_offsets holds {row['commit_keys']} commits of the group, its coordinator has {row['commits']}: "
            "the right DESCRIBE on some of their topics is missing, or a transaction is open"
        )
        row = {}
    commits: dict[str, Any] = {name: unread if row.get(name) is None else row[name] for name in _COMMITS}
    return replace(facts, **commits)


def _with_activity(facts: GroupFacts, row: Row, unread: Unknown | None, log: ConsumerOffsetsLog) -> GroupFacts:
    """Add newest activity and record. Without records both are Unknown: silence proves nothing.

    So they are where the record may be of an open transaction, whose producer may be at work.
    """
    if unread is None and row.get("log_offset") is None:
        unread = Unknown("__consumer_offsets holds no record of the group")
    elif unread is None and row["log_partition"] in log.unanswered:
        unread = log.unanswered[row["log_partition"]]  # whether a transaction is open there is not known
    elif unread is None and log.last_stable_offsets.get(row["log_partition"], _ENDLESS) <= row["log_offset"]:
        where = f"{CONSUMER_OFFSETS_TOPIC}[{row['log_partition']}]"
        unread = Unknown(f"its newest record is in or behind an open transaction of {where}", Cause.OPEN_TRANSACTION)
    if unread is not None:
        return replace(facts, last_activity_ms=unread, newest_record=unread)
    if (last := row.get("last_activity_ms")) is None:
        last = Unknown("no record of the group in __consumer_offsets carries a time")
    return replace(facts, last_activity_ms=last, newest_record=(row["log_partition"], row["log_offset"]))


def readers_incomplete(
    request: ScanRequest, listing: GroupListing, rows: Rows, log: ConsumerOffsetsLog
) -> Unknown | None:
    """Why positions of any group may be unknown; None: each group says whether its own were read."""
    if not request.readers:
        return NOT_ASKED
    if listing.incomplete is not None:
        return listing.incomplete
    # No broker lists the groups of a leaderless partition of the log, and no broker says so.
    if log.missing is not None:
        return log.missing
    if log.unread:
        return min(log.unread.values(), key=lambda unread: unread.reason)
    if listing.hidden_unread is not None and (log.hidden or log.skipped or log.malformed):
        # The log would replace the old list call if every record of it could be decoded.
        return listing.hidden_unread
    groups = commit_groups(request, listing)
    if rows.groups_read == len(groups):
        return None
    return Unknown(f"the tasks of the scan read {rows.groups_read} of {len(groups)} groups", Cause.NO_ANSWER)


def topic_facts(
    listing: TopicListing,
    retention: Mapping[str, RetentionFacts],
    rows: Rows,
    counted: frozenset[str],
    with_readers: Collection[str],
) -> dict[str, TopicFacts]:
    """All listed topics. `with_readers`: those whose readers are requested."""
    topics = {}
    for name, topic in sorted(listing.topics.items()):
        policies = retention.get(name, RetentionFacts())
        is_compacted = isinstance(policies.cleanup_policy, Unknown) or "compact" in policies.cleanup_policy
        topics[name] = replace(
            topic,
            **policies._asdict(),
            records=_records(topic, rows.topics.get(name)) if name in counted else NOT_ASKED,
            records_min=0 if is_compacted else rows.topics.get(name, {}).get("records") or 0,
            consumers=frozenset(rows.consumers.get(name, ())) if name in with_readers else NOT_ASKED,
        )
    return topics


def _records(topic: TopicFacts, row: Row | None) -> int | Unknown:
    """The sum over all partitions. Counted are those that were read: a chunk may lack an answer."""
    if isinstance(topic.partitions, Unknown):
        return topic.partitions
    records, read = (0, 0) if row is None else (row["records"], row["read"])
    if read != topic.partitions:
        return Unknown(f"records of {topic.name}: {read} of {topic.partitions} partitions were read")
    return int(records)


def cluster_records(request: ScanRequest, topics: Iterable[TopicFacts]) -> int | Unknown:
    """Records of all topics except Kafka's own.

    Only a share is taken of it. What is not known counts as none, so the share looks larger.
    """
    return sum(topic.records_min for topic in topics if not topic.is_system) if request.cluster_records else NOT_ASKED


def lacks_answers(snapshot: ClusterSnapshot) -> bool:
    """Return whether a fact is unknown because no answer came."""
    of_partitions = (  # of a million partitions, so only facts that the others stand or fall with
        fact
        for facts in snapshot.partitions.values()
        for fact in (facts.topic_id, facts.log_start, facts.last_stable_offset, facts.readers)
    )
    others = (snapshot, *snapshot.groups.values(), *snapshot.topics.values())
    return any(map(_is_unanswered, of_partitions)) or any(map(_unanswered, others))


def name_silent_brokers(snapshot: ClusterSnapshot, silent: Mapping[int, Unknown]) -> ClusterSnapshot:
    """Return the snapshot with one reason for all facts that silent brokers kept.

    `silent`: the reason of each of them. The facts of a partition have the reason of its leader; a
    leader that answers again keeps its own reasons. Which broker kept a list, or coordinates a
    group, is not known: any of them may.
    """
    if not silent:
        return snapshot
    any_of_them = Unknown(first_few([silent[broker].reason for broker in sorted(silent)]), Cause.SILENT_BROKER)

    def of_partition(facts: PartitionFacts) -> Unknown | None:
        return silent.get(facts.leader) if isinstance(facts.leader, int) else any_of_them

    return replace(
        _with_reason(snapshot, any_of_them),
        silent_brokers=frozenset(silent),
        partitions={name: _with_reason(facts, of_partition(facts)) for name, facts in snapshot.partitions.items()},
        groups={name: _with_reason(facts, any_of_them) for name, facts in snapshot.groups.items()},
        topics={name: _with_reason(facts, any_of_them) for name, facts in snapshot.topics.items()},
    )


def _unanswered(facts: Any) -> list[str]:
    """Return the fields that are unknown because no answer came."""
    return [part.name for part in fields(facts) if _is_unanswered(getattr(facts, part.name))]


def _with_reason(facts: T, reason: Unknown | None) -> T:
    if reason is None:
        return facts
    changes: dict[str, Any] = dict.fromkeys(_unanswered(facts), reason)
    if isinstance(facts, PartitionFacts) and any(map(_is_unanswered, facts.offsets_at.values())):
        offsets = {at: reason if _is_unanswered(offset) else offset for at, offset in facts.offsets_at.items()}
        changes["offsets_at"] = offsets
    return replace(facts, **changes) if changes else facts  # type: ignore[type-var]


def _is_unanswered(value: object) -> bool:
    return isinstance(value, Unknown) and value.unanswered
