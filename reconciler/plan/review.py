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
from reconciler.operations import Operation
from reconciler.operations.base import beyond_review
from reconciler.operations.delete_records import DeleteRecords
from reconciler.plan.document.digest import approved_fields


class Reviewed(Protocol):
    """What a plan is held against: a Plan, or a saved one (document.Saved) whose actions stream by, in address order."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def actions(self) -> Iterable[Action]: ...


def restrict_to(plan: Plan, reviewed: Reviewed) -> Plan:
    """`plan` without what `reviewed` does not hold: lower targets, and Blocked (B108) where nothing is left that was reviewed."""
    if plan.cluster_id != reviewed.cluster_id:
        elsewhere = beyond_review(
            f"the reviewed plan is of cluster id {reviewed.cluster_id}, this one of {plan.cluster_id}"
        )
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
    if not isinstance(decision, Operation):
        return decision
    bounded = decision.restrict_to(reviewed)
    return bounded.blocked(decision.address, decision.declared_at) if isinstance(bounded, BlockReason) else bounded


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
    equal = values["equal"]
    guard = equal.get("guard", {})
    if "accepted" not in guard:
        return values
    told = {
        "accepted": {quote_group(reader["group"]): reader["committed"] for reader in guard["accepted"]},
        "named": [quote_group(group) for group in guard["named"]],
    }
    return {**values, "equal": {**equal, "guard": {**guard, **told}}}
