"""The JSON Schemas: fresh, good enough for hover texts, and of one mind with the models."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from reconciler.manifest import schema
from reconciler.manifest.files import load
from tests.unit.manifest.broken import BROKEN, CLUSTER, NOW_MS
from tests.unit.manifest.checking import outcome

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "manifests").rglob("*.yaml"))
BEYOND_A_SCHEMA = {
    "M101": "text that is no YAML never becomes data",
    "M102": "directives are not data",
    "M103": "tags are gone once data is made",
    "M104": "aliases are gone once data is made",
    "M105": "merge keys are followed by most readers",
    "M106": "several documents, of which one is a manifest",
    "M107": "most readers keep one of two equal keys",
    "M108": "an invisible character is text like any other",
    "M109": "nesting is refused as a wrong type where a schema sees it",
    "M111": "a key that is a list is no data of JSON",
    "M110": "other readers make a number of it",
    "M123": "whether a regular expression compiles",
    "M206": "time",
    "M207": "other manifests",
    "M210": "time",
    "M301": "other manifests",
    "M302": "other manifests",
    "M303": "other manifests",
    "M304": "other manifests",
    "M305": "other manifests",
    "M306": "other manifests",
    "M307": "other manifests",
    "M401": "other manifests; a warning",
    "M402": "time; a warning",
    "M403": "other manifests; a warning",
    "M501": "the environment",
}


def validator(name: str = "manifest.json") -> jsonschema.Draft202012Validator:
    """The schema as committed, read by a validator that knows nothing of the models."""
    return jsonschema.Draft202012Validator(json.loads((ROOT / "schemas" / name).read_text(encoding="utf-8")))


def as_json(value: Any) -> Any:
    """What an editor's JSON view of YAML data is: keys and instants are text."""
    return json.loads(json.dumps(value, default=lambda instant: instant.isoformat().replace("+00:00", "Z")))


def documents(text: str) -> list[Any]:
    """The documents of a file as a reader that is not ours sees them, timestamps as text."""
    reader = YAML(typ="safe", pure=True)
    return [as_json(document) for document in reader.load_all(text)]


def test_schemas_are_fresh() -> None:
    """`schemas/*.json` is generated from the models and committed."""
    assert schema.outdated_files(ROOT / "schemas") == []


def test_write_and_stale(tmp_path: Path) -> None:
    """What is stale is written, once; a changed file is stale again."""
    names = schema.write(tmp_path / "schemas")
    assert sorted(names) == sorted(schema.schemas())
    assert schema.write(tmp_path / "schemas") == []
    (tmp_path / "schemas" / "waiver.json").write_text("{}")
    assert schema.outdated_files(tmp_path / "schemas") == ["waiver.json"]


@pytest.mark.parametrize("name", sorted(schema.schemas()))
def test_schemas_are_schemas(name: str) -> None:
    """Each is a draft 2020-12 schema "with `$schema` and `$id`", and holds no address of a machine."""
    schema_document = json.loads(schema.schemas()[name])
    jsonschema.Draft202012Validator.check_schema(schema_document)
    assert schema_document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema_document["$id"].startswith("urn:kafka-reconciler:schema:v1:")


def fields(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of every model: properties that are not a part of a condition."""
    for name, model in {"": node, **node.get("$defs", {})}.items():
        for field, value in model.get("properties", {}).items():
            yield f"{path}{name}.{field}", value


@pytest.mark.parametrize("name", sorted(schema.schemas()))
def test_every_field_is_documentation(name: str) -> None:
    """ "titles, descriptions and examples for every field, good enough that an editor's hover text is documentation"."""
    schema_document = list(fields(json.loads(schema.schemas()[name])))
    assert len(schema_document) > 3
    for path, field in schema_document:
        assert field.get("title"), path
        assert len(field.get("description", "")) > 10, path
        assert field.get("examples") or "const" in field or "$ref" in field, path


def test_examples_of_the_schema_are_valid() -> None:
    """An example that hover text shows would be accepted where it is shown."""
    manifest_schema = json.loads(schema.schemas()["manifest.json"])
    for path, field in fields(manifest_schema):
        for example in field.get("examples", []):
            part = {**field, "$defs": manifest_schema["$defs"]}
            jsonschema.Draft202012Validator(part).validate(example), path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_are_valid_by_an_independent_validator(path: Path) -> None:
    """Every example manifest is valid by jsonschema, whole and by its kind, and its modeline leads to that schema."""
    text = path.read_text(encoding="utf-8")
    prefix, _, target = text.splitlines()[0].partition("=")
    assert prefix == "# yaml-language-server: $schema"
    assert (path.parent / target).resolve() == ROOT / "schemas" / "manifest.json"
    for document in documents(text):
        validator().validate(document)
        kinds = {"RetentionFloor": "retention-floor", "GroupRemoval": "group-removal", "LeaderPolicy": "leader-policy"}
        validator(f"{kinds.get(document['kind'], document['kind'].lower())}.json").validate(document)


@pytest.mark.parametrize("folder", ["manifests/examples", "reconciler/sandbox/demo"])
def test_examples_are_valid_by_the_models(folder: str) -> None:
    """Every example manifest is accepted by the loader, together with the others of its folder."""
    assert load([ROOT / folder], now_ms=NOW_MS).policies


def test_examples_show_every_kind_and_every_rule() -> None:
    """The examples are worth reading: all kinds, and all rules of `keep` but one that the docs show."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "manifests" / "examples").glob("*.yaml"))
    for word in ("Cluster", "RetentionFloor", "GroupRemoval", "LeaderPolicy", "Waiver"):
        assert f"kind: {word}\n" in text
    for word in ("newerThan", "last", "fromOffset", "topicId", "unreadBy", "continuous", "unclean", "${env:"):
        assert word in text


@pytest.mark.parametrize("code", sorted(set(BROKEN) - set(BEYOND_A_SCHEMA)))
def test_what_the_loader_refuses_the_schema_refuses(code: str) -> None:
    """An editor underlines what the loader will refuse, but for what no schema can express."""
    refused = [
        document for text in BROKEN[code].values() for document in documents(text) if not validator().is_valid(document)
    ]
    assert refused


@pytest.mark.parametrize(
    "code", sorted(set(BEYOND_A_SCHEMA) - {"M101", "M103", "M104", "M106", "M107", "M108", "M109", "M111"})
)
def test_what_is_listed_as_beyond_a_schema_is(code: str) -> None:
    """The list of exceptions holds nothing that the schema does refuse."""
    for text in BROKEN[code].values():
        for document in documents(text):
            validator().validate(document)


def test_grouped_digits_are_right_in_editors() -> None:
    """Editors that read 1_000_000 as text, as YAML 1.2 says, do not underline it."""
    text = BROKEN["M301"]["more.yaml"].replace("{newerThan: 7d}", "{last: 1_000_000}")
    (document,) = documents(text)
    document["spec"]["keep"]["last"] = "1_000_000"
    validator().validate(document)
    document["spec"]["keep"]["last"] = "1000000"
    assert not validator().is_valid(document)


def test_the_cluster_of_the_tests_is_valid() -> None:
    """The Cluster beside the broken examples is right by both."""
    (document,) = documents(CLUSTER)
    validator().validate(document)
    manifests, _ = outcome({"c.yaml": CLUSTER})
    assert manifests is not None
