"""Consumers that a list of commits does not show, on a real cluster: no plan and no apply takes their records.

A member that has not committed stands at the log start, and so does a group whose commit lies above
the end of the log. Kafka's own tools show what is left.
"""

import json
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.kafka.gateway import KafkaGateway
from tests import build, kafka_client
from tests.build import head
from tests.command import reconciler
from tests.toolbox import list_groups, log_start_offsets

pytestmark = pytest.mark.brokers

RECORDS = 100
WITHOUT_COMMITS = {"enable.auto.commit": "false"}


@pytest.fixture
def topic(cluster: SandboxCluster) -> str:
    """A topic of one partition with 100 records."""
    topic = f"unseen-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * RECORDS})
    return topic


def write_manifests(folder: Path, cluster: SandboxCluster, policies: str) -> None:
    build.write_manifests(
        folder,
        cluster.bootstrap_servers,
        policies,
        limits="groups: 10000, groupsPercent: 100, recordsPercentPerTopic: 100, recordsPercent: 100",
    )


def write_floor(folder: Path, cluster: SandboxCluster, topic: str, rule: str) -> None:
    write_manifests(
        folder,
        cluster,
        f"""\
{head("RetentionFloor", "floor")}
spec: {{topics: [{topic}], {rule}}}
""",
    )


def read_plan(folder: Path, *, exit_code: int = 0) -> dict[str, Any]:
    """Plan with the command line, and return the plan file. `exit_code` 1: no subject can be read."""
    answer = reconciler(folder, "plan", "--out", "plan.json", "--full")
    assert answer.returncode == exit_code, answer.stderr
    plan: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return plan


def blocks(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["address"]: row for row in (*plan["blocked"], *plan["unread"])}


def test_a_member_without_a_commit_stands_at_the_log_start(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """It blocks a purge, is the lowest group of `clamp`, and is named by `ignore` with what it skips."""
    address, group = f"RetentionFloor/floor/{topic}[0]", f"new-{topic}"
    with client.member(cluster.bootstrap_servers, group, [topic], properties=WITHOUT_COMMITS):
        write_floor(tmp_path, cluster, topic, "keep: {last: 10}, consumers: block")
        plan = read_plan(tmp_path)
        assert plan["actions"] == []
        assert group in blocks(plan)[address]["reason"]
        write_floor(tmp_path, cluster, topic, "keep: {last: 10}, consumers: clamp")
        assert read_plan(tmp_path)["actions"] == []
        write_floor(tmp_path, cluster, topic, "keep: {last: 10}, consumers: ignore")
        (action,) = read_plan(tmp_path)["actions"]
        assert action["impact"]["skips"] == [{"group": group, "records_max": 90}]
    write_floor(tmp_path, cluster, topic, "keep: {last: 10}, consumers: block")
    (action,) = read_plan(tmp_path)["actions"]
    assert action["request"]["before_offset"] == 90


def test_a_member_that_joins_after_the_plan_stops_the_purge(
    cluster: SandboxCluster, topic: str, tmp_path: Path
) -> None:
    write_floor(tmp_path, cluster, topic, "keep: {last: 10}, consumers: block")
    assert len(read_plan(tmp_path)["actions"]) == 1
    with client.member(cluster.bootstrap_servers, f"late-{topic}", [topic], properties=WITHOUT_COMMITS):
        answer = reconciler(tmp_path, "apply", "plan.json")
    assert answer.returncode == 4, answer.stdout + answer.stderr
    assert f"late-{topic}" in answer.stdout
    assert log_start_offsets(cluster, topic) == {0: 0}


def test_a_member_that_joins_after_the_recheck_stops_the_purge(
    cluster: SandboxCluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look before the request sees what joined since the recheck."""
    write_floor(tmp_path, cluster, topic, "keep: {last: 10}, consumers: block")
    assert len(read_plan(tmp_path)["actions"]) == 1
    group = f"later-{topic}"
    members = []
    read_consumers = KafkaGateway.read_consumers

    def join_first(self: KafkaGateway, *arguments: Any, **more: Any) -> Any:
        if not members:
            member = client.member(cluster.bootstrap_servers, group, [topic], properties=WITHOUT_COMMITS)
            member.__enter__()
            members.append(member)
        return read_consumers(self, *arguments, **more)

    monkeypatch.setattr(KafkaGateway, "read_consumers", join_first)
    try:
        answer = reconciler(tmp_path, "apply", "plan.json")
    finally:
        for member in members:
            member.__exit__(None, None, None)
    assert answer.returncode == 4, answer.stdout + answer.stderr
    assert group in answer.stdout
    assert log_start_offsets(cluster, topic) == {0: 0}


def test_a_member_that_joins_during_the_run_stops_the_later_requests(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumers are read again every ten seconds; they could be half an hour old.

    Two requests to one broker may be under way when the member joins, and two more follow.
    """
    servers, topic = cluster.bootstrap_servers, f"long-{uuid4().hex[:8]}"
    group = f"during-{topic}"
    client.create_topics(servers, [Topic(topic, partitions=4)])
    client.produce(servers, topic, {number: [Record(b"x")] * RECORDS for number in range(4)})
    write_floor(tmp_path, cluster, topic, "keep: {last: 10}, consumers: block")
    assert len(read_plan(tmp_path)["actions"]) == 4
    joining, members = Lock(), []
    delete_records = KafkaGateway.delete_records

    def join_first(self: KafkaGateway, *arguments: Any) -> Any:
        with joining:
            if not members:
                member = client.member(servers, group, [topic], properties=WITHOUT_COMMITS)
                member.__enter__()
                members.append(member)
                time.sleep(11)
        return delete_records(self, *arguments)

    monkeypatch.setattr(KafkaGateway, "delete_records", join_first)
    try:
        answer = reconciler(tmp_path, "apply", "plan.json", "--batch", "1")
    finally:
        for member in members:
            member.__exit__(None, None, None)
    assert answer.returncode == 5, answer.stdout + answer.stderr
    assert group in answer.stdout
    assert sorted(log_start_offsets(cluster, topic).values()) in ([0, 0, 0, 90], [0, 0, 90, 90])


def test_only_unread_by_keeps_the_records_of_a_group_whose_offsets_are_gone(
    cluster: SandboxCluster, topic: str, tmp_path: Path
) -> None:
    """Kafka removes the offsets of a group without members after some days: `block` then knows no such group."""
    address, group = f"RetentionFloor/floor/{topic}[0]", f"down-{topic}"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 50})
    client.wait_until(lambda: group in list_groups(cluster), 30, f"{group} in the list")
    write_floor(tmp_path, cluster, topic, "keep: {last: 10}")
    assert blocks(read_plan(tmp_path))[address]["code"] == "B204"
    kafka_client.remove_group(cluster.bootstrap_servers, group)
    client.wait_until(lambda: group not in list_groups(cluster), 30, f"{group} to leave the list")
    (action,) = read_plan(tmp_path)["actions"]
    assert action["before_offset"] == RECORDS - 10
    assert "no consumer is known" in action["caveat"]
    write_floor(tmp_path, cluster, topic, f"keep: {{last: 10, unreadBy: [{group}]}}")
    assert blocks(read_plan(tmp_path))[address]["code"] == "B205"


