"""Validates the data of a document against its model, with a position for every error.

The rules are in policies/; this module adds words for pydantic's own errors, and positions.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from reconciler.manifest.diagnostics import suggestion
from reconciler.manifest.yaml import INVALID, ManifestError, Node, Span
from reconciler.policies.base import Envelope
from reconciler.policies.validation import FieldPath, ValidationIssue
from reconciler.text.suggest import did_you_mean

_ABSENCE_ERRORS = frozenset({"missing", "broken_rules", "too_short"})
"""Errors that a dropped key may have caused."""
_NOT_TEXT = {
    "int_type": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_WRONG_TEXT = ("M114", "expected text, found {found}", "")
_EMPTY = ("M116", "empty {empty}", "remove the field, or add a value")
_WORDS: Mapping[str, tuple[str, str, str]] = {
    **{kind: ("M114", f"expected {expected}, found {{found}}", "") for kind, expected in _NOT_TEXT.items()},
    **dict.fromkeys(("string_type", "enum", "literal_error"), _WRONG_TEXT),
    **dict.fromkeys(("too_short", "string_too_short"), _EMPTY),
    "missing": ("M113", "missing field `{field}`", ""),
    "too_long": ("M119", "a list of more than {max_length:,}", "split it over several manifests"),
    "greater_than_equal": ("M119", "less than {ge:g}", "at least {ge:g}"),
    "less_than_equal": ("M119", "more than {le}", "at most {le}"),
}
"""Type of an error of pydantic → code, message and hint. An empty hint stands for an example."""
_OTHER_ERROR = ("M119", "{msg}", "see the field in docs/manifests.md")
"""A later pydantic may have other errors; its own words are better than none."""
_TYPE_NAMES = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a mapping"}


class Validator:
    """Validates one document and collects its errors.

    `errors`: in no particular order. `spelling`: path of a known field → the misspelt key in the text.
    """

    def __init__(self, root: Node, model: type[Envelope]) -> None:
        self.root = root
        self.model = model
        self.errors: list[ManifestError] = []
        self.spelling: dict[FieldPath, str] = {}

    def validate(self, *, partial: bool, now_ms: int) -> Envelope | None:
        """Return the manifest, or None; `errors` has the reasons.

        A misspelt field is validated as if it were spelled right, so that one run reports all
        errors. `partial`: a key was dropped, so absence proves nothing.
        """
        data = self._correct_keys({**self.root.value, "kind": self.model.__name__}, self.model, ())
        try:
            manifest = self.model.model_validate(data, by_alias=True, by_name=False)
        except ValidationError as error:
            for entry in error.errors(include_url=False, include_input=False):
                if not (partial and entry["type"] in _ABSENCE_ERRORS):
                    self._add_model_error(entry)
            return None
        if self.errors:
            return None
        for issue in manifest.problems_at(now_ms):
            self.add(issue)
        return manifest

    def _correct_keys(self, data: Mapping[Any, Any], model: type[BaseModel], path: FieldPath) -> dict[str, Any]:
        """Report unknown fields, and return the data without them or with the closest known field."""
        fields = _fields(model)
        corrected: dict[str, Any] = {}
        for key, value in data.items():
            name = str(key)
            if name not in fields:
                absent = [field for field in fields if field not in data]
                closest = did_you_mean(name, absent)
                hint = f"did you mean `{closest}`?" if closest else f"known fields: {', '.join(fields)}"
                self.add(ValidationIssue("M112", f"unknown field `{name}`", (*path, name), hint, on_key=True))
                if closest is None or closest in corrected:
                    continue
                self.spelling[(*path, closest)] = name
                name = closest
            nested = _nested_model(fields[name])
            if nested is not None and isinstance(value, dict):
                value = self._correct_keys(value, nested, (*path, name))
            corrected[name] = value
        return corrected

    def _add_model_error(self, entry: Mapping[str, Any]) -> None:
        """Report one entry of pydantic's list of errors."""
        kind, path = entry["type"], tuple(entry["loc"])
        on_key = path[-1:] == ("[key]",)
        path = path[:-1] if on_key else path
        key, node, depth = self._find(path)
        if depth == len(path) and (node.value is INVALID or (kind == "too_short" and node.entries)):
            return  # the error was reported, also for a list without its invalid items
        if key is not None and on_key:
            node = key
        if kind in ("problems", "broken_rules"):
            for issue in entry["ctx"]["problems"]:
                is_unquoted = issue.code == "M114" and _is_unquoted(node)
                self.add(_unquoted(node, ()) if is_unquoted else issue, path, on_key=on_key)
        else:
            self.add(model_issue(entry, node, path), on_key=on_key)

    def add(self, issue: ValidationIssue, parent: FieldPath = (), *, on_key: bool = False) -> None:
        """Report an issue at its position. `parent`: where the path of the issue begins."""
        path = parent + issue.at
        key, node, _ = self._find(path)
        # A rule about a complete mapping points at its key, not at all its lines.
        about_mapping = not issue.at and isinstance(node.value, dict)
        if key is not None and (on_key or issue.on_key or about_mapping):
            node = key
        span = node.span
        if node.entries and span.end_line > span.line:  # of a block, its first character
            span = Span(span.line, span.column, span.line, span.column + 1)
        hint = issue.hint or example(self.model, path)
        context = path if about_mapping else path[:-1]
        self.errors.append(ManifestError(issue.code, issue.message, span, hint, context))

    def _find(self, path: FieldPath) -> tuple[Node | None, Node, int]:
        """Return the key and value at `path` or at its closest existing parent, and that depth."""
        key: Node | None = None
        node = self.root
        for depth, part in enumerate(path):
            entry = node.entries.get(self.spelling.get(path[: depth + 1], str(part)))
            if entry is None:
                return key, node, depth
            key, node = entry
        return key, node, len(path)


