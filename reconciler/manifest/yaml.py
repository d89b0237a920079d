"""Reads YAML text into nodes with positions, and decides which parts of YAML are refused.

The language is the part of YAML 1.2 that all readers understand alike and that can be reviewed line
by line: no tags, anchors, aliases, merge keys or directives, no null, no duplicate keys, no
invisible characters. This module does not know the fields of manifests.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from reconciler.manifest.nodes import INVALID, Document, FieldPath, Node, ParseResult, Span, YamlError, span_of
from reconciler.text.escape import is_invisible

DEEPEST = 16
"""Levels of nesting that are read; no manifest needs more than six."""

MOST_SHOWN = 200
"""Errors that are reported for one file; a larger number would hide the others in a review."""

_NOT_ASCII_TEXT = re.compile(r"[^\t\n\r -~]")
_STAND_IN = "\ufffd"
_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_DIRECTIVE = re.compile("^%", re.MULTILINE)
_SYNTAX_HINTS = (
    ("cannot start any token", "quote the value; indent with spaces, not with tabs"),
    ("mapping values are not allowed", "quote a value that contains `: `, or check the indentation"),
    ("expected ':'", "neither `key: value` nor a list entry: check quotes and indentation"),
    ("expected <block end>", "check the indentation"),
    ("while scanning a quoted scalar", "close the quote"),
    ("expected ',' or", "close the bracket"),
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
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), INVALID),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMERIC = frozenset("-+.0123456789")


class _TooDeep(Exception):
    """Nesting beyond DEEPEST."""


def plain_value(text: str) -> Any:
    """Return the value of an unquoted scalar; INVALID for null and for an ambiguous number."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMERIC:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return float(text)
    return INVALID if _AMBIGUOUS_NUMBER.fullmatch(text) else text


def lines_of(text: str) -> list[str]:
    """Split a file into lines as YAML counts them."""
    return _LINE_BREAK.split(text)


def read(text: str) -> ParseResult:
    """Read a file. Never raises: every problem is an error with a span in the result."""
    result = ParseResult()
    if any(is_invisible(match[0]) for match in _NOT_ASCII_TEXT.finditer(text)):
        result.errors.extend(islice(_invisible_characters(text), MOST_SHOWN))
        # The stand-in keeps all positions, so the rest of the file is read as well.
        text = _NOT_ASCII_TEXT.sub(lambda match: _STAND_IN if is_invisible(match[0]) else match[0], text)
    builder = _Builder(text, has_stand_ins=bool(result.errors))
    try:
        builder.run()
    except _TooDeep:
        result.errors.append(builder.too_deep())
    except MarkedYAMLError as error:
        result.errors.append(_syntax_error(error, text))
    except (YAMLError, ValueError, OverflowError, AttributeError, IndexError, TypeError, AssertionError) as error:
        # The scanner fails on some input without a position, such as "\UFFFFFFFF" and a lone %TAG.
        message = f"not YAML: {type(error).__name__} after this position"
        hint = "check quotes and escapes"
        result.errors.append(YamlError(code="M101", message=message, span=builder.last_position(), hint=hint))
    else:
        result.complete = True
    result.documents = builder.documents
    result.unfinished = (builder.stack[0] if builder.stack else None, builder.path())
    return result


