"""What one plan says, folded for people: more than 20 partitions of one topic become one entry. Shared by text and Markdown.

Nothing is decided or computed here that apply would read; sums and extremes are over the same actions that apply walks.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from reconciler.model.action import Action
from reconciler.model.election import Election
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Decision, Plan, PolicyInfo, Skipped, UsedWaiver, Waiting
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan.plan_file import Summary
from reconciler.report import escape
from reconciler.text import formatting

FOLD_ABOVE = 20
"""Partitions of one topic that are still listed one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedDeletions:
    """More than FOLD_ABOVE purges of one topic by one policy."""

    topic: str
    actions: tuple[DeleteRecords, ...]

    @property
    def records_max(self) -> int:
        return sum(action.records_max for action in self.actions)

    @property
    def held(self) -> int:
        """Records of these partitions at the time of the scan, at most."""
        return sum(action.seen.high_watermark - action.seen.log_start for action in self.actions)

    @property
    def largest(self) -> DeleteRecords:
        return max(self.actions, key=lambda action: action.records_max)

    @property
    def skips(self) -> list[tuple[str, int, int]]:
        """(group, records it would skip at most, on how many partitions), the worst first."""
        records: Counter[str] = Counter()
        partitions: Counter[str] = Counter()
        for action in self.actions:
            for group, skipped in action.skips:
                records[group] += skipped
                partitions[group] += 1
        return sorted(((group, records[group], partitions[group]) for group in records), key=lambda s: (-s[1], s[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedElections:
    """More than FOLD_ABOVE elections of one topic by one policy."""

    topic: str
    actions: tuple[ElectLeader, ...]

    @property
    def moves(self) -> list[tuple[str, int]]:
        """(`2 -> 1`, how many), the most frequent first."""
        found = Counter(move(action) for action in self.actions)
        return sorted(found.items(), key=lambda item: (-item[1], item[0]))


DisplayItem = Action | GroupedDeletions | GroupedElections

MOVES_MAX = 4
"""Sorts of moves that a line tells; the rest is counted."""


def more_moves(entry: GroupedElections) -> str:
    """` and 1 more way (5)`: the moves that are not told, and of how many partitions; empty where all are."""
    rest = entry.moves[MOVES_MAX:]
    return f" and {formatting.count(len(rest), 'more way')} ({sum(number for _, number in rest):,})" if rest else ""


def excluded_groups(entry: DeleteRecords | GroupedDeletions) -> str:
    """`not looked at (exceptGroups): "audit"; what they would skip is not known`; empty where nobody is excepted."""
    action, told = (entry.actions[0], entry.skips) if isinstance(entry, GroupedDeletions) else (entry, entry.skips)
    if not action.guard.except_groups:
        return ""
    names = formatting.first_few([escape.quoted(group) for group in action.guard.except_groups])
    return f"not looked at (exceptGroups): {names}; what {'more ' if told else ''}they would skip is not known"


def move(action: ElectLeader) -> str:
    """`2 -> 1`, `none -> any live replica`."""
    before = "none" if action.seen.leader is None else str(action.seen.leader)
    after = "any live replica" if action.leader_wanted is None else str(action.leader_wanted)
    return f"{before} -> {after}"


def policies(actions: Iterable[Action], *, full: bool) -> Iterator[tuple[Address, Iterator[DisplayItem]]]:
    """The actions by policy, folded by topic. Actions come in address order, so one topic is in memory at a time."""
    for policy, of_policy in groupby(actions, key=lambda action: action.address.policy_address):
        yield policy, _entries(of_policy, full=full)


def _entries(actions: Iterator[Action], *, full: bool) -> Iterator[DisplayItem]:
    for (_name, operation), of_topic in groupby(actions, key=lambda action: (action.address.name, type(action))):
        if full or operation is DeleteGroup:
            yield from of_topic
            continue
        listed = tuple(of_topic)
        if len(listed) <= FOLD_ABOVE:
            yield from listed
        elif operation is DeleteRecords:
            purges = tuple(action for action in listed if isinstance(action, DeleteRecords))
            yield GroupedDeletions(topic=purges[0].partition.topic, actions=purges)
        else:
            elections = tuple(action for action in listed if isinstance(action, ElectLeader))
            unclean = [action for action in elections if action.election is Election.UNCLEAN]
            if unclean:
                yield from elections  # each one loses data: none is hidden in a sum
            else:
                yield GroupedElections(topic=elections[0].partition.topic, actions=elections)


def declared_at(entry: DisplayItem) -> SourceLocation:
    """Where the policy of an entry, or of the first folded action, was declared."""
    return entry.actions[0].declared_at if isinstance(entry, GroupedDeletions | GroupedElections) else entry.declared_at


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedNotice:
    """Decisions of one sort that have the same to say: one, or many folded. `where`: `orders[5]`, `64 partitions of orders`."""

    where: str
    first: Waiting | Blocked | Skipped
    number: int
    last_ms: int | None = None
    """The latest instant that any of them waits for."""


def group_notices(decisions: Iterable[Waiting | Blocked | Skipped], *, full: bool) -> Iterator[GroupedNotice]:
    """Decisions of one sort in address order, folded where one policy says the same of several subjects.

    Blocked subjects are folded only above FOLD_ABOVE partitions of one topic and one code, since each one wants an answer; those that wait for
    a clock are one entry per policy.
    """
    for policy, of_policy in groupby(decisions, key=lambda decision: decision.address.policy_address):
        listed = list(of_policy)
        if full:
            yield from (_single(decision) for decision in listed)
        elif isinstance(listed[0], Blocked):
            for name, of_topic in groupby(listed, key=lambda decision: decision.address.name):
                coded: dict[str, list[Waiting | Blocked | Skipped]] = {}
                for decision in of_topic:
                    coded.setdefault(decision.code if isinstance(decision, Blocked) else "", []).append(decision)
                for same in coded.values():
                    if len(same) <= FOLD_ABOVE:
                        yield from (_single(decision) for decision in same)
                    else:
                        yield _folded(same, _many(same, escape.subject(Address(policy.kind, policy.policy, name))))
        else:
            alike: dict[str, list[Waiting | Blocked | Skipped]] = {}
            for decision in listed:
                clocked = isinstance(decision, Waiting) and decision.until_ms is not None
                alike.setdefault("" if clocked else decision.reason, []).append(decision)
            for same in alike.values():
                names = list(dict.fromkeys(escape.subject(_whole(decision.address)) for decision in same))
                yield _single(same[0]) if len(same) == 1 else _folded(same, _many(same, formatting.first_few(names)))


def _whole(address: Address) -> Address:
    return Address(address.kind, address.policy, address.name)


def _many(same: list[Waiting | Blocked | Skipped], of: str) -> str:
    partitions = sum(1 for decision in same if decision.address.partition >= 0)
    return f"{formatting.count(partitions, 'partition')} of {of}" if partitions == len(same) else of


def _single(decision: Waiting | Blocked | Skipped) -> GroupedNotice:
    last_ms = decision.until_ms if isinstance(decision, Waiting) else None
    return GroupedNotice(where=escape.subject(decision.address), first=decision, number=1, last_ms=last_ms)


def _folded(same: list[Waiting | Blocked | Skipped], where: str) -> GroupedNotice:
    """Of those that wait for a clock the first to go stands for all."""
    clocked = [d for d in same if isinstance(d, Waiting) and d.until_ms is not None]
    clocked.sort(key=lambda decision: decision.until_ms or 0)
    last_ms = clocked[-1].until_ms if clocked else None
    return GroupedNotice(where=where, first=clocked[0] if clocked else same[0], number=len(same), last_ms=last_ms)


def wait_range(aside: GroupedNotice, *, now_ms: int) -> str:
    """`in 12 s`, `in 12 s to 30 s`; empty where nothing but a replica is waited for."""
    first = aside.first.until_ms if isinstance(aside.first, Waiting) else None
    if first is None or aside.last_ms is None:
        return ""
    soonest, latest = formatting.until(first, now_ms=now_ms), formatting.until(aside.last_ms, now_ms=now_ms)
    return soonest if soonest == latest else f"{soonest} to {latest.removeprefix('in ')}"


def waivers(plan: Plan) -> list[UsedWaiver]:
    """The waivers that any verdict rests on, each once."""
    return list(dict.fromkeys(waiver for verdict in plan.limits for waiver in verdict.waivers))


def note_of(plan: Plan) -> dict[Address, PolicyInfo]:
    """Owner and reason by policy."""
    return {note.policy: note for note in plan.notes}


def summary(decisions: Iterable[Decision]) -> Summary:
    """The plan's counts; the same as in its file."""
    made = Summary()
    for decision in decisions:
        made.add(decision)
    return made


def totals(found: Summary) -> str:
    """`1 record deletion (at most 97,213 records), 1 group removal; 1 blocked; 14 in sync.`"""
    acting = []
    if found.delete_records:
        most = f"at most {formatting.count(found.records_removed_max, 'record')}"
        acting.append(f"{formatting.count(found.delete_records, 'record deletion')} ({most})")
    if found.delete_group:
        acting.append(formatting.count(found.delete_group, "group removal"))
    if found.elect_leader:
        unclean = f" ({found.unbounded:,} unclean, loss unbounded)" if found.unbounded else ""
        acting.append(formatting.count(found.elect_leader, "election") + unclean)
    aside = [
        f"{number:,} {name}"
        for number, name in (
            (found.blocked + found.unread, "blocked" + (f" ({found.unread:,} unread)" if found.unread else "")),
            (found.waiting, "waiting"),
            (found.skipped, "skipped"),
            (found.satisfied, "in sync"),
        )
        if number
    ]
    return "; ".join(([", ".join(acting)] if acting else ["no changes"]) + aside) + "."
