"""Two apply processes with one plan at the same time waste requests at most.

Kafka's own tools show the effects.
"""

import os
import select
import signal
import subprocess
import time
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.journal.entry import Event, JournalEntry, parse
from reconciler.kafka import journal_topic
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.sandbox.cluster import Cluster
from tests.command import command, environment, reconciler
from tests.e2e.applying import (
    GROUPS,
    PARTITIONS,
    TURNED,
    ApplyScenario,
    create_and_plan,
    results,
)

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


@pytest.mark.parametrize("journal_type", ["file", "topic"])
def test_two_at_once_do_no_harm(cluster: Cluster, spark_server: str, tmp_path: Path, journal_type: str) -> None:
    """Every action ends applied or satisfied in both processes, and applied in at least one.

    The cluster is as planned, and the shared journal is readable and has both runs, also for one
    address.
    """
    more = ""
    if journal_type == "topic":
        name = f"_journal.two.{uuid4().hex[:8]}"
        journal_topic.create_topic(
            KafkaSession(Connection(tuple(cluster.bootstrap_servers.split(",")))), name, retention_ms=-1
        )
        more = f"  journal: {{topic: {name}}}\n"
    scenario = create_and_plan(cluster, tmp_path, more=more, spark_remote=spark_server)
    processes = [start(scenario, "results-1.json")]
    # The first stands still in the middle until the second has rechecked everything and begun, so that both send for the same subjects.
    sent_something(processes[0], 180)
    processes[0].send_signal(signal.SIGSTOP)
    try:
        processes.append(start(scenario, "results-2.json"))
        # Stopped while it held the journal's lock it would hold up the second, too: not for longer than this.
        sent_something(processes[1], 90)
    finally:
        processes[0].send_signal(signal.SIGCONT)
    try:
        stderrs = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], stderrs
    documents = [results(scenario, f"results-{number}.json") for number in (1, 2)]
    outcomes = [{line["address"]: line for line in run_outcomes["outcomes"]} for run_outcomes in documents]
    assert all(len(run_outcomes) == PARTITIONS + GROUPS + TURNED for run_outcomes in outcomes)
    for address in outcomes[0]:
        ends = {run_outcomes[address]["status"] for run_outcomes in outcomes}
        assert ends <= {"applied", "satisfied"}, (address, [run_outcomes[address] for run_outcomes in outcomes])
        assert "applied" in ends, (address, [run_outcomes[address] for run_outcomes in outcomes])
    scenario.assert_as_planned()

    entries = journal(scenario)
    runs = [run_outcomes["run_id"] for run_outcomes in documents]
    assert {entry.run_id for entry in entries} == set(runs)
    for run, run_outcomes in zip(runs, outcomes, strict=True):
        meant = {str(entry.address) for entry in entries if entry.run_id == run and entry.event is Event.INTENT}
        sent = {address for address, line in run_outcomes.items() if line["sends"]}
        assert sent <= meant
        # Stopped between its intents and its request, a run looks again when it wakes, and finds that the other one did it.
        assert {run_outcomes[address]["status"] for address in meant - sent} <= {"satisfied"}
    contested = sorted(
        address for address in outcomes[0] if all(run_outcomes[address]["sends"] for run_outcomes in outcomes)
    )
    for address in contested[:1]:
        assert {entry.run_id for entry in journal(scenario, "--address", address)} == set(runs)


def start(scenario: ApplyScenario, into: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("apply", "plan.json", "--results", into, "--batch", "7"),
        cwd=scenario.folder,
        env=environment(SPARK_REMOTE=scenario.spark_remote),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def sent_something(process: subprocess.Popen[str], at_most_s: float) -> None:
    """Wait until its progress names the first batch, or until a timeout."""
    assert process.stderr is not None
    until, stderr = time.monotonic() + at_most_s, b""
    while time.monotonic() < until and b"elections: " not in stderr:
        if select.select([process.stderr], [], [], 1.0)[0]:
            stderr += os.read(process.stderr.fileno(), 4096)


def journal(scenario: ApplyScenario, *words: str) -> list[JournalEntry]:
    result = reconciler(scenario.folder, "journal", "-o", "json", *words)
    assert result.returncode == 0, result.stderr
    return [parse(line) for line in result.stdout.splitlines()]
