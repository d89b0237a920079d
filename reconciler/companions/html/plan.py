"""Collects the figures of a plan: topics, leaders, groups, limits, offsets and tables."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler.companions.html.figures import (
    RULERS_MAX,
    WORST,
    Bar,
    Chart,
    Figures,
    Row,
    Ruler,
    Segment,
    Tile,
    TopicRulers,
    cut_chart,
    shorten,
    slug,
)
from reconciler.model.action import Action
from reconciler.model.block_reason import BLOCK_CODES
from reconciler.model.description import IdleGroup, LeaderMove, OffsetMove
from reconciler.model.garbage import gc_paused
from reconciler.model.names import Address, format_address, format_location, format_subject
from reconciler.model.plan import Blocked, Decision, LimitVerdict, Plan, Skipped, section_of
from reconciler.report.tree import NO_PAGES, Severity
from reconciler.text import formatting
from reconciler.text.escape import display_name, quoted
from reconciler.text.phrase import Phrase, escaped_name, join, name, sentence, strong


class _State(NamedTuple):
    """How a page shows a state: its class in the stylesheet, its severity, and words for partitions."""

    style: str
    severity: Severity
    words: str


_STATES = {
    "irreversible": _State("deleted", Severity.LOSS, "losing records"),
    "reversible": _State("changed", Severity.CHANGE, "getting a new leader"),
    "blocked": _State("blocked", Severity.WARNING, "blocked"),
    "waiting": _State("waiting", Severity.QUIET, "waiting or skipped"),
    "in sync": _State("good", Severity.GOOD, "in sync"),
}
"""States of a plan's decisions; a partition counts for the first that it has."""
_RANKS = {state: rank for rank, state in enumerate(_STATES)}
_OF_SECTION = {"skipped": "waiting", "unread": "blocked", "satisfied": "in sync"}
"""List of the plan file → state, where it has another name."""


@dataclass(slots=True)
class _Topic:
    """What a plan decides about one topic. `states`: by partition; -1: the topic as a whole."""

    states: dict[int, str] = field(default_factory=dict)
    moves: list[tuple[Action, OffsetMove]] = field(default_factory=list)

    @property
    def removed(self) -> int:
        return sum(move.removed for _action, move in self.moves)

    @property
    def records(self) -> int:
        return sum(move.records for _action, move in self.moves)

    @property
    def noun(self) -> str:
        return max((move.noun for _action, move in self.moves), key="offset".__eq__)

    @property
    def tally(self) -> Counter[str]:
        """Count its partitions by state, and the records that are removed."""
        return Counter(self.states.values()) + Counter(records=self.removed)

    def add_state(self, partition: int, state: str) -> None:
        before = self.states.get(partition)
        if before is None or _RANKS[state] < _RANKS[before]:
            self.states[partition] = state


@gc_paused()
def plan_figures(plan: Plan, *, pages: Mapping[str, str] = NO_PAGES) -> Figures:
    """Return the pictures of a plan. `pages`: of codes, by their names."""
    topics: defaultdict[str, _Topic] = defaultdict(_Topic)
    by_policy: defaultdict[Address, Counter[str]] = defaultdict(Counter)
    by_cause: defaultdict[tuple[str, str], list[Decision]] = defaultdict(list)
    leaders: list[LeaderMove] = []
    idle: list[IdleGroup] = []
    states: Counter[str] = Counter()
    for decision in plan.decisions:
        state = _state(decision)
        states[state] += 1
        tally = by_policy[decision.address.policy_address]
        tally[state] += 1
        if decision.address.name and not decision.address.is_of_group:
            topics[decision.address.name].add_state(decision.address.partition, state)
        if isinstance(decision, Action):
            match figure := decision.figure():
                case OffsetMove():
                    topics[decision.address.name].moves.append((decision, figure))
                    tally["records"] += figure.removed
                case LeaderMove():
                    leaders.append(figure)
                case IdleGroup():
                    idle.append(figure)
        elif state in ("blocked", "waiting"):
            by_cause[section_of(decision), getattr(decision, "code", "") or decision.reason].append(decision)
    ordered = dict(sorted(topics.items(), key=lambda pair: (-pair[1].removed, -_blocked(pair[1]), pair[0])))
    records = sum(tally["records"] for tally in by_policy.values())
    return Figures(
        tiles=tuple(tile for tile in _plan_tiles(plan, states, records) if tile.number),
        charts=tuple(
            chart
            for chart in (
                _topics_chart(plan, ordered),
                _leaders_chart(leaders),
                _groups_chart(idle, plan.observed_at_ms),
                _limits_chart(plan.limits),
            )
            if chart.rows or chart.footnote
        ),
        topics=tuple(_topic_rulers(topic, entry) for topic, entry in ordered.items() if entry.moves),
        tables=tuple(
            table
            for table in (_policies_table(plan, by_policy), _topics_table(ordered), _causes_table(by_cause, pages))
            if table.rows
        ),
    )


