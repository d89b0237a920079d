"""A machine whose clock is two days ahead, and one whose clock passes the end of a waiver, on real brokers."""

import sys

import pytest

from tests.build import waiver
from tests.command import run_process
from tests.e2e.workspace import OPEN_LIMITS, Workspace, create_journal, floor, removal
from tests.toolbox import run_kafka_tool

YOUNG = "keep: {newerThan: 1d}"
AHEAD = """\
import time
now = time.time_ns
time.time_ns = lambda: now() + {} * 10**9
from reconciler.__main__ import main
main()
"""
TWO_DAYS_AHEAD, FOUR_MINUTES_AHEAD = AHEAD.format(2 * 86_400), AHEAD.format(4 * 60)
LATER_ONCE_STORED = """\
import time
from pathlib import Path
now, journal = time.time_ns, Path("manifests/.reconciler/local.jsonl")
time.time_ns = lambda: now() + 11 * 60 * 10**9 * journal.exists()
from reconciler.__main__ import main
main()
"""


@pytest.mark.parametrize("verb", [("converge",), ("watch", "--rounds", "1")])
def test_converge_on_a_machine_two_days_ahead_does_nothing(space: Workspace, topic: str, verb: tuple[str, ...]) -> None:
    """To it, records of this minute are two days old. The brokers' stamp of its own intent says no."""
    journal = f"journal: {{topic: {create_journal(space.cluster)}}}"
    space.write(floor(topic, YOUNG, mode="continuous"), more=journal)
    result = run_process(space.folder, sys.executable, "-c", TWO_DAYS_AHEAD, *verb)
    assert result.returncode == 1, result.stderr
    assert "log start from 0 to 100" in result.stdout, "the plan by its clock"
    assert "apart, more than 5m; set the clock that is wrong, then plan again" in result.stderr
    assert space.log_start(topic) == 0
    assert [(entry["event"], entry.get("sends"), entry.get("status")) for entry in space.journal()] == [
        ("intent", None, None),
        ("outcome", 0, "not_attempted"),
    ]


def test_converge_refuses_a_journal_topic_that_the_brokers_do_not_stamp(space: Workspace, topic: str) -> None:
    """Its message has the command that sets the topic right. A reviewed plan is applied with it."""
    journal = space.create_topic(0)
    more = f"journal: {{topic: {journal}}}"
    space.write(floor(topic, YOUNG, mode="continuous"), more=more)
    refused = run_process(space.folder, sys.executable, "-c", TWO_DAYS_AHEAD, "converge")
    assert refused.returncode == 1
    assert space.log_start(topic) == 0
    command = f"--alter --entity-type topics --entity-name {journal} --add-config message.timestamp.type=LogAppendTime"
    assert "CreateTime, so a run without a review would not notice" in refused.stderr
    assert command in refused.stderr
    space.write(floor(topic, "keep: {last: 10}"), more=more)
    space.plan()
    space.apply()
    assert space.log_start(topic) == 90
    space.write(floor(topic, "keep: {last: 5}", mode="continuous"), more=more)
    run_kafka_tool(space.cluster, "kafka-configs", *command.split())
    space.run("converge")
    assert space.log_start(topic) == 95


def test_fresh_records_are_in_sync_on_a_machine_that_is_behind(space: Workspace, topic: str) -> None:
    """To it, they are of the future. Ten seconds, or records that came while the plan read, blocked the partition."""
    space.write(floor(topic, YOUNG))
    words = "plan", "--out", "plan.json", "--fail-on", "blocked"
    result = run_process(space.folder, sys.executable, "-c", AHEAD.format(-10), *words)
    assert result.returncode == 0, result.stdout + result.stderr
    assert [row["partitions"] for row in space.read("plan.json")["satisfied"]] == ["0"]


def test_a_plan_removes_a_group_once_where_the_brokers_are_behind(space: Workspace, topic: str) -> None:
    """By four minutes, which a run allows: the stamps of its runs lay before the plan, and a second one removed again."""
    group = space.commit(f"old-{topic}", topic, 4)
    space.write(removal(group), more=f"journal: {{topic: {create_journal(space.cluster)}}}")
    codes = [
        run_process(space.folder, sys.executable, "-c", FOUR_MINUTES_AHEAD, *words.split()).returncode
        for words in (
            "plan --out plan.json",
            "apply plan.json --results results.json",
            f"restore-group results.json {group} --confirm {group}",
            "apply plan.json",
        )
    ]
    assert (codes, group in space.groups()) == ([0, 0, 0, 4], True)


def test_a_waiver_that_ends_during_an_apply_lets_no_later_request_out(space: Workspace, topic: str) -> None:
    """It once held for half an hour more, as long as the recheck is good. Here it ends behind the intent."""
    once = waiver("RetentionFloor/floor", "topics", 1, name="once", minutes=10)
    space.write(floor(topic, "keep: {last: 10}"), once, limits=f"topics: 0, {OPEN_LIMITS}")
    space.plan()
    applied = run_process(space.folder, sys.executable, "-c", LATER_ONCE_STORED, "apply", "plan.json")
    assert (applied.returncode, space.log_start(topic)) == (1, 0), applied.stdout
    assert "Waiver/once expired during this run: plan again" in applied.stderr
