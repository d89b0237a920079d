"""Errors of rules between fields: code and position, and the names and fields in the message."""

from typing import Any

import pytest
from pydantic import ValidationError

from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from reconciler.policies.validation import FieldPath, ValidationIssue
from tests.golden.wording import mentions

PINNED = "kAwXdc4bS8uMfEXAMPLE0g"
UNCLEAN = {"topics": ["*"], "exceptTopics": ["a"], "election": "unclean"}


def problems(kind: type[Policy], spec: dict[str, Any]) -> list[tuple[FieldPath, ValidationIssue]]:
    """Return the positions and messages of the errors."""
    manifest = {"apiVersion": "reconciler/v1", "kind": kind.__name__, "metadata": {"name": "x"}, "spec": spec}
    with pytest.raises(ValidationError) as refused:
        kind.model_validate(manifest)
    return [(error["loc"], problem) for error in refused.value.errors() for problem in error["ctx"]["problems"]]


def assert_problem(problem: ValidationIssue, code: str, at: FieldPath, *facts: str, on_key: bool = False) -> None:
    """Assert code and position, and that message or hint have the facts."""
    assert (problem.code, problem.at, problem.on_key) == (code, at, on_key)
    assert problem.message
    assert problem.hint
    assert mentions(f"{problem.message}; {problem.hint}", *facts), problem


@pytest.mark.parametrize(
    ("spec", "code", "at", "facts"),
    [
        ({"groups": ["a", "b*"], "idleFor": "3d"}, "M201", ("groups", 1), ("`b*`", "expectAtMost")),
        ({"groups": ["b*"], "idleFor": "0s", "expectAtMost": 3}, "M208", ("idleFor",), ("`b*`", "`idleFor: 0s`")),
    ],
)
def test_a_group_removal(spec: dict[str, Any], code: str, at: FieldPath, facts: tuple[str, ...]) -> None:
    ((location, problem),) = problems(GroupRemoval, spec)
    assert location == ("spec",)
    assert_problem(problem, code, at, *facts)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            UNCLEAN,
            [
                (("election",), False, ("partitions",)),
                (("topics",), True, ("`topics`", "partitions")),
                (("exceptTopics",), True, ("`exceptTopics`", "partitions")),
            ],
        ),
        (
            {"partitions": {"orders": [3]}},
            [(("partitions",), True, ("`partitions`", "topics")), ((), False, ("topics",))],
        ),
    ],
)
def test_a_leader_policy(spec: dict[str, Any], expected: list[tuple[FieldPath, bool, tuple[str, ...]]]) -> None:
    """All errors of one manifest are reported together."""
    refusals = problems(LeaderPolicy, spec)
    for (location, problem), (at, on_key, facts) in zip(refusals, expected, strict=True):
        assert location == ("spec",)
        assert_problem(problem, "M209", at, *facts, on_key=on_key)


@pytest.mark.parametrize(
    ("spec", "location", "code", "at", "on_key", "facts"),
    [
        ({"topics": ["a"], "keep": {}}, ("spec", "keep"), "M214", (), False, ("`keep`", "newerThan", "unreadBy")),
        (
            {"topics": ["a"], "keep": {"last": 1, "topicId": PINNED}},
            *(("spec", "keep"), "M204", ("topicId",), False, ("`topicId`", "fromOffset")),
        ),
        ({"topics": ["a", "__x"], "keep": {"last": 1}}, ("spec",), "M205", ("topics", 1), False, ("`__x`",)),
        (
            {"topics": ["a", "b*", "c*"], "keep": {"last": 1}},
            *(("spec",), "M201", ("topics", 1), False, ("`b*`", "expectAtMost")),
        ),
        (
            {"topics": ["a", "b*"], "expectAtMost": 3, "keep": {"fromOffset": {"0": 1}}},
            *(("spec",), "M202", ("keep", "fromOffset"), True, ("`fromOffset`", "`b*`")),
        ),
        (
            {"topics": ["a"], "partitions": [0], "keep": {"fromOffset": {"0": 1}}},
            *(("spec",), "M203", ("partitions",), True, ("`fromOffset`", "partitions")),
        ),
        (
            {"topics": ["a", "b"], "keep": {"fromOffset": {"0": 1}, "topicId": PINNED}},
            *(("spec",), "M204", ("keep", "topicId"), False, ("`topicId`", "2")),
        ),
    ],
)
def test_a_retention_floor(
    spec: dict[str, Any], location: FieldPath, code: str, at: FieldPath, on_key: bool, facts: tuple[str, ...]
) -> None:
    ((place, problem),) = problems(RetentionFloor, spec)
    assert place == location
    assert_problem(problem, code, at, *facts, on_key=on_key)
