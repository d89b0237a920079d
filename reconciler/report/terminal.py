"""A plan as text for a terminal or a CI log: rich Text, one per line, never with markup in it. Readable at 80 columns.

Colour is a style on the line; whether it becomes an escape code is for cli/ to decide.
"""

import itertools
from collections.abc import Iterator
from typing import assert_never

from rich.text import Text

from reconciler.model.election import Election
from reconciler.model.plan import Blocked, Plan, Skipped, Waiting
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan.plan_file import digest
from reconciler.report import escape, grouping
from reconciler.report.grouping import DisplayItem, GroupedDeletions, GroupedElections, GroupedNotice
from reconciler.report.wrap import line, two_columns, wrapped
from reconciler.text import formatting

LOSS = "bold red"
MOVE = "yellow"
QUIET = "dim"
BAD = "bold magenta"


def text(plan: Plan, *, full: bool = False, width: int | None = None, saved_to: str | None = None) -> Iterator[Text]:
    """The plan's lines. `full`: every partition, and what was skipped. `width` None: lines are as long as they are."""
    found = grouping.summary(plan.decisions)
    yield from wrapped(_title(plan, found.satisfied), width=width, style="bold")
    yield line("")
    for sentence in plan.incomplete:
        yield from wrapped(f"Incomplete: {escape.escape_sentence(sentence)}", width=width, style=BAD)
    if plan.targets:
        yield from wrapped(f"Only: {', '.join(map(escape.display_name, plan.targets))}", width=width)
    if plan.incomplete or plan.targets:
        yield line("")
    yield from _policies(plan, full=full, width=width)
    yield from _asides(plan, full=full, width=width)
    yield from _limits(plan, width=width)
    told = grouping.totals(found)
    if plan.actions:
        yield from wrapped(f"Plan: {told}", width=width, style="bold")
    else:
        yield from wrapped(f"No changes{told.removeprefix('no changes')}", width=width, style="bold")
    if plan.actions or saved_to:
        yield from _digest(plan, saved_to=saved_to, width=width)


def _title(plan: Plan, in_sync: int) -> str:
    commit = plan.source.commit
    told = (
        f"   commit {escape.display_name(commit[:7])}{' and uncommitted changes' if plan.source.dirty else ''}"
        if commit
        else ""
    )
    return f"Cluster {escape.display_name(plan.cluster)} ({escape.display_name(plan.cluster_id)}){told}   {in_sync:,} in sync"


def _policies(plan: Plan, *, full: bool, width: int | None) -> Iterator[Text]:
    notes = grouping.note_of(plan)
    for policy, entries in grouping.policies(plan.actions, full=full):
        first = next(entries)
        place = grouping.declared_at(first)
        yield from two_columns(f"  # {escape.policy(policy)}", escape.place(place), width=width, style=QUIET)
        note = notes.get(policy)
        if note and (note.owner or note.reason):
            told = ": ".join(escape.escape_sentence(part) for part in (note.owner, note.reason) if part)
            yield from wrapped(f"  # {told}", width=width, style=QUIET, indent="# ")
        for entry in itertools.chain((first,), entries):
            yield from _entry(entry, width=width)
        yield line("")


def _entry(entry: DisplayItem, *, width: int | None) -> Iterator[Text]:
    match entry:
        case DeleteRecords():
            yield from _purge(entry, width=width)
        case DeleteGroup(seen=seen):
            lost = f"{formatting.count(seen.commits, 'committed offset')} on {formatting.count(seen.commit_topics, 'topic')}"
            yield from wrapped(f"  - {escape.quoted(entry.group)}   IRREVERSIBLE: {lost}", width=width, style=LOSS)
            yield from _because(entry.reason, width=width)
        case ElectLeader():
            yield from _election(entry, width=width)
        case GroupedDeletions():
            yield from _purges(entry, width=width)
        case GroupedElections():
            moves = ", ".join(f"{how} ({number:,})" for how, number in entry.moves[: grouping.MOVES_MAX])
            numbers = formatting.span(entry.actions[0].partition.partition, entry.actions[-1].partition.partition)
            yield from wrapped(
                f"  ~ {escape.display_name(entry.topic)}   {len(entry.actions):,} partitions ({numbers})   leader {moves}{grouping.more_moves(entry)}",
                width=width,
                style=MOVE,
            )
        case _:
            assert_never(entry)


def _because(reason: str, *, width: int | None) -> Iterator[Text]:
    yield from wrapped(f"      because {escape.escape_sentence(reason)}", width=width)


def _purge(action: DeleteRecords, *, width: int | None) -> Iterator[Text]:
    seen = action.seen
    yield from wrapped(
        f"  ! {escape.subject(action.address)}   log start {seen.log_start} -> {action.before_offset}   (end {seen.stable_end})",
        width=width,
        style=LOSS,
    )
    yield from _because(action.reason + ("" if action.drift else " (no drift yet: within driftAfter)"), width=width)
    most = f"at most {formatting.count(action.records_max, 'record')} ({formatting.percent(action.partition_percent)})"
    yield from wrapped(f"      IRREVERSIBLE: {most}", width=width, style=LOSS)
    for group, records in action.skips:
        yield from wrapped(
            f"      {escape.quoted(group)} would skip at most {formatting.count(records, 'record')}",
            width=width,
            style=LOSS,
        )
    yield from _not_looked_at(action, width=width)


