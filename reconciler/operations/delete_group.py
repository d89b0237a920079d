"""DeleteGroup: remove one consumer group (KIP-229, API key 42, sent to group coordinators)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from reconciler.model.bounds import EpochMs, Int32, Int64, NonEmpty
from reconciler.model.snapshot import GroupState, GroupType
from reconciler.operations.base import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """The group as the scan saw it. `last_activity_ms` and `newest_record` are None only where `idleFor: 0s` gave up the evidence."""

    type: GroupType
    state: GroupState
    commits: int
    commit_topics: int
    fingerprint: NonEmpty
    last_activity_ms: EpochMs | None
    newest_record: tuple[Int32, Int64] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup(Operation):
    """Remove one consumer group and all its committed offsets (KIP-229). Irreversible."""

    OPERATION: ClassVar[str] = "delete_group"

    group: NonEmpty
    idle_for_ms: int
    seen: ObservedGroup

    @property
    def irreversible(self) -> bool:
        return True

    def request(self) -> Mapping[str, str | int]:
        return {"group": self.group}

    def approved(self) -> Mapping[str, object]:
        return {
            "type": self.seen.type,
            "fingerprint": self.seen.fingerprint,
            "newest_record": self.seen.newest_record,
            "idle_for_ms": self.idle_for_ms,
        }

    def impact(self) -> Mapping[str, object]:
        return {"commits_lost": self.seen.commits, "topics": self.seen.commit_topics}

    def __post_init__(self) -> None:
        self.check_subject(self.group)
        if self.idle_for_ms and (self.seen.newest_record is None or self.seen.last_activity_ms is None):
            raise ValueError(
                "idle_for_ms is set and the evidence of idleness (last_activity_ms, newest_record) is missing"
            )
