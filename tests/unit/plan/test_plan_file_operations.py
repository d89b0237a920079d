"""An operation that exists only in this test has a plan file without a change of the codec."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

import jsonschema
import pytest

from reconciler import operations
from reconciler.errors import PlanUnusable
from reconciler.operations import DeleteRecords
from reconciler.plan import plan_file
from tests.strategies.examples import digest_by_hand, plan, plan_text, purge, removal


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive(DeleteRecords):
    """Copy records to another place, then remove them."""

    OPERATION: ClassVar[str] = "archive"

    bucket: str


def archive() -> Archive:
    action = purge()
    return Archive(bucket="cold", **{field.name: getattr(action, field.name) for field in fields(action)})


def test_a_new_operation_needs_no_change_of_the_codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "OPERATIONS", (*operations.OPERATIONS, Archive))
    path = tmp_path / "plan.json"
    example = plan(removal(), archive())
    plan_file.write(example, path)
    assert plan_file.read(path) == example
    document = json.loads(plan_text(example))
    assert document["summary"]["archive"] == 1
    assert document["summary"]["records_removed_max"] == 97_213
    assert document["actions"][1]["bucket"] == "cold"
    assert document["plan_digest"] == digest_by_hand(document) == plan_file.digest(example)
    jsonschema.Draft202012Validator(plan_file.schema()).validate(document)
    monkeypatch.undo()
    with pytest.raises(PlanUnusable, match="operation is 'archive', which is none of"):
        plan_file.read(path)


def test_a_plan_of_a_version_without_the_operation_stays_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its summary has no number of the operation, which its rows prove to be none."""
    path = tmp_path / "plan.json"
    example = plan(removal())
    plan_file.write(example, path)
    monkeypatch.setattr(operations, "OPERATIONS", (*operations.OPERATIONS, Archive))
    assert plan_file.read(path) == example
