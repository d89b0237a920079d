"""Spark in a process of its own: started first, asked for all chunks at once, and killed afterwards.

The process owns pyspark, and with a classic master the JVM. It leads a process group, so that a kill
ends the JVM, too, and Ctrl-C reaches neither. Its output goes to a log in its temporary folder, which
the parent removes. A job has one stage: a result task's answer is that of one attempt, so rows of two
readings never mix.
"""

import atexit
import contextlib
import hashlib
import os
import pickle
import queue
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from reconciler import class_archive
from reconciler.errors import ScanFailed
from reconciler.kafka.child import Child, PipeEnd, serve
from reconciler.model.progress import Progress
from reconciler.scan import code_archive
from reconciler.scan.engine_choice import Engine, EngineName, without_secrets
from reconciler.scan.java import find_java, spark_home, start_java, start_submit
from reconciler.text.redact import add_references, redact
from reconciler.text.validation import error_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.scan.chunks import Chunk
    from reconciler.scan.task_rows import ScanTask

Result = TypeVar("Result")

_START_LIMIT_S = 120.0
_INTERRUPT_LIMIT_S = 3.0
_PROGRESS_EVERY_S = 2.0
_COUNT_EVERY_S = 1.0
_CONNECT_LIMIT_S = 10.0
_CONNECT_PORT = 15002
_MAX_SESSIONS = 20
"""Of one day: the server may have closed them all. Then a command takes one for itself."""
_DAY_S = 86_400
_SESSION_ENDED = "INVALID_HANDLE.SESSION_"
"""How a Connect server's errors begin about a session that it has closed, and does not open again."""
_GIVEN_UP = re.compile(r"Application has been killed\. Reason: (.+?)\.?$", re.MULTILINE)
LOG_FILE = "spark.log"
_FOLDER = "kafka-reconciler-spark-"
_REMOVE = 'kill -KILL "-$0"; for _ in 1 2 3; do rm -rf "$1" && exit; sleep 1; done'
"""Ends a process group, and then removes its folder: until its end the JVM writes into it."""
_READY, _RUNNING, _ANSWERS, _FAILED = "ready", "running", "answers", "failed"
_INTERRUPT = "interrupt"
_SPARK_VARIABLES = ("RECONCILER_ENGINE", "RECONCILER_SPARK_MASTER", "SPARK_REMOTE", "RECONCILER_PAUSED")
_JAVA_OPTIONS = "JAVA_TOOL_OPTIONS"
_SUBMIT_VARIABLES = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS")
_LOOPBACK = r"(local|spark://(127\.|localhost))"
"""Masters whose executors are on this machine."""
_LOCAL_HOST = {"SPARK_LOCAL_HOSTNAME": os.environ.get("SPARK_LOCAL_HOSTNAME", "localhost")}
_DRIVER_FLAGS = "spark.driver.extraJavaOptions"
# Short runs: no second compiler, one collector thread. Both measured, see docs/scaling.md.
_DRIVER_MEMORY = "768m"
_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss4m", "-XX:-UsePerfData")
_PROPERTIES: Mapping[str, str] = {
    "spark.app.name": "kafka-reconciler",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    # Large tasks go through files of the driver and of the executors, and tasks hold secrets.
    "spark.io.encryption.enabled": "true",
}


