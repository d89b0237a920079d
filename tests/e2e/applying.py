"""Prepares a plan for `reconciler apply` as a process: deletions, removals and elections.

Kafka's own tools show the effects. Requests are small, so that one plan needs many of them.
"""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from reconciler.companions.sandbox import client, tools
from reconciler.journal.entry import JournalEntry
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from tests.command import command, environment
from tests.e2e.workspace import Workspace, floor, leaders, removal
from tests.toolbox import log_start_offsets, partition_leaders

PARTITIONS = 48
RECORDS = 20
FLOOR = 13
GROUPS = 12
ELECTIONS = 16
BATCH = 2


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


APPLY = ("apply", "plan.json", "--batch", str(BATCH))


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


def wait_for_journal_entries(
    scenario: ApplyScenario, process: subprocess.Popen[str], count: int, *, at_most_s: float = 180
) -> None:
    """Wait until the journal has about that many entries, so that the process is in the middle of its
    work.
    """
    client.wait_until(
        lambda: scenario.count_entries() >= count or process.poll() is not None,
        at_most_s,
        f"{count} entries",
        every_s=0.002,
    )
    assert process.poll() is None, f"it ended before {count} entries: {process.stderr.read() if process.stderr else ''}"


def wait_for_stderr(process: subprocess.Popen[str], timeout_s: float = 120) -> str:
    """Wait for the end of the process and return its stderr."""
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
