"""YAML text to trees that know where each value stands. Decided here: what of YAML is refused.

The language is the part of YAML 1.2 that reads the same everywhere and can be reviewed line by line: no tags, anchors, aliases,
merge keys or directives, no null, no key twice, nothing invisible. Which fields a manifest has is not known here.
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

from reconciler.manifest.nodes import BROKEN, Document, FieldPath, Node, ParseResult, Span, YamlError, span_of
from reconciler.manifest.scalars import is_null, value_of
from reconciler.text.escape import is_invisible

DEEPEST = 16
"""Levels of nesting that are read; no manifest needs more than six."""

MOST_SHOWN = 200
"""Errors told of one file; more than that is another kind of file, or somebody's attempt to drown a review."""

_NOT_PLAIN = re.compile(r"[^\t\n\r -~]")
_STAND_IN = "\ufffd"
_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_DIRECTIVE = re.compile("^%", re.MULTILINE)
_SYNTAX_HINTS = (
    ("cannot start any token", "quote the value; indent with spaces, not tabs"),
    ("mapping values are not allowed", "quote a value that holds `: `, or check the indentation"),
    ("expected ':'", "neither `key: value` nor a list entry: check quotes and indentation"),
    ("expected <block end>", "check the indentation"),
    ("while scanning a quoted scalar", "a quote is never closed"),
    ("expected ',' or", "a bracket is never closed"),
)
_ONE_PLACE = "a reviewer reads one place, not two"


class _TooDeep(Exception):
    """Nesting beyond DEEPEST."""


def lines_of(text: str) -> list[str]:
    """The lines of a file as YAML counts them."""
    return _LINE_BREAK.split(text)


def read(text: str) -> ParseResult:
    """Reads a file. Never raises: whatever is wrong is a flaw with a span."""
    reading = ParseResult()
    if any(is_invisible(found[0]) for found in _NOT_PLAIN.finditer(text)):
        reading.flaws.extend(islice(_invisible(text), MOST_SHOWN))
        # positions stay, and the rest is read as well
        text = _NOT_PLAIN.sub(lambda found: _STAND_IN if is_invisible(found[0]) else found[0], text)
    builder = _Builder(text, wary=bool(reading.flaws))
    try:
        builder.run()
    except _TooDeep:
        reading.flaws.append(builder.too_deep())
    except MarkedYAMLError as broken:
        reading.flaws.append(_syntax(broken, text))
    except (YAMLError, ValueError, OverflowError, AttributeError, IndexError, TypeError, AssertionError) as broken:
        # The scanner trips over some broken input without saying where, such as "\UFFFFFFFF" and a lone %TAG.
        message = f"not YAML: {type(broken).__name__} while reading on from here"
        reading.flaws.append(
            YamlError(code="M101", message=message, span=builder.reached(), hint="check quotes and escapes")
        )
    else:
        reading.complete = True
    reading.documents = builder.finished
    reading.unfinished = (builder.stack[0] if builder.stack else None, builder.path())
    return reading


class _Builder:
    """Parser events to documents, without recursion: depth is data here, and a hostile file has plenty.

    `wary`: some characters are stand-ins, and a scalar that holds one is not what the author wrote.
    """

    def __init__(self, text: str, *, wary: bool) -> None:
        self.text = text
        self.wary = wary
        self.flaws: list[YamlError] = []
        self.partial = False
        self.dropped: list[tuple[str, Node]] = []
        self.finished: list[Document] = []
        self.stack: list[Node] = []
        self.keys: list[Node | None] = []  # per open collection: the mapping key that waits for its value
        self.mark: Any = None

    def run(self) -> None:
        """Reads to the end, or raises at the first point where that is impossible; `finished` holds the documents so far."""
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
                    node = Node(BROKEN, event.start_mark, event.end_mark)
                    self._flaw("M104", "an alias", node.span, f"write the value out: {_ONE_PLACE}")
                case DocumentStartEvent():
                    self.flaws, self.partial, self.dropped = [], False, []
                    if event.explicit:
                        self._directives(lines, previous_end, event.start_mark.line)
                    continue
                case DocumentEndEvent():
                    previous_end = event.end_mark.line
                    assert root is not None
                    self.finished.append(_checked(Document(root, self.flaws, self.partial, self.dropped)))
                    continue
                case _:
                    continue
            if self.stack:
                self._put(node)
            else:
                root = node

    def path(self) -> FieldPath:
        """From the root of the open document to the innermost collection."""
        path: list[str | int] = []
        for node, key in zip(self.stack[:-1], self.keys[:-1], strict=True):
            if isinstance(node.value, list):
                path.append(len(node.entries))
            elif key is None:  # a collection as a key: it has no name
                break
            else:
                path.append(_key_text(key))
        return tuple(path)

    def reached(self) -> Span:
        """Where the last event ended."""
        return Span(1, 1, 1, 1) if self.mark is None else span_of(self.mark, self.mark)

    def too_deep(self) -> YamlError:
        message, hint = f"nested deeper than {DEEPEST} levels", "no manifest needs more than six"
        return YamlError(code="M109", message=message, span=self.reached(), hint=hint)

    def _flaw(self, code: str, message: str, span: Span, hint: str, *related: tuple[Span, str]) -> None:
        self.flaws.append(
            YamlError(code=code, message=message, span=span, hint=hint, path=self.path(), related=related)
        )

    def _open(self, event: Any) -> None:
        self._refuse_properties(event)
        if len(self.stack) >= DEEPEST:
            raise _TooDeep
        empty: Any = {} if isinstance(event, MappingStartEvent) else []
        self.stack.append(Node(empty, event.start_mark, event.end_mark))
        self.keys.append(None)

    def _scalar(self, event: Any) -> Node:
        self._refuse_properties(event)
        text = event.value
        plain = event.style is None and event.ctag is None
        node = Node(text, event.start_mark, event.end_mark, text=text, plain=plain)
        if plain:
            node.value = value_of(text)
            if node.value is BROKEN and not is_null(text):  # null is told with its key, in `_checked`
                hint = "quote it if it is text; write a number in plain decimal digits"
                self._flaw("M110", "not every reader of YAML reads this number alike", node.span, hint)
        if self.wary and _STAND_IN in text:
            node.value = BROKEN
        return node

    def _refuse_properties(self, event: Any) -> None:
        span = span_of(event.start_mark, event.end_mark)
        if event.anchor is not None:
            self._flaw("M104", "an anchor", span, f"write the value out where it is used: {_ONE_PLACE}")
        if event.ctag is not None:
            self._flaw("M103", "a tag", span, "leave it out; to make text of it, quote it")

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
            if key.value is BROKEN:
                self.dropped.append((key.text, node))
            else:
                collection.entries[_key_text(key)] = (key, node)
                # True and 1.0 are 1 to Python's dict: such a key is its text, and its field's own check will refuse it.
                collection.value[key.value if type(key.value) is int else key.text] = node.value

    def _check_key(self, node: Node, mapping: Node) -> None:
        """A key that cannot be one becomes BROKEN, so that its value is dropped."""
        if node.plain and node.text == "<<":
            self._flaw("M105", "a merge key", node.span, f"write the fields out: {_ONE_PLACE}")
        elif isinstance(node.value, list | dict) or (node.plain and is_null(node.text)):
            hint = "a key is a word, as in `name: value`; quote it if it holds brackets"
            self._flaw("M111", "this cannot be a key", node.span, hint)
            node.text = (
                "" if node.plain else str(node.value)
            )  # whether its value may be a secret shows in the words of it
        elif node.value is not BROKEN and (first := mapping.entries.get(_key_text(node))) is not None:
            assert first[0] is not None
            related = (first[0].span, "first given here")
            self._flaw("M107", f"duplicate key `{_key_text(node)}`", node.span, "keep one of the two", related)
            node.value = BROKEN
            return
        elif node.value is not BROKEN:
            return
        node.value = BROKEN
        self.partial = True

    def _directives(self, lines: list[str], first: int, last: int) -> None:
        for number, line in enumerate(lines[first:last], first + 1):
            if line.startswith("%"):
                self._flaw("M102", "a directive", *_directive(number, line))


