"""One diagnostic type for everything that is wrong with manifests, and its renderings: text, json, github, sarif.

Decided here: how it reads. What is wrong is found elsewhere; printing and exit codes are the command line's.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from reconciler.manifest.error_codes import CODES
from reconciler.manifest.redact import redact
from reconciler.model.names import SourceLocation
from reconciler.text.escape import escape_char, harmless_json, is_invisible

__all__ = [
    "CODES",
    "Diagnostic",
    "Related",
    "Rendering",
    "Severity",
    "as_json",
    "github",
    "render",
    "sarif",
    "text",
    "escape_invisible",
]

_UNSAFE = re.compile(r"[^ -~]|#(?=#\[)")
_WIDEST = 200
"""Characters of a source line that are shown; a longer one is cut around the span."""


class Severity(StrEnum):
    """An error makes the whole set invalid; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Rendering(StrEnum):
    """The formats that `render` knows."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that the reader has to see."""

    place: SourceLocation
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One thing that is wrong, and where. Never holds a secret's value.

    `place.line` 0: the file as a whole, or no file at all where `place.path` is empty. The span ends before
    (`end_line`, `end_column`), 1-based. `source_line` None: nothing to show. `where`: as in "in RetentionFloor/orders, spec".
    """

    code: str
    severity: Severity
    message: str
    place: SourceLocation
    end_line: int = 0
    end_column: int = 0
    source_line: str | None = None
    where: str = ""
    hint: str = ""
    related: tuple[Related, ...] = ()

    def __post_init__(self) -> None:
        # Keys, too, are what somebody typed.
        for name in ("message", "where", "hint"):
            object.__setattr__(self, name, redact(getattr(self, name)))
        told = tuple(Related(other.place, redact(other.message)) for other in self.related)
        object.__setattr__(self, "related", told)


def escape_invisible(text: str) -> str:
    """`text` with control, bidirectional and invisible characters written as escapes, and no command of a CI runner in it: it may come
    from anybody's pull request."""
    return _UNSAFE.sub(_escaped, text)


def text(diagnostic: Diagnostic) -> str:
    """For people: the line with the span underlined, the hint beside it."""
    width = len(str(diagnostic.place.line)) if diagnostic.source_line is not None else 1
    gutter = " " * (width + 2)
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {escape_invisible(diagnostic.message)}"]
    if diagnostic.place.path:
        lines.append(f"{' ' * (width + 1)}--> {_position(diagnostic.place)}")
    hint = escape_invisible(diagnostic.hint)
    if diagnostic.source_line is not None:
        shown, before, under = _excerpt(diagnostic.source_line, _columns(diagnostic))
        underlined = f"{gutter}| {' ' * before}{'^' * under} {hint}".rstrip()
        lines += [f"{gutter}|", f" {diagnostic.place.line} | {shown}".rstrip(), underlined]
        hint = ""
    lines += [f"{gutter}= {_position(other.place)}: {escape_invisible(other.message)}" for other in diagnostic.related]
    if hint:
        lines.append(f"{gutter}= {hint}")
    if diagnostic.where:
        lines.append(f"{gutter}= {escape_invisible(diagnostic.where)}")
    return "\n".join(lines) + "\n"


def as_json(diagnostics: Sequence[Diagnostic]) -> str:
    """One JSON object: `format_version` and `diagnostics`, each with all that the type holds."""
    document = {"format_version": "1.0", "kind": "Diagnostics", "diagnostics": [_object(d) for d in diagnostics]}
    return harmless_json(json.dumps(document, indent=2, ensure_ascii=True)) + "\n"


def github(diagnostic: Diagnostic) -> str:
    """One workflow command, which GitHub shows as an annotation on the line."""
    place = diagnostic.place
    properties = {"title": f"{diagnostic.code} {CODES[diagnostic.code].title}"}
    if place.path:
        properties["file"] = place.path
    if place.line:
        properties |= {"line": str(place.line), "endLine": str(max(diagnostic.end_line, place.line))}
        if diagnostic.end_line == place.line and diagnostic.end_column > place.column:
            properties |= {"col": str(place.column), "endColumn": str(diagnostic.end_column - 1)}
    body = [diagnostic.message, diagnostic.hint]
    body += [f"{_position(other.place)}: {other.message}" for other in diagnostic.related]
    body.append(diagnostic.where)
    message = "\n".join(escape_invisible(part) for part in body if part)
    head = ",".join(f"{name}={_property(escape_invisible(value))}" for name, value in sorted(properties.items()))
    return f"::{diagnostic.severity} {head}::{_data(message)}\n"


def sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """A SARIF 2.1.0 log with one run. Source: OASIS, Static Analysis Results Interchange Format 2.1.0."""
    used = sorted({diagnostic.code for diagnostic in diagnostics})
    rules = [
        {
            "id": code,
            "shortDescription": {"text": CODES[code].title},
            "fullDescription": {"text": CODES[code].explanation},
        }
        for code in used
    ]
    results = [_result(diagnostic, used.index(diagnostic.code)) for diagnostic in diagnostics]
    run = {
        "tool": {"driver": {"name": "reconciler", "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return harmless_json(json.dumps(log, indent=2, ensure_ascii=True)) + "\n"


def _texts(diagnostics: Sequence[Diagnostic]) -> str:
    return "\n".join(text(diagnostic) for diagnostic in diagnostics)


def _annotations(diagnostics: Sequence[Diagnostic]) -> str:
    return "".join(github(diagnostic) for diagnostic in diagnostics)


_RENDERINGS: Mapping[Rendering, Callable[[Sequence[Diagnostic]], str]] = {
    Rendering.TEXT: _texts,
    Rendering.JSON: as_json,
    Rendering.GITHUB: _annotations,
    Rendering.SARIF: sarif,
}


def render(diagnostics: Iterable[Diagnostic], rendering: Rendering) -> str:
    """All diagnostics in one of the formats, in the order given. Ends with a newline unless it is empty."""
    return _RENDERINGS[rendering](tuple(diagnostics))


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char != "#" and not is_invisible(char):
        return char
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else escape_char(char)


def _position(place: SourceLocation) -> str:
    return escape_invisible(f"{place.path}:{place.line}:{place.column}" if place.line else place.path)


def _columns(diagnostic: Diagnostic) -> tuple[int, int]:
    """0-based columns of what is underlined on the first line; at least one character."""
    start = diagnostic.place.column - 1
    same_line = diagnostic.end_line == diagnostic.place.line
    end = diagnostic.end_column - 1 if same_line else len((diagnostic.source_line or "").rstrip())
    return start, max(end, start + 1)


def _excerpt(line: str, columns: tuple[int, int]) -> tuple[str, int, int]:
    """The line as shown, and how many cells of a terminal stand before and under the span."""
    start, end = columns
    cut = max(0, min(start - _WIDEST // 4, len(line) - _WIDEST)) if len(line) > _WIDEST else 0
    head = ("…" if cut else "") + _flat(line[cut:start])
    span = _flat(line[start:end])[:_WIDEST]
    tail = _flat(line[end : cut + _WIDEST])
    if end < len(line) and cut + _WIDEST < len(line):
        tail += "…"
    return head + span + tail, _cells(head), max(1, _cells(span))


def _flat(text: str) -> str:
    return escape_invisible(text.replace("\t", " "))


def _cells(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def _object(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code,
        "title": CODES[diagnostic.code].title,
        "severity": str(diagnostic.severity),
        "message": diagnostic.message,
        "path": diagnostic.place.path,
        "line": diagnostic.place.line,
        "column": diagnostic.place.column,
        "end_line": diagnostic.end_line,
        "end_column": diagnostic.end_column,
        "source_line": diagnostic.source_line,
        "where": diagnostic.where,
        "hint": diagnostic.hint,
        "related": [
            {"path": o.place.path, "line": o.place.line, "column": o.place.column, "message": o.message}
            for o in diagnostic.related
        ],
    }


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def _result(diagnostic: Diagnostic, rule: int) -> dict[str, Any]:
    words = [diagnostic.message, diagnostic.hint, diagnostic.where]
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": str(diagnostic.severity),
        "message": {"text": "; ".join(word for word in words if word)},
    }
    if diagnostic.place.path:
        result["locations"] = [
            {"physicalLocation": _physical(diagnostic.place, diagnostic.end_line, diagnostic.end_column)}
        ]
    if diagnostic.related:
        result["relatedLocations"] = [
            {"physicalLocation": _physical(other.place, 0, 0), "message": {"text": other.message}}
            for other in diagnostic.related
        ]
    return result


def _physical(place: SourceLocation, end_line: int, end_column: int) -> Mapping[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(place.path, errors="surrogateescape")}}
    if place.line:
        region = {"startLine": place.line, "startColumn": place.column}
        if (end_line, end_column) > (place.line, place.column):
            region |= {"endLine": end_line, "endColumn": end_column}
        location["region"] = region
    return location
