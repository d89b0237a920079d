"""Collects the figures of what became of a plan's actions, by policy and by topic or group."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from reconciler.apply.results import ResultRow
from reconciler.companions.html.figures import Bar, Chart, Figures, Row, Tile, cut_chart, drawn, format_tally, slug
from reconciler.model.names import Address, count_by_sort, format_address, format_subject
from reconciler.model.outcome import Status
from reconciler.report.results import severity_of
from reconciler.report.tree import Severity, group_equal
from reconciler.text import formatting
from reconciler.text.phrase import escaped_name

_DONE = (Status.APPLIED, Status.SATISFIED)
_STYLES = {Severity.ERROR: "exceeded", Severity.WARNING: "blocked", Severity.GOOD: "good"}


def results_figures(outcomes: Sequence[ResultRow]) -> Figures:
    """Return the pictures of what became of a plan's actions."""
    charts = (
        _outcomes_chart("policies", "By policy", outcomes, lambda o: o.address.policy_address, format_address),
        _outcomes_chart("topics", "By topic or group", outcomes, _subject_of, format_subject),
    )
    return Figures(tiles=tuple(_results_tiles(outcomes)), charts=drawn(*charts))


def _subject_of(outcome: ResultRow) -> Address:
    """Return the topic, of whatever policies, or the group."""
    address = outcome.address
    return Address(address.kind if address.is_of_group else "", "", address.name)


def _results_tiles(outcomes: Sequence[ResultRow]) -> Iterator[Tile]:
    removed = sum(outcome.removed_max for outcome in outcomes)
    loss = f"at most {formatting.count(removed, 'record')} removed" if removed else ""
    for same in sorted(group_equal(outcomes, lambda outcome: outcome.status), key=lambda same: same[0].status):
        severity = severity_of(same[0].status)
        yield Tile(
            label=_words(same[0]),
            counts=count_by_sort(outcome.address for outcome in same),
            severity=severity,
            detail=loss if severity is Severity.GOOD else "",
        )


def _words(outcome: ResultRow) -> str:
    return outcome.status.replace("_", " ")


def _tally(outcomes: Sequence[ResultRow]) -> Counter[str]:
    return Counter(sorted(map(_words, outcomes)))


def _outcomes_chart(
    anchor: str,
    heading: str,
    outcomes: Sequence[ResultRow],
    key: Callable[[ResultRow], Address],
    label: Callable[[Address], str],
) -> Chart:
    """Draw the policies or topics of which something was not done; the text has the others as totals."""

    def undone(same: Sequence[ResultRow]) -> int:
        return sum(outcome.status not in _DONE for outcome in same)

    groups = list(group_equal(outcomes, key))
    shown = sorted(filter(undone, groups), key=lambda same: (-undone(same), key(same[0])))

    def row(same: Sequence[ResultRow]) -> Row:
        address = key(same[0])
        severities = sorted((severity_of(outcome.status) for outcome in same), key=list(Severity).index)
        removed = sum(outcome.removed_max for outcome in same)
        records = f"; at most {formatting.count(removed, 'record')} removed" if removed else ""
        return Row(
            cells=((escaped_name(label(address)),), (f"{format_tally(_tally(same))}{records}",)),
            bars=(Bar(Counter(_STYLES.get(severity, "waiting") for severity in severities), len(same)),),
            severities=frozenset(severities),
            anchor=f"{anchor}-{slug(address.name or str(address))}",
        )

    return cut_chart(
        shown,
        row,
        anchor,
        lambda rest: _tally([outcome for same in rest for outcome in same]),
        anchor=anchor,
        heading=heading,
        intro=f"Where something was not done: {len(shown):,} of {len(groups):,}.",
        legend=(
            ("exceeded", "failed or not attempted"),
            ("blocked", "not done"),
            ("waiting", "nothing was to do"),
            ("good", "applied"),
        ),
    )
