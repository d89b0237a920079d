"""Two apply processes with one plan at the same time waste requests at most.

Kafka's own tools show the effects.
"""

import fcntl
import os
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.applying import ELECTIONS, GROUPS, PARTITIONS, create_and_plan, start_apply, wait_for_stderr
from tests.e2e.workspace import Workspace, create_journal

BATCHES = ("--batch", "7")


@pytest.mark.parametrize("journal_type", ["file", "topic"])
def test_two_simultaneous_applies_do_no_harm(space: Workspace, journal_type: str) -> None:
    """Every action ends applied or satisfied in both processes, and applied in at least one.

    The cluster is as planned, and the shared journal is readable and has both runs, also for one
    address.
    """
    in_a_topic = journal_type == "topic"
    cluster_spec = f"journal: {{topic: {create_journal(space.cluster)}}}" if in_a_topic else ""
    scenario = create_and_plan(space, cluster_spec=cluster_spec)
    # The first process is stopped during its work until the second one sends its first batch, so
    # that both send requests for the same subjects.
    with start_apply(space, *BATCHES, results="results-1.json") as first:
        wait_for_first_batch(first, 180)
        stop_outside_append(first, scenario.space.journal_file)
        with start_apply(space, *BATCHES, results="results-2.json") as second:
            wait_for_first_batch(second, 90)
            first.send_signal(signal.SIGCONT)
            processes = (first, second)
            stderrs = [wait_for_stderr(process, 300) for process in processes]
    documents = [space.read(f"results-{number}.json") for number in (1, 2)]
    failed = [
        (line["address"], line["status"], line["detail"])
        for document in documents
        for line in document["outcomes"]
        if line["status"] not in ("applied", "satisfied")
    ]
    assert [process.returncode for process in processes] == [0, 0], (failed, stderrs)
    outcomes = [{line["address"]: line for line in run_outcomes["outcomes"]} for run_outcomes in documents]
    assert all(len(run_outcomes) == PARTITIONS + GROUPS + ELECTIONS for run_outcomes in outcomes)
    for address in outcomes[0]:
        statuses = {run_outcomes[address]["status"] for run_outcomes in outcomes}
        assert statuses <= {"applied", "satisfied"}, (address, [run_outcomes[address] for run_outcomes in outcomes])
        assert "applied" in statuses, (address, [run_outcomes[address] for run_outcomes in outcomes])
    scenario.assert_as_planned()

    entries = space.journal()
    runs = [run_outcomes["run_id"] for run_outcomes in documents]
    assert {entry["run"] for entry in entries} == set(runs)
    for run, run_outcomes in zip(runs, outcomes, strict=True):
        intended = {entry["address"] for entry in entries if (entry["run"], entry["event"]) == (run, "intent")}
        sent = {address for address, line in run_outcomes.items() if line["sends"]}
        assert sent <= intended
        # A run that was stopped between its intent and its request checks again, and finds the
        # effect of the other run.
        assert {run_outcomes[address]["status"] for address in intended - sent} <= {"satisfied"}
    # No record is counted twice without a word: of two runs that count it, the later one names the other.
    for address in outcomes[0]:
        counting = [own[address] for own in outcomes if own[address]["removed_max"]]
        if len(counting) == 2:
            named = {run for line in counting for run in line.get("also_counted_by", ())}
            assert named, counting
            assert named <= set(runs)
    contested = sorted(
        address for address in outcomes[0] if all(run_outcomes[address]["sends"] for run_outcomes in outcomes)
    )
    for address in contested[:1]:
        assert {entry["run"] for entry in space.journal("--address", address)} == set(runs)


def stop_outside_append(process: subprocess.Popen[str], journal: Path) -> None:
    """Stop the process while it does not hold the lock of the journal file.

    A process that is stopped inside an append keeps the lock, and the other one waits for it before
    its recheck instead of sending for the same subjects.
    """
    for _ in range(100):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        if not journal.exists():
            return
        with journal.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    raise AssertionError("the process held the lock of its journal each time it was stopped")


def wait_for_first_batch(process: subprocess.Popen[str], timeout_s: float) -> None:
    """Wait until its progress names the first batch, or until a timeout."""
    assert process.stderr is not None
    deadline, stderr = time.monotonic() + timeout_s, b""
    while time.monotonic() < deadline and b"elections (" not in stderr:
        if select.select([process.stderr], [], [], 1.0)[0]:
            stderr += os.read(process.stderr.fileno(), 4096)
