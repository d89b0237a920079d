"""The JVM of a local driver: silent, in its own process session, and ended with this process.

Decided here: how the process is launched, when it is given up, and when an archive of classes is
used. pyspark's own launch prints to the terminal, lets Ctrl-C reach the JVM in the middle of an
answer, and waits forever for a JVM that dies at its start.
"""

import contextlib
import hashlib
import logging
import os
import shlex
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.errors import ScanFailed

_LOG = logging.getLogger(__name__)

_STOP_LIMIT_S = 10.0
_WRITING_LIMIT_S = 60.0
_HURRIED_S = 2.0
_LOG_FILE = "spark.log"
_FOLDER = "kafka-reconciler-spark-"
_TRIES = 3
_MAX_ARCHIVES = 2
FLAGS_PROPERTY = "spark.driver.extraJavaOptions"
# Short runs: no second compiler, one collector thread. Both measured, see docs/scaling.md.
FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m -XX:-UsePerfData"


@dataclass(frozen=True, slots=True)
class ClassCache:
    """An archive of Spark's classes in the user's cache, which halves the CPU time of a JVM start.

    Writing it costs about as much as four runs save (docs/adr/0010). So the first run on a machine
    only leaves a mark, and the second one writes the archive at its end; a throw-away CI runner
    never does. The JVM itself ignores an archive of another Java, class path or jars. `option`: for
    its command line. `written`: where it leaves an archive at its end, for `keep`.
    """

    option: str | None = None
    written: Path | None = None
    cached: Path | None = None

    def keep(self) -> None:
        """Move the archive that a JVM wrote into the cache. A full disk fails no scan."""
        if self.written is None or self.cached is None or not self.written.is_file():
            return
        temporary = self.cached.with_suffix(f".{os.getpid()}")
        try:
            shutil.copyfile(self.written, temporary)
            temporary.replace(self.cached)
            # Older ones are of an old Java or Spark, and can be written again.
            archives = sorted(self.cached.parent.glob("*.jsa"), key=os.path.getmtime, reverse=True)
            for archive in archives[_MAX_ARCHIVES:]:
                archive.unlink(missing_ok=True)
                _marks(archive).unlink(missing_ok=True)
            _LOG.info("class_data=kept path=%s mib=%d", self.cached, self.cached.stat().st_size >> 20)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            _LOG.info("class_data=not_kept reason=%s", error)


@dataclass(slots=True)
class Jvm:
    """A running JVM, the folder of its log, and pyspark's gateway into it."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    class_data: ClassCache
    gateway: Any = None
    _keeps_folder: bool = False

    def keep_log(self) -> Path:
        """The log's path, for an error message. The log is kept after the JVM's end."""
        self._keeps_folder = True
        return self.folder / _LOG_FILE

    def end(self, *, at_once: bool = False) -> None:
        """Close the JVM's standard input; kill it if that fails. `at_once`: after Ctrl-C."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        patience_s = _STOP_LIMIT_S if self.class_data.written is None else _WRITING_LIMIT_S
        try:
            # The JVM first removes its temporary folders, then writes an archive of its classes.
            self.process.wait(_HURRIED_S if at_once else patience_s)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
            self.process.wait()
        if self.process.returncode == 0:
            self.class_data.keep()
        if self._keeps_folder:
            return
        # An empty path once meant the working directory, which was removed.
        if self.folder.parent != Path(tempfile.gettempdir()) or not self.folder.name.startswith(_FOLDER):
            raise ValueError(f"{str(self.folder)!r} is no folder of a JVM of this program: not removed")
        shutil.rmtree(self.folder, ignore_errors=True)


