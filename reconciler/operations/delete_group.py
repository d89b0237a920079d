"""DeleteGroup: remove one consumer group (KIP-229, API key 42, sent to group coordinators)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from reconciler.model.description import Description, Fact
from reconciler.model.snapshot import GroupState, GroupType
from reconciler.operations.base import Operation
from reconciler.text.escape import quoted
from reconciler.text.formatting import approximate_duration, count, format_time
from reconciler.text.phrase import escaped_name, name, sentence, strong


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

    # --- reports

    TITLE: ClassVar[str] = "group removal"
    DRIFT_TYPE: ClassVar[str] = "group"
    DRIFT_TEXT: ClassVar[str] = "the group is still there"

    def describe(self) -> Description:
        commits, topics = count(self.seen.commits, "committed offset"), count(self.seen.commit_topics, "topic")
        return Description(
            sign="-",
            subject=(escaped_name(quoted(self.group)),),
            loss=(strong(commits), f" on {topics}"),
            notes=(("because ", sentence(self.reason)),),
        )

    def explain(self) -> tuple[Fact, ...]:
        seen = self.seen
        commits, topics = count(seen.commits, "committed offset"), count(seen.commit_topics, "topic")
        facts: list[Fact] = [
            ("Request", ("DeleteGroups ", escaped_name(quoted(self.group)))),
            ("Facts", (f"{seen.type} group, {seen.state}",)),
            ("", (f"{commits} on {topics}, all lost",)),
            ("", ("fingerprint of its commits ", name(seen.fingerprint))),
        ]
        if seen.last_activity_ms is None or seen.newest_record is None:
            facts.append(("Idle", ("no evidence was asked for: idleFor is 0s",)))
        else:
            partition, offset = seen.newest_record
            since, limit = format_time(seen.last_activity_ms), approximate_duration(self.idle_for_ms)
            facts.append(("Idle", (f"since {since}; idleFor asks for {limit}",)))
            facts.append(("", (f"its newest record is __consumer_offsets[{partition}] offset {offset}",)))
        conditions = "still listed, same type, EMPTY, same commits, no newer record in the commit log"
        return (*facts, ("Rechecked", (conditions,)), ("Undo", ("impossible",)))
