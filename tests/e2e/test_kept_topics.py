"""Topics that a pattern leaves alone, on real brokers: compacted ones, and those that their own configuration keeps."""

import pytest

from tests.e2e.workspace import Workspace, floor, targets

RULE = "expectAtMost: 9, keep: {last: 10}"
FOREVER = {"retention.ms": "-1"}


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        (FOREVER, "B215"),
        ({"retention.ms": str(2**63 - 1)}, "B215"),
        (FOREVER | {"retention.bytes": "-1"}, "B215"),
        (FOREVER | {"retention.bytes": str(2**63 - 1)}, "B215"),
        (FOREVER | {"retention.bytes": "1000000"}, None),
        ({"retention.ms": "604800000"}, None),
        ({}, None),
        ({"cleanup.policy": "compact,delete"}, "B214"),
    ],
    ids=[
        "-1",
        "the largest number",
        "without a size",
        "a size that no disk has",
        "with a size",
        "a week",
        "the default",
        "compacted",
    ],
)
def test_a_pattern_skips_what_the_topic_keeps(space: Workspace, configs: dict[str, str], code: str | None) -> None:
    """An exact name still says what may go."""
    space.create_topic()  # without a topic of another policy, the share of the cluster's records is unknown
    topic = space.create_topic(50, configs=configs)
    plan = space.plan(floor(f'"{topic}*"', RULE))
    assert [row["code"] for row in plan["skipped"]] == [code] * (code is not None)
    assert len(plan["actions"]) == (code is None)
    assert targets(space.plan(floor(topic, RULE))) == [40]
    space.apply()
    assert space.log_start(topic) == 40
