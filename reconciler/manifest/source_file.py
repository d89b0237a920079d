"""One manifest file: its text, its YAML, and diagnostics that point into it with secrets masked."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.manifest.diagnostics import LOOKS_SECRET, Diagnostic, Related, redact
from reconciler.manifest.nodes import Document, Node, ParseResult, Span, YamlError
from reconciler.manifest.yaml import lines_of, read
from reconciler.model.names import SourceLocation
from reconciler.policies.client_properties import holds_credentials, is_secret_property
from reconciler.policies.secret_refs import whole_reference


@dataclass(slots=True)
class SourceFile:
    """A file's text and its YAML. Lines are split only when a diagnostic shows one."""

    path: str
    text: str
    sha256: str
    yaml: ParseResult = field(init=False)
    _lines: list[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.yaml = read(self.text)

    def location(self, span: Span) -> SourceLocation:
        return SourceLocation(self.path, span.line, span.column)

    def diagnostic(
        self, code: str, message: str, *, span: Span, hint: str, context: str = "", related: Iterable[Related] = ()
    ) -> Diagnostic:
        """Return a diagnostic about `span` of this file."""
        if self._lines is None:
            self._lines = self._masked_lines()
        return Diagnostic(
            code=code,
            message=message,
            location=self.location(span),
            end_line=span.end_line,
            end_column=span.end_column,
            source_line=self._lines[span.line - 1],
            context=context,
            hint=hint,
            related=tuple(related),
        )

    def yaml_diagnostic(self, error: YamlError, context: str = "") -> Diagnostic:
        """Return an error of the YAML as a diagnostic."""
        related = (Related(self.location(span), message) for span, message in error.related)
        return self.diagnostic(
            error.code, error.message, span=error.span, hint=error.hint, context=context, related=related
        )

    def _masked_lines(self) -> list[str]:
        lines = lines_of(self.text)
        for document in self.yaml.documents:
            for span in _secrets(document):
                _mask(lines, span)
        if not self.yaml.complete:
            # Secrets behind a syntax error have no known position: hide all lines from the first
            # suspect one on.
            first = next((number for number, line in enumerate(lines) if LOOKS_SECRET.search(line)), len(lines))
            lines[first:] = ["(not shown: the file may hold a secret)"] * (len(lines) - first)
        return [redact(line) for line in lines]


def _secrets(document: Document) -> Iterable[Span]:
    pending: list[tuple[str, Node]] = [("<<", document.root), *document.dropped]
    while pending:
        key, node = pending.pop()
        text = node.value if isinstance(node.value, str) else ""
        if not key or (is_secret_property(key) and not whole_reference(text)) or holds_credentials(text):
            yield node.span
        else:
            pending.extend((name, child) for name, (_, child) in node.entries.items())


def _mask(lines: list[str], span: Span) -> None:
    for number in range(span.line, min(span.end_line, len(lines)) + 1):
        line = lines[number - 1]
        start = span.column - 1 if number == span.line else 0
        end = span.end_column - 1 if number == span.end_line else len(line)
        lines[number - 1] = line[:start] + "*" * (end - start) + line[end:]
