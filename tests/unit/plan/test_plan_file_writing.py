"""A plan file is replaced as a whole and can be read back; its schema."""

import dataclasses
import json
import os
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from reconciler.errors import ReconcilerError
from reconciler.model.names import Address
from reconciler.model.plan import LimitVerdict, Plan, Satisfied
from reconciler.plan import plan_file
from tests.strategies import plans as made
from tests.strategies.examples import (
    blocked,
    plan,
    plan_text,
    purge,
    removal,
    satisfied,
    sealed,
    waiting,
)


def test_the_file_is_private_and_has_no_draft(tmp_path: Path) -> None:
    """Mode 0600, with new folders, and no other file beside it."""
    path = tmp_path / "deep" / "plan.json"
    plan_file.write(plan(purge()), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    assert plan_file.read(path) == plan(purge())


def test_groups_that_hold_back_are_written_only_where_there_are_some(tmp_path: Path) -> None:
    """Plans of version 2.0 have no `held_by`: they are still read, and bind the same."""
    held = plan(
        blocked(held_by=("a", "b")), waiting("RetentionFloor/s/t[0]", held_by=("a",)), blocked("RetentionFloor/x/y[0]")
    )
    path = tmp_path / "plan.json"
    plan_file.write(held, path)
    text = path.read_text()
    assert text.count('"held_by":["a","b"]') == 1
    assert text.count("held_by") == 2
    assert plan_file.read(path) == held
    old = plan(purge(), blocked())
    assert "held_by" not in plan_text(old)
    path.write_text(sealed(plan_text(old).replace('"format_version": "3.0"', '"format_version": "3.1"')))
    assert plan_file.read(path) == old
    assert plan_file.digest(held) == plan_file.digest(plan(blocked()))


def test_a_failed_write_keeps_the_previous_plan(tmp_path: Path) -> None:
    """No part of a plan is in the file."""
    path = tmp_path / "plan.json"
    plan_file.write(plan(purge()), path)
    with pytest.raises(ReconcilerError, match=r"cannot write the plan to .*surrogates"):
        plan_file.write(plan(removal("\ud800")), path)
    assert plan_file.read(path) == plan(purge())
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    """One line has the path, the reason and the next step, and there is no traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ReconcilerError, match=r"cannot write the plan to .*file/plan\.json: .*choose another --out"):
        plan_file.write(plan(), tmp_path / "file" / "plan.json")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The plan is written to the target of the link, be it empty, as a script makes one, or a plan."""
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.touch()
    plan_file.write(plan(), real)
    link.symlink_to(real)
    plan_file.write(plan(purge()), link)
    assert link.is_symlink()
    assert plan_file.read(real) == plan(purge())


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """`--out /dev/stdout` or a named pipe must not be replaced by a file, and the former has no place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    unnamed, end = os.pipe()
    plan_file.write(plan(purge()), pipe)
    plan_file.write(plan(purge()), Path(f"/dev/fd/{end}"))
    os.close(end)
    for opened in (reader, unnamed):
        with os.fdopen(opened) as stream:
            assert stream.read() == plan_text(plan(purge()))
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decisions": (purge(partition=4), purge(partition=3))}, "out of address order"),
        ({"decisions": (purge(), purge())}, "is there twice"),
        ({"decisions": (Satisfied(Address("RetentionFloor", "a", "topic[3]")),)}, "means another subject"),
        ({"decisions": (Satisfied(Address("RetentionFloor", "a/b", "topic")),)}, "means another subject"),
        ({"observed_at_ms": 10**18, "expires_at_ms": 10**18}, "years 1 to 9999"),
        ({"expires_at_ms": 0}, "the instant of the scan"),
        # Both halves would be one character, and another group; Kafka's names have no halves.
        ({"decisions": (removal("a\ud83d\ude00"),)}, "surrogates"),
        ({"decisions": (removal("a\udc80"),)}, "surrogates"),
    ],
)
def test_a_plan_that_no_file_can_represent_is_refused(changes: dict[str, Any], message: str) -> None:
    """No file is better than a file with another meaning."""
    with pytest.raises(ValueError, match=message):
        plan_text(dataclasses.replace(plan(), **changes))


@pytest.mark.parametrize("limit", [float("nan"), float("inf"), -float("inf")])
def test_a_limit_is_a_finite_number(limit: float) -> None:
    """Infinity bounds nothing, and JSON cannot express it."""
    for numbers in ({"limit": limit, "observed": 1}, {"limit": 1, "observed": limit}):
        with pytest.raises(ValueError, match="finite"):
            LimitVerdict(id="x", passed=True, message="", **numbers)


def test_satisfied_partitions_of_a_topic_share_a_line() -> None:
    """Most partitions are in sync: 5,000 partitions of a topic are one short line."""
    large_plan = plan(
        *[satisfied(f"LeaderPolicy/all/x[{n}]") for n in range(5000) if n != 7], satisfied("GroupRemoval/a/b")
    )
    rows = json.loads(plan_text(large_plan))["satisfied"]
    assert rows == [
        {"address": "GroupRemoval/a/b", "partitions": None},
        {"address": "LeaderPolicy/all/x", "partitions": "0-6,8-4999"},
    ]


# --- the committed schema


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
