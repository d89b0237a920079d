"""Writes a report as GitHub annotations at the manifests' lines, and its totals as a notice."""

from reconciler.model.names import NOWHERE, SourceLocation
from reconciler.report.tree import Report, Severity
from reconciler.text.escape import command_data, command_property, escape_sentence
from reconciler.text.phrase import join, plain

ANNOTATIONS_MAX = 10
"""GitHub shows no more than ten annotations of one level for a step."""


def write_annotations(report: Report) -> str:
    """Write the items of ERROR and WARNING, at most ten of a level, the number of others, and the totals."""
    levels = (Severity.ERROR, Severity.WARNING)
    items = [item for section in report.sections if section.severity in levels for item in section.items]
    rows = []
    for severity in levels:
        shown = [item for item in items if item.severity is severity]
        for item in shown[:ANNOTATIONS_MAX]:
            title = f"{item.label} ({item.code})" if item.code else item.label
            rows.append(_annotation(severity, plain(join(": ", item.subject, item.text)), title, item.location))
        if len(shown) > ANNOTATIONS_MAX:
            others = f"{len(shown) - ANNOTATIONS_MAX:,} more like these; the report lists them"
            rows.append(_annotation(severity, others, "more"))
    totals = plain(join(" ", report.summary or report.headline, *report.footer[:1]))
    return "".join([*rows, _annotation("notice", totals, report.title)])


def _annotation(level: str, message: str, title: str, location: SourceLocation = NOWHERE) -> str:
    """One workflow command. `message`: harmless text; `title`: any text."""
    properties = f"title={command_property(escape_sentence(title))}"
    if location.path:
        file = command_property(escape_sentence(location.path))
        properties = f"file={file},line={location.line},col={location.column},{properties}"
    return f"::{level} {properties}::{command_data(message)}\n"
