"""All facts of one scan: values, or Unknown; never zero or empty for what was not read."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from reconciler.model.bounds import OMIT_DEFAULT, EpochMs, Int32, Int64, NonEmpty
from reconciler.model.names import TRANSACTIONS_TOPIC, TopicPartition
from reconciler.model.scan_request import ExternalReaderRequest
from reconciler.text.formatting import format_instant

OLDEST_MS = 978_307_200_000
"""2001-01-01. An earlier timestamp is in seconds instead of milliseconds, or made up."""


class Cause(StrEnum):
    """Whether an answer came for a fact. A refusal is an answer.

    NO_ANSWER: none came, and the reason does not say which broker owes it. SILENT_BROKER: the reason
    names the broker that does not answer. OPEN_TRANSACTION: the end of one decides what was read.
    """

    OTHER = "other"
    NO_ANSWER = "no answer"
    SILENT_BROKER = "silent broker"
    OPEN_TRANSACTION = "open transaction"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that was not read. `reason`: a sentence fragment without a full stop.

    `cause`: set where the answer is missed, so that no caller compares texts. A fact with another
    reason for the same cause: `about`, `dataclasses.replace`.
    """

    reason: str
    cause: Cause = Cause.OTHER

    @property
    def unanswered(self) -> bool:
        """Whether no answer came: that says nothing of rights."""
        return self.cause in (Cause.NO_ANSWER, Cause.SILENT_BROKER)

    @property
    def silent(self) -> bool:
        """Whether the reason names a broker that does not answer."""
        return self.cause is Cause.SILENT_BROKER

    def about(self, subject: str) -> "Unknown":
        """Return the fact with what it is about before its reason."""
        return replace(self, reason=f"{subject}: {self.reason}")

    def __bool__(self) -> bool:
        raise TypeError(f"an unknown fact has no truth value ({self.reason}): test with isinstance(fact, Unknown)")


NOT_ASKED = Unknown("not asked")
NO_COMMIT_YET = Unknown("it is a Streams group without a commit, and its members cannot be described")
REBALANCING = Unknown("the group is rebalancing, so the topics that its members will read are not known")
CLOCKS_APART_MAX_MS = 5 * 60_000
"""How far the clock of a run may be from that of the brokers, which stamp entries, idleness and records."""


def known_or_none(fact: Any) -> Any:
    """Return the fact, and None where it is Unknown: for columns of a table."""
    return None if isinstance(fact, Unknown) else fact


class GroupType(StrEnum):
    """Group types of the broker (KIP-848, KIP-932, KIP-1071). HIDDEN: the type is not known."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    CONNECT = "connect"
    OTHER = "other"
    HIDDEN = "hidden"


class GroupState(StrEnum):
    """States of the broker's group coordinator, as ListGroups names them, upper case."""

    EMPTY = "EMPTY"
    STABLE = "STABLE"
    PREPARING_REBALANCE = "PREPARING_REBALANCE"
    COMPLETING_REBALANCE = "COMPLETING_REBALANCE"
    ASSIGNING = "ASSIGNING"
    RECONCILING = "RECONCILING"
    NOT_READY = "NOT_READY"
    DEAD = "DEAD"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """One committed offset of a group, as the coordinator tells it.

    `topic_id`: of the topic that the commit is for, where `__consumer_offsets` was read and its record has it
    (value version 4 of Kafka 4.2); otherwise of the topic of that name when the commit was read; None:
    not known. `leader_epoch`: as committed; None: none. `metadata_base64`: the bytes of its metadata in
    `__consumer_offsets`; empty: it has none; None: not known. `metadata`: in files of earlier versions,
    as the client library told it, which may be wrong.
    """

    topic: NonEmpty
    topic_id: NonEmpty | None = None
    partition: Int32
    offset: Int64
    leader_epoch: Int32 | None = None
    metadata: str | None = None
    metadata_base64: str | None = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """A commit whose transaction may still be open: its record lies at or above the last stable offset.

    `committed` None: the record could not be decoded. `log_partition`: of `__consumer_offsets`.
    """

    committed: int | None
    log_partition: int