def start_jvm(properties: Mapping[str, str], abandoned: threading.Event, *, limit_s: float) -> Jvm:
    """Start a JVM with these Spark properties. `abandoned` ends the wait. Raises ScanFailed."""
    from pyspark.java_gateway import launch_gateway

    java = find_java()
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
    answer = folder / "gateway"
    home = spark_home()
    class_data = ClassCache()
    if properties.get(FLAGS_PROPERTY) == FLAGS:
        class_data = select_archive(java, home / "jars", folder)
        properties = {**properties, FLAGS_PROPERTY: f"{FLAGS} {class_data.option or ''}".strip()}
    options = [word for name, value in properties.items() for word in ("--conf", f"{name}={value}")]
    environment = os.environ | {
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
        "SPARK_CONNECT_MODE": "0",
        # Spark's workers would import modules of the current folder, which in CI is a checkout.
        "PYTHONSAFEPATH": "1",
    }
    environment.pop("SPARK_REMOTE", None)
    with (folder / _LOG_FILE).open("wb") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-submit"), *options, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    jvm = Jvm(process, folder, class_data)
    limit = time.monotonic() + limit_s
    while not answer.is_file():
        reason = None
        if process.poll() is not None or time.monotonic() > limit:
            log_path = jvm.keep_log()
            reason = f"Spark's JVM did not start; its log is {log_path}"
            if "UnsupportedClassVersionError" in log_path.read_text(errors="replace"):
                reason = f"Java 17 or later is needed, and {java} is older: install one, or set JAVA_HOME"
        elif abandoned.wait(0.02):
            reason = "the scan was given up while Spark was starting"
        if reason is not None:
            # The JVM has created nothing yet that it would have to remove.
            process.kill()
            jvm.end()
            raise ScanFailed(reason)
    # Spark's PythonGatewayServer renames the file into place.
    data = answer.read_bytes()
    port, size = struct.unpack_from(">ii", data)
    # pyspark connects to an existing JVM if these variables are set.
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), data[8 : 8 + size].decode()
    try:
        jvm.gateway = launch_gateway()
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    return jvm


def find_java() -> Path:
    """The `java` in JAVA_HOME, or else on PATH. Raises ScanFailed."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        raise ScanFailed(
            "Java 17 or later is needed to read offsets and commits, and there is none in JAVA_HOME or on PATH: "
            "install it (`apt-get install openjdk-17-jre-headless`, `brew install openjdk@17`), or use --spark-remote"
        )
    return Path(java)


def spark_home() -> Path:
    """The folder of Spark: SPARK_HOME, or that of pyspark."""
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def select_archive(java: Path, jars: Path, folder: Path) -> ClassCache:
    """The archive for a JVM with these jars. `folder`: the JVM's own."""
    try:
        cached = _archive(java, jars)
        if cached.is_file():
            os.utime(cached)
            return ClassCache(f"-Xshare:auto -XX:SharedArchiveFile={shlex.quote(str(cached))}")
        with _marks(cached).open("ab") as file:
            file.write(b".")
            earlier_runs = file.tell() - 1
    except OSError as error:
        _LOG.debug("class_data=none reason=%s", error)
        return ClassCache()
    if not 1 <= earlier_runs <= _TRIES:
        return ClassCache()
    written = folder / "classes.jsa"
    return ClassCache(f"-XX:ArchiveClassesAtExit={shlex.quote(str(written))}", written, cached)


def write_at_next_start(java: Path, jars: Path) -> bool:
    """Make the next JVM write the archive; False if there is one. Raises OSError."""
    archive = _archive(java, jars)
    if archive.is_file():
        return False
    _marks(archive).write_bytes(b".")
    return True


def _archive(java: Path, jars: Path) -> Path:
    """A name that changes with Java and the jars, so that no outdated archive is tried."""
    # Imported here, because a Spark Connect server that runs the data sources may lack it.
    import platformdirs

    real = java.resolve()
    identity = (str(real), real.stat().st_mtime_ns, str(jars), jars.stat().st_mtime_ns)
    folder = platformdirs.user_cache_path("kafka-reconciler", appauthor=False) / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(repr(identity).encode()).hexdigest()[:16]}.jsa"


def _marks(archive: Path) -> Path:
    """The file with a byte for each run without an archive."""
    return archive.with_suffix(".runs")
