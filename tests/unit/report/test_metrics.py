"""Metrics of what runs did: counters that go on, an owner, and nothing that hides a failure."""

import json
import os
import urllib.request
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.cli.app import run
from reconciler.cli.health import Health, served
from reconciler.errors import ClusterUnreachable, ExitCode, UsageError
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import LimitVerdict, Plan, PolicyInfo
from reconciler.plan import plan_file
from reconciler.report.metrics import Metrics, drift_metrics
from tests.command import full_disk
from tests.golden.wording import mentions
from tests.rendering import samples
from tests.strategies.examples import election, plan, purge, removal
from tests.unit.cli.loops import CLUSTER, loop

REFUSED = LimitVerdict(id="recordsPercent", limit=10, observed=40, passed=False, message="40 % of 10 %")


PLAN = plan(purge())
APPLIED = Outcome(action=purge(), status=Status.APPLIED, detail="", removed_max=40)


def ended(*outcomes: Outcome, of: Plan = PLAN, command: str = "converge", code: ExitCode = ExitCode.DONE) -> Metrics:
    """Return the metrics of a run, which one limit refused."""
    metrics = Metrics()
    with metrics.measure(command, "prod-eu") as measured:
        measured.count(of, outcomes, [REFUSED])
        measured.exit_code = code
    return metrics


def test_outcomes_count_by_operation_status_and_owner(tmp_path: Path) -> None:
    """A deletion that failed may have deleted: its upper bound counts, and so does the failure."""
    purged, removed, elected = purge(), removal(), election()
    note = PolicyInfo(policy=purged.address.policy_address, owner="team-orders", reason=None)
    planned = replace(plan(purged, removed, elected), notes=(note,))
    outcomes = [
        Outcome(action=purged, status=Status.FAILED, detail="no answer", sends=1, possible=True, removed_max=97_213),
        Outcome(action=removed, status=Status.APPLIED, detail=""),
        Outcome(action=elected, status=Status.SATISFIED, detail=""),
    ]
    metrics = ended(*outcomes, of=planned, command="apply", code=ExitCode.PARTLY)
    found = samples(metrics, tmp_path / "m.prom")
    by_owner = {(labels[1], labels[2]): value for labels, value in found["reconciler_records_removed_total"].items()}
    assert by_owner["team-orders", "orders-gdpr"] == 97_213
    assert sorted((labels[1], labels[-1]) for labels in found["reconciler_actions_total"]) == [
        ("delete_group", "applied"),
        ("delete_records", "failed"),
        ("elect_leader", "satisfied"),
    ]
    assert found["reconciler_runs_total"] == {("apply", "5"): 1}
    assert found["reconciler_last_run_exit_code"] == {("apply",): 5}
    assert "reconciler_last_success_timestamp_seconds" not in found


def test_a_policy_has_a_series_before_its_first_deletion(tmp_path: Path) -> None:
    """Prometheus sees no increase of a series that begins at 40."""
    assert list(samples(ended(), tmp_path / "m.prom")["reconciler_records_removed_total"].values()) == [0]


