"""Topics that their own configuration keeps for ever, on real brokers: a pattern leaves them alone."""

import pytest

from tests.e2e.workspace import Workspace, floor, targets

RULE = "expectAtMost: 9, keep: {last: 10}"
FOREVER = {"retention.ms": "-1"}


@pytest.mark.parametrize(
    ("configs", "is_kept"),
    [
        (FOREVER, True),
        ({"retention.ms": str(2**63 - 1)}, True),
        (FOREVER | {"retention.bytes": "-1"}, True),
        (FOREVER | {"retention.bytes": "1000000"}, False),
        ({"retention.ms": "604800000"}, False),
        ({}, False),
    ],
    ids=["-1", "the largest number", "without a size", "with a size", "a week", "the default"],
)
def test_a_pattern_skips_what_the_topic_keeps(space: Workspace, configs: dict[str, str], is_kept: bool) -> None:
    """An exact name still says what may go."""
    topic = space.create_topic(50, configs=configs)
    plan = space.plan(floor(f'"{topic}*"', RULE))
    assert [row["code"] for row in plan["skipped"]] == ["B215"] * is_kept
    assert len(plan["actions"]) == (not is_kept)
    assert targets(space.plan(floor(topic, RULE))) == [40]
    space.apply()
    assert space.log_start(topic) == 40