def model_issue(entry: Mapping[str, Any], node: Node, path: FieldPath) -> ValidationIssue:
    """Translate an error of pydantic about `node`."""
    kind, context = entry["type"], entry.get("ctx", {})
    is_text = isinstance(node.value, str)
    if kind in ("enum", "literal_error") and is_text:
        known = re.findall(r"'([^']*)'", context["expected"])
        hint = suggestion(node.value, known, otherwise=f"one of {', '.join(known)}")
        return ValidationIssue("M118", f"unknown value `{node.value}`", path, hint)
    if kind not in _NOT_TEXT and _WORDS.get(kind) is _WRONG_TEXT and _is_unquoted(node):
        return _unquoted(node, path)
    code, message, hint = _WORDS.get(kind, _OTHER_ERROR)
    if kind in ("int_type", "float_type") and is_text and not node.plain:
        hint = "remove the quotes" if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", node.value) else hint
    found = _type_name(node)
    words = {"found": found, "empty": found.removeprefix("a "), "field": path[-1] if path else "", "msg": entry["msg"]}
    message, hint = message.format(**words, **context), hint.format(**words, **context)
    return ValidationIssue(code, message, path, hint, on_key=kind == "missing")


def example(model: type[BaseModel], path: FieldPath) -> str:
    """Return `such as idleFor: 3d`: an example of the deepest field at or above `path` that has one.

    For a mapping, return the names of its fields.
    """
    hint = ""
    current: type[BaseModel] | None = model
    for part in path:
        field = _fields(current).get(str(part)) if current else None
        if field is None:
            break
        current = _nested_model(field)
        if current is not None:
            hint = f"a mapping of {', '.join(_fields(current))}"
        elif field.examples:
            value = field.examples[0]
            hint = f"such as {part}: {value if isinstance(value, str) else json.dumps(value)}"
    return hint


def _is_unquoted(node: Node) -> bool:
    """Whether YAML reads an unquoted scalar as something else than text."""
    return node.plain and not isinstance(node.value, str)


def _unquoted(node: Node, path: FieldPath) -> ValidationIssue:
    message = f"expected text, and YAML reads `{node.text}` as {_type_name(node)}"
    return ValidationIssue("M115", message, path, f'quote it: "{node.text}"')


def _type_name(node: Node) -> str:
    return _TYPE_NAMES.get(type(node.value), "text")


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {str(field.alias): field for field in model.model_fields.values()}


def _nested_model(field: FieldInfo) -> type[BaseModel] | None:
    candidates = (field.annotation, *get_args(field.annotation))
    return next((type_ for type_ in candidates if isinstance(type_, type) and issubclass(type_, BaseModel)), None)
