"""A plan held against another one: the intersection with a reviewed plan, and what differs between two.

A reviewed plan only bounds. It is never executed, so its age does not matter and nothing in it can make a result larger. Limits are
judged anew by the caller (limits.judged), since less is done than they counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason, quote_group
from reconciler.model.names import Address
from reconciler.model.plan import Decision, Plan, Source
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan.plan_file import approved_fields
from reconciler.policies.fields import format_duration


class Reviewed(Protocol):
    """What a plan is held against: a Plan, or a saved one (document.Saved) whose actions stream by, in address order."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def actions(self) -> Iterable[Action]: ...


def restrict_to(plan: Plan, reviewed: Reviewed) -> Plan:
    """`plan` without what `reviewed` does not hold: lower targets, and Blocked (B108) where nothing is left that was reviewed."""
    if plan.cluster_id != reviewed.cluster_id:
        elsewhere = _beyond(f"the reviewed plan is of cluster id {reviewed.cluster_id}, this one of {plan.cluster_id}")
        return replace(plan, decisions=tuple(_all_blocked(plan.decisions, elsewhere)))
    return replace(plan, decisions=tuple(intersect(plan.decisions, reviewed.actions)))


def _all_blocked(decisions: Iterable[Decision], why: BlockReason) -> Iterator[Decision]:
    for decision in decisions:
        if isinstance(decision, Action):
            yield why.blocked(decision.address, decision.declared_at)
        else:
            yield decision


def intersect(decisions: Iterable[Decision], reviewed: Iterable[Action]) -> Iterator[Decision]:
    """What `reviewed` leaves of `decisions`, one for one. One pass over both, in address order; one of each is held at a time.

    A decision that is within what was reviewed comes out as the same object, so that a bounded plan costs no second plan's memory.
    """
    known = iter(reviewed)
    following = next(known, None)
    for decision in decisions:
        while following is not None and following.address < decision.address:
            following = next(known, None)
        same = following is not None and following.address == decision.address
        yield _bounded(decision, following if same else None)
    for _left in known:  # to the end, where a saved plan proves its digest
        pass


def _bounded(decision: Decision, reviewed: Action | None) -> Decision:
    bounded: Action | BlockReason
    match decision:
        case DeleteRecords():
            bounded = _purge(decision, reviewed)
        case DeleteGroup():
            bounded = _removal(decision, reviewed)
        case ElectLeader():
            bounded = _election(decision, reviewed)
        case _:
            return decision
    return bounded.blocked(decision.address, decision.declared_at) if isinstance(bounded, BlockReason) else bounded


def _purge(action: DeleteRecords, reviewed: Action | None) -> DeleteRecords | BlockReason:
    if not isinstance(reviewed, DeleteRecords) or reviewed.partition != action.partition:
        return _beyond("new: the reviewed plan removes nothing of it")
    if reviewed.seen.topic_id != action.seen.topic_id:
        return _beyond(
            f"the reviewed plan is about topic id {reviewed.seen.topic_id}, the topic is {action.seen.topic_id} by now"
        )
    if replace(action.guard, accepted=()) != replace(reviewed.guard, accepted=()):
        return _beyond("the guard for its readers is not the one that was reviewed")
    before_offset = min(action.before_offset, reviewed.before_offset)
    if before_offset <= action.seen.log_start:
        return _beyond(
            f"larger: reviewed up to {reviewed.before_offset}, which is gone; {action.before_offset} was not reviewed"
        )
    if action.seen.log_start < reviewed.seen.log_start:
        return _beyond(
            f"larger: the log starts at {action.seen.log_start}, it was {reviewed.seen.log_start} in the reviewed plan"
        )
    if action.seen.high_watermark < reviewed.seen.high_watermark:
        return _beyond(
            f"the log was cut: it ends at {action.seen.high_watermark}, it ended at {reviewed.seen.high_watermark} in the "
            "reviewed plan, so its offsets may mean other records"
        )
    standing = {reader.group: reader.committed for reader in reviewed.guard.accepted}
    accepted = tuple(reader for reader in action.guard.accepted if reader.committed < before_offset)
    for reader in accepted:
        if reader.group not in standing or reader.committed < standing[reader.group]:
            return _beyond(
                f"larger: nobody reviewed that group {quote_group(reader.group)} skips records from {reader.committed}"
            )
    if before_offset == action.before_offset and accepted == action.guard.accepted:
        return action
    reason = action.reason
    if before_offset < action.before_offset:
        reason += f"; reviewed up to {before_offset} only"
    return replace(action, before_offset=before_offset, reason=reason, guard=replace(action.guard, accepted=accepted))


def _removal(action: DeleteGroup, reviewed: Action | None) -> DeleteGroup | BlockReason:
    if not isinstance(reviewed, DeleteGroup) or reviewed.group != action.group:
        return _beyond("new: the reviewed plan does not remove it")
    if reviewed.seen.type is not action.seen.type or reviewed.seen.fingerprint != action.seen.fingerprint:
        return _beyond("the group has other commits than the reviewed plan saw")
    if action.idle_for_ms < reviewed.idle_for_ms:
        return _beyond(
            f"idleFor is {format_duration(action.idle_for_ms)}, it was {format_duration(reviewed.idle_for_ms)} in the reviewed plan"
        )
    return action


