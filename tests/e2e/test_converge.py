"""Continuous policies with a schedule of their own, while producers and consumers run, and `drift` beside them.

Kafka's own tools show the effects. Drift prints nothing while converge keeps up.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from reconciler import pipeline
from reconciler.companions.sandbox import client
from reconciler.manifest import files
from reconciler.manifest.files import ClusterManifests
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.plan import Plan, Waiting
from reconciler.plan.drift import DriftReport, parse
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine, EngineName
from tests.command import reconciler
from tests.e2e.workspace import Workspace, floor, removal
from tests.golden.wording import mentions
from tests.repeats import repeats
from tests.toolbox import committed_offsets, log_start_offsets

EVERY_MS = 1_000
INTERVALS = repeats(4, 20)
DEADLINE_S = 420.0
INLINE = Engine(name=EngineName.INLINE)
"""test_slice.py converges with Spark."""


@pytest.mark.parametrize("consumers", ["block", "clamp"])
def test_a_plan_says_what_a_removal_lets_later_runs_delete(space: Workspace, consumers: str) -> None:
    """The plan showed 20 records and the group, or called its removal good; the next run deleted 70 more."""
    topic = space.create_topic(100)
    group = space.commit("billing", topic, 20)
    rule = f"keep: {{last: 10}}, consumers: {consumers}"
    plan = space.plan(floor(topic, rule, name="stream", mode="continuous"), removal(group))
    assert f"unblocks {topic}[0], where later runs act without another plan" in plan["output"]
    assert "plan again after the apply" not in plan["output"]
    space.apply()
    assert space.log_start(topic) == (20 if consumers == "clamp" else 0)
    space.run("converge", "manifests")
    assert space.log_start(topic) == 90


@pytest.fixture
def space(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The workspace, whose folder is the current one."""
    monkeypatch.chdir(space.folder)
    return space


def new_run(manifests: ClusterManifests, last_purges: dict[TopicPartition, int] | None = None) -> Run:
    return Run(
        manifests=manifests, engine=INLINE, timeout_s=20.0, progress=lambda *_step: None, last_purges=last_purges
    )


def load_manifests() -> ClusterManifests:
    return files.load([Path("manifests")], now_ms=pipeline.wall_clock_ms()).for_cluster()


def converge(
    manifests: ClusterManifests,
    last_purges: dict[TopicPartition, int] | None = None,
    on_plan: Callable[[Plan], None] = lambda _plan: None,
) -> pipeline.ApplyResult:
    with new_run(manifests, last_purges) as run:
        return pipeline.converge(run, on_plan=on_plan)


@contextmanager
def produce_steadily(space: Workspace, topics: Sequence[str]) -> Iterator[None]:
    """Write a few records to two partitions of each topic, three times a second, during the block."""
    producer = Producer({"bootstrap.servers": space.servers, "linger.ms": 0, "log_level": 0})

    def produce_round(records: int) -> None:
        for topic in topics:
            for number in range(2 * records):
                producer.produce(topic, b"x", partition=number % 2)
        assert producer.flush(30) == 0

    def produce(stop: threading.Event) -> None:
        while not stop.wait(0.3):
            produce_round(5)

    produce_round(500)
    with client.run_in_background(produce, "records"):
        yield


