"""A sandbox ends with its owner, and its brokers stop and restart on request.

The tests use their own sandboxes with one broker, because other tests need the shared one.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from reconciler.companions.sandbox import client, registry
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster, start, stop, stopping
from reconciler.companions.sandbox.process import Process, identify, read_process
from reconciler.errors import SandboxError
from reconciler.kafka import connect
from reconciler.kafka.connect import Connection
from tests.command import reconciler, reconciler_process

pytestmark = pytest.mark.brokers

OWNER = """
import json, sys, time
from reconciler.companions.sandbox.cluster import start
cluster = start(1, name="orphan")
print(json.dumps({"dir": str(cluster.dir), "pid": cluster.brokers[0].pid}), flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def single() -> Iterator[SandboxCluster]:
    with stopping(start(1, name="single", heap_mib=256)) as cluster:
        yield cluster


@pytest.fixture
def named(single: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SandboxCluster:
    """`single`, as a sandbox that commands find by its name: no further broker has to start."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    registry._write(single)
    return single


def test_commands_crash_and_start_a_broker(named: SandboxCluster, tmp_path: Path) -> None:
    """`sandbox stop --kill` ends a broker, and `sandbox start` starts it with its port and data, and a new pid.

    A broker that is stopped or runs already is an error that names the other command. A running
    broker is not started a second time with the same data.
    """
    topic = "restarted"
    client.create_topics(named.bootstrap_servers, [client.Topic(topic)])
    client.produce(named.bootstrap_servers, topic, {0: [client.Record(b"x")] * 3})
    with pytest.raises(SandboxError, match="still runs"):
        named.restart(1)
    refused = reconciler(tmp_path, "sandbox", "start", "1", "--name", "single")
    assert refused.returncode == 1
    assert "broker 1 of sandbox single runs already; `reconciler sandbox stop 1 --name single` stops" in refused.stderr
    before = named.brokers[0]
    killed = reconciler(tmp_path, "sandbox", "stop", "1", "--name", "single", "--kill")
    assert killed.returncode == 0, killed.stderr
    assert not named.alive(1)
    with pytest.raises(SandboxError, match="does not run"):
        named.pause(1)
    assert "broker 1   stopped" in reconciler(tmp_path, "sandbox", "status", "--name", "single").stdout
    refused = reconciler(tmp_path, "sandbox", "stop", "1", "--name", "single")
    assert refused.returncode == 1
    assert "is stopped already; `reconciler sandbox start 1 --name single` starts it" in refused.stderr
    started = reconciler(tmp_path, "sandbox", "start", "1", "--name", "single")
    assert started.returncode == 0, started.stderr
    after = named.brokers[0]
    assert (after.port, after.pid != before.pid) == (before.port, True)

    def has_its_records() -> bool:
        with suppress(KafkaException):  # the broker does not lead the partition yet
            return client.watermarks(named.bootstrap_servers, topic, 0) == (0, 3)
        return False

    client.wait_until(has_its_records, 30, "the records of the topic")


def test_a_command_runs_kafkas_tools_and_passes_their_output_and_exit_code(
    named: SandboxCluster, tmp_path: Path
) -> None:
    """The tool needs no address, and `--` is not necessary: all words after the tool are its own."""
    client.create_topics(named.bootstrap_servers, [client.Topic("typed")])
    tools = ("sandbox", "tools", "--name", "single")
    result = reconciler_process(tmp_path, *tools, "--", "kafka-get-offsets", "--topic", "typed")
    assert (result.returncode, result.stdout) == (0, "typed:0:0\n"), result.stderr
    failed = reconciler_process(tmp_path, *tools, "kafka-get-offsets.sh", "--topic", "untyped")
    assert failed.returncode == 1
    assert "Could not match any topic-partitions" in failed.stderr
    listed = reconciler(tmp_path, *tools)
    assert listed.returncode == 0
    assert "kafka-topics" in listed.stdout.splitlines()
    unknown = reconciler(tmp_path, *tools, "kafka-topic", "--list")
    assert unknown.returncode == 64
    assert "no tool kafka-topic; did you mean kafka-topics? known: kafka-acls, " in unknown.stderr


def test_a_command_stops_a_broker(named: SandboxCluster, tmp_path: Path) -> None:
    """Without --kill it ends in its own way. It does not start again: this is the last test of `single`."""
    stopped = reconciler(tmp_path, "sandbox", "stop", "1", "--name", "single")
    assert stopped.returncode == 0, stopped.stderr
    assert not named.alive(1)
    assert "shut down completely" in named.log(1).read_text()


@pytest.mark.parametrize("end", ["a kill of the owner", "a removal of the data"])
def test_nothing_remains_after(end: str) -> None:
    """After SIGKILL of the process that started a sandbox, broker, supervisor and data are gone.

    A supervisor whose data folder a cleaner had removed waited for ever, and `sandbox down` did not find it.
    """
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as process:
        record = json.loads(process.stdout.readline()) if process.stdout else {}
        folder = Path(record["dir"])
        broker, supervisor = identify(record["pid"]), read_process(folder / "supervisor.json")
        assert broker is not None
        assert supervisor.alive()
        if end == "a removal of the data":
            shutil.rmtree(folder, ignore_errors=True)
            assert supervisor.wait_gone(30)
        process.kill()
    assert broker.wait_gone(30)
    assert supervisor.wait_gone(30)
    assert not folder.exists()


def test_no_process_remains_after_a_kill_of_the_supervisor(single: SandboxCluster) -> None:
    """Linux kills the brokers with their supervisor, and `stop` removes the remaining data.

    It starts on a copy of the data folder that was formatted for the sandbox before it, or earlier.
    """
    with stopping(start(1, name="unsupervised", heap_mib=256)) as cluster:
        assert list(cluster.logs.glob("format-*.log")) == []
        assert connect.cluster_id(Connection((cluster.bootstrap_servers,), timeout_s=20.0)) == single.cluster_id
        broker = identify(cluster.brokers[0].pid)
        assert broker is not None
        assert read_process(cluster.dir / "supervisor.json").send(9)
        assert broker.wait_gone(30)
    assert not cluster.dir.exists()


def test_the_error_of_a_broker_that_dies_at_start_has_the_cause() -> None:
    """The message has the cause and the log, and no data remains."""
    with pytest.raises(SandboxError) as error:
        start(1, name="stillborn", properties={"metric.reporters": "no.such.Reporter"})
    assert "broker 1 of stillborn died at start" in str(error.value)
    assert "ClassNotFoundException: no.such.Reporter" in str(error.value)
    assert "broker-1.log" in str(error.value)


def test_the_error_of_an_invalid_configuration_has_the_cause(tmp_path: Path) -> None:
    """The error comes before any broker starts and names the value; the data folder is removed."""
    with pytest.raises(SandboxError, match=r"Invalid value many for configuration num\.io\.threads"):
        start(1, name="misconfigured", properties={"num.io.threads": "many"}, base_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_named_sandbox_runs_until_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`up`, `status` and `down` run in different processes; a second `up` of a name is refused.

    Its cluster id is its own, so that a plan of another sandbox does not fit. A process after SIGSTOP
    ignores SIGTERM: the end of a sandbox does not wait for it. A second stop succeeds.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    up = "from reconciler.companions.sandbox.registry import up; up('stays', 1, heap_mib=256)"
    subprocess.run([sys.executable, "-W", "error", "-c", up], check=True, timeout=120)
    try:
        cluster = registry.status("stays")
        assert cluster is not None
        assert cluster.cluster_id != CLUSTER_ID
        connection = Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=20.0)
        assert connect.cluster_id(connection) == cluster.cluster_id
        assert client.visible_brokers(cluster.bootstrap_servers) == {1}
        broker = identify(cluster.brokers[0].pid)
        with pytest.raises(SandboxError, match="is up already"):
            registry.up("stays", 1)
        cluster.pause(1)
    finally:
        was_running = registry.down("stays")
    assert was_running
    assert registry.status("stays") is None
    assert isinstance(broker, Process)
    assert not broker.alive()
    assert not cluster.dir.exists()
    assert cluster.log(1).is_file()  # an error message may still point there
    stop(cluster)


def test_an_interrupted_up_leaves_no_process_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If `up` is killed before it detaches the sandbox, no sandbox remains."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", "from reconciler.companions.sandbox.registry import up; up('cut', 1)"]
    ) as process:
        client.wait_until(
            lambda: any(tmp_path.glob("kafka-sandbox-cut-*/node-1.json")), 60, "a broker of `up`", every_s=0.02
        )
        (record,) = tmp_path.glob("kafka-sandbox-cut-*/node-1.json")
        broker, supervisor = read_process(record), read_process(record.parent / "supervisor.json")
        assert broker.alive()
        process.kill()
    assert broker.wait_gone(30)
    assert supervisor.wait_gone(30)
    assert not record.parent.exists()
    assert registry.status("cut") is None
