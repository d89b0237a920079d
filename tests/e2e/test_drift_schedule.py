"""Scheduled `drift` runs beside `converge`, on a cluster with constant traffic.

Drift prints nothing while converge keeps up.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reconciler import pipeline
from reconciler.companions.sandbox import client
from reconciler.model.plan import Plan
from reconciler.plan.drift import DriftReport, parse
from tests.command import reconciler
from tests.e2e.converging import load_manifests, new_run, produce_steadily
from tests.e2e.workspace import Workspace, floor
from tests.repeats import repeats

RUNS = repeats(4, 20)
DRIFT_AFTER_S = repeats(15, 45)
DEADLINE_S = 180.0
EVERY_S = 2.0
"""The least time between two runs of the schedule; without it they would use all CPU time that there is."""
POLICIES = ("newest", "short", "stream")


class Schedule:
    """A folder for repeated `drift` runs, each with the previous report."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._next_s = time.monotonic()

    def drift(self) -> tuple[int, str]:
        """(exit code, output) of the next run with -q, as cron runs it."""
        time.sleep(max(0.0, self._next_s - time.monotonic()))
        self._next_s = time.monotonic() + EVERY_S
        words = ("drift", "-q", "--previous", "drift.json", "--metrics", "drift.prom")
        done = reconciler(self.folder, *words, "--output-file", "json=drift.json", "--output-file", "md=drift.md")
        return done.returncode, done.stdout + done.stderr

    def report(self) -> DriftReport:
        [report] = parse((self.folder / "drift.json").read_text())
        return report

    def markdown(self) -> str:
        return (self.folder / "drift.md").read_text()

    def metrics(self) -> dict[tuple[str, str], float]:
        """(name, policy) → value; the policy is empty for metrics of the cluster."""
        families = text_string_to_metric_families((self.folder / "drift.prom").read_text())
        return {
            (sample.name, sample.labels.get("policy", "")): sample.value
            for family in families
            for sample in family.samples
            if "decision" not in sample.labels
        }


@pytest.fixture
def constant_traffic(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three topics with constant traffic, one of them with a consumer, and a moving floor of each
    type on them.
    """
    topics = [space.create_topic(0, partitions=2) for _ in POLICIES]
    group = f"app-{topics[-1]}"
    keep_rules = ("newerThan: 2s", "last: 10", f"unreadBy: [{group}]")
    floors = (
        floor(topic, f"keep: {{{keep}}}, every: 1s, driftAfter: {DRIFT_AFTER_S}s", name=name, mode="continuous")
        for name, topic, keep in zip(POLICIES, topics, keep_rules, strict=True)
    )
    space.write(*floors, limits="recordsPercent: 100, recordsPercentPerTopic: 100")
    monkeypatch.chdir(space.folder)
    with produce_steadily(space, topics), client.member(space.servers, group, [topics[-1]]):
        yield


def test_drift_prints_nothing_while_converge_keeps_up(constant_traffic: None, tmp_path: Path) -> None:
    """Drift is quiet while converge runs and for `driftAfter` after it, then reports, and is quiet
    again after converge.

    Scheduled runs for longer than `driftAfter` print nothing and exit with 0 while records come and
    go. Without converge, drift stays quiet for `driftAfter`. Then it exits with 2 and a report that
    names the three policies and the start of the drift. The report does not change until another
    policy drifts. After the next converge drift is quiet.
    """
    schedule, manifests = Schedule(tmp_path), load_manifests()
    plans: list[Plan] = []

    def converge() -> Any:
        with new_run(manifests) as run:
            result = pipeline.converge(run, on_plan=plans.append)
        assert result.header.exit_code == 0, result
        return result

    # Until the group commits its first offset, its policy is blocked, and that is drift.
    client.wait_until(
        lambda: not converge().header.refused and not plans[-1].incomplete and schedule.drift()[0] == 0,
        60,
        "a first quiet run",
    )
    start, runs, actions = time.monotonic(), 0, 0
    while runs < RUNS or time.monotonic() - start < DRIFT_AFTER_S + 5:
        assert time.monotonic() - start < DEADLINE_S, f"{runs} runs after {DEADLINE_S:.0f} s"
        actions += len(converge().outcomes)
        code, output = schedule.drift()
        # Compare with the round before the last one, because the last one may have waited for
        # `every`.
        # On a machine that is too slow for two rounds converge does not keep up, and drift is
        # right.
        if schedule.report().observed_at_ms - plans[-2].observed_at_ms < DRIFT_AFTER_S * 1000:
            assert (code, output) == (0, ""), schedule.markdown()
            runs += 1
            metrics_in_sync = schedule.metrics()
    assert actions >= RUNS, "floors that do not move prove nothing"
    assert metrics_in_sync["reconciler_in_sync", ""] == 1
    assert {name: metrics_in_sync["reconciler_drift_subjects", name] for name in POLICIES} == dict.fromkeys(POLICIES, 0)
    assert ("reconciler_drift_since_timestamp_seconds", "") not in metrics_in_sync

    # A partition that waited for `every` in the last round has the floor of the round before it.
    stopped_ms = plans[-2].observed_at_ms
    first_ms: dict[Any, int] = {}
    deadline = time.monotonic() + DEADLINE_S
    while {address.policy for address in first_ms} != set(POLICIES) or len(first_ms) < 6:
        assert time.monotonic() < deadline, f"only {first_ms} drifts"
        code, output = schedule.drift()
        report = schedule.report()
        assert code == (2 if report.subjects else 0), output
        assert bool(output) == bool(report.subjects)
        for subject in report.subjects:
            first_ms.setdefault(subject.address, report.observed_at_ms)
            # The consumer commits some time after it reads, so a floor of unreadBy may be due
            # earlier.
            early_ms = 10_000 if subject.address.policy == "stream" else 0
            assert report.observed_at_ms - stopped_ms > DRIFT_AFTER_S * 1000 - early_ms
    report_before, markdown = schedule.report(), schedule.markdown()
    code, output = schedule.drift()
    next_report = schedule.report()
    assert code == 2
    assert next_report.observed_at_ms > report_before.observed_at_ms
    assert schedule.markdown() == markdown, "every run would edit the issue"
    assert len(output.splitlines()) < 20, output
    assert {subject.address: subject.since_ms for subject in next_report.subjects} == first_ms
    metrics_in_drift = schedule.metrics()
    assert metrics_in_drift["reconciler_in_sync", ""] == 0
    assert {name: metrics_in_drift["reconciler_drift_subjects", name] for name in POLICIES} == dict.fromkeys(
        POLICIES, 2
    )
    assert metrics_in_drift["reconciler_drift_since_timestamp_seconds", ""] == pytest.approx(
        min(first_ms.values()) / 1000
    )

    converge()
    client.wait_until(
        lambda: not converge().header.refused and schedule.drift() == (0, ""), 60, "quiet after converge ran again"
    )
