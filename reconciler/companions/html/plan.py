"""Collects the figures of a plan: topics, leaders, groups, limits, offsets and tables."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from reconciler.companions.html import figures
from reconciler.companions.html.figures import Bar, Chart, Figures, Move, Row, Tile
from reconciler.companions.html.offsets import noun_of, topic_rulers
from reconciler.model.action import Action
from reconciler.model.block_reason import BLOCK_CODES
from reconciler.model.description import IdleGroup, LeaderMove, OffsetMove
from reconciler.model.garbage import gc_paused
from reconciler.model.names import Address, format_address, format_location, format_subject
from reconciler.model.plan import Blocked, Decision, LimitVerdict, Plan, Skipped, section_of
from reconciler.report.plan import count_subjects_of
from reconciler.report.tree import NO_PAGES, Severity
from reconciler.text import formatting
from reconciler.text.escape import display_name, quoted
from reconciler.text.phrase import Phrase, escaped_name, join, name, sentence

_LIMIT_SCALE = 125
"""Percent of a limit that a full bar is, so that the line at the limit has the same place in all bars."""


_STATES = {
    "blocked": "blocked",
    "irreversible": "deleted",
    "reversible": "changed",
    "waiting": "waiting",
    "skipped": "waiting",
    "in sync": "good",
}
"""States of a plan's decisions, the most urgent first, and their classes in the stylesheet.