def _state(decision: Decision) -> str:
    if isinstance(decision, Action):
        return "irreversible" if decision.irreversible else "reversible"
    return _of_section(section_of(decision))


def _of_section(section: str) -> str:
    return _OF_SECTION.get(section, section)


def _blocked(topic: _Topic) -> int:
    return sum(state == "blocked" for state in topic.states.values())


def _plan_tiles(plan: Plan, states: Counter[str], records: int) -> Iterator[Tile]:
    if plan.refused:
        ids = formatting.first_few([display_name(verdict.id) for verdict in plan.refused])
        yield Tile(label="limits exceeded", number=len(plan.refused), severity=Severity.ERROR, detail=ids)
    unbounded = sum(action.impact().get("records_removed_max", 0) is None for action in plan.actions)  # type: ignore[attr-defined]
    loss = f"at most {formatting.count(records, 'record')}"
    detail = f"{loss}, and {unbounded:,} without a bound" if unbounded else loss
    yield Tile(label="cannot be undone", number=states["irreversible"], severity=Severity.LOSS, detail=detail)
    yield Tile(label="can be undone", number=states["reversible"], severity=Severity.CHANGE, detail="actions")
    yield Tile(label="blocked", number=states["blocked"], severity=Severity.WARNING, detail="nothing is done")
    yield Tile(
        label="waiting or skipped", number=states["waiting"], severity=Severity.QUIET, detail="nothing to do now"
    )
    yield Tile(label="in sync", number=states["in sync"], severity=Severity.GOOD, detail="as desired")


def _limits_chart(verdicts: Sequence[LimitVerdict]) -> Chart:
    def row(verdict: LimitVerdict) -> Row:
        observed = "not known" if verdict.observed is None else f"{_number(verdict.observed)}{verdict.unit}"
        most = max(verdict.limit, verdict.observed or 0)
        total = 100.0 if verdict.unit else most * 1.25 or 1
        style = "blocked" if verdict.observed is None else "good" if verdict.passed else "exceeded"
        waived = bool(verdict.waivers)
        severity = Severity.CHANGE if waived else Severity.PLAIN if verdict.passed else Severity.ERROR
        text: Phrase = (sentence(verdict.message),) if waived or not verdict.passed else ()
        return Row(
            cells=((name(verdict.id),), (f"{observed} of {_number(verdict.limit)}{verdict.unit}",)),
            bars=(Bar(segments=(Segment(verdict.observed or 0, style),), total=total, mark=verdict.limit),),
            severities=frozenset({severity}),
            anchor=f"limit-{slug(verdict.id)}",
            note=text,
        )

    drawn = [verdict for verdict in verdicts if verdict.observed != 0 or not verdict.passed]
    unused = join(", ", *((name(v.id), f" (limit {_number(v.limit)})") for v in verdicts if v not in drawn))
    return Chart(
        anchor="limits",
        heading="Limits",
        rows=tuple(map(row, drawn)),
        legend=(("good", "used"), ("exceeded", "used, beyond the limit"), ("mark", "limit")),
        footnote=("Nothing counts towards ", *unused, ".") if unused else (),
    )


def _topics_chart(plan: Plan, topics: dict[str, _Topic]) -> Chart:
    limits = {verdict.id: verdict.limit for verdict in plan.limits}

    def row(topic: str, entry: _Topic) -> Row:
        counts = entry.tally
        bars = []
        if entry.moves:
            remaining = Segment(entry.records - entry.removed, "remaining")
            # A limit that counts only a part of what is removed says nothing about the whole.
            bounds = limits.keys() & set.intersection(*(set(move.limits) for _action, move in entry.moves))
            mark = min(limits[bound] for bound in bounds) * entry.records / 100 if bounds else None
            bars.append(Bar(segments=(Segment(entry.removed, "deleted"), remaining), total=entry.records, mark=mark))
        segments = tuple(Segment(counts[name], state.style) for name, state in _STATES.items())
        bars.append(Bar(segments=segments, total=len(entry.states)))
        share = formatting.percent(100.0 * entry.removed / entry.records) if entry.records else ""
        removed = f"{entry.removed:,} of {formatting.count(entry.records, entry.noun)} ({share})" if entry.moves else ""
        return Row(
            cells=((name(topic),), (removed,), (_partition_counts(entry),)),
            bars=tuple(bars),
            severities=_severities(counts),
            link=f"offsets-{slug(topic)}" if entry.moves else f"topic-{slug(topic)}",
        )

    def sums(rest: Sequence[tuple[str, _Topic]]) -> Iterator[tuple[int, str]]:
        total = _total(entry.tally for _topic, entry in rest)
        yield total["records"], "records removed at most"
        yield from ((total[name], f"partitions {state.words}") for name, state in _STATES.items())

    return cut_chart(
        [pair for pair in topics.items() if set(pair[1].states.values()) - {"in sync"}],
        lambda pair: row(*pair),
        "topics",
        sums,
        anchor="topics",
        heading="Topics",
        intro="First bar: records. Second bar: partitions.",
        footnote=(
            "Records are those of the partitions that lose any; the plan does not hold the others. ",
            "The limit counts the whole topic; the share of it is at most what the bar shows.",
        ),
        legend=(
            ("deleted", "removed"),
            ("remaining", "kept"),
            ("changed", "new leader"),
            ("blocked", "blocked"),
            ("waiting", "waiting or skipped"),
            ("good", "in sync"),
            ("mark", "limit"),
        ),
    )