class _Builder:
    """Builds documents from parser events without recursion: a hostile file may nest deeply.

    `has_stand_ins`: a scalar that holds a stand-in is not what the author wrote.
    """

    def __init__(self, text: str, *, has_stand_ins: bool) -> None:
        self.text = text
        self.has_stand_ins = has_stand_ins
        self.errors: list[YamlError] = []
        self.partial = False
        self.dropped: list[tuple[str, Node]] = []
        self.documents: list[Document] = []
        self.stack: list[Node] = []
        self.keys: list[Node | None] = []  # per open collection: the mapping key that waits for its value
        self.mark: Any = None

    def run(self) -> None:
        """Read to the end, or raise at the first syntax error; `documents` holds those before."""
        lines = lines_of(self.text) if _DIRECTIVE.search(self.text) else []
        root: Node | None = None
        previous_end = 0
        for event in YAML(typ="safe", pure=True).parse(self.text):
            self.mark = event.end_mark
            match event:
                case ScalarEvent():
                    node = self._scalar(event)
                case MappingStartEvent() | SequenceStartEvent():
                    self._open(event)
                    continue
                case MappingEndEvent() | SequenceEndEvent():
                    node = self.stack.pop()
                    self.keys.pop()
                    node.set_end(event.end_mark)
                case AliasEvent():
                    node = Node(INVALID, event.start_mark, event.end_mark)
                    self._error("M104", "an alias", node.span, f"write the value out: {_ONE_PLACE}")
                case DocumentStartEvent():
                    self.errors, self.partial, self.dropped = [], False, []
                    if event.explicit:
                        self._directives(lines, previous_end, event.start_mark.line)
                    continue
                case DocumentEndEvent():
                    previous_end = event.end_mark.line
                    assert root is not None
                    self.documents.append(_with_tree_errors(Document(root, self.errors, self.partial, self.dropped)))
                    continue
                case _:
                    continue
            if self.stack:
                self._put(node)
            else:
                root = node

    def path(self) -> FieldPath:
        """Return the path from the root of the open document to its innermost collection."""
        path: list[str | int] = []
        for node, key in zip(self.stack[:-1], self.keys[:-1], strict=True):
            if isinstance(node.value, list):
                path.append(len(node.entries))
            elif key is None:  # a collection as a key has no name
                break
            else:
                path.append(_key_text(key))
        return tuple(path)

    def last_position(self) -> Span:
        """Return the end of the last event."""
        return Span(1, 1, 1, 1) if self.mark is None else span_of(self.mark, self.mark)

    def too_deep(self) -> YamlError:
        message, hint = f"nested deeper than {DEEPEST} levels", "no manifest needs more than six levels"
        return YamlError(code="M109", message=message, span=self.last_position(), hint=hint)

    def _error(self, code: str, message: str, span: Span, hint: str, *related: tuple[Span, str]) -> None:
        path = self.path()
        self.errors.append(YamlError(code=code, message=message, span=span, hint=hint, path=path, related=related))

    def _open(self, event: Any) -> None:
        self._refuse_anchor_and_tag(event)
        if len(self.stack) >= DEEPEST:
            raise _TooDeep
        empty: Any = {} if isinstance(event, MappingStartEvent) else []
        self.stack.append(Node(empty, event.start_mark, event.end_mark))
        self.keys.append(None)

    def _scalar(self, event: Any) -> Node:
        self._refuse_anchor_and_tag(event)
        text = event.value
        plain = event.style is None and event.ctag is None
        node = Node(text, event.start_mark, event.end_mark, text=text, plain=plain)
        if plain:
            node.value = plain_value(text)
            if node.value is INVALID and not _is_null(node):  # null is reported with its key
                hint = "quote it if it is text; write a number in plain decimal digits"
                self._error("M110", "YAML readers disagree on the value of this number", node.span, hint)
        if self.has_stand_ins and _STAND_IN in text:
            node.value = INVALID
        return node

    def _refuse_anchor_and_tag(self, event: Any) -> None:
        span = span_of(event.start_mark, event.end_mark)
        if event.anchor is not None:
            self._error("M104", "an anchor", span, f"write the value out where it is used: {_ONE_PLACE}")
        if event.ctag is not None:
            self._error("M103", "a tag", span, "remove it; quote the value if it is text")

    def _put(self, node: Node) -> None:
        collection, key = self.stack[-1], self.keys[-1]
        if isinstance(collection.value, list):
            collection.entries[str(len(collection.value))] = (None, node)
            collection.value.append(node.value)
        elif key is None:
            self._check_key(node, collection)
            self.keys[-1] = node
        else:
            self.keys[-1] = None
            if key.value is INVALID:
                self.dropped.append((key.text, node))
            else:
                collection.entries[_key_text(key)] = (key, node)
                # To Python's dict, True and 1.0 equal 1: such a key is stored as its text, which
                # the field's own check refuses.
                collection.value[key.value if type(key.value) is int else key.text] = node.value

    def _check_key(self, node: Node, mapping: Node) -> None:
        """Mark a key that cannot be one as INVALID, so that its value is dropped."""
        if node.plain and node.text == "<<":
            self._error("M105", "a merge key", node.span, f"write the fields out: {_ONE_PLACE}")
        elif isinstance(node.value, list | dict) or _is_null(node):
            hint = "a key is a word, as in `name: value`; quote it if it contains brackets"
            self._error("M111", "this cannot be a key", node.span, hint)
            # The text of the key decides whether its value may be a secret.
            node.text = "" if node.plain else str(node.value)
        elif node.value is not INVALID and (first := mapping.entries.get(_key_text(node))) is not None:
            assert first[0] is not None
            related = (first[0].span, "the first one")
            self._error("M107", f"duplicate key `{_key_text(node)}`", node.span, "remove one of the two", related)
            node.value = INVALID
            return
        elif node.value is not INVALID:
            return
        node.value = INVALID
        self.partial = True

    def _directives(self, lines: list[str], first: int, last: int) -> None:
        for number, line in enumerate(lines[first:last], first + 1):
            if line.startswith("%"):
                self._error("M102", "a directive", *_directive(number, line))


