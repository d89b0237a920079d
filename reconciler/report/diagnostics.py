"""Writes the errors and warnings of manifests: as text with source lines, JSON, SARIF and a report."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from rich.cells import cell_len

from reconciler.manifest.diagnostics import Diagnostic, format_position
from reconciler.manifest.error_codes import CODES
from reconciler.report.annotations import describe, write_annotations
from reconciler.report.document import DIAGNOSTICS, Document
from reconciler.report.tree import Item, Report, Section, Severity
from reconciler.text.escape import escape_char, harmless_json, is_invisible
from reconciler.text.formatting import count
from reconciler.text.phrase import join, sentence

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_UNSAFE = re.compile(r"[^ -~]|#(?=#\[)")
_LINE_WIDTH = 200
"""Characters of a source line that are shown; a longer line is cut around the span."""


def diagnostics_report(diagnostics: Sequence[Diagnostic]) -> Report:
    """Return the report of all diagnostics in their order."""
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    totals = f"{count(errors, 'error')}, {count(len(diagnostics) - errors, 'warning')}"
    return Report(
        title="manifests",
        headline=(f"{'invalid' if errors else 'valid'}: {totals}",),
        sections=(Section(items=tuple(map(_item, diagnostics)), severity=Severity.ERROR),),
    )


def _item(diagnostic: Diagnostic) -> Item:
    notes = (diagnostic.message, diagnostic.hint, *map(str, diagnostic.related), diagnostic.context)
    return Item(
        label=CODES[diagnostic.code].title,
        text=join("; ", *((sentence(note),) for note in notes if note)),
        severity=Severity(diagnostic.severity),
        code=diagnostic.code,
        location=diagnostic.location,
        end=(diagnostic.end_line, diagnostic.end_column),
        children=tuple(Item(text=(sentence(o.message),), location=o.location) for o in diagnostic.related),
    )


def write_diagnostics(diagnostics: Sequence[Diagnostic]) -> str:
    """Write for people: source lines with the span underlined, and the hint beside it."""
    return "\n".join(map(_text, diagnostics))


def _object(diagnostic: Diagnostic) -> dict[str, Any]:
    values = asdict(diagnostic)
    related = [other.pop("location") | other for other in values.pop("related")]
    texts = {"title": CODES[diagnostic.code].title, "severity": diagnostic.severity, "where": values.pop("context")}
    return {**values.pop("location"), **values, **texts, "related": related}


def write_sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """Write one run. Source: OASIS, Static Analysis Results Interchange Format 2.1.0."""
    items = list(map(_item, diagnostics))
    codes = sorted({item.code for item in items})
    texts = {code: ({"text": CODES[code].title}, {"text": CODES[code].explanation}) for code in codes}
    rules = [{"id": id_, "shortDescription": title, "fullDescription": text} for id_, (title, text) in texts.items()]
    results = [
        {
            "ruleId": item.code,
            "ruleIndex": codes.index(item.code),
            "level": item.severity,
            "message": {"text": describe(item)},
            "locations": _locations(item),
            "relatedLocations": [
                at | {"message": {"text": describe(o)}} for o in item.children for at in _locations(o)
            ],
        }
        for item in items
    ]
    tool = {"driver": {"name": "reconciler", "rules": rules}}
    run = {"tool": tool, "columnKind": "unicodeCodePoints", "results": results}
    return _json({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _json(document: Mapping[str, Any]) -> str:
    return harmless_json(json.dumps(document, indent=2)) + "\n"


def _locations(item: Item) -> list[dict[str, Any]]:
    """Return the location in a list, which is empty without a file."""
    location, (end_line, end_column) = item.location, item.end
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(location.path, errors="surrogateescape")}}
    if location.line:
        place["region"] = {"startLine": location.line, "startColumn": location.column}
        if item.end > (location.line, location.column):
            place["region"] |= {"endLine": end_line, "endColumn": end_column}
    return [{"physicalLocation": place}] if location.path else []


def diagnostics_document(diagnostics: Sequence[Diagnostic], *, summary: str = "") -> Document:
    """Return the document of the diagnostics. `summary`: the end of its text."""
    head = {"format_version": "1.0", "kind": "Diagnostics"}
    writers: dict[str, Callable[[], str]] = {
        "text": lambda: write_diagnostics(diagnostics) + summary,
        "json": lambda: _json(head | {"diagnostics": list(map(_object, diagnostics))}),
        # Without a limit: no other output of a workflow lists the errors.
        "github": lambda: write_annotations(diagnostics_report(diagnostics), limit=len(diagnostics)),
        "sarif": lambda: write_sarif(diagnostics),
    }
    return Document(kind=DIAGNOSTICS, writers=writers)


def _text(diagnostic: Diagnostic) -> str:
    location, line = diagnostic.location, diagnostic.source_line
    width = len(str(location.line)) if line is not None else 1
    gutter = " " * (width + 2)
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    if location.path:
        lines.append(f"{' ' * (width + 1)}--> {format_position(location)}")
    notes = [*map(str, diagnostic.related), diagnostic.hint if line is None else "", diagnostic.context]
    if line is not None:
        excerpt, before, under = _excerpt(diagnostic, line)
        lines += [f"{gutter}|", f" {location.line} | {excerpt}".rstrip()]
        lines.append(f"{gutter}| {' ' * before}{'^' * under} {diagnostic.hint}".rstrip())
    lines += [f"{gutter}= {note}" for note in notes if note]
    return "\n".join(map(escape_invisible, lines)) + "\n"


def _excerpt(diagnostic: Diagnostic, line: str) -> tuple[str, int, int]:
    """Return the line as shown, and the terminal cells before and under the span."""
    start = diagnostic.location.column - 1
    same_line = diagnostic.end_line == diagnostic.location.line
    end = max(start + 1, diagnostic.end_column - 1 if same_line else len(line.rstrip()))
    first = max(0, min(start - _LINE_WIDTH // 4, len(line) - _LINE_WIDTH))
    parts = (line[first:start], line[start:end][:_LINE_WIDTH], line[end : first + _LINE_WIDTH])
    head, span, tail = (escape_invisible(part.replace("\t", " ")) for part in parts)
    head = f"…{head}" if first else head
    if max(end, first + _LINE_WIDTH) < len(line):
        tail += "…"
    return head + span + tail, cell_len(head), max(1, cell_len(span))


def escape_invisible(text: str) -> str:
    """Escape control, bidirectional and invisible characters, and commands of a CI runner."""
    return _UNSAFE.sub(lambda m: escape_char(m[0]) if m[0] == "#" or is_invisible(m[0]) else m[0], text)
