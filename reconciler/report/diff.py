"""What differs between two plans, for people and programs: new, gone, larger, smaller, changed; the comparison is within.py's."""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rich.text import Text

from reconciler.model.action import Action
from reconciler.model.election import Election
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan.plan_file import PlanFile, action_row, approved_fields, digest_of
from reconciler.plan.review import ActionDiff, Change, Comparison, PlanRef
from reconciler.report import escape, grouping
from reconciler.report.grouping import FOLD_ABOVE
from reconciler.report.truncate import LIMIT_CHARS, LineLimit
from reconciler.report.wrap import line, wrapped
from reconciler.text import formatting
from reconciler.text.escape import harmless_json

_SIGN = {Change.NEW: "+", Change.GONE: "-", Change.LARGER: ">", Change.SMALLER: "<", Change.CHANGED: "~"}
_ORDER = {change: number for number, change in enumerate(Change)}
_STYLE = {Change.NEW: "bold red", Change.LARGER: "bold red", Change.CHANGED: "yellow"}


def diff_text(comparison: Comparison, *, width: int | None = None) -> Iterator[Text]:
    """One line per difference, more than 20 partitions of one topic folded where the same of them changed; totals last."""
    yield from wrapped(f"Old  {_plan(comparison.old)}", width=width, style="dim")
    yield from wrapped(f"New  {_plan(comparison.new)}", width=width, style="dim")
    if sentence := _other_cluster(comparison):
        yield from wrapped(sentence, width=width, style="bold red")
    yield line("")
    for change, where, what, details in _rows(comparison):
        yield from wrapped(f"  {_SIGN[change]} {where}   {change}: {what}", width=width, style=_STYLE.get(change, ""))
        for detail in details:
            yield from wrapped(f"      {escape.escape_sentence(detail)}", width=width)
    if any(comparison.tally.values()):
        yield line("")
    yield from wrapped(_totals(comparison), width=width, style="bold")


def diff_markdown(comparison: Comparison, *, limit_chars: int = LIMIT_CHARS) -> str:
    """The same for a pull request."""
    head = [f"### {_totals(comparison)}", ""]
    head += [
        f"- Old: {escape.markdown_code(_plan(comparison.old))}",
        f"- New: {escape.markdown_code(_plan(comparison.new))}",
    ]
    if sentence := _other_cluster(comparison):
        head.append(f"- **{escape.markdown_prose(sentence)}**")
    budget = LineLimit(limit_chars - sum(len(row) + 1 for row in head) - 200)
    body = budget.take(_markdown_rows(comparison))
    if budget.cut:
        body += ["", "**Cut here: this is not the whole comparison.** Read the rest with `reconciler plan diff`."]
    return "\n".join([*head, "", *body]) + "\n"


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
    for name, value in head.items():
        yield harmless_json(f'"{name}": {json.dumps(value)},\n')
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


def _identity(side: PlanRef) -> dict[str, str | None]:
    return {
        "cluster_id": side.cluster_id,
        "observed_at": formatting.instant(side.observed_at_ms),
        "commit": side.source.commit,
        "plan_digest": _digest(side),
    }


def _digest(side: PlanRef) -> str:
    return side.header.digest if isinstance(side, PlanFile) else digest_of(side.actions, side.cluster_id)


def _plan(plan: PlanRef) -> str:
    commit = f", commit {escape.display_name(plan.source.commit[:7])}" if plan.source.commit else ""
    return f"{escape.display_name(plan.cluster)}, scanned {formatting.format_time(plan.observed_at_ms)}{commit}, {_digest(plan)}"


def _other_cluster(comparison: Comparison) -> str:
    old, new = comparison.old.cluster_id, comparison.new.cluster_id
    return (
        ""
        if old == new
        else f"These are two clusters, {escape.display_name(old)} and {escape.display_name(new)}: nothing of the one bounds the other."
    )


def _totals(comparison: Comparison) -> str:
    parts = [f"{count:,} {change}" for change, count in comparison.tally.items() if count]
    return f"Differences: {', '.join(parts)}." if parts else "No differences in what would be done."