class SparkProcess:
    """A process with Spark, started by the constructor, which does not wait for it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        add_references(engine.secrets)
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
        self._keeps_log = False
        self._is_ready = False
        self.answered = False
        folder = str(self._folder)
        # A JVM that is killed removes none of the native libraries that it has unpacked.
        java_options = f"{os.environ.get(_JAVA_OPTIONS, '')} -Djava.io.tmpdir={shlex.quote(folder)}".strip()
        try:
            with (self._folder / LOG_FILE).open("wb") as log:
                self.child = Child(
                    __name__,
                    log=log,
                    environment={
                        "TMPDIR": folder,
                        "SPARK_LOCAL_DIRS": folder,
                        _JAVA_OPTIONS: java_options,
                        # Spark's workers would import modules of the current folder, which in CI is a checkout.
                        "PYTHONSAFEPATH": "1",
                        # Spark looks the name of this host up before it reads its properties, and a container's
                        # name need not resolve.
                        **(_LOCAL_HOST if _is_on_loopback(engine) else {}),
                    },
                    new_session=True,
                )
        except BaseException:  # Ctrl-C, too
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.child.send(engine)

    def read(
        self, task: "ScanTask", chunks: "Sequence[Chunk]", *, subjects: str, limit_s: float, progress: Progress
    ) -> list[bytes]:
        """Return the encoded answer of each chunk, in any order. Raises ScanFailed; then it has ended.

        `subjects`: what is read, in words. `limit_s`: for the reading, without the start of Spark.
        """
        try:
            started_s = time.time()
            self._wait_until_ready(progress)
            # The patience of the tasks begins when they can: Spark may start for longer than a broker may be silent.
            task = replace(task, until_s=task.until_s + time.time() - started_s)
            self.child.send((task, tuple(chunks)))
            answers = self._receive_answers(subjects, len(chunks), limit_s, progress)
        except BaseException:
            if self.engine.remote:  # the server would go on reading
                self.child.send(_INTERRUPT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.child.process.wait(_INTERRUPT_LIMIT_S)
            self.end()
            raise
        self.answered = True
        return answers

    def _wait_until_ready(self, progress: Progress) -> None:
        started_s = time.monotonic()
        while not self._is_ready:
            waited_s = time.monotonic() - started_s
            if waited_s > _START_LIMIT_S:
                raise ScanFailed(f"no Spark session within {_START_LIMIT_S:.0f} s: {self.engine}{self._log_hint()}")
            progress("waiting for Spark", "" if waited_s < 1 else f"{waited_s:.0f} s")
            self._is_ready = self._receive(_PROGRESS_EVERY_S, f"{self.engine} did not start a session") is not None

    def _receive_answers(self, subjects: str, total: int, limit_s: float, progress: Progress) -> list[bytes]:
        progress(f"reading {subjects}")
        started_s, done = time.monotonic(), 0
        # Until a task runs: a local master is its own executor, and a Connect server may be.
        state = f"0 of {total} tasks" if is_local(self.engine.master) else "no executor yet"
        state = "no task runs yet" if self.engine.remote else state
        while True:
            elapsed_s = time.monotonic() - started_s
            if elapsed_s > limit_s:
                raise ScanFailed(f"Spark had not read {subjects} after {limit_s:.0f} s{self._log_hint()}")
            frame = self._receive(min(_PROGRESS_EVERY_S, limit_s), f"Spark gave up reading {subjects}")
            if frame is not None and frame[0] == _ANSWERS:
                answers: list[bytes] = frame[1]
                return answers
            if frame is not None:
                _name, done_now, running = frame
                done = max(done, done_now)  # no stage is active after the last task
                if done or running:
                    state = f"{done} of {total} tasks"
            progress(f"reading {subjects}", f"{state}, {elapsed_s:.0f} s", done, total)

    def _receive(self, timeout_s: float, failure: str) -> Any:
        """Return the next frame; None: none in time. Raises ScanFailed if the process failed."""
        frame = self.child.receive(timeout_s)
        if frame is None and self.child.has_ended:
            raise ScanFailed(f"{failure}: its process ended{self._log_hint()}")
        if frame is not None and frame[0] == _FAILED:
            cause, says_all = redact(frame[1]), frame[2]
            raise ScanFailed(cause if says_all else f"{failure}: {cause}{self._log_hint()}")
        return frame

    def _log_hint(self) -> str:
        """The path of the log for an error message. The log is kept."""
        if self.engine.remote:
            return ""
        self._keeps_log = True
        return f"; the log is {self._folder / LOG_FILE}"

    def end(self) -> None:
        """Kill the process with its JVM and workers, and remove its files. Can be repeated."""
        self.child.end()
        for path in self._folder.glob("*") if self._keeps_log else ():  # a user may have removed it
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOG_FILE:
                path.unlink(missing_ok=True)
        if not self._keeps_log:
            shutil.rmtree(self._folder, ignore_errors=True)


_process: SparkProcess | None = None


def start_spark(engine: Engine) -> SparkProcess:
    """Return this process's Spark: the one that runs, or a new one, which starts in the background.

    Raises ScanFailed where there can be no temporary folder or process.
    """
    global _process  # noqa: PLW0603 - a process has one Spark
    # `auto` takes over what a `spark` has started; the references of tasks are not properties of Spark.
    engine = replace(engine, name=EngineName.SPARK, executor_secrets=False)
    if _process is not None and (_process.child.has_ended or _process.engine != engine):
        close()
    if _process is None:
        try:
            _process = SparkProcess(engine)
        except OSError as error:
            raise ScanFailed(
                f"the process of Spark could not be started: {error}; see this machine's limits, and its temporary folder, "
                "which TMPDIR names"
            ) from None
        atexit.register(close)
    return _process


def start_early(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Start local Spark for a command that scans, unless a word or a variable is about Spark or engines."""
    options = ("--engine", "--spark-", "--help", "-h", "diff")
    if not any(word.startswith(options) for word in words) and not any(map(environment.get, _SPARK_VARIABLES)):
        with contextlib.suppress(ScanFailed):  # the scan reports it
            start_spark(Engine())