@dataclass(frozen=True, slots=True)
class ConsumerPosition:
    """A group with a position on a partition.

    `committed`: the next offset that it reads. `without_commit`: it consumes the topic and has not
    committed here, so `committed` is the log start. `topic_id`: of the topic that the commit was
    made for, from `__consumer_offsets`; None: the broker wrote none (value versions before v4). `pending`: the
    group's newest commit here, where its transaction may still be open.
    """

    group: str
    committed: int
    without_commit: bool = False
    topic_id: str | Unknown | None = NOT_ASKED
    foreign_commit: int | None = None
    """The group's commit where it lies outside of this log; `committed` is the log start then."""
    pending: PendingCommit | None = None
    written_at_ms: int | None = None
    """Of an external reader: when its position was written; `group` is its address then. None: a group."""


@dataclass(frozen=True)
class ExternalPosition:
    """The next offsets that an external reader needs. A partition that is absent counts from its log start.

    `written_at_ms`: when the newest of them was written, by the clock of what wrote it.
    """

    offsets: Mapping[TopicPartition, int]
    written_at_ms: int

    @cached_property
    def topics(self) -> frozenset[str]:
        return frozenset(partition.topic for partition in self.offsets)


ExternalPositions = Mapping[ExternalReaderRequest, ExternalPosition | Unknown]
"""The position of each reader that a manifest declares."""


class LookupKind(StrEnum):
    """What a lookup finds.

    FIRST, LAST: the first or the last record that a read-committed consumer is given at or above
    `start` and below `end`; transaction markers and aborted records are none. NEWEST: the record with
    the highest timestamp. UNCOMMITTED: the first record stamped at or after the epoch ms `start`, also
    above the last stable offset.
    """

    FIRST = "first"
    LAST = "last"
    NEWEST = "newest"
    UNCOMMITTED = "uncommitted"


class RecordLookup(NamedTuple):
    """A question about the records of one partition, which a decision asks once it knows its floor."""

    kind: LookupKind
    start: int = 0
    end: int = 0


Lookups = Mapping[TopicPartition, Sequence[RecordLookup]]
"""What decisions ask, by partition."""


class RecordStamp(NamedTuple):
    """Where a record is and its timestamp in epoch ms; -1: it has none."""

    offset: int
    timestamp_ms: int


