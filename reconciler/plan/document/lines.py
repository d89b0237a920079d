"""The line structure of a plan file: one field per line, lists with one entry per line. What the fields mean is in reader.py.

A plan file is valid JSON, and also the one layout of it that can be read line by line; anything else is refused with its line.
"""

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from reconciler.plan.document.canonical import parse

LINE_MAX = 64 * 1024 * 1024
"""Characters. A line with 100,000 accepted readers has about seven million."""

_HINT = "a plan file holds one decision per line; do not reformat it"


@dataclass(frozen=True, slots=True)
class PlanLine:
    """A field of the document (`row` False), or one entry of the list that the last field opened, whose value was []."""

    number: int
    name: str
    value: Any
    row: bool = False


def entries(stream: TextIO) -> Iterator[PlanLine]:
    """The document's fields and list entries in order. Raises ValueError, naming the line, for anything `write` does not make."""
    lines = _lines(stream)
    number, text = next(lines)
    if text != "{":
        raise ValueError(f"line {number}: expected an opening brace alone on the line ({_HINT})")
    more = True
    for number, text in lines:
        if text == "}":
            if more:
                raise ValueError(f"line {number}: the document ends after a comma")
            if next(lines, None) is not None:
                raise ValueError(f"line {number + 1}: something follows the end of the plan")
            return
        if not more:
            raise ValueError(f"line {number}: a comma is missing before this line")
        body = text.removesuffix(",")
        opened = body.endswith(": [")
        name, value = _field(number, f"{body}]" if opened else body)
        yield PlanLine(number, name, value)
        more = (yield from _list(lines, name)) if opened else text.endswith(",")
    raise ValueError(f"line {number + 1}: the file ends here, in the middle of the plan")


def _list(lines: Iterator[tuple[int, str]], name: str) -> Generator[PlanLine, None, bool]:
    """Entries up to the closing bracket. Returns whether a comma follows it."""
    more = True
    number = 0
    for number, text in lines:
        if text in ("]", "],"):
            if more:
                raise ValueError(f"line {number}: the list {name!a} ends after a comma")
            return text == "],"
        if not more:
            raise ValueError(f"line {number}: a comma is missing before this line")
        more = text.endswith(",")
        yield PlanLine(number, name, _value(number, text.removesuffix(",")), row=True)
    raise ValueError(f"line {number + 1}: the file ends here, inside the list {name!a}")


def _lines(stream: TextIO) -> Iterator[tuple[int, str]]:
    number = 0
    while True:
        number += 1
        try:
            text = stream.readline(LINE_MAX)
        except UnicodeDecodeError:
            raise ValueError(
                f"after line {number - 1} it holds bytes that are not ASCII, and a plan file has none"
            ) from None
        if not text:
            if number == 1:
                raise ValueError("the file is empty")
            return
        if not text.endswith("\n"):
            raise ValueError(f"line {number}: the line is cut, or longer than {LINE_MAX:,} characters")
        yield number, text.rstrip("\r\n")


def _field(number: int, body: str) -> tuple[str, Any]:
    found = _value(number, f"{{{body}}}")
    if type(found) is not dict or len(found) != 1:
        raise ValueError(f"line {number}: expected one field ({_HINT})")
    return next(iter(found.items()))


def _value(number: int, text: str) -> Any:
    try:
        return parse(text)
    except json.JSONDecodeError:
        raise ValueError(f"line {number}: expected one complete JSON value ({_HINT})") from None
    except ValueError as wrong:
        raise ValueError(f"line {number}: {wrong}") from None
