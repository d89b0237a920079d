"""A plan as Markdown for a pull request comment, a job summary or an issue, to be read on a phone: lists, no tables.

The first line is a hidden marker, so that a workflow finds and edits its comment in place. What cannot be undone comes first.
Where the text would pass its limit it is cut at a line, says so, and the marker says so, too.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from reconciler.model.election import Election
from reconciler.model.names import Address
from reconciler.model.plan import Blocked, Plan, Skipped, Waiting
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan.plan_file import Summary, digest
from reconciler.report import escape, grouping
from reconciler.report.grouping import DisplayItem, GroupedDeletions, GroupedElections, GroupedNotice
from reconciler.report.truncate import LIMIT_CHARS, LineLimit
from reconciler.text import formatting

OPEN_ENTRIES = 25
"""Entries of one policy, or of one sort of aside, that are shown without a tap."""


def markdown(plan: Plan, *, limit_chars: int = LIMIT_CHARS) -> str:
    """The comment. Raises ValueError for a limit below what marker, headline and digest take (4,000)."""
    if limit_chars < 4_000:
        raise ValueError(f"limit_chars is {limit_chars}, and a comment takes at least 4000")
    found = grouping.summary(plan.decisions)
    told = digest(plan)
    head = [f"### {_headline(plan, found)}", "", f"**Plan:** {grouping.totals(found)}", ""]
    foot = ["", _footer(plan, told)]
    budget = LineLimit(limit_chars - sum(len(row) + 1 for row in (*head, *foot)) - 800)
    body = budget.take(_body(plan))
    if budget.cut:
        body += [
            "",
            "**Cut here: this is not the whole plan.** Read the rest in the plan file or with `reconciler show`.",
        ]
    return "\n".join([_marker(plan, told, cut=budget.cut), *head, *body, *foot]) + "\n"


def _marker(plan: Plan, told: str, *, cut: bool) -> str:
    commit = plan.source.commit or ""
    fields = (("cluster", plan.cluster), ("digest", told), ("commit", commit), ("truncated", "yes" if cut else "no"))
    return f"<!-- reconciler-plan {' '.join(f'{name}={escape.comment_value(value)}' for name, value in fields)} -->"


def _headline(plan: Plan, found: Summary) -> str:
    name = escape.markdown_code(escape.display_name(plan.cluster))
    if plan.refused:
        return f"{name}: refused by {formatting.count(len(plan.refused), 'limit')}"
    if not plan.actions:
        return f"{name}: no changes"
    moves = found.delete_records + found.delete_group + found.elect_leader - found.irreversible
    parts = [formatting.count(found.irreversible, "irreversible action")] if found.irreversible else []
    parts += [formatting.count(moves, "election")] if moves else []
    return f"{name}: {', '.join(parts)}"


def _body(plan: Plan) -> Iterator[str]:
    for verdict in plan.refused:
        yield f"- **Refused**: {escape.markdown_prose(verdict.message)}"
    for sentence in plan.incomplete:
        yield f"- **Incomplete**: {escape.markdown_prose(sentence)}"
    for target in plan.targets:
        yield f"- Only {escape.markdown_code(escape.display_name(target))}"
    yield ""
    lost = [action for action in plan.actions if action.irreversible]
    if lost:
        yield "#### Irreversible"
        yield from _policies(plan, grouping.policies(lost, full=False))
    moves = [action for action in plan.actions if not action.irreversible]
    if moves:
        yield "#### Elections"
        yield from _policies(plan, grouping.policies(moves, full=False))
    yield from _asides(plan)
    used = grouping.waivers(plan)
    if used:
        yield "#### Waivers used"
        yield ""
    for waiver in used:
        yield (
            f"- {escape.markdown_code(escape.display_name(waiver.name))}: {escape.markdown_prose(waiver.limit)} up to {waiver.value:.15g} for "
            f"{escape.markdown_code(escape.policy(waiver.policy))}, expires {formatting.format_time(waiver.expires_ms)}, "
            f"{formatting.until(waiver.expires_ms, now_ms=plan.observed_at_ms)}"
        )


def _policies(plan: Plan, found: Iterable[tuple[Address, Iterator[DisplayItem]]]) -> Iterator[str]:
    notes = grouping.note_of(plan)
    for policy, entries in found:
        listed = list(entries)
        yield ""
        place = escape.markdown_code(escape.place(grouping.declared_at(listed[0])))
        yield f"**{escape.markdown_code(escape.policy(policy))}** in {place}"
        note = notes.get(policy)
        if note and (note.owner or note.reason):
            yield ""
            told = (("Owner", note.owner), ("Reason", note.reason))
            yield ". ".join(f"{name}: {escape.markdown_prose(part)}" for name, part in told if part)
        yield ""
        yield from _with_details((row for entry in listed[:OPEN_ENTRIES] for row in _entry(entry)), None)
        if len(listed) > OPEN_ENTRIES:
            rest = listed[OPEN_ENTRIES:]
            yield from _with_details((row for entry in rest for row in _entry(entry)), f"{len(rest):,} more")
    yield ""


def _with_details(rows: Iterable[str], title: str | None) -> Iterator[str]:
    """The rows; behind a tap where they have a title. The blank lines keep Markdown alive inside HTML."""
    if title is None:
        yield from rows
        return
    yield ""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from rows
    yield ""
    yield "</details>"
    yield ""


def _entry(entry: DisplayItem) -> Iterator[str]:
    match entry:
        case DeleteRecords():
            yield (
                f"- {escape.markdown_code(escape.subject(entry.address))}: at most **{formatting.count(entry.records_max, 'record')}** "
                f"({formatting.percent(entry.partition_percent)}), log start {entry.seen.log_start} → {entry.before_offset}"
            )
            yield f"  - because {escape.markdown_prose(entry.reason)}"
            for group, records in entry.skips:
                yield f"  - {escape.markdown_code(escape.quoted(group))} **would skip at most {formatting.count(records, 'record')}**"
            yield from _not_looked_at(entry)
        case DeleteGroup():
            yield (
                f"- {escape.markdown_code(escape.quoted(entry.group))}: **{formatting.count(entry.seen.commits, 'committed offset')}** "
                f"on {formatting.count(entry.seen.commit_topics, 'topic')}"
            )
            yield f"  - because {escape.markdown_prose(entry.reason)}"
        case ElectLeader():
            unclean = entry.election is Election.UNCLEAN
            loss = "**loss unbounded**, " if unclean else ""
            yield f"- {escape.markdown_code(escape.subject(entry.address))}: {loss}leader {grouping.move(entry).replace('->', '→')}"
            if unclean:
                yield f"  - because {escape.markdown_prose(entry.reason)}"
        case GroupedDeletions():
            share = 100.0 * entry.records_max / entry.held if entry.held else 0.0
            largest = entry.largest
            yield (
                f"- {escape.markdown_code(escape.display_name(entry.topic))}, {len(entry.actions):,} partitions: at most "
                f"**{formatting.count(entry.records_max, 'record')}** ({formatting.percent(share)})"
            )
            yield (
                f"  - most of it on {escape.markdown_code(escape.subject(largest.address))}: {largest.seen.log_start} → "
                f"{largest.before_offset}, because {escape.markdown_prose(largest.reason)}"
            )
            for group, records, partitions in entry.skips[:10]:
                yield (
                    f"  - {escape.markdown_code(escape.quoted(group))} **would skip at most {formatting.count(records, 'record')}** on "
                    f"{formatting.count(partitions, 'partition')}"
                )
            if len(entry.skips) > 10:
                yield f"  - and **{formatting.count(len(entry.skips) - 10, 'more group')} would skip records**"
            yield from _not_looked_at(entry)
        case GroupedElections():
            moves = ", ".join(
                f"{how.replace('->', '→')} ({number:,})" for how, number in entry.moves[: grouping.MOVES_MAX]
            )
            yield f"- {escape.markdown_code(escape.display_name(entry.topic))}, {len(entry.actions):,} partitions: leader {moves}{grouping.more_moves(entry)}"
        case _:
            assert_never(entry)


def _not_looked_at(entry: DeleteRecords | GroupedDeletions) -> Iterator[str]:
    if told := grouping.excluded_groups(entry):
        yield f"  - {escape.markdown_prose(told)}"


def _asides(plan: Plan) -> Iterator[str]:
    for unread in (False, True):
        found = [d for d in plan.decisions if isinstance(d, Blocked) and d.unread is unread]
        if found:
            yield f"#### {len(found):,} {'unread, so blocked' if unread else 'blocked'}"
            yield ""
            yield from _folded(map(_blocked, grouping.group_notices(found, full=False)))
            yield ""
    waiting = [d for d in plan.decisions if isinstance(d, Waiting)]
    if waiting:
        rows = (_waiting(aside, plan.observed_at_ms) for aside in grouping.group_notices(waiting, full=False))
        yield from _with_details(rows, f"{len(waiting):,} waiting")
    skipped = [d for d in plan.decisions if isinstance(d, Skipped)]
    if skipped:
        rows = (
            f"- {escape.markdown_code(aside.where)}: {escape.markdown_prose(aside.first.reason)}"
            for aside in grouping.group_notices(skipped, full=False)
        )
        yield from _with_details(rows, f"{len(skipped):,} skipped")


def _folded(rows: Iterable[str]) -> Iterator[str]:
    listed = list(rows)
    yield from listed[:OPEN_ENTRIES]
    if len(listed) > OPEN_ENTRIES:
        yield from _with_details(listed[OPEN_ENTRIES:], f"{len(listed) - OPEN_ENTRIES:,} more")


def _blocked(aside: GroupedNotice) -> str:
    assert isinstance(aside.first, Blocked)
    like = f", such as {escape.markdown_code(escape.subject(aside.first.address))}" if aside.number > 1 else ""
    return (
        f"- {escape.markdown_code(aside.where)}{like}: {formatting.sentence(escape.markdown_prose(aside.first.reason))} "
        f"Next: {escape.markdown_prose(aside.first.next_step)} ({escape.markdown_code(escape.display_name(aside.first.code))})"
    )


def _waiting(aside: GroupedNotice, now_ms: int) -> str:
    until = grouping.wait_range(aside, now_ms=now_ms)
    like = (
        f", such as {escape.markdown_code(escape.subject(aside.first.address))}" if aside.number > 1 and until else ""
    )
    when = f" **{until}**" if until else ""
    return f"- {escape.markdown_code(aside.where)}{when}{like}: {escape.markdown_prose(aside.first.reason)}"


def _footer(plan: Plan, told: str) -> str:
    commit = (
        f", commit {escape.markdown_code(escape.display_name(plan.source.commit[:12]))}" if plan.source.commit else ""
    )
    dirty = " with uncommitted changes" if plan.source.commit and plan.source.dirty else ""
    return (
        f"<sub>Digest `{told}`, scanned {formatting.format_time(plan.observed_at_ms)}, expires {formatting.format_time(plan.expires_at_ms)}, "
        f"cluster id {escape.markdown_code(escape.display_name(plan.cluster_id))}{commit}{dirty}</sub>"
    )
