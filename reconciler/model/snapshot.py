"""All facts of one scan. A fact is a value or Unknown(reason): never zero for a missing value, never empty for an error."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.model.names import TopicPartition


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be read, or that nobody asked for; `reason` is a sentence fragment without a full stop."""

    reason: str

    def __bool__(self) -> bool:
        raise TypeError(f"an unknown fact has no truth value ({self.reason}): test with isinstance(fact, Unknown)")


NOT_ASKED = Unknown("not asked")


class GroupType(StrEnum):
    """Group types of the broker (KIP-848, KIP-932, KIP-1071). HIDDEN: it exists, its type is not known."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    CONNECT = "connect"
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


@dataclass(frozen=True, slots=True)
class ConsumerPosition:
    """A group with a position on a partition.

    `committed` is the next offset it will read. `implied`: it has commits on the topic but none here, so it counts as standing
    at the log start. `topic_id` is the incarnation that the commit was made for, from the commit log: None where the broker wrote
    none (value versions before v4), Unknown where the log was not read.
    """

    group: str
    committed: int
    implied: bool = False
    topic_id: str | Unknown | None = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One requested partition. `leader` None: it has no leader now. Offsets are absolute; `stable_end` is the read-committed end.

    `offsets_at[instant_ms]`: first offset at or after the instant; None: no such record, and the stable end of this same scan (read
    before the question was asked) is what the answer means. `stable_end` may lie below `log_start` (a purge went past an open
    transaction). `last_purge_ms` None: never purged, by a journal that could be read.
    """

    partition: TopicPartition
    topic_id: str | Unknown
    leader: int | Unknown | None
    replicas: tuple[int, ...] | Unknown
    in_sync: tuple[int, ...] | Unknown
    log_start: int | Unknown = NOT_ASKED
    stable_end: int | Unknown = NOT_ASKED
    high_watermark: int | Unknown = NOT_ASKED
    offsets_at: Mapping[int, int | Unknown | None] = field(default_factory=dict)
    readers: tuple[ConsumerPosition, ...] | Unknown = NOT_ASKED
    """Sorted by group. Every group below `readers_below`, and every named group wherever it stands."""
    readers_below: int | Unknown = NOT_ASKED
    last_purge_ms: int | Unknown | None = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One listed topic. A snapshot holds all topics of the cluster."""

    name: str
    topic_id: str | Unknown
    internal: bool
    partitions: int | Unknown
    cleanup_policy: frozenset[str] | Unknown = NOT_ASKED
    """`delete`, `compact` or both."""
    records: int | Unknown = NOT_ASKED
    """High watermark minus log start, summed over all partitions: an upper bound for compacted topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """One group that the cluster may hold.

    `listed`: whether ListGroups of the current protocol named it; Unknown: the listing was incomplete
    (only before a request; a scan says so in `groups_incomplete`).

    `last_activity_ms`: newest of all commit timestamps and record timestamps of any record that the commit log holds for it.
    `newest_record`: (partition, offset) of that newest record in `__consumer_offsets`. `fingerprint`: sha256 hex over its sorted
    (topic, partition, committed).
    """

    group: str
    listed: bool | Unknown
    type: GroupType | Unknown
    state: GroupState | Unknown
    commits: int | Unknown = NOT_ASKED
    """Number of committed offsets."""
    commit_topics: int | Unknown = NOT_ASKED
    fingerprint: str | Unknown = NOT_ASKED
    last_activity_ms: int | Unknown = NOT_ASKED
    newest_record: tuple[int, int] | Unknown = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """All facts of one scan, and what makes its listings incomplete (None: provably complete).

    `topics` and `groups` hold every listed name; `groups` also holds ids that only the commit log or the old list call
    know (`listed=False`). `partitions` holds those that a TopicRequest selects. `readers_incomplete`: some group's commits could
    not be read, so it is unknown which groups would miss records.
    """

    cluster_id: str
    observed_at_ms: int
    brokers: tuple[int, ...]
    topics: Mapping[str, TopicFacts]
    groups: Mapping[str, GroupFacts]
    partitions: Mapping[TopicPartition, PartitionFacts]
    topics_incomplete: Unknown | None = None
    groups_incomplete: Unknown | None = None
    readers_incomplete: Unknown | None = NOT_ASKED
    cluster_records: int | Unknown = NOT_ASKED
