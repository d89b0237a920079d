"""The same scan gives the same snapshot on each engine, and the life of Spark's servers harms none.

The servers do not have this package: the scan sends its code to them. Their workers have another
Python interpreter and another folder than this process.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.errors import ScanFailed
from reconciler.scan import code_archive
from reconciler.scan.engine_choice import Engine
from reconciler.scan.spark_process import SparkProcess, with_session_id
from tests.spark import reading
from tests.spark.processes import descendants
from tests.spark.reading import (
    NOTHING,
    ends_within,
    next_answers,
    next_lines,
    scan_task,
    start,
    without_spark_variables,
)
from tests.spark.servers import (
    QUICK_START,
    OtherPython,
    StandaloneCluster,
    WorkerImport,
    connect_server,
    free_port,
    make_interpreter,
    standalone,
)

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
LIMIT_S = 300
END_LIMIT_S = 30.0
"""Within this time a reading that hangs is ended: a bound, no measurement."""
EXECUTORS = (
    "spark.executor.memory=512m",
    "spark.executor.cores=1",
    # Both executors get tasks.
    "spark.scheduler.minRegisteredResourcesRatio=1.0",
    *(f"spark.{process}.extraJavaOptions={QUICK_START}" for process in ("driver", "executor")),
)


class ConnectServer:
    """A Connect server that can be restarted at its address. Its workers have the other interpreter."""

    def __init__(self, folder: Path, python: OtherPython) -> None:
        self.python = python
        self._folder = folder
        self.port = free_port()
        self._running = ExitStack()
        self.address = f"sc://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self._running.enter_context(
            connect_server(self._folder, self.port, java_options=QUICK_START, environment=self.python.environment)
        )

    def stop(self) -> None:
        self._running.close()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> OtherPython:
    return OtherPython(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory, python: OtherPython) -> Iterator[ConnectServer]:
    server = ConnectServer(tmp_path_factory.mktemp("connect"), python)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory, python: OtherPython) -> Iterator[StandaloneCluster]:
    # Not its PYSPARK_PYTHON: executors run the `python3` on their PATH.
    path = {"PATH": python.environment["PATH"]}
    with standalone(tmp_path_factory.mktemp("standalone"), environment=path) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(cluster: SandboxCluster) -> str:
    """A topic with positions of two groups: ends, evidence and positions differ between its partitions."""
    name = f"t{uuid4().hex[:10]}"
    servers = cluster.bootstrap_servers
    client.create_topics(servers, [Topic(name, partitions=5)])
    records = [Record(b"x", timestamp_ms=1_000 * (number + 1)) for number in range(9)]
    client.produce(servers, name, {number: records[: 9 - number] for number in range(4)})
    client.commit(servers, f"{name}-g", {(name, number): number for number in range(4)})
    client.commit(servers, f"{name}-g2", {(name, 0): 9})
    return name


@pytest.fixture(scope="module")
def expected(cluster: SandboxCluster, topic: str) -> list[str]:
    """The snapshot of the engine without Spark, a line per subject."""
    rows = scan_with(cluster, topic, "inline")
    partitions = [row for row in rows if row.startswith(f"(TopicPartition(topic='{topic}'")]
    assert len(partitions) == 5
    assert any("ConsumerPosition" in row for row in partitions)
    assert len([row for row in rows if row.startswith(f"('{topic}-g")]) == 2
    return rows


@pytest.fixture(scope="module")
def light_client(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter whose `pyspark` is the light client of its lock file; other packages are those of this one."""
    folder = tmp_path_factory.mktemp("light")
    python, packages = make_interpreter(folder / "venv", f"{ROOT}\n")
    lock = (ROOT / "requirements-connect.lock").read_text(encoding="utf-8")
    (entry,) = re.findall(r"^pyspark-client==.*(?:\n .*)+", lock, re.MULTILINE)
    (folder / "client.lock").write_text(entry)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    options = ["--require-hashes", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, "-r", str(folder / "client.lock")], check=True, timeout=LIMIT_S)
    assert (packages / "pyspark").is_dir()
    assert not (packages / "pyspark" / "core").exists()
    return str(python)


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=without_spark_variables(),
        timeout=LIMIT_S,
        check=False,
    )


def scan_words(cluster: SandboxCluster, topic: str, engine: str, *conf: str) -> list[str]:
    return [engine, cluster.bootstrap_servers, topic, f"{topic}-g", *conf]


def scan_with(cluster: SandboxCluster, topic: str, engine: str, *conf: str, python: str = sys.executable) -> list[str]:
    """Scan in a new process, which shows progress only, and return the snapshot, a line per subject."""
    result = run(python, "-m", reading.__name__, *scan_words(cluster, topic, engine, *conf))
    assert result.returncode == 0, result.stderr
    assert_only_progress(result.stderr)
    assert ("Spark" in result.stderr) == (engine != "inline")
    return result.stdout.rstrip("\n").split("\n")


