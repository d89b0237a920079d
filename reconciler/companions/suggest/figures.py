"""Collects the figure of suggestions: the records that each would free, and all of them together."""

from collections.abc import Sequence

from reconciler.companions.html.figures import Bar, Figures, Row, cut_chart, slug
from reconciler.companions.suggest.findings import Finding, FindingKind, Suggestions
from reconciler.model.names import format_address
from reconciler.report.tree import Severity
from reconciler.text import formatting
from reconciler.text.phrase import escaped_name, name


def suggest_figures(suggestions: Suggestions) -> Figures:
    """Return the picture of what the suggestions free. Each topic is in one of them, so that sums count once."""
    findings = suggestions.of(FindingKind.READ_RECORDS).findings
    drafted = [finding for finding in findings if finding.manifest]

    def row(finding: Finding) -> Row:
        records, total = _records_of([finding])
        return Row(
            cells=(
                (name(finding.subject),),
                (_describe([finding]),),
                ("in ", escaped_name(format_address(finding.manifest))) if finding.manifest else ("in no draft yet",),
            ),
            bars=(Bar({"deleted": records, "remaining": max(0, total - records)}, total),),
            severities=frozenset({Severity.CHANGE}) if finding.manifest else frozenset(),
            anchor=f"records-{slug(finding.subject)}",
        )

    chart = cut_chart(
        sorted(findings, key=lambda finding: (-(finding.records or 0), finding.subject)),
        row,
        "topics",
        lambda rest: {"records": _records_of(rest)[0]},
        anchor="records",
        heading="Records that every group has read",
        legend=(("deleted", "freed"), ("remaining", "kept")),
        footnote=(
            f"Taking all of {formatting.count(len(findings), 'topic')}: {_describe(findings)}. ",
            f"The drafts have {formatting.count(len(drafted), 'topic')}: {_describe(drafted)}.",
        ),
    )
    return Figures(charts=(chart,) if findings else ())


def _records_of(findings: Sequence[Finding]) -> tuple[int, int]:
    """Return the records that findings free at most, and all records of their topics."""
    return sum(finding.records or 0 for finding in findings), sum(finding.topic_records or 0 for finding in findings)


def _describe(findings: Sequence[Finding]) -> str:
    records, total = _records_of(findings)
    part = formatting.percent(min(100.0, 100 * records / total)) if total else "share not known"
    return f"at most {records:,} of {formatting.count(total, 'record')} ({part})"
