"""Collects the figures of reports of drift: how each policy of a cluster stands."""

from collections.abc import Sequence

from reconciler.companions.html.figures import ROWS_MAX, Bar, Figures, Row, Segment, Tile, cut_chart, slug
from reconciler.model.names import format_address
from reconciler.plan.drift import DriftReport, PolicyTally
from reconciler.report.tree import Severity
from reconciler.text.phrase import escaped_name


def drift_figures(reports: Sequence[DriftReport]) -> list[Figures]:
    """Return the pictures of each cluster's drift. Many clusters share the rows of one page."""
    return [_drift(report, max(3, ROWS_MAX // len(reports))) for report in reports]


def _drift(report: DriftReport, rows_max: int) -> Figures:
    fields = ("drift", "unread", "pending", "waiting", "skipped", "satisfied")
    totals = {state: sum(getattr(tally, state) for tally in report.tallies) for state in fields}
    tiles = (
        Tile(label="drift", number=len(report.subjects), severity=Severity.CHANGE, detail="subjects"),
        Tile(label="could not be read", number=len(report.unread), severity=Severity.WARNING, detail="subjects"),
        Tile(
            label="waiting or skipped",
            number=totals["pending"] + totals["waiting"] + totals["skipped"],
            severity=Severity.QUIET,
            detail="no drift",
        ),
        Tile(label="in sync", number=totals["satisfied"], severity=Severity.GOOD, detail="as desired"),
    )

    def row(tally: PolicyTally) -> Row:
        counts = (
            ("changed", tally.drift, Severity.CHANGE),
            ("blocked", tally.unread, Severity.WARNING),
            ("waiting", tally.pending + tally.waiting + tally.skipped, Severity.QUIET),
            ("good", tally.satisfied, Severity.GOOD),
        )
        text = ", ".join(f"{getattr(tally, state):,} {state}" for state in fields if getattr(tally, state))
        segments = tuple(Segment(number, style) for style, number, _severity in counts)
        return Row(
            cells=((escaped_name(format_address(tally.policy)),), (text or "no subjects",)),
            bars=(Bar(segments=segments, total=sum(number for _style, number, _severity in counts)),),
            severities=frozenset(severity for _style, number, severity in counts if number),
            anchor=f"policy-{slug(str(tally.policy))}",
        )

    chart = cut_chart(
        report.tallies,
        row,
        "policies",
        lambda rest: [(sum(getattr(tally, state) for tally in rest), state) for state in fields],
        rows_max=rows_max,
        anchor="policies",
        heading="By policy",
        legend=(("changed", "drift"), ("blocked", "unread"), ("waiting", "waiting or skipped"), ("good", "in sync")),
    )
    return Figures(tiles=tuple(tile for tile in tiles if tile.number), charts=(chart,) if chart.rows else ())