def _key_text(key: Node) -> str:
    """Keys that look alike are alike: 0 and "0" would be one key of a JSON object."""
    return str(key.value) if type(key.value) is int else key.text


def _checked(document: Document) -> Document:
    """Adds what shows only in the whole tree: values that are missing, and a root that is no mapping."""
    root = document.root
    if not isinstance(root.value, dict):
        missing = root.plain and is_null(root.text)
        message = "an empty document" if missing else "a document that is not a mapping"
        hint = "remove the extra ---" if missing else "a manifest begins with `apiVersion: reconciler/v1`"
        if root.value is not BROKEN or missing:
            document.flaws.append(YamlError(code="M106", message=message, span=root.span, hint=hint))
        return document
    waiting: list[tuple[Node, FieldPath]] = [(root, ())]
    while waiting:
        around, path = waiting.pop()
        for name, (key, node) in around.entries.items():
            if node.entries:
                waiting.append((node, (*path, name if key else int(name))))
            elif node.value is BROKEN and node.plain and is_null(node.text):
                message = f"`{name}` has no value" if key else "a list entry without a value"
                hint = "leave it out, or say what it is; a missing value means nothing here"
                span = (key or node).span
                document.flaws.append(YamlError(code="M116", message=message, span=span, hint=hint, path=path))
    return document


def _directive(number: int, line: str) -> tuple[Span, str]:
    return Span(number, 1, number, len(line) + 1), "leave it out: manifests are YAML 1.2"


def _syntax(broken: MarkedYAMLError, text: str) -> YamlError:
    mark = broken.problem_mark or broken.context_mark
    assert mark is not None  # the scanner and the parser always say where
    lines = lines_of(text)
    if lines[mark.line].startswith("%"):
        span, hint = _directive(mark.line + 1, lines[mark.line])
        return YamlError(code="M102", message="a directive", span=span, hint=hint)
    problem = " ".join(str(broken.problem).split())
    told = f"{broken.context} {problem}"
    hint = next((hint for words, hint in _SYNTAX_HINTS if words in told), "check quotes and indentation")
    related: tuple[tuple[Span, str], ...] = ()
    if broken.context_mark is not None and broken.context_mark.line != mark.line:
        related = ((span_of(broken.context_mark, broken.context_mark), str(broken.context)),)
    message = f"not YAML: {problem}"
    return YamlError(code="M101", message=message, span=span_of(mark, mark), hint=hint, related=related)


def _invisible(text: str) -> Iterator[YamlError]:
    for number, line in enumerate(lines_of(text), 1):
        for found in _NOT_PLAIN.finditer(line):
            if not is_invisible(found[0]):
                continue
            point, column = ord(found[0]), found.start() + 1
            written = f"\\u{point:04X}" if point <= 0xFFFF else f"\\U{point:08X}"
            message = f"an invisible character, U+{point:04X}"
            hint = f'a reviewer cannot see it: leave it out, or write "{written}" in double quotes'
            yield YamlError(code="M108", message=message, span=Span(number, column, number, column + 1), hint=hint)
