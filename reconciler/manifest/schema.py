"""JSON Schemas (draft 2020-12) of the manifest language, generated from the models for editors.

Each field has a title, a description and an example. A schema cannot express some rules (instants
in the past, rules across manifests, valid regular expressions); only loading checks those.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from reconciler.codec import DIALECT
from reconciler.manifest.parse import kinds
from reconciler.policies.fields import where

_FIRST_KEYS = ("title", "description", "type")


def schemas() -> Mapping[str, str]:
    """Return file name → text: manifest.json for any manifest, and one file per kind."""
    models = {name: kind.model_json_schema() for name, kind in kinds().items()}
    parts = {name: model.pop("$defs") for name, model in models.items()}
    shared = {name: definition for definitions in parts.values() for name, definition in definitions.items()}
    documents = {"manifest": (_any_manifest(models), shared | models)}
    documents |= {_words(name, "-"): (model, parts[name]) for name, model in models.items()}
    return {f"{name}.json": _text(name, *document) for name, document in documents.items()}


def _text(name: str, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    enums = {name: definition for name, definition in definitions.items() if "enum" in definition}
    references = {name: definitions[name] for name in sorted(definitions) if name not in enums}
    head = {"$schema": DIALECT, "$id": f"urn:kafka-reconciler:schema:v1:{name}"}
    document = head | _tidy({**schema, "$defs": references}, enums)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _any_manifest(models: Mapping[str, Any]) -> dict[str, Any]:
    """Return one branch per kind: of a plain union, editors would show the errors of all kinds."""
    names = list(models)
    return {
        "title": "Manifest",
        "description": "A manifest of the Kafka reconciler: which records, groups and leaders a cluster should have.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": models[names[0]]["properties"]["apiVersion"],
            "kind": {"description": "Which kind of manifest this is.", "enum": names, "examples": names},
        },
        "allOf": [{"if": where("kind", {"const": name}), "then": {"$ref": f"#/$defs/{name}"}} for name in names],
    }


def _tidy(node: Any, enums: Mapping[str, Any]) -> Any:
    """Add titles, and remove null, which the language does not have, and defaults of null.

    `enums`: the enumerations by name; editors complete their values only without a reference.
    """
    if isinstance(node, list):
        return [_tidy(item, enums) for item in node]
    if not isinstance(node, dict):
        return node
    options = node.get("anyOf", ())
    if {"type": "null"} in options:
        (option,) = (option for option in options if option != {"type": "null"})
        node = option | {key: value for key, value in node.items() if key != "anyOf"}
    for name, field in node.get("properties", {}).items():
        if "description" in field:  # conditions hold bare patterns under `properties`
            field["title"] = _words(name, " ").capitalize()
    node = {key: node[key] for key in _FIRST_KEYS if key in node} | node
    if (name := node.get("$ref", "").removeprefix("#/$defs/")) in enums:
        values = {key: enums[name][key] for key in ("type", "enum")}
        node = values | {key: value for key, value in node.items() if key != "$ref"}
    return {key: _tidy(value, enums) for key, value in node.items() if not (key == "default" and value is None)}


def _words(name: str, separator: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", separator, name).lower()
