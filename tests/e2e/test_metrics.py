"""Metrics and step outputs on brokers: what they count is what is gone, and a second run adds to the first."""

import json
import re
from pathlib import Path

from tests.command import reconciler
from tests.e2e.workspace import DAY_MS, Workspace, floor, removal


def series(path: Path) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(\w+{.*}) (\S+)$", path.read_text(), re.MULTILINE)}


def test_apply_and_converge_count_what_is_gone(space: Workspace) -> None:
    """Records, groups and runs, by owner; the second apply of the plan removes nothing more."""
    topic, step, metrics = space.create_topic(40, age_ms=30 * DAY_MS), space.folder / "step", space.folder / "run.prom"
    space.produce(topic, 1)
    group = space.commit(f"dead-{topic}", topic, 41)
    week = floor(topic, "keep: {newerThan: 7d}", name="week, owner: team-orders")
    space.plan(week, removal(group), GITHUB_OUTPUT=str(step))
    planned = dict(line.split("=") for line in step.read_text().splitlines())
    digest = planned.pop("digest")
    assert f'"plan_digest": "{digest}"' in (space.folder / "plan.json").read_text()
    assert planned == {
        "actions": "2",
        "irreversible": "2",
        "records_removed_max": "40",
        "blocked": "0",
        "unread": "0",
        "refused": "0",
        "exit_code": "0",
    }
    space.apply("--dry-run", "--metrics", "run.prom")
    assert not metrics.exists()
    for runs in (1, 2):
        space.apply("--metrics", "run.prom")
        found = series(metrics)
        owned = 'cluster="local",kind="RetentionFloor",owner="team-orders",policy="week"'
        assert found[f"reconciler_records_removed_total{{{owned}}}"] == 40
        removed = 'cluster="local",kind="GroupRemoval",operation="delete_group",owner="",policy="dead",status="applied"'
        assert found[f"reconciler_actions_total{{{removed}}}"] == 1
        assert found['reconciler_runs_total{cluster="local",command="apply",exit_code="0"}'] == runs
    assert space.log_start(topic) == 40
    lines = reconciler(space.folder, "journal", "-o", "cloudevents").stdout.splitlines()
    assert [json.loads(line)["type"].rpartition(".")[2] for line in lines] == ["intent", "outcome"] * 2
    space.run("converge", "-q", "--metrics", "run.prom")
    found = series(metrics)
    assert found['reconciler_runs_total{cluster="local",command="converge",exit_code="0"}'] == 1
    assert found['reconciler_runs_total{cluster="local",command="apply",exit_code="0"}'] == 2
