"""Measures `reconciler apply plan.json` as a process.

The time has the start of the interpreter, a cold Spark session, the snapshot before the first
write, and the rendered results. It does not have the plan, which the bench creates before.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.apply_cluster import REMOVED_PREFIX, ApplyCluster, Partition
from bench.processes import measure_seconds
from tests.build import LIMITS, policy, write_manifests


def records(cluster: ApplyCluster, before: int) -> str:
    floors = ", ".join(f"{number}: {before}" for number in range(cluster.partitions_per_topic))
    return policy(
        "RetentionFloor", "bench", f"topics: {json.dumps(cluster.topics)}, keep: {{fromOffset: {{{floors}}}}}"
    )


def groups(count: int) -> str:
    return policy("GroupRemoval", "bench", f'groups: ["{REMOVED_PREFIX}*"], idleFor: 1s, expectAtMost: {count}')


def elections(partitions: Sequence[Partition]) -> str:
    topics = json.dumps(sorted({topic for topic, _number in partitions}))
    return policy("LeaderPolicy", "bench", f"topics: {topics}")


def write(folder: Path, cluster: ApplyCluster, policy: str) -> None:
    """Write the manifests of the cluster and one policy into the folder."""
    limits = f"topics: {len(cluster.topics)}, groups: 1000000, elections: 1000000, {LIMITS}"
    write_manifests(folder, cluster.servers, policy, limits=limits, cluster_id=cluster.cluster.cluster_id, name="bench")


def measure(cluster: ApplyCluster, policy: str, actions: int) -> float:
    """Return the seconds of the apply, which must apply exactly `actions` actions."""
    with tempfile.TemporaryDirectory(prefix="bench-apply-") as scratch:
        folder = Path(scratch)
        write(folder, cluster, policy)
        time.sleep(1.5)  # the policy has idleFor: 1s
        _run(folder, "plan", "--out", "plan.json")
        seconds = measure_seconds(lambda: _run(folder, "apply", "plan.json", "--results", "results.json"))
        summary = json.loads((folder / "results.json").read_text())["summary"]
    assert summary["applied"] == actions, summary
    return seconds


def _run(folder: Path, *arguments: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "reconciler", *arguments, "-q", "--timeout", "120"],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("RECONCILER_")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, (result.stdout[-1500:], result.stderr[-1500:])
