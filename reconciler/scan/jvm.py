"""The JVM of a local driver: started silently, in its own process session, and ended with this process.

Decided here: how the process is launched and when it is given up. pyspark's own launch prints to the
terminal, lets Ctrl-C reach the JVM in the middle of an answer, and waits forever for a JVM that dies at
its start.
"""

import os
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.errors import ScanFailed
from reconciler.scan.jvm_class_cache import WRITING_LIMIT_S, ClassCache, select_archive, write_at_next_start

_STOP_LIMIT_S = 10.0
_HURRIED_S = 2.0
_LOG = "spark.log"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_FOLDER = "kafka-reconciler-spark-"


@dataclass(slots=True)
class Jvm:
    """A running JVM, and the folder of its log and of the files that executors fetch."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    class_data: ClassCache = field(default_factory=ClassCache)
    _keeps_folder: bool = False

    def keep_log(self) -> Path:
        """The log's path, for an error message. The log is kept after the JVM's end."""
        self._keeps_folder = True
        return self.folder / _LOG

    def end(self, *, at_once: bool = False) -> None:
        """End the JVM by closing its standard input; kill it if that fails. `at_once`: the user pressed Ctrl-C."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        patience_s = _STOP_LIMIT_S if self.class_data.written is None else WRITING_LIMIT_S
        try:
            # The JVM first removes its temporary folders, then writes an archive of its classes.
            self.process.wait(_HURRIED_S if at_once else patience_s)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
            self.process.wait()
        if self.process.returncode == 0:
            self.class_data.keep()
        if not self._keeps_folder:
            _remove(self.folder)


def _remove(folder: Path) -> None:
    """Remove a folder that `start` created. An empty path once meant the working directory, which was removed."""
    is_ours = folder.is_absolute() and folder.parent == Path(tempfile.gettempdir()) and folder.name.startswith(_FOLDER)
    if not is_ours:
        raise ValueError(f"{str(folder)!r} is no folder of a JVM of this program: not removed")
    shutil.rmtree(folder, ignore_errors=True)


def of(gateway: Any) -> Jvm | None:
    """The JVM behind a gateway that `start` returned; None for any other."""
    process = getattr(gateway, "proc", None)
    return process if isinstance(process, Jvm) else None


def start(conf: Any, abandoned: threading.Event, *, limit_s: float, archived: bool = False) -> Any:
    """pyspark's gateway into a new JVM. `conf`: a SparkConf. Raises ScanFailed.

    `abandoned` ends the wait. `archived`: use an archive of the classes, for our own JVM flags.
    """
    from pyspark.java_gateway import launch_gateway

    java = _need_java()
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
    answer = folder / "gateway"
    home = _spark_home()
    class_data = select_archive(java, home / "jars", folder) if archived else ClassCache()
    command = [str(home / "bin" / "spark-submit")]
    for name, value in conf.getAll():
        if name == _JAVA_OPTIONS and class_data.option:
            value = f"{value} {class_data.option}"
        command += ["--conf", f"{name}={value}"]
    environment = os.environ | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer), "SPARK_CONNECT_MODE": "0"}
    environment.pop("SPARK_REMOTE", None)
    with (folder / _LOG).open("wb") as log:
        process = subprocess.Popen(
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    jvm = Jvm(process, folder, class_data)
    limit = time.monotonic() + limit_s
    while not answer.is_file():
        if process.poll() is not None or time.monotonic() > limit:
            reason = _failure_reason(jvm)
            process.kill()
            jvm.end()
            raise ScanFailed(reason)
        if abandoned.wait(0.02):
            # The JVM has created nothing yet that it would have to remove.
            process.kill()
            jvm.end()
            raise ScanFailed("the scan was given up while Spark was starting")
    port, secret = _gateway(answer.read_bytes())
    # pyspark connects to an existing JVM if these variables are set.
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        gateway = launch_gateway(conf)
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    gateway.proc = jvm
    return gateway


def ask_for_archive() -> bool:
    """Make the next local JVM write an archive of its classes; False if there is one.

    Raises ScanFailed without Java, and OSError.
    """
    return write_at_next_start(_need_java(), _spark_home() / "jars")


def _gateway(data: bytes) -> tuple[int, str]:
    """Port and secret from the file of Spark's PythonGatewayServer, which renames it into place."""
    port, size = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + size].decode()


def _failure_reason(jvm: Jvm) -> str:
    log = jvm.keep_log()
    if "UnsupportedClassVersionError" in log.read_text(errors="replace"):
        return f"Java 17 or later is needed, and {_java()} is older: install one, or set JAVA_HOME"
    return f"Spark's JVM did not start; its log is {log}"


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def _need_java() -> Path:
    java = _java()
    if java is None:
        raise ScanFailed(
            "Java 17 or later is needed to read offsets and commits, and there is none in JAVA_HOME or on PATH: "
            "install it (`apt-get install openjdk-17-jre-headless`, `brew install openjdk@17`), or use --spark-remote"
        )
    return Path(java)


def _spark_home() -> Path:
    import pyspark

    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else Path(pyspark.__file__).parent
