"""The committed schema describes the plan file exactly."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given

from reconciler.model.plan import Plan
from reconciler.plan import plan_file
from tests.strategies import plans as made
from tests.strategies.examples import plan, plan_text, purge

VALIDATOR = jsonschema.Draft202012Validator(plan_file.schema())


@made.FEW
@given(made.plans(max_size=3))
def test_every_plan_fits_the_schema(example: Plan) -> None:
    """With any content."""
    VALIDATOR.validate(json.loads(plan_text(example)))


def test_the_schema_is_valid() -> None:
    """It is valid by its own dialect, and names the dialect."""
    jsonschema.Draft202012Validator.check_schema(plan_file.schema())
    assert plan_file.schema()["$id"] == json.loads(plan_text(plan()))["$schema"]


def test_the_committed_schema_is_up_to_date() -> None:
    """schemas/plan.json equals the schema of the code."""
    committed = Path(__file__).parents[3] / "schemas" / "plan.json"
    assert json.loads(committed.read_text(encoding="utf-8")) == plan_file.schema()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"before_offset":98213', '"before_offset":-1'),
        ('"kind": "Plan"', '"kind": "Results"'),
        ('"format_version": "3.0"', '"format_version": "4.0"'),
        ('"operation":"delete_records"', '"operation":"delete_group"'),
        ('"consumers":"block"', '"consumers":"any"'),
        ('"plan_digest": "sha256:', '"plan_digest": "md5:'),
    ],
)
def test_the_schema_refuses_other_documents(old: str, new: str) -> None:
    """It would be of no use if it allowed everything."""
    text = plan_text(plan(purge()))
    assert old in text
    assert not VALIDATOR.is_valid(json.loads(text.replace(old, new, 1)))
