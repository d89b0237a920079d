"""Continuous policies with a schedule of their own, while a producer and a consumer run.

Kafka's own tools show the effects.
"""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler import pipeline
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.manifest import files
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.plan import Waiting
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine, EngineName
from tests.build import cluster_manifest, head
from tests.golden.wording import mentions
from tests.repeats import repeats
from tests.toolbox import committed_offsets, log_start_offsets

pytestmark = pytest.mark.brokers

EVERY_MS = 1_000
INTERVALS = repeats(4, 20)
DEADLINE_S = 420.0
INLINE = Engine(name=EngineName.INLINE)
"""test_slice.py converges with Spark."""


@contextmanager
def produce_records(servers: str, topic: str) -> Iterator[None]:
    """Write a few records per second to each of two partitions during the block."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.3):
            client.produce(servers, topic, {n: [Record(b"x")] * 5 for n in range(2)})

    client.produce(servers, topic, {n: [Record(b"x")] * 500 for n in range(2)})
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def test_purges_keep_their_interval_and_unread_records(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over many intervals, `every` holds between deletions and no unread record of the named group
    is deleted.

    The backlog shrinks, and a policy in `mode: merge` is not applied.
    """
    mark = uuid4().hex[:8]
    topic, merge_topic, group = f"stream-{mark}-repartition", f"merged-{mark}", f"app-{mark}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, partitions=2), Topic(merge_topic)])
    client.produce(cluster.bootstrap_servers, merge_topic, {0: [Record(b"x")] * 100})
    (tmp_path / "set.yaml").write_text(
        f"""\
{cluster_manifest(cluster.bootstrap_servers, limits="")}---
{head("RetentionFloor", "stream")}
mode: continuous
spec:
  topics: [{topic}]
  keep: {{unreadBy: [{group}]}}
  every: {EVERY_MS // 1000}s
---
{head("RetentionFloor", "merged")}
spec:
  topics: [{merge_topic}]
  keep: {{last: 10}}
"""
    )
    monkeypatch.chdir(tmp_path)
    part = files.load([Path("set.yaml")], now_ms=pipeline.wall_clock_ms()).for_cluster()
    purges: dict[int, list[int]] = {0: [], 1: []}
    deadline = time.monotonic() + DEADLINE_S
    with produce_records(cluster.bootstrap_servers, topic), client.member(cluster.bootstrap_servers, group, [topic]):
        client.wait_until(lambda: len(committed_offsets(cluster, group, topic)) == 2, 60, "the group to commit")
        while min(map(len, purges.values())) < INTERVALS:
            assert time.monotonic() < deadline, f"{purges} after {DEADLINE_S:.0f} s"
            with Run(manifests=part, engine=INLINE, timeout_s=20.0, progress=lambda *_step: None) as run:
                run_result = pipeline.converge(run, on_plan=lambda _plan: None)
            assert run_result.header.exit_code == 0, run_result.outcomes
            for outcome in run_result.outcomes:
                assert outcome.action.address.policy == "stream"
                if outcome.status is Status.APPLIED:
                    purges[outcome.action.address.partition].append(1)
        log_starts, committed = log_start_offsets(cluster, topic), committed_offsets(cluster, group, topic)
    for partition in (0, 1):
        assert 0 < log_starts[partition] <= committed[partition]
    assert log_start_offsets(cluster, merge_topic) == {0: 0}
    with Run(manifests=part, engine=INLINE, timeout_s=20.0, progress=lambda *_step: None) as run:
        sent = [entry for entry in pipeline.journal_entries(run) if entry.event.value == "intent"]
    for partition in (0, 1):
        times = [entry.at_ms for entry in sent if entry.address.partition == partition]
        assert len(times) >= INTERVALS
        assert all(later - earlier > EVERY_MS for earlier, later in itertools.pairwise(times))
        targets = [dict(entry.request)["before_offset"] for entry in sent if entry.address.partition == partition]
        assert targets == sorted(set(targets))


def test_a_loop_remembers_its_purges_and_needs_no_journal_for_it(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first round purges at once, as Kafka Streams does after a start, and the second one waits.

    The journal cannot be read. A single `converge` reads it, and is blocked.
    """
    topic = f"paced-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 100})
    (tmp_path / "set.yaml").write_text(
        f"""\
{cluster_manifest(cluster.bootstrap_servers, limits="recordsPercentPerTopic: 100, recordsPercent: 100")}---
{head("RetentionFloor", "paced")}
mode: continuous
spec:
  topics: [{topic}]
  keep: {{last: 10}}
  every: 1h
"""
    )
    monkeypatch.chdir(tmp_path)
    journal = tmp_path / ".reconciler" / "local.jsonl"
    journal.parent.mkdir()
    journal.write_text("no entry of a journal\n")
    manifests = files.load([Path("set.yaml")], now_ms=pipeline.wall_clock_ms()).for_cluster()

    def converge(last_purges: dict[TopicPartition, int] | None) -> pipeline.ApplyResult:
        client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")]})
        run = Run(
            manifests=manifests, engine=INLINE, timeout_s=20.0, progress=lambda *_step: None, last_purges=last_purges
        )
        with run:
            return pipeline.converge(run, on_plan=lambda _plan: None)

    [blocked] = converge(None).plan.decisions
    assert mentions(str(blocked), "B103", "damaged")
    memory: dict[TopicPartition, int] = {}
    [purged] = converge(memory).outcomes
    assert (purged.status, set(memory)) == (Status.APPLIED, {TopicPartition(topic, 0)})
    [waiting] = converge(memory).plan.decisions
    assert isinstance(waiting, Waiting)
    memory[TopicPartition(topic, 0)] += 7_200_000
    [purged] = converge(memory).outcomes
    assert purged.status is Status.APPLIED, "the clock was set back since"
