"""Addresses, properties and errors of Spark; the token of a Connect server is in no message."""

import socket
import tempfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.cli.app import run
from reconciler.errors import ScanFailed, UsageError
from reconciler.kafka import futures as kafka_futures
from reconciler.scan import read_chunks, spark_process
from reconciler.scan.engine_choice import Engine
from reconciler.scan.java import find_java, format_properties, spark_home
from reconciler.scan.spark_process import (
    SparkProcess,
    cause_of,
    check_reachable,
    check_version,
    needs_spark_submit,
    spark_properties,
    start_early,
    start_spark,
    with_session_id,
)
from reconciler.text.redact import add_references
from tests.build import program
from tests.spark import reading

TOKEN = "planted-4f2c9aa"


@pytest.mark.parametrize(
    "address",
    [
        "sc://127.0.0.1:1/;token={}",
        "sc://127.0.0.1:1;use_ssl=true;token={}",
        "sc://127.0.0.1:1/;x-header={};user_id=ci",
        "sc://ci:{}@127.0.0.1:1",
        "sc://127.0.0.1:1/token={}",
        "sc://127.0.0.1:1?token={}",
        "https://127.0.0.1:1/;token={}",
        "sc://[x/;token={}",
        "sc://127.0.0.1:99999999/;token={}",
        "sc://127.0.0.1:1/;{}",
    ],
)
def test_no_error_has_the_token(address: str, tmp_path: Path) -> None:
    """Neither our errors nor those of Spark, which quote the address or its parts."""
    remote = address.format(TOKEN)
    with pytest.raises(ScanFailed) as unreachable:
        check_reachable(remote)
    assert TOKEN not in f"{unreachable.value!r} {Engine(remote=remote)} {Engine(remote=remote)!r}"
    assert TOKEN not in f"{Engine(master=remote)} {Engine(master=remote)!r}"
    add_references(Engine(remote=remote).secrets)
    if "/token" not in address and "?token" not in address:
        assert TOKEN not in cause_of(RuntimeError(f"invalid: {remote!r}, header {TOKEN}"), tmp_path / "spark.log")


def test_an_address_without_secrets_is_shown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(ScanFailed, match=f"no Spark Connect server at sc://{address}: "):
        check_reachable(f"sc://{address}/;use_ssl=true;user_id=ci")
    assert str(Engine(master="local[2]")) == "Spark at local[2]"