def _election(action: ElectLeader, reviewed: Action | None) -> ElectLeader | BlockReason:
    if not isinstance(reviewed, ElectLeader) or reviewed.partition != action.partition:
        return _beyond("new: the reviewed plan does not elect its leader")
    if (reviewed.election, reviewed.leader_wanted) != (action.election, action.leader_wanted):
        return _beyond(f"the reviewed election is {reviewed.election}, this one is {action.election}")
    if (reviewed.seen.topic_id, reviewed.seen.replicas) != (action.seen.topic_id, action.seen.replicas):
        return _beyond("the replicas are not those of the reviewed plan")
    return action


def _beyond(why: str) -> BlockReason:
    return BlockReason(
        code="B108",
        reason=f"beyond review: {why}",
        next_step="it comes with the next reviewed plan",
    )


class Change(StrEnum):
    """What became of an action between two plans. LARGER and SMALLER: only the target of a purge moved, up or down; LARGER, too: its log
    starts lower than it did, so that more would go.
    """

    NEW = "new"
    GONE = "gone"
    LARGER = "larger"
    SMALLER = "smaller"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class ActionDiff:
    """One address at which two plans differ in what they do or in what recheck would test."""

    address: Address
    change: Change
    old: Action | None
    new: Action | None

    @property
    def details(self) -> tuple[str, ...]:
        """What changed inside the action, one line per value: `seen.topic_id: a → b`. Worked out on demand."""
        if self.old is None or self.new is None:
            return ()
        if (
            isinstance(self.old, DeleteRecords)
            and isinstance(self.new, DeleteRecords)
            and self.change is not Change.CHANGED
        ):
            # only numbers moved; the general comparison takes a thousand times as long, and there may be a million
            moved = []
            if self.old.before_offset != self.new.before_offset:
                moved.append(f"request.before_offset: {self.old.before_offset} → {self.new.before_offset}")
            if self.new.seen.log_start < self.old.seen.log_start:
                moved.append(f"seen.log_start: {self.old.seen.log_start} → {self.new.seen.log_start}")
            return tuple(moved)
        return tuple(_differences(self.old, self.new))


class PlanRef(Reviewed, Protocol):
    """One of two plans that are compared, and what tells it from the other."""

    @property
    def cluster(self) -> str: ...

    @property
    def observed_at_ms(self) -> int: ...

    @property
    def source(self) -> Source: ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two plans and what differs; equal actions are left out, and so are facts that only tell the time of day.

    `tally`: how many entries there are of each change.
    """

    old: PlanRef
    new: PlanRef
    tally: Mapping[Change, int]

    def entries(self) -> Iterator[ActionDiff]:
        """In address order, worked out as they are asked for: of two saved plans, no more than one action each is held."""
        return diff_actions(self.old.actions, self.new.actions)


def compare(old: PlanRef, new: PlanRef) -> Comparison:
    """What `new` does otherwise than `old`. Reads both once, so that saved plans are proven before anything of them is shown."""
    found = Counter(entry.change for entry in diff_actions(old.actions, new.actions))
    return Comparison(old, new, {change: found[change] for change in Change})


def diff_actions(old: Iterable[Action], new: Iterable[Action]) -> Iterator[ActionDiff]:
    """The differences between two lists of actions in address order, as they stream by: one pass, nothing kept."""
    left, right = iter(old), iter(new)
    before, after = next(left, None), next(right, None)
    while before is not None or after is not None:
        if after is None or (before is not None and before.address < after.address):
            assert before is not None
            yield ActionDiff(before.address, Change.GONE, before, None)
            before = next(left, None)
        elif before is None or after.address < before.address:
            yield ActionDiff(after.address, Change.NEW, None, after)
            after = next(right, None)
        else:
            if (change := _change(before, after)) is not None:
                yield ActionDiff(before.address, change, before, after)
            before, after = next(left, None), next(right, None)


def _change(old: Action, new: Action) -> Change | None:
    match old, new:
        case DeleteRecords(), DeleteRecords() if _only_moved(old, new):
            if new.before_offset > old.before_offset or new.seen.log_start < old.seen.log_start:
                return Change.LARGER
            return Change.SMALLER if new.before_offset < old.before_offset else None
        case _:
            return None if approved_fields(old) == approved_fields(new) else Change.CHANGED


def _only_moved(old: DeleteRecords, new: DeleteRecords) -> bool:
    """Whether both bind the same but for the target."""
    if old.before_offset != new.before_offset:
        old = replace(old, before_offset=new.before_offset)
    return approved_fields(old) == approved_fields(new)


def _differences(old: Action, new: Action) -> Iterator[str]:
    # deepdiff brings numpy and pandas along: half a second of CPU that every command would pay at its start
    from deepdiff import DeepDiff
    from deepdiff.helper import NotPresent

    def shown_value(value: object) -> str:
        return "none" if value is None or isinstance(value, NotPresent) else str(value)

    found = DeepDiff(_by_group(approved_fields(old)), _by_group(approved_fields(new)), view="tree")
    changes = {
        tuple(map(str, change.path(output_format="list"))): change for level in found.values() for change in level
    }
    for path, change in sorted(changes.items()):
        yield f"{'.'.join(path)}: {shown_value(change.t1)} → {shown_value(change.t2)}"


def _by_group(values: dict[str, Any]) -> dict[str, Any]:
    """Accepted readers by name: one that appears must not make all after it look changed. Names as in sentences, told apart."""
    approved = values["approved"]
    guard = approved.get("guard", {})
    if "accepted" not in guard:
        return values
    told = {
        "accepted": {quote_group(reader["group"]): reader["committed"] for reader in guard["accepted"]},
        "named": [quote_group(group) for group in guard["named"]],
    }
    return {**values, "approved": {**approved, "guard": {**guard, **told}}}
