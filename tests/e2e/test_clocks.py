"""A machine whose clock is two days ahead, and one whose clock passes the end of a waiver, on real brokers."""

import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.clock import wall_clock_ms
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.kafka import journal_topic
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.text.formatting import format_instant
from tests.build import cluster_manifest, head
from tests.command import environment, reconciler
from tests.toolbox import log_start_offsets, run_kafka_tool

pytestmark = pytest.mark.brokers

TWO_DAYS_AHEAD = """\
import time
now = time.time_ns
time.time_ns = lambda: now() + 2 * 86_400 * 10**9
from reconciler.__main__ import main
main()
"""
LATER_ONCE_STORED = """\
import time
from pathlib import Path
now, journal = time.time_ns, Path("manifests/.reconciler/local.jsonl")
time.time_ns = lambda: now() + 11 * 60 * 10**9 * journal.exists()
from reconciler.__main__ import main
main()
"""


def write_manifests(cluster: SandboxCluster, folder: Path, journal: str) -> str:
    """Write a policy that keeps the records of a day, and return its topic, whose records are new."""
    topic = f"young-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 100})
    manifest = cluster_manifest(cluster.bootstrap_servers, limits="recordsPercentPerTopic: 100, recordsPercent: 100")
    (folder / "manifests").mkdir()
    (folder / "manifests" / "set.yaml").write_text(
        f"""\
{manifest}  journal: {{topic: {journal}}}
---
{head("RetentionFloor", "young")}
mode: continuous
spec:
  topics: [{topic}]
  keep: {{newerThan: 1d}}
"""
    )
    return topic


def run_with_clock(program: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.parametrize("verb", [("converge",), ("watch", "--rounds", "1")])
def test_converge_on_a_machine_two_days_ahead_does_nothing(
    cluster: SandboxCluster, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    """To it, records of this minute are two days old. The brokers' stamp of its own intent says no."""
    journal = f"_journal.{uuid4().hex[:12]}"
    session = KafkaSession(Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=20.0))
    journal_topic.create_topic(session, journal)
    topic = write_manifests(cluster, tmp_path, journal)
    result = run_with_clock(TWO_DAYS_AHEAD, tmp_path, *verb)
    assert result.returncode == 1, result.stderr
    assert "log start from 0 to 100" in result.stdout, "the plan by its clock"
    assert "apart, more than 5m; set the clock that is wrong, then plan again" in result.stderr
    assert log_start_offsets(cluster, topic) == {0: 0}
    stored = reconciler(tmp_path, "journal", "-o", "json")
    entries = [json.loads(line) for line in stored.stdout.splitlines()]
    assert [(entry["event"], entry.get("sends"), entry.get("status")) for entry in entries] == [
        ("intent", None, None),
        ("outcome", 0, "not_attempted"),
    ]


def test_converge_refuses_a_journal_topic_that_the_brokers_do_not_stamp(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Its message has the command that sets the topic right. A reviewed plan is applied with it."""
    journal = f"_journal.{uuid4().hex[:12]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(journal)])
    topic = write_manifests(cluster, tmp_path, journal)
    refused = run_with_clock(TWO_DAYS_AHEAD, tmp_path, "converge")
    assert refused.returncode == 1
    assert log_start_offsets(cluster, topic) == {0: 0}
    command = f"--alter --entity-type topics --entity-name {journal} --add-config message.timestamp.type=LogAppendTime"
    assert "CreateTime, so a run without a review would not notice" in refused.stderr
    assert command in refused.stderr
    floor = tmp_path / "manifests" / "set.yaml"
    floor.write_text(floor.read_text().replace("newerThan: 1d", "last: 10").replace("mode: continuous\n", ""))
    assert reconciler(tmp_path, "plan", "--out", "plan.json").returncode == 0
    applied = reconciler(tmp_path, "apply", "plan.json")
    assert (applied.returncode, log_start_offsets(cluster, topic)) == (0, {0: 90}), applied.stderr
    floor.write_text(
        floor.read_text()
        .replace("last: 10", "last: 5")
        .replace("metadata: {name: young}", "metadata: {name: young}\nmode: continuous")
    )
    run_kafka_tool(cluster, "kafka-configs", *command.split())
    converged = reconciler(tmp_path, "converge")
    assert (converged.returncode, log_start_offsets(cluster, topic)) == (0, {0: 95}), converged.stderr


def test_a_waiver_that_ends_during_an_apply_lets_no_later_request_out(cluster: SandboxCluster, tmp_path: Path) -> None:
    """It once held for half an hour more, as long as the recheck is good. Here it ends behind the intent."""
    topic = write_manifests(cluster, tmp_path, "")
    manifests = tmp_path / "manifests" / "set.yaml"
    text = manifests.read_text().replace("  journal: {topic: }\n", "").replace("newerThan: 1d", "last: 10")
    text = text.replace("mode: continuous\n", "").replace("limits: {", "limits: {topics: 0, ")
    expires = format_instant(wall_clock_ms() + 10 * 60_000)
    waiver = f"spec: {{policy: RetentionFloor/young, limit: topics, value: 1, expires: {expires}}}"
    manifests.write_text(f"{text}---\n{head('Waiver', 'once')}\n{waiver}\n")
    assert reconciler(tmp_path, "plan", "--out", "plan.json").returncode == 0
    applied = run_with_clock(LATER_ONCE_STORED, tmp_path, "apply", "plan.json")
    assert (applied.returncode, log_start_offsets(cluster, topic)) == (1, {0: 0}), applied.stdout
    assert "Waiver/once expired during this run: plan again" in applied.stderr