def _rows(comparison: Comparison) -> Iterator[tuple[Change, str, str, tuple[str, ...]]]:
    """(change, where, what, details); entries come in address order, so those of one topic stand together."""
    for _topic, of_topic in groupby(comparison.entries(), key=lambda e: (e.address.policy_address, e.address.name)):
        alike: dict[tuple[Change, frozenset[str]], list[ActionDiff]] = {}
        for entry in of_topic:
            alike.setdefault((entry.change, _changed(entry)), []).append(entry)
        for (change, _), same in sorted(alike.items(), key=lambda item: (_ORDER[item[0][0]], item[1][0].address)):
            first = same[0]
            if len(same) <= FOLD_ABOVE or any(map(_unclean, same)):
                yield from ((change, escape.format_address(e.address), _what(e), _details(e)) for e in same)
                continue
            where = f"{escape.policy(first.address)}/{escape.display_name(first.address.name)}"
            details = tuple(f"such as {escape.subject(first.address)}: {detail}" for detail in _details(first))
            yield change, where, f"{formatting.count(len(same), 'partition')}{_records(same)}", details


def _changed(entry: ActionDiff) -> frozenset[str]:
    """Names of the values that changed, for those that did not only move; quickly, since a topic may have thousands of partitions."""
    if entry.change is not Change.CHANGED or entry.old is None or entry.new is None:
        return frozenset()
    old, new = dict(_values(approved_fields(entry.old))), dict(_values(approved_fields(entry.new)))
    return frozenset(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _values(bound_to: dict[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in bound_to.items():
        if isinstance(value, dict):
            yield from _values(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value


def _unclean(entry: ActionDiff) -> bool:
    """Each one loses data: none is hidden in a sum."""
    return isinstance(entry.new, ElectLeader) and entry.new.election is Election.UNCLEAN


def _markdown_rows(comparison: Comparison) -> Iterator[str]:
    for change, where, what, details in _rows(comparison):
        yield f"- **{change}** {escape.markdown_code(where)}: {escape.markdown_prose(what.replace('->', '→'))}"
        yield from (f"  - {escape.markdown_prose(detail)}" for detail in details)


def _details(entry: ActionDiff) -> tuple[str, ...]:
    return entry.details if entry.change is Change.CHANGED else ()


def _records(entries: list[ActionDiff]) -> str:
    def most(action: Action | None) -> int:
        return action.records_max if isinstance(action, DeleteRecords) else 0

    old, new = sum(most(entry.old) for entry in entries), sum(most(entry.new) for entry in entries)
    return f", at most {old:,} -> {formatting.count(new, 'record')}" if old or new else ""


def _what(entry: ActionDiff) -> str:
    if entry.change in (Change.LARGER, Change.SMALLER) and entry.old and entry.new:
        old, new = entry.old, entry.new
        if isinstance(old, DeleteRecords) and isinstance(new, DeleteRecords):
            by = abs(new.before_offset - old.before_offset)
            kept = f"first offset kept {old.before_offset} -> {new.before_offset}, {formatting.count(by, 'record')}"
            if new.seen.log_start >= old.seen.log_start:
                return kept
            lower = f"the log starts at {new.seen.log_start}, it was {old.seen.log_start}"
            most = f"at most {old.records_max:,} -> {formatting.count(new.records_max, 'record')}"
            return f"{kept + '; ' if by else ''}{lower}; {most}"
    action = entry.old if entry.new is None else entry.new
    assert action is not None
    return summary_line(action)


def summary_line(action: Action) -> str:
    """An action in one line, without its subject."""
    match action:
        case DeleteRecords():
            most = formatting.count(action.records_max, "record")
            return f"log start {action.seen.log_start} -> {action.before_offset}, at most {most}"
        case DeleteGroup():
            return f"group removal, {formatting.count(action.seen.commits, 'committed offset')}"
        case ElectLeader():
            return f"{action.election} election, leader {grouping.move(action)}"
