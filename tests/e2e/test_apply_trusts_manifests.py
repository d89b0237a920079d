"""Apply does only what the manifests that it loads still ask for, and only what it understands.

Every plan here is usable when it is made. Kafka's own tools show that nothing was sent.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.operations import Operation
from reconciler.plan import plan_file
from tests.e2e import raw_groups
from tests.e2e.workspace import OPEN_LIMITS, Workspace, floor, leaders, removal, targets
from tests.strategies.examples import sealed
from tests.toolbox import run_kafka_tool

LAST = "keep: {last: 10}"


@pytest.fixture
def topic(space: Workspace) -> str:
    """A topic of one partition with 100 records, and a group with a commit on another topic."""
    topic = space.create_topic()
    space.commit(f"dead-{topic}", space.create_topic(0, name=f"other-{topic}"), 0)
    return topic


def plan_both(space: Workspace, topic: str) -> None:
    """A plan that deletes records of the topic and removes the dead group."""
    assert len(space.plan(floor(topic, LAST), removal(f"dead-{topic}"))["actions"]) == 2


def assert_untouched(space: Workspace, topic: str) -> None:
    assert space.log_start(topic) == 0
    assert f"dead-{topic}" in space.groups()


Policies = Callable[[str], tuple[str, ...]]
GONE = ("RetentionFloor/floor is not in the manifests", "GroupRemoval/dead is not in the manifests")


@pytest.mark.parametrize(
    ("policies", "reasons"),
    [
        (lambda topic: (leaders(topic),), GONE),
        (lambda topic: (removal(f"dead-{topic}", name="floor"), floor(topic, LAST, name="dead")), GONE),
        (
            lambda topic: (floor(f"other-{topic}", LAST), removal(f"other-{topic}")),
            ("RetentionFloor/floor (manifests/all.yaml", "does not select it any more", "GroupRemoval/dead (manifests"),
        ),
        (
            lambda topic: (
                floor(topic, LAST),
                floor(f'"{topic}*"', f"{LAST}, expectAtMost: 9", name="second"),
                removal(f"dead-{topic}"),
                removal(f'"dead-{topic}*"', "idleFor: 1s, expectAtMost: 9", name="also"),
            ),
            ("RetentionFloor/second", "GroupRemoval/also"),
        ),
        (
            lambda topic: (
                floor(f"other-{topic}", f"keep: {{unreadBy: [dead-{topic}]}}", name="awaiting"),
                removal(f"dead-{topic}"),
            ),
            ("RetentionFloor/awaiting",),
        ),
    ],
    ids=["removed", "the names belong to other kinds", "other subjects", "claimed twice", "awaited by a floor"],
)
def test_an_action_that_no_manifest_asks_for_is_blocked(
    space: Workspace, topic: str, policies: Policies, reasons: tuple[str, ...]
) -> None:
    """It was carried out whatever the manifests said by then."""
    plan_both(space, topic)
    space.write(*policies(topic))
    text = space.apply(code=3)
    for reason in reasons:
        assert reason in text
    assert_untouched(space, topic)


def test_an_action_under_a_policy_of_another_kind_is_blocked(space: Workspace, topic: str) -> None:
    """A forged plan whose digest is right: a LeaderPolicy of the same topic asks for no deletion."""
    plan_both(space, topic)
    plan = plan_file.read(space.folder / "plan.json")
    forged = (
        replace(d, address=replace(d.address, kind="LeaderPolicy", policy="leaders"))
        for d in plan.decisions
        if isinstance(d, Operation) and d.address.name == topic
    )
    plan_file.write(replace(plan, decisions=tuple(forged)), space.folder / "plan.json")
    space.write(leaders(topic), floor(topic, LAST))
    assert "LeaderPolicy/leaders never asks for a record deletion" in space.apply(code=3)
    assert_untouched(space, topic)


@pytest.mark.parametrize(
    ("cleanup_policy", "code", "reason"),
    [("compact,delete", 3, "is compacted, and only a pattern selects it"), ("compact", 4, "cleanup.policy")],
)
def test_a_topic_that_became_a_changelog_after_the_plan_loses_nothing(
    space: Workspace, topic: str, cleanup_policy: str, code: int, reason: str
) -> None:
    """A pattern selects no topic with this policy, neither in the plan nor in the recheck."""
    assert targets(space.plan(floor(f'"{topic}*"', f"{LAST}, expectAtMost: 9"))) == [90]
    policy = ("--entity-type", "topics", "--entity-name", topic, "--alter", "--add-config")
    run_kafka_tool(space.cluster, "kafka-configs", *policy, f"cleanup.policy=[{cleanup_policy}]")
    assert reason in space.apply(code=code)
    assert_untouched(space, topic)


@pytest.mark.parametrize("part", ["request", "guard", "seen"])
def test_a_condition_of_a_later_version_is_refused(space: Workspace, topic: str, part: str) -> None:
    """A later minor version may add fields to the file, but none that bounds an action.

    Such a plan was applied without the condition that this version does not know.
    """
    plan_both(space, topic)
    path = space.folder / "plan.json"
    later = f'"format_version": "{plan_file.FORMAT_MAJOR}.999"'
    text = sealed(path.read_text().replace(f'"format_version": "{plan_file.FORMAT_VERSION}"', later))
    assert f'"{part}":{{' in text
    path.write_text(text.replace(f'"{part}":{{', f'"{part}":{{"only_on_sundays":true,'))
    assert "only_on_sundays" in space.apply(code=4)
    assert_untouched(space, topic)
    path.write_text(text)
    space.apply()
    assert space.log_start(topic) == 90


def test_an_excepted_group_of_unknown_position_answers_for_nothing(space: Workspace, topic: str) -> None:
    """It may miss the records that `unreadBy` allows to go, so that they count towards the limits."""
    reader, unknown = space.commit(f"reader-{topic}", topic), f"unknown-{topic}"
    limits = OPEN_LIMITS.replace("recordsPercentPerTopic: 100", "recordsPercentPerTopic: 50")
    space.write(floor(topic, f"keep: {{unreadBy: [{reader}]}}, exceptGroups: [{unknown}]"), limits=limits)
    (action,) = space.plan()["actions"]
    assert action["consumed_by_named"]
    raw_groups.join_streams_group(space.servers, unknown, topic)
    try:
        outputs = space.run("plan", "--out", "refused.json", code=3), space.apply(code=3)
    finally:
        raw_groups.leave_streams_group(space.servers, unknown)
        raw_groups.delete(space.servers, unknown)
    for output in outputs:
        assert f"recordsPercentPerTopic: share of one topic's records removed ({topic}): 100 %" in output
    assert_untouched(space, topic)
