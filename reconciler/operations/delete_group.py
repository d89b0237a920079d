"""DeleteGroup: remove one consumer group (KIP-229, API key 42, sent to group coordinators)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from reconciler.model.snapshot import GroupState, GroupType
from reconciler.operations.base import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """The group as the scan saw it. `last_activity_ms` and `newest_record` are None only where `idleFor: 0s` gave up the evidence."""

    type: GroupType
    state: GroupState
    commits: int
    commit_topics: int
    fingerprint: str
    last_activity_ms: int | None
    newest_record: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup(Operation):
    """Remove one consumer group and all its committed offsets (KIP-229). Irreversible."""

    OPERATION: ClassVar[str] = "delete_group"

    group: str
    idle_for_ms: int
    seen: ObservedGroup

    @property
    def irreversible(self) -> bool:
        return True

    def request(self) -> Mapping[str, str | int]:
        return {"group": self.group}
