"""Metrics and step outputs on brokers: what they count is what is gone, and a second run adds to the first."""

import json
import re
import time
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from tests.build import head, write_manifests
from tests.command import reconciler
from tests.toolbox import log_start_offsets

pytestmark = pytest.mark.brokers


def series(path: Path) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(\w+{.*}) (\S+)$", path.read_text(), re.MULTILINE)}


def test_apply_and_converge_count_what_is_gone(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Records, groups and runs, by owner; the second apply of the plan removes nothing more."""
    mark, now_ms = uuid4().hex[:8], int(time.time() * 1000)
    topic, group = f"metrics-{mark}", f"dead-{mark}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, partitions=1)])
    old = [Record(b"old", timestamp_ms=now_ms - 30 * 86_400_000)] * 40
    client.produce(cluster.bootstrap_servers, topic, {0: [*old, Record(b"new", timestamp_ms=now_ms)]})
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 41})
    floor = (
        f"{head('RetentionFloor', 'week, owner: team-orders')}\nspec: {{topics: [{topic}], keep: {{newerThan: 7d}}}}\n"
    )
    removal = f"{head('GroupRemoval', 'dead')}\nspec: {{groups: [{group}], idleFor: 0s}}\n"
    write_manifests(tmp_path, cluster.bootstrap_servers, f"{floor}---\n{removal}")
    step = tmp_path / "step-outputs"
    assert reconciler(tmp_path, "plan", "--out", "plan.json", GITHUB_OUTPUT=str(step)).returncode == 0
    planned = dict(line.split("=") for line in step.read_text().splitlines())
    digest = planned.pop("digest")
    assert f'"plan_digest": "{digest}"' in (tmp_path / "plan.json").read_text()
    assert planned == {
        "actions": "2",
        "irreversible": "2",
        "records_removed_max": "40",
        "blocked": "0",
        "unread": "0",
        "refused": "0",
        "exit_code": "0",
    }
    assert reconciler(tmp_path, "apply", "plan.json", "--dry-run", "--metrics", "run.prom").returncode == 0
    assert not (tmp_path / "run.prom").exists()
    for runs in (1, 2):
        assert reconciler(tmp_path, "apply", "plan.json", "--metrics", "run.prom").returncode == 0
        found = series(tmp_path / "run.prom")
        owned = 'cluster="local",kind="RetentionFloor",owner="team-orders",policy="week"'
        assert found[f"reconciler_records_removed_total{{{owned}}}"] == 40
        removed = 'cluster="local",kind="GroupRemoval",operation="delete_group",owner="",policy="dead",status="applied"'
        assert found[f"reconciler_actions_total{{{removed}}}"] == 1
        assert found['reconciler_runs_total{cluster="local",command="apply",exit_code="0"}'] == runs
    assert log_start_offsets(cluster, topic) == {0: 40}
    events = [json.loads(line) for line in reconciler(tmp_path, "journal", "-o", "cloudevents").stdout.splitlines()]
    assert [event["type"].rpartition(".")[2] for event in events] == ["intent", "outcome"] * 2
    assert reconciler(tmp_path, "converge", "-q", "--metrics", "run.prom").returncode == 0
    found = series(tmp_path / "run.prom")
    assert found['reconciler_runs_total{cluster="local",command="converge",exit_code="0"}'] == 1
    assert found['reconciler_runs_total{cluster="local",command="apply",exit_code="0"}'] == 2
