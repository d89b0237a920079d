"""One manifest file: its text, its lines, and diagnostics that point into it. Secrets are blanked in every line that is shown."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.kinds.client import holds_credentials, secret_bearing
from reconciler.kinds.reference import whole_reference
from reconciler.load.diagnostics import Diagnostic, Related, Severity
from reconciler.load.tree import Document, Flaw, Node, Reading, Span
from reconciler.load.veil import LOOKS_SECRET, veiled
from reconciler.load.yaml import lines_of, read
from reconciler.model.names import Place


@dataclass(slots=True)
class Source:
    """A file as given and as read. `reading` is made once; lines are split only where something has to be shown."""

    path: str
    text: str
    sha256: str
    reading: Reading = field(init=False)
    _lines: list[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.reading = read(self.text)

    def place(self, span: Span) -> Place:
        return Place(self.path, span.line, span.column)

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

    def flaw(self, flaw: Flaw, where: str = "") -> Diagnostic:
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
        return [veiled(line) for line in lines]


def _secrets(document: Document) -> Iterable[Span]:
    waiting: list[tuple[str, Node]] = [("<<", document.root), *document.dropped]
    while waiting:
        key, node = waiting.pop()
        text = node.value if isinstance(node.value, str) else ""
        if not key or (secret_bearing(key) and not whole_reference(text)) or holds_credentials(text):
            yield node.span
        else:
            waiting.extend((name, below) for name, (_, below) in node.entries.items())


def _blank(lines: list[str], span: Span) -> None:
    for number in range(span.line, min(span.end_line, len(lines)) + 1):
        line = lines[number - 1]
        start = span.column - 1 if number == span.line else 0
        end = span.end_column - 1 if number == span.end_line else len(line)
        lines[number - 1] = line[:start] + "*" * (end - start) + line[end:]
