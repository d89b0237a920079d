"""Spark in a process of its own: started first, asked for all chunks at once, and killed afterwards.

This is the side of the command; `spark_driver` runs in the process, and owns pyspark and the JVM. The
process leads a process group, so that a kill ends the JVM, too, and Ctrl-C reaches neither. Its output
goes to a log in its temporary folder, which the command removes.
"""

import atexit
import contextlib
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.errors import ScanFailed
from reconciler.kafka.child import Child
from reconciler.scan.engine import Engine, EngineName, Progress
from reconciler.text.redact import add_references, redact

if TYPE_CHECKING:
    from reconciler.scan.chunking import Chunk
    from reconciler.scan.task_rows import ScanTask

_START_LIMIT_S = 120.0
_INTERRUPT_LIMIT_S = 3.0
_PROGRESS_EVERY_S = 2.0
LOG_FILE = "spark.log"
FOLDER = "kafka-reconciler-spark-"
READY, RUNNING, ANSWERS, FAILED = "ready", "running", "answers", "failed"
"""What begins a frame of the process."""
INTERRUPT = "interrupt"
"""What ends the reading, and how the process says that it has."""
_DRIVER = "reconciler.scan.spark_driver"
_SPARK_VARIABLES = ("RECONCILER_ENGINE", "RECONCILER_SPARK_MASTER", "SPARK_REMOTE", "RECONCILER_PAUSED")
_JAVA_OPTIONS = "JAVA_TOOL_OPTIONS"


class SparkProcess:
    """A process with Spark, started by the constructor, which does not wait for it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        add_references(engine.secrets)
        self._folder = Path(tempfile.mkdtemp(prefix=FOLDER))
        self._keeps_log = False
        self._is_ready = False
        self.answered = False
        folder = str(self._folder)
        # A JVM that is killed removes none of the native libraries that it has unpacked.
        java_options = f"{os.environ.get(_JAVA_OPTIONS, '')} -Djava.io.tmpdir={shlex.quote(folder)}".strip()
        try:
            with (self._folder / LOG_FILE).open("wb") as log:
                self.child = Child(
                    _DRIVER,
                    log=log,
                    environment={
                        "TMPDIR": folder,
                        "SPARK_LOCAL_DIRS": folder,
                        _JAVA_OPTIONS: java_options,
                        # Spark's workers would import modules of the current folder, which in CI is a checkout.
                        "PYTHONSAFEPATH": "1",
                    },
                    new_session=True,
                )
        except BaseException:  # Ctrl-C, too
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.child.send(engine)

    @property
    def is_alive(self) -> bool:
        return not self.child.has_ended

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
                self.child.send(INTERRUPT)
                self.child.receive_after(_INTERRUPT_LIMIT_S, skip=lambda frame: frame[0] == RUNNING)
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
            progress("waiting for Spark" if waited_s < 1 else f"waiting for Spark ({waited_s:.0f} s)")
            self._is_ready = self._receive(_PROGRESS_EVERY_S, f"{self.engine} did not start a session") is not None

    def _receive_answers(self, subjects: str, total: int, limit_s: float, progress: Progress) -> list[bytes]:
        progress(f"reading {subjects}")
        started_s, done, running = time.monotonic(), 0, 1
        while True:
            elapsed_s = time.monotonic() - started_s
            if elapsed_s > limit_s:
                raise ScanFailed(f"Spark had not read {subjects} after {limit_s:.0f} s{self._log_hint()}")
            frame = self._receive(min(_PROGRESS_EVERY_S, limit_s), f"Spark gave up reading {subjects}")
            if frame is not None and frame[0] == ANSWERS:
                answers: list[bytes] = frame[1]
                return answers
            if frame is not None:
                _name, done, running = frame
            state = f"{done} of {total} tasks" if done or running else "no executor yet"
            progress(f"reading {subjects} ({state}, {elapsed_s:.0f} s)")

    def _receive(self, timeout_s: float, failure: str) -> Any:
        """Return the next frame; None: none in time. Raises ScanFailed if the process failed."""
        frame = self.child.receive(timeout_s)
        if frame is None and not self.is_alive:
            raise ScanFailed(f"{failure}: its process ended{self._log_hint()}")
        if frame is not None and frame[0] == FAILED:
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
        if not self._folder.name.startswith(FOLDER):
            raise ValueError(f"{self._folder} is no folder of this program: not removed")
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
    # `auto` takes over what a `spark` has started; the references of tasks are no property of Spark.
    engine = replace(engine, name=EngineName.SPARK, executor_secrets=False)
    if _process is not None and not (_process.is_alive and _process.engine == engine):
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