def _is_null(node: Node) -> bool:
    return node.plain and _CONSTANTS.get(node.text) is INVALID


def _key_text(key: Node) -> str:
    """Keys that look alike are equal: 0 and "0" would be one key of a JSON object."""
    return str(key.value) if type(key.value) is int else key.text


def _with_tree_errors(document: Document) -> Document:
    """Add the errors that need the complete tree: a root that is no mapping, and null values."""
    root = document.root
    if not isinstance(root.value, dict):
        empty = _is_null(root)
        message = "an empty document" if empty else "a document that is not a mapping"
        hint = "remove the extra ---" if empty else "a manifest begins with `apiVersion: reconciler/v1`"
        if root.value is not INVALID or empty:
            document.errors.append(YamlError(code="M106", message=message, span=root.span, hint=hint))
        return document
    pending: list[tuple[Node, FieldPath]] = [(root, ())]
    while pending:
        parent, path = pending.pop()
        for name, (key, node) in parent.entries.items():
            if node.entries:
                pending.append((node, (*path, name if key else int(name))))
            elif node.value is INVALID and _is_null(node):
                message = f"`{name}` has no value" if key else "a list entry without a value"
                hint = "remove it, or add a value"
                span = (key or node).span
                document.errors.append(YamlError(code="M116", message=message, span=span, hint=hint, path=path))
    return document


def _directive(number: int, line: str) -> tuple[Span, str]:
    return Span(number, 1, number, len(line) + 1), "remove it: manifests are YAML 1.2"


def _syntax_error(error: MarkedYAMLError, text: str) -> YamlError:
    mark = error.problem_mark or error.context_mark
    assert mark is not None  # the scanner and the parser always give a position
    lines = lines_of(text)
    if lines[mark.line].startswith("%"):
        span, hint = _directive(mark.line + 1, lines[mark.line])
        return YamlError(code="M102", message="a directive", span=span, hint=hint)
    problem = " ".join(str(error.problem).split())
    description = f"{error.context} {problem}"
    hint = next((hint for words, hint in _SYNTAX_HINTS if words in description), "check quotes and indentation")
    related: tuple[tuple[Span, str], ...] = ()
    if error.context_mark is not None and error.context_mark.line != mark.line:
        related = ((span_of(error.context_mark, error.context_mark), str(error.context)),)
    message = f"not YAML: {problem}"
    return YamlError(code="M101", message=message, span=span_of(mark, mark), hint=hint, related=related)


def _invisible_characters(text: str) -> Iterator[YamlError]:
    for number, line in enumerate(lines_of(text), 1):
        for match in _NOT_ASCII_TEXT.finditer(line):
            if not is_invisible(match[0]):
                continue
            point, column = ord(match[0]), match.start() + 1
            escape = f"\\u{point:04X}" if point <= 0xFFFF else f"\\U{point:08X}"
            message = f"an invisible character, U+{point:04X}"
            hint = f'remove it, or write "{escape}" in double quotes, which a reviewer can see'
            yield YamlError(code="M108", message=message, span=Span(number, column, number, column + 1), hint=hint)