def assert_only_progress(stderr: str) -> None:
    """There is no output of Spark or of the client library."""
    assert {line.split()[0] for line in stderr.splitlines()} <= {"listing", "waiting", "reading", "read"}


def read_in_a_command(address: str) -> None:
    """Read once, in a new process."""
    with start(address) as process:
        next_answers(process, is_first=True)


def assert_code_was_sent(imports: list[WorkerImport], python: OtherPython) -> None:
    """The workers ran with their own interpreter, in their own folder, and with the code of the archive."""
    assert imports
    assert python.executable != Path(sys.executable)
    for worker in imports:
        assert worker.interpreter == python.executable
        assert worker.folder != Path.cwd()
        assert ".zip/reconciler/" in worker.code


def test_a_local_master_reads_each_source_once(
    cluster: SandboxCluster, topic: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scan is one job of one stage with one task per chunk, and gives the snapshot of `inline`.

    A join of two sources once read one of them twice, silently. The user's spark-defaults.conf counts.
    """
    (folder := tmp_path / "events").mkdir()
    (tmp_path / "spark-defaults.conf").write_text("spark.test.default yes\nspark.eventLog.enabled false\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    properties = ("enabled=true", f"dir={folder.as_uri()}", "compress=false", "rolling.enabled=false")
    assert scan_with(cluster, topic, "local[2]", *(f"spark.eventLog.{text}" for text in properties)) == expected
    (log,) = folder.iterdir()
    events = list(map(json.loads, log.read_text().splitlines()))
    (environment,) = [event for event in events if event["Event"].endswith("EnvironmentUpdate")]
    assert environment["Spark Properties"]["spark.test.default"] == "yes"
    jobs = [event for event in events if event["Event"].endswith("JobStart")]
    # Few partitions, groups and records of `__consumer_offsets`: each source is one chunk.
    assert [[stage["Number of Tasks"] for stage in job["Stage Infos"]] for job in jobs] == [[3]]


def test_a_cluster_with_other_interpreters_agrees(
    cluster: SandboxCluster, topic: str, expected: list[str], spark_cluster: StandaloneCluster, python: OtherPython
) -> None:
    """Executors run their own interpreter, and a context that was stopped is replaced.

    They once were sent the path of the driver's interpreter. Spark stops its context on its own, for
    example if the application is killed on the master's page. Its properties were once in the command
    line of spark-submit, which every user of the machine reads.
    """
    before = len(python.imports())
    secret = "spark.hadoop.test.password=planted-77d0"
    words = scan_words(cluster, topic, spark_cluster.address, *EXECUTORS, secret)
    with start(*words) as process:
        assert next_lines(process, is_first=True) == expected
        imports = python.imports()[before:]
        assert_code_was_sent(imports, python)
        assert {each.folder.name for each in imports} == {"0", "1"}, "both executors have tasks"
        (driver,) = drivers(process).values()
        assert QUICK_START in driver  # spark-submit has read them
        others = [line for pid, line in descendants(os.getpid()).items() if pid != process.pid]
        assert len(others) > len(descendants(process.pid))  # the worker with its executors, too
        assert not any("planted-77d0" in line for line in others)
        stopped = set(drivers(process))
        (application,) = spark_cluster.applications()
        spark_cluster.kill(application)
        client.wait_until(lambda: application not in spark_cluster.applications(), 60, "the end of the application")
        assert next_lines(process) == expected
        assert stopped.isdisjoint(drivers(process))
        _, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, stderr
    assert_only_progress(stderr)


def drivers(process: "subprocess.Popen[str]") -> dict[int, str]:
    """Return the command lines of the JVMs with a context of a process, by id."""
    return {pid: line for pid, line in descendants(process.pid).items() if "SparkSubmit" in line}


def test_a_connect_server_agrees_cold_and_warm(
    cluster: SandboxCluster, topic: str, expected: list[str], connect: ConnectServer, light_client: str
) -> None:
    """The first scan starts the session and its workers; the second one has them already.

    The second one is that of `pyspark-client`, which has neither Spark nor its JVM, and may be older
    than the server: here by a minor version.
    """
    before = len(connect.python.imports())
    assert scan_with(cluster, topic, connect.address) == expected
    imports = connect.python.imports()
    assert_code_was_sent(imports[before:], connect.python)
    assert scan_with(cluster, topic, connect.address, python=light_client) == expected
    assert connect.python.imports() == imports


SOURCES = """
import sys
from pyspark.sql import SparkSession
from reconciler.spark import register
address, servers, topic = sys.argv[1:]
session = SparkSession.builder.remote(address).create()
register(session)
for name in ("kafka_partitions", "kafka_group_commits", "kafka_consumer_offsets"):
    frame = session.read.format(name).option("kafka.bootstrap.servers", servers).load()
    columns = ["topic", "partition", "last_stable_offset" if name == "kafka_partitions" else "committed"]
    print(name, *map(tuple, frame.where(f"topic = '{topic}' and partition = 1").select(*columns).collect()))
stream = session.readStream.format("kafka_partitions").option("kafka.bootstrap.servers", servers).load()
for tries in range(20):
    query = stream.writeStream.format("memory").queryName(f"read{tries}").trigger(availableNow=True).start()
    try:
        query.awaitTermination()
        break
    except Exception as error:
        # Spark waits ten seconds for the process that plans the stream, which a busy machine exceeds.
        if "worker failed to connect back" not in str(error):
            raise
print("a stream", *map(tuple, session.table(f"read{tries}").where(f"topic = '{topic}'").select("partition").collect()))
try:
    session.read.format("kafka_partitions").options(topic="x").load().count()
except Exception as error:
    print("did you mean topics?" in str(error))
session.stop()
"""
"""Registers the data sources with a session of Connect, reads each of them with a filter, and one as a stream."""


@pytest.mark.parametrize("is_light", [False, True])
def test_data_sources_work_over_connect(
    is_light: bool,
    cluster: SandboxCluster,
    topic: str,
    connect: ConnectServer,
    light_client: str,
    tmp_path: Path,
) -> None:
    """Both clients register and read all sources: the server plans and reads them, with the code that they send.

    Its workers cannot import this program. Streams once ended with "No module named 'reconciler'".
    """
    before = len(connect.python.imports())
    program = tmp_path / "sources.py"  # the light client does not run in `python -c`
    program.write_text(SOURCES)
    python = light_client if is_light else sys.executable
    result = run(python, str(program), connect.address, cluster.bootstrap_servers, topic)
    *batches, stream, has_hint = result.stdout.splitlines()
    assert (batches, has_hint) == (
        [
            f"kafka_partitions ('{topic}', 1, 8)",
            f"kafka_group_commits ('{topic}', 1, 1)",
            f"kafka_consumer_offsets ('{topic}', 1, 1)",
        ],
        "True",
    ), result.stderr
    assert sorted(re.findall(r"\((\d),\)", stream)) == ["0", "1", "2", "3", "4"], result.stderr
    assert_code_was_sent(connect.python.imports()[before:], connect.python)


RELEASE = """
import sys
from pyspark.sql import SparkSession
for address in sys.argv[1:]:
    session = SparkSession.builder.remote(address).create()
    session.version  # the server only closes, and remembers, what was opened
    session.stop()
"""
"""Opens sessions, and ends them as the server does after an hour without a command."""


def test_a_connect_session_that_ended_is_replaced(connect: ConnectServer, tmp_path: Path) -> None:
    """The server never accepts the id of a session again that has ended: the next command takes another.

    All sessions that commands share on this day have ended. A command once failed after 20 of them.
    """
    address = f"{connect.address}/;user_id=reviewer"  # not the session of the other tests
    archive = code_archive.write(tmp_path).name
    today = int(time.time() // 86_400)
    ended = [with_session_id(Engine(remote=address), archive, number, day=today) for number in range(20)]
    subprocess.run([sys.executable, "-c", RELEASE, *ended], check=True, timeout=LIMIT_S)
    read_in_a_command(address)


def test_a_restarted_connect_server_gets_a_new_session(connect: ConnectServer) -> None:
    """The server knows nothing of a session from before its restart, as in the next round of `watch`."""
    with start(connect.address) as process:
        first = next_answers(process, is_first=True)
        assert next_answers(process) == first
        connect.stop()
        connect.start()
        assert next_answers(process) != first


def test_a_connect_server_that_hangs_is_abandoned(connect: ConnectServer) -> None:
    """Neither gRPC nor the interruption of the reading, which the server does not hear, has a deadline."""
    (server,) = [
        pid for pid, line in descendants(os.getpid()).items() if f"port={connect.port} " in line and "java" in line
    ]
    process = SparkProcess(Engine(remote=connect.address))
    try:
        read_nothing(process, limit_s=LIMIT_S)
        os.kill(server, signal.SIGSTOP)
        with ends_within(END_LIMIT_S), pytest.raises(ScanFailed, match="had not read nothing after 1 s"):
            read_nothing(process, limit_s=1.0)
        assert process.child.has_ended
    finally:
        os.kill(server, signal.SIGCONT)
        process.end()


def read_nothing(process: SparkProcess, *, limit_s: float) -> None:
    process.read(scan_task(""), NOTHING, subjects="nothing", limit_s=limit_s, progress=lambda *_step: None)
