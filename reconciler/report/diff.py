"""Builds the report of a comparison of two plans, and its JSON. The comparison itself is plan/diff.py's."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import cast

from reconciler.model.names import format_address, format_policy, format_subject
from reconciler.operations.base import Operation
from reconciler.plan.diff import ActionDiff, Change, Comparison
from reconciler.plan.plan_file import SavedPlan, action_row, digest
from reconciler.report.grouping import FOLD_ABOVE, grouped
from reconciler.report.tree import Item, Report, Section, Severity
from reconciler.text import formatting
from reconciler.text.escape import display_name, harmless_json
from reconciler.text.phrase import Phrase, escaped_name, join, name, sentence

_SIGN = {Change.NEW: "+", Change.GONE: "-", Change.LARGER: ">", Change.SMALLER: "<", Change.CHANGED: "~"}
_SEVERITY = {Change.NEW: Severity.LOSS, Change.LARGER: Severity.LOSS, Change.CHANGED: Severity.CHANGE}
_ORDER = {change: number for number, change in enumerate(Change)}


class _Rows:
    """The items of a comparison, streamed: no more than the differences of one topic are held."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def __len__(self) -> int:
        return sum(self._comparison.tally.values())

    def __iter__(self) -> Iterator[Item]:
        entries = self._comparison.entries()
        for _topic, of_topic in groupby(entries, key=lambda entry: (entry.address.policy_address, entry.address.name)):
            groups = grouped(of_topic, lambda entry: (entry.change, tuple(d.path for d in entry.differences)))
            for same in sorted(groups, key=lambda group: (_ORDER[group[0].change], group[0].address)):
                if len(same) > FOLD_ABOVE and all(_sides(entry)[-1].is_foldable for entry in same):
                    yield _folded_item(same)
                else:
                    yield from map(_item, same)


def diff_report(comparison: Comparison) -> Report:
    """The report of a comparison: one item for each difference, folded where more than 20 partitions changed alike."""
    old, new = comparison.old, comparison.new
    counts = [f"{count:,} {change}" for change, count in comparison.tally.items() if count]
    clusters: tuple[Item, ...] = ()
    if old.cluster_id != new.cluster_id:
        ids = ("the plans are of ", name(old.cluster_id), " and ", name(new.cluster_id), "; neither bounds the other")
        clusters = (Item(label="Two clusters", text=ids, severity=Severity.ERROR),)
    return Report(
        headline=(f"Differences: {', '.join(counts)}." if counts else "No differences in what would be done.",),
        opening=(("Old ", *_identification(old)), ("New ", *_identification(new))),
        sections=(Section(items=clusters, labelled=False), Section(items=_Rows(comparison), labelled=False)),
        remainder=("Read the rest with ", escaped_name("reconciler plan diff"), "."),
    )


def _identification(plan: SavedPlan) -> Phrase:
    scanned = f"scanned {formatting.format_time(plan.observed_at_ms)}"
    commit: Phrase = ("commit ", name(plan.source.commit[:7])) if plan.source.commit else ()
    return join(", ", (name(plan.cluster),), (scanned,), commit, (escaped_name(digest(plan)),))


def _sides(entry: ActionDiff) -> list[Operation]:
    return [cast(Operation, side) for side in (entry.old, entry.new) if side is not None]


def _item(entry: ActionDiff) -> Item:
    size_change = entry.size_change
    action = _sides(entry)[-1]
    if size_change is None:
        description = action.describe()
        text = join(", ", (action.TITLE,), description.change, description.loss)
    else:
        text = size_change.summary
    details = () if size_change else entry.details
    children = tuple(Item(text=(sentence(detail),)) for detail in details)
    return _row(entry, format_address(entry.address), text, children)


def _folded_item(same: Sequence[ActionDiff]) -> Item:
    first = same[0]
    losses = []
    for sides in ([entry.old for entry in same], [entry.new for entry in same]):
        actions = [cast(Operation, action) for action in sides if action is not None]
        losses.append(type(actions[0]).total_loss(actions) if actions else "")
    loss = " -> ".join(filter(None, losses))
    text = f"{formatting.count(len(same), 'partition')}{', ' if loss else ''}{loss}"
    such_as = ("such as ", escaped_name(format_subject(first.address)), ": ")
    children = tuple(Item(text=(*such_as, sentence(f"{path}: {old} → {new}"))) for path, old, new in first.differences)
    topic = f"{format_policy(first.address)}/{display_name(first.address.name)}"
    return _row(first, topic, (text,), children)


def _row(entry: ActionDiff, address: str, text: Phrase, children: tuple[Item, ...]) -> Item:
    return Item(
        sign=_SIGN[entry.change],
        label=entry.change,
        subject=(escaped_name(address),),
        text=text,
        severity=_SEVERITY.get(entry.change, Severity.PLAIN),
        children=children,
    )


def diff_json(comparison: Comparison) -> Iterator[str]:
    """Entries as objects, one per line: address, change, both actions as the plan file has them, and what changed inside."""
    head = {
        "format_version": "1.0",
        "kind": "PlanDiff",
        "old": _identity(comparison.old),
        "new": _identity(comparison.new),
        "summary": {change.value: count for change, count in comparison.tally.items()},
    }
    yield "{\n"
    for key, value in head.items():
        yield harmless_json(f'"{key}": {json.dumps(value)},\n')
    yield '"entries": ['
    separator = "\n"
    for entry in comparison.entries():
        row = {
            "address": str(entry.address),
            "change": entry.change.value,
            "details": entry.details,
            "old": None if entry.old is None else action_row(entry.old),
            "new": None if entry.new is None else action_row(entry.new),
        }
        yield f"{separator}{harmless_json(json.dumps(row))}"
        separator = ",\n"
    yield "]\n}\n" if separator == "\n" else "\n]\n}\n"


def _identity(side: SavedPlan) -> dict[str, str | None]:
    return {
        "cluster_id": side.cluster_id,
        "observed_at": formatting.format_exact_instant(side.observed_at_ms),
        "commit": side.source.commit,
        "plan_digest": digest(side),
    }
