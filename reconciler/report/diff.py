"""Builds the report and the JSON of a comparison of two plans, which plan/diff.py makes."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from reconciler.codec import document
from reconciler.model.names import format_address, format_subject
from reconciler.operations.base import Operation
from reconciler.plan.diff import ActionDiff, Comparison, DecisionChange, Difference
from reconciler.plan.plan_file import SavedPlan, action_row, digest
from reconciler.report.document import DIFF, Document
from reconciler.report.tree import Item, Items, Report, Section, Severity, fold_equal
from reconciler.text import formatting
from reconciler.text.escape import display_name
from reconciler.text.phrase import Phrase, escaped_name, join, name, sentence, strong

_CHANGES = {
    DecisionChange.NEW: Severity.LOSS,
    DecisionChange.GONE: Severity.PLAIN,
    DecisionChange.LARGER: Severity.LOSS,
    DecisionChange.SMALLER: Severity.PLAIN,
    DecisionChange.CHANGED: Severity.CHANGE,
}
"""Severity of each change, in the order in which a topic lists them."""


def diff_document(comparison: Comparison) -> Document:
    """Return the document of a comparison."""
    return Document(
        kind=DIFF, trees=lambda _view: [diff_report(comparison)], writers={"json": lambda: diff_json(comparison)}
    )


def diff_report(comparison: Comparison) -> Report:
    """The report of a comparison. More than 20 partitions that changed alike are one item."""
    old, new = comparison.old, comparison.new
    counts = [f"{count:,} {change}" for change, count in comparison.tally.items() if count]
    clusters: tuple[Item, ...] = ()
    if old.cluster_id != new.cluster_id:
        ids = ("the plans are of ", name(old.cluster_id), " and ", name(new.cluster_id), "; neither bounds the other")
        clusters = (Item(label="Two clusters", text=ids, severity=Severity.ERROR),)
    differences = Items(sum(comparison.tally.values()), lambda: _items(comparison), exact=False)
    same = "what would be done"
    if bool(_refusals(old)) != bool(_refusals(new)):
        same = "the actions, but limits refuse one of the plans"
    return Report(
        headline=(f"Differences: {', '.join(counts)}." if counts else f"No differences in {same}.",),
        opening=(("Old ", *_identification(old)), ("New ", *_identification(new))),
        sections=(Section(items=clusters), Section(items=differences)),
        remainder=("with ", escaped_name("reconciler plan diff")),
    )


def _identification(plan: SavedPlan) -> Phrase:
    scanned = f"scanned {formatting.format_time(plan.observed_at_ms)}"
    commit: Phrase = ("commit ", name(plan.source.commit[:7])) if plan.source.commit else ()
    refused: Phrase = (
        (strong(f"refused by {formatting.count(number, 'limit')}"),) if (number := _refusals(plan)) else ()
    )
    return join(", ", (name(plan.cluster),), (scanned,), commit, refused, (escaped_name(digest(plan)),))


def _refusals(plan: SavedPlan) -> int:
    return sum(not verdict.passed for verdict in plan.limits)


def _items(comparison: Comparison) -> Iterator[Item]:
    """Yield the items in address order. No more than the differences of one topic are held."""
    order = list(_CHANGES)
    entries = comparison.entries()
    for _topic, of_topic in groupby(entries, key=lambda entry: (entry.address.policy_address, entry.address.name)):
        groups = fold_equal(
            of_topic,
            lambda entry: (entry.change, tuple(difference.path for difference in entry.differences)),
            lambda entry: entry.latest.is_foldable,
        )
        yield from map(_item, sorted(groups, key=lambda same: (order.index(same[0].change), same[0].address)))


def _item(same: Sequence[ActionDiff]) -> Item:
    """The item of one difference, or of many that are folded."""
    first = same[0]
    address, details = (
        format_address(first.address),
        [_words(first.latest, difference) for difference in first.differences],
    )
    such_as: Phrase = ()
    if len(same) > 1:
        sides = ([entry.old for entry in same if entry.old], [entry.new for entry in same if entry.new])
        before, after = (type(side[0]).total_loss(side) if side else "" for side in sides)
        losses = ", before ".join(filter(None, (after, before)))
        text: Phrase = (", ".join(filter(None, (formatting.count(len(same), "partition"), losses))),)
        address = f"{format_address(first.address.policy_address)}/{display_name(first.address.name)}"
        such_as = ("such as ", escaped_name(format_subject(first.address)), ": ")
    elif (size_change := first.size_change) is not None:
        text = size_change.summary
    else:
        description = first.latest.describe()
        text = join(", ", (first.latest.TITLE,), description.change, description.loss)
    return Item(
        label=first.change,
        subject=(escaped_name(address),),
        text=text,
        severity=_CHANGES[first.change],
        # The summary of a size change says what moved.
        children=() if first.size_change else tuple(Item(text=(*such_as, sentence(detail))) for detail in details),
    )


def _words(action: Operation, difference: Difference) -> str:
    """`topic id: kAwXdc4bS8uM, before 6J3kzQ5hTgmP`: one changed value in the words of a reviewer."""
    path, old, new = difference
    known = [field for field in action.FIELD_WORDS if path == field or path.startswith(f"{field}.")]
    field = max(known, key=len, default=path)
    words = action.FIELD_WORDS.get(field, path.rpartition(".")[2].replace("_", " "))
    part = path.removeprefix(field).removeprefix(".")
    if part.isdecimal():
        part = f"no. {int(part) + 1}"
    if path.endswith("_ms"):
        old, new = (formatting.format_duration(int(ms)) if ms.isdecimal() else ms for ms in (old, new))
    return f"{' '.join(filter(None, (words, part)))}: {new}, before {old}"


def diff_json(comparison: Comparison) -> Iterator[str]:
    """Yield the comparison as JSON, one entry per line, with actions as in the plan file."""
    entries = (
        {
            "address": str(entry.address),
            "change": entry.change,
            "details": entry.details,
            "old": entry.old and action_row(entry.old),
            "new": entry.new and action_row(entry.new),
        }
        for entry in comparison.entries()
    )
    fields: dict[str, Any] = {
        "format_version": "1.0",
        "kind": "PlanDiff",
        "old": _identity(comparison.old),
        "new": _identity(comparison.new),
        "summary": comparison.tally,
        "entries": entries,
    }
    return document(fields)


def _identity(side: SavedPlan) -> dict[str, str | None]:
    return {
        "cluster_id": side.cluster_id,
        "observed_at": formatting.format_exact_instant(side.observed_at_ms),
        "commit": side.source.commit,
        "plan_digest": digest(side),
    }
