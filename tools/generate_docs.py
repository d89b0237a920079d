"""Generates parts of docs/manifests.md: tables of fields and entries of error codes.

The texts come from the models and from `CODES`. The caller passes the examples and their output.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.manifest.error_codes import CODES
from reconciler.manifest.schema import schemas
from reconciler.policies.fields import DURATION_TEXT

_SECTION = re.compile(r"(<!-- generated: (?P<name>[^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill_sections(text: str, sections: Mapping[str, str]) -> str:
    """Replace the text between each `<!-- generated: NAME -->` and `<!-- end -->`.

    Raises KeyError for a name that `sections` does not have.
    """
    return _SECTION.sub(lambda match: f"{match[1]}\n{sections[match['name']]}\n{match[3]}", text)


def field_tables() -> Mapping[str, str]:
    """Map each section name `fields KIND` to a Markdown table of the kind's fields."""
    kinds = (json.loads(text) for name, text in schemas().items() if name != "manifest.json")
    return {f"fields {schema['title']}": _table(schema) for schema in kinds}


def error_section(examples: Mapping[str, tuple[Mapping[str, str], str]]) -> str:
    """Render an entry for each error code: its meaning, and an example that causes it.

    `examples` maps a code to files, or typed commands, with their texts and to the output.
    """
    entries = []
    for code, error in CODES.items():
        entry = f"### {code} {error.title}\n\n{error.explanation}\n"
        if code in examples:
            files, output = examples[code]
            entry += "".join(_render_example(name, text) for name, text in files.items())
            entry += f"\n```text\n{output.rstrip()}\n```\n"
        entries.append(entry)
    return "\n".join(entries)


def _render_example(name: str, text: str) -> str:
    """Render a file, or a typed command, which starts with `$`."""
    return f"\n```console\n{name}\n```\n" if name.startswith("$ ") else f"\n```yaml\n# {name}\n{text.rstrip()}\n```\n"


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
