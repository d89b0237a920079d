"""Compares two plans: what they do, and what the recheck of their actions would test.

Actions stream in address order, one of each plan at a time, so that two saved plans of a million
actions compare in little memory. deepdiff takes a thousand times as long as `==`, so it compares only
the approved fields of actions that differ in more than their size.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, cast

from reconciler.model.action import Action
from reconciler.model.description import SizeChange
from reconciler.model.names import Address
from reconciler.model.plan import Blocked, Decision
from reconciler.operations.base import Operation
from reconciler.plan.plan_file import SavedPlan, approved_fields
from reconciler.text.escape import quoted


class DecisionChange(StrEnum):
    """What became of an action between two plans. LARGER, SMALLER: only its size differs.

    BLOCKED: the new plan blocks the subject, or could not read it. GONE: the new plan has no reason
    to act on it.
    """

    BLOCKED = "blocked"
    NEW = "new"
    GONE = "gone"
    LARGER = "larger"
    SMALLER = "smaller"
    CHANGED = "changed"


class Difference(NamedTuple):
    """One approved value that differs. `path`: as in the plan file, such as `approved.topic_id`."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ActionDiff:
    """One address at which two plans differ."""

    address: Address
    change: DecisionChange
    old: Operation | None
    new: Operation | None
    block: Blocked | None = None

    @property
    def latest(self) -> Operation:
        """The action of the new plan, or of the old one where that has none."""
        return cast(Operation, self.new or self.old)

    @property
    def size_change(self) -> SizeChange | None:
        """How the size differs, where nothing else does."""
        return None if self.old is None or self.new is None else self.new.compare_size(self.old)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The approved values that differ, of a CHANGED action, by path."""
        if self.change is not DecisionChange.CHANGED or self.old is None or self.new is None:
            return ()
        old, new = approved_fields(self.old), approved_fields(self.new)
        names = [name for name in old if old[name] != new[name]]
        # The partitions of one topic change alike, so most comparisons come from the cache.
        return _compare(*(json.dumps({name: fields[name] for name in names}) for fields in (old, new)))

    @property
    def details(self) -> tuple[str, ...]:
        """One line for each value that differs: `approved.topic_id: a → b`."""
        if (size_change := self.size_change) is not None:
            return size_change.details
        return tuple(f"{path}: {old} → {new}" for path, old, new in self.differences)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two plans and the `tally` of their differences. What no approval binds does not count."""

    old: SavedPlan
    new: SavedPlan
    tally: Mapping[DecisionChange, int]

    def entries(self) -> Iterator[ActionDiff]:
        """Yield the differences in address order. Holds one action of each saved plan, and what is blocked now."""
        return _entries(self.old, self.new)


def compare(old: SavedPlan, new: SavedPlan) -> Comparison:
    """Compare two plans. Reads both to their end, where a saved plan proves its digest."""
    tally = Counter(entry.change for entry in _entries(old, new))
    return Comparison(old, new, {change: tally[change] for change in DecisionChange})


def _entries(old: SavedPlan, new: SavedPlan) -> Iterator[ActionDiff]:
    blocked = {decision.address: decision for decision in new.blocked}
    for before, after in pair_up(old.actions, new.actions):
        if (change := _change(before, after)) is not None:
            address = (before or after).address
            block = blocked.get(address)
            yield ActionDiff(address, change if block is None else DecisionChange.BLOCKED, before, after, block)


def pair_up(first: Iterable[Decision], second: Iterable[Action]) -> Iterator[tuple[Any, Any]]:
    """Yield what two lists in address order have at each address; None: nothing.

    Reads both to the end, where a saved plan proves its digest, and holds one item of each.
    """
    firsts, seconds = iter(first), iter(second)
    before, after = next(firsts, None), next(seconds, None)
    while before is not None or after is not None:
        has_first = after is None or (before is not None and before.address <= after.address)
        has_second = before is None or (after is not None and after.address <= before.address)
        yield before if has_first else None, after if has_second else None
        before = next(firsts, None) if has_first else before
        after = next(seconds, None) if has_second else after


def _change(old: Operation | None, new: Operation | None) -> DecisionChange | None:
    if old is None or new is None:
        return DecisionChange.NEW if old is None else DecisionChange.GONE
    if old == new:
        return None
    if (size_change := new.compare_size(old)) is not None:
        return DecisionChange.LARGER if size_change.larger else DecisionChange.SMALLER
    return None if approved_fields(old) == approved_fields(new) else DecisionChange.CHANGED


@lru_cache(maxsize=4096)
def _compare(old: str, new: str) -> tuple[Difference, ...]:
    """Return the differences between two JSON objects."""
    # deepdiff brings numpy and pandas along: half a second of CPU that every command would pay at its start
    from deepdiff import DeepDiff
    from deepdiff.helper import NotPresent

    def as_text(value: object) -> str:
        if isinstance(value, dict):
            return str(list(value.values()))
        return "none" if value is None or isinstance(value, NotPresent) else str(value)

    # threshold 0: also lists that have nothing in common are compared item by item
    differences = DeepDiff(_named(json.loads(old)), _named(json.loads(new)), view="tree", threshold_to_diff_deeper=0)
    changes = {
        tuple(map(str, change.path(output_format="list"))): change for level in differences.values() for change in level
    }
    return tuple(
        Difference(".".join(path), as_text(change.t1), as_text(change.t2)) for path, change in sorted(changes.items())
    )


def _named(value: Any) -> Any:
    """Return the value with lists as objects: rows of groups by group, other items by index.

    So a new group does not make all after it look changed. Quoted names do not look like other values.
    """
    match value:
        case dict():
            return {key: _named(item) for key, item in value.items()}
        case [{"group": _}, *_]:
            return {quoted(row["group"]): row["committed"] for row in value}
        case list():
            return {str(n): quoted(item) if isinstance(item, str) else item for n, item in enumerate(value)}
        case _:
            return value
