"""Collects the figures of what became of a plan's actions, by policy and by topic or group."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from reconciler.apply.results import ResultRow
from reconciler.companions.html.figures import Bar, Chart, Figures, Row, Segment, Tile, cut_chart, slug
from reconciler.model.names import Address, count_by_sort, format_address, format_subject
from reconciler.model.outcome import Status
from reconciler.report.results import severity_of
from reconciler.report.tree import Severity
from reconciler.text import formatting
from reconciler.text.phrase import escaped_name

K = TypeVar("K")


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
    loss = f"at most {formatting.count(removed, 'record')} removed" if removed else ""
    for status, same in sorted(_by(outcomes, lambda outcome: outcome.status).items()):
        severity = severity_of(status)
        yield Tile(
            label=_words(status),
            counts=count_by_sort(outcome.address for outcome in same),
            severity=severity,
            detail=loss if severity is Severity.GOOD else "",
        )


def _by(outcomes: Iterable[ResultRow], key: Callable[[ResultRow], K]) -> Mapping[K, list[ResultRow]]:
    groups: defaultdict[K, list[ResultRow]] = defaultdict(list)
    for outcome in outcomes:
        groups[key(outcome)].append(outcome)
    return groups


def _words(status: Status) -> str:
    return status.replace("_", " ")


def _outcomes_chart(
    anchor: str,
    heading: str,
    outcomes: Sequence[ResultRow],
    key: Callable[[ResultRow], Address],
    label: Callable[[Address], str],
) -> Chart:
    """Draw the policies or topics of which something was not done; the text has the others as totals."""
    groups = _by(outcomes, key)
    undone = {
        address: number
        for address, same in groups.items()
        if (number := sum(outcome.status not in _DONE for outcome in same))
    }

    def row(address: Address) -> Row:
        same = groups[address]
        severities = Counter(severity_of(outcome.status) for outcome in same)
        counts = Counter(_words(outcome.status) for outcome in same)
        removed = sum(outcome.removed_max for outcome in same)
        records = f"; at most {formatting.count(removed, 'record')} removed" if removed else ""
        segments = tuple(
            Segment(severities[severity], _RESULT_STYLES.get(severity, "waiting")) for severity in Severity
        )
        return Row(
            cells=((escaped_name(label(address)),), (f"{_counted(counts)}{records}",)),
            bars=(Bar(segments=segments, total=len(same)),),
            severities=frozenset(severities),
            anchor=f"{anchor}-{slug(address.name or str(address))}",
        )

    def sums(rest: Sequence[Address]) -> Iterator[tuple[int, str]]:
        counts = Counter(_words(outcome.status) for address in rest for outcome in groups[address])
        return ((number, words) for words, number in sorted(counts.items()))

    return cut_chart(
        sorted(undone, key=lambda address: (-undone[address], address)),
        row,
        anchor,
        sums,
        anchor=anchor,
        heading=heading,
        intro=f"Where something was not done: {len(undone):,} of {len(groups):,}.",
        legend=(
            ("exceeded", "failed or not attempted"),
            ("blocked", "not done"),
            ("waiting", "nothing was to do"),
            ("good", "applied"),
        ),
    )


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {words}" for words, number in sorted(counts.items()))


_DONE = (Status.APPLIED, Status.SATISFIED)
_RESULT_STYLES = {
    Severity.ERROR: "exceeded",
    Severity.WARNING: "blocked",
    Severity.GOOD: "good",
}
