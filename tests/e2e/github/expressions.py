"""Evaluates the part of GitHub's expression language that the workflows use.

It has contexts, literals, `&&`, `||`, `!`, `==`, `!=` and a few functions. Any other syntax raises
an error, so that a workflow that uses more fails its test.
"""

import json
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
    result = parser.either()
    if parser.peek():
        raise Unknown(f"{expression}: what is {parser.peek()!r}?")
    return result


class _Parser:
    def __init__(
        self, expression: str, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
    ) -> None:
        self._tokens = []
        at = 0
        while at < len(expression.rstrip()):
            match = _TOKEN.match(expression, at)
            if match is None:
                raise Unknown(f"{expression}: at {expression[at:]!r}")
            self._tokens.append(match[1])
            at = match.end()
        self._contexts = contexts
        self._functions = functions

    def peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def take(self, expected: str | None = None) -> str:
        if not self._tokens or (expected is not None and self._tokens[0] != expected):
            raise Unknown(f"expected {expected}, found {self.peek()!r}")
        return self._tokens.pop(0)

    def either(self) -> Any:
        value = self.both()
        while self.peek() == "||":
            self.take()
            right = self.both()
            value = value or right
        return value

    def both(self) -> Any:
        value = self.compared()
        while self.peek() == "&&":
            self.take()
            right = self.compared()
            value = value and right
        return value

    def compared(self) -> Any:
        value = self.single()
        while self.peek() in ("==", "!="):
            same = self.take() == "=="
            right = self.single()
            value = (_folded(value) == _folded(right)) is same
        return value

    def single(self) -> Any:
        token = self.take()
        if token == "!":
            return not self.single()
        if token == "(":
            inner = self.either()
            self.take(")")
            return inner
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token.isdigit():
            return int(token)
        if token in ("true", "false"):
            return token == "true"
        if self.peek() == "(":
            return self._called(token)
        if token not in self._contexts:
            raise Unknown(f"no context {token}")
        value = self._contexts[token]
        while self.peek() == ".":
            self.take()
            name = self.take()
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def _called(self, name: str) -> Any:
        self.take("(")
        arguments = []
        while self.peek() != ")":
            arguments.append(self.either())
            if self.peek() == ",":
                self.take()
        self.take(")")
        if name not in self._functions:
            raise Unknown(f"no function {name}")
        return self._functions[name](*arguments)


def _folded(operand: Any) -> Any:
    return operand.casefold() if isinstance(operand, str) else operand


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
        "join": lambda items, separator: separator.join(items),
        "hashFiles": lambda pattern: "hash" if list(workspace.glob(pattern)) else "",
    }
