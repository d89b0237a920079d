"""Writes a report as GitHub annotations at the manifests' lines, and its totals as a notice."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from reconciler.report.tree import Item, Report, Section, Severity, T
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
    rows = list[str]()
    items = [item for section in report.sections if section.severity in _LEVELS for item in section.items]
    for severity in _LEVELS:
        rows += _first([i for i in items if i.severity is severity], _item, limit, severity, "more like these")
    of_policies = [section for section in report.sections if section.subject and section.location.path]
    rows += _first(of_policies, _changes, limit - 1, "notice", "more policies have actions")
    totals = [item for section in report.sections if section.are_totals for item in section.items]
    counts = [(f"{item.label}: ", *item.text) for item in totals]
    summary = plain(join(" ", report.summary or join("; ", *counts) or report.headline, *report.footer[:1]))
    return "".join([*rows, _command("notice", summary, {"title": report.title})])


def _first(sources: Sequence[T], write: Callable[[T], str], limit: int, level: str, more: str) -> Iterator[str]:
    """Yield at most `limit` commands: one for each source, or for the first ones and a count of the others."""
    shown = sources if len(sources) <= limit else sources[: limit - 1]
    yield from map(write, shown)
    if len(sources) > len(shown):
        yield _command(level, f"{len(sources) - len(shown):,} {more}; the report lists them", {"title": "more"})


def _item(item: Item) -> str:
    title = f"{item.label} ({item.code})" if item.code else item.label
    return _command(item.severity, describe(item), _position(item) | {"title": title})


def _changes(section: Section) -> str:
    """Return the notice of the actions of one policy, at its manifest."""
    items = [item for item in islice(section.items, _ITEMS_MAX) if item.severity in _CHANGES]
    texts = [plain(join(": ", item.subject, join("; ", item.text, item.loss))) for item in items]
    if len(section.items) > len(items):
        texts.append(f"and {len(section.items) - len(items):,} more")
    is_loss = any(item.severity is Severity.LOSS for item in items)
    title = f"{plain(section.subject)}, {'irreversible' if is_loss else 'reversible'}"
    return _command("notice", "; ".join(texts), _position(Item(location=section.location)) | {"title": title})


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
