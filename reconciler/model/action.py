"""The three things this program can do to a cluster, each with the facts it was decided on. A closed union on purpose.

Everything that apply, the plan file and the renderers need is here; nothing is computed again after planning.
"""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.model.names import Address, Place, TopicPartition
from reconciler.model.snapshot import GroupState, GroupType


class Mode(StrEnum):
    """How a policy is carried out: from a reviewed plan only, or also by converge and watch."""

    MERGE = "merge"
    CONTINUOUS = "continuous"


class Consumers(StrEnum):
    """What a floor does about a group that is still behind it."""

    BLOCK = "block"
    CLAMP = "clamp"
    IGNORE = "ignore"


class Election(StrEnum):
    """Election types of KIP-460."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True, order=True)
class AcceptedReader:
    """A group behind the floor that the plan accepts, and where it stood: further behind is not accepted."""

    group: str
    committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What a purge was decided under, tested again before it is sent.

    `named`: groups of `unreadBy`, each must have a commit at or above the target. `accepted`: readers below the target that
    the policy lets skip records (`consumers: ignore`, or exceptGroups). `except_groups`: selectors whose groups are not looked at.
    `every_ms`: least time between two purges of the partition; None: no clock.
    """

    consumers: Consumers
    named: tuple[str, ...] = ()
    accepted: tuple[AcceptedReader, ...] = ()
    except_groups: tuple[str, ...] = ()
    every_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPartition:
    """The partition as the scan saw it."""

    topic_id: str
    log_start: int
    stable_end: int
    high_watermark: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """Remove all records below `before_offset`, the first offset kept (KIP-107). Irreversible.

    `vouched`: an `unreadBy` rule under `consumers: block` vouches for these records, so the two record limits do not count them.
    `partition_percent`: share of the partition's records between log start and high watermark. `drift`: a fixed floor that is
    not met, or a moving one overdue by `driftAfter`.
    """

    address: Address
    declared_at: Place
    reason: str
    mode: Mode
    partition: TopicPartition
    before_offset: int
    seen: SeenPartition
    guard: Guard
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGroup:
    """The group as the scan saw it. `last_activity_ms` and `newest_record` are None only where `idleFor: 0s` gave up the evidence."""

    type: GroupType
    state: GroupState
    commits: int
    commit_topics: int
    fingerprint: str
    last_activity_ms: int | None
    newest_record: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Remove one consumer group and all its committed offsets (KIP-229). Irreversible."""

    address: Address
    declared_at: Place
    reason: str
    mode: Mode
    group: str
    idle_for_ms: int
    seen: SeenGroup
    drift: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLeadership:
    """Who led the partition when it was scanned. `leader` None: leaderless."""

    topic_id: str
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeader:
    """Elect the preferred leader, or any live replica of a leaderless partition (KIP-183, KIP-460).

    `leader_wanted` is the first replica for a preferred election and None for an unclean one. Only unclean is irreversible.
    """

    address: Address
    declared_at: Place
    reason: str
    mode: Mode
    partition: TopicPartition
    election: Election
    leader_wanted: int | None
    seen: SeenLeadership
    drift: bool = True


Action = DeleteRecords | DeleteGroup | ElectLeader


def irreversible(action: Action) -> bool:
    """Whether undoing it is impossible; a preferred election can be moved back."""
    return not (isinstance(action, ElectLeader) and action.election is Election.PREFERRED)
