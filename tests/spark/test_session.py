"""A Spark session that dies, hangs or ends: the next one works, and nothing remains."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reconciler.errors import ScanFailed
from reconciler.kafka.connect import Connection
from reconciler.sandbox.client import wait_until
from reconciler.scan import session as sessions
from reconciler.scan.chunking import Chunk
from reconciler.scan.jvm import Jvm
from reconciler.scan.query import run_query
from reconciler.scan.session import PendingSession, SparkTarget, close
from reconciler.scan.task_rows import ScanTask
from tests.spark.servers import CONNECT_LOG, QUICK_START, connect_server, free_port

pytestmark = [pytest.mark.spark]

SETTINGS = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)
MARK = "RECONCILER_TEST_MARK"
ONE_QUERY = """
from reconciler.scan.session import PendingSession, SparkTarget
def pids(batches):
    import os, pyarrow as pa
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"pid": [os.getpid()]})
session = PendingSession(SparkTarget(master="local[2]")).result()
rows = session.range(0, 4, 1, 2).mapInArrow(pids, "pid long").repartition(2, "pid").distinct().collect()
print(len(rows))
"""


@pytest.fixture
def own_session() -> Iterator[SparkSession]:
    """A session in place of the shared one; the next test that needs the shared one creates it
    again.
    """
    close()
    yield PendingSession(SparkTarget(master="local[2]")).result()
    close(at_once=True)


def session_jvm() -> Jvm:
    assert sessions._current is not None
    assert sessions._current.jvm is not None
    return sessions._current.jvm


def test_rows_of_two_attempts_are_never_mixed(engine: SparkTarget) -> None:
    """The scan sets this option itself, because a repeated stage is compared with its first run."""
    settings = dict(PendingSession(engine).result().sparkContext.getConf().getAll())
    assert {name: settings.get(name) for name in SETTINGS} == dict.fromkeys(SETTINGS, "true")


def test_a_jvm_that_was_killed_is_replaced(engine: SparkTarget) -> None:
    """The session of a dead JVM is replaced.

    It once counted as warm, in every later round of `watch`.
    """
    assert PendingSession(engine).result().range(1).count() == 1
    first = session_jvm()
    os.kill(first.process.pid, signal.SIGKILL)
    assert PendingSession(engine).result().range(1).count() == 1
    assert session_jvm().process.pid != first.process.pid
    assert not first.folder.exists()


def test_a_context_that_was_stopped_is_replaced(engine: SparkTarget) -> None:
    """Spark stops its context on its own, for example when its master ends; pyspark does not notice
    it.
    """
    session = PendingSession(engine).result()
    session._sc._jsc.sc().stop()
    assert PendingSession(engine).result().range(1).count() == 1


def test_a_warm_session_is_kept(engine: SparkTarget) -> None:
    """A live session is not started again."""
    first = PendingSession(engine).result()
    assert PendingSession(engine).result() is first


def test_a_jvm_that_hangs_is_ended(own_session: SparkSession) -> None:
    """Neither py4j nor the JVM has a deadline, so that closing once took for ever."""
    jvm_process = session_jvm()
    os.kill(jvm_process.process.pid, signal.SIGSTOP)
    start = time.monotonic()
    close()
    assert time.monotonic() - start < 15
    assert jvm_process.process.returncode == -signal.SIGKILL
    assert not jvm_process.folder.exists()


def test_a_query_that_cannot_be_interrupted_is_abandoned(own_session: SparkSession) -> None:
    """After its limit the scan ends although the JVM does not answer; the error names an existing
    log.
    """
    jvm_process = session_jvm()
    connection = Connection((f"127.0.0.1:{free_port()}",), timeout_s=60.0)
    task = ScanTask(
        connection=connection, readers={}, topic_ids={}, named={}, groups=(), until_s=time.time() + 60, log_limit_s=60
    )
    os.kill(jvm_process.process.pid, signal.SIGSTOP)
    start = time.monotonic()
    with pytest.raises(ScanFailed, match=r"had not read 1 groups after 1 s; the log is ") as error:
        run_query(own_session, task, [Chunk(groups=("g",))], limit_s=1, progress=lambda _message: None)
    assert time.monotonic() - start < 15
    assert jvm_process.process.returncode == -signal.SIGKILL
    assert Path(str(error.value).rpartition(" ")[2]).is_file()


def test_a_session_that_ends_leaves_nothing(tmp_path: Path, unique: str) -> None:
    """No process, no file and no output remains."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    result = subprocess.run(
        [sys.executable, "-c", ONE_QUERY],
        env=os.environ | {MARK: unique, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert int(result.stdout) > 0
    wait_until(lambda: not marked_processes(unique), 10, "the end of the JVM and its workers")
    assert list(temporary.iterdir()) == []


def marked_processes(mark: str) -> list[str]:
    processes = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                processes.append(folder.name)
        except OSError:
            continue
    return processes


CONNECTED = """
import sys
from reconciler.scan.session import PendingSession, SparkTarget
session = PendingSession(SparkTarget(remote=sys.argv[1])).result()
assert PendingSession(SparkTarget(remote=sys.argv[1])).result() is session
print(session.range(3).count(), session.client._session_id)
names = sys.argv[2:]
print(*(session.conf.getAll.get(name) for name in names))
"""


def test_a_connect_session_is_released(spark_server: str, spark_server_folder: Path) -> None:
    """The session is released although its thread has ended; the server once kept it for an hour.

    Its settings are those of the other engines.
    """
    result = subprocess.run(
        [sys.executable, "-c", CONNECTED, spark_server, *SETTINGS],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    counted, settings = result.stdout.splitlines()
    count, session_id = counted.split()
    assert count == "3"
    assert settings == "true true"
    log = spark_server_folder / CONNECT_LOG
    closing = f"Closing session with userId:  and sessionId: {session_id}"
    wait_until(lambda: closing in log.read_text(errors="replace"), 10, "the end of the session")


RECONNECTED = """
import sys
from reconciler.scan.session import PendingSession, SparkTarget
for line in sys.stdin:
    print(PendingSession(SparkTarget(remote=sys.argv[1])).result().range(3).count(), flush=True)
"""


def test_a_restarted_connect_server_gets_a_new_session(tmp_path: Path) -> None:
    """A new session knows nothing of the previous one, which the next round of `watch` must not
    use.
    """
    port = free_port()
    remote = f"sc://127.0.0.1:{port}"
    with subprocess.Popen(
        [sys.executable, "-c", RECONNECTED, remote], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        try:
            for _server in range(2):
                with connect_server(tmp_path, port, java_options=QUICK_START):
                    print(file=client.stdin, flush=True)
                    assert client.stdout.readline() == "3\n"
        finally:
            client.kill()
