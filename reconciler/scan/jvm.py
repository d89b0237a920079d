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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.errors import ScanFailed
from reconciler.scan.jvm_class_cache import WRITING_LIMIT_S, ClassCache, select_archive

_STOP_LIMIT_S = 10.0
_HURRIED_S = 2.0
_LOG = "spark.log"
_FOLDER = "kafka-reconciler-spark-"
FLAGS_PROPERTY = "spark.driver.extraJavaOptions"
# Short runs: no second compiler, one collector thread. Both measured, see docs/scaling.md.
FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m -XX:-UsePerfData"


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
        if self._keeps_folder:
            return
        # An empty path once meant the working directory, which was removed.
        if self.folder.parent != Path(tempfile.gettempdir()) or not self.folder.name.startswith(_FOLDER):
            raise ValueError(f"{str(self.folder)!r} is no folder of a JVM of this program: not removed")
        shutil.rmtree(self.folder, ignore_errors=True)


def start_jvm(properties: Mapping[str, str], abandoned: threading.Event, *, limit_s: float) -> Jvm:
    """Start a JVM with these Spark properties. `abandoned` ends the wait. Raises ScanFailed.

    Our own flags get an archive of the classes with them.
    """
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
    environment = os.environ | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer), "SPARK_CONNECT_MODE": "0"}
    environment.pop("SPARK_REMOTE", None)
    with (folder / _LOG).open("wb") as log:
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
