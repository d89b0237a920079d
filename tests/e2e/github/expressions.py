"""Evaluates the part of GitHub's expression language that the workflows use.

It has contexts, texts, `&&`, `||`, `!`, `==`, `!=` and a few functions. Any other syntax raises an error,
so that a workflow that uses more fails its test. `names`: contexts and functions by name.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TOKEN = re.compile(r"\s*(?:('(?:[^']|'')*'|&&|\|\||==|!=|[!(),.]|[A-Za-z_][A-Za-z0-9_-]*)|(\S))")
_WHOLE = re.compile(r"\$\{\{(.*?)\}\}\s*\Z", re.DOTALL)
_PART = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_OPERATORS = (("||",), ("&&",), ("==", "!="))
"""From the one that binds least."""
STATUS = re.compile(r"\b(success|always|cancelled|failure)\(\)")

Names = Mapping[str, Any]


class Unknown(Exception):
    """The expression uses syntax that this evaluator does not support."""


def value(node: Any, names: Names) -> Any:
    """Replace the expressions in a YAML node. A text that is one expression becomes its value."""
    match node:
        case dict():
            return {key: value(inner, names) for key, inner in node.items()}
        case list():
            return [value(inner, names) for inner in node]
        case str() if (match := _WHOLE.match(node.strip())) and node.count("${{") == 1:
            return evaluate(match[1], names)
        case str():
            return _PART.sub(lambda part: text(evaluate(part[1], names)), node)
        case _:
            return node


def text(result: Any) -> str:
    """Render a value in text."""
    match result:
        case None:
            return ""
        case bool():
            return str(result).lower()
        case dict() | list():
            raise Unknown("an object inside a text")
        case _:
            return str(result)


def evaluate(expression: str, names: Names) -> Any:
    """Evaluate one expression. Raises Unknown."""
    parser = _Parser(expression, names)
    result = parser.parse()
    if parser.peek():
        raise Unknown(f"{expression}: unexpected {parser.peek()!r}")
    return result


class _Parser:
    def __init__(self, expression: str, names: Names) -> None:
        self._tokens, others = map(list, zip(*_TOKEN.findall(expression), strict=True))
        if any(others):
            raise Unknown(f"{expression}: {''.join(others)}")
        self._names = names

    def peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def consume(self, expected: str | None = None) -> str:
        if not self._tokens or (expected is not None and self._tokens[0] != expected):
            raise Unknown(f"expected {expected}, found {self.peek()!r}")
        return self._tokens.pop(0)

    def parse(self, level: int = 0) -> Any:
        """Parse operators of a level, and those that bind more."""
        if level == len(_OPERATORS):
            return self._parse_operand()
        left = self.parse(level + 1)
        while self.peek() in _OPERATORS[level]:
            operator, right = self.consume(), self.parse(level + 1)
            match operator:
                case "||":
                    left = left or right
                case "&&":
                    left = left and right
                case _:
                    left = _equal(left, right) is (operator == "==")
        return left

    def _parse_operand(self) -> Any:
        token = self.consume()
        if token == "!":
            return not self._parse_operand()
        if token == "(":
            inner = self.parse()
            self.consume(")")
            return inner
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token not in self._names:
            raise Unknown(f"no context and no function {token}")
        found = self._names[token]
        if callable(found):
            return found(*self._parse_arguments())
        while self.peek() == ".":
            self.consume()
            name = self.consume()
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _parse_arguments(self) -> list[Any]:
        self.consume("(")
        arguments = []
        while self.peek() != ")":
            arguments.append(self.parse())
            if self.peek() == ",":
                self.consume()
        self.consume(")")
        return arguments


def _equal(left: Any, right: Any) -> bool:
    """Compare texts as GitHub does: without case, and a missing property equals the empty text."""
    if not (isinstance(left, str | None) and isinstance(right, str | None)):
        raise Unknown("a comparison of something else than texts")
    return (left or "").casefold() == (right or "").casefold()


def functions(*, failed: bool, workspace: Path) -> Names:
    """The functions for a job or step.

    `failed`: whether a predecessor failed. Nothing is ever cancelled.
    """
    return {
        "success": lambda: not failed,
        "failure": lambda: failed,
        "always": lambda: True,
        "cancelled": lambda: False,
        "fromJSON": json.loads,
        "toJSON": json.dumps,
        "format": lambda template, *values: template.format(*map(text, values)),
        "hashFiles": lambda pattern: "hash" if list(workspace.glob(pattern)) else "",
    }
