"""`reconciler apply plan.json` as a process, everything included: the interpreter, a cold Spark session, the snapshot before the first
write, the rendering of the results. The plan is made before, untimed.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.apply_world import DEAD, At, World


def records(made: World, before: int) -> str:
    floors = ", ".join(f"{number}: {before}" for number in range(made.partitions))
    return f"""\
kind: RetentionFloor
metadata: {{name: bench}}
spec:
  topics: {json.dumps(made.topics)}
  keep: {{fromOffset: {{{floors}}}}}
"""


def groups(count: int) -> str:
    return f"""\
kind: GroupRemoval
metadata: {{name: bench}}
spec: {{groups: ["{DEAD}*"], idleFor: 1s, expectAtMost: {count}}}
"""


def elections(wanted: Sequence[At]) -> str:
    topics = json.dumps(sorted({topic for topic, _number in wanted}))
    return f"""\
kind: LeaderPolicy
metadata: {{name: bench}}
spec: {{topics: {topics}}}
"""


def manifests(made: World, policy: str) -> str:
    """The cluster's manifest and one policy."""
    return f"""\
apiVersion: reconciler/v1
kind: Cluster
metadata: {{name: bench}}
spec:
  clusterId: {made.cluster.cluster_id}
  bootstrapServers: {json.dumps(made.servers.split(","))}
  limits: {{topics: {len(made.topics)}, groups: 1000000, elections: 1000000, groupsPercent: 100, recordsPercentPerTopic: 100, recordsPercent: 100}}
---
apiVersion: reconciler/v1
{policy}"""


def timed(made: World, policy: str, actions: int) -> float:
    """Seconds of the apply; every one of `actions` is in the plan and is applied."""
    with tempfile.TemporaryDirectory(prefix="bench-apply-") as scratch:
        folder = Path(scratch)
        (folder / "manifests").mkdir()
        (folder / "manifests" / "all.yaml").write_text(manifests(made, policy))
        time.sleep(1.5)  # idleFor: 1s
        _run(folder, "plan", "--out", "plan.json")
        began = time.perf_counter()
        _run(folder, "apply", "plan.json", "--results", "results.json")
        seconds = time.perf_counter() - began
        summary = json.loads((folder / "results.json").read_text())["summary"]
    assert summary["applied"] == actions, summary
    return seconds


def _run(folder: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", *words, "-q", "--timeout", "120"],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("RECONCILER_")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-1500:], done.stderr[-1500:])