def _partition_counts(entry: _Topic) -> str:
    """`12 partitions: 3 lose records, 9 in sync`."""
    counts = entry.tally
    words = ", ".join(f"{counts[name]:,} {state.words}" for name, state in _STATES.items() if counts[name])
    if set(entry.states) == {-1}:
        return f"the topic as a whole: {words.removeprefix('1 ')}"
    return f"{formatting.count(len(entry.states.keys() - {-1}), 'partition')}: {words}"


def _leaders_chart(moves: Sequence[LeaderMove]) -> Chart:
    before, after = Counter(move.before for move in moves), Counter(move.after for move in moves)
    most = max((*before.values(), *after.values()), default=1)

    def row(label: str, number_before: int, number_after: int) -> Row:
        return Row(
            cells=((label,), (f"{number_before:,} → {number_after:,}",)),
            bars=(
                Bar(segments=(Segment(number_before, "before"),), total=most),
                Bar(segments=(Segment(number_after, "changed"),), total=most),
            ),
            severities=frozenset({Severity.CHANGE}),
        )

    brokers = sorted({*before, *after} - {None}, key=lambda broker: broker or 0)
    numbers = [(f"broker {broker}", before[broker], after[broker]) for broker in brokers]
    numbers += [("no leader", before[None], 0)] if before[None] else []
    numbers += [("any live replica", 0, after[None])] if after[None] else []
    return cut_chart(
        numbers,
        lambda entry: row(*entry),
        "brokers",
        anchor="leaders",
        heading="Leaders per broker",
        intro=f"Of the {formatting.count(len(moves), 'partition')} whose leader is elected; the plan does not hold "
        "the leaders of all others.",
        legend=(("before", "before"), ("changed", "after")),
    )


def _groups_chart(groups: Sequence[IdleGroup], now_ms: int) -> Chart:
    def idle_days(group: IdleGroup) -> float:
        return -1 if group.idle_since_ms is None else max(0, now_ms - group.idle_since_ms) / formatting.DAY_MS

    most = max((1.0, *map(idle_days, groups), *(group.required_ms / formatting.DAY_MS for group in groups)))

    def row(group: IdleGroup) -> Row:
        days = idle_days(group)
        commits = formatting.count(group.commits, "committed offset")
        idle = f"idle for {days:,.1f} days" if days >= 0 else "no evidence of being idle was asked for"
        return Row(
            cells=((escaped_name(quoted(group.group)),), (f"{idle}; {commits}",)),
            bars=(
                Bar(
                    segments=(Segment(max(days, 0), "deleted"),), total=most, mark=group.required_ms / formatting.DAY_MS
                ),
            ),
            severities=frozenset({Severity.LOSS}),
            anchor=f"group-{slug(group.group)}",
        )

    return cut_chart(
        sorted(groups, key=lambda group: (-idle_days(group), group.group)),
        row,
        "groups",
        lambda rest: [(sum(group.commits for group in rest), "committed offsets")],
        anchor="groups",
        heading="Removed groups by days idle",
        legend=(("deleted", "idle"), ("mark", "idleFor of the policy")),
    )


def _topic_rulers(topic: str, entry: _Topic) -> TopicRulers:
    def badness(move: tuple[Action, OffsetMove]) -> tuple[int, int, Address]:
        return -sum(skip[2] for skip in move[1].skips), -move[1].removed, move[0].address

    def ruler(move: tuple[Action, OffsetMove]) -> Ruler:
        address = move[0].address
        return Ruler(
            subject=(escaped_name(format_subject(address)),),
            policy=(escaped_name(format_address(address.policy_address)),),
            reason=(shorten(move[0].reason),),
            move=move[1],
        )

    moves = sorted(entry.moves, key=badness)
    if len(moves) > RULERS_MAX:
        moves = moves[:WORST]
    return TopicRulers(
        anchor=f"offsets-{slug(topic)}",
        subject=(name(topic), ": ", strong(f"{formatting.count(entry.removed, entry.noun)}"), " removed at most"),
        rulers=tuple(map(ruler, moves)),
        amounts=tuple(move.removed for _action, move in entry.moves),
        severities=frozenset({Severity.LOSS}),
    )


