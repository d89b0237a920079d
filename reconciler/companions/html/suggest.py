"""Collects the figure of suggestions: the records that each would free, and all of them together."""

from collections.abc import Sequence

from reconciler.companions.html.figures import Bar, Figures, Row, cut_chart, slug
from reconciler.model.description import RecordShare
from reconciler.report.tree import Severity
from reconciler.text import formatting
from reconciler.text.escape import display_name
from reconciler.text.phrase import escaped_name, name


def suggest_figures(shares: Sequence[RecordShare]) -> Figures:
    """Return the picture of what the suggestions free. Each topic is in one of them, so that sums count once."""

    def row(share: RecordShare) -> Row:
        kept = max(0, share.total - share.records)
        return Row(
            cells=(
                (name(share.topic),),
                (_sum_of([share]),),
                ("in ", escaped_name(display_name(share.manifest))) if share.manifest else ("in no draft yet",),
            ),
            bars=(Bar({"deleted": share.records, "remaining": kept}, share.total),),
            severities=frozenset({Severity.CHANGE}) if share.manifest else frozenset(),
            anchor=f"records-{slug(share.topic)}",
        )

    drafted = [share for share in shares if share.manifest]
    chart = cut_chart(
        sorted(shares, key=lambda share: (-share.records, share.topic)),
        row,
        "topics",
        lambda rest: {"records": sum(share.records for share in rest)},
        anchor="records",
        heading="Records that every group has read",
        legend=(("deleted", "freed"), ("remaining", "kept")),
        footnote=(
            f"Taking all of {formatting.count(len(shares), 'topic')}: {_sum_of(shares)}. ",
            f"The drafts have {formatting.count(len(drafted), 'topic')}: {_sum_of(drafted)}.",
        ),
    )
    return Figures(charts=(chart,) if shares else ())


def _sum_of(shares: Sequence[RecordShare]) -> str:
    records, total = sum(share.records for share in shares), sum(share.total for share in shares)
    part = formatting.percent(min(100.0, 100 * records / total)) if total else "share not known"
    return f"at most {records:,} of {formatting.count(total, 'record')} ({part})"
