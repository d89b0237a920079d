"""JSON Schemas (draft 2020-12) of the manifest language, generated from the models for editors.

Each field has a title, a description and an example. A schema cannot express some rules (instants
in the past, rules across manifests, valid regular expressions); only loading checks those.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import models_json_schema

from reconciler.manifest.parse import kinds

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_ID = "urn:kafka-reconciler:schema:v1:"
_FIRST_KEYS = ("title", "description", "type")


def schemas() -> Mapping[str, str]:
    """Return file name → text: manifest.json for any manifest, and one file per kind."""
    names = list(kinds())
    _, schema = models_json_schema([(kind, "validation") for kind in kinds().values()], by_alias=True)
    definitions = {name: _tidy(definition) for name, definition in schema["$defs"].items()}
    enums = {name: definition for name, definition in definitions.items() if "enum" in definition}
    models = {name: _inline(d, enums) for name, d in definitions.items() if name not in enums}
    files = {"manifest.json": _any_manifest(names, models)}
    files |= {f"{_kebab_case(name)}.json": _one_kind(name, models) for name in names}
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in files.items()}


def _any_manifest(names: list[str], models: Mapping[str, Any]) -> dict[str, Any]:
    """Return one branch per kind, selected by `kind`.

    With a plain union, editors would show the errors of all kinds.
    """
    return {
        "$schema": DRAFT,
        "$id": f"{_ID}manifest",
        "title": "Manifest",
        "description": "A manifest of the Kafka reconciler: which records, groups and leaders a cluster should have.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": models[names[0]]["properties"]["apiVersion"],
            "kind": {
                "title": "Kind",
                "description": "Which kind of manifest this is.",
                "enum": names,
                "examples": names,
            },
        },
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
                "then": {"$ref": f"#/$defs/{name}"},
            }
            for name in names
        ],
        "$defs": {name: models[name] for name in sorted(set().union(*(_reachable(name, models) for name in names)))},
    }


def _one_kind(name: str, models: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "$schema": DRAFT,
        "$id": f"{_ID}{_kebab_case(name)}",
        **models[name],
        "$defs": {reached: models[reached] for reached in sorted(_reachable(name, models) - {name})},
    }


def _reachable(name: str, models: Mapping[str, Any]) -> set[str]:
    """Return the names of the models that `name` refers to, with itself."""
    reached = [name]
    for current in reached:  # the list grows during the loop
        references = re.findall(r'"#/\$defs/(\w+)"', json.dumps(models[current]))
        reached.extend(set(references).difference(reached))
    return set(reached)


def _tidy(node: Any) -> Any:
    """Remove null, which the language does not have, and defaults of null; add titles."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(fields := node.get("properties"), dict):
        node = {**node, "properties": {name: _with_title(name, field) for name, field in fields.items()}}
    tidy = {key: _tidy(value) for key, value in node.items() if not (key == "default" and value is None)}
    options = tidy.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        (value_schema,) = (option for option in options if option != {"type": "null"})
        tidy = value_schema | {key: value for key, value in tidy.items() if key != "anyOf"}
    return {key: tidy[key] for key in _FIRST_KEYS if key in tidy} | tidy


def _with_title(name: str, field: Any) -> Any:
    """Add a title to a real field; conditions hold bare patterns under `properties`."""
    if isinstance(field, dict) and "description" in field:
        return {**field, "title": re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()}
    return field


def _inline(node: Any, enums: Mapping[str, Any]) -> Any:
    """Replace references to enumerations by their values, which editors can complete."""
    if isinstance(node, list):
        return [_inline(item, enums) for item in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).removeprefix("#/$defs/")
    if name in enums:
        values = {key: enums[name][key] for key in ("type", "enum")}
        node = values | {key: value for key, value in node.items() if key != "$ref"}
    return {key: _inline(value, enums) for key, value in node.items()}


def _kebab_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
