"""What a model refused, told as diagnostics with positions. Which rules there are is in kinds/; here they get words and a place."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.nodes import BROKEN, Node, Span
from reconciler.manifest.source_file import SourceFile
from reconciler.policies.validation import ValidationIssue
from reconciler.text.suggest import did_you_mean

Loc = tuple[str | int, ...]
_UNKNOWN_KEY = frozenset({"extra_forbidden", "invalid_key"})
_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "enum": "text",
    "literal_error": "text",
}
_MAY_BE_LEFT_OUT = frozenset({"missing", "broken_rules", "too_short"})


def validation_diagnostics(
    source: SourceFile,
    root: Node,
    *,
    data: Mapping[str, Any],
    model: type[BaseModel],
    refused: ValidationError,
    address: str,
    partial: bool,
) -> Iterator[Diagnostic]:
    """The diagnostics of one manifest. `data`: what the model refused. `partial`: some key was left out of `data`.

    Misspelt fields are read on as if they had been spelled right, so that one run tells everything.
    """
    errors = refused.errors(include_url=False, include_input=False)
    teller = ErrorFormatter(source, root, model, address)
    while unknown := [
        error["loc"] for error in errors if error["type"] in _UNKNOWN_KEY
    ]:  # each round is one level deeper
        for loc in unknown:
            yield teller.unknown_field(loc)
        errors = []
        try:
            model.model_validate(_repaired(data, (), teller.meant), by_alias=True, by_name=False)
        except ValidationError as again:
            errors = again.errors(include_url=False, include_input=False)
    for error in errors:
        if not (partial and error["type"] in _MAY_BE_LEFT_OUT):
            yield from teller.told(error)


def problem_diagnostics(
    source: SourceFile, root: Node, problems: Iterable[ValidationIssue], *, address: str
) -> Iterator[Diagnostic]:
    """Problems whose paths are below the whole manifest."""
    for problem in problems:
        yield from ErrorFormatter(source, root, BaseModel, address).problem(problem, ())


def where_text(address: str, loc: Loc) -> str:
    """`in RetentionFloor/orders, spec.keep`."""
    path = ""
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return f"in {', '.join(part for part in (address, path) if part)}" if address or path else ""


class ErrorFormatter:
    """Words and places for the errors of one manifest.

    `meant`: path of an unknown key → the field it was taken for, or None; `written`: path of such a field → how it is written.
    """

    def __init__(self, source: SourceFile, root: Node, model: type[BaseModel], address: str) -> None:
        self.source = source
        self.root = root
        self.model = model
        self.address = address
        self.meant: dict[Loc, str | None] = {}
        self.written: dict[Loc, str] = {}

    def unknown_field(self, loc: Loc) -> Diagnostic:
        key_node, _ = self._find(loc)[:2]
        name = str(loc[-1])
        known = _fields_at(self.model, loc[:-1])
        present = self._find(loc[:-1])[1].entries
        free = [field for field in known if field not in present]
        near = did_you_mean(name, free)
        twice = near is None or (*loc[:-1], near) in self.written
        self.meant[loc] = None if twice else near
        if near is not None and not twice:
            self.written[(*loc[:-1], near)] = name
        hint = f"did you mean `{near}`?" if near else f"known here: {', '.join(known)}"
        return self._diagnostic("M112", f"unknown field `{name}`", span=_of(key_node), loc=loc[:-1], hint=hint)

    def told(self, error: Mapping[str, Any]) -> Iterator[Diagnostic]:
        loc: Loc = tuple(error["loc"])
        on_key = bool(loc) and loc[-1] == "[key]"
        if on_key:
            loc = loc[:-1]
        key, node, found = self._find(loc)
        if node.value is BROKEN and found == len(loc):
            return
        if error["type"] in ("problems", "broken_rules"):
            for problem in error["ctx"]["problems"]:
                yield from self.problem(problem, loc, on_key=on_key)
            return
        if error["type"] == "missing":
            hint = _what_fits(self.model, loc)
            at = key if len(loc) > 1 else None
            yield self._diagnostic("M113", f"missing field `{loc[-1]}`", span=_of(at or node), loc=loc[:-1], hint=hint)
            return
        about = key if on_key and key is not None else node
        if error["type"] == "too_short" and about.entries:
            return  # pydantic counts valid entries only, and said what is wrong with the others
        code, message, hint = _words(error, about)
        hint = hint or _what_fits(self.model, loc)
        yield self._diagnostic(code, message, span=_of(about), loc=loc[:-1], hint=hint)

    def problem(self, problem: ValidationIssue, above: Loc, *, on_key: bool = False) -> Iterator[Diagnostic]:
        loc = above + problem.at
        key, node, _ = self._find(loc)
        # A rule about a whole mapping points at the word that opens it, not at all its lines.
        at_key = key is not None and (on_key or problem.on_key or (not problem.at and isinstance(node.value, dict)))
        where = loc if not problem.at and isinstance(node.value, dict) else loc[:-1]
        about = key if at_key and key is not None else node
        if problem.code == "M114" and about.plain and not isinstance(about.value, str):
            code, message, hint = _unquoted(about)
        else:
            code, message, hint = problem.code, problem.message, problem.hint or _what_fits(self.model, loc)
        yield self._diagnostic(code, message, span=_of(about), loc=where, hint=hint)

    def _find(self, loc: Loc) -> tuple[Node | None, Node, int]:
        """The key and the value at `loc`, or of the nearest thing above that exists; and how many steps were found."""
        key: Node | None = None
        node = self.root
        for steps, part in enumerate(loc):
            entry = node.entries.get(self.written.get(loc[: steps + 1], str(part)))
            if entry is None:
                return key, node, steps
            key, node = entry
        return key, node, len(loc)

    def _diagnostic(self, code: str, message: str, *, span: Span, loc: Loc, hint: str) -> Diagnostic:
        where = where_text(self.address, loc)
        return self.source.diagnostic(code, message, span=span, hint=hint, where=where)


def _of(node: Node | None) -> Span:
    assert node is not None
    span = node.span
    if node.entries and span.end_line > span.line:  # a block: its first line says enough
        return Span(span.line, span.column, span.line, span.column + 1)
    return span


def _words(error: Mapping[str, Any], node: Node) -> tuple[str, str, str]:
    """Code, message and hint for one pydantic error about `node`."""
    kind, context = error["type"], error.get("ctx", {})
    match kind:
        case "enum" | "literal_error" if isinstance(node.value, str):
            known = re.findall(r"'([^']*)'", context["expected"])
            near = did_you_mean(node.value, known)
            hint = f"did you mean `{near}`?" if near else f"one of {', '.join(known)}"
            return "M118", f"unknown value `{node.value}`", hint
        case "string_type" | "enum" | "literal_error" if node.plain:
            return _unquoted(node)
        case "int_type" | "float_type" if isinstance(node.value, str):
            quoted = not node.plain and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", node.value)
            return "M114", f"expected {_WANTED[kind]}, found text", "leave out the quotes" if quoted else ""
        case _ if kind in _WANTED:
            return "M114", f"expected {_WANTED[kind]}, found {_found(node)}", ""
        case "too_short" | "string_too_short":
            return "M116", f"empty {_found(node).removeprefix('a ')}", "leave the field out, or say what it holds"
        case "too_long":
            return "M119", f"a list of more than {context['max_length']:,}", "split it over several manifests"
        case "greater_than_equal":
            return "M119", f"less than {context['ge']:g}", f"at least {context['ge']:g}"
        case "less_than_equal":
            return "M119", f"more than {context['le']}", f"at most {context['le']}"
        case _:  # pydantic may learn new ones; its own words are better than none
            return "M119", str(error["msg"]), "see the field in docs/manifests.md"


def _unquoted(node: Node) -> tuple[str, str, str]:
    return "M115", f"text is wanted, and YAML made {_found(node)} of `{node.text}`", f'quote it: "{node.text}"'


def _found(node: Node) -> str:
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


def _repaired(value: Any, path: Loc, meant: Mapping[Loc, str | None]) -> Any:
    """The data with misspelt fields renamed and unknown ones left out."""
    if isinstance(value, dict):
        names = {key: meant.get((*path, key), key) for key in value}
        return {name: _repaired(value[key], (*path, name), meant) for key, name in names.items() if name is not None}
    if isinstance(value, list):
        return [_repaired(entry, (*path, index), meant) for index, entry in enumerate(value)]
    return value


def _model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    for part in loc:
        annotation = next((f.annotation for f in model.model_fields.values() if f.alias == part), None)
        below = next((t for t in (annotation, *get_args(annotation)) if _is_model(t)), None)
        if below is None:
            return None
        model = below
    return model


def _is_model(candidate: object) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def _fields_at(model: type[BaseModel], loc: Loc) -> Sequence[str]:
    found = _model_at(model, loc)
    return [str(field.alias) for field in found.model_fields.values()] if found else []


def _what_fits(model: type[BaseModel], loc: Loc) -> str:
    """`such as idleFor: 3d`, from the first example of the nearest field at or above `loc`; of a mapping, what it holds."""
    for end in range(len(loc), 0, -1):
        if known := _fields_at(model, loc[:end]):
            return f"a mapping of {', '.join(known)}"
        found = _model_at(model, loc[: end - 1])
        field = next((f for f in found.model_fields.values() if f.alias == loc[end - 1]), None) if found else None
        if field is not None and field.examples:
            shown = field.examples[0]
            return f"such as {loc[end - 1]}: {shown if isinstance(shown, str) else json.dumps(shown)}"
    return ""
