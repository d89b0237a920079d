"""The process of Spark: one that ends, hangs or is orphaned; the next reading works, and nothing remains.

A test that leaves a warm process precedes one that needs it: each start of Spark takes seconds.
"""

import os
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.companions.sandbox.client import wait_until
from reconciler.errors import ScanFailed
from reconciler.scan import spark_process
from reconciler.scan.engine_choice import Engine
from reconciler.scan.spark_process import SparkProcess
from reconciler.scan.task_rows import decode
from tests.build import program
from tests.spark.processes import assert_nothing_left, descendants
from tests.spark.reading import GROUP, NOTHING, ends_within, next_answers, read, start

pytestmark = [pytest.mark.spark]

END_LIMIT_S = 15.0
"""Within this time a process that hangs is ended: a bound, no measurement."""


@pytest.fixture
def warm(engine: Engine) -> SparkProcess:
    """The process of Spark, after a reading."""
    return warm_process(engine)


@pytest.fixture
def other(engine: Engine) -> Engine:
    """An engine of another master, which a process of `engine` does not have."""
    return Engine(master="local[1]", conf=engine.conf)


def warm_process(engine: Engine) -> SparkProcess:
    assert len(read(engine)) == len(NOTHING)
    return spark_process.start_spark(engine)


def java_process(process: SparkProcess) -> int:
    """The id of the JVM of a process of Spark."""
    (pid,) = [pid for pid, line in descendants(process.child.process.pid).items() if "PythonGatewayServer" in line]
    return pid