def close(*, unused: bool = False) -> None:
    """End this process's Spark, if any. Can be repeated. `unused`: only one that has read nothing."""
    global _process
    if _process is not None and not (unused and _process.answered):
        process, _process = _process, None
        process.end()


def main(descriptor: int) -> None:
    """In the process: start Spark, then read for each request until the parent kills the group."""
    folder = Path(tempfile.gettempdir())  # not sent: the parent may end before its first message is read

    def end_group() -> None:
        if folder.name.startswith(_FOLDER):
            with contextlib.suppress(OSError):
                subprocess.Popen(["/bin/sh", "-c", _REMOVE, str(os.getpgrp()), folder], start_new_session=True)
        os.killpg(0, signal.SIGKILL)

    pipe, received = serve(descriptor, orphaned=end_group)
    engine = received.get()
    add_references(engine.secrets)
    try:
        spark = ConnectSession(engine, folder) if engine.remote else ClassicContext(engine, folder)
        pipe.send((_READY,))
        while True:
            _serve_request(spark, pipe, received)
    except ScanFailed as error:
        pipe.send((_FAILED, str(error), True))
    except SystemExit:  # pyspark prints what it lacks, and ends a process that it takes for one of its tests
        pipe.send((_FAILED, f"pyspark ended its process: {last_lines(folder / LOG_FILE)}", False))
    except Exception as error:  # noqa: BLE001 - pyspark, py4j and gRPC have their own exception trees
        sys.stderr.write(redact("".join(traceback.format_exception(error))))
        pipe.send((_FAILED, cause_of(error, folder / LOG_FILE), False))
    received.get()


def _serve_request(spark: "ClassicContext | ConnectSession", pipe: PipeEnd, received: "queue.SimpleQueue[Any]") -> None:
    """Wait for a request, and answer it; meanwhile send how far it is, and obey an interruption."""
    from reconciler.kafka import futures

    task, chunks = received.get()
    reading = futures.submit(lambda: spark.read(task, chunks))
    while not wait([reading], _COUNT_EVERY_S).done:
        with contextlib.suppress(queue.Empty):
            if received.get_nowait() == _INTERRUPT and isinstance(spark, ConnectSession):
                spark.interrupt()
                os._exit(0)  # the parent waits for it, whatever counts it still has to read
        pipe.send((_RUNNING, *spark.count_tasks()))
    pipe.send((_ANSWERS, reading.result()))


class ClassicContext:
    """A driver with a JVM in this process: local, or of a cluster. No SparkSession: no query is compiled."""

    def __init__(self, engine: Engine, folder: Path, *, archive_flags: tuple[str, ...] | None = None) -> None:
        java, home = find_java(), spark_home()
        os.environ.pop("SPARK_REMOTE", None)
        if archive_flags is None:
            archive_flags = class_archive.use_flags("spark", java, home / "jars")
        properties = spark_properties(engine, archive_flags)
        # Executors of a cluster have their own interpreter; only those of a local master have ours.
        if is_local(engine.master) or "spark.pyspark.python" in properties:
            os.environ["PYSPARK_PYTHON"] = properties.get("spark.pyspark.python", sys.executable)
        if needs_spark_submit(engine, home):
            check_version(home)
            self._gateway = start_submit(home, properties, folder)
        else:
            self._gateway = start_java(java, home, [f"-Xmx{_DRIVER_MEMORY}", *_FLAGS, *archive_flags], folder)
        from pyspark import SparkConf, SparkContext  # while the JVM starts

        try:
            self._gateway.connect()
            self._context = SparkContext(conf=SparkConf(loadDefaults=False).setAll(list(properties.items())))
        except Exception:
            log = (folder / LOG_FILE).read_text(errors="replace")
            if "UnsupportedClassVersionError" in log:
                raise ScanFailed(
                    f"Java 17 or later is needed, and {java} is older: install one, or set JAVA_HOME"
                ) from None
            raise
        if not is_local(engine.master):
            self._context.addPyFile(str(code_archive.write(folder)))

    def read(self, task: "ScanTask", chunks: "Sequence[Chunk]") -> list[bytes]:
        """Run one task per chunk, and return their answers."""
        from reconciler.scan.task_rows import read_encoded

        self._context.setJobDescription(f"kafka-reconciler: {len(chunks)} chunks")
        # The chunks are data of the job, so each task gets its own only.
        return list(self._context.parallelize(chunks, len(chunks)).map(partial(read_encoded, task)).collect())

    def count_tasks(self) -> tuple[int, int]:
        """Return how many tasks are done, and how many run."""
        tracker = self._context.statusTracker()
        stages = [info for number in tracker.getActiveStageIds() if (info := tracker.getStageInfo(number)) is not None]
        return sum(stage.numCompletedTasks for stage in stages), sum(stage.numActiveTasks for stage in stages)

    def stop(self) -> None:
        """End it in order, with its JVM."""
        self._context.stop()
        self._gateway.end()


