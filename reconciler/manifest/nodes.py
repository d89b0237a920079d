"""The data that the YAML reader returns: values with their positions, and errors with a span."""

from dataclasses import dataclass, field
from typing import Any

FieldPath = tuple[str | int, ...]


class Invalid:
    """The value of a node that already has an error; no second error is reported for it."""

    __slots__ = ()


INVALID = Invalid()


@dataclass(frozen=True, slots=True)
class Span:
    """From (line, column) up to, not including, (end_line, end_column); 1-based, in characters."""

    line: int
    column: int
    end_line: int
    end_column: int


class Node:
    """A value and its position. `value`: str, int, float, bool, list, dict, or INVALID.

    `entries` of a mapping: key as text → (key node, value node); of a sequence: position as text →
    (None, value node). `plain`: an unquoted scalar, whose text is `text`.
    """

    __slots__ = ("_end", "_start", "entries", "plain", "text", "value")

    def __init__(self, value: Any, start: Any, end: Any, *, text: str = "", plain: bool = False) -> None:
        self.value = value
        self.entries: dict[str, tuple[Node | None, Node]] = {}
        self._start = start
        self._end = end
        self.text = text
        self.plain = plain

    @property
    def span(self) -> Span:
        return span_of(self._start, self._end)

    def set_end(self, mark: Any) -> None:
        """Set the end of a collection, which is known after its entries."""
        self._end = mark


def span_of(start: Any, end: Any) -> Span:
    """Return the span between two marks of the YAML parser, which count from 0."""
    return Span(start.line + 1, start.column + 1, end.line + 1, end.column + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlError:
    """An error in the YAML itself. No message quotes a value: it may be secret.

    `path`: from the root of the document to the surrounding mapping or list. `related`: other
    positions, each with a message.
    """

    code: str
    message: str
    span: Span
    hint: str
    path: FieldPath = ()
    related: tuple[tuple[Span, str], ...] = ()


@dataclass(slots=True)
class Document:
    """One YAML document and its errors; `root.value` is a dict unless an error says otherwise.

    `partial`: an invalid key was dropped with its value, so a field that seems to be missing may be
    in the text. `dropped`: such keys (as far as they are text) and values; they may hold secrets.
    """

    root: Node
    errors: list[YamlError] = field(default_factory=list)
    partial: bool = False
    dropped: list[tuple[str, Node]] = field(default_factory=list)


@dataclass(slots=True)
class ParseResult:
    """All documents before the first syntax error, and the errors of the file.

    `complete` False: `documents` does not hold the whole file. `unfinished`: the root of the
    document with the syntax error, as far as it was read, and the path to the last position.
    """

    documents: list[Document] = field(default_factory=list)
    errors: list[YamlError] = field(default_factory=list)
    complete: bool = False
    unfinished: tuple[Node | None, FieldPath] = (None, ())


def enclosing_path(root: Node, span: Span) -> FieldPath:
    """Return the path of the innermost mapping or list around the start of `span`."""
    position = (span.line, span.column)
    path: FieldPath = ()
    node: Node | None = root
    while node is not None:
        entries, is_list = node.entries, isinstance(node.value, list)
        node = None
        for name, (_, child) in entries.items():
            around = child.span
            if child.entries and (around.line, around.column) <= position < (around.end_line, around.end_column):
                node = child
                path = (*path, int(name) if is_list else name)
                break
    return path
