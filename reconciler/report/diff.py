"""Builds the report and the JSON of a comparison of two plans, which plan/diff.py makes."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice
from typing import Any

from reconciler.codec import document
from reconciler.model.names import format_address, format_subject
from reconciler.operations.base import Operation
from reconciler.plan.diff import ActionDiff, Comparison, DecisionChange, Difference
from reconciler.plan.plan_file import SavedPlan, action_row, digest
from reconciler.report.document import DIFF, Document
from reconciler.report.plan import count_subjects, notice_items
from reconciler.report.tree import CAUSES_MAX, Item, Items, Report, Section, Severity, fold_causes, format_subjects
from reconciler.text import formatting
from reconciler.text.escape import display_name
from reconciler.text.phrase import Phrase, escaped_name, given, join, name, sentence, strong

_CHANGES = {
    DecisionChange.BLOCKED: Severity.WARNING,
    DecisionChange.NEW: Severity.LOSS,
    DecisionChange.LARGER: Severity.LOSS,
    DecisionChange.CHANGED: Severity.CHANGE,
    DecisionChange.SMALLER: Severity.PLAIN,
    DecisionChange.GONE: Severity.PLAIN,
}
"""Severity of each change, in the order in which a report lists them."""


def diff_document(comparison: Comparison, *, full: bool = False) -> Document:
    """Return the document of a comparison. `full`: as in `diff_report`."""
    return Document(
        kind=DIFF,
        trees=lambda _view: [diff_report(comparison, full=full)],
        writers={"json": lambda: diff_json(comparison)},
    )


def diff_report(comparison: Comparison, *, full: bool = False) -> Report:
    """The report of a comparison, folded like a plan: what changed alike is one item.

    `full`: every subject is an item of its own.
    """
    old, new = comparison.old, comparison.new
    present = {change: number for change in _CHANGES if (number := comparison.tally[change])}
    clusters: tuple[Item, ...] = ()
    if old.cluster_id != new.cluster_id:
        ids = ("the plans are of ", name(old.cluster_id), " and ", name(new.cluster_id), "; neither bounds the other")
        clusters = (Item(label="Two clusters", text=ids, severity=Severity.ERROR),)
    refusals = _refusals(new)
    one_refused = bool(_refusals(old)) != bool(refusals)
    same = "the actions, but limits refuse one of the plans" if one_refused else "what would be done"
    counts = ", ".join(f"{number:,} {change}" for change, number in present.items())
    refused = f" {formatting.count(refusals, 'limit')} {'refuses' if refusals == 1 else 'refuse'} the new plan."
    changes = (Items(n, partial(_items, comparison, change, full), exact=False) for change, n in present.items())
    return Report(
        headline=(
            f"Differences: {counts}." if counts else f"No differences in {same}.",
            refused if refusals else "",
        ),
        sections=(Section(items=clusters), *(Section(items=items) for items in changes)),
        footer=(("Old ", *_identification(old)), ("New ", *_identification(new))),
        remainder=("with ", escaped_name("reconciler plan diff")),
    )


def _identification(plan: SavedPlan) -> Phrase:
    scanned, number = f"scanned {formatting.format_time(plan.observed_at_ms)}", _refusals(plan)
    commit = given("commit ", (plan.source.commit or "")[:7], name)
    refused: Phrase = (strong(f"refused by {formatting.count(number, 'limit')}"),) if number else ()
    return join(", ", (name(plan.cluster),), (scanned,), commit, refused, (escaped_name(digest(plan)),))


def _refusals(plan: SavedPlan) -> int:
    return sum(not verdict.passed for verdict in plan.limits)


def _items(comparison: Comparison, change: DecisionChange, full: bool) -> Iterator[Item]:
    """Yield the items of one change in address order. Holds those of a topic, of one cause, or a policy's groups."""
    entries = (entry for entry in comparison.entries() if entry.change is change)
    if change is DecisionChange.BLOCKED:
        blocks = [entry.block for entry in entries if entry.block]
        yield from notice_items(blocks, "Blocked now", comparison.new.observed_at_ms, full=full)
    elif change is DecisionChange.GONE and not full:
        for _policy, of_policy in groupby(entries, key=lambda entry: entry.address.policy_address):
            yield from _gone(_fold(of_policy))
    else:
        yield from map(_item, ([entry] for entry in entries) if full else _fold(entries))


