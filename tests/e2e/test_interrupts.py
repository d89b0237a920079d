"""`reconciler apply` as a process: interrupted or killed during its work, a later one, and two at the same time.

One plan has deletions, removals and elections. Requests are small, so that it needs many of them. Kafka's own
tools show the effects. The tests choose instants by entries of the journal, which apply writes before each
request.
"""

import fcntl
import os
import random
import select
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.companions.sandbox import client, tools
from reconciler.journal.entry import Event, JournalEntry
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.model.outcome import Status
from tests.command import command, environment
from tests.e2e.workspace import Workspace, create_journal, floor, leaders, removal
from tests.toolbox import log_start_offsets, partition_leaders, warm_tools

PARTITIONS = 48
RECORDS = 20
FLOOR = 13
GROUPS = 12
ELECTIONS = 16
BATCH = 2
APPLY = ("apply", "plan.json", "--batch", str(BATCH))
SEED = 20261121
LANES = 8
ELECTION_ENTRIES, GROUP_ENTRIES = 2 * ELECTIONS, 2 * GROUPS


@dataclass(frozen=True)
class ApplyScenario:
    """A topic with deletions in all partitions, and dead groups.

    The leaders of its first `ELECTIONS` partitions are not the preferred ones.
    """

    space: Workspace
    topic: str
    bystander: str
    dead: tuple[str, ...]

    def actions(self) -> ActionJournal:
        return ActionJournal(JournalFile(self.space.journal_file))

    def entries(self) -> list[JournalEntry]:
        return list(self.actions().entries())

    def count_entries(self) -> int:
        """Count the entries of complete lines: a line has those of a batch."""
        file = self.space.journal_file
        content = file.read_bytes() if file.exists() else b""
        return content[: content.rfind(b"\n") + 1].count(b'"address":"')

    def log_starts(self) -> dict[int, int]:
        return log_start_offsets(self.space.cluster, self.topic)

    def non_preferred(self) -> set[int]:
        """Partitions whose leader is not the first replica."""
        leaders = partition_leaders(self.space.cluster, self.topic)
        assert len(leaders) == PARTITIONS
        return {number for number, (leader, preferred) in leaders.items() if leader != preferred}

    def assert_as_planned(self) -> None:
        """Assert that every action of the plan has its effect and nothing else changed."""
        assert self.log_starts() == dict.fromkeys(range(PARTITIONS), FLOOR)
        assert self.space.groups() & {*self.dead, self.bystander} == {self.bystander}
        # Only the planned partitions: a paused broker may lose the leadership of others.
        assert not self.non_preferred() & set(range(ELECTIONS))

    def assert_as_before(self) -> None:
        assert set(self.log_starts().values()) == {0}
        assert set(self.dead) <= self.space.groups()
        assert self.non_preferred() == set(range(ELECTIONS))

    def assert_truthful(self, outcomes: Sequence[dict[str, Any]]) -> None:
        """Kafka's tools show the effect of each applied action, and none of an action that was not attempted."""
        starts, groups, non_preferred = self.log_starts(), self.space.groups(), self.non_preferred()
        for outcome in outcomes:
            request = outcome["request"]
            match outcome["operation"]:
                case "delete_records":
                    has_effect = starts[request["partition"]] == FLOOR
                case "delete_group":
                    has_effect = request["group"] not in groups
                case _:
                    has_effect = request["partition"] not in non_preferred
            assert outcome["status"] in ("applied", "satisfied", "not_attempted"), outcome
            assert has_effect is (outcome["status"] != "not_attempted"), outcome


def create_and_plan(space: Workspace, *, cluster_spec: str = "") -> ApplyScenario:
    """Create the cluster content and a plan.json in the folder. `cluster_spec`: a line of the Cluster's spec."""
    assignment = [tuple((number + at) % 3 + 1 for at in range(3)) for number in range(PARTITIONS)]
    topic = space.create_topic(RECORDS, assignment=assignment)
    scenario = ApplyScenario(space, topic, f"live-{topic}", tuple(f"dead-{topic}-{n}" for n in range(GROUPS)))
    # Another topic than that of the policies, where groups with commits would block deletions.
    other = space.create_topic(0)
    for group in (*scenario.dead, scenario.bystander):
        client.commit(space.servers, group, {(other, 0): 0})
    moved = {(topic, number): (*assignment[number][1:], assignment[number][0]) for number in range(ELECTIONS)}
    with warm_tools():
        tools.reassign(space.cluster, moved)
    floors = ", ".join(f"{number}: {FLOOR}" for number in range(PARTITIONS))
    space.write(
        floor(topic, f"keep: {{fromOffset: {{{floors}}}}}", name="floors"),
        removal(", ".join(scenario.dead)),
        leaders(topic),
        limits=f"groups: {GROUPS}, groupsPercent: 100, recordsPercentPerTopic: 100, recordsPercent: 100",
        more=cluster_spec,
    )
    planned = Counter(row["operation"] for row in space.plan()["actions"])
    assert planned == {"delete_records": PARTITIONS, "delete_group": GROUPS, "elect_leader": ELECTIONS}
    return scenario


@contextmanager
def start_apply(
    space: Workspace, *words: str, results: str = "results.json", timeout_s: float = 30
) -> Iterator[subprocess.Popen[str]]:
    """Start an apply in its own process group, as a shell does."""
    (space.folder / results).unlink(missing_ok=True)
    with subprocess.Popen(
        command(*APPLY, "--results", results, *words, "--timeout", str(timeout_s)),
        cwd=space.folder,
        env=environment(PYTHONFAULTHANDLER="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def wait_for_journal_entries(scenario: ApplyScenario, process: subprocess.Popen[str], count: int) -> None:
    """Wait until the journal has about that many entries: then the process is in the middle of its work."""
    client.wait_until(
        lambda: scenario.count_entries() >= count or process.poll() is not None, 180, f"{count} entries", every_s=0.002
    )
    assert process.poll() is None, f"it ended before {count} entries: {process.stderr.read() if process.stderr else ''}"


def wait_for_stderr(process: subprocess.Popen[str], timeout_s: float = 120) -> str:
    _, stderr = process.communicate(timeout=timeout_s)
    return stderr


def seconds_until_exit(process: subprocess.Popen[str], timeout_s: float) -> float:
    """Wait for the end of the process and return the seconds until then.

    If it does not end, the test fails with the stacks of all threads.
    """
    start = time.monotonic()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        pytest.fail(f"still running after {timeout_s:.0f} s:\n{wait_for_stderr(process)}")
    return time.monotonic() - start


def apply_again(space: Workspace) -> list[dict[str, Any]]:
    """Run the same plan without an interrupt: exit 0; return its results.

    In a file of their own: in that of the first run, what this one did would stay.
    """
    space.run(*APPLY, "--results", "again.json")
    outcomes: list[dict[str, Any]] = space.read("again.json")["outcomes"]
    return outcomes


def by_status(outcomes: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    outcomes_by_status: dict[str, list[dict[str, Any]]] = {}
    for outcome in outcomes:
        outcomes_by_status.setdefault(str(outcome["status"]), []).append(outcome)
    return outcomes_by_status


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
    with start_apply(space, "--batch", "7", results="results-1.json") as first:
        wait_for_first_batch(first, 180)
        stop_outside_append(first, scenario.space.journal_file)
        with start_apply(space, "--batch", "7", results="results-2.json") as second:
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
