"""The type of every error and warning about manifests, and its four renderings.

A diagnostic masks secrets in its texts. Which rules there are is decided elsewhere; the command
line prints and chooses exit codes.
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
from reconciler.model.names import SourceLocation
from reconciler.text.escape import escape_char, harmless_json, is_invisible

_UNSAFE = re.compile(r"[^ -~]|#(?=#\[)")
_LINE_WIDTH = 200
"""Characters of a source line that are shown; a longer line is cut around the span."""

_REFERENCE = r"""\s{0,64}["']?\$\{[^}$]{0,256}\}["']?\s{0,64}(?:$|[,}#])"""
_WORD = (
    r"(?:password|passphrase|secret|credential|key\.pem|ssl\.key|token|basic\.auth|oauthbearer\.config)"
    r"[^\s:=]{0,64}\s{0,64}[:=]"
)
_PROPERTY_NAME = (
    r"""(?:sasl|ssl)\.[a-z.]{0,64}(?:password|passphrase|secret|credentials?|pem|key|token|config)(?:[\s,"']|\\["'])"""
)
LOOKS_SECRET = re.compile(rf"(?i)(?:{_WORD}|{_PROPERTY_NAME})(?!{_REFERENCE})|://[^/\s]{{0,1024}}@")
"""Matches up to where a secret may begin. A word needs a colon after it, a property does not.

All repetitions are bounded, because the text may come from any pull request.
"""
_MASKED = re.compile(r"""[\s:="',]{0,64}\*{1,65536}["']?\s{0,64}(?:$|[,}])""")


def redact(line: str) -> str:
    """Mask everything after a possible secret in a source line; the length stays the same.

    YAML's own reading does not help: a forgotten blank makes property and secret one key, and a
    forgotten colon makes them one text.
    """
    for match in LOOKS_SECRET.finditer(line):
        if not _MASKED.match(line, match.end()):
            return line[: match.end()] + re.sub(r"\S", "*", line[match.end() :])
    return line


class Severity(StrEnum):
    """An error makes the manifests invalid; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Rendering(StrEnum):
    """The formats of `render`."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


@dataclass(frozen=True, slots=True)
class Related:
    """Another location that explains the diagnostic."""

    location: SourceLocation
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One error or warning and its location. Never holds the value of a secret.

    `location.line` 0: the file as a whole; an empty `location.path`: no file. The span ends before
    (`end_line`, `end_column`), 1-based. `source_line` None: there is no line to show. `context`: the
    manifest and field, as in "in RetentionFloor/orders, spec".
    """

    code: str
    message: str
    location: SourceLocation
    end_line: int = 0
    end_column: int = 0
    source_line: str | None = None
    context: str = ""
    hint: str = ""
    related: tuple[Related, ...] = ()

    def __post_init__(self) -> None:
        # Keys, too, are text that an author typed.
        for name in ("message", "context", "hint"):
            object.__setattr__(self, name, redact(getattr(self, name)))
        related = tuple(Related(other.location, redact(other.message)) for other in self.related)
        object.__setattr__(self, "related", related)

    @property
    def severity(self) -> Severity:
        """Codes M4xx are warnings, all others are errors."""
        return Severity.WARNING if self.code.startswith("M4") else Severity.ERROR


def escape_invisible(text: str) -> str:
    """Escape control, bidirectional and invisible characters, and commands of a CI runner."""
    return _UNSAFE.sub(_escape, text)


def render(diagnostics: Iterable[Diagnostic], rendering: Rendering) -> str:
    """Render all diagnostics in their order. The text ends with a newline unless it is empty."""
    return _RENDERERS[rendering](tuple(diagnostics))


def text(diagnostic: Diagnostic) -> str:
    """Render for people: the source line with the span underlined, and the hint beside it."""
    width = len(str(diagnostic.location.line)) if diagnostic.source_line is not None else 1
    gutter = " " * (width + 2)
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {escape_invisible(diagnostic.message)}"]
    if diagnostic.location.path:
        lines.append(f"{' ' * (width + 1)}--> {_position(diagnostic.location)}")
    hint = escape_invisible(diagnostic.hint)
    if diagnostic.source_line is not None:
        excerpt, before, under = _excerpt(diagnostic.source_line, _columns(diagnostic))
        underline = f"{gutter}| {' ' * before}{'^' * under} {hint}".rstrip()
        lines += [f"{gutter}|", f" {diagnostic.location.line} | {excerpt}".rstrip(), underline]
        hint = ""
    lines += [
        f"{gutter}= {_position(other.location)}: {escape_invisible(other.message)}" for other in diagnostic.related
    ]
    if hint:
        lines.append(f"{gutter}= {hint}")
    if diagnostic.context:
        lines.append(f"{gutter}= {escape_invisible(diagnostic.context)}")
    return "\n".join(lines) + "\n"


def as_json(diagnostics: Sequence[Diagnostic]) -> str:
    """Render as one JSON object with `format_version` and `diagnostics`."""
    objects = [_json_object(diagnostic) for diagnostic in diagnostics]
    return _dump({"format_version": "1.0", "kind": "Diagnostics", "diagnostics": objects})


def github(diagnostic: Diagnostic) -> str:
    """Render as a workflow command, which GitHub shows as an annotation on the line."""
    location = diagnostic.location
    properties = {"title": f"{diagnostic.code} {CODES[diagnostic.code].title}"}
    if location.path:
        properties["file"] = location.path
    if location.line:
        properties |= {"line": str(location.line), "endLine": str(max(diagnostic.end_line, location.line))}
        if diagnostic.end_line == location.line and diagnostic.end_column > location.column:
            properties |= {"col": str(location.column), "endColumn": str(diagnostic.end_column - 1)}
    body = [diagnostic.message, diagnostic.hint]
    body += [f"{_position(other.location)}: {other.message}" for other in diagnostic.related]
    body.append(diagnostic.context)
    message = "\n".join(escape_invisible(part) for part in body if part)
    head = ",".join(f"{name}={_property(escape_invisible(value))}" for name, value in sorted(properties.items()))
    return f"::{diagnostic.severity} {head}::{_data(message)}\n"


def sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """Render as a SARIF log with one run.

    Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
    """
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    rules = [
        {
            "id": code,
            "shortDescription": {"text": CODES[code].title},
            "fullDescription": {"text": CODES[code].explanation},
        }
        for code in codes
    ]
    run = {
        "tool": {"driver": {"name": "reconciler", "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(diagnostic, codes.index(diagnostic.code)) for diagnostic in diagnostics],
    }
    return _dump({"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]})


_RENDERERS: Mapping[Rendering, Callable[[Sequence[Diagnostic]], str]] = {
    Rendering.TEXT: lambda diagnostics: "\n".join(map(text, diagnostics)),
    Rendering.JSON: as_json,
    Rendering.GITHUB: lambda diagnostics: "".join(map(github, diagnostics)),
    Rendering.SARIF: sarif,
}


def _dump(document: Mapping[str, Any]) -> str:
    return harmless_json(json.dumps(document, indent=2, ensure_ascii=True)) + "\n"


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char != "#" and not is_invisible(char):
        return char
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else escape_char(char)


def _position(location: SourceLocation) -> str:
    line = f":{location.line}:{location.column}" if location.line else ""
    return escape_invisible(f"{location.path}{line}")


def _columns(diagnostic: Diagnostic) -> tuple[int, int]:
    """Return the 0-based columns to underline on the first line: at least one character."""
    start = diagnostic.location.column - 1
    same_line = diagnostic.end_line == diagnostic.location.line
    end = diagnostic.end_column - 1 if same_line else len((diagnostic.source_line or "").rstrip())
    return start, max(end, start + 1)


def _excerpt(line: str, columns: tuple[int, int]) -> tuple[str, int, int]:
    """Return the line as shown, and the terminal cells before and under the span."""
    start, end = columns
    cut = max(0, min(start - _LINE_WIDTH // 4, len(line) - _LINE_WIDTH)) if len(line) > _LINE_WIDTH else 0
    head = ("…" if cut else "") + _flat(line[cut:start])
    span = _flat(line[start:end])[:_LINE_WIDTH]
    tail = _flat(line[end : cut + _LINE_WIDTH])
    if end < len(line) and cut + _LINE_WIDTH < len(line):
        tail += "…"
    return head + span + tail, _cells(head), max(1, _cells(span))


def _flat(text: str) -> str:
    return escape_invisible(text.replace("\t", " "))


def _cells(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def _json_object(diagnostic: Diagnostic) -> dict[str, Any]:
    def position(location: SourceLocation) -> dict[str, Any]:
        return {"path": location.path, "line": location.line, "column": location.column}

    return {
        "code": diagnostic.code,
        "title": CODES[diagnostic.code].title,
        "severity": str(diagnostic.severity),
        "message": diagnostic.message,
        **position(diagnostic.location),
        "end_line": diagnostic.end_line,
        "end_column": diagnostic.end_column,
        "source_line": diagnostic.source_line,
        "where": diagnostic.context,
        "hint": diagnostic.hint,
        "related": [{**position(other.location), "message": other.message} for other in diagnostic.related],
    }


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def _sarif_result(diagnostic: Diagnostic, rule: int) -> dict[str, Any]:
    parts = [diagnostic.message, diagnostic.hint, diagnostic.context]
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": str(diagnostic.severity),
        "message": {"text": "; ".join(part for part in parts if part)},
    }
    if diagnostic.location.path:
        location = _sarif_location(diagnostic.location, diagnostic.end_line, diagnostic.end_column)
        result["locations"] = [{"physicalLocation": location}]
    if diagnostic.related:
        result["relatedLocations"] = [
            {"physicalLocation": _sarif_location(other.location, 0, 0), "message": {"text": other.message}}
            for other in diagnostic.related
        ]
    return result


def _sarif_location(location: SourceLocation, end_line: int, end_column: int) -> Mapping[str, Any]:
    result: dict[str, Any] = {"artifactLocation": {"uri": quote(location.path, errors="surrogateescape")}}
    if location.line:
        region = {"startLine": location.line, "startColumn": location.column}
        if (end_line, end_column) > (location.line, location.column):
            region |= {"endLine": end_line, "endColumn": end_column}
        result["region"] = region
    return result
