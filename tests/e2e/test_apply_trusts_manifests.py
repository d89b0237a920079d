"""Apply decides again: what the manifests of now ask for bounds what yesterday's plan may still do.

Each plan here was usable when it was made, and its file is applied after the manifests, the clock or the
topic changed. Kafka's own tools show what is left.
"""

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler import pipeline
from reconciler.operations import Operation
from reconciler.plan import plan_file
from tests.command import command, environment
from tests.e2e import raw_requests
from tests.e2e.workspace import OPEN_LIMITS, Workspace, floor, leaders, removal, targets
from tests.strategies.examples import sealed
from tests.terminal import keyboard
from tests.toolbox import run_kafka_tool

MINUTE_MS = 60_000
IGNORING = "consumers: ignore"
LAST = f"keep: {{last: 10}}, {IGNORING}"


@pytest.fixture
def topic(space: Workspace) -> str:
    """A topic with 100 records and a group at 20, and a group of another topic that has ended."""
    topic = space.create_topic()
    space.commit(f"late-{topic}", topic, 20)
    space.commit(f"dead-{topic}", space.create_topic(0, name=f"other-{topic}"), 0)
    return topic


def plan_removal(space: Workspace, group: str) -> None:
    """Plan the removal of a group once it is idle for a second."""
    space.write(removal(group, "idleFor: 1s"))
    assert len(space.plan_once_idle()["actions"]) == 1


@pytest.mark.parametrize(
    ("tightened", "code", "log_start", "words"),
    [
        (f"keep: {{last: 95}}, {IGNORING}", 0, 5, "before_offset 5, 90 in the plan"),
        (f"keep: {{last: 100}}, {IGNORING}", 0, 0, "nothing is due any more"),
        (f"keep: {{last: 10, newerThan: 1d}}, {IGNORING}", 0, 0, "nothing is due any more"),
        ("keep: {last: 10}", 4, 0, "at most 70 records"),
        ("keep: {last: 10}, consumers: clamp", 4, 0, "consumers is clamp, it was ignore"),
        (f"{LAST}, expectAtMost: 0", 3, 0, "expectAtMost is 0"),
        (f"keep: {{last: 5}}, {IGNORING}", 0, 90, "1 applied"),
    ],
    ids=["a lower target", "nothing", "another rule", "block", "clamp", "fewer topics", "a higher target"],
)
def test_a_floor_that_keeps_more_by_now_keeps_it(
    space: Workspace, topic: str, tightened: str, code: int, log_start: int, words: str
) -> None:
    """The plan deletes up to 90 and lets the group skip. Its file once did so whatever the policy said."""
    assert len(space.plan(floor(topic, LAST))["actions"]) == 1
    space.write(floor(topic, tightened))
    assert words in space.apply(code=code)
    assert space.log_start(topic) == log_start


@pytest.mark.parametrize(
    ("rule", "code", "words"),
    [
        ("idleFor: 30d", 4, "and idleFor is 30d"),
        ("idleFor: 1s, types: [consumer]", 3, "types allows consumer only"),
        ("idleFor: 1s, exceptGroups: ['dead-*']", 3, "does not select it any more"),
    ],
    ids=["a longer idleFor", "another type", "excepted"],
)
def test_a_removal_that_asks_for_more_by_now_waits_for_it(
    space: Workspace, topic: str, rule: str, code: int, words: str
) -> None:
    """The group stays, and the exit code says why."""
    plan_removal(space, f"dead-{topic}")
    space.write(removal(f"dead-{topic}", rule))
    assert words in space.apply(code=code)
    assert f"dead-{topic}" in space.groups()


@pytest.mark.parametrize("minutes", [2 * 24 * 60, 2])
def test_a_plan_of_a_clock_that_is_ahead_is_refused(space: Workspace, topic: str, minutes: int) -> None:
    """Such a plan once removed a group that had committed seconds before."""
    plan_removal(space, f"dead-{topic}")
    path, ahead_ms = space.folder / "plan.json", minutes * MINUTE_MS
    made = plan_file.read(path)
    later = replace(made, observed_at_ms=made.observed_at_ms + ahead_ms, expires_at_ms=made.expires_at_ms + ahead_ms)
    plan_file.write(later, path)
    assert "set the clock that is wrong, then plan again" in space.apply(code=4)
    assert f"dead-{topic}" in space.groups()


def test_a_continued_plan_finds_done_what_a_tightened_policy_no_longer_asks_for(space: Workspace, topic: str) -> None:
    """What has reached its saved target is done, whatever the floor says now."""
    assert len(space.plan(floor(topic, LAST))["actions"]) == 1
    space.apply()
    space.write(floor(topic, "keep: {last: 95}"))
    assert "the log start is 90 already" in space.apply()
    assert space.log_start(topic) == 90


def test_a_floor_that_keeps_more_by_the_answer_keeps_it(space: Workspace, topic: str) -> None:
    """A person reads the plan and types the name. The manifests were once those from before the question."""
    space.write(floor(topic, LAST))
    with (
        keyboard() as (keys, stdin),
        subprocess.Popen(
            command("apply"),
            cwd=space.folder,
            env=environment(),
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        assert process.stderr is not None
        asked = b""
        while not asked.endswith(b"to apply this plan: "):
            part = process.stderr.read1()
            assert part, asked
            asked += part
        space.write(floor(topic, f"keep: {{last: 95}}, {IGNORING}"))
        os.write(keys, b"local\n")
        process.stderr.read()
    assert (process.returncode, space.log_start(topic)) == (0, 5)


def test_a_protection_that_comes_during_the_recheck_holds(
    space: Workspace, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifests were read before it, and not again before the request."""
    space.plan(floor(topic, LAST))
    decide_again = pipeline._decide_again

    def protect_meanwhile(*arguments: Any) -> Any:
        decided = decide_again(*arguments)
        space.write(floor(topic, LAST), more=f"protect: {{topics: [{topic}]}}")
        return decided

    monkeypatch.setattr(pipeline, "_decide_again", protect_meanwhile)
    assert "the manifests changed while the cluster was read: nothing was done" in space.apply(code=4)
    assert space.log_start(topic) == 0


# --- manifests that no longer ask for an action, and conditions that this version does not know


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


def test_an_excepted_group_of_unknown_position_answers_for_nothing(space: Workspace) -> None:
    """It may miss the records that `unreadBy` allows to go, so that they count towards the limits."""
    topic = space.create_topic()
    reader, unknown = space.commit(f"reader-{topic}", topic), f"unknown-{topic}"
    limits = OPEN_LIMITS.replace("recordsPercentPerTopic: 100", "recordsPercentPerTopic: 50")
    rule = f"keep: {{unreadBy: [{reader}]}}, exceptGroups: [{unknown}]"
    (action,) = space.plan(floor(topic, rule), limits=limits)["actions"]
    assert action["consumed_by_named"]
    raw_requests.join_streams_group(space.servers, unknown, topic)
    try:
        outputs = space.run("plan", "--out", "refused.json", code=3), space.apply(code=3)
    finally:
        raw_requests.leave_streams_group(space.servers, unknown)
        raw_requests.delete(space.servers, unknown)
    for output in outputs:
        assert f"recordsPercentPerTopic: share of one topic's records removed ({topic}): 100 %" in output
    assert space.log_start(topic) == 0
