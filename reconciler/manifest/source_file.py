"""One manifest file: its text, its YAML, and diagnostics that mask secrets."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from reconciler.manifest.diagnostics import LOOKS_SECRET, Diagnostic, Related, context_text, redact
from reconciler.manifest.yaml import Document, ManifestError, Span, lines_of, read
from reconciler.model.names import SourceLocation
from reconciler.policies.client_properties import holds_credentials, is_reference, is_secret_property


@dataclass(frozen=True)
class SourceFile:
    """A file's text and its YAML. Lines are split only when a diagnostic shows one."""

    path: str
    text: str
    sha256: str

    @cached_property
    def documents(self) -> list[Document]:
        """The documents of the file; an incomplete one is the last."""
        return read(self.text)

    def location(self, span: Span) -> SourceLocation:
        return SourceLocation(self.path, span.line, span.column)

    def diagnostic(self, error: ManifestError, address: str, related: Iterable[Related] = ()) -> Diagnostic:
        """Return an error of the manifest at `address` with its line and context."""
        return Diagnostic(
            code=error.code,
            message=error.message,
            location=self.location(error.span),
            end_line=error.span.end_line,
            end_column=error.span.end_column,
            source_line=self._masked_lines[error.span.line - 1],
            context=context_text(address, error.path),
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
            # Secrets behind a syntax error have no known position: hide all lines from the first
            # suspect one on.
            lines[suspect:] = ["(not shown: the file may hold a secret)"] * (len(lines) - suspect)
        return [redact(line) for line in lines]


def _secrets(document: Document) -> Iterable[Span]:
    pending = [*document.dropped, *([("<<", document.root)] if document.root else [])]
    while pending:
        key, node = pending.pop()
        text = node.value if isinstance(node.value, str) else ""
        if not key or (is_secret_property(key) and not is_reference(text)) or holds_credentials(text):
            yield node.span
        else:
            pending.extend((name, child) for name, (_, child) in node.entries.items())


def _mask(lines: list[str], span: Span) -> None:
    for number in range(span.line, min(span.end_line, len(lines)) + 1):
        line = lines[number - 1]
        start = span.column - 1 if number == span.line else 0
        end = span.end_column - 1 if number == span.end_line else len(line)
        lines[number - 1] = line[:start] + "*" * (end - start) + line[end:]
