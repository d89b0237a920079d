"""Collects the figures of what became of a plan's actions, by policy and by topic or group."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from reconciler.apply.results import ResultRow
from reconciler.companions.html.figures import Bar, Chart, Figures, Row, Segment, Tile, cut_chart, slug
from reconciler.model.names import Address, format_address, format_subject
from reconciler.report.results import severity_of
from reconciler.report.tree import Severity
from reconciler.text import formatting
from reconciler.text.phrase import escaped_name


def results_figures(outcomes: Sequence[ResultRow]) -> Figures:
    """Return the pictures of what became of a plan's actions."""
    return Figures(
        tiles=tuple(_results_tiles(outcomes)),
        charts=tuple(
            chart
            for chart in (
                _outcomes_chart("policies", "By policy", outcomes, lambda o: o.address.policy_address, format_address),
                _outcomes_chart("topics", "By topic or group", outcomes, _subject_of, format_subject),
            )
            if chart.rows
        ),
    )


def _subject_of(outcome: ResultRow) -> Address:
    """Return the topic, of whatever policies, or the group."""
    address = outcome.address
    return Address(address.kind if address.is_of_group else "", "", address.name)


def _results_tiles(outcomes: Sequence[ResultRow]) -> Iterator[Tile]:
    removed = sum(outcome.removed_max for outcome in outcomes)
    for severity in Severity:
        same = Counter(outcome.status for outcome in outcomes if severity_of(outcome.status) is severity)
        for status, number in sorted(same.items()):
            detail = (
                f"at most {formatting.count(removed, 'record')} removed"
                if severity is Severity.GOOD and removed
                else ""
            )
            yield Tile(label=status.replace("_", " "), number=number, severity=severity, detail=detail)


def _outcomes_chart(
    anchor: str,
    heading: str,
    outcomes: Sequence[ResultRow],
    key: Callable[[ResultRow], Address],
    label: Callable[[Address], str],
) -> Chart:
    groups: defaultdict[Address, list[ResultRow]] = defaultdict(list)
    for outcome in outcomes:
        groups[key(outcome)].append(outcome)

    def undone(pair: tuple[Address, list[ResultRow]]) -> tuple[int, Address]:
        return -sum(severity_of(outcome.status) is not Severity.GOOD for outcome in pair[1]), pair[0]

    def row(pair: tuple[Address, list[ResultRow]]) -> Row:
        address, same = pair
        severities = Counter(severity_of(outcome.status) for outcome in same)
        statuses = Counter(outcome.status for outcome in same)
        removed = sum(outcome.removed_max for outcome in same)
        text = ", ".join(f"{number:,} {status.replace('_', ' ')}" for status, number in sorted(statuses.items()))
        records = f"; at most {formatting.count(removed, 'record')} removed" if removed else ""
        segments = tuple(
            Segment(severities[severity], _RESULT_STYLES.get(severity, "waiting")) for severity in Severity
        )
        return Row(
            cells=((escaped_name(label(address)),), (f"{text}{records}",)),
            bars=(Bar(segments=segments, total=len(same)),),
            severities=frozenset(severities),
            anchor=f"{anchor}-{slug(address.name or str(address))}",
        )

    def sums(rest: Sequence[tuple[Address, list[ResultRow]]]) -> Iterator[tuple[int, str]]:
        counts = Counter(outcome.status for _address, same in rest for outcome in same)
        return ((number, status.replace("_", " ")) for status, number in sorted(counts.items()))

    return cut_chart(
        sorted(groups.items(), key=undone),
        row,
        anchor,
        sums,
        anchor=anchor,
        heading=heading,
        legend=(("exceeded", "failed"), ("blocked", "not done"), ("waiting", "nothing was to do"), ("good", "applied")),
    )


_RESULT_STYLES = {
    Severity.ERROR: "exceeded",
    Severity.WARNING: "blocked",
    Severity.CHANGE: "changed",
    Severity.GOOD: "good",
}
