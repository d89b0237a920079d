"""Prepares a plan for `reconciler apply` as a process: deletions, removals and elections.

Kafka's own tools show the effects. Requests are small, so that one plan needs many of them.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client, tools
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.journal.entry import JournalEntry
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from tests.command import command, environment, reconciler
from tests.e2e.workspace import Workspace, floor, leaders, removal
from tests.toolbox import list_groups, log_start_offsets, partition_leaders

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

    cluster: SandboxCluster
    folder: Path
    topic: str
    bystander: str
    dead: tuple[str, ...]

    @property
    def journal(self) -> Path:
        return self.folder / "manifests" / ".reconciler" / "local.jsonl"

    def entries(self) -> list[JournalEntry]:
        return list(ActionJournal(JournalFile(self.journal)).entries())

    def log_starts(self) -> dict[int, int]:
        return log_start_offsets(self.cluster, self.topic)

    def groups(self) -> set[str]:
        return list_groups(self.cluster)

    def non_preferred(self) -> set[int]:
        """Partitions whose leader is not the first replica."""
        leaders = partition_leaders(self.cluster, self.topic)
        assert len(leaders) == PARTITIONS
        return {number for number, (leader, preferred) in leaders.items() if leader != preferred}

    def assert_as_planned(self) -> None:
        """Assert that every action of the plan has its effect and nothing else changed."""
        assert self.log_starts() == dict.fromkeys(range(PARTITIONS), FLOOR)
        groups = self.groups()
        assert not groups & set(self.dead)
        assert self.bystander in groups
        # Only the planned partitions: a paused broker may lose the leadership of others.
        assert not self.non_preferred() & set(range(ELECTIONS))

    def assert_as_before(self) -> None:
        assert set(self.log_starts().values()) == {0}
        assert set(self.dead) <= self.groups()
        assert self.non_preferred() == set(range(ELECTIONS))


def create_and_plan(cluster: SandboxCluster, folder: Path, *, cluster_spec: str = "") -> ApplyScenario:
    """Create the cluster content and a plan.json in its folder.

    `cluster_spec` is a line of the Cluster's spec.
    """
    mark = uuid4().hex[:10]
    scenario = ApplyScenario(
        cluster,
        folder,
        f"interrupted-{mark}",
        f"bystander-{mark}",
        tuple(f"dead-{mark}-{number}" for number in range(GROUPS)),
    )
    servers = cluster.bootstrap_servers
    assignment = [tuple((number + at) % 3 + 1 for at in range(3)) for number in range(PARTITIONS)]
    # Another topic than that of the policies, where groups with commits would block deletions.
    bystander_topic = f"bystander-topic-{mark}"
    client.create_topics(servers, [Topic(scenario.topic, assignment=assignment), Topic(bystander_topic)])
    client.produce(servers, scenario.topic, dict.fromkeys(range(PARTITIONS), [Record(b"x")] * RECORDS))
    for group in (*scenario.dead, scenario.bystander):
        client.commit(servers, group, {(bystander_topic, 0): 0})
    tools.reassign(
        cluster,
        {(scenario.topic, number): (*assignment[number][1:], assignment[number][0]) for number in range(ELECTIONS)},
    )
    floors = ", ".join(f"{number}: {FLOOR}" for number in range(PARTITIONS))
    Workspace(cluster, folder).write(
        floor(scenario.topic, f"keep: {{fromOffset: {{{floors}}}}}", name="floors"),
        removal(", ".join(scenario.dead)),
        leaders(scenario.topic),
        limits=f"groups: {GROUPS}, groupsPercent: 100, recordsPercentPerTopic: 100, recordsPercent: 100",
        more=cluster_spec,
    )
    plan = reconciler(folder, "plan", "--out", "plan.json")
    assert plan.returncode == 0, plan.stdout + plan.stderr
    assert f"records of {PARTITIONS} partitions of 1 topic deleted" in plan.stdout, plan.stdout
    assert f"{GROUPS} groups removed" in plan.stdout
    assert f"leaders of {ELECTIONS} partitions of 1 topic elected" in plan.stdout
    return scenario


APPLY = ("apply", "plan.json", "--results", "results.json", "--batch", str(BATCH))


@contextmanager
def start_apply(scenario: ApplyScenario, *words: str, timeout_s: float = 30) -> Iterator[subprocess.Popen[str]]:
    """Start an apply in its own process group, as a shell does."""
    (scenario.folder / "results.json").unlink(missing_ok=True)
    with subprocess.Popen(
        command(*APPLY, *words, "--timeout", str(timeout_s)),
        cwd=scenario.folder,
        env=environment(PYTHONFAULTHANDLER="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def count_journal_entries(scenario: ApplyScenario) -> int:
    """Count the entries of complete lines: a line has those of a batch."""
    content = scenario.journal.read_bytes() if scenario.journal.exists() else b""
    return content[: content.rfind(b"\n") + 1].count(b'"address":"')


def wait_for_journal_entries(
    scenario: ApplyScenario, process: subprocess.Popen[str], count: int, *, at_most_s: float = 180
) -> None:
    """Wait until the journal has about that many entries, so that the process is in the middle of its
    work.
    """
    client.wait_until(
        lambda: count_journal_entries(scenario) >= count or process.poll() is not None,
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


def apply_again(scenario: ApplyScenario) -> list[dict[str, Any]]:
    """Run the same plan without an interrupt: exit 0; return its results.

    In a file of their own: in that of the first run, what this one did would stay.
    """
    result = reconciler(scenario.folder, *(word.replace("results.json", "again.json") for word in APPLY))
    assert result.returncode == 0, result.stderr
    outcomes: list[dict[str, Any]] = results(scenario, "again.json")["outcomes"]
    return outcomes


def results(scenario: ApplyScenario, name: str = "results.json") -> dict[str, Any]:
    document: dict[str, Any] = json.loads((scenario.folder / name).read_text())
    return document


def by_status(outcomes: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    outcomes_by_status: dict[str, list[dict[str, Any]]] = {}
    for outcome in outcomes:
        outcomes_by_status.setdefault(str(outcome["status"]), []).append(outcome)
    return outcomes_by_status


def assert_truthful(scenario: ApplyScenario, outcomes: Sequence[dict[str, Any]]) -> None:
    """Kafka's tools show the effect of each applied action and no effect of an action that was not
    attempted.
    """
    starts, groups, non_preferred = scenario.log_starts(), scenario.groups(), scenario.non_preferred()
    for outcome in outcomes:
        request = outcome["request"]
        assert isinstance(request, dict)
        match outcome["operation"]:
            case "delete_records":
                has_effect = starts[request["partition"]] == FLOOR
            case "delete_group":
                has_effect = request["group"] not in groups
            case _:
                has_effect = request["partition"] not in non_preferred
        assert outcome["status"] in ("applied", "satisfied", "not_attempted"), outcome
        assert has_effect is (outcome["status"] != "not_attempted"), outcome
