"""The reviewed plan is an upper bound: `plan --within` and its apply, after changes of the cluster."""

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.operations.delete_records import DeleteRecords
from reconciler.plan import plan_file
from tests import kafka_client
from tests.build import head, write_manifests
from tests.command import reconciler
from tests.strategies.facts import OTHER_ID
from tests.toolbox import list_groups, log_start_offsets

pytestmark = pytest.mark.brokers


def run_command(folder: Path, *arguments: str, code: int = 0) -> str:
    """The output of a command that exits with this code."""
    result = reconciler(folder, *arguments)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout


def test_changes_after_the_review_are_bounded_or_blocked(cluster: SandboxCluster, tmp_path: Path) -> None:
    """A higher floor becomes the reviewed one; new subjects and edits of the file are beyond the
    review.

    So are a topic that was created again and a group with a new commit. Kafka's own tools show the
    effects of the apply.
    """
    mark = uuid4().hex[:8]
    grown, recreated, tampered, forged, new = (
        f"{name}-{mark}" for name in ("grown", "recreated", "tampered", "forged", "znew")
    )
    idle_group, active_group = f"idle-{mark}", f"active-{mark}"
    servers = cluster.bootstrap_servers
    client.create_topics(servers, [Topic(name) for name in (grown, recreated, tampered, forged, new)])
    for name in (grown, recreated, tampered, forged):
        client.produce(servers, name, {0: [Record(b"x")] * 100})
    for group in (idle_group, active_group):
        client.commit(servers, group, {(new, 0): 0})
    write_manifests(
        tmp_path,
        servers,
        f"""\
{head("RetentionFloor", "floor")}
spec: {{topics: [{grown}, {recreated}, {tampered}, {forged}, {new}], keep: {{last: 90}}, exceptGroups: ["*"], consumers: ignore}}
---
{head("GroupRemoval", "dead")}
spec: {{groups: [{idle_group}, {active_group}], idleFor: 0s}}
""",
    )
    run_command(tmp_path, "plan", "--out", "reviewed.json")
    reviewed_plan = plan_file.read(tmp_path / "reviewed.json")
    plan_file.write(
        replace(
            reviewed_plan,
            decisions=tuple(
                replace(decision, before_offset=1)
                if isinstance(decision, DeleteRecords) and decision.partition.topic == tampered
                else replace(decision, seen=replace(decision.seen, topic_id=OTHER_ID))
                if isinstance(decision, DeleteRecords) and decision.partition.topic == forged
                else decision
                for decision in reviewed_plan.decisions
            ),
        ),
        tmp_path / "reviewed.json",
    )
    for name in (grown, tampered, forged, new):
        client.produce(servers, name, {0: [Record(b"x")] * 150})
    kafka_client.delete_topics(servers, [recreated])
    client.create_topics(servers, [Topic(recreated)])
    client.produce(servers, recreated, {0: [Record(b"x")] * 200})
    client.commit(servers, active_group, {(new, 0): 5})
    text = run_command(
        tmp_path, "plan", "--within", "reviewed.json", "--out", "plan.json", "--output-file", "json=shown.json"
    )
    bounded_plan = json.loads((tmp_path / "plan.json").read_text())
    assert {row["address"]: row["request"].get("before_offset") for row in bounded_plan["actions"]} == {
        f"RetentionFloor/floor/{grown}[0]": 10,
        f"RetentionFloor/floor/{tampered}[0]": 1,
        f"GroupRemoval/dead/{idle_group}": None,
    }
    blocked = {row["address"]: (row["code"], row["reason"]) for row in bounded_plan["blocked"]}
    assert {code for code, _reason in blocked.values()} == {"B108"}
    assert "the topic is" in blocked[f"RetentionFloor/floor/{recreated}[0]"][1]
    assert "the topic is" in blocked[f"RetentionFloor/floor/{forged}[0]"][1]
    assert "new: " in blocked[f"RetentionFloor/floor/{new}[0]"][1]
    assert "other commits" in blocked[f"GroupRemoval/dead/{active_group}"][1]
    assert text.count("B108") == 4
    run_command(tmp_path, "apply", "plan.json")
    log_starts = {name: log_start_offsets(cluster, name)[0] for name in (grown, recreated, tampered, forged, new)}
    assert log_starts == {grown: 10, recreated: 0, tampered: 1, forged: 0, new: 0}
    remaining = list_groups(cluster)
    assert idle_group not in remaining
    assert active_group in remaining
    comparison = run_command(tmp_path, "plan", "diff", "reviewed.json", "plan.json")
    assert comparison.startswith("Differences: 3 blocked")
