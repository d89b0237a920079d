"""Writes a report as GitHub annotations at the manifests' lines, and its totals as a notice."""

from collections.abc import Mapping

from reconciler.report.tree import Item, Report, Severity
from reconciler.text.escape import command_data, command_property, escape_sentence
from reconciler.text.phrase import join, plain

ANNOTATIONS_MAX = 10
"""GitHub shows no more than ten annotations of one level for a step."""
_LEVELS = (Severity.ERROR, Severity.WARNING)


def describe(item: Item) -> str:
    """Return the message of an annotation."""
    return plain(join(": ", item.subject, item.text))


def write_annotations(report: Report, *, limit: int = ANNOTATIONS_MAX) -> str:
    """Write the items of ERROR and WARNING in such sections, at most `limit` of each, and the totals."""
    rows = []
    items = [item for section in report.sections if section.severity in _LEVELS for item in section.items]
    for severity in _LEVELS:
        of_level = [item for item in items if item.severity is severity]
        for item in of_level[:limit]:
            title = f"{item.label} ({item.code})" if item.code else item.label
            rows.append(_command(severity, describe(item), _position(item) | {"title": title}))
        if len(of_level) > limit:
            note = f"{len(of_level) - limit:,} more like these; the report lists them"
            rows.append(_command(severity, note, {"title": "more"}))
    counts = [
        (f"{item.label}: ", *item.text) for section in report.sections if section.are_totals for item in section.items
    ]
    totals = plain(join(" ", report.summary or join("; ", *counts) or report.headline, *report.footer[:1]))
    return "".join([*rows, _command("notice", totals, {"title": report.title})])


def _position(item: Item) -> dict[str, object]:
    """Return the properties of the item's location. GitHub shows columns within one line only."""
    location, (end_line, end_column) = item.location, item.end
    properties: dict[str, object] = {"file": location.path} if location.path else {}
    if location.line:
        properties |= {"line": location.line, "col": location.column}
        if end_line > location.line:
            properties["endLine"] = end_line
        elif end_column > location.column:
            properties["endColumn"] = end_column - 1
    return properties


def _command(level: str, message: str, properties: Mapping[str, object]) -> str:
    """Return a workflow command. `message`: harmless text; `properties`: any text."""
    words = (f"{name}={command_property(escape_sentence(str(value)))}" for name, value in properties.items())
    return f"::{level} {','.join(words)}::{command_data(message)}\n"