def _purges(entry: GroupedDeletions, *, width: int | None) -> Iterator[Text]:
    actions, largest = entry.actions, entry.largest
    starts = [action.seen.log_start for action in actions]
    targets = [action.before_offset for action in actions]
    numbers = formatting.span(actions[0].partition.partition, actions[-1].partition.partition)
    yield from wrapped(
        f"  ! {escape.display_name(entry.topic)}   {len(actions):,} partitions ({numbers})   log start "
        f"{formatting.span(min(starts), max(starts))} -> {formatting.span(min(targets), max(targets))}",
        width=width,
        style=LOSS,
    )
    share = 100.0 * entry.records_max / entry.held if entry.held else 0.0
    most = f"at most {formatting.count(entry.records_max, 'record')} ({formatting.percent(share)})"
    yield from wrapped(f"      IRREVERSIBLE: {most}", width=width, style=LOSS)
    yield from wrapped(
        f"      most of it on {largest.partition}: {largest.seen.log_start} -> {largest.before_offset}, at most "
        f"{formatting.count(largest.records_max, 'record')}, because {escape.escape_sentence(largest.reason)}",
        width=width,
    )
    for group, records, partitions in entry.skips[:10]:
        yield from wrapped(
            f"      {escape.quoted(group)} would skip at most {formatting.count(records, 'record')} on "
            f"{formatting.count(partitions, 'partition')}",
            width=width,
            style=LOSS,
        )
    if len(entry.skips) > 10:
        yield line(
            f"      and {formatting.count(len(entry.skips) - 10, 'more group')} would skip records (--full lists them)",
            LOSS,
        )
    yield from _not_looked_at(entry, width=width)


def _not_looked_at(entry: DeleteRecords | GroupedDeletions, *, width: int | None) -> Iterator[Text]:
    if told := grouping.excluded_groups(entry):
        yield from wrapped(f"      {told}", width=width, style=BAD)


def _election(action: ElectLeader, *, width: int | None) -> Iterator[Text]:
    seen = action.seen
    unclean = action.election is Election.UNCLEAN
    replicas, in_sync = (",".join(map(str, ids)) or "none" for ids in (seen.replicas, seen.in_sync))
    yield from wrapped(
        f"  {'!' if unclean else '~'} {escape.subject(action.address)}   leader {grouping.move(action)}   "
        f"(replicas {replicas}; in sync {in_sync})",
        width=width,
        style=LOSS if unclean else MOVE,
    )
    if unclean:
        yield from _because(action.reason, width=width)
        yield from wrapped(
            "      IRREVERSIBLE: unbounded; records that only the missing replicas hold are lost",
            width=width,
            style=LOSS,
        )


def _asides(plan: Plan, *, full: bool, width: int | None) -> Iterator[Text]:
    blocked = [decision for decision in plan.decisions if isinstance(decision, Blocked)]
    for aside in grouping.group_notices((b for b in blocked if not b.unread), full=full):
        yield from _blocked(aside, "Blocked", width=width)
    for aside in grouping.group_notices((b for b in blocked if b.unread), full=full):
        yield from _blocked(aside, "Unread", width=width)
    for aside in grouping.group_notices((d for d in plan.decisions if isinstance(d, Waiting)), full=full):
        yield from _waiting(aside, now_ms=plan.observed_at_ms, width=width)
    if full:
        for aside in grouping.group_notices((d for d in plan.decisions if isinstance(d, Skipped)), full=True):
            yield from wrapped(
                f"Skipped: {aside.where} — {escape.escape_sentence(aside.first.reason)}", width=width, style=QUIET
            )


def _blocked(aside: GroupedNotice, word: str, *, width: int | None) -> Iterator[Text]:
    assert isinstance(aside.first, Blocked)
    blocked = aside.first
    like = f", such as {escape.subject(blocked.address)}" if aside.number > 1 else ""
    told = (
        f"{word}: {aside.where}{like} — {formatting.sentence(escape.escape_sentence(blocked.reason))} Next: {escape.escape_sentence(blocked.next_step)} "
        f"({escape.display_name(blocked.code)})"
    )
    yield from wrapped(told, width=width, style=BAD)


def _waiting(aside: GroupedNotice, *, now_ms: int, width: int | None) -> Iterator[Text]:
    until = grouping.wait_range(aside, now_ms=now_ms)
    like = f", such as {escape.subject(aside.first.address)}" if aside.number > 1 and until else ""
    when = f" ({until})" if until else ""
    yield from wrapped(
        f"Waiting: {aside.where}{when}{like} — {escape.escape_sentence(aside.first.reason)}", width=width, style=QUIET
    )


def _limits(plan: Plan, *, width: int | None) -> Iterator[Text]:
    for verdict in plan.refused:
        yield from wrapped(f"REFUSED: {escape.escape_sentence(verdict.message)}", width=width, style=LOSS)
    for waiver in grouping.waivers(plan):
        left = formatting.until(waiver.expires_ms, now_ms=plan.observed_at_ms)
        yield from wrapped(
            f"Waiver {escape.display_name(waiver.name)}: {escape.display_name(waiver.limit)} up to {waiver.value:.15g} for {escape.policy(waiver.policy)}, "
            f"expires {formatting.format_time(waiver.expires_ms)}, {left} ({escape.place(waiver.declared_at)})",
            width=width,
            style=MOVE,
        )


def _digest(plan: Plan, *, saved_to: str | None, width: int | None) -> Iterator[Text]:
    yield line(f"Digest {digest(plan)}")
    left = formatting.duration(plan.expires_at_ms - plan.observed_at_ms)
    saved = f"   saved to {escape.display_name(saved_to)}" if saved_to else ""
    yield from wrapped(
        f"Expires {formatting.format_time(plan.expires_at_ms)} ({left} after the scan){saved}", width=width
    )
