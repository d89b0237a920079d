"""Apply does only what the manifests that it loads still ask for, and only what it understands.

Every plan here is usable when it is made. Kafka's own tools show that nothing was sent.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.operations import Operation
from reconciler.plan import plan_file
from tests.build import head
from tests.command import reconciler
from tests.e2e import raw_groups
from tests.e2e.test_unseen_consumers import read_plan, write_manifests
from tests.strategies.examples import sealed
from tests.toolbox import list_groups, log_start_offsets, run_kafka_tool

pytestmark = pytest.mark.brokers

RECORDS = 100

FLOOR = head("RetentionFloor", "%s") + "\nspec: {topics: [%s], keep: {last: 10}%s}\n"
REMOVAL = head("GroupRemoval", "%s") + "\nspec: {groups: [%s], idleFor: 0s}\n"
LEADERS = head("LeaderPolicy", "leaders") + "\nspec: {topics: [%s]}\n"


@pytest.fixture
def topic(cluster: SandboxCluster) -> str:
    """A topic of one partition with 100 records, and a group with a commit on another topic."""
    topic = f"trust-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic), Topic(f"other-{topic}")])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * RECORDS})
    client.commit(cluster.bootstrap_servers, f"dead-{topic}", {(f"other-{topic}", 0): 0})
    client.wait_until(lambda: f"dead-{topic}" in list_groups(cluster), 30, "the group in the list")
    return topic


def write_and_plan(folder: Path, cluster: SandboxCluster, topic: str) -> None:
    """A plan that deletes records of the topic and removes the dead group."""
    write_manifests(folder, cluster, f"{FLOOR % ('floor', topic, '')}---\n{REMOVAL % ('dead', f'dead-{topic}')}")
    assert len(read_plan(folder)["actions"]) == 2


def apply(folder: Path, code: int) -> str:
    """Apply plan.json, and return the outcomes."""
    answer = reconciler(folder, "apply", "plan.json")
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


def assert_untouched(cluster: SandboxCluster, topic: str) -> None:
    assert log_start_offsets(cluster, topic) == {0: 0}
    assert f"dead-{topic}" in list_groups(cluster)


@pytest.mark.parametrize(
    ("policies", "reasons"),
    [
        pytest.param(
            lambda topic: LEADERS % topic,
            ("RetentionFloor/floor is not in the manifests", "GroupRemoval/dead is not in the manifests"),
            id="removed",
        ),
        pytest.param(
            lambda topic: f"{REMOVAL % ('floor', f'dead-{topic}')}---\n{FLOOR % ('dead', topic, '')}",
            ("RetentionFloor/floor is not in the manifests", "GroupRemoval/dead is not in the manifests"),
            id="the names belong to other kinds",
        ),
        pytest.param(
            lambda topic: f"{FLOOR % ('floor', f'other-{topic}', '')}---\n{REMOVAL % ('dead', f'other-{topic}')}",
            ("RetentionFloor/floor (manifests/all.yaml", "does not select it any more", "GroupRemoval/dead (manifests"),
            id="other subjects",
        ),
        pytest.param(
            lambda topic: "---\n".join(
                [
                    FLOOR % ("floor", topic, ""),
                    FLOOR % ("second", f'"{topic}*"', ", expectAtMost: 9"),
                    REMOVAL % ("dead", f"dead-{topic}"),
                    REMOVAL.replace("idleFor: 0s", "idleFor: 1s, expectAtMost: 9") % ("also", f'"dead-{topic}*"'),
                ]
            ),
            ("RetentionFloor/second", "GroupRemoval/also"),
            id="claimed twice",
        ),
    ],
)
def test_an_action_that_no_manifest_asks_for_is_blocked(
    cluster: SandboxCluster, topic: str, tmp_path: Path, policies: Callable[[str], str], reasons: tuple[str, ...]
) -> None:
    """It was carried out whatever the manifests said by then."""
    write_and_plan(tmp_path, cluster, topic)
    write_manifests(tmp_path, cluster, policies(topic))
    text = apply(tmp_path, 3)
    for reason in reasons:
        assert reason in text
    assert_untouched(cluster, topic)


def test_an_action_under_a_policy_of_another_kind_is_blocked(
    cluster: SandboxCluster, topic: str, tmp_path: Path
) -> None:
    """A forged plan whose digest is right: a LeaderPolicy of the same topic asks for no deletion."""
    write_and_plan(tmp_path, cluster, topic)
    plan = plan_file.read(tmp_path / "plan.json")
    forged = (
        replace(d, address=replace(d.address, kind="LeaderPolicy", policy="leaders"))
        for d in plan.decisions
        if isinstance(d, Operation) and d.address.name == topic
    )
    plan_file.write(replace(plan, decisions=tuple(forged)), tmp_path / "plan.json")
    write_manifests(tmp_path, cluster, f"{LEADERS % topic}---\n{FLOOR % ('floor', topic, '')}")
    assert "LeaderPolicy/leaders never asks for a record deletion" in apply(tmp_path, 3)
    assert_untouched(cluster, topic)


def test_a_removal_of_a_group_that_a_floor_awaits_by_now_is_blocked(
    cluster: SandboxCluster, topic: str, tmp_path: Path
) -> None:
    write_and_plan(tmp_path, cluster, topic)
    awaiting = FLOOR.replace("last: 10", f"unreadBy: [dead-{topic}]") % ("awaiting", f"other-{topic}", "")
    write_manifests(tmp_path, cluster, f"{awaiting}---\n{REMOVAL % ('dead', f'dead-{topic}')}")
    assert "RetentionFloor/awaiting" in apply(tmp_path, 3)
    assert_untouched(cluster, topic)


@pytest.mark.parametrize(
    ("cleanup_policy", "code", "reason"),
    [("compact,delete", 3, "is compacted, and only a pattern selects it"), ("compact", 4, "cleanup.policy")],
)
def test_a_topic_that_became_a_changelog_after_the_plan_loses_nothing(
    cluster: SandboxCluster, topic: str, tmp_path: Path, cleanup_policy: str, code: int, reason: str
) -> None:
    """A pattern selects no topic with this policy, neither in the plan nor in the recheck."""
    write_manifests(tmp_path, cluster, FLOOR % ("floor", f'"{topic}*"', ", expectAtMost: 9"))
    assert len(read_plan(tmp_path)["actions"]) == 1
    policy = ("--entity-type", "topics", "--entity-name", topic, "--alter", "--add-config")
    run_kafka_tool(cluster, "kafka-configs", *policy, f"cleanup.policy=[{cleanup_policy}]")
    assert reason in apply(tmp_path, code)
    assert_untouched(cluster, topic)


@pytest.mark.parametrize("part", ["request", "guard", "seen"])
def test_a_condition_of_a_later_version_is_refused(
    cluster: SandboxCluster, topic: str, tmp_path: Path, part: str
) -> None:
    """A later minor version may add fields to the file, but none that bounds an action.

    Such a plan was applied without the condition that this version does not know.
    """
    write_and_plan(tmp_path, cluster, topic)
    path = tmp_path / "plan.json"
    later = f'"format_version": "{plan_file.FORMAT_MAJOR}.999"'
    text = sealed(path.read_text().replace(f'"format_version": "{plan_file.FORMAT_VERSION}"', later))
    assert f'"{part}":{{' in text
    path.write_text(text.replace(f'"{part}":{{', f'"{part}":{{"only_on_sundays":true,'))
    answer = apply(tmp_path, 4)
    assert "only_on_sundays" in answer
    assert_untouched(cluster, topic)
    path.write_text(text)
    apply(tmp_path, 0)
    assert log_start_offsets(cluster, topic) == {0: 90}


def test_an_excepted_group_of_unknown_position_answers_for_nothing(
    cluster: SandboxCluster, topic: str, tmp_path: Path
) -> None:
    """It may miss the records that `unreadBy` allows to go, so that they count towards the limits."""
    servers, reader, unknown = cluster.bootstrap_servers, f"reader-{topic}", f"unknown-{topic}"
    client.commit(servers, reader, {(topic, 0): RECORDS})
    floor = FLOOR.replace("last: 10", f"unreadBy: [{reader}]") % ("floor", topic, f", exceptGroups: [{unknown}]")
    write_manifests(tmp_path, cluster, floor)
    manifest = tmp_path / "manifests" / "all.yaml"
    manifest.write_text(manifest.read_text().replace("recordsPercentPerTopic: 100", "recordsPercentPerTopic: 50"))
    (action,) = read_plan(tmp_path)["actions"]
    assert action["consumed_by_named"]
    raw_groups.join_streams_group(servers, unknown, topic)
    try:
        answer = reconciler(tmp_path, "plan", "--out", "refused.json")
        applied = reconciler(tmp_path, "apply", "plan.json")
    finally:
        raw_groups.leave_streams_group(servers, unknown)
        raw_groups.delete(servers, unknown)
    for result in (answer, applied):
        assert result.returncode == 3, result.stdout + result.stderr
        assert f"recordsPercentPerTopic: share of one topic's records removed ({topic}): 100 %" in result.stderr
    assert_untouched(cluster, topic)
