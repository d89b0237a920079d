"""`reconciler apply` as a process that is interrupted or killed during its work, and a later apply.

Kafka's own tools show the effects. The tests choose instants by entries of the journal, which apply
writes before each request.
"""

import os
import random
import signal
import subprocess

import pytest

from reconciler.companions.sandbox import client
from reconciler.journal.entry import Event
from reconciler.model.outcome import Status
from tests.e2e.applying import (
    BATCH,
    ELECTIONS,
    GROUPS,
    PARTITIONS,
    ApplyScenario,
    apply_again,
    by_status,
    create_and_plan,
    seconds_until_exit,
    start_apply,
    wait_for_journal_entries,
    wait_for_stderr,
)
from tests.e2e.workspace import Workspace

SEED = 20261121
LANES = 8
ELECTION_ENTRIES, GROUP_ENTRIES = 2 * ELECTIONS, 2 * GROUPS


@pytest.fixture
def scenario(space: Workspace) -> ApplyScenario:
    return create_and_plan(space)


def test_one_signal_waits_for_requests_in_flight(scenario: ApplyScenario) -> None:
    """After an interrupt apply sends nothing new, waits for pending requests, and exits with 5.

    results.json is true, and the next apply does the remaining work: the second one and the third are
    interrupted, too, after what they do first. A terminal sends Ctrl-C, and systemd SIGTERM, to the
    worker processes, too.
    """
    done: set[str] = set()
    for number, to_group, earlier_actions, more in (
        (signal.SIGINT, True, {}, 10),  # among elections
        (signal.SIGTERM, True, {"LeaderPolicy": ELECTIONS}, 10),  # among removals
        (signal.SIGINT, False, {"LeaderPolicy": ELECTIONS, "GroupRemoval": GROUPS}, 20),  # among deletions
    ):
        before = scenario.count_entries()
        left = sum(earlier_actions.values()) - sum(address.startswith(tuple(earlier_actions)) for address in done)
        with start_apply(scenario.space) as process:
            wait_for_journal_entries(scenario, process, before + 2 * left + more)
            (os.killpg if to_group else os.kill)(process.pid, number)
            entry_count = scenario.count_entries()
            stderr = wait_for_stderr(process)
        assert process.returncode == 5, stderr
        assert stderr.count("stopping: no new request is sent") == 1
        entries = scenario.entries()
        assert len([entry for entry in entries[entry_count:] if entry.event is Event.INTENT]) <= LANES * BATCH
        intents = {entry.address for entry in entries[before:] if entry.event is Event.INTENT}
        outcome_entries = {entry.address: entry for entry in entries[before:] if entry.event is Event.OUTCOME}
        # An intent that was stored just before the signal has no request; its outcome says so.
        assert set(outcome_entries) == intents
        sent = {address for address, entry in outcome_entries.items() if entry.sends}
        assert {outcome_entries[address].status for address in intents - sent} <= {Status.NOT_ATTEMPTED}
        document = scenario.space.read("results.json")
        assert document["interrupted"] is True
        assert document["exit_code"] == 5
        outcomes = by_status(document["outcomes"])
        assert outcomes.keys() == {"applied", "not_attempted"} | ({"satisfied"} if done else set())
        assert len(outcomes["applied"]) == len(sent)
        assert {outcome["address"] for outcome in outcomes.get("satisfied", ())} == done
        assert len(document["outcomes"]) == PARTITIONS + GROUPS + ELECTIONS
        scenario.assert_truthful(document["outcomes"])
        done |= set(map(str, sent))
    second_outcomes = by_status(apply_again(scenario.space))
    assert len(second_outcomes["satisfied"]) == len(done)
    assert len(second_outcomes["applied"]) == len(outcomes["not_attempted"])
    scenario.assert_as_planned()


def test_one_signal_before_the_first_request_and_two_during_one(scenario: ApplyScenario) -> None:
    """During the recheck one signal ends it: no request was sent, exit 130, results for every action, and
    no journal. It once released the manifests to `converge` all the same.

    While a paused broker does not answer a request, the first interrupt waits and the second
    does not; exit 5.
    """
    with start_apply(scenario.space, "--release") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "rechecking" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        stderr = wait_for_stderr(process)
    assert process.returncode == 130, stderr
    assert {outcome["status"] for outcome in scenario.space.read("results.json")["outcomes"]} == {"not_attempted"}
    assert not scenario.space.journal_file.exists()
    scenario.assert_as_before()

    with start_apply(scenario.space, timeout_s=60) as process:
        wait_for_journal_entries(scenario, process, ELECTION_ENTRIES + GROUP_ENTRIES + 20)
        scenario.space.cluster.pause(2)
        try:
            entries_before = scenario.count_entries()
            os.killpg(process.pid, signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(3)
            os.killpg(process.pid, signal.SIGINT)
            exit_s = seconds_until_exit(process, 10)
        finally:
            scenario.space.cluster.resume(2)
        stderr = wait_for_stderr(process)
    assert process.returncode == 5, stderr
    assert exit_s < 5
    assert scenario.count_entries() - entries_before <= 2 * LANES * BATCH
    client.wait_until(lambda: is_in_sync(scenario), 90, "all replicas in sync")
    apply_again(scenario.space)
    scenario.assert_as_planned()


def is_in_sync(scenario: ApplyScenario) -> bool:
    """Return whether all replicas are in sync in every broker's metadata."""
    servers = scenario.space.servers.split(",")
    states = [state for server in servers for state in client.partition_states(server, scenario.topic).values()]
    return len(states) == 3 * PARTITIONS and all(set(state.in_sync) == {1, 2, 3} for state in states)


def test_kills_at_random_moments(scenario: ApplyScenario) -> None:
    """After SIGKILL at three seeded instants, with a torn last line, the journal is readable.

    The same plan then ends as planned.
    """
    rng = random.Random(SEED)
    for _ in range(3):
        moment = scenario.count_entries() + rng.randrange(1, 40)
        with start_apply(scenario.space) as process:
            wait_for_journal_entries(scenario, process, moment)
            os.killpg(process.pid, signal.SIGKILL)
            wait_for_stderr(process)
        assert process.returncode == -signal.SIGKILL
        assert not (scenario.space.folder / "results.json").exists()
        with scenario.space.journal_file.open("ab") as journal:
            journal.write(b'{"v":3,"at_ms":17')
        assert len(scenario.space.journal()) == scenario.count_entries() >= moment
    intents = {entry.address for entry in scenario.entries() if entry.event is Event.INTENT}
    digest = scenario.entries()[0].plan_digest
    open_addresses = set(map(str, scenario.actions().open_intents(digest)))
    second_outcomes = by_status(apply_again(scenario.space))
    assert set(second_outcomes) <= {"applied", "satisfied"}
    satisfied = {outcome["address"]: str(outcome["detail"]) for outcome in second_outcomes["satisfied"]}
    assert {address for address, detail in satisfied.items() if "was interrupted" in detail} <= open_addresses
    assert satisfied.keys() <= set(map(str, intents))
    scenario.assert_as_planned()
    assert scenario.actions().open_intents(digest) == {}
