"""Apply decides again: what a policy asks for now bounds what yesterday's plan may still do.

Each plan here was right when it was made, and its file is applied after the manifests or the clock
changed. Kafka's own tools show what is left.
"""

import os
import subprocess
from dataclasses import replace

import pytest

from reconciler.plan import plan_file
from tests.command import command, environment
from tests.e2e.workspace import Workspace, floor, removal
from tests.terminal import keyboard

MINUTE_MS = 60_000
IGNORING = "consumers: ignore"
LAST = f"keep: {{last: 10}}, {IGNORING}"


@pytest.fixture
def topic(space: Workspace) -> str:
    """A topic with 100 records and a group at 20, and a group of another topic that has ended."""
    topic = space.create_topic()
    space.commit(f"late-{topic}", topic, 20)
    space.commit(f"dead-{topic}", space.create_topic(0), 0)
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