def test_a_commit_above_the_end_is_no_position(cluster: SandboxCluster, topic: str, tmp_path: Path) -> None:
    """Kafka resets such a consumer when it comes back: it stands at the log start."""
    address, group = f"RetentionFloor/floor/{topic}[0]", f"ahead-{topic}"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 1_000_000})
    write_floor(tmp_path, cluster, topic, "keep: {last: 1}, consumers: block")
    plan = read_plan(tmp_path)
    assert plan["actions"] == []
    assert group in blocks(plan)[address]["reason"]
    assert "1000000" in blocks(plan)[address]["reason"].replace(",", "")
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): RECORDS})
    assert len(read_plan(tmp_path)["actions"]) == 1


def test_a_commit_above_the_end_after_the_plan_stops_the_purge(
    cluster: SandboxCluster, topic: str, tmp_path: Path
) -> None:
    group = f"jumped-{topic}"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): RECORDS})
    write_floor(tmp_path, cluster, topic, "keep: {last: 1}, consumers: block")
    assert len(read_plan(tmp_path)["actions"]) == 1
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 1_000_000})
    answer = reconciler(tmp_path, "apply", "plan.json")
    assert answer.returncode == 4, answer.stdout + answer.stderr
    assert log_start_offsets(cluster, topic) == {0: 0}


@pytest.mark.parametrize(
    ("is_pending", "idle_for", "words"),
    [
        (False, "1s", "__consumer_offsets holds a newer record"),
        (True, "1s", "__consumer_offsets holds a newer record"),
        (True, "0s", "has a commit in an open transaction"),
    ],
    ids=["committed", "in an open transaction", "in an open transaction, without evidence"],
)
def test_a_commit_of_the_same_offset_after_the_recheck_stops_a_removal(
    cluster: SandboxCluster,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_pending: bool,
    idle_for: str,
    words: str,
) -> None:
    """The group is EMPTY, and its visible offsets are those of the plan.

    With `idleFor: 0s` a removal took the commit away from its transaction, which succeeded. Up to Kafka 3.9
    the group was back with its next coordinator.
    """
    group = f"quiet-{topic}"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 7})
    client.wait_until(lambda: group in list_groups(cluster), 30, f"{group} in the list")
    write_manifests(
        tmp_path,
        cluster,
        f"""\
{head("GroupRemoval", "dead")}
spec: {{groups: [{group}], idleFor: {idle_for}}}
""",
    )
    plan: dict[str, Any] = {"actions": []}

    def is_planned() -> bool:
        plan.update(read_plan(tmp_path))
        return bool(plan["actions"])

    client.wait_until(is_planned, 60, f"a plan that removes {group}", every_s=1.0)
    commits = []
    read_groups = KafkaGateway.read_groups
    transaction = ExitStack()

    def commit_first(self: KafkaGateway, *arguments: Any, **more: Any) -> Any:
        if not commits:
            if is_pending:
                transaction.enter_context(kafka_client.pending_commit(cluster.bootstrap_servers, group, topic, 7))
            else:
                client.commit(cluster.bootstrap_servers, group, {(topic, 0): 7})
            commits.append(7)
        return read_groups(self, *arguments, **more)

    monkeypatch.setattr(KafkaGateway, "read_groups", commit_first)
    with transaction:
        answer = reconciler(tmp_path, "apply", "plan.json")
    assert commits
    assert words in answer.stdout
    assert answer.returncode == 4, answer.stdout + answer.stderr
    assert group in list_groups(cluster)
