"""Reads YAML text into nodes with positions, and decides which parts of YAML are refused.

The language is the part of YAML 1.2 that all readers understand alike and that can be reviewed line
by line: no tags, anchors, aliases, merge keys, directives, nulls, duplicate keys or invisible
characters. This module does not know the fields of manifests.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from ruamel.yaml import YAML, events
from ruamel.yaml.error import YAMLError

from reconciler.policies.validation import FieldPath
from reconciler.text.escape import is_invisible

INVALID: Any = object()
"""The value of a node that already has an error; no second error is reported for it."""

DEEPEST = 16
"""Levels of nesting that are read; no manifest needs more than six."""

MOST_SHOWN = 200
"""Errors that are reported for one file; a larger number would hide the others in a review."""

# A carriage return alone ends a line in YAML, and not in a diff: what follows a comment looks like a part of it.
_NOT_ASCII_TEXT = re.compile(r"[^\t\n\r -~]|\r(?!\n)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STAND_IN = "\ufffd"
_SYNTAX_HINTS = (
    ("cannot start any token", "quote the value; indent with spaces, not with tabs"),
    ("mapping values are not allowed", "quote a value that contains `: `, or check the indentation"),
    ("expected ':'", "neither `key: value` nor a list entry: check quotes and indentation"),
    ("expected <block end>", "check the indentation"),
    ("while scanning a quoted scalar", "close the quote"),
    ("expected ',' or", "close the bracket"),
    ("", "check quotes and indentation"),
)
_ONE_PLACE = "a change must be visible where it takes effect"

# YAML 1.1 and 1.2 read 017, 0x1F, 1e3 and +5 differently; they are refused. `yes` and `no` stay
# text, as in YAML 1.2. Grouped digits such as 1_000_000 are a number here and text to strict YAML
# 1.2 readers; the schema accepts both.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,40})|[1-9][0-9]{0,2}(_[0-9]{3}){1,12}")
_FRACTION = re.compile(r"-?(0|[1-9][0-9]{0,40})\.[0-9]{1,40}")
_AMBIGUOUS_NUMBER = re.compile(
    r"[-+]?(0o[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+|\.(inf|Inf|INF)"
    r"|([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?)"
    r"|\.(nan|NaN|NAN)"
)
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(_NULL, INVALID),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class TextRange(NamedTuple):
    """From (line, column) up to, not including, (end_line, end_column); 1-based, in characters."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(slots=True, eq=False)
class Node:
    """A value and its position. `value`: str, int, float, bool, list, dict, or INVALID.

    `entries`: key as text → key and value; of a sequence: position as text → the item, twice.
    `plain`: an unquoted scalar, whose text is `text`.
    """

    value: Any
    span: TextRange
    text: str = ""
    plain: bool = False
    entries: dict[str, tuple["Node", "Node"]] = field(default_factory=dict)

    @property
    def is_null(self) -> bool:
        return self.plain and self.text in _NULL


@dataclass(frozen=True, slots=True)
class ManifestError:
    """An error in a file. `path`: to the surrounding mapping or list. `related`: with messages."""

    code: str
    message: str
    span: TextRange
    hint: str
    path: FieldPath = ()
    related: tuple[tuple[TextRange, str], ...] = ()


@dataclass(slots=True)
class YamlDocument:
    """One YAML document and its errors; `root.value` is a dict unless an error says otherwise.

    `root` None: all errors are before the first value. `complete` False: reading ended here.
    `partial`: an invalid key was dropped, so a field that seems to be missing may be in the text.
    `dropped`: dropped values and their keys (as far as they are text); they may hold secrets.
    """

    root: Node | None = None
    errors: list[ManifestError] = field(default_factory=list)
    complete: bool = True
    partial: bool = False
    dropped: list[tuple[str, Node]] = field(default_factory=list)


class _TooDeep(ValueError):
    """Nesting beyond DEEPEST."""


