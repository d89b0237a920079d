"""The JSON Schemas are fresh, have texts for editors, and agree with the models."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from reconciler.cli.app import run
from reconciler.manifest import schema
from reconciler.manifest.files import load
from reconciler.manifest.parse import kinds
from tests.unit.manifest.broken import BROKEN, NOW_MS

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "manifests").rglob("*.yaml"))
BEYOND_A_SCHEMA = {
    "M101": "text that is not YAML has no data",
    "M102": "directives are not data",
    "M103": "tags are not data",
    "M104": "aliases are not data",
    "M105": "most readers apply merge keys",
    "M106": "several documents, of which one is a manifest",
    "M107": "most readers keep one of two equal keys",
    "M108": "an invisible character is text like any other",
    "M109": "nesting is refused as a wrong type where a schema sees it",
    "M110": "other readers read a number",
    "M111": "a JSON key is not a list",
    "M124": "schemas are matched by engines that have lookaround",
    "M219": "the machine may allow it",
    "M220": "the machine may allow another source",
    "M123": "whether a regular expression compiles",
    "M206": "time",
    "M207": "other manifests",
    "M210": "time",
    **dict.fromkeys(("M301", "M302", "M303", "M304", "M305", "M306", "M307"), "other manifests"),
    "M401": "other manifests; a warning",
    "M402": "time; a warning",
    "M403": "other manifests; a warning",
    "M501": "the environment",
}


def validator(name: str = "manifest.json") -> jsonschema.Draft202012Validator:
    """Return a validator for a committed schema that does not know the models."""
    return jsonschema.Draft202012Validator(json.loads((ROOT / "schemas" / name).read_text(encoding="utf-8")))


def as_json(value: Any) -> Any:
    """Return YAML data as JSON, as an editor sees it: keys and instants are text."""
    return json.loads(json.dumps(value, default=lambda instant: instant.isoformat().replace("+00:00", "Z")))


def documents(text: str) -> list[Any]:
    """Return the documents of a file as another YAML reader sees them, with timestamps as text."""
    reader = YAML(typ="safe", pure=True)
    return [as_json(document) for document in reader.load_all(text)]


def test_schemas_are_fresh() -> None:
    """`schemas/*.json` is generated from the models and committed."""
    assert run(["schema", str(ROOT / "schemas"), "--check"]) == 0, "stale: make schemas"


def test_only_outdated_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Outdated files are reported, written once, and reported again after a change."""

    def written() -> str:
        assert run(["schema", str(tmp_path / "schemas")]) == 0
        return capsys.readouterr().out

    assert run(["schema", str(tmp_path / "schemas"), "--check"]) == 1
    total = len(capsys.readouterr().err.splitlines())
    assert total > len(schema.schemas())
    for count in (total, 0):
        assert written().startswith(f"{count} of {total} ")
    (tmp_path / "schemas" / "waiver.json").write_text("{}")
    assert run(["schema", str(tmp_path / "schemas"), "--check"]) == 1
    assert "waiver.json is outdated" in capsys.readouterr().err
    assert written().startswith(f"1 of {total} ")
    (tmp_path / "file").write_bytes(b"\xff")
    assert run(["schema", str(tmp_path / "file")]) == 1
    assert "file could not be written: File exists" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(schema.schemas()))
def test_schemas_are_valid_schemas(name: str) -> None:
    """Each file is a draft 2020-12 schema with `$schema` and an `$id` that is not an address."""
    schema_document = json.loads(schema.schemas()[name])
    jsonschema.Draft202012Validator.check_schema(schema_document)
    assert schema_document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema_document["$id"].startswith("urn:kafka-reconciler:schema:v1:")


def fields(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field of every model: properties that are not part of a condition."""
    for name, model in {"": node, **node.get("$defs", {})}.items():
        for field, value in model.get("properties", {}).items():
            yield f"{path}{name}.{field}", value


@pytest.mark.parametrize("name", sorted(schema.schemas()))
def test_every_field_is_documentation(name: str) -> None:
    """Titles, descriptions and examples: an editor's hover text is the documentation."""
    entries = list(fields(json.loads(schema.schemas()[name])))
    assert len(entries) > 3
    for path, field in entries:
        assert field.get("title"), path
        assert len(field.get("description", "")) > 10, path
        assert field.get("examples") or "const" in field or "$ref" in field, path


def test_examples_of_the_schema_are_valid() -> None:
    manifest_schema = json.loads(schema.schemas()["manifest.json"])
    for path, field in fields(manifest_schema):
        for example in field.get("examples", []):
            part = {**field, "$defs": manifest_schema["$defs"]}
            jsonschema.Draft202012Validator(part).validate(example), path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_are_valid_by_an_independent_validator(path: Path) -> None:
    """By jsonschema, whole and by kind; the modeline leads to that schema."""
    text = path.read_text(encoding="utf-8")
    prefix, _, target = text.splitlines()[0].partition("=")
    assert prefix == "# yaml-language-server: $schema"
    assert (path.parent / target).resolve() == ROOT / "schemas" / "manifest.json"
    for document in documents(text):
        validator().validate(document)
        validator(f"{schema._words(document['kind'], '-')}.json").validate(document)


@pytest.mark.parametrize("folder", ["manifests/examples", "reconciler/companions/sandbox/demo"])
def test_examples_are_valid_by_the_models(folder: str) -> None:
    """Every example manifest is accepted by the loader, together with the others of its folder."""
    assert load([ROOT / folder], now_ms=NOW_MS).policies


def test_examples_show_every_kind_and_every_rule() -> None:
    """The examples show all kinds, and all rules of `keep` except one that the documents show."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "manifests" / "examples").glob("*.yaml"))
    for kind in kinds():
        assert f"kind: {kind}\n" in text
    for word in ("newerThan", "last", "fromOffset", "topicId", "unreadBy", "continuous", "unclean", "${env:"):
        assert word in text


@pytest.mark.parametrize("code", sorted(set(BROKEN) - set(BEYOND_A_SCHEMA)))
def test_the_schema_refuses_what_the_loader_refuses(code: str) -> None:
    """An editor marks the errors of the loader, except for rules that no schema can express."""
    assert not all(validator().is_valid(document) for text in BROKEN[code].values() for document in documents(text))


@pytest.mark.parametrize(
    "code", sorted(set(BEYOND_A_SCHEMA) - {"M101", "M103", "M104", "M106", "M107", "M108", "M109", "M111"})
)
def test_the_listed_exceptions_are_beyond_a_schema(code: str) -> None:
    """The schema accepts every exception in the list."""
    for text in BROKEN[code].values():
        for document in documents(text):
            validator().validate(document)


def test_grouped_digits_are_valid_in_editors() -> None:
    """Editors that read 1_000_000 as text, as YAML 1.2 says, do not underline it."""
    text = BROKEN["M301"]["more.yaml"].replace("{newerThan: 7d}", "{last: 1_000_000}")
    (document,) = documents(text)
    document["spec"]["keep"]["last"] = "1_000_000"
    validator().validate(document)
    document["spec"]["keep"]["last"] = "1000000"
    assert not validator().is_valid(document)
