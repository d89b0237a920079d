"""JSON Schemas (draft 2020-12) of the manifest language, made from the models, for editors and for other tools.

Made for hover texts: each field has a title, a description and an example. What a schema cannot say (instants that have to lie in
the past, rules across manifests, whether a regular expression compiles) only `load` checks.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from reconciler.policies import GroupRemoval, LeaderPolicy, RetentionFloor
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_ID = "urn:kafka-reconciler:schema:v1:"
_FIRST = ("title", "description", "type")
_KINDS: tuple[type[BaseModel], ...] = (Cluster, RetentionFloor, GroupRemoval, LeaderPolicy, Waiver)


def schemas() -> Mapping[str, str]:
    """File name → text: manifest.json for any manifest, and one for each kind."""
    _, made = models_json_schema([(kind, "validation") for kind in _KINDS], by_alias=True)
    definitions = {name: _tidy(definition) for name, definition in made["$defs"].items()}
    enums = {name: definition for name, definition in definitions.items() if "enum" in definition}
    models = {name: _inlined(d, enums) for name, d in definitions.items() if name not in enums}
    files = {"manifest.json": _any_manifest(models)}
    for kind in _KINDS:
        files[f"{_dashed(kind.__name__)}.json"] = _one_kind(kind.__name__, models)
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in files.items()}


def write(directory: Path) -> list[str]:
    """Writes what is stale; the names of the files written."""
    names = outdated_files(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text(schemas()[name], encoding="utf-8")
    return names


def outdated_files(directory: Path) -> list[str]:
    """Names of files under `directory` that are missing or not what the models say."""
    wanted = schemas().items()
    return [
        name
        for name, text in wanted
        if not (path := directory / name).is_file() or path.read_text(encoding="utf-8") != text
    ]


def _any_manifest(models: Mapping[str, Any]) -> dict[str, Any]:
    """One branch per kind, chosen by `kind`: with a plain union an editor shows the errors of every kind at once."""
    names = [kind.__name__ for kind in _KINDS]
    head = models[names[0]]["properties"]
    return {
        "$schema": DRAFT,
        "$id": f"{_ID}manifest",
        "title": "Manifest",
        "description": "A manifest of the Kafka reconciler: which records, groups and leaders a cluster should have.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": head["apiVersion"],
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
    used = _reachable(name, models)
    return {
        "$schema": DRAFT,
        "$id": f"{_ID}{_dashed(name)}",
        **models[name],
        "$defs": {used_name: models[used_name] for used_name in sorted(used - {name})},
    }


def _reachable(name: str, models: Mapping[str, Any]) -> set[str]:
    found = [name]
    for current in found:  # grows while it is walked
        below = re.findall(r'"#/\$defs/(\w+)"', json.dumps(models[current]))
        found.extend(set(below).difference(found))
    return set(found)


def _tidy(node: Any) -> Any:
    """Without null, which the language does not have, and without defaults that say so."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(fields := node.get("properties"), dict):
        fields = {name: _titled(name, field) for name, field in fields.items()}
        node = {**node, "properties": fields}
    tidy = {key: _tidy(value) for key, value in node.items() if not (key == "default" and value is None)}
    options = tidy.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        (kept,) = (option for option in options if option != {"type": "null"})
        tidy = kept | {key: value for key, value in tidy.items() if key != "anyOf"}
    return {key: tidy[key] for key in _FIRST if key in tidy} | tidy


def _titled(name: str, field: Any) -> Any:
    """Conditions carry bare patterns under `properties`; only real fields have a description."""
    if isinstance(field, dict) and "description" in field:
        return {**field, "title": re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()}
    return field


def _inlined(node: Any, enums: Mapping[str, Any]) -> Any:
    """References to enumerations replaced by the values themselves: editors complete those, and not what is behind a reference."""
    if isinstance(node, list):
        return [_inlined(item, enums) for item in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).removeprefix("#/$defs/")
    if name in enums:
        values = {key: enums[name][key] for key in ("type", "enum")}
        node = values | {key: value for key, value in node.items() if key != "$ref"}
    return {key: _inlined(value, enums) for key, value in node.items()}


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