def _policies_table(plan: Plan, tallies: dict[Address, Counter[str]]) -> Chart:
    notes = {note.policy: note for note in plan.notes}
    places = {d.address.policy_address: d.declared_at for d in plan.decisions if hasattr(d, "declared_at")}

    def row(policy: Address, tally: Counter[str]) -> Row:
        note = notes.get(policy)
        words = [("owner: ", shorten(note.owner)) if note and note.owner else ()]
        words += [("reason: ", shorten(note.reason)) if note and note.reason else ()]
        words += [("in ", escaped_name(format_location(places[policy]))) if policy in places else ()]
        return Row(
            cells=((escaped_name(format_address(policy)),), *_cells(tally)),
            severities=_severities(tally),
            anchor=f"policy-{slug(str(policy))}",
            note=join("; ", *words),
        )

    return cut_chart(
        sorted(tallies.items(), key=lambda pair: (-pair[1]["records"], pair[0])),
        lambda pair: row(*pair),
        "policies",
        lambda pairs: _sums(tally for _policy, tally in pairs),
        anchor="policies",
        heading="By policy",
        columns=("Policy", *_COLUMNS),
    )


def _topics_table(topics: dict[str, _Topic]) -> Chart:
    def row(topic: str, entry: _Topic) -> Row:
        return Row(
            cells=((name(topic),), *_cells(entry.tally)),
            severities=_severities(entry.tally),
            anchor=f"topic-{slug(topic)}",
            link=f"offsets-{slug(topic)}" if entry.moves else "",
        )

    return cut_chart(
        list(topics.items()),
        lambda pair: row(*pair),
        "topics",
        lambda pairs: _sums(entry.tally for _topic, entry in pairs),
        anchor="by-topic",
        heading="By topic",
        columns=("Topic", *_COLUMNS),
    )


_COLUMNS = tuple(name.capitalize() for name in ("records", *_STATES))


def _severities(counts: Mapping[str, int]) -> frozenset[Severity]:
    return frozenset(state.severity for name, state in _STATES.items() if counts.get(name))


def _cells(tally: Counter[str]) -> Iterator[Phrase]:
    return ((f"{tally[name]:,}" if tally[name] else "",) for name in ("records", *_STATES))


def _total(tallies: Iterable[Counter[str]]) -> Counter[str]:
    return sum(tallies, Counter[str]())


def _sums(tallies: Iterable[Counter[str]]) -> Iterator[tuple[int, str]]:
    total = _total(tallies)
    return ((total[name], name) for name in ("records", *_STATES))


def _causes_table(causes: dict[tuple[str, str], list[Decision]], pages: Mapping[str, str]) -> Chart:
    def row(cause: tuple[str, str], decisions: Sequence[Decision]) -> Row:
        section, code = cause
        known = code in BLOCK_CODES
        text: Phrase = (BLOCK_CODES[code].title,) if known else (shorten(code),)
        subjects = dict.fromkeys(
            format_subject(Address(d.address.kind, d.address.policy, d.address.name)) for d in decisions
        )
        example = decisions[0]
        blocked: Phrase = ("such as: ", shorten(example.reason)) if isinstance(example, Blocked | Skipped) else ()
        if isinstance(example, Blocked):
            blocked = (*blocked, "; next: ", shorten(example.next_step))
        return Row(
            cells=(
                (*((name(code, link=pages.get(code, "")), " ") if known else ()), *text),
                ({"unread": "blocked, unread"}.get(section, section),),
                (f"{len(decisions):,}",),
                (escaped_name(formatting.first_few(list(subjects))),),
            ),
            severities=_severities({_of_section(section): 1}),
            anchor=f"cause-{section}-{slug(code)}",
            note=blocked,
        )

    return cut_chart(
        sorted(causes.items(), key=lambda pair: (_of_section(pair[0][0]) != "blocked", -len(pair[1]), pair[0])),
        lambda pair: row(*pair),
        "causes",
        lambda pairs: [(sum(len(decisions) for _cause, decisions in pairs), "subjects")],
        anchor="causes",
        heading="By cause",
        columns=("Cause", "State", "Subjects", "Names"),
    )


def _number(value: float) -> str:
    return f"{formatting.round_up(value):,.1f}".removesuffix(".0")
