"""The errors and warnings about manifests, and their four renderings. Their texts mask secrets."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal
from urllib.parse import quote

from rich.cells import cell_len

from reconciler.manifest.error_codes import CODES
from reconciler.model.names import SourceLocation
from reconciler.policies.validation import FieldPath
from reconciler.text.escape import command_data, command_property, escape_char, harmless_json, is_invisible
from reconciler.text.suggest import did_you_mean

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


def suggestion(word: str, known: Iterable[str], *, otherwise: str) -> str:
    """Return a hint that names the closest known word, or `otherwise`."""
    closest = did_you_mean(word, known)
    return f"did you mean `{closest}`?" if closest else otherwise


def context_text(address: str, path: FieldPath) -> str:
    """Return `in RetentionFloor/orders, spec.keep`."""
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    parts = [part for part in (address, field) if part]
    return f"in {', '.join(parts)}" if parts else ""


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

    def __str__(self) -> str:
        return f"{_position(self.location)}: {self.message}"


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
    def severity(self) -> Literal["error", "warning"]:
        """An error makes the manifests invalid; a warning, M4xx, does not."""
        return "warning" if self.code.startswith("M4") else "error"


def escape_invisible(text: str) -> str:
    """Escape control, bidirectional and invisible characters, and commands of a CI runner."""
    return _UNSAFE.sub(lambda m: escape_char(m[0]) if m[0] == "#" or is_invisible(m[0]) else m[0], text)


def render(diagnostics: Iterable[Diagnostic], rendering: Rendering) -> str:
    """Render all diagnostics in their order. The text ends with a newline unless it is empty."""
    return _RENDERERS[rendering](tuple(diagnostics))


def text(diagnostic: Diagnostic) -> str:
    """Render for people: the source line with the span underlined, and the hint beside it."""
    width = len(str(diagnostic.location.line)) if diagnostic.source_line is not None else 1
    gutter = " " * (width + 2)
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    if diagnostic.location.path:
        lines.append(f"{' ' * (width + 1)}--> {_position(diagnostic.location)}")
    notes = [*map(str, diagnostic.related), diagnostic.hint if diagnostic.source_line is None else ""]
    if diagnostic.source_line is not None:
        excerpt, before, under = _excerpt(diagnostic, diagnostic.source_line)
        lines += [f"{gutter}|", f" {diagnostic.location.line} | {excerpt}".rstrip()]
        lines.append(f"{gutter}| {' ' * before}{'^' * under} {diagnostic.hint}".rstrip())
    lines += [f"{gutter}= {note}" for note in (*notes, diagnostic.context) if note]
    return "\n".join(map(escape_invisible, lines)) + "\n"


def as_json(diagnostics: Sequence[Diagnostic]) -> str:
    """Render as one JSON object with `format_version` and `diagnostics`."""
    objects = [
        {
            "code": diagnostic.code,
            "title": CODES[diagnostic.code].title,
            "severity": diagnostic.severity,
            "message": diagnostic.message,
            **asdict(diagnostic.location),
            "end_line": diagnostic.end_line,
            "end_column": diagnostic.end_column,
            "source_line": diagnostic.source_line,
            "where": diagnostic.context,
            "hint": diagnostic.hint,
            "related": [{**asdict(other.location), "message": other.message} for other in diagnostic.related],
        }
        for diagnostic in diagnostics
    ]
    return _dump({"format_version": "1.0", "kind": "Diagnostics", "diagnostics": objects})


def github(diagnostic: Diagnostic) -> str:
    """Render as a workflow command, which GitHub shows as an annotation on the line."""
    location = diagnostic.location
    properties: dict[str, object] = {"title": f"{diagnostic.code} {CODES[diagnostic.code].title}"}
    if location.path:
        properties["file"] = escape_invisible(location.path)
    if location.line:
        properties |= {"line": location.line, "endLine": max(diagnostic.end_line, location.line)}
        if diagnostic.end_line == location.line and diagnostic.end_column > location.column:
            properties |= {"col": location.column, "endColumn": diagnostic.end_column - 1}
    body = (diagnostic.message, diagnostic.hint, *map(str, diagnostic.related), diagnostic.context)
    message = "\n".join(escape_invisible(part) for part in body if part)
    head = ",".join(f"{name}={command_property(str(value))}" for name, value in sorted(properties.items()))
    return f"::{diagnostic.severity} {head}::{command_data(message)}\n"


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
    results = [
        {
            "ruleId": diagnostic.code,
            "ruleIndex": codes.index(diagnostic.code),
            "level": diagnostic.severity,
            "message": {"text": "; ".join(filter(None, (diagnostic.message, diagnostic.hint, diagnostic.context)))},
            "locations": _sarif_locations(diagnostic.location, diagnostic.end_line, diagnostic.end_column),
            "relatedLocations": [
                location | {"message": {"text": other.message}}
                for other in diagnostic.related
                for location in _sarif_locations(other.location)
            ],
        }
        for diagnostic in diagnostics
    ]
    tool = {"driver": {"name": "reconciler", "rules": rules}}
    run = {"tool": tool, "columnKind": "unicodeCodePoints", "results": results}
    return _dump({"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]})


_RENDERERS: Mapping[Rendering, Callable[[Sequence[Diagnostic]], str]] = {
    Rendering.TEXT: lambda diagnostics: "\n".join(map(text, diagnostics)),
    Rendering.JSON: as_json,
    Rendering.GITHUB: lambda diagnostics: "".join(map(github, diagnostics)),
    Rendering.SARIF: sarif,
}


def _dump(document: Mapping[str, Any]) -> str:
    return harmless_json(json.dumps(document, indent=2)) + "\n"


def _position(location: SourceLocation) -> str:
    return f"{location.path}:{location.line}:{location.column}" if location.line else location.path


def _excerpt(diagnostic: Diagnostic, line: str) -> tuple[str, int, int]:
    """Return the line as shown, and the terminal cells before and under the span."""
    start = diagnostic.location.column - 1
    same_line = diagnostic.end_line == diagnostic.location.line
    end = max(start + 1, diagnostic.end_column - 1 if same_line else len(line.rstrip()))
    cut = max(0, min(start - _LINE_WIDTH // 4, len(line) - _LINE_WIDTH))
    parts = (line[cut:start], line[start:end][:_LINE_WIDTH], line[end : cut + _LINE_WIDTH])
    head, span, tail = (escape_invisible(part.replace("\t", " ")) for part in parts)
    head = f"…{head}" if cut else head
    if max(end, cut + _LINE_WIDTH) < len(line):
        tail += "…"
    return head + span + tail, cell_len(head), max(1, cell_len(span))


def _sarif_locations(location: SourceLocation, end_line: int = 0, end_column: int = 0) -> list[dict[str, Any]]:
    """Return the location in a list, which is empty without a file."""
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(location.path, errors="surrogateescape")}}
    if location.line:
        place["region"] = {"startLine": location.line, "startColumn": location.column}
        if (end_line, end_column) > (location.line, location.column):
            place["region"] |= {"endLine": end_line, "endColumn": end_column}
    return [{"physicalLocation": place}] if location.path else []
