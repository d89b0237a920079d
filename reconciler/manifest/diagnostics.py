"""One manifest file: its text, its YAML, and its errors and warnings, which mask secrets."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from reconciler.manifest.yaml import ManifestError, TextRange, YamlDocument, lines_of, read
from reconciler.model.names import SourceLocation
from reconciler.policies.client_properties import holds_credentials, is_reference, is_secret_property

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

    YAML cannot tell: without a blank, property and secret are one key; without a colon, one text.
    """
    for match in LOOKS_SECRET.finditer(line):
        if not _MASKED.match(line, match.end()):
            return line[: match.end()] + re.sub(r"\S", "*", line[match.end() :])
    return line


@dataclass(frozen=True, slots=True)
class Related:
    """Another location that explains the diagnostic."""

    location: SourceLocation
    message: str

    def __str__(self) -> str:
        return f"{format_position(self.location)}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One error or warning and its location. Never holds the value of a secret.

    `location.line` 0: the file as a whole; an empty `location.path`: no file. The span ends before
    (`end_line`, `end_column`), 1-based. `source_line` None: there is no line to show.
    `context`: the manifest and field, as in "in RetentionFloor/orders, spec".
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
        related = tuple(replace(position, message=redact(position.message)) for position in self.related)
        object.__setattr__(self, "related", related)

    @property
    def severity(self) -> Literal["error", "warning"]:
        """An error makes the manifests invalid; a warning, M4xx, does not."""
        return "warning" if self.code.startswith("M4") else "error"


def format_position(location: SourceLocation) -> str:
    """Return `path:line:column`, or the path of a file as a whole."""
    return f"{location.path}:{location.line}:{location.column}" if location.line else location.path


@dataclass(frozen=True)
class SourceFile:
    """A file's text and its YAML. Lines are split only when a diagnostic shows one."""

    path: str
    text: str
    sha256: str

    @cached_property
    def documents(self) -> list[YamlDocument]:
        """The documents of the file; an incomplete one is the last."""
        return read(self.text)

    def location(self, span: TextRange) -> SourceLocation:
        return SourceLocation(self.path, span.line, span.column)

    def diagnostic(self, error: ManifestError, address: str, related: Iterable[Related] = ()) -> Diagnostic:
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path).removeprefix(".")
        place = ", ".join(filter(None, (address, field)))
        return Diagnostic(
            code=error.code,
            message=error.message,
            location=self.location(error.span),
            end_line=error.span.end_line,
            end_column=error.span.end_column,
            source_line=self._masked_lines[error.span.line - 1],
            context=f"in {place}" if place else "",
            hint=error.hint,
            related=(*(Related(self.location(span), message) for span, message in error.related), *related),
        )

    @cached_property
    def _masked_lines(self) -> list[str]:
        lines = lines_of(self.text)
        suspect = next((number for number, line in enumerate(lines) if LOOKS_SECRET.search(line)), len(lines))
        for document in self.documents:
            for span in _secrets(document):
                _mask(lines, span)
        if not all(document.complete for document in self.documents):
            # Secrets behind a syntax error have no known position.
            lines[suspect:] = ["(not shown: the file may hold a secret)"] * (len(lines) - suspect)
        return [redact(line) for line in lines]


def _secrets(document: YamlDocument) -> Iterable[TextRange]:
    pending = [*document.dropped, *([("<<", document.root)] if document.root else [])]
    while pending:
        key, node = pending.pop()
        text = node.value if isinstance(node.value, str) else ""
        if not key or (is_secret_property(key) and not is_reference(text)) or holds_credentials(text):
            yield node.span
        else:
            pending.extend((name, child) for name, (_, child) in node.entries.items())


def _mask(lines: list[str], span: TextRange) -> None:
    for number in range(span.line, min(span.end_line, len(lines)) + 1):
        line = lines[number - 1]
        start = span.column - 1 if number == span.line else 0
        end = span.end_column - 1 if number == span.end_line else len(line)
        lines[number - 1] = line[:start] + "*" * (end - start) + line[end:]