class ConnectSession:
    """A session of a Connect server. It stays there for the next command, with its workers and code.

    The server closes a session that was not used for an hour, by default, and never opens one with
    the same id again: then the next id is taken.
    """

    def __init__(self, engine: Engine, folder: Path) -> None:
        check_reachable(str(engine.remote))
        self._engine = engine
        self._tag = f"reconciler-{uuid.uuid4().hex}"
        self._counts = (0, 0)
        self._archive = code_archive.write(folder)
        self._number = 0
        self._session: SparkSession | None = None
        self._with_session(lambda _session: None)

    def _with_session(self, call: "Callable[[SparkSession], Result]") -> Result:
        """Return what the call returns; with another session each time the server has closed one."""
        while True:
            try:
                self._session = self._session or self._open()
                return call(self._session)
            except Exception as error:
                self._session = None
                self._number += 1
                if _SESSION_ENDED not in str(error) or self._number > _MAX_SESSIONS:
                    raise

    def _open(self) -> "SparkSession":
        from pyspark.sql import SparkSession

        remote = with_session_id(self._engine, self._archive.name, self._number, day=int(time.time() // _DAY_S))
        session = SparkSession.builder.remote(remote).config(map=dict(self._engine.conf)).create()
        session.addArtifacts(str(self._archive), pyfile=True)
        session.registerProgressHandler(self._count)
        return session

    def _count(self, stages: Any, inflight_tasks: int, **_more: Any) -> None:
        self._counts = (sum(stage.num_completed_tasks for stage in stages), inflight_tasks)

    def read(self, task: "ScanTask", chunks: "Sequence[Chunk]") -> list[bytes]:
        return self._with_session(partial(self._read, task, chunks))

    def _read(self, task: "ScanTask", chunks: "Sequence[Chunk]", session: "SparkSession") -> list[bytes]:
        import pyarrow as pa

        from reconciler.scan.task_rows import read_batches

        self._counts = (0, 0)  # those of the reading before would look like progress
        # A local relation of so many rows has so many partitions: a task gets its own chunk only.
        session.conf.set("spark.sql.leafNodeDefaultParallelism", str(len(chunks)))
        session.addTag(self._tag)
        rows = session.createDataFrame(pa.table({"chunk": [pickle.dumps(chunk) for chunk in chunks]}))
        answers: list[bytes] = (
            rows.mapInArrow(partial(read_batches, task), "answer binary").toArrow()["answer"].to_pylist()
        )
        return answers

    def count_tasks(self) -> tuple[int, int]:
        return self._counts

    def interrupt(self) -> None:
        """End the reading, whatever it has read. A classic context ends with its process."""
        if self._session is not None:
            self._session.interruptTag(self._tag)


def spark_properties(engine: Engine, archive_flags: Sequence[str] = ()) -> dict[str, str]:
    """Return the properties of a classic context. `archive_flags`: more flags of a local JVM."""
    master = engine.master
    properties = dict(_PROPERTIES)
    if local := re.fullmatch(r"local(?:\[(\*|\d+)\])?", master):
        # Without a second number a crashed worker fails the scan; clusters retry.
        master = f"local[{local[1] or 1},4]"
    if is_local(master):
        properties |= {
            _DRIVER_FLAGS: shlex.join([*_FLAGS, *archive_flags]),
            "spark.driver.memory": _DRIVER_MEMORY,
            "spark.ui.enabled": "false",
        }
    if _is_on_loopback(engine):
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return properties | {"spark.master": master} | dict(engine.conf)


def _is_on_loopback(engine: Engine) -> bool:
    """Whether driver and executors are on this machine."""
    return engine.remote is None and re.match(_LOOPBACK, engine.master) is not None


def needs_spark_submit(engine: Engine, home: Path) -> bool:
    """Whether there are other executors, or properties, variables or files that spark-submit reads."""
    own_jvm = re.fullmatch(r"local(\[.*\])?", engine.master)
    return not own_jvm or bool(engine.conf) or any(map(os.environ.get, _SUBMIT_VARIABLES)) or (home / "conf").exists()


def check_version(home: Path) -> None:
    """Raise ScanFailed unless a folder of Spark has the version of pyspark, which cannot drive another."""
    import pyspark

    jars = [path.name for path in (home / "jars").glob("spark-core_*.jar")]
    versions = [match[1] for name in jars if (match := re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", name))]
    if versions != [pyspark.__version__]:
        raise ScanFailed(
            f"SPARK_HOME, {home}, has Spark {', '.join(versions) or 'of no version'}, and pyspark is {pyspark.__version__}: "
            "unset SPARK_HOME, or install the same version"
        )


def is_local(master: str) -> bool:
    """Whether the executors run in the driver's JVM."""
    return master.startswith("local")


def with_session_id(engine: Engine, code: str, number: int, *, day: int) -> str:
    """Return the address with the id of the session that commands of this user and code share.

    Without one each command would start a session: 2.7 s for its workers. `code`: the archive's name.
    `number`: of the session, after those that the server has closed; from _MAX_SESSIONS on no command
    shares it. `day`: since the epoch. The server remembers a thousand closed sessions, so without it
    the numbers would run out on a server that is used once a day.
    """
    remote = str(engine.remote)
    if "session_id=" in remote:
        return remote
    conf = sorted(engine.conf.items())
    identity = f"{os.getuid()} {socket.gethostname()} {code} {conf} {remote} {day} {number}".encode()
    session_id = uuid.UUID(bytes=hashlib.sha256(identity).digest()[:16], version=4)
    if number >= _MAX_SESSIONS:
        session_id = uuid.uuid4()
    # A parameter, such as a token, may end with a slash.
    address = remote.rstrip(";") if "/;" in remote else f"{remote.rstrip('/')}/"
    return f"{address};session_id={session_id}"


def check_reachable(remote: str) -> None:
    """Raise ScanFailed where no server listens. The client library would retry for minutes."""
    try:
        address = urlsplit(remote)
        host, port = address.scheme == "sc" and address.hostname, address.port or _CONNECT_PORT
    except ValueError:
        host = None
    shown = without_secrets(remote)
    if not host:
        raise ScanFailed(f"{shown} is not an address of a Spark Connect server: use sc://HOST:PORT")
    try:
        socket.create_connection((host, port), timeout=_CONNECT_LIMIT_S).close()
    except OSError as error:
        raise ScanFailed(
            f"no Spark Connect server at {shown}: {error_reason(error)}; start one, correct --spark-remote, or leave it out to use local[*]"
        ) from None


def cause_of(error: BaseException, log: Path) -> str:
    """Return the line of a Java or gRPC error that says why, without secrets.

    It is the last one before Java's stack: that of the failed task, or that of its Python exception.
    A standalone cluster that gives the application up stops its context, and says why in the log only.
    """
    if "stopped SparkContext" in str(error) and (
        given_up := _GIVEN_UP.search(log.read_text(encoding="utf-8", errors="replace"))
    ):
        return redact(given_up[1])
    head = re.split(r"\n\s*at |\n\s*JVM stacktrace", str(error), maxsplit=1)[0]
    lines = [line for line in head.splitlines() if line.strip() and not line.strip().startswith("SQLSTATE")]
    return redact(lines[-1].strip().removeprefix(": ")) if lines else type(error).__name__


def last_lines(log: Path) -> str:
    """Return the last three lines of a log, without secrets."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return redact(" / ".join(lines[-3:])) or "it printed nothing"
