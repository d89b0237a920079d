"""Groups the decisions of a plan for people: more than 20 partitions of one topic become one item.

Nothing is decided or computed here that apply would read: sums are over the actions that apply walks.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar, cast

from reconciler import operations
from reconciler.model.action import Action
from reconciler.model.names import Address, format_subject
from reconciler.model.plan import Blocked, Decision, Satisfied, Skipped, Waiting
from reconciler.operations.base import Operation
from reconciler.report.tree import Item, Items, Severity
from reconciler.text import formatting
from reconciler.text.phrase import Phrase, escaped_name

FOLD_ABOVE = 20
"""Partitions of one topic that are still listed one by one."""

Notice = Waiting | Blocked | Skipped
T = TypeVar("T")


def grouped(values: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Values with equal keys together, in the order in which their keys first appear."""
    groups: dict[Hashable, list[T]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return list(groups.values())


def as_operations(actions: Sequence[Action]) -> Sequence[Operation]:
    """The actions with the methods that reports ask; every action of a plan has them."""
    return cast("Sequence[Operation]", actions)


def by_policy(actions: Iterable[Operation], *, full: bool) -> Iterator[tuple[Operation, Items]]:
    """The first action of each policy, and the policy's items. `actions`: in address order."""
    for _policy, of_policy in groupby(actions, key=lambda action: action.address.policy_address):
        entries: list[tuple[Operation, ...]] = []
        for _topic, of_topic in groupby(of_policy, key=lambda action: (action.address.name, type(action))):
            members = tuple(of_topic)
            folded = not full and len(members) > FOLD_ABOVE and all(action.is_foldable for action in members)
            entries += [members] if folded else zip(members)
        yield entries[0][0], Items(entries, action_item)


def action_item(actions: Sequence[Operation]) -> Item:
    """The item of one action, or of many that are folded."""
    first = actions[0]
    folded = len(actions) > 1
    description = type(first).describe_many(actions) if folded else first.describe()
    severity = Severity.LOSS if first.irreversible else Severity.CHANGE
    return Item(
        sign=description.sign,
        subject=description.subject,
        text=description.change,
        loss=description.loss,
        severity=severity,
        location=first.declared_at,
        children=(
            *(Item(text=note) for note in description.notes),
            *(Item(text=risk, severity=Severity.LOSS) for risk in description.risks),
            *(Item(text=unknown, severity=Severity.WARNING) for unknown in description.unknowns),
        ),
        members=Items(list(zip(actions)), action_item) if folded else (),
    )


def group_notices(decisions: Sequence[Any], *, full: bool) -> list[list[Any]]:
    """Decisions of one class in address order, together where one policy says the same of several.

    Blocked subjects are folded only above FOLD_ABOVE partitions of one topic and one code, since each
    of them needs an answer. Those that wait for a clock are one group for each policy.
    """
    if full:
        return [[decision] for decision in decisions]
    groups = []
    for same in grouped(decisions, _reason_key):
        if isinstance(same[0], Blocked) and len(same) <= FOLD_ABOVE:
            groups += [[decision] for decision in same]
        else:
            groups.append(same)
    return groups


def _reason_key(decision: Notice) -> tuple[object, ...]:
    policy = decision.address.policy_address
    match decision:
        case Blocked():
            return policy, decision.address.name, decision.code
        case Waiting(until_ms=int()):
            return policy, ""
        case _:
            return policy, decision.reason


def subject_of(same: Sequence[Notice]) -> Phrase:
    """What the decisions of one group are about: `orders[5]`, `64 partitions of orders`, `a, b and 3 more`."""
    if len(same) == 1:
        return (escaped_name(format_subject(same[0].address)),)
    names = dict.fromkeys(format_subject(_topic(decision.address)) for decision in same)
    shown = escaped_name(formatting.first_few(list(names)))
    partitions = sum(decision.address.partition >= 0 for decision in same)
    return (f"{formatting.count(partitions, 'partition')} of ", shown) if partitions == len(same) else (shown,)


def _topic(address: Address) -> Address:
    return Address(address.kind, address.policy, address.name)


def totals(decisions: Iterable[Decision]) -> str:
    """`1 record deletion (at most 97,213 records), 1 group removal; 1 blocked; 14 in sync.`"""
    by_class: dict[type, list[Any]] = {}
    for decision in decisions:
        by_class.setdefault(type(decision), []).append(decision)
    actions = []
    for operation in reversed(operations.OPERATIONS):
        if members := by_class.get(operation):
            loss = operation.total_loss(members)
            actions.append(formatting.count(len(members), operation.TITLE) + (f" ({loss})" if loss else ""))
    unread = sum(decision.unread for decision in by_class.get(Blocked, ()))
    others = [
        f"{len(members):,} {word}"
        for decision, word in (
            (Blocked, f"blocked ({unread:,} unread)" if unread else "blocked"),
            (Waiting, "waiting"),
            (Skipped, "skipped"),
            (Satisfied, "in sync"),
        )
        if (members := by_class.get(decision))
    ]
    return "; ".join([", ".join(actions) or "no changes", *others]) + "."
