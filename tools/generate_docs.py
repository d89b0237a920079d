"""Renders the generated parts of the docs: tables of fields, and catalogues of M codes and B codes.

The text comes from the models, from `CODES` and from `BLOCK_CODES`. The caller passes the broken
examples and their output. No function reads or writes a file.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.manifest.error_codes import CODES
from reconciler.manifest.schema import schemas
from reconciler.model.block_reason import BLOCK_CODES
from reconciler.policies.fields import DURATION_TEXT

_SECTION = re.compile(r"(<!-- generated: (?P<name>[^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_LINE_LENGTH = 100
_BLOCK_GROUPS = {"1": "B1: any kind", "2": "B2: retention floors", "3": "B3: group removals"}
"""First digit of a B code → heading of its part of the catalogue."""


def fill_sections(text: str, sections: Mapping[str, str]) -> str:
    """Replace the text between `<!-- generated: NAME -->` and `<!-- end -->`.

    Raises KeyError for an unknown name.
    """
    return _SECTION.sub(lambda match: f"{match[1]}\n{sections[match['name']]}\n{match[3]}", text)


def wrap(paragraph: str) -> str:
    """Break a paragraph into lines of at most 100 characters, at spaces only."""
    return textwrap.fill(paragraph, _LINE_LENGTH, break_long_words=False, break_on_hyphens=False)


def field_tables() -> Mapping[str, str]:
    """Map `fields KIND` to a Markdown table of all fields of that kind."""
    kinds = (json.loads(text) for name, text in schemas().items() if name != "manifest.json")
    return {f"fields {schema['title']}": _table(schema) for schema in kinds}


def error_catalogue(examples: Mapping[str, tuple[Mapping[str, str], str]]) -> str:
    """Render each M code with its title, its meaning, and its broken example with the output.

    `examples`: code → (file name → text, output). A name that begins with `$ ` is a command line
    instead of a file.
    """
    entries = []
    for code, entry in CODES.items():
        text = f"## {code} {entry.title}\n\n{wrap(entry.explanation)}\n"
        if code in examples:
            files, output = examples[code]
            text += "".join(_example_input(name, content) for name, content in files.items())
            text += f"\n```text\n{output.rstrip()}\n```\n"
        entries.append(text)
    return "\n".join(entries)


def block_catalogue() -> str:
    """Render each B code, below a heading for each group of codes."""
    entries = []
    group = None
    for code, entry in BLOCK_CODES.items():
        if code[1] != group:
            group = code[1]
            entries.append(f"## {_BLOCK_GROUPS[group]}\n")
        entries.append(f"### {code} {entry.title}\n\n{wrap(entry.explanation)}\n")
    return "\n".join(entries)


def _example_input(name: str, content: str) -> str:
    """Render a file of an example, or its command line."""
    if name.startswith("$ "):
        return f"\n```console\n{name}\n```\n"
    return f"\n```yaml\n# {name}\n{content.rstrip()}\n```\n"


def _table(schema: Mapping[str, Any]) -> str:
    head = "| field | type | default | meaning |\n|---|---|---|---|\n"
    return head + "".join(_rows(schema, schema["$defs"], ""))


def _rows(model: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, field in model["properties"].items():
        nested = definitions.get(str(field.get("$ref", "")).removeprefix("#/$defs/"))
        kind = _type(field) if nested is None else "mapping"
        default = _code(field["default"]) if "default" in field and nested is None else ""
        if name in model.get("required", ()):
            default = "required"
        text = str(field["description"]).replace("|", "\\|")
        yield f"| `{prefix}{name}` | {kind} | {default} | {text}{_example(field, nested)} |\n"
        if nested is not None:
            yield from _rows(nested, definitions, f"{prefix}{name}.")


def _example(field: Mapping[str, Any], nested: object) -> str:
    if nested is not None or "const" in field or field["examples"][0] == field.get("default"):
        return ""
    return f" Example: {_code(field['examples'][0])}"


def _code(value: Any) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}`"


def _type(field: Mapping[str, Any]) -> str:
    match field:
        case {"const": value}:
            return _code(value)
        case {"enum": values}:
            return ", ".join(_code(value) for value in values)
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"type": "object"}:
            return "map"
        case {"type": ["integer", "string"]} | {"type": "integer"}:
            return "whole number"
        case {"type": "number", "maximum": 100}:
            return "percent"
        case {"type": "number"}:
            return "number"
        case {"format": "date-time"}:
            return "instant"
        case {"pattern": pattern} if pattern == DURATION_TEXT:
            return "duration"
        case {"maxLength": _}:
            return "selector"
        case _:
            return "text"
