"""A failed scan leaves one line with the reason, no process and no file."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import Cluster
from reconciler.sandbox.ports import free_addresses

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

MARK = "RECONCILER_TEST_MARK"
LIMIT_S = 180
MANIFESTS = """apiVersion: reconciler/v1
kind: Cluster
metadata: {name: left}
spec:
  clusterId: %(cluster_id)s
  bootstrapServers: ["%(servers)s"]
---
apiVersion: reconciler/v1
kind: RetentionFloor
metadata: {name: floor}
spec:
  topics: [%(topic)s]
  keep: {newerThan: 7d}
"""


class Process:
    """A `reconciler plan` in a new folder.

    Its environment has a mark that child processes inherit.
    """

    def __init__(self, folder: Path, mark: str, *arguments: str, path: str | None = None) -> None:
        self.mark = mark
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        environment = os.environ | {MARK: mark, "TMPDIR": str(self.temporary)}
        if path is not None:
            environment |= {"PATH": path}
            environment.pop("JAVA_HOME", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reconciler", "plan", str(folder / "manifests.yaml"), *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, text: str) -> None:
        """Wait until a line of progress contains the text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"the plan ended without the line {text!r}")

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and stderr."""
        _, stderr = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, stderr

    def remaining(self) -> dict[int, str]:
        """Processes with the mark, including the JVM and its Python workers."""
        processes = {}
        for folder in Path("/proc").iterdir():
            try:
                marked = folder.name.isdigit() and f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
                if marked:
                    processes[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return processes

    def assert_nothing_left(self, *, except_named_in: str = "") -> None:
        """No process remains, shortly after the command; no file remains but those that an error
        names.
        """
        client.wait_until(lambda: not self.remaining(), 30, f"the end of {self.remaining()}")
        files = [path.name for path in self.temporary.iterdir() if path.name.startswith("kafka-reconciler")]
        assert [name for name in files if not except_named_in or name not in except_named_in] == []


def manifests(folder: Path, cluster: Cluster, topic: str, servers: str | None = None) -> None:
    values = {"cluster_id": cluster.cluster_id, "servers": servers or cluster.bootstrap_servers.split(",")[0]}
    (folder / "manifests.yaml").write_text(MANIFESTS % {**values, "topic": topic}, encoding="utf-8")


@pytest.fixture
def small(cluster: Cluster, unique: str, tmp_path: Path) -> Mapping[str, str]:
    client.create_topics(cluster.bootstrap_servers, [Topic(unique)])
    client.produce(cluster.bootstrap_servers, unique, {0: [Record(b"x")] * 3})
    manifests(tmp_path, cluster, unique)
    return {}


@pytest.mark.parametrize("moment", ["connecting", "waiting for Spark", "reading"])
@pytest.mark.usefixtures("small")
def test_ctrl_c_leaves_no_process(unique: str, tmp_path: Path, moment: str) -> None:
    """An interrupt during the start, the wait and the read exits with 130 and ends the JVM and the
    workers.
    """
    command = Process(tmp_path, unique)
    command.wait_for(moment)
    # A terminal sends SIGINT to the foreground process group. The JVM has its own session.
    os.killpg(command.process.pid, signal.SIGINT)
    code, stderr = command.end()
    assert code == 130, stderr
    assert "Traceback" not in stderr
    command.assert_nothing_left()


@pytest.mark.usefixtures("small")
def test_no_java_is_one_clear_error(unique: str, tmp_path: Path) -> None:
    """Without Java the plan prints one line with the package to install, and leaves nothing."""
    (tmp_path / "bin").mkdir()
    command = Process(tmp_path, unique, path=str(tmp_path / "bin"))
    code, stderr = command.end()
    assert code == 1
    (line,) = [line for line in stderr.splitlines() if "Java" in line]
    assert "Java 17 or later is needed" in line
    assert "openjdk-17" in line
    assert "Traceback" not in stderr
    command.assert_nothing_left()


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ("spark.driver.extraJavaOptions=-agentpath:/nowhere", "Spark's JVM did not start; its log is "),
        ("spark.driver.bindAddress=203.0.113.1", "did not start a session"),
    ],
    ids=["a JVM that dies", "a session that cannot start"],
)
@pytest.mark.usefixtures("small")
def test_a_session_that_fails_leaves_nothing(unique: str, tmp_path: Path, conf: str, expected: str) -> None:
    """A JVM that fails to start and a JVM that hangs both end; the log that the error names
    remains.
    """
    command = Process(tmp_path, unique, "--spark-conf", conf)
    code, stderr = command.end()
    assert code == 1
    assert expected in stderr
    assert "Traceback" not in stderr
    command.assert_nothing_left(except_named_in=stderr)


def test_an_unreachable_cluster_leaves_no_session(cluster: Cluster, unique: str, tmp_path: Path) -> None:
    """The session starts before the program knows that no broker answers; it ends with the plan."""
    (address,) = free_addresses(1)
    manifests(tmp_path, cluster, unique, servers=f"127.0.0.1:{address.port}")
    command = Process(tmp_path, unique, "--timeout", "2")
    code, stderr = command.end()
    assert code == 1
    assert f"127.0.0.1:{address.port}" in stderr
    command.assert_nothing_left()
