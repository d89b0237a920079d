"""Turns the errors of a manifest's model into diagnostics with positions.

The rules are in policies/; this module adds words for pydantic's own errors, and a position.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.nodes import INVALID, FieldPath, Node, Span
from reconciler.manifest.source_file import SourceFile
from reconciler.policies.validation import ValidationIssue
from reconciler.text.suggest import did_you_mean

_UNKNOWN_KEY = frozenset({"extra_forbidden", "invalid_key"})
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "enum": "text",
    "literal_error": "text",
}
_ABSENCE_ERRORS = frozenset({"missing", "broken_rules", "too_short"})
"""Errors that a dropped key may have caused."""


def validation_diagnostics(
    source: SourceFile,
    root: Node,
    *,
    data: Mapping[str, Any],
    model: type[BaseModel],
    error: ValidationError,
    address: str,
    partial: bool,
) -> Iterator[Diagnostic]:
    """Yield the diagnostics of one manifest. `data`: what the model refused.

    A misspelt field is validated as if it were spelled right, so that one run reports all errors.
    `partial`: a key was dropped from `data`, so absence proves nothing.
    """
    errors = error.errors(include_url=False, include_input=False)
    formatter = ErrorFormatter(source, root, model, address)
    # Each round corrects one level of nesting.
    while unknown := [entry["loc"] for entry in errors if entry["type"] in _UNKNOWN_KEY]:
        for path in unknown:
            yield formatter.unknown_field(path)
        errors = []
        try:
            model.model_validate(_corrected(data, (), formatter.corrections), by_alias=True, by_name=False)
        except ValidationError as corrected_error:
            errors = corrected_error.errors(include_url=False, include_input=False)
    for entry in errors:
        if not (partial and entry["type"] in _ABSENCE_ERRORS):
            yield from formatter.diagnostics_for(entry)


def issue_diagnostics(
    source: SourceFile, root: Node, issues: Iterable[ValidationIssue], *, address: str
) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each issue; its path begins at the manifest."""
    formatter = ErrorFormatter(source, root, BaseModel, address)
    for issue in issues:
        yield formatter.issue(issue, ())


def context_text(address: str, path: Sequence[str | int]) -> str:
    """Return `in RetentionFloor/orders, spec.keep`."""
    field = ""
    for part in path:
        field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else part
    return f"in {', '.join(part for part in (address, field) if part)}" if address or field else ""


class ErrorFormatter:
    """Finds words and positions for the errors of one manifest.

    `corrections`: path of an unknown key → the closest known field, or None. `spelling`: path of a
    known field → the misspelt key in the text.
    """

    def __init__(self, source: SourceFile, root: Node, model: type[BaseModel], address: str) -> None:
        self.source = source
        self.root = root
        self.model = model
        self.address = address
        self.corrections: dict[FieldPath, str | None] = {}
        self.spelling: dict[FieldPath, str] = {}

    def unknown_field(self, path: FieldPath) -> Diagnostic:
        """Report an unknown key, and record the field that it probably stands for."""
        key, _, _ = self._find(path)
        name, parent = str(path[-1]), path[:-1]
        known = _field_names(self.model, parent)
        present = self._find(parent)[1].entries
        closest = did_you_mean(name, [field for field in known if field not in present])
        usable = closest is not None and (*parent, closest) not in self.spelling
        self.corrections[path] = closest if usable else None
        if usable:
            self.spelling[(*parent, str(closest))] = name
        hint = f"did you mean `{closest}`?" if closest else f"known fields: {', '.join(known)}"
        return self._diagnostic("M112", f"unknown field `{name}`", node=key, path=parent, hint=hint)

    def diagnostics_for(self, error: Mapping[str, Any]) -> Iterator[Diagnostic]:
        """Yield the diagnostics for one entry of pydantic's list of errors."""
        path: FieldPath = tuple(error["loc"])
        on_key = bool(path) and path[-1] == "[key]"
        if on_key:
            path = path[:-1]
        key, node, depth = self._find(path)
        if node.value is INVALID and depth == len(path):
            return
        if error["type"] in ("problems", "broken_rules"):
            for issue in error["ctx"]["problems"]:
                yield self.issue(issue, path, on_key=on_key)
            return
        if error["type"] == "missing":
            parent = key if len(path) > 1 else None
            hint = _example(self.model, path)
            yield self._diagnostic(
                "M113", f"missing field `{path[-1]}`", node=parent or node, path=path[:-1], hint=hint
            )
            return
        node = key if on_key and key is not None else node
        if error["type"] == "too_short" and node.entries:
            return  # pydantic counts only valid entries, and has reported the others
        code, message, hint = _words(error, node)
        yield self._diagnostic(code, message, node=node, path=path[:-1], hint=hint or _example(self.model, path))

    def issue(self, issue: ValidationIssue, parent: FieldPath, *, on_key: bool = False) -> Diagnostic:
        """Return an issue of the model at `parent` as a diagnostic."""
        path = parent + issue.at
        key, node, _ = self._find(path)
        # A rule about a complete mapping points at its key, not at all its lines.
        about_mapping = not issue.at and isinstance(node.value, dict)
        if key is not None and (on_key or issue.on_key or about_mapping):
            node = key
        context = path if about_mapping else path[:-1]
        if issue.code == "M114" and node.plain and not isinstance(node.value, str):
            code, message, hint = _unquoted(node)
        else:
            code, message, hint = issue.code, issue.message, issue.hint or _example(self.model, path)
        return self._diagnostic(code, message, node=node, path=context, hint=hint)

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

    def _diagnostic(self, code: str, message: str, *, node: Node | None, path: FieldPath, hint: str) -> Diagnostic:
        context = context_text(self.address, path)
        return self.source.diagnostic(code, message, span=_span(node), hint=hint, context=context)