def doubt_age(timestamp_ms: int, now_ms: int) -> str | None:
    """Return why a timestamp is not an age, after its subject; None: it is one."""
    if timestamp_ms == -1:
        return "has no timestamp"
    if timestamp_ms < OLDEST_MS:
        return f"is stamped {format_instant(timestamp_ms)}, before 2001 (seconds instead of milliseconds?)"
    return f"is stamped {format_instant(timestamp_ms)}, later than the scan" if timestamp_ms > now_ms else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One requested partition. `leader` None: it has no leader now.

    `last_stable_offset`: the read-committed end; below `log_start` where a purge went past an open
    transaction. `offsets_at[instant_ms]`: the first offset at or after the instant; None: a search found no
    such record below the last stable offset, which was read before (see `timestamps.has_none_since`).
    `readers`: sorted by group; every group below `readers_below`, and every named group wherever it stands.
    `last_purge`: when records of it were last deleted, in epoch milliseconds; None: not within the longest
    `every` that was asked for. `future_stamps[instant_ms]`: the timestamp of the record at
    `offsets_at[instant_ms]`, if it is later than the scan. `lookups`: answers to what decisions asked; None:
    there is no such record.
    """

    partition: TopicPartition
    topic_id: str | Unknown
    leader: int | Unknown | None
    replicas: tuple[int, ...] | Unknown
    in_sync: tuple[int, ...] | Unknown
    log_start: int | Unknown = NOT_ASKED
    last_stable_offset: int | Unknown = NOT_ASKED
    high_watermark: int | Unknown = NOT_ASKED
    offsets_at: Mapping[int, int | Unknown | None] = field(default_factory=dict)
    readers: tuple[ConsumerPosition, ...] | Unknown = NOT_ASKED
    readers_below: int | Unknown = NOT_ASKED
    last_purge: int | Unknown | None = NOT_ASKED
    future_stamps: Mapping[int, int] = field(default_factory=dict)
    lookups: Mapping[RecordLookup, RecordStamp | Unknown | None] = field(default_factory=dict)


class KeptForever(StrEnum):
    """What says that a topic loses no record by age or size. DescribeConfigs tells the source of a value."""

    TOPIC = "its own configuration"
    BROKER = "the brokers' default"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One listed topic. A snapshot holds all topics of the cluster.

    `cleanup_policy`: `delete`, `compact` or both. `kept_forever` None: it loses records by age or size.
    `records`: last stable offset minus log start, summed over all partitions; an upper bound, as
    transactions and compaction leave offsets without a record. `records_min`: what may be taken for
    records of the partitions that were read, so none of a compacted topic. `consumers`: the groups that are known to consume it, wherever they stand.
    """

    name: str
    topic_id: str | Unknown
    internal: bool
    partitions: int | Unknown
    cleanup_policy: frozenset[str] | Unknown = NOT_ASKED
    kept_forever: KeptForever | Unknown | None = NOT_ASKED
    records: int | Unknown = NOT_ASKED
    records_min: int = 0
    consumers: frozenset[str] | Unknown = NOT_ASKED

    @property
    def is_system(self) -> bool:
        """Whether it is Kafka's own: brokers call `__remote_log_metadata`, and tools their metrics, not internal."""
        return self.internal or self.name.startswith("__")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCommit:
    """A committed offset, and the last stable offset of its partition at the same time."""

    topic: NonEmpty
    topic_id: NonEmpty
    partition: Int32
    offset: Int64
    last_stable_offset: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObservation:
    """What one scan saw of a group without `__consumer_offsets`.

    `state` UNKNOWN: it was not read completely; DEAD: a complete list lacked it. `commits`: all of
    an EMPTY group that the caller may see, sorted; of other groups none.
    """

    at_ms: EpochMs
    group: NonEmpty
    type: GroupType
    state: GroupState
    commits: tuple[ObservedCommit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """One group that the cluster may hold.

    `listed`: whether ListGroups of the current protocol named it, or the old list call one of the
    Streams protocol, whose state is that of `__consumer_offsets`; Unknown: the listing was
    incomplete (only before a request; a scan says so in `groups_incomplete`). `commits`: the number
    of committed offsets. `last_activity_ms`: the newest timestamp of all its commits and records in
    `__consumer_offsets`. `newest_record`: (partition, offset) of that record in `__consumer_offsets`.
    `consumption_unread`: why it is not known what the group consumes; None: its commits and the
    topics of its members were read. `may_read`: the topics that a share group may read, or
    that the last generation of a classic group or the topology of a Streams group names; None: any.
    `offsets`: its commits, sorted; only before a request. `commit_records`: the newest commit of each
    partition in `__consumer_offsets`; only of a scan. `observations`: those of the journal in their order,
    then one of this scan; None: `__consumer_offsets` shows whether the group is idle. `commits_only`: it
    holds commits of the group and no record of a member.
    """

    group: str
    listed: bool | Unknown
    type: GroupType | Unknown
    state: GroupState | Unknown
    commits: int | Unknown = NOT_ASKED
    commit_topics: int | Unknown = NOT_ASKED
    fingerprint: str | Unknown = NOT_ASKED
    last_activity_ms: int | Unknown = NOT_ASKED
    newest_record: tuple[int, int] | Unknown = NOT_ASKED
    consumption_unread: Unknown | None = NOT_ASKED
    may_read: frozenset[str] | None = None
    offsets: tuple[CommittedOffset, ...] | Unknown = NOT_ASKED
    commit_records: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)
    observations: tuple[GroupObservation, ...] | Unknown | None = None
    commits_only: bool = False

    @property
    def may_have_members(self) -> bool:
        return self.state not in (GroupState.EMPTY, GroupState.DEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumers:
    """The groups of the cluster, and what they consume of some topics.

    `commits`: offsets by topic, group and partition. A group whose members have partitions of a topic
    is there without a commit, too, and so is one with a pending commit. `pending`: commits on these topics
    by group and partition. `subscriptions`: topics in new records of members; None: not decodable.
    `log_ends`: up to where each partition of `__consumer_offsets` was read for both. `incomplete`: why
    there may be more groups; None: there are not.
    """

    groups: Mapping[str, GroupFacts]
    commits: Mapping[str, Mapping[str, Mapping[int, int]]]
    pending: Mapping[tuple[str, TopicPartition], PendingCommit] = field(default_factory=dict)
    subscriptions: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    log_ends: Mapping[int, int] = field(default_factory=dict)
    incomplete: Unknown | None = None
    external: ExternalPositions = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """All facts of one scan, and what makes its listings incomplete (None: provably complete).

    `topics` and `groups`: every listed name, and group ids that only `__consumer_offsets` or the old list
    call know (`listed=False`). `partitions`: those that a TopicRequest selects.
    `consumer_offsets_ends`: up to where each partition of `__consumer_offsets` was read, if it was requested.
    `consumer_offsets_hidden`: the server hides it, and the manifests say that plans do without it.
    `transactions_hidden`: `__transaction_state` is not listed, and the server does not say that there is none.
    `readers_incomplete`: a group's commits could not be read, so it is not known which groups would
    miss records. `silent_brokers`: those of `brokers` that did not answer, where facts were missed.
    """

    cluster_id: str
    observed_at_ms: int
    brokers: tuple[int, ...]
    topics: Mapping[str, TopicFacts]
    groups: Mapping[str, GroupFacts]
    partitions: Mapping[TopicPartition, PartitionFacts]
    consumer_offsets_ends: Mapping[int, int] = field(default_factory=dict)
    consumer_offsets_hidden: bool = False
    transactions_hidden: bool = False
    external: ExternalPositions = field(default_factory=dict)
    topics_incomplete: Unknown | None = None
    groups_incomplete: Unknown | None = None
    readers_incomplete: Unknown | None = NOT_ASKED
    cluster_records: int | Unknown = NOT_ASKED
    silent_brokers: frozenset[int] = frozenset()

    @property
    def may_have_transactions(self) -> bool:
        """Whether the cluster has had a transaction, as far as is known: without the topic of their states it has not."""
        is_unseen = self.transactions_hidden or self.topics_incomplete is not None
        return TRANSACTIONS_TOPIC in self.topics or is_unseen

    def listed(self, subjects: str) -> tuple[Set[str], Unknown | None]:
        """Return the `topics` or `groups` that a policy may select, and why there may be more; None: there are not."""
        if subjects == "groups":
            # The group "" exists for clients without one. It has no address, so no policy selects it.
            return self.groups.keys() - {""}, self.groups_incomplete
        return self.topics.keys(), self.topics_incomplete


def fingerprint(commits: Iterable[tuple[str, int, int]]) -> str:
    """Return the sha256 (hex) over the sorted (topic, partition, committed) of one group.

    Another commit of the same offset does not change it; only `__consumer_offsets` shows that. Raises
    ValueError for a negative offset: in a client's answer that is "no commit" or "unknown".
    """
    digest = hashlib.sha256()
    for topic, partition, committed in sorted(commits):
        if committed < 0:
            raise ValueError(f"{topic}[{partition}]: {committed} is not a committed offset")
        digest.update(f"{topic}\0{partition}\0{committed}\n".encode())
    return digest.hexdigest()
