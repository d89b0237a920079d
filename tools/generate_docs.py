"""The generated parts of docs/manifests.md: a table of fields for each kind, and an entry for each error code.

Pure: what the docs say comes from the models and from `CODES`; which examples are shown, and their output, comes from the caller.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.manifest.error_codes import CODES
from reconciler.manifest.schema import schemas
from reconciler.policies.fields import DURATION_TEXT

_SECTION = re.compile(r"(<!-- generated: (?P<name>[^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, sections: Mapping[str, str]) -> str:
    """`text` with what stands between `<!-- generated: NAME -->` and `<!-- end -->` replaced. Raises KeyError for an unknown name."""
    return _SECTION.sub(lambda found: f"{found[1]}\n{sections[found['name']]}\n{found[3]}", text)


def field_tables() -> Mapping[str, str]:
    """`fields KIND` → a Markdown table of all fields of that kind."""
    kinds = (json.loads(text) for name, text in schemas().items() if name != "manifest.json")
    return {f"fields {schema['title']}": _table(schema) for schema in kinds}


def error_section(shown: Mapping[str, tuple[Mapping[str, str], str]]) -> str:
    """An entry for each code: what it means, and of those in `shown` (files or what was typed, output) a broken example with what it yields."""
    entries = []
    for code, told in CODES.items():
        entry = f"### {code} {told.title}\n\n{told.explanation}\n"
        if code in shown:
            files, output = shown[code]
            entry += "".join(_shown(name, text) for name, text in files.items())
            entry += f"\n```text\n{output.rstrip()}\n```\n"
        entries.append(entry)
    return "\n".join(entries)


def _shown(name: str, text: str) -> str:
    """A file, or what was typed where the text of a file is not the point."""
    return f"\n```console\n{name}\n```\n" if name.startswith("$ ") else f"\n```yaml\n# {name}\n{text.rstrip()}\n```\n"


def _table(schema: Mapping[str, Any]) -> str:
    head = "| field | type | default | meaning |\n|---|---|---|---|\n"
    return head + "".join(_rows(schema, schema["$defs"], ""))


def _rows(model: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, field in model["properties"].items():
        below = definitions.get(str(field.get("$ref", "")).removeprefix("#/$defs/"))
        kind = _type(field) if below is None else "mapping"
        default = _code(field["default"]) if "default" in field and below is None else ""
        if name in model.get("required", ()):
            default = "required"
        text = str(field["description"]).replace("|", "\\|")
        yield f"| `{prefix}{name}` | {kind} | {default} | {text}{_example(field, below)} |\n"
        if below is not None:
            yield from _rows(below, definitions, f"{prefix}{name}.")


def _example(field: Mapping[str, Any], below: object) -> str:
    if below is not None or "const" in field or field["examples"][0] == field.get("default"):
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