def _span(node: Node | None) -> Span:
    assert node is not None
    span = node.span
    if node.entries and span.end_line > span.line:  # of a block, its first character
        return Span(span.line, span.column, span.line, span.column + 1)
    return span


def _words(error: Mapping[str, Any], node: Node) -> tuple[str, str, str]:
    """Return code, message and hint for one pydantic error about `node`."""
    kind, context = error["type"], error.get("ctx", {})
    match kind:
        case "enum" | "literal_error" if isinstance(node.value, str):
            known = re.findall(r"'([^']*)'", context["expected"])
            closest = did_you_mean(node.value, known)
            hint = f"did you mean `{closest}`?" if closest else f"one of {', '.join(known)}"
            return "M118", f"unknown value `{node.value}`", hint
        case "string_type" | "enum" | "literal_error" if node.plain:
            return _unquoted(node)
        case "int_type" | "float_type" if isinstance(node.value, str):
            quoted = not node.plain and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", node.value)
            return "M114", f"expected {_EXPECTED[kind]}, found text", "remove the quotes" if quoted else ""
        case _ if kind in _EXPECTED:
            return "M114", f"expected {_EXPECTED[kind]}, found {_type_name(node)}", ""
        case "too_short" | "string_too_short":
            return "M116", f"empty {_type_name(node).removeprefix('a ')}", "remove the field, or add a value"
        case "too_long":
            return "M119", f"a list of more than {context['max_length']:,}", "split it over several manifests"
        case "greater_than_equal":
            return "M119", f"less than {context['ge']:g}", f"at least {context['ge']:g}"
        case "less_than_equal":
            return "M119", f"more than {context['le']}", f"at most {context['le']}"
        case _:  # a later pydantic may have other errors; its own words are better than none
            return "M119", str(error["msg"]), "see the field in docs/manifests.md"


def _unquoted(node: Node) -> tuple[str, str, str]:
    return "M115", f"expected text, and YAML reads `{node.text}` as {_type_name(node)}", f'quote it: "{node.text}"'


def _type_name(node: Node) -> str:
    match node.value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return "text"


def _corrected(value: Any, path: FieldPath, corrections: Mapping[FieldPath, str | None]) -> Any:
    """Return the data with misspelt fields renamed and other unknown fields removed."""
    if isinstance(value, dict):
        names = {key: corrections.get((*path, key), key) for key in value}
        return {
            name: _corrected(value[key], (*path, name), corrections) for key, name in names.items() if name is not None
        }
    if isinstance(value, list):
        return [_corrected(entry, (*path, index), corrections) for index, entry in enumerate(value)]
    return value


def _model_at(model: type[BaseModel], path: FieldPath) -> type[BaseModel] | None:
    for part in path:
        annotation = next((f.annotation for f in model.model_fields.values() if f.alias == part), None)
        nested = next((t for t in (annotation, *get_args(annotation)) if _is_model(t)), None)
        if nested is None:
            return None
        model = nested
    return model


def _is_model(candidate: object) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def _field_names(model: type[BaseModel], path: FieldPath) -> Sequence[str]:
    nested = _model_at(model, path)
    return [str(field.alias) for field in nested.model_fields.values()] if nested else []


def _example(model: type[BaseModel], path: FieldPath) -> str:
    """Return `such as idleFor: 3d`: the first example of the closest field at or above `path`.

    For a mapping, return the names of its fields.
    """
    for end in range(len(path), 0, -1):
        if names := _field_names(model, path[:end]):
            return f"a mapping of {', '.join(names)}"
        parent = _model_at(model, path[: end - 1])
        field = next((f for f in parent.model_fields.values() if f.alias == path[end - 1]), None) if parent else None
        if field is not None and field.examples:
            example = field.examples[0]
            return f"such as {path[end - 1]}: {example if isinstance(example, str) else json.dumps(example)}"
    return ""
