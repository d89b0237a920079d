"""A plan as text for a terminal or a CI log: rich Text, one per line, never with markup in it. Readable at 80 columns.

Colour is a style on the line; whether it becomes an escape code is for cli/ to decide.
"""

import itertools
from collections.abc import Iterator
from typing import assert_never

from rich.text import Text

from reconciler.model.action import DeleteGroup, DeleteRecords, Election, ElectLeader
from reconciler.model.plan import Blocked, Plan, Skipped, Waiting
from reconciler.plan.document.digest import digest
from reconciler.plan.render import folds, phrases, safe
from reconciler.plan.render.folds import Aside, Elections, Entry, Purges
from reconciler.plan.render.wrap import line, two_columns, wrapped

LOSS = "bold red"
MOVE = "yellow"
QUIET = "dim"
BAD = "bold magenta"


def text(plan: Plan, *, full: bool = False, width: int | None = None, saved_to: str | None = None) -> Iterator[Text]:
    """The plan's lines. `full`: every partition, and what was skipped. `width` None: lines are as long as they are."""
    found = folds.summary(plan.decisions)
    yield from wrapped(_title(plan, found.satisfied), width=width, style="bold")
    yield line("")
    for sentence in plan.incomplete:
        yield from wrapped(f"Incomplete: {safe.prose(sentence)}", width=width, style=BAD)
    if plan.targets:
        yield from wrapped(f"Only: {', '.join(map(safe.bare, plan.targets))}", width=width)
    if plan.incomplete or plan.targets:
        yield line("")
    yield from _policies(plan, full=full, width=width)
    yield from _asides(plan, full=full, width=width)
    yield from _limits(plan, width=width)
    told = folds.totals(found)
    if plan.actions:
        yield from wrapped(f"Plan: {told}", width=width, style="bold")
    else:
        yield from wrapped(f"No changes{told.removeprefix('no changes')}", width=width, style="bold")
    if plan.actions or saved_to:
        yield from _digest(plan, saved_to=saved_to, width=width)


def _title(plan: Plan, in_sync: int) -> str:
    commit = plan.source.commit
    told = (
        f"   commit {safe.bare(commit[:7])}{' and uncommitted changes' if plan.source.dirty else ''}" if commit else ""
    )
    return f"Cluster {safe.bare(plan.cluster)} ({safe.bare(plan.cluster_id)}){told}   {in_sync:,} in sync"


def _policies(plan: Plan, *, full: bool, width: int | None) -> Iterator[Text]:
    notes = folds.note_of(plan)
    for policy, entries in folds.policies(plan.actions, full=full):
        first = next(entries)
        place = folds.declared_at(first)
        yield from two_columns(f"  # {safe.policy(policy)}", safe.place(place), width=width, style=QUIET)
        note = notes.get(policy)
        if note and (note.owner or note.reason):
            told = ": ".join(safe.prose(part) for part in (note.owner, note.reason) if part)
            yield from wrapped(f"  # {told}", width=width, style=QUIET, indent="# ")
        for entry in itertools.chain((first,), entries):
            yield from _entry(entry, width=width)
        yield line("")


def _entry(entry: Entry, *, width: int | None) -> Iterator[Text]:
    match entry:
        case DeleteRecords():
            yield from _purge(entry, width=width)
        case DeleteGroup(seen=seen):
            lost = f"{phrases.count(seen.commits, 'committed offset')} on {phrases.count(seen.commit_topics, 'topic')}"
            yield from wrapped(f"  - {safe.quoted(entry.group)}   IRREVERSIBLE: {lost}", width=width, style=LOSS)
            yield from _because(entry.reason, width=width)
        case ElectLeader():
            yield from _election(entry, width=width)
        case Purges():
            yield from _purges(entry, width=width)
        case Elections():
            moves = ", ".join(f"{how} ({number:,})" for how, number in entry.moves[: folds.MOVES_MAX])
            numbers = phrases.span(entry.actions[0].partition.partition, entry.actions[-1].partition.partition)
            yield from wrapped(
                f"  ~ {safe.bare(entry.topic)}   {len(entry.actions):,} partitions ({numbers})   leader {moves}{folds.more_moves(entry)}",
                width=width,
                style=MOVE,
            )
        case _:
            assert_never(entry)


def _because(reason: str, *, width: int | None) -> Iterator[Text]:
    yield from wrapped(f"      because {safe.prose(reason)}", width=width)


def _purge(action: DeleteRecords, *, width: int | None) -> Iterator[Text]:
    seen = action.seen
    yield from wrapped(
        f"  ! {safe.subject(action.address)}   log start {seen.log_start} -> {action.before_offset}   (end {seen.stable_end})",
        width=width,
        style=LOSS,
    )
    yield from _because(action.reason + ("" if action.drift else " (no drift yet: within driftAfter)"), width=width)
    most = f"at most {phrases.count(action.records_max, 'record')} ({phrases.percent(action.partition_percent)})"
    yield from wrapped(f"      IRREVERSIBLE: {most}", width=width, style=LOSS)
    for group, records in action.skips:
        yield from wrapped(
            f"      {safe.quoted(group)} would skip at most {phrases.count(records, 'record')}", width=width, style=LOSS
        )
    yield from _not_looked_at(action, width=width)


