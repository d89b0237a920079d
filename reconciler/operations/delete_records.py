"""DeleteRecords: remove the records below an offset from one partition (KIP-107, API key 21, sent to partition leaders)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from reconciler.model.bounds import Int32, NonEmpty
from reconciler.model.names import TopicPartition
from reconciler.operations.base import Operation


class LagPolicy(StrEnum):
    """What a floor does about a group that is still behind it."""

    BLOCK = "block"
    CLAMP = "clamp"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, order=True)
class AcceptedLag:
    """A group behind the floor that the plan accepts, and where it stood: further behind is not accepted."""

    group: str
    committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """What a purge was decided under, tested again before it is sent.

    `named`: groups of `unreadBy`, each must have a commit at or above the target. `accepted`: readers below the target that
    the policy lets skip records (`consumers: ignore`, or exceptGroups). `except_groups`: selectors whose groups are not looked at.
    `every_ms`: least time between two purges of the partition; None: no clock.
    """

    consumers: LagPolicy
    named: tuple[str, ...] = ()
    accepted: tuple[AcceptedLag, ...] = ()
    except_groups: tuple[str, ...] = ()
    every_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPartition:
    """The partition as the scan saw it."""

    topic_id: NonEmpty
    log_start: int
    stable_end: int
    high_watermark: int
    leader: Int32
    replicas: tuple[Int32, ...]
    in_sync: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords(Operation):
    """Remove all records below `before_offset`, the first offset kept (KIP-107). Irreversible.

    `vouched`: an `unreadBy` rule under `consumers: block` vouches for these records, so the two record limits do not count them.
    `partition_percent`: share of the partition's records between log start and high watermark. `drift`: a fixed floor that is
    not met, or a moving one overdue by `driftAfter`.
    """

    OPERATION: ClassVar[str] = "delete_records"

    partition: TopicPartition
    before_offset: int
    seen: ObservedPartition
    guard: Preconditions
    vouched: bool
    drift: bool

    @property
    def records_max(self) -> int:
        """Upper bound of the records removed: offsets between the log start seen and the target."""
        return self.before_offset - self.seen.log_start

    @property
    def partition_percent(self) -> float:
        held = self.seen.high_watermark - self.seen.log_start
        return 100.0 * self.records_max / held if held > 0 else 0.0

    @property
    def skips(self) -> tuple[tuple[str, int], ...]:
        """(group, records it would skip at most), for each accepted reader below the target."""
        return tuple(
            (reader.group, self.before_offset - max(reader.committed, self.seen.log_start))
            for reader in self.guard.accepted
            if reader.committed < self.before_offset
        )

    @property
    def irreversible(self) -> bool:
        return True

    def request(self) -> Mapping[str, str | int]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "before_offset": self.before_offset,
        }

    def approved(self) -> Mapping[str, object]:
        return {"topic_id": self.seen.topic_id, "guard": self.guard}

    def impact(self) -> Mapping[str, object]:
        skips = [{"group": group, "records_max": records} for group, records in self.skips]
        return {"records_removed_max": self.records_max, "skips": skips}

    def __post_init__(self) -> None:
        if not self.seen.log_start < self.before_offset <= self.seen.stable_end:
            raise ValueError(
                f"before_offset is {self.before_offset}, which is not above the log start {self.seen.log_start} and at "
                f"or below the stable end {self.seen.stable_end}"
            )
        self.check_subject(self.partition.topic, self.partition.partition)
        guard = self.guard
        if self.vouched and not (guard.named and guard.consumers is LagPolicy.BLOCK and not guard.accepted):
            raise ValueError("vouched is true, but no named group under consumers: block vouches for these records")
