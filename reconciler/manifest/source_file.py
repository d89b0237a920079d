"""One manifest file: its text, its lines, and diagnostics that point into it. Secrets are blanked in every line that is shown."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.manifest.diagnostics import Diagnostic, Related, Severity
from reconciler.manifest.nodes import Document, Node, ParseResult, Span, YamlError
from reconciler.manifest.redact import LOOKS_SECRET, redact
from reconciler.manifest.yaml import lines_of, read
from reconciler.model.names import SourceLocation
from reconciler.policies.client_properties import holds_credentials, is_secret_property
from reconciler.policies.secret_refs import whole_reference


@dataclass(slots=True)
class SourceFile:
    """A file as given and as read. `reading` is made once; lines are split only where something has to be shown."""

    path: str
    text: str
    sha256: str
    reading: ParseResult = field(init=False)
    _lines: list[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.reading = read(self.text)

    def place(self, span: Span) -> SourceLocation:
        return SourceLocation(self.path, span.line, span.column)

    def diagnostic(
        self,
        code: str,
        message: str,
        *,
        span: Span,
        hint: str = "",
        where: str = "",
        related: Iterable[Related] = (),
        severity: Severity = Severity.ERROR,
    ) -> Diagnostic:
        """A diagnostic about `span` of this file."""
        if self._lines is None:
            self._lines = self._shown_lines()
        return Diagnostic(
            code=code,
            severity=severity,
            message=message,
            place=self.place(span),
            end_line=span.end_line,
            end_column=span.end_column,
            source_line=self._lines[span.line - 1],
            where=where,
            hint=hint,
            related=tuple(related),
        )

    def flaw(self, flaw: YamlError, where: str = "") -> Diagnostic:
        """A flaw of the YAML as a diagnostic."""
        related = (Related(self.place(span), message) for span, message in flaw.related)
        return self.diagnostic(flaw.code, flaw.message, span=flaw.span, hint=flaw.hint, where=where, related=related)

    def _shown_lines(self) -> list[str]:
        lines = lines_of(self.text)
        for document in self.reading.documents:
            for span in _secrets(document):
                _blank(lines, span)
        if not self.reading.complete:
            # Where YAML ends, so does the knowledge of what is a secret: from the first line that looks like one, show nothing.
            first = next((number for number, line in enumerate(lines) if LOOKS_SECRET.search(line)), len(lines))
            lines[first:] = ["(not shown: the file may hold a secret)"] * (len(lines) - first)
        return [redact(line) for line in lines]


def _secrets(document: Document) -> Iterable[Span]:
    waiting: list[tuple[str, Node]] = [("<<", document.root), *document.dropped]
    while waiting:
        key, node = waiting.pop()
        text = node.value if isinstance(node.value, str) else ""
        if not key or (is_secret_property(key) and not whole_reference(text)) or holds_credentials(text):
            yield node.span
        else:
            waiting.extend((name, below) for name, (_, below) in node.entries.items())


def _blank(lines: list[str], span: Span) -> None:
    for number in range(span.line, min(span.end_line, len(lines)) + 1):
        line = lines[number - 1]
        start = span.column - 1 if number == span.line else 0
        end = span.end_column - 1 if number == span.end_line else len(line)
        lines[number - 1] = line[:start] + "*" * (end - start) + line[end:]
