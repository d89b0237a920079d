"""The protocol between apply/ and the cluster; a contract suite tests kafka/ and the fake."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import CommittedOffset, Consumers, GroupFacts, PartitionFacts, Unknown


class Election(StrEnum):
    """The election types of ElectLeaders (KIP-460).

    PREFERRED: the first replica, if it is in sync. UNCLEAN: any replica that is alive.
    """

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True)
class ItemResult:
    """One item's result: the error's name (`NONE` for success) and its text.

    The name is Kafka's; the client library's own errors begin with `_`. What an error means is the
    operation's. `sent`: false where no request left this machine. `low_watermark`: the lowest log
    start of all live replicas, of a successful DeleteRecords only; None: the broker did not tell it.
    """

    code: str
    text: str = ""
    sent: bool = True
    low_watermark: int | None = None


class Gateway(Protocol):
    """The cluster for the applier, which retries.

    Every call answers for every item within its deadline, never raises for one item, and creates
    nothing. An empty request does not touch the network.
    """

    def read_partitions(
        self, partitions: Iterable[TopicPartition], *, offsets: bool
    ) -> Mapping[TopicPartition, PartitionFacts | None]:
        """Current facts; None: provably gone. Log start and high watermark only with `offsets`."""

    def read_positions(
        self, requested: Mapping[str, Sequence[TopicPartition]]
    ) -> Mapping[tuple[str, TopicPartition], int | Unknown | None]:
        """The committed offset of each group on each partition; None: no commit."""

    def read_consumers(self, topics: Collection[str], log_starts: Mapping[int, int]) -> Consumers:
        """All groups, what they consume of these topics, and the readers that are not groups.

        `log_starts`: up to where each partition of `__consumer_offsets` was read before.
        """

    def read_groups(
        self, groups: Sequence[str], *, removed: Collection[str] = (), hidden: bool = False
    ) -> Mapping[str, GroupFacts]:
        """Current listing, type, state and commits of each group.

        `removed`: groups whose coordinator has answered that it removed them, and whose removal is stored.
        `hidden`: some are of a type that only the old list call shows; their type and state stay Unknown.
        """

    def read_consumer_offsets(self, starts: Mapping[int, int]) -> Mapping[int, Mapping[str, int] | Unknown]:
        """The newest record of each group in partitions of `__consumer_offsets`, from these offsets on.

        Groups without a record there are absent.
        """

    def list_groups(self) -> Mapping[str, GroupFacts] | Unknown:
        """Every group that the cluster may hold, also hidden ones; Unknown: there may be more."""

    def connect_for_deletions(self) -> None:
        """Open this thread's connections for `delete_records`, without waiting for them."""

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemResult]:
        """DeleteRecords for partitions of one leader. Raises ValueError for a target below 1."""

    def delete_groups(self, groups: Sequence[str]) -> Mapping[str, ItemResult]: ...

    def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ItemResult]:
        """ElectLeaders for exactly these partitions; never null, which would mean all."""

    def commit_offsets(self, group: str, offsets: Sequence[CommittedOffset]) -> Mapping[TopicPartition, ItemResult]:
        """Commit these offsets for a group without members, which creates a group that is absent."""

    def refresh(self) -> None:
        """Forget cached leaders and coordinators before a retry."""