def test_counters_go_on_from_the_file_and_the_last_success_stays(tmp_path: Path) -> None:
    """Two runs that delete 40 each would otherwise look like one, and a failure like no success ever."""
    path = tmp_path / "m.prom"
    for error in (False, False, True):
        metrics = Metrics()
        metrics.continue_file(path)
        with suppress(ClusterUnreachable), metrics.measure("converge", "prod-eu") as measured:
            if error:
                raise ClusterUnreachable("no broker")
            measured.count(PLAN, [APPLIED], ())
        found = samples(metrics, path)
    assert list(found["reconciler_records_removed_total"].values()) == [80]
    assert found["reconciler_runs_total"] == {("converge", "0"): 2, ("converge", "1"): 1}
    assert found["reconciler_last_success_timestamp_seconds"][("converge",)] > 1e9
    assert found["reconciler_last_run_exit_code"] == {("converge",): 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no run writes"),
        ("node_load1 3\n", "node_load1"),
        ("no metrics at all {", "text format"),
        ("hi", "text format"),
    ],
    ids=["drift", "other", "text", "a word"],
)
def test_a_file_of_something_else_is_refused_before_anything_is_done(
    tmp_path: Path, text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`converge` on the file of `drift` would replace the metrics that the alerts on drift need.

    Of other text, the error was `could not convert string to float`.
    """
    path = tmp_path / "m.prom"
    if text:
        path.write_text(text)
    else:
        from tests.unit.plan.test_drift import full_report

        drift_metrics([full_report()]).write(path)
    before = path.read_text()
    plan_file.write(plan(purge()), tmp_path / "plan.json")
    assert run(["apply", str(tmp_path / "plan.json"), str(tmp_path), "--metrics", str(path)]) == ExitCode.USAGE
    assert mentions(capsys.readouterr().err, reason, "name a file of its own")
    assert path.read_text() == before


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """`--metrics /dev/null` of root once put a file in the place of the device."""
    (tmp_path / "link").symlink_to("m.prom")
    ended(APPLIED).write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert "reconciler_runs_total" in (tmp_path / "m.prom").read_text()


def test_an_apply_that_is_refused_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that only successes write would look the same while every run fails."""
    plan_file.write(plan(purge()), tmp_path / "plan.json")
    path = tmp_path / "new" / "m.prom"
    words = ["apply", str(tmp_path / "plan.json"), str(tmp_path), f"--metrics={path}"]
    assert run([*words, "--expect-digest=sha256:other"]) == ExitCode.PLAN_UNUSABLE
    assert 'reconciler_runs_total{cluster="prod-eu",command="apply",exit_code="4"} 1.0' in path.read_text()


def test_the_address_is_of_this_machine_and_off_by_default() -> None:
    """A port alone is loopback; an empty host would be every interface by accident."""
    with served(Metrics(), None):
        pass
    for wrong in (":9464", "host", "0.0.0.0:", "1:99999", "9464x"):
        with pytest.raises(UsageError, match="for this machine only"), served(Metrics(), wrong):
            pass


def test_the_endpoint_serves_the_metrics_until_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    with served(ended(APPLIED), "0"):
        address = capsys.readouterr().err.split()[-1]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
        port = address.rpartition(":")[2].partition("/")[0]
        with pytest.raises(UsageError, match="cannot be listened at"), served(Metrics(), port):
            pass
    assert "reconciler_build_info{" in text
    assert "reconciler_records_removed_total{" in text
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=10)


@pytest.mark.parametrize("words", [["watch"], ["converge", "--every", "1s"]])
def test_a_loop_writes_metrics_and_a_health_file_for_each_round(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for one that fails; it counts for the word that was typed, not always as watch."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER % "billing")
    health, metrics, seen = tmp_path / "run" / "health.json", tmp_path / "m.prom", list[object]()
    typed, options = words[0], [f"--health-file={health}", f"--metrics={metrics}"]
    health.parent.mkdir()
    health.write_text('{"at": "of an earlier process"}')
    words = [*words, str(tmp_path / "cluster.yaml"), *options]
    done, _rounds = loop(words, monkeypatch, lambda: seen.append(json.loads(health.read_text())))
    assert done.returncode == ExitCode.ERROR
    assert [state["clusters"]["prod"]["exit_code"] for state in seen] == [1]  # type: ignore[index]
    assert not health.exists()
    assert f'reconciler_runs_total{{cluster="prod",command="{typed}",exit_code="1"}} 2.0' in metrics.read_text()


def test_a_health_file_never_replaces_something_else(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("kind: Cluster\n")
    with pytest.raises(UsageError, match="not a health file"):
        Health(tmp_path / "cluster.yaml")


def test_a_health_file_that_cannot_be_written_gets_old(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a full disk the file stayed young, with the exit code 0 of the last round that could be written."""
    file = tmp_path / "health.json"
    with Health(file) as health:
        health.write(1)
        os.utime(file, (1, 1))
        with full_disk(0):
            health.write(1)
            health.touch()
        assert file.stat().st_mtime == 1
        health.write(1)
        health.touch()
        assert file.stat().st_mtime > 1
    assert capsys.readouterr().err.count("health.json could not be written") == 1


@pytest.mark.parametrize("option", ["--metrics-address=9464", "--health-file=h", "--rounds=2"])
def test_what_is_of_a_loop_needs_one(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["converge", str(tmp_path), option]) == ExitCode.USAGE
    assert "add --every" in capsys.readouterr().err
