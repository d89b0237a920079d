"""Continuous policies with a schedule of their own, while a producer and a consumer run.

Kafka's own tools show the effects.
"""

import itertools
import time

import pytest

from reconciler import pipeline
from reconciler.companions.sandbox import client
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.plan import Waiting
from tests.e2e.converging import load_manifests, new_run, produce_steadily
from tests.e2e.workspace import Workspace, floor
from tests.golden.wording import mentions
from tests.repeats import repeats
from tests.toolbox import committed_offsets, log_start_offsets

EVERY_MS = 1_000
INTERVALS = repeats(4, 20)
DEADLINE_S = 420.0


def test_purges_keep_their_interval_and_unread_records(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many intervals, `every` holds between deletions and no unread record of the named group
    is deleted.

    The backlog shrinks, and a policy in `mode: merge` is not applied.
    """
    cluster, topic, merge_topic = space.cluster, space.create_topic(0, partitions=2), space.create_topic()
    group = f"app-{topic}"
    rule = f"keep: {{unreadBy: [{group}]}}, every: {EVERY_MS // 1000}s"
    merged = floor(merge_topic, "keep: {last: 10}", name="merged")
    space.write(floor(topic, rule, name="stream", mode="continuous"), merged, limits="")
    monkeypatch.chdir(space.folder)
    part = load_manifests()
    purges: dict[int, list[int]] = {0: [], 1: []}
    deadline = time.monotonic() + DEADLINE_S
    with produce_steadily(space, [topic]), client.member(space.servers, group, [topic]):
        client.wait_until(lambda: len(committed_offsets(cluster, group, topic)) == 2, 60, "the group to commit")
        while min(map(len, purges.values())) < INTERVALS:
            assert time.monotonic() < deadline, f"{purges} after {DEADLINE_S:.0f} s"
            with new_run(part) as run:
                run_result = pipeline.converge(run, on_plan=lambda _plan: None)
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


def test_a_loop_remembers_its_purges_and_needs_no_journal_for_it(
    space: Workspace, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first round purges at once, as Kafka Streams does after a start, and the second one waits.

    The journal cannot be read. A single `converge` reads it, and is blocked.
    """
    space.write(floor(topic, "keep: {last: 10}, every: 1h", name="paced", mode="continuous"))
    space.journal_file.parent.mkdir()
    space.journal_file.write_text("no entry of a journal\n")
    monkeypatch.chdir(space.folder)
    manifests = load_manifests()

    def converge(last_purges: dict[TopicPartition, int] | None) -> pipeline.ApplyResult:
        space.produce(topic, 1)
        with new_run(manifests, last_purges) as run:
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