def _purges(entry: Purges, *, width: int | None) -> Iterator[Text]:
    actions, largest = entry.actions, entry.largest
    starts = [action.seen.log_start for action in actions]
    targets = [action.before_offset for action in actions]
    numbers = phrases.span(actions[0].partition.partition, actions[-1].partition.partition)
    yield from wrapped(
        f"  ! {safe.bare(entry.topic)}   {len(actions):,} partitions ({numbers})   log start "
        f"{phrases.span(min(starts), max(starts))} -> {phrases.span(min(targets), max(targets))}",
        width=width,
        style=LOSS,
    )
    share = 100.0 * entry.records_max / entry.held if entry.held else 0.0
    most = f"at most {phrases.count(entry.records_max, 'record')} ({phrases.percent(share)})"
    yield from wrapped(f"      IRREVERSIBLE: {most}", width=width, style=LOSS)
    yield from wrapped(
        f"      most of it on {largest.partition}: {largest.seen.log_start} -> {largest.before_offset}, at most "
        f"{phrases.count(largest.records_max, 'record')}, because {safe.prose(largest.reason)}",
        width=width,
    )
    for group, records, partitions in entry.skips[:10]:
        yield from wrapped(
            f"      {safe.quoted(group)} would skip at most {phrases.count(records, 'record')} on "
            f"{phrases.count(partitions, 'partition')}",
            width=width,
            style=LOSS,
        )
    if len(entry.skips) > 10:
        yield line(
            f"      and {phrases.count(len(entry.skips) - 10, 'more group')} would skip records (--full lists them)",
            LOSS,
        )
    yield from _not_looked_at(entry, width=width)


def _not_looked_at(entry: DeleteRecords | Purges, *, width: int | None) -> Iterator[Text]:
    if told := folds.not_looked_at(entry):
        yield from wrapped(f"      {told}", width=width, style=BAD)


def _election(action: ElectLeader, *, width: int | None) -> Iterator[Text]:
    seen = action.seen
    unclean = action.election is Election.UNCLEAN
    replicas, in_sync = (",".join(map(str, ids)) or "none" for ids in (seen.replicas, seen.in_sync))
    yield from wrapped(
        f"  {'!' if unclean else '~'} {safe.subject(action.address)}   leader {folds.move(action)}   "
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
    for aside in folds.asides((b for b in blocked if not b.unread), full=full):
        yield from _blocked(aside, "Blocked", width=width)
    for aside in folds.asides((b for b in blocked if b.unread), full=full):
        yield from _blocked(aside, "Unread", width=width)
    for aside in folds.asides((d for d in plan.decisions if isinstance(d, Waiting)), full=full):
        yield from _waiting(aside, now_ms=plan.observed_at_ms, width=width)
    if full:
        for aside in folds.asides((d for d in plan.decisions if isinstance(d, Skipped)), full=True):
            yield from wrapped(f"Skipped: {aside.where} — {safe.prose(aside.first.reason)}", width=width, style=QUIET)


def _blocked(aside: Aside, word: str, *, width: int | None) -> Iterator[Text]:
    assert isinstance(aside.first, Blocked)
    blocked = aside.first
    like = f", such as {safe.subject(blocked.address)}" if aside.number > 1 else ""
    told = (
        f"{word}: {aside.where}{like} — {phrases.sentence(safe.prose(blocked.reason))} Next: {safe.prose(blocked.next_step)} "
        f"({safe.bare(blocked.code)})"
    )
    yield from wrapped(told, width=width, style=BAD)


def _waiting(aside: Aside, *, now_ms: int, width: int | None) -> Iterator[Text]:
    until = folds.waits_until(aside, now_ms=now_ms)
    like = f", such as {safe.subject(aside.first.address)}" if aside.number > 1 and until else ""
    when = f" ({until})" if until else ""
    yield from wrapped(
        f"Waiting: {aside.where}{when}{like} — {safe.prose(aside.first.reason)}", width=width, style=QUIET
    )


def _limits(plan: Plan, *, width: int | None) -> Iterator[Text]:
    for verdict in plan.refused:
        yield from wrapped(f"REFUSED: {safe.prose(verdict.message)}", width=width, style=LOSS)
    for waiver in folds.waivers(plan):
        left = phrases.until(waiver.expires_ms, now_ms=plan.observed_at_ms)
        yield from wrapped(
            f"Waiver {safe.bare(waiver.name)}: {safe.bare(waiver.limit)} up to {waiver.value:.15g} for {safe.policy(waiver.policy)}, "
            f"expires {phrases.at(waiver.expires_ms)}, {left} ({safe.place(waiver.declared_at)})",
            width=width,
            style=MOVE,
        )


def _digest(plan: Plan, *, saved_to: str | None, width: int | None) -> Iterator[Text]:
    yield line(f"Digest {digest(plan)}")
    left = phrases.duration(plan.expires_at_ms - plan.observed_at_ms)
    saved = f"   saved to {safe.bare(saved_to)}" if saved_to else ""
    yield from wrapped(f"Expires {phrases.at(plan.expires_at_ms)} ({left} after the scan){saved}", width=width)