def has_ended(pid: int) -> bool:
    """Whether there is no such process, or only its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_warm_process_is_kept(engine: Engine, warm: SparkProcess) -> None:
    """The next reading takes the same process, with the same JVM and workers."""
    before = descendants(warm.child.process.pid)
    assert len(read(engine)) == len(NOTHING)
    assert spark_process.start_spark(engine) is warm
    assert descendants(warm.child.process.pid).keys() >= before.keys()


def test_a_task_whose_worker_crashes_is_repeated(engine: Engine, warm: SparkProcess, silent_server: str) -> None:
    """A crash of the client library costs an attempt, and the answer is that of one attempt."""
    messages: list[str] = []

    def workers() -> list[int]:
        return [pid for pid, line in descendants(warm.child.process.pid).items() if "pyspark.daemon" in line]

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(
            read,
            engine,
            GROUP,
            servers=silent_server,
            timeout_s=15.0,
            progress=lambda step, state="", *_count: messages.append(f"{step} ({state}"),
        )
        wait_until(lambda: any("(0 of 1 tasks" in message for message in messages), 60, "the start of the task")
        crashed = workers()
        for pid in crashed:
            os.kill(pid, signal.SIGKILL)
        (answer,) = reading.result()
    assert crashed
    assert spark_process.start_spark(engine) is warm
    assert not set(crashed) & set(workers())
    (group,) = decode(answer["groups"]).to_pylist()
    assert group["group"] == "g"
    assert group["error"]


@pytest.mark.parametrize("victim", ["JVM", "Python process"])
def test_a_process_that_was_killed_is_replaced(engine: Engine, warm: SparkProcess, victim: str) -> None:
    """A dead JVM once counted as a warm session, in every later round of `watch`."""
    jvm = java_process(warm)
    os.kill(jvm if victim == "JVM" else warm.child.process.pid, signal.SIGKILL)
    assert len(read(engine)) == len(NOTHING)
    assert spark_process.start_spark(engine) is not warm
    wait_until(lambda: has_ended(jvm), END_LIMIT_S, "the end of the first JVM")


def test_another_engine_replaces_a_process_that_hangs(warm: SparkProcess, other: Engine) -> None:
    """A process has one Spark: the one of another master ends first.

    Neither py4j nor the JVM has a deadline, so that closing once took for ever.
    """
    jvm = java_process(warm)
    os.kill(jvm, signal.SIGSTOP)
    with ends_within(END_LIMIT_S):
        assert spark_process.start_spark(other) is not warm
    assert warm.child.has_ended
    wait_until(lambda: has_ended(jvm), END_LIMIT_S, "the end of the JVM")


def test_a_reading_that_cannot_be_interrupted_is_abandoned(other: Engine, silent_server: str) -> None:
    """After its limit the reading ends although the JVM does not answer; the error names an existing log.

    A warm process that fails is replaced, but a reading that has used its time up is not repeated.
    """
    process = warm_process(other)  # the one that the test above left
    jvm = java_process(process)
    os.kill(jvm, signal.SIGSTOP)
    error = "had not read 1 group after 1 s; the log is "
    with ends_within(END_LIMIT_S), pytest.raises(ScanFailed, match=error) as failure:
        read(other, GROUP, servers=silent_server, limit_s=1.0)
    assert process.child.has_ended
    wait_until(lambda: has_ended(jvm), END_LIMIT_S, "the end of the JVM")
    log = Path(str(failure.value).rpartition(" ")[2])
    assert log.is_file()
    assert list(log.parent.iterdir()) == [log]
    log.unlink()
    log.parent.rmdir()


def test_a_process_that_ends_leaves_nothing(tmp_path: Path, unique: str) -> None:
    """No process, no file and no output of Spark remains."""
    with start("local[2]", mark=unique, temporary=tmp_path) as process:
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    assert stdout.split()[0] == str(len(NOTHING))
    assert {line.split()[0] for line in stderr.splitlines()} == {"waiting", "reading"}
    assert_nothing_left(tmp_path, unique)


@pytest.mark.parametrize("moment", ["waiting for Spark", "reading", "after the answer"])
def test_a_killed_command_leaves_no_orphan(tmp_path: Path, unique: str, silent_server: str, moment: str) -> None:
    """The process of Spark notices the end of its parent, which cannot say anything, and ends its group.

    At each moment: while the JVM starts, while tasks wait for a broker, and while Spark is idle.
    """
    servers = silent_server if moment == "reading" else ""
    with start("local[2]", servers, mark=unique, temporary=tmp_path) as process:
        assert process.stderr is not None
        if moment == "after the answer":
            next_answers(process, is_first=True)
        else:
            # A task runs, or the JVM has not started yet.
            pattern = r"^reading .*\(0 of 1 tasks" if moment == "reading" else f"^{moment}"
            assert any(re.search(pattern, line) for line in process.stderr)
        process.kill()
    assert_nothing_left(tmp_path, unique)


def test_a_killed_command_leaves_no_file_of_a_java_that_still_writes(
    tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder was removed before the JVM ended, which sometimes wrote into it once more."""
    (temporary := tmp_path / "temporary").mkdir()
    program(tmp_path / "bin" / "java", "n=0", 'while n=$((n + 1)); do true > "$TMPDIR/$n"; done 2>&-')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with start("local[2]", mark=unique, temporary=temporary) as process:
        wait_until(lambda: any(temporary.glob("*/100")), 60, "files of Java")
        process.kill()
    assert_nothing_left(temporary, unique)


@pytest.mark.parametrize(
    ("file", "text", "cause"),
    [
        ("sitecustomize.py", "import sys; sys.modules['grpc'] = None", r"grpcio"),
        ("pyspark.py", "import sys; sys.exit(print('it lacks', 'a package', sep='\\n', file=sys.stderr))", r"it lacks / a package"),
    ],
    ids=["a package is missing", "pyspark ends the process"],
)  # fmt: skip
def test_a_process_that_pyspark_ends_is_an_error_with_its_last_lines(
    file: str, text: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyspark takes a process without a module for one of its tests: where it lacks a package, it ends it with exit code 0.

    The command once said only that the process had ended, and of a Connect server's it keeps no log.
    """
    (tmp_path / file).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        remote = f"sc://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ScanFailed, match=f"did not start a session: .*{cause}"):
            read(Engine(remote=remote))
    spark_process.close()
