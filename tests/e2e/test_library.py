"""The Python library on brokers: the same plan as the command line, the examples, and silence.

Airflow and Dagster are not installed: small modules stand in for their decorators, which pass calls on.
"""

import json
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from reconciler import api
from tests.e2e.workspace import DAY_MS, Workspace, floor

EXAMPLES = Path(__file__).parents[2] / "examples" / "library"


@pytest.fixture
def topic(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic with 40 old records of 100, and the manifests of `prod-eu`, in the current folder."""
    name = space.create_topic(40, age_ms=30 * DAY_MS)
    space.produce(name, 60)
    monkeypatch.chdir(space.folder)
    write(space, name)
    return name


def write(space: Workspace, topic: str, *, protected: str = "unused") -> None:
    week = floor(topic, "keep: {newerThan: 7d}", name="week, owner: tests")
    space.write(week, more=f"protect: {{topics: [{protected}]}}")
    space.edit("name: local", "name: prod-eu")


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: Any) -> None:
    parts = name.split(".")
    for number in range(1, len(parts) + 1):
        module = ModuleType(".".join(parts[:number]))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    vars(module).update(attributes)


def test_it_plans_what_the_command_line_plans_and_says_nothing(
    topic: str, space: Workspace, capfd: pytest.CaptureFixture[str]
) -> None:
    """One digest from both, no byte on the streams, no handler of a signal, also from a thread."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    plans: list[api.Plan] = []
    thread = threading.Thread(target=lambda: plans.append(api.load(cluster="prod-eu").plan(engine="inline")))
    thread.start()
    thread.join(120)
    kafka = api.load("manifests")
    result = kafka.apply(plans[0], expect_digest=api.digest(plans[0]), engine="inline", dry_run=True)
    assert [outcome.status for outcome in result.outcomes] == [api.Status.NOT_ATTEMPTED]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert tuple(capfd.readouterr()) == ("", "")
    space.run("plan", "--out", "plan.json")
    assert api.digest(api.open_plan("plan.json")) == api.digest(plans[0])
    assert space.log_start(topic) == 0


def test_a_protection_that_is_newer_than_the_object_counts(topic: str, space: Workspace) -> None:
    """A notebook that keeps its object would otherwise send what the manifests of now forbid."""
    kafka = api.load()
    plan = kafka.plan(engine="inline")
    assert [action.address.name for action in plan.actions] == [topic]
    write(space, topic, protected=topic)
    result = kafka.apply(plan, expect_digest=api.digest(plan), engine="inline")
    assert [outcome.status for outcome in result.outcomes] == [api.Status.BLOCKED]
    assert result.header.exit_code == 3
    assert space.log_start(topic) == 0


def test_an_apply_stops_before_its_first_request(topic: str, space: Workspace) -> None:
    """`stop` is the flag of a scheduler: each action still has an outcome."""
    kafka = api.load()
    plan = kafka.plan(engine="inline")
    result = kafka.apply(plan, expect_digest=api.digest(plan), engine="inline", stop=lambda: True)
    assert [outcome.status for outcome in result.outcomes] == [api.Status.NOT_ATTEMPTED]
    assert (result.header.exit_code, space.log_start(topic)) == (130, 0)


def test_the_task_of_airflow_applies_the_approved_plan(
    topic: str, space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "airflow.sdk", task=lambda function: function)
    apply_approved: Callable[..., int] = runpy.run_path(str(EXAMPLES / "airflow_task.py"))["apply_approved"]
    plan = api.load().plan(engine="inline")
    path = api.save(plan, "plan.json")
    with pytest.raises(api.PlanUnusable):
        apply_approved(str(path), "sha256:" + "0" * 64)
    assert apply_approved(str(path), api.digest(plan)) == 40
    assert space.log_start(topic) == 40
    [results] = Path().glob("results-*.json")
    assert json.loads(results.read_text())["exit_code"] == 0


def test_the_asset_check_of_dagster_fails_on_drift(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def asset_check(**options: str) -> Callable[[Any], Any]:
        assert options == {"asset": "kafka_topics"}
        return lambda function: function

    stand_in(monkeypatch, "dagster", asset_check=asset_check, AssetCheckResult=SimpleNamespace)
    in_sync = runpy.run_path(str(EXAMPLES / "dagster_check.py"))["in_sync"]
    assert in_sync() == SimpleNamespace(passed=False, metadata={"drifting": 1, "unread": 0})


def test_the_notebook_runs(topic: str) -> None:
    """Facts, a plan and suggestions, cell by cell; the last line of a cell is what Jupyter shows."""
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    scope: dict[str, Any] = {}
    shown = []
    for source in ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"):
        code, _, last = source.rpartition("\n")
        exec(code, scope)
        shown.append(eval(last, scope))
    sums = {row["topic"]: row["high_watermark_sum"] for row in shown[0].to_pylist()}
    assert sums[topic] == 100
    assert {"section": "actions", "policy": "week", "records_removed_max_sum": 40} in shown[1].to_pylist()
    assert all(title for _confidence, title in shown[2])