A bar has a partition in the first of its states.
"""
_BITS = {state: 1 << rank for rank, state in enumerate(_STATES)}
_OF_SECTION = {"unread": "blocked", "satisfied": "in sync"}
"""List of the plan file → state, where it has another name."""


@dataclass
class _Topic:
    """What a plan decides about one topic. Its sums are taken once it is complete.

    `states`: of each partition, as bits, because there may be a million; -1: the topic as a whole.
    """

    states: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    moves: list[Move] = field(default_factory=list)

    @cached_property
    def removed(self) -> int:
        return sum(move.removed for _action, move in self.moves)

    @property
    def records(self) -> int:
        return sum(move.records for _action, move in self.moves)

    @cached_property
    def tally(self) -> Counter[str]:
        """Count its partitions in each of their states, and the records that are removed.

        A partition is in sync only if it has no other state.
        """
        return Counter(records=self.removed) + _count(self.states.values())

    @property
    def urgent_tally(self) -> Counter[str]:
        """Count each of its partitions once, in the most urgent of its states and those of the topic as a whole."""
        whole = self.states.get(-1, 0)
        partitions = Counter(bits | whole for number, bits in self.states.items() if number != -1) or {whole: 1}
        return sum((Counter({_states(bits)[0]: number}) for bits, number in partitions.items()), Counter())


def _count(states: Iterable[int]) -> Counter[str]:
    return sum((Counter(dict.fromkeys(_states(bits), n)) for bits, n in Counter(states).items()), Counter())


def _states(bits: int) -> list[str]:
    states = [state for state in _STATES if bits & _BITS[state]]
    return states if len(states) == 1 else [state for state in states if state != "in sync"]


@gc_paused()
def plan_figures(plan: Plan, *, pages: Mapping[str, str] = NO_PAGES) -> Figures:
    """Return the pictures of a plan. `pages`: of codes, by their names."""
    topics: defaultdict[str, _Topic] = defaultdict(_Topic)
    by_policy: defaultdict[Address, Counter[str]] = defaultdict(Counter)
    by_cause: defaultdict[tuple[str, str], list[Decision]] = defaultdict(list)
    leaders: list[LeaderMove] = []
    idle: list[IdleGroup] = []
    for decision in plan.decisions:
        state = _state(decision)
        tally = by_policy[decision.address.policy_address]
        tally[state] += 1
        if decision.address.name and not decision.address.is_of_group:
            topics[decision.address.name].states[decision.address.partition] |= _BITS[state]
        if isinstance(decision, Action):
            match figure := decision.figure():
                case OffsetMove():
                    topics[decision.address.name].moves.append((decision, figure))
                    tally["records"] += figure.removed
                case LeaderMove():
                    leaders.append(figure)
                case IdleGroup():
                    idle.append(figure)
        elif state in ("blocked", "waiting", "skipped"):
            by_cause[section_of(decision), getattr(decision, "code", "") or decision.reason].append(decision)
    ordered = sorted(topics.items(), key=lambda pair: (-pair[1].removed, -pair[1].tally["blocked"], pair[0]))
    ids = formatting.first_few([display_name(verdict.id) for verdict in plan.refused])
    refused = Tile(label="exceeded", counts={"limit": len(plan.refused)}, severity=Severity.ERROR, detail=ids)
    return Figures(
        tiles=(refused,) if plan.refused else (),
        charts=figures.drawn(
            _topics_chart(plan.limits, ordered),
            _leaders_chart(leaders),
            _groups_chart(idle, plan.observed_at_ms),
            _limits_chart(plan.limits),
            _policies_table(plan, by_policy),
            _causes_table(by_cause, pages),
        ),
        topics=tuple(topic_rulers(topic, entry.moves) for topic, entry in ordered if entry.moves),
    )


def _state(decision: Decision) -> str:
    if isinstance(decision, Action):
        return "irreversible" if decision.irreversible else "reversible"
    section = section_of(decision)
    return _OF_SECTION.get(section, section)


def _limits_chart(verdicts: Sequence[LimitVerdict]) -> Chart:
    def row(verdict: LimitVerdict) -> Row:
        of = f"{formatting.use_of_limit(verdict.observed, verdict.limit)}{verdict.unit}"
        used = verdict.observed or 0
        share = 100 * used / verdict.limit if verdict.limit else float(used > 0) * _LIMIT_SCALE
        style = "good" if verdict.passed else "exceeded"
        of_limit = f"{formatting.percent(share)} of the limit" if verdict.limit and verdict.observed is not None else ""
        waived = bool(verdict.waivers)
        severity = Severity.CHANGE if waived else Severity.PLAIN if verdict.passed else Severity.ERROR
        text: Phrase = (sentence(verdict.message),) if waived or not verdict.passed else ()
        return Row(
            cells=((name(verdict.id),), (of,), (of_limit,)),
            bars=(Bar({style: share}, _LIMIT_SCALE, mark=100),),
            severities=frozenset({severity}),
            anchor=f"limit-{figures.slug(verdict.id)}",
            note=text,
        )

    drawn = [verdict for verdict in verdicts if verdict.observed != 0 or not verdict.passed]
    unused = join(", ", *((name(v.id), f" (limit {v.limit:,.15g})") for v in verdicts if v not in drawn))
    return Chart(
        anchor="limits",
        heading="Limits",
        rows=tuple(map(row, drawn)),
        legend=(("good", "used"), ("exceeded", "used, beyond the limit"), ("mark", "limit")),
        footnote=("Nothing counts towards ", *unused, ".") if unused else (),
    )


def _topics_chart(verdicts: Sequence[LimitVerdict], topics: Sequence[tuple[str, _Topic]]) -> Chart:
    limits = {verdict.id: verdict.limit for verdict in verdicts}

    def row(pair: tuple[str, _Topic]) -> Row:
        topic, entry = pair
        bars = []
        if entry.moves:
            # A limit that counts only a part of what is removed says nothing about the whole.
            bounds = limits.keys() & set.intersection(*(set(move.limits) for _action, move in entry.moves))
            mark = min(limits[bound] for bound in bounds) * entry.records / 100 if bounds else None
            segments = {"deleted": entry.removed, "remaining": entry.records - entry.removed}
            bars.append(Bar(segments, entry.records, mark=mark))
        urgent = entry.urgent_tally
        styles = dict.fromkeys(_STATES.values(), 0)
        for state, number in urgent.items():
            styles[_STATES[state]] += number
        bars.append(Bar(styles, urgent.total()))
        share = formatting.percent(100.0 * entry.removed / entry.records) if entry.records else ""
        removed = (
            f"{entry.removed:,} of {formatting.count(entry.records, noun_of(entry.moves))} ({share})"
            if entry.moves
            else ""
        )
        return Row(
            cells=((name(topic),), (removed,), (_partition_counts(entry.states),)),
            bars=tuple(bars),
            severities=_severities(entry.tally),
            anchor=f"topic-{figures.slug(topic)}",
            link=f"offsets-{figures.slug(topic)}" if entry.moves else "",
        )

    def sums(rest: Sequence[tuple[str, _Topic]]) -> Mapping[str, int]:
        total = _total(entry.tally for _topic, entry in rest)
        return {"records removed at most": total["records"]} | {f"partitions {of}": total[of] for of in _STATES}

    shown = [(topic, entry) for topic, entry in topics if entry.tally.keys() - {"records", "in sync"}]
    in_sync = len(topics) - len(shown)
    return figures.cut_chart(
        shown,
        row,
        "topics",
        sums,
        anchor="topics",
        heading="Topics",
        intro="First bar: records. Second bar: partitions.",
        footnote=(
            "Records are those of the partitions that lose any; the plan does not hold the others. ",
            "The limit counts the whole topic; the share of it is at most what the bar shows. ",
            f"All else is in sync: {formatting.count(in_sync, 'topic')}." if in_sync else "",
        )
        if shown
        else (),
        legend=(
            ("deleted", "removed, irreversible"),
            ("remaining", "kept"),
            ("changed", "reversible"),
            ("blocked", "blocked"),
            ("waiting", "waiting or skipped"),
            ("good", "in sync"),
            ("mark", "limit"),
        ),
    )


def _partition_counts(states: Mapping[int, int]) -> str:
    """`the topic as a whole: blocked; 12 partitions: 3 irreversible, 9 in sync`."""
    tally = _count(bits for number, bits in states.items() if number != -1)
    partitions = formatting.count(len(states.keys() - {-1}), "partition")
    words = [f"the topic as a whole: {', '.join(_states(states[-1]))}"] if -1 in states else []
    words += [f"{partitions}: {figures.format_tally({state: tally[state] for state in _STATES})}"] if tally else []
    return "; ".join(words)


def _leaders_chart(moves: Sequence[LeaderMove]) -> Chart:
    """Draw which broker hands over to which: a plan does not hold the leaders of all other partitions."""
    pairs = Counter((move.before, move.after) for move in moves)

    def row(pair: tuple[tuple[int | None, int | None], int]) -> Row:
        (before, after), number = pair
        source = "no leader" if before is None else f"broker {before}"
        target = "any live replica" if after is None else f"broker {after}"
        return Row(
            cells=((f"{source} -> {target}",), (formatting.count(number, "partition"),)),
            bars=(Bar({"changed": number}, len(moves)),),
            severities=frozenset({Severity.CHANGE}),
        )

    return figures.cut_chart(
        sorted(pairs.items(), key=lambda pair: (-pair[1], *(-1 if broker is None else broker for broker in pair[0]))),
        row,
        "pairs of brokers",
        lambda rest: {"partitions": sum(number for _pair, number in rest)},
        anchor="leaders",
        heading="Leaders that move",
        intro=f"Of {formatting.count(len(moves), 'partition')} whose leader is elected.",
    )


def _groups_chart(groups: Sequence[IdleGroup], now_ms: int) -> Chart:
    def idle_ms(group: IdleGroup) -> int:
        return -1 if group.idle_since_ms is None else max(0, now_ms - group.idle_since_ms)

    most = max((1, *map(idle_ms, groups), *(group.required_ms for group in groups)))

    def row(group: IdleGroup) -> Row:
        ms = idle_ms(group)
        commits = formatting.count(group.commits, "committed offset")
        idle = (
            f"idle for {formatting.approximate_duration(ms)}" if ms >= 0 else "no evidence of being idle was asked for"
        )
        return Row(
            cells=((escaped_name(quoted(group.group)),), (f"{idle}; {commits}",)),
            bars=(Bar({"deleted": max(ms, 0)}, most, mark=group.required_ms),),
            severities=frozenset({Severity.LOSS}),
            anchor=f"group-{figures.slug(group.group)}",
        )

    return figures.cut_chart(
        sorted(groups, key=lambda group: (-idle_ms(group), group.group)),
        row,
        "groups",
        lambda rest: {"committed offsets": sum(group.commits for group in rest)},
        anchor="groups",
        heading="Removed groups, the longest idle first",
        legend=(("deleted", "idle"), ("mark", "idleFor of the policy")),
    )


def _policies_table(plan: Plan, tallies: dict[Address, Counter[str]]) -> Chart:
    notes = {note.policy: note for note in plan.notes}
    places = {d.address.policy_address: d.declared_at for d in plan.decisions if hasattr(d, "declared_at")}
    columns = ("records", *_STATES)

    def row(pair: tuple[Address, Counter[str]]) -> Row:
        policy, tally = pair
        note = notes.get(policy)
        words = [("owner: ", figures.shorten(note.owner)) if note and note.owner else ()]
        words += [("reason: ", figures.shorten(note.reason)) if note and note.reason else ()]
        words += [("in ", escaped_name(format_location(places[policy]))) if policy in places else ()]
        cells = ((f"{tally[column]:,}" if tally[column] else "",) for column in columns)
        return Row(
            cells=((escaped_name(format_address(policy)),), *cells),
            severities=_severities(tally),
            anchor=f"policy-{figures.slug(str(policy))}",
            note=join("; ", *words),
        )

    def sums(rest: Sequence[tuple[Address, Counter[str]]]) -> Mapping[str, int]:
        total = _total(tally for _policy, tally in rest)
        return {column: total[column] for column in columns}

    return figures.cut_chart(
        sorted(tallies.items(), key=lambda pair: (-pair[1]["records"], -pair[1]["blocked"], pair[0])),
        row,
        "policies",
        sums,
        anchor="policies",
        heading="By policy",
        columns=("Policy", *map(str.capitalize, columns)),
    )


def _severities(counts: Mapping[str, int]) -> frozenset[Severity]:
    return frozenset(figures.SEVERITIES[style] for state, style in _STATES.items() if counts.get(state))


def _total(tallies: Iterable[Counter[str]]) -> Counter[str]:
    return sum(tallies, Counter[str]())


def _causes_table(causes: dict[tuple[str, str], list[Decision]], pages: Mapping[str, str]) -> Chart:
    def row(pair: tuple[tuple[str, str], Sequence[Decision]]) -> Row:
        (section, code), decisions = pair
        known = code in BLOCK_CODES
        text: Phrase = (BLOCK_CODES[code].title,) if known else (figures.shorten(code),)
        subjects = dict.fromkeys(
            format_subject(Address(d.address.kind, d.address.policy, d.address.name)) for d in decisions
        )
        example = decisions[0]
        note: Phrase = ("such as: ", figures.shorten(example.reason)) if isinstance(example, Blocked | Skipped) else ()
        if isinstance(example, Blocked):
            note = (*note, "; next: ", figures.shorten(example.next_step))
        return Row(
            cells=(
                (*((name(code, link=pages.get(code, "")), " ") if known else ()), *text),
                ({"unread": "blocked, unread"}.get(section, section),),
                (count_subjects_of(decisions),),
                (escaped_name(formatting.first_few(list(subjects))),),
            ),
            severities=_severities({_state(example): 1}),
            anchor=f"cause-{section}-{figures.slug(code)}",
            note=note,
        )

    return figures.cut_chart(
        sorted(causes.items(), key=lambda pair: (not isinstance(pair[1][0], Blocked), -len(pair[1]), pair[0])),
        row,
        "causes",
        lambda pairs: {"decisions": sum(len(decisions) for _cause, decisions in pairs)},
        anchor="causes",
        heading="By cause",
        columns=("Cause", "State", "Number", "Names"),
    )
