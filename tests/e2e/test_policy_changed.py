"""Apply decides again: what a policy asks for now bounds what yesterday's plan may still do.

Each plan here was right when it was made, and its file is applied after the manifests or the clock
changed. Kafka's own tools show what is left.
"""

import json
import os
import pty
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.plan import plan_file
from tests.build import head
from tests.command import command, environment, reconciler
from tests.e2e.test_unseen_consumers import write_manifests
from tests.toolbox import list_groups, log_start_offsets

pytestmark = pytest.mark.brokers

RECORDS = 100
MINUTE_MS = 60_000
FLOOR = head("RetentionFloor", "floor") + "\nspec: {topics: [%s], keep: {%s}%s}\n"
REMOVAL = head("GroupRemoval", "dead") + "\nspec: {groups: [%s], idleFor: %s%s}\n"


@pytest.fixture
def topic(cluster: SandboxCluster) -> str:
    """A topic with 100 records and a group at 20, and a group of another topic that has ended."""
    topic = f"changed-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic), Topic(f"other-{topic}")])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * RECORDS})
    client.commit(cluster.bootstrap_servers, f"late-{topic}", {(topic, 0): 20})
    client.commit(cluster.bootstrap_servers, f"dead-{topic}", {(f"other-{topic}", 0): 0})
    for group in (f"late-{topic}", f"dead-{topic}"):
        client.wait_until(lambda group=group: group in list_groups(cluster), 30, "the group in the list")
    return topic


def plan(folder: Path, cluster: SandboxCluster, policies: str) -> int:
    """Plan these policies into plan.json, and return how many actions that are."""
    write_manifests(folder, cluster, policies)
    answer = reconciler(folder, "plan", "--out", "plan.json")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return len(json.loads((folder / "plan.json").read_text())["actions"])


def plan_removal(folder: Path, cluster: SandboxCluster, group: str) -> None:
    """Plan the removal of a group once it is idle for a second."""
    client.wait_until(lambda: plan(folder, cluster, REMOVAL % (group, "1s", "")) == 1, 60, "an idle group")


def apply(folder: Path, code: int) -> str:
    answer = reconciler(folder, "apply", "plan.json")
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


IGNORING = ", consumers: ignore"


@pytest.mark.parametrize(
    ("tightened", "code", "log_start", "words"),
    [
        (lambda topic: FLOOR % (topic, "last: 95", IGNORING), 0, 5, "before_offset 5, 90 in the plan"),
        (lambda topic: FLOOR % (topic, "last: 100", IGNORING), 0, 0, "nothing is due any more"),
        (lambda topic: FLOOR % (topic, "last: 10, newerThan: 1d", IGNORING), 0, 0, "nothing is due any more"),
        (lambda topic: FLOOR % (topic, "last: 10", ""), 4, 0, "at most 70 records"),
        (lambda topic: FLOOR % (topic, "last: 10", ", consumers: clamp"), 4, 0, "consumers is clamp, it was ignore"),
        (lambda topic: FLOOR % (topic, "last: 10", f"{IGNORING}, expectAtMost: 0"), 3, 0, "expectAtMost is 0"),
        (lambda topic: FLOOR % (topic, "last: 5", IGNORING), 0, 90, "1 applied"),
    ],
    ids=["a lower target", "nothing", "another rule", "block", "clamp", "fewer topics", "a higher target"],
)
def test_a_floor_that_keeps_more_by_now_keeps_it(
    cluster: SandboxCluster,
    topic: str,
    tmp_path: Path,
    tightened: Callable[[str], str],
    code: int,
    log_start: int,
    words: str,
) -> None:
    """The plan deletes up to 90 and lets the group skip. Its file once did so whatever the policy said."""
    assert plan(tmp_path, cluster, FLOOR % (topic, "last: 10", IGNORING)) == 1
    write_manifests(tmp_path, cluster, tightened(topic))
    assert words in apply(tmp_path, code)
    assert log_start_offsets(cluster, topic) == {0: log_start}


@pytest.mark.parametrize(
    ("idle_for", "more", "code", "words"),
    [
        ("30d", "", 4, "and idleFor is 30d"),
        ("1s", ", types: [consumer]", 3, "types allows consumer only"),
        ("1s", ", exceptGroups: ['dead-*']", 3, "does not select it any more"),
    ],
    ids=["a longer idleFor", "another type", "excepted"],
)
def test_a_removal_that_asks_for_more_by_now_waits_for_it(
    cluster: SandboxCluster, topic: str, tmp_path: Path, idle_for: str, more: str, code: int, words: str
) -> None:
    """The group stays, and the exit code says why."""
    group = f"dead-{topic}"
    plan_removal(tmp_path, cluster, group)
    write_manifests(tmp_path, cluster, REMOVAL % (group, idle_for, more))
    assert words in apply(tmp_path, code)
    assert group in list_groups(cluster)


@pytest.mark.parametrize("minutes", [2 * 24 * 60, 2])
def test_a_plan_of_a_clock_that_is_ahead_is_refused(
    cluster: SandboxCluster, topic: str, tmp_path: Path, minutes: int
) -> None:
    """Such a plan once removed a group that had committed seconds before."""
    group = f"dead-{topic}"
    plan_removal(tmp_path, cluster, group)
    path = tmp_path / "plan.json"
    made = plan_file.read(path)
    ahead_ms = minutes * MINUTE_MS
    later = replace(made, observed_at_ms=made.observed_at_ms + ahead_ms, expires_at_ms=made.expires_at_ms + ahead_ms)
    plan_file.write(later, path)
    assert "set the clock that is wrong, then plan again" in apply(tmp_path, 4)
    assert group in list_groups(cluster)


def test_a_continued_plan_finds_done_what_a_tightened_policy_no_longer_asks_for(
    cluster: SandboxCluster, topic: str, tmp_path: Path
) -> None:
    """What has reached its saved target is done, whatever the floor says now."""
    assert plan(tmp_path, cluster, FLOOR % (topic, "last: 10", IGNORING)) == 1
    apply(tmp_path, 0)
    write_manifests(tmp_path, cluster, FLOOR % (topic, "last: 95", ""))
    assert "the log start is 90 already" in apply(tmp_path, 0)
    assert log_start_offsets(cluster, topic) == {0: 90}


def test_a_floor_that_keeps_more_by_the_answer_keeps_it(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """A person reads the plan and types the name. The manifests were once those from before the question."""
    write_manifests(tmp_path, cluster, FLOOR % (topic, "last: 10", IGNORING))
    writer, terminal = pty.openpty()
    try:
        with subprocess.Popen(
            command("apply"),
            cwd=tmp_path,
            env=environment(),
            stdin=terminal,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr is not None
            asked = b""
            while not asked.endswith(b"to apply this plan: "):
                part = process.stderr.read1()
                assert part, asked
                asked += part
            write_manifests(tmp_path, cluster, FLOOR % (topic, "last: 95", IGNORING))
            os.write(writer, b"local\n")
            process.stderr.read()
    finally:
        os.close(writer)
        os.close(terminal)
    assert (process.returncode, log_start_offsets(cluster, topic)) == (0, {0: 5})