def plain_value(text: str) -> Any:
    """Return the value of an unquoted scalar; INVALID for null and for an ambiguous number."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return float(text)
    return INVALID if _AMBIGUOUS_NUMBER.fullmatch(text) else text


def lines_of(text: str) -> list[str]:
    """Split a file into lines as a reviewer counts them."""
    return re.split(r"\r?\n", text)


def read(text: str) -> list[YamlDocument]:
    """Read all documents of a file. A syntax error ends the last one."""
    reader = _Reader(text)
    try:
        reader.read_documents()
    except (YAMLError, ValueError, OverflowError, AttributeError, IndexError, TypeError, AssertionError) as error:
        reader.add_syntax_error(error)
    return [document for document in reader.documents if document.root or document.errors]


class _Reader:
    """Builds documents from parser events. `path`: names of open collections, of the root first."""

    def __init__(self, text: str) -> None:
        self.lines = lines_of(text)
        self.invisible = list(islice(_invisible_characters(self.lines), MOST_SHOWN))
        self.has_stand_ins = bool(self.invisible)
        if self.invisible:
            # The stand-in keeps all positions, so the rest of the file is read as well.
            text = _NOT_ASCII_TEXT.sub(lambda match: _STAND_IN if is_invisible(match[0]) else match[0], text)
        self.events = YAML(typ="safe", pure=True).parse(text)
        self.position = TextRange(1, 1, 1, 1)
        self.document = YamlDocument()
        self.documents = [self.document]
        self.path: list[str | int] = []

    def read_documents(self) -> None:
        """Read to the end, or raise at the first syntax error."""
        end_line = 0
        while (event := self._next_event()) is not None:
            if isinstance(event, events.DocumentStartEvent):
                for number in range(end_line, event.start_mark.line if event.explicit else 0):
                    if self.lines[number].startswith("%"):
                        self._refuse_directive(number)
                self.document.root = self._read_node(self._next_event(), "")
            elif isinstance(event, events.DocumentEndEvent):
                root = self.document.root
                assert root is not None  # every document has a value, if only an empty one
                if root.is_null:
                    self._error("M106", "an empty document", root.span, "remove the extra ---")
                elif not isinstance(root.value, dict) and root.value is not INVALID:
                    hint = "a manifest begins with `apiVersion: reconciler/v1`"
                    self._error("M106", "a document that is not a mapping", root.span, hint)
                self.document = YamlDocument()
                self.documents.append(self.document)
            end_line = event.end_mark.line

    def add_syntax_error(self, error: Any) -> None:
        """Report the error that ended the reading, and the invisible characters after it."""
        start = getattr(error, "context_mark", None)
        mark = getattr(error, "problem_mark", None) or start
        if isinstance(error, _TooDeep):
            message, hint = f"nested deeper than {DEEPEST} levels", "no manifest needs more than six levels"
            self._error("M109", message, self.position, hint)
        elif mark is None:
            # The scanner fails without a position on "\UFFFFFFFF" and on a lone %TAG.
            message = "not YAML: it cannot be read after this position"
            self._error("M101", message, self.position, "check quotes and escapes")
        elif self.lines[mark.line].startswith("%"):
            self._refuse_directive(mark.line)
        else:
            problem = " ".join(str(error.problem).split())
            hint = next(hint for words, hint in _SYNTAX_HINTS if words in f"{error.context} {problem}")
            elsewhere = start is not None and start.line != mark.line
            related = [(_span(start, start), str(error.context))] if elsewhere else []
            self._error("M101", f"not YAML: {problem}", _span(mark, mark), hint, *related)
        self.document.errors += self.invisible
        self.document.complete = False

    def _next_event(self) -> Any:
        """Return the next event; None: the end. Report the invisible characters before its end."""
        event = next(self.events, None)
        if event is not None:
            self.position = _span(event.end_mark, event.end_mark)
        while self.invisible and (event is None or self.invisible[0].span < self.position):
            self.document.errors.append(replace(self.invisible.pop(0), path=tuple(self.path[1:])))
        return event

    def _error(self, code: str, message: str, span: TextRange, hint: str, *related: tuple[TextRange, str]) -> None:
        self.document.errors.append(ManifestError(code, message, span, hint, tuple(self.path[1:]), related))

    def _refuse_directive(self, number: int) -> None:
        span = TextRange(number + 1, 1, number + 1, len(self.lines[number]) + 1)
        self._error("M102", "a directive", span, "remove it: manifests are YAML 1.2")

    def _read_node(self, event: Any, name: str | int) -> Node:
        """Read the value that begins with `event`. `name`: its key or list position."""
        span = _span(event.start_mark, event.end_mark)
        if isinstance(event, events.AliasEvent):
            self._error("M104", "an alias", span, f"write the value out: {_ONE_PLACE}")
            return Node(INVALID, span)
        if event.anchor is not None:
            self._error("M104", "an anchor", span, f"write the value out where it is used: {_ONE_PLACE}")
        if event.ctag is not None:
            self._error("M103", "a tag", span, "remove it; quote the value if it is text")
        if isinstance(event, events.ScalarEvent):
            return self._scalar(event, span)
        node = Node({} if isinstance(event, events.MappingStartEvent) else [], span)
        self.document.root = self.document.root or node
        self.path.append(name)
        if len(self.path) > DEEPEST:
            raise _TooDeep
        while not isinstance(child := self._next_event(), events.MappingEndEvent | events.SequenceEndEvent):
            if isinstance(event, events.MappingStartEvent):
                self._read_entry(node, child)
            else:
                item = self._read_node(child, len(node.value))
                if item.is_null:
                    self._error("M116", "a list entry without a value", item.span, "remove it, or add a value")
                node.entries[str(len(node.value))] = (item, item)
                node.value.append(item.value)
        node.span = _span(event.start_mark, child.end_mark)
        self.path.pop()
        return node

    def _read_entry(self, mapping: Node, event: Any) -> None:
        """Read a key and its value into `mapping`. An invalid key is dropped with its value."""
        key = self._read_node(event, "?")
        if isinstance(key.value, list | dict) or key.is_null:
            hint = "a key is a word, as in `name: value`; quote it if it contains brackets"
            self._error("M111", "this cannot be a key", key.span, hint)
            # The text of the key decides whether its value may be a secret.
            key = Node(INVALID, key.span, "" if key.plain else str(key.value))
        elif key.plain and key.text == "<<":
            self._error("M105", "a merge key", key.span, f"write the fields out: {_ONE_PLACE}")
            key.value = INVALID
        # Keys that look alike are equal: 0 and "0" would be one key of a JSON object. Python's dict
        # takes True and 1.0 for 1: such a key is stored as text, which the field's check refuses.
        is_integer = type(key.value) is int
        name = str(key.value) if is_integer else key.text
        if key.value is INVALID:
            self.document.partial = True
        elif name in mapping.entries:
            related = (mapping.entries[name][0].span, "the first one")
            self._error("M107", f"duplicate key `{name}`", key.span, "remove one of the two", related)
            key.value = INVALID
        value = self._read_node(self._next_event(), name)
        if key.value is INVALID:
            self.document.dropped.append((name, value))
            return
        if value.is_null:
            self._error("M116", f"`{name}` has no value", key.span, "add a value, or remove it if it may be absent")
        mapping.entries[name] = (key, value)
        mapping.value[key.value if is_integer else name] = value.value

    def _scalar(self, event: Any, span: TextRange) -> Node:
        text = event.value
        node = Node(text, span, text, plain=event.style is None and event.ctag is None)
        if node.plain:
            node.value = plain_value(text)
            if node.value is INVALID and not node.is_null:  # null is reported with its key
                hint = "quote it if it is text; write a number in plain decimal digits"
                self._error("M110", "YAML readers disagree on the value of this number", span, hint)
        if _SURROGATE.search(text):
            # As JSON writes what lies beyond U+FFFF. Here it would be two characters, and the name of nothing.
            hint = 'write the character itself, or all of it as one escape such as "\\U0001F600"'
            self._error("M101", "not YAML: an escape of half a character", span, hint)
            node.value = INVALID
        if self.has_stand_ins and _STAND_IN in text:
            node.value = INVALID
        return node


def _span(start: Any, end: Any) -> TextRange:
    """Return the span between two marks of the YAML parser, which count from 0."""
    return TextRange(start.line + 1, start.column + 1, end.line + 1, end.column + 1)


def _invisible_characters(lines: list[str]) -> Iterator[ManifestError]:
    for number, line in enumerate(lines, 1):
        for match in _NOT_ASCII_TEXT.finditer(line):
            if is_invisible(match[0]):
                point, column = ord(match[0]), match.start() + 1
                escape = f"\\u{point:04X}" if point <= 0xFFFF else f"\\U{point:08X}"
                hint = f'remove it, or write "{escape}" in double quotes, which a reviewer can see'
                if match[0] == "\r":
                    hint = "end lines with LF or CRLF"
                span = TextRange(number, column, number, column + 1)
                yield ManifestError("M108", f"an invisible character, U+{point:04X}", span, hint)