def test_a_connect_server_is_no_master(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark would quote the address, with the token, in its error."""
    monkeypatch.setenv("RECONCILER_SPARK_MASTER", f"sc://127.0.0.1:1/;token={TOKEN}")
    assert run(["plan", "manifests/examples"]) == UsageError.exit_code
    shown = capsys.readouterr()
    assert "use --spark-remote" in shown.err
    assert TOKEN not in shown.out + shown.err


def test_the_ids_of_shared_sessions_do_not_run_out() -> None:
    """A server remembers a thousand closed sessions: a command a day found 20 of them, and failed for ever."""
    engine = Engine(remote="sc://spark:15002")
    shared = [with_session_id(engine, "code", number, day=day) for day in range(2) for number in range(20)]
    assert len(set(shared)) == len(shared)
    assert shared == [with_session_id(engine, "code", number, day=day) for day in range(2) for number in range(20)]
    own = {with_session_id(engine, "code", 20, day=0) for _command in range(2)}
    assert len(own | set(shared)) == len(shared) + 2


@pytest.mark.parametrize(
    ("remote", "start"),
    [
        ("sc://spark", "sc://spark/;session_id="),
        ("sc://spark:1/", "sc://spark:1/;session_id="),
        ("sc://spark:1/;user_id=a;", "sc://spark:1/;user_id=a;session_id="),
        ("sc://spark:1/;token=ends/", "sc://spark:1/;token=ends/;session_id="),
        ("sc://spark:1/;session_id=own", "sc://spark:1/;session_id=own"),
    ],
)
def test_a_session_id_changes_no_parameter(remote: str, start: str) -> None:
    """A token that ends with a slash once lost it."""
    address = with_session_id(Engine(remote=remote), "code", 0, day=0)
    assert (address.startswith(start), address.count("session_id=")) == (True, 1)


CALL = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
LOST = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 2.0 failed 4 times, most "
    "recent failure: Lost task 1.3 in stage 2.0 (TID 11) (192.0.2.2 executor 3): org.apache.spark.SparkException: "
    "Python worker exited unexpectedly (crashed)"
)
GIVEN_UP = "Application has been killed. Reason: All masters are unresponsive! Giving up."
STOPPED = (
    "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created "
    "at:\n\njava.base/java.lang.Thread.run(Thread.java:840)\n\tat org.apache.spark.SparkContext.assertNotStopped\n"
)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (
            (
                f"{CALL}: org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python "
                'worker: Traceback (most recent call last):\n  File "x.py", line 5, in f\n    read()\n'
                "reconciler.errors.ScanFailed: the variable KAFKA_PASSWORD is not set\n SQLSTATE: 38000\n"
                "\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1097)\n\tat java.lang.Thread.run\n"
            ),
            "reconciler.errors.ScanFailed: the variable KAFKA_PASSWORD is not set",
        ),
        (f"{CALL}: {LOST}\n\tat org.apache.spark.api.python.X\n", LOST),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited.", "[JAVA_GATEWAY_EXITED] Java gateway process exited."),
        ("", "RuntimeError"),
        (f"{CALL}: {STOPPED}", "All masters are unresponsive! Giving up"),
    ],
)
def test_the_cause_of_a_failure_is_one_line(error: str, cause: str, tmp_path: Path) -> None:
    """Texts of Spark 4.3: Java's stack follows the cause, and the name of the call comes before it.

    A master at which nothing listens was once told as the last line of a stack.
    """
    (log := tmp_path / "spark.log").write_text(f"26/11/28 06:18:23 ERROR Backend: {GIVEN_UP}\n26/11/28 WARN X: next\n")
    assert cause_of(RuntimeError(error), log) == cause


@pytest.mark.parametrize(("jar", "version"), [("spark-core_2.13-3.5.1.jar", "3.5.1"), ("other.jar", "no version")])
def test_another_version_of_spark_is_refused(jar: str, version: str, tmp_path: Path) -> None:
    """SPARK_HOME of another installation fails with errors of Java that do not name the reason."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / jar).touch()
    with pytest.raises(ScanFailed, match=version) as refused:
        check_version(tmp_path)
    assert "unset SPARK_HOME" in str(refused.value)
    check_version(spark_home())


def test_flags_with_blanks_stay_one_word() -> None:
    """Spark splits the options of its JVM at blanks outside quotes."""
    flags = spark_properties(Engine(), ["-XX:SharedArchiveFile=/a home/x.jsa"])["spark.driver.extraJavaOptions"]
    assert flags.endswith(" '-XX:SharedArchiveFile=/a home/x.jsa'")


@pytest.mark.parametrize(
    ("engine", "variables", "expected"),
    [
        (Engine(), {}, False),
        (Engine(master="local[2]"), {}, False),
        (Engine(master="local-cluster[2,1,512]"), {}, True),
        (Engine(master="spark://127.0.0.1:7077"), {}, True),
        (Engine(conf={"spark.jars.packages": "a:b:1"}), {}, True),
        (Engine(), {"SPARK_HOME": "/opt/spark"}, True),
        (Engine(), {"SPARK_CONF_DIR": "/etc/spark"}, True),
        (Engine(), {"PYSPARK_SUBMIT_ARGS": "--verbose pyspark-shell"}, True),
        (Engine(), {"SPARK_SUBMIT_OPTS": "-Dx=y"}, True),
    ],
    ids=str,
)
def test_spark_submit_reads_what_is_meant_for_it(
    engine: Engine, variables: dict[str, str], expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any of it the JVM starts directly."""
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert needs_spark_submit(engine, tmp_path) == expected
    (tmp_path / "conf").mkdir()
    assert needs_spark_submit(Engine(), tmp_path)


def test_a_wrong_java_home_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME comes before PATH. The error once said that there was no Java on PATH either."""
    java = program(tmp_path / "bin" / "java")
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.setenv("JAVA_HOME", str(java))
    with pytest.raises(ScanFailed, match=f"none in JAVA_HOME, {java}: correct or unset JAVA_HOME"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == java


def test_a_temporary_folder_that_cannot_be_used_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk once read "standard output could not be written", and other errors "this is a bug"."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    monkeypatch.setattr(spark_process, "_process", None)  # another test may have left a warm one
    with pytest.raises(ScanFailed, match=r"could not be started: .*nowhere.*TMPDIR"):
        start_spark(Engine())
    start_early([], {})  # the scan reports it


def fail_to_start(engine: Engine) -> Path:
    """Start Spark, whose JVM ends at once, and return the log that the error names, and that stays."""
    process = SparkProcess(engine)
    try:
        with pytest.raises(ScanFailed, match="ended at its start with exit code 3; the log is ") as failed:
            process.read(None, [], subjects="nothing", limit_s=1.0, progress=lambda *_step: None)  # type: ignore[arg-type]
    finally:
        process.end()
    return Path(str(failed.value).rpartition("the log is ")[2])


def test_a_jvm_that_ends_at_once_names_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is in the log: flags that this Java does not know, or no memory."""
    program(tmp_path / "bin" / "java", "echo no memory >&2", "exit 3")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert "no memory" in fail_to_start(Engine()).read_text()


def test_no_command_line_has_a_property(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every user could read secrets of --spark-conf; PYSPARK_SUBMIT_ARGS still counts."""
    home, user_file = tmp_path / "spark", tmp_path / "user.properties"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / f"spark-core_2.13-{version('pyspark')}.jar").touch()
    program(home / "bin" / "spark-submit", 'echo "words: $*"', 'ls -l "$2"', 'cat "$2"', "exit 3")
    user_file.write_text("spark.of.user=1")
    for variables, options in (
        ({}, "--load-spark-defaults pyspark-shell"),
        ({"PYSPARK_SUBMIT_ARGS": f"--properties-file={user_file} --verbose pyspark-shell"}, "--verbose pyspark-shell"),
    ):
        with monkeypatch.context() as patch:
            for name, value in {"SPARK_HOME": str(home), **variables}.items():
                patch.setenv(name, value)
            patch.setattr(tempfile, "tempdir", str(tmp_path))
            log = fail_to_start(Engine(conf={"spark.test.password": f"a {TOKEN}"}))
        words, mode, *properties = log.read_text().splitlines()
        assert words.startswith("words: --properties-file /")
        assert words.endswith(f"/spark.properties {options}")
        assert TOKEN not in words
        assert mode.startswith("-rw-------")
        assert f"spark.test.password=a\\ {TOKEN}" in properties
        assert (properties[0] == "spark.of.user=1") == bool(variables)
        assert list(log.parent.iterdir()) == [log]  # no file of properties remains


def test_properties_of_any_content_reach_java() -> None:
    """java.util.Properties reads backslashes, and blanks and signs at some places."""
    content = {"spark.a b": " x\n#y: z=\\u0041\tü", "spark.c": ""}
    assert format_properties(content) == (b"spark.a\\ b=\\ x\\n\\#y\\:\\ z\\=\\\\u0041\\\t\xc3\xbc\nspark.c=\n")


@pytest.mark.parametrize(
    ("engine", "waits"),
    [
        (Engine(master="local[2]"), "0 of 3 tasks"),
        (Engine(master="spark://127.0.0.1:7077"), "no executor yet"),
        (Engine(remote="sc://127.0.0.1:15002"), "no task runs yet"),
    ],
    ids=str,
)
def test_progress_says_what_a_reading_waits_for(engine: Engine, waits: str) -> None:
    """A local master, which is its own executor, once had "no executor yet", and so had each last moment."""
    counts = [(0, 0), (0, 2), (2, 1), (0, 0)]
    frames: list[Any] = [None, *(("running", *count) for count in counts), ("answers", [b"x"])]
    process = SparkProcess.__new__(SparkProcess)
    process.engine = engine
    process.child = SimpleNamespace(receive=lambda _timeout_s: frames.pop(0), has_ended=False)  # type: ignore[assignment]
    shown: list[str] = []
    assert process._receive_answers("topics", 3, 60.0, lambda _step, state="", *_count: shown.append(state)) == [b"x"]
    states = [state.rpartition(",")[0] for state in shown]
    assert states == ["", waits, waits, "0 of 3 tasks", "2 of 3 tasks", "2 of 3 tasks"]


@pytest.mark.parametrize(("fails_after_s", "attempts"), [(40.0, [100.0, 60.0]), (100.0, [100.0])])
def test_a_second_attempt_does_not_double_the_limit(
    fails_after_s: float, attempts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading of a warm process that had reached its limit was once repeated, with the whole limit again."""
    limits_s: list[float] = []
    now = SimpleNamespace(s=0.0)

    def read(*_: object, limit_s: float, **_options: object) -> list[bytes]:
        limits_s.append(limit_s)
        now.s += fails_after_s
        raise ScanFailed("it ended")

    processes = iter([SimpleNamespace(answered=True, read=read), SimpleNamespace(answered=False, read=read)])
    monkeypatch.setattr(read_chunks, "start_spark", lambda _engine: next(processes))
    monkeypatch.setattr(kafka_futures, "time", SimpleNamespace(monotonic=lambda: now.s))
    with pytest.raises(ScanFailed, match="it ended"):
        reading.read(Engine(), limit_s=100.0)
    assert limits_s == attempts


def test_the_patience_of_tasks_begins_when_spark_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow start of Spark once used it up, so that a task waited five seconds for its broker."""
    sent: list[Any] = []
    process = SparkProcess.__new__(SparkProcess)
    process.engine, process.child = Engine(), SimpleNamespace(send=sent.append)  # type: ignore[assignment]
    monkeypatch.setattr(SparkProcess, "_wait_until_ready", lambda _self, _progress: None)
    monkeypatch.setattr(SparkProcess, "_receive_answers", lambda *_: [])
    times = iter((1_000.0, 1_090.0))
    monkeypatch.setattr(spark_process, "time", SimpleNamespace(time=lambda: next(times)))
    task = replace(reading.scan_task("127.0.0.1:9"), until_s=1_030.0)
    assert process.read(task, [], subjects="nothing", limit_s=1.0, progress=lambda *_step: None) == []
    ((sent_task, _chunks),) = sent
    assert sent_task.until_s == 1_120.0