def test_purges_keep_their_interval_and_unread_records(space: Workspace) -> None:
    """Over many intervals, `every` holds between deletions and no unread record of the named group
    is deleted.

    The backlog shrinks, and a policy in `mode: merge` is not applied.
    """
    cluster, topic, merge_topic = space.cluster, space.create_topic(0, partitions=2), space.create_topic()
    group = f"app-{topic}"
    rule = f"keep: {{unreadBy: [{group}]}}, every: {EVERY_MS // 1000}s"
    merged = floor(merge_topic, "keep: {last: 10}", name="merged")
    space.write(floor(topic, rule, name="stream", mode="continuous"), merged, limits="")
    part = load_manifests()
    purges: dict[int, list[int]] = {0: [], 1: []}
    deadline = time.monotonic() + DEADLINE_S
    with produce_steadily(space, [topic]), client.member(space.servers, group, [topic]):
        client.wait_until(lambda: len(committed_offsets(cluster, group, topic)) == 2, 60, "the group to commit")
        while min(map(len, purges.values())) < INTERVALS:
            assert time.monotonic() < deadline, f"{purges} after {DEADLINE_S:.0f} s"
            run_result = converge(part)
            assert run_result.header.exit_code == 0, run_result.outcomes
            for outcome in run_result.outcomes:
                assert outcome.action.address.policy == "stream"
                if outcome.status is Status.APPLIED:
                    purges[outcome.action.address.partition].append(1)
        log_starts, committed = log_start_offsets(cluster, topic), committed_offsets(cluster, group, topic)
    for partition in (0, 1):
        assert 0 < log_starts[partition] <= committed[partition]
    assert space.log_start(merge_topic) == 0
    with new_run(part) as run:
        sent = [entry for entry in pipeline.journal_entries(run) if entry.event.value == "intent"]
    for partition in (0, 1):
        times = [entry.at_ms for entry in sent if entry.address.partition == partition]
        assert len(times) >= INTERVALS
        assert all(later - earlier > EVERY_MS for earlier, later in itertools.pairwise(times))
        targets = [dict(entry.request)["before_offset"] for entry in sent if entry.address.partition == partition]
        assert targets == sorted(set(targets))


def test_a_loop_remembers_its_purges_and_needs_no_journal_for_it(space: Workspace, topic: str) -> None:
    """The first round purges at once, as Kafka Streams does after a start, and the second one waits.

    The journal cannot be read. A single `converge` reads it, and is blocked.
    """
    space.write(floor(topic, "keep: {last: 10}, every: 1h", name="paced", mode="continuous"))
    space.journal_file.parent.mkdir()
    space.journal_file.write_text("no entry of a journal\n")
    manifests = load_manifests()

    def produce_and_converge(last_purges: dict[TopicPartition, int] | None) -> pipeline.ApplyResult:
        space.produce(topic, 1)
        return converge(manifests, last_purges)

    [blocked] = produce_and_converge(None).plan.decisions
    assert mentions(str(blocked), "B103", "damaged")
    memory: dict[TopicPartition, int] = {}
    [purged] = produce_and_converge(memory).outcomes
    assert (purged.status, set(memory)) == (Status.APPLIED, {TopicPartition(topic, 0)})
    [waiting] = produce_and_converge(memory).plan.decisions
    assert isinstance(waiting, Waiting)
    memory[TopicPartition(topic, 0)] += 7_200_000
    [purged] = produce_and_converge(memory).outcomes
    assert purged.status is Status.APPLIED, "the clock was set back since"


# --- drift beside converge

RUNS = repeats(4, 20)
DRIFT_AFTER_S = repeats(15, 45)
DRIFT_DEADLINE_S = 180.0
DRIFT_EVERY_S = 2.0
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
        self._next_s = time.monotonic() + DRIFT_EVERY_S
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
def constant_traffic(space: Workspace) -> Iterator[None]:
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

    def converge_well() -> pipeline.ApplyResult:
        result = converge(manifests, on_plan=plans.append)
        assert result.header.exit_code == 0, result
        return result

    # Until the group commits its first offset, its policy is blocked, and that is drift.
    client.wait_until(
        lambda: not converge_well().header.refused and not plans[-1].incomplete and schedule.drift()[0] == 0,
        60,
        "a first quiet run",
    )
    start, runs, actions = time.monotonic(), 0, 0
    while runs < RUNS or time.monotonic() - start < DRIFT_AFTER_S + 5:
        assert time.monotonic() - start < DRIFT_DEADLINE_S, f"{runs} runs after {DRIFT_DEADLINE_S:.0f} s"
        actions += len(converge_well().outcomes)
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
    deadline = time.monotonic() + DRIFT_DEADLINE_S
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

    converge_well()
    client.wait_until(
        lambda: not converge_well().header.refused and schedule.drift() == (0, ""), 60, "quiet after converge ran again"
    )
