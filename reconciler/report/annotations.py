"""Writes a report as GitHub workflow commands: annotations at the manifest's line, and the totals as a notice."""

from reconciler.model.names import NOWHERE, SourceLocation
from reconciler.report.tree import Report, Severity
from reconciler.text.escape import command_data, command_property, escape_sentence
from reconciler.text.phrase import join, plain

ANNOTATIONS_MAX = 10
"""GitHub shows no more than ten annotations of one level for a step."""


def annotation(level: str, message: str, *, title: str, location: SourceLocation = NOWHERE) -> str:
    """One workflow command. `level`: error, warning or notice. `message`: harmless text; `title`: any text."""
    properties = f"title={command_property(escape_sentence(title))}"
    if location.path:
        file = command_property(escape_sentence(location.path))
        properties = f"file={file},line={location.line},col={location.column},{properties}"
    return f"::{level} {properties}::{command_data(message)}"


def write_annotations(report: Report) -> str:
    """Items of severity ERROR and WARNING, at most ten of a level, and the others counted; the totals last."""
    rows = []
    for severity in (Severity.ERROR, Severity.WARNING):
        sections = [s for s in report.sections if s.severity in (Severity.ERROR, Severity.WARNING)]
        found = [item for section in sections for item in section.items if item.severity is severity]
        for item in found[:ANNOTATIONS_MAX]:
            title = f"{item.label} ({item.code})" if item.code else item.label
            rows.append(
                annotation(severity, plain(join(": ", item.subject, item.text)), title=title, location=item.location)
            )
        if len(found) > ANNOTATIONS_MAX:
            others = f"{len(found) - ANNOTATIONS_MAX:,} more like these; the report lists them"
            rows.append(annotation(severity, others, title="more"))
    totals = plain(join(" ", report.summary or report.headline, *report.footer[:1]))
    rows.append(annotation("notice", totals, title=report.title))
    return "".join(f"{row}\n" for row in rows)
