"""Writes a report as GitHub annotations at the manifests' lines, and its totals as a notice."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from reconciler.report.tree import Item, Report, Section, Severity
from reconciler.text.escape import command_data, command_property, escape_sentence
from reconciler.text.phrase import join, plain

ANNOTATIONS_MAX = 10
"""GitHub shows no more than ten annotations of one level for a step."""
_LEVELS = (Severity.ERROR, Severity.WARNING)
_CHANGES = (Severity.LOSS, Severity.CHANGE)
_ITEMS_MAX = 3
"""Items of one policy that its annotation quotes."""


def describe(item: Item) -> str:
    """Return the message of an annotation."""
    return plain(join(": ", item.subject, item.text))


def write_annotations(report: Report, *, limit: int = ANNOTATIONS_MAX) -> str:
    """Write what a report says at the lines of the manifests: at most `limit` commands of each level.

    The items of ERROR and WARNING in such sections are errors and warnings. The changes of one
    policy are one notice at its manifest, and the totals are another. What is left out is counted.
    """
    rows = []
    items = [item for section in report.sections if section.severity in _LEVELS for item in section.items]
    for severity in _LEVELS:
        of_level = [item for item in items if item.severity is severity]
        shown = of_level if len(of_level) <= limit else of_level[: limit - 1]
        for item in shown:
            title = f"{item.label} ({item.code})" if item.code else item.label
            rows.append(_command(severity, describe(item), _position(item) | {"title": title}))
        if len(of_level) > len(shown):
            note = f"{len(of_level) - len(shown):,} more like these; the report lists them"
            rows.append(_command(severity, note, {"title": "more"}))
    rows += _changes(report.sections, limit - 1)
    counts = [
        (f"{item.label}: ", *item.text) for section in report.sections if section.are_totals for item in section.items
    ]
    totals = plain(join(" ", report.summary or join("; ", *counts) or report.headline, *report.footer[:1]))
    return "".join([*rows, _command("notice", totals, {"title": report.title})])


def _changes(sections: Sequence[Section], limit: int) -> Iterator[str]:
    """Yield at most `limit` notices, each at the manifest of a policy that has actions."""
    of_policies = [section for section in sections if section.subject and section.location.path]
    shown = of_policies if len(of_policies) <= limit else of_policies[: limit - 1]
    for section in shown:
        items = [item for item in islice(section.items, _ITEMS_MAX) if item.severity in _CHANGES]
        texts = [plain(join(": ", item.subject, join("; ", *filter(None, (item.text, item.loss))))) for item in items]
        if len(section.items) > len(items):
            texts.append(f"and {len(section.items) - len(items):,} more")
        is_loss = any(item.severity is Severity.LOSS for item in items)
        title = f"{plain(section.subject)}, {'irreversible' if is_loss else 'reversible'}"
        yield _command("notice", "; ".join(texts), _position(Item(location=section.location)) | {"title": title})
    if len(of_policies) > len(shown):
        note = f"{len(of_policies) - len(shown):,} more policies have actions; the report lists them"
        yield _command("notice", note, {"title": "more"})


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
