"""What the policies want to know of the cluster. The scan reads no more; other facts are NOT_ASKED.

The scan resolves selectors against live names, so a request may name topics and groups that do not
exist.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from reconciler.model.selector import Selector, SelectorSet


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    """Facts of each selected partition; leader, replicas, in sync and topic id always come."""

    topics: tuple[Selector, ...]
    except_topics: tuple[Selector, ...] = ()
    patterns_skip_underscore: bool = False
    partitions: frozenset[int] | None = None
    """Partition numbers; None: all."""
    offsets: bool = False
    """Log start, last stable offset, high watermark; and the topic's cleanup policy."""
    instants_ms: tuple[int, ...] = ()
    """For each, the first offset whose timestamp is at or after it."""
    readers: bool = False
    """Every group with a position below the last stable offset."""
    named_groups: frozenset[str] = frozenset()
    """Groups whose position is read wherever it is, with the topic id of `__consumer_offsets`."""
    all_groups: bool = False
    """Name every listed group, as `named_groups` does."""
    records: bool = False
    """A decision may look up single records, which needs READ on the topic."""
    every_ms: int | None = None
    """Purges of a partition within this time matter; None: none does."""
    only: Mapping[str, frozenset[int] | None] | None = None
    """Only these topics of the selected ones, each with partition numbers, None: all; None: all topics."""

    def has_partition(self, topic: str, number: int) -> bool:
        """Whether the request asks for this partition of a topic that its selectors select."""
        asked = None if self.only is None else self.only.get(topic, frozenset())
        return all(numbers is None or number in numbers for numbers in (self.partitions, asked))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """Facts of each selected group. Type and state always come from the listing."""

    groups: tuple[Selector, ...]
    except_groups: tuple[Selector, ...] = ()
    activity: bool = False
    """Last activity and newest record, from `__consumer_offsets`."""
    idle_for_ms: int = 0
    """How long the groups must have been idle; where `__consumer_offsets` is hidden, observations show it."""
    only: frozenset[str] | None = None
    """Only these groups of the selected ones; None: all."""


class PositionKind(StrEnum):
    """What holds the position of an external reader; the value is the field of its manifest."""

    SPARK_CHECKPOINT = "sparkCheckpoint"
    MIRROR_MAKER_SYNCS = "mirrorMakerSyncs"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalReaderRequest:
    """The position of a reader outside of Kafka's groups. `at`: a place, or a topic of syncs."""

    name: str
    topics: tuple[Selector, ...]
    kind: PositionKind
    at: str

    def selects(self, topic: str) -> bool:
        """Whether the manifest names the topic, which counts where the position is unknown, too."""
        return _selector_set(self.topics).covering(topic) is not None


@lru_cache(maxsize=64)
def _selector_set(selectors: tuple[Selector, ...]) -> SelectorSet:
    return SelectorSet(selectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Everything that one plan or one recheck needs."""

    topics: tuple[TopicRequest, ...] = ()
    groups: tuple[GroupRequest, ...] = ()
    topic_records: bool = False
    """Records of each topic that a TopicRequest with offsets selects, over all its partitions."""
    cluster_records: bool = False
    """Records of the whole cluster."""
    commit_records: bool = False
    """The newest record of each commit of the groups whose activity is requested."""
    external: tuple[ExternalReaderRequest, ...] = ()
    """Readers that are not groups, wherever they are; read if any consumers are."""
    group_names: bool = False
    """Whether the groups are listed although nothing else of them is needed."""
    without_consumer_offsets: bool = False
    """Whether the facts go without `__consumer_offsets` where the server hides it."""

    @property
    def offsets(self) -> bool:
        return self.cluster_records or any(need.offsets for need in self.topics)

    @property
    def readers(self) -> bool:
        return any(need.readers or need.named_groups or need.all_groups for need in self.topics)

    @property
    def group_facts(self) -> bool:
        """Whether more than the names of groups is needed."""
        return bool(self.groups) or self.readers

    @property
    def lists_groups(self) -> bool:
        return self.group_facts or self.group_names

    @property
    def consumer_offsets(self) -> bool:
        """Whether `__consumer_offsets` is needed: readers include groups that only the log knows."""
        return self.readers or any(need.activity for need in self.groups)

    @property
    def spark(self) -> bool:
        """Whether Spark is needed: metadata, listings and commits of selected groups need none."""
        return self.offsets or self.consumer_offsets

    @staticmethod
    def union(parts: "Iterable[ScanRequest]") -> "ScanRequest":
        parts = tuple(parts)
        return ScanRequest(
            topics=tuple(need for part in parts for need in part.topics),
            groups=tuple(need for part in parts for need in part.groups),
            topic_records=any(part.topic_records for part in parts),
            cluster_records=any(part.cluster_records for part in parts),
            commit_records=any(part.commit_records for part in parts),
        )
