"""Evaluates the part of GitHub's expression language that the workflows use.

It has contexts, literals, `&&`, `||`, `!`, `==`, `!=` and a few functions. Any other syntax raises
an error, so that a workflow that uses more fails its test.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|&&|\|\||==|!=|[!(),.]|\d+|[A-Za-z_][A-Za-z0-9_-]*|\Z)")
_WHOLE = re.compile(r"\$\{\{(.*?)\}\}\s*\Z", re.DOTALL)
_PART = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
STATUS = re.compile(r"\b(success|always|cancelled|failure)\(\)")


class Unknown(Exception):
    """The expression uses syntax that this evaluator does not support."""


def value(template: str, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """Replace the expressions in a YAML scalar.

    A scalar that is one expression becomes its value, otherwise text.
    """
    if (match := _WHOLE.match(template.strip())) and template.count("${{") == 1:
        return evaluate(match[1], contexts, functions)
    return _PART.sub(lambda part: text(evaluate(part[1], contexts, functions)), template)


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


def evaluate(expression: str, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """Evaluate one expression. Raises Unknown."""
    parser = _Parser(expression, contexts, functions)
    result = parser.parse_or()
    if parser.peek():
        raise Unknown(f"{expression}: unexpected {parser.peek()!r}")
    return result


class _Parser:
    def __init__(
        self, expression: str, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
    ) -> None:
        self._tokens = []
        position = 0
        while position < len(expression.rstrip()):
            match = _TOKEN.match(expression, position)
            if match is None:
                raise Unknown(f"{expression}: at {expression[position:]!r}")
            self._tokens.append(match[1])
            position = match.end()
        self._contexts = contexts
        self._functions = functions

    def peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def consume(self, expected: str | None = None) -> str:
        if not self._tokens or (expected is not None and self._tokens[0] != expected):
            raise Unknown(f"expected {expected}, found {self.peek()!r}")
        return self._tokens.pop(0)

    def parse_or(self) -> Any:
        value = self.parse_and()
        while self.peek() == "||":
            self.consume()
            right = self.parse_and()
            value = value or right
        return value

    def parse_and(self) -> Any:
        value = self.parse_comparison()
        while self.peek() == "&&":
            self.consume()
            right = self.parse_comparison()
            value = value and right
        return value

    def parse_comparison(self) -> Any:
        value = self.parse_operand()
        while self.peek() in ("==", "!="):
            equal = self.consume() == "=="
            right = self.parse_operand()
            value = _equal(value, right) is equal
        return value

    def parse_operand(self) -> Any:
        token = self.consume()
        if token == "!":
            return not self.parse_operand()
        if token == "(":
            inner = self.parse_or()
            self.consume(")")
            return inner
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token.isdigit():
            return int(token)
        if token in ("true", "false"):
            return token == "true"
        if self.peek() == "(":
            return self._call_function(token)
        if token not in self._contexts:
            raise Unknown(f"no context {token}")
        value = self._contexts[token]
        while self.peek() == ".":
            self.consume()
            name = self.consume()
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def _call_function(self, name: str) -> Any:
        self.consume("(")
        arguments = []
        while self.peek() != ")":
            arguments.append(self.parse_or())
            if self.peek() == ",":
                self.consume()
        self.consume(")")
        if name not in self._functions:
            raise Unknown(f"no function {name}")
        return self._functions[name](*arguments)


def _equal(left: Any, right: Any) -> bool:
    """Compare as GitHub does: texts without case, values of different types as numbers.

    So a missing property equals the empty text.
    """
    if isinstance(left, str) and isinstance(right, str):
        return left.casefold() == right.casefold()
    if type(left) is type(right):
        return bool(left == right)
    return _number(left) == _number(right)


def _number(operand: Any) -> float:
    """Convert a value to a number; a text that is not a number, and an object, are NaN."""
    match operand:
        case None:
            return 0.0
        case str():
            try:
                return float(operand.strip() or 0)
            except ValueError:
                return math.nan
        case bool() | int() | float():
            return float(operand)
        case _:
            return math.nan


def functions(*, failed: bool, workspace: Path) -> dict[str, Callable[..., Any]]:
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