def _fold(entries: Iterable[ActionDiff]) -> Iterator[list[ActionDiff]]:
    """Yield what a plan shows as one line, and what differs in the same values; of groups, more than a few."""

    def line(entry: ActionDiff) -> Hashable:
        return entry.address.policy_address, None if entry.address.is_of_group else entry.latest.fold_key

    def cause(entry: ActionDiff) -> tuple[Hashable, Hashable]:
        values = tuple(difference.path for difference in entry.differences)
        return values, entry.address if entry.address.is_of_group else None

    for _line, same in groupby(entries, key=line):
        yield from fold_causes(same, cause)


def _gone(lines: Iterator[Sequence[ActionDiff]]) -> Iterator[Item]:
    """Yield the items of what one policy no longer does: more than a few lines are one, without their numbers."""
    first = list(islice(lines, CAUSES_MAX + 1))
    if len(first) <= CAUSES_MAX:
        yield from map(_item, first)
        return
    operation, policy = type(first[0][0].latest), first[0][0].address.policy_address
    addresses = [entry.address for same in chain(first, lines) for entry in same]
    effects = operation.count_effects(addresses)
    yield Item(label=DecisionChange.GONE, subject=(escaped_name(format_address(policy)),), text=(effects,))


def _item(same: Sequence[ActionDiff]) -> Item:
    """The item of one difference, or of many that are folded."""
    first, addresses, such_as = same[0], [entry.address for entry in same], tuple[Any, ...]()
    subject = format_address(first.address)
    if len(same) > 1:
        sides = [[side for side in of if side] for of in zip(*((entry.new, entry.old) for entry in same), strict=True)]
        losses = ", before ".join(filter(None, (side[0].total_loss(side) for side in sides if side)))
        names: Phrase = (": ", *format_subjects(addresses)) if first.address.is_of_group else ()
        number = count_subjects(addresses) if losses else first.latest.count_effects(addresses)
        text: Phrase = (number, *names, f", {losses}" if losses else "")
        topic = f"/{display_name(first.address.name)}" if len({address.name for address in addresses}) == 1 else ""
        subject = f"{format_address(first.address.policy_address)}{topic}"
        such_as = ("such as ", escaped_name(format_subject(first.address)), ": ")
    elif (size_change := first.size_change) is not None:
        text = size_change.summary
    else:
        description = first.latest.describe()
        text = join(", ", (first.latest.TITLE,), description.change, description.loss)
    # The summary of a size change says what moved.
    details = () if first.size_change else [_words(first.latest, difference) for difference in first.differences]
    return Item(
        label=first.change,
        subject=(escaped_name(subject),),
        text=text,
        severity=_CHANGES[first.change],
        children=tuple(Item(text=(*such_as, sentence(detail))) for detail in details),
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
            **({"code": entry.block.code, "reason": entry.block.reason} if entry.block else {}),
            "old": entry.old and action_row(entry.old),
            "new": entry.new and action_row(entry.new),
        }
        for entry in comparison.entries()
    )
    sides = {"old": _identity(comparison.old), "new": _identity(comparison.new)}
    head = {"format_version": "1.1", "kind": "PlanDiff", **sides, "summary": comparison.tally}
    return document(head | {"entries": entries})


def _identity(side: SavedPlan) -> dict[str, str | None]:
    return {
        "cluster_id": side.cluster_id,
        "observed_at": formatting.format_exact_instant(side.observed_at_ms),
        "commit": side.source.commit,
        "plan_digest": digest(side),
    }
