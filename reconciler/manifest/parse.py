"""Reads one YAML document as one manifest, with a position for every error.

Finds the kind, corrects misspelt fields, and words pydantic's errors. The rules are in policies/.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from reconciler import policies
from reconciler.manifest.diagnostics import Diagnostic, Related, SourceFile
from reconciler.manifest.yaml import INVALID, ManifestError, Node, TextRange, YamlDocument
from reconciler.policies.base import Envelope
from reconciler.policies.cluster import Cluster
from reconciler.policies.external_reader import ExternalReader
from reconciler.policies.validation import FieldPath, ValidationIssue
from reconciler.policies.waiver import Waiver
from reconciler.text.suggest import backticks, did_you_mean, question, suggestion

_ABSENCE_ERRORS = frozenset({"missing", "broken_rules", "too_short"})
"""Errors that a dropped key may have caused."""
_EXPECTED = {
    **dict.fromkeys(("string_type", "enum", "literal_error"), "text"),
    "int_type": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
"""Errors about the type of a value → the expected type."""
_EMPTY = ("M116", "empty {empty}", "add a value, or remove the field if it may be absent")
_WORDS: Mapping[str, tuple[str, str, str]] = {
    **{kind: ("M114", f"expected {expected}, found {{actual}}", "") for kind, expected in _EXPECTED.items()},
    "too_short": _EMPTY,
    "string_too_short": _EMPTY,
    "missing": ("M113", "missing field `{field}`", ""),
    "too_long": ("M119", "a list of more than {max_length:,}", "split it over several manifests"),
    "greater_than_equal": ("M119", "less than {ge}", "at least {ge}"),
    "less_than_equal": ("M119", "more than {le}", "at most {le}"),
}
"""Type of an error of pydantic → code, message and hint. An empty hint stands for an example."""
_OTHER_ERROR = ("M119", "{msg}", "see the field in docs/manifests.md")
"""A later pydantic may have other errors; its own words are better than none."""
_TYPE_NAMES = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a mapping"}


def kinds() -> Mapping[str, type[Envelope]]:
    """Return the classes of all kinds by name: Cluster, policies, and the other settings."""
    classes: tuple[type[Envelope], ...] = (Cluster, *policies.POLICIES, ExternalReader, Waiver)
    return {kind.__name__: kind for kind in classes}


def parse_manifest(source: SourceFile, document: YamlDocument, *, now_ms: int) -> "ParsedManifest | None":
    """Return the manifest in `document`, and add its errors to those of the document.

    None: the document has no known kind or no name, or a syntax error ended it.
    """
    if document.root is None or not document.complete or not isinstance(document.root.value, dict):
        return None
    item = ParsedManifest(source, document, document.root)
    if item.model is not Envelope:
        item.validate(now_ms)
    item.check_kind()
    return item if item.name and item.model is not Envelope else None


def address_of(root: Node | None) -> str:
    """Return KIND/NAME as far as they are known. A misspelt kind becomes the closest one."""
    if root is None:
        return ""
    kind, name = _closest_kind(root) or _text_at(root, "kind"), _text_at(root, "metadata", "name")
    return "/".join(part for part in (kind, name) if part)


class ParsedManifest:
    """A document, its kind and its manifest.

    `model`: the class of the kind, also of a misspelt one; Envelope: unknown. `name`: may be empty.
    `cluster`: the name of the manifest's cluster; None: unknown. `manifest` None: it has errors.
    `spelling`: path of a known field → the misspelt key in the text.
    """

    def __init__(self, source: SourceFile, document: YamlDocument, root: Node) -> None:
        self.source = source
        self.document = document
        self.root = root
        self.model = kinds().get(_closest_kind(root) or "", Envelope)
        self.name = _text_at(root, "metadata", "name") or ""
        self.address = address_of(root)
        self.cluster = self.name if self.model is Cluster else _text_at(root, "metadata", "cluster")
        self.manifest: Envelope | None = None
        self.spelling: dict[FieldPath, str] = {}

    def diagnostic(
        self, code: str, message: str, path: FieldPath, hint: str, *related: tuple["ParsedManifest", FieldPath, str]
    ) -> Diagnostic:
        """Return a diagnostic about the value at `path`. `related`: manifest, path, message."""
        error = ManifestError(code, message, self._span(path), hint, path[:-1])
        positions = (Related(other.source.location(other._span(at)), text) for other, at, text in related)
        return self.source.diagnostic(error, self.address, positions)

    def check_kind(self) -> None:
        known = f"one of {', '.join(kinds())}"
        kind = self.root.value.get("kind")
        if kind is None:
            self._add(ValidationIssue("M113", "missing field `kind`", ("kind",), known))
        elif isinstance(kind, str) and kind not in kinds():
            hint = suggestion(kind, kinds(), otherwise=known, quote=backticks)
            self._add(ValidationIssue("M120", f"unknown kind `{kind}`", ("kind",), hint))
        elif not isinstance(kind, str) and kind is not INVALID:
            self._add(ValidationIssue("M114", "expected text", ("kind",), known))

    def validate(self, now_ms: int) -> None:
        """Set `manifest`, or add all errors to those of the document.

        A misspelt field is validated as if it were spelled right, so that one run reports all
        errors. If a key was dropped, absence proves nothing.
        """
        count = len(self.document.errors)
        data = self._correct_keys({**self.root.value, "kind": self.model.__name__}, self.model, ())
        try:
            manifest = self.model.model_validate(data, by_alias=True, by_name=False)
        except ValidationError as error:
            for entry in error.errors(include_url=False, include_input=False):
                if not (self.document.partial and entry["type"] in _ABSENCE_ERRORS):
                    self._add_model_error(entry)
            return
        if len(self.document.errors) == count:
            for issue in manifest.problems_at(now_ms):
                self._add(issue)
            self.manifest = manifest.with_location(self.source.location(self.root.span))

    def _correct_keys(self, data: Mapping[Any, Any], model: type[BaseModel], path: FieldPath) -> dict[str, Any]:
        """Report unknown fields; return the data with the closest known fields instead."""
        fields = _fields(model)
        corrected: dict[str, Any] = {}
        for key, value in data.items():
            name = str(key)
            if name not in fields:
                absent = [field for field in fields if field not in data]
                closest = did_you_mean(name, absent)
                hint = question(closest, otherwise=f"known fields: {', '.join(fields)}", quote=backticks)
                self._add(ValidationIssue("M112", f"unknown field `{name}`", (*path, name), hint, on_key=True))
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
        kind, path = entry["type"], tuple(entry["loc"])
        on_key = path[-1:] == ("[key]",)
        path = path[:-1] if on_key else path
        key, node = self._find(path)
        if node.value is INVALID or (kind == "too_short" and node.entries):
            return  # the error was reported, also for a list without its invalid items
        node = key if on_key else node
        if kind in ("problems", "broken_rules"):
            parent, issues = path, entry["ctx"]["problems"]
        else:
            parent, issues = (), [model_issue(entry, node, path)]
        expects_text = _EXPECTED.get(kind, "text") == "text"
        for issue in issues:
            if issue.code == "M114" and expects_text and node.plain and not isinstance(node.value, str):
                message = f"expected text, and YAML reads `{node.text}` as {_TYPE_NAMES[type(node.value)]}"
                issue = replace(issue, code="M115", message=message, hint=f'quote it: "{node.text}"')
            self._add(issue, parent, on_key=on_key)

    def _add(self, issue: ValidationIssue, parent: FieldPath = (), *, on_key: bool = False) -> None:
        """Report an issue at its position. `parent`: where the path of the issue begins."""
        path = parent + issue.at
        key, node = self._find(path)
        # A rule about a complete mapping points at its key, not at all its lines.
        about_mapping = not issue.at and isinstance(node.value, dict)
        node = key if on_key or issue.on_key or about_mapping else node
        span = node.span
        if node.entries and span.end_line > span.line:  # of a block, its first character
            span = TextRange(span.line, span.column, span.line, span.column + 1)
        hint = issue.hint or example(self.model, path)
        context = path if about_mapping else path[:-1]
        self.document.errors.append(ManifestError(issue.code, issue.message, span, hint, context))

    def _span(self, path: FieldPath) -> TextRange:
        """Return the span of the value at `path`. A list or mapping has that of its key."""
        key, node = self._find(path)
        return key.span if node.entries else node.span

    def _find(self, path: FieldPath) -> tuple[Node, Node]:
        """Return the key and value at `path` or at its closest existing parent."""
        entry = self.root, self.root
        for depth, part in enumerate(path, 1):
            name = self.spelling.get(path[:depth], str(part))
            if name not in entry[1].entries:
                break
            entry = entry[1].entries[name]
        return entry


def model_issue(entry: Mapping[str, Any], node: Node, path: FieldPath) -> ValidationIssue:
    """Translate an error of pydantic about `node`."""
    kind, context = entry["type"], entry.get("ctx", {})
    is_text = isinstance(node.value, str)
    if kind in ("enum", "literal_error") and is_text:
        known = re.findall(r"'([^']*)'", context["expected"])
        hint = suggestion(node.value, known, otherwise=f"one of {', '.join(known)}", quote=backticks)
        return ValidationIssue("M118", f"unknown value `{node.value}`", path, hint)
    code, message, hint = _WORDS.get(kind, _OTHER_ERROR)
    if kind in ("int_type", "float_type") and is_text and not node.plain:
        hint = "remove the quotes" if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", node.value) else hint
    name = _TYPE_NAMES.get(type(node.value), "text")
    # A bound of a float is one, too: 100.0.
    values = {key: int(of) if isinstance(of, float) and of.is_integer() else of for key, of in context.items()}
    words = {"actual": name, "empty": name.removeprefix("a "), "field": path[-1] if path else "", "msg": entry["msg"]}
    message, hint = message.format(**words, **values), hint.format(**words, **values)
    return ValidationIssue(code, message, path, hint, on_key=kind == "missing")


def example(model: type[BaseModel], path: FieldPath) -> str:
    """Return an example such as `such as idleFor: 3d`.

    It is one of the deepest field at or above `path` that has one; a mapping has its fields' names.
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


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {str(field.alias): field for field in model.model_fields.values()}


def _nested_model(field: FieldInfo) -> type[BaseModel] | None:
    candidates = (field.annotation, *get_args(field.annotation))
    return next((type_ for type_ in candidates if isinstance(type_, type) and issubclass(type_, BaseModel)), None)


def _closest_kind(root: Node) -> str | None:
    kind, known = _text_at(root, "kind"), kinds()
    return kind if kind in known else did_you_mean(kind or "", known)


def _text_at(root: Node, *path: str) -> str | None:
    value = root.value
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value else None
