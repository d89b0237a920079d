"""`reconciler apply` as a process that is interrupted or killed during its work, and a later apply.

Kafka's own tools show the effects. The tests choose instants by lines of the journal, which apply
writes before each request.
"""

import os
import random
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.journal.entry import Event
from reconciler.journal.journal import file_journal
from reconciler.model.outcome import Status
from reconciler.sandbox import client
from reconciler.sandbox.cluster import Cluster
from tests.command import reconciler
from tests.e2e.applying import (
    BATCH,
    GROUPS,
    PARTITIONS,
    TURNED,
    ApplyScenario,
    apply_again,
    assert_truthful,
    await_lines,
    by_status,
    create_and_plan,
    end_output,
    left_within,
    lines,
    results,
    running,
)

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

SEED = 20261121
LANES = 8
ELECTION_LINES, GROUP_LINES = 2 * TURNED, 2 * GROUPS


@pytest.fixture
def scenario(cluster: Cluster, spark_server: str, tmp_path: Path) -> ApplyScenario:
    return create_and_plan(cluster, tmp_path, spark_remote=spark_server)


@pytest.mark.parametrize(
    ("number", "to_group", "moment"),
    [
        (signal.SIGINT, True, 10),
        (signal.SIGTERM, False, ELECTION_LINES + 10),
        (signal.SIGINT, False, ELECTION_LINES + GROUP_LINES + 20),
    ],
    ids=["ctrl-c among elections", "sigterm among removals", "ctrl-c among deletions"],
)
def test_one_signal_ends_what_is_in_flight(
    scenario: ApplyScenario, number: signal.Signals, to_group: bool, moment: int
) -> None:
    """After an interrupt apply sends nothing new, waits for pending requests, and exits with 5.

    results.json is true, and the next apply does the remaining work.
    """
    if to_group:  # a signal to the whole group reaches a JVM of its own as well
        scenario = replace(scenario, spark_remote="")
    with running(scenario) as process:
        await_lines(scenario, process, moment)
        # A terminal sends it to every process in front of it, the Spark JVM and the readers of commits included.
        (os.killpg if to_group else os.kill)(process.pid, number)
        at = lines(scenario)
        stderr = end_output(process)
    assert process.returncode == 5, stderr
    assert stderr.count("stopping: no new request is sent") == 1
    entries = scenario.entries()
    assert len([entry for entry in entries[at:] if entry.event is Event.INTENT]) <= LANES * BATCH
    intents = {entry.address for entry in entries if entry.event is Event.INTENT}
    told_of = {entry.address: entry for entry in entries if entry.event is Event.OUTCOME}
    # An intent that was just stored when the signal came has no request, and an end that says so.
    assert set(told_of) == intents
    sent = {address for address, entry in told_of.items() if entry.sends}
    assert {told_of[address].status for address in intents - sent} <= {Status.NOT_ATTEMPTED}
    document = results(scenario)
    assert document["interrupted"] is True
    assert document["exit_code"] == 5
    outcomes = by_status(document["outcomes"])
    assert set(outcomes) == {"applied", "not_attempted"}
    assert len(outcomes["applied"]) == len(sent)
    assert len(document["outcomes"]) == PARTITIONS + GROUPS + TURNED
    assert_truthful(scenario, document["outcomes"])
    again = by_status(apply_again(scenario))
    assert len(again["satisfied"]) == len(sent)
    assert len(again["applied"]) == len(outcomes["not_attempted"])
    scenario.assert_as_planned()


def test_one_signal_before_the_first_request(scenario: ApplyScenario) -> None:
    """During the recheck: no request was sent, exit 130, results for every action, and no journal."""
    scenario = replace(scenario, spark_remote="")  # its JVM hears the signal, too
    with running(scenario) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "rechecking" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        stderr = end_output(process)
    assert process.returncode == 130, stderr
    assert {outcome["status"] for outcome in results(scenario)["outcomes"]} == {"not_attempted"}
    assert not scenario.journal.exists()
    scenario.assert_as_before()


def test_two_signals_leave_at_once(scenario: ApplyScenario) -> None:
    """While a paused broker does not answer a request, the first interrupt waits and the second
    does not; exit 5.
    """
    with running(scenario, timeout_s=60) as process:
        await_lines(scenario, process, ELECTION_LINES + GROUP_LINES + 20)
        scenario.cluster.pause(2)
        try:
            held = lines(scenario)
            os.killpg(process.pid, signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(3)
            os.killpg(process.pid, signal.SIGINT)
            took_s = left_within(process, 10)
        finally:
            scenario.cluster.resume(2)
        stderr = end_output(process)
    assert process.returncode == 5, stderr
    assert took_s < 5
    assert lines(scenario) - held <= 2 * LANES * BATCH
    client.wait_until(lambda: in_sync(scenario), 90, "all replicas in sync")
    apply_again(scenario)
    scenario.assert_as_planned()


def in_sync(scenario: ApplyScenario) -> bool:
    """Leaders in every broker's metadata."""
    servers = [f"127.0.0.1:{broker.port}" for broker in scenario.cluster.brokers]
    states = [state for server in servers for state in client.partition_states(server, scenario.topic).values()]
    return len(states) == 3 * PARTITIONS and all(set(state.in_sync) == {1, 2, 3} for state in states)


def test_kills_at_random_moments(scenario: ApplyScenario) -> None:
    """After SIGKILL at three seeded instants, with a torn last line, the journal is readable.

    The same plan then ends as planned.
    """
    rng = random.Random(SEED)
    for _ in range(3):
        moment = lines(scenario) + rng.randrange(1, 40)
        with running(scenario) as process:
            await_lines(scenario, process, moment)
            os.killpg(process.pid, signal.SIGKILL)
            end_output(process)
        assert process.returncode == -signal.SIGKILL
        assert not (scenario.folder / "results.json").exists()
        with scenario.journal.open("ab") as journal:
            journal.write(b'{"v":2,"at_ms":17')
        answer = reconciler(scenario.folder, "journal", "-o", "json")
        assert answer.returncode == 0, answer.stderr
        assert len(answer.stdout.splitlines()) == lines(scenario) >= moment
    intents = {entry.address for entry in scenario.entries() if entry.event is Event.INTENT}
    open_ones = set(map(str, file_journal(scenario.journal).open_intents(scenario.entries()[0].plan_digest)))
    again = by_status(apply_again(scenario))
    assert set(again) <= {"applied", "satisfied"}
    taken_up = [outcome for outcome in again["satisfied"] if "was interrupted" in str(outcome["detail"])]
    assert {str(outcome["address"]) for outcome in taken_up} <= open_ones
    assert {str(address) for address in intents} >= {str(outcome["address"]) for outcome in again["satisfied"]}
    scenario.assert_as_planned()
    assert file_journal(scenario.journal).open_intents(scenario.entries()[0].plan_digest) == {}
