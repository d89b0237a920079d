"""A new user follows the docs: the test runs every command of a page in order, in an empty folder with an empty HOME, on real brokers.

The commands scan over a warm Spark Connect server. test_packaging.py tests the start of a JVM.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import CLUSTER_ID, Cluster, start, stop
from reconciler.sandbox.java import find_java

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

DOCS = Path(__file__).parents[2] / "docs"
DAY_MS = 86_400_000
ACTION = f"OWNER/NAME@{'0123456789' * 4}"


@pytest.fixture(scope="module")
def single_broker() -> Iterator[Cluster]:
    """A separate broker, because the pages choose the names of topics and groups."""
    started = start(1, name="docs", heap_mib=256)
    try:
        yield started
    finally:
        stop(started)


class NewUser:
    """A user with an empty folder, an empty HOME, and the program on PATH."""

    def __init__(self, folder: Path, cluster: Cluster, spark_remote: str) -> None:
        self.folder = folder / "repository"
        self._home = folder / "home"
        self._cluster = cluster
        self._spark_remote = spark_remote
        self.folder.mkdir()
        self._home.mkdir()

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of a page, with the brokers and folders of this machine."""
        binaries = f"{Path(sys.executable).parent}{os.pathsep}{find_java().parent}"
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", line.replace("broker-1:9093", self._cluster.bootstrap_servers)],
            cwd=self.folder,
            env={
                "PATH": f"{binaries}{os.pathsep}/usr/bin:/bin",
                "HOME": str(self._home),
                "LANG": "C.UTF-8",
                "SPARK_REMOTE": self._spark_remote,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


def blocks(page: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def commands(page: str) -> list[str]:
    """Return each command of the console blocks of a page, with its continued lines joined."""
    text = "".join(blocks(page, "console")).replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]


def test_five_minutes_to_the_first_plan(single_broker: Cluster, spark_server: str, tmp_path: Path) -> None:
    """The commands of getting-started.md from `init` to `apply`: the plan names the old records, `apply` removes them, a second `apply` does nothing."""
    now_ms = int(time.time() * 1000)
    client.create_topics(single_broker.bootstrap_servers, [Topic("clicks")])
    old, new = Record(b"old", timestamp_ms=now_ms - 30 * DAY_MS), Record(b"new", timestamp_ms=now_ms)
    client.produce(single_broker.bootstrap_servers, "clicks", {0: [*[old] * 40, *[new] * 60]})
    user = NewUser(tmp_path, single_broker, spark_server)
    typed = []
    for command in commands("getting-started.md"):
        if not command.startswith("reconciler ") or "completion" in command:
            continue  # tests/e2e/test_packaging.py tests the installation and the completion
        words = shlex.split(command)
        if words[1] == "init":
            # The sandbox has a plain listener, and this checkout has no GitHub repository.
            plain = [word for at, word in enumerate(words) if word != "--client" and words[at - 1] != "--client"]
            command = shlex.join([*plain, "--action", ACTION])
        if words[1] == "plan":
            (user.folder / "manifests/prod-eu/clicks.yaml").write_text("".join(blocks("getting-started.md", "yaml")))
        done = user.run(command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        typed.append(words[1])
        if words[1] == "init":
            [files] = [block for block in blocks("getting-started.md", "text") if ".github" in block]
            assert done.stdout == files
            assert CLUSTER_ID in (user.folder / "manifests/prod-eu/cluster.yaml").read_text()
        if words[1] == "plan":
            assert "! clicks[0]   log start 0 -> 40   (end 100)" in done.stdout
            assert "Waiting" not in done.stdout
    assert typed == ["--version", "init", "validate", "doctor", "plan", "apply"]
    assert client.watermarks(single_broker.bootstrap_servers, "clicks", 0) == (40, 100)
    again = user.run("reconciler apply plan.json")
    assert again.returncode == 0
    assert client.watermarks(single_broker.bootstrap_servers, "clicks", 0) == (40, 100)


def test_the_crontab_is_silent_while_all_is_well(single_broker: Cluster, spark_server: str, tmp_path: Path) -> None:
    """`sh` runs the lines of cron.md as cron does: converge purges, then neither command prints anything, and drift writes its report and its
    metrics. If converge does not run for longer than `driftAfter`, drift prints a report."""
    topic = f"cron-{uuid4().hex[:8]}"
    client.create_topics(single_broker.bootstrap_servers, [Topic(topic)])
    client.produce(single_broker.bootstrap_servers, topic, {0: [Record(b"x")] * 100})
    folder, metrics = tmp_path / "srv", tmp_path / "node_exporter"
    folder.mkdir()
    metrics.mkdir()
    (folder / "credentials").write_text(f"export KAFKA_BOOTSTRAP_SERVERS={single_broker.bootstrap_servers}\n")
    (folder / "manifests").mkdir()
    (folder / "manifests" / "all.yaml").write_text(
        f"""\
apiVersion: reconciler/v1
kind: Cluster
metadata: {{name: prod-eu}}
spec:
  clusterId: {single_broker.cluster_id}
  bootstrapServers: ["${{env:KAFKA_BOOTSTRAP_SERVERS}}"]
  limits: {{recordsPercent: 100, recordsPercentPerTopic: 100}}
---
apiVersion: reconciler/v1
kind: RetentionFloor
metadata: {{name: floor}}
mode: continuous
spec: {{topics: [{topic}], keep: {{last: 10}}, driftAfter: 1s}}
"""
    )
    [crontab] = blocks("cron.md", "cron")
    variables = dict(re.findall(r"^(\w+)=(.*)$", crontab, re.MULTILINE))
    converge, drift = re.findall(r"^(?:[-*/\d]+ ){5}(.*)$", crontab, re.MULTILINE)

    def run(line: str) -> subprocess.CompletedProcess[str]:
        local_line = line.replace("/srv/kafka", str(folder)).replace("/var/lib/node_exporter", str(metrics))
        path = variables["PATH"].replace("/opt/reconciler/bin", f"{Path(sys.executable).parent}:{find_java().parent}")
        return subprocess.run(
            ["/bin/sh", "-c", local_line],
            cwd=tmp_path,
            env={**variables, "PATH": path, "HOME": str(tmp_path), "SPARK_REMOTE": spark_server},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    first = run(converge)
    assert first.returncode == 0, first.stderr
    assert topic in first.stdout, "converge prints its results"
    assert client.watermarks(single_broker.bootstrap_servers, topic, 0)[0] == 90
    for line in (converge, drift):
        answer = run(line)
        assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert (folder / "drift.json").is_file()
    assert 'reconciler_in_sync{cluster="prod-eu"} 1.0' in (metrics / "reconciler.prom").read_text()
    client.produce(single_broker.bootstrap_servers, topic, {0: [Record(b"y")] * 5})
    time.sleep(1.5)  # driftAfter: 1s
    late = run(drift)
    assert late.returncode == 2, late.stdout + late.stderr
    assert topic in late.stdout
    assert 'reconciler_in_sync{cluster="prod-eu"} 0.0' in (metrics / "reconciler.prom").read_text()
