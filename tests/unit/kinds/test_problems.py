"""What a manifest's rules about several fields say when they are broken: code, words, place and hint, to the letter.

Each of them is all that somebody sees who made that mistake, so a changed word is a changed answer.
"""

from typing import Any

import pytest
from pydantic import ValidationError

from reconciler.kinds import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from reconciler.kinds.problem import Path, Problem

PINNED = "kAwXdc4bS8uMfEXAMPLE0g"
UNCLEAN = {"topics": ["*"], "exceptTopics": ["a"], "election": "unclean"}
EXACT = "an unclean election names exact partitions"


def problems(kind: type[Policy], spec: dict[str, Any]) -> list[tuple[Path, Problem]]:
    """Where the refusing model stands, and what it says."""
    manifest = {"apiVersion": "reconciler/v1", "kind": kind.__name__, "metadata": {"name": "x"}, "spec": spec}
    with pytest.raises(ValidationError) as refused:
        kind.model_validate(manifest)
    return [(error["loc"], problem) for error in refused.value.errors() for problem in error["ctx"]["problems"]]


def problem(code: str, message: str, hint: str, *at: str | int, on_key: bool = False) -> Problem:
    return Problem(code=code, message=message, at=at, hint=hint, on_key=on_key)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"groups": ["a", "b*"], "idleFor": "3d"},
            problem(
                "M201",
                "`b*` is a pattern and `expectAtMost` is missing",
                "add expectAtMost: how many groups it may match",
                *("groups", 1),
            ),
        ),
        (
            {"groups": ["b*"], "idleFor": "0s", "expectAtMost": 3},
            problem(
                "M208", "`idleFor: 0s` gives up the evidence, and `b*` is a pattern", "for exact names only", "idleFor"
            ),
        ),
    ],
)
def test_a_group_removal(spec: dict[str, Any], expected: Problem) -> None:
    assert problems(GroupRemoval, spec) == [(("spec",), expected)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            UNCLEAN,
            [
                problem(
                    "M209",
                    "an unclean election loses records, so it needs exact `partitions`",
                    "partitions: {orders: [3]}",
                    "election",
                ),
                problem("M209", "`topics` is for preferred elections", EXACT, "topics", on_key=True),
                problem("M209", "`exceptTopics` is for preferred elections", EXACT, "exceptTopics", on_key=True),
            ],
        ),
        (
            {"partitions": {"orders": [3]}},
            [
                problem(
                    "M209", "`partitions` is for unclean elections", "name topics instead", "partitions", on_key=True
                ),
                problem("M209", "a preferred election needs `topics`", 'topics: ["*"] for all'),
            ],
        ),
    ],
)
def test_a_leader_policy(spec: dict[str, Any], expected: list[Problem]) -> None:
    """All of them at once."""
    assert problems(LeaderPolicy, spec) == [(("spec",), each) for each in expected]


@pytest.mark.parametrize(
    ("spec", "where", "expected"),
    [
        (
            {"topics": ["a"], "keep": {}},
            ("spec", "keep"),
            problem(
                "M214",
                "`keep` holds no rule, so nothing would stay",
                "say what stays: newerThan, since, last, fromOffset, unreadBy",
            ),
        ),
        (
            {"topics": ["a"], "keep": {"last": 1, "topicId": PINNED}},
            ("spec", "keep"),
            problem(
                "M204",
                "`topicId` pins the offsets of `fromOffset`, and there are none",
                "add fromOffset or leave topicId out",
                "topicId",
            ),
        ),
        (
            {"topics": ["a", "__x"], "keep": {"last": 1}},
            ("spec",),
            problem("M205", "`__x` is a system topic and may never lose records", "leave it out", "topics", 1),
        ),
        (
            {"topics": ["a", "b*", "c*"], "keep": {"last": 1}},
            ("spec",),
            problem(
                "M201",
                "`b*` is a pattern and `expectAtMost` is missing",
                "add expectAtMost: how many topics it may match",
                *("topics", 1),
            ),
        ),
        (
            {"topics": ["a", "b*"], "expectAtMost": 3, "keep": {"fromOffset": {"0": 1}}},
            ("spec",),
            problem(
                "M202",
                "`fromOffset` needs exact topic names: an offset means nothing on another topic",
                "`b*` is a pattern",
                *("keep", "fromOffset"),
                on_key=True,
            ),
        ),
        (
            {"topics": ["a"], "partitions": [0], "keep": {"fromOffset": {"0": 1}}},
            ("spec",),
            problem(
                "M203", "`fromOffset` selects its own partitions", "leave partitions out", "partitions", on_key=True
            ),
        ),
        (
            {"topics": ["a", "b"], "keep": {"fromOffset": {"0": 1}, "topicId": PINNED}},
            ("spec",),
            problem("M204", "one `topicId` cannot pin 2 topics", "one manifest for each topic", "keep", "topicId"),
        ),
    ],
)
def test_a_retention_floor(spec: dict[str, Any], where: Path, expected: Problem) -> None:
    assert problems(RetentionFloor, spec) == [(where, expected)]
