"""What reading a file yields: plain values that know where they stand, and flaws with a span. How they come about is load.yaml's."""

from dataclasses import dataclass, field
from typing import Any

FieldPath = tuple[str | int, ...]


class Invalid:
    """The value of a node whose flaw has been told already; whoever finds it says nothing more."""

    __slots__ = ()


BROKEN = Invalid()


@dataclass(frozen=True, slots=True)
class Span:
    """From (line, column) up to, not including, (end_line, end_column); all 1-based, columns in characters."""

    line: int
    column: int
    end_line: int
    end_column: int


class Node:
    """A value and where it stands. `value` is plain data: str, int, float, bool, list, dict, or BROKEN.

    `entries` of a mapping: key as text → (key node, value node); of a sequence: position as text → (None, value node).
    `plain`: an unquoted scalar, whose text is `text`.
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
        """Where a collection ends is known after its entries."""
        self._end = mark


def span_of(start: Any, end: Any) -> Span:
    """The span between two marks of the reader, which count from 0."""
    return Span(start.line + 1, start.column + 1, end.line + 1, end.column + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlError:
    """What is wrong with the YAML as such. `related`: other places and what is there. No message quotes a value: it may be secret."""

    code: str
    message: str
    span: Span
    hint: str
    path: FieldPath = ()
    """From the root of its document to the mapping or list around it."""
    related: tuple[tuple[Span, str], ...] = ()


@dataclass(slots=True)
class Document:
    """One document and what is wrong with its YAML; `root.value` is a dict unless a flaw says otherwise.

    `partial`: a key that cannot be one was left out with its value, so what seems missing may well be there.
    """

    root: Node
    flaws: list[YamlError] = field(default_factory=list)
    partial: bool = False
    dropped: list[tuple[str, Node]] = field(default_factory=list)
    """Values that are in the text and not in the tree, with their key as far as it is text: what they hold may be secret, too."""


@dataclass(slots=True)
class ParseResult:
    """All documents up to the first point that cannot be read, and the flaws of the file as a whole.

    `unfinished`: the document that could not be read to its end, as far as it was read, and the path to where it stopped.
    `complete` False: something of the file is not in `documents`.
    """

    documents: list[Document] = field(default_factory=list)
    flaws: list[YamlError] = field(default_factory=list)
    complete: bool = False
    unfinished: tuple[Node | None, FieldPath] = (None, ())


def enclosing_path(root: Node, span: Span) -> FieldPath:
    """The path of the innermost mapping or list around the start of `span`."""
    here = (span.line, span.column)
    path: FieldPath = ()
    node: Node | None = root
    while node is not None:
        entries, is_list = node.entries, isinstance(node.value, list)
        node = None
        for name, (_, below) in entries.items():
            around = below.span
            if below.entries and (around.line, around.column) <= here < (around.end_line, around.end_column):
                node = below
                path = (*path, int(name) if is_list else name)
                break
    return path
