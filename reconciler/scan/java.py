"""Finds Java and Spark on this machine, and starts Spark's JVM without its launcher.

`spark-submit` starts a JVM of its own that prints the command of the second one. Without it the JVM
starts 0.3 s earlier, while this process imports pyspark. Without SPARK_HOME in its environment the
Python workers import pyspark from its folder; otherwise they compile it from a zip, which takes 0.5 s.
"""

import importlib.util
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from reconciler.errors import ScanFailed

_POLL_S = 0.01
_INFO_FILE = "gateway"
_OPENED = (
    *(f"java.base/java.{name}" for name in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util")),
    *(f"java.base/java.util.{name}" for name in ("concurrent", "concurrent.atomic")),
    *(f"java.base/{name}" for name in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action")),
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""Packages that Spark opens to itself: JavaModuleOptions of Spark 4."""
_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
)


def find_java() -> Path:
    """Return the `java` in JAVA_HOME, or else on PATH. Raises ScanFailed."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        place = f"in JAVA_HOME, {home}: correct or unset JAVA_HOME, install it" if home else "on PATH: install it"
        raise ScanFailed(
            f"Java 17 or later is needed for Spark, and there is none {place} "
            "(`apt-get install openjdk-17-jre-headless`, `brew install openjdk@17`), use --engine inline, or --spark-remote"
        )
    return Path(java)


def spark_home() -> Path:
    """Return the folder of Spark: SPARK_HOME, or that of pyspark. Raises ScanFailed. Does not import pyspark."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ScanFailed("pyspark is not installed")
    return Path(spec.origin).parent


class Gateway:
    """A JVM for pyspark. It ends when its standard input is closed, as with this process."""

    def __init__(self, java: Path, home: Path, flags: Sequence[str], folder: Path) -> None:
        self._info = folder / _INFO_FILE
        # The class path of Spark's launcher: an archive of classes fits one class path only.
        jars = home / "jars"
        class_path = [home / "conf", *sorted(jars.glob("slf4j-api-*.jar")), jars / "*"]
        environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "SPARK_REMOTE")}
        self._process = subprocess.Popen(
            [
                str(java),
                "-cp",
                os.pathsep.join(map(str, class_path)),
                *_FLAGS,
                *flags,
                "org.apache.spark.api.python.PythonGatewayServer",
            ],
            stdin=subprocess.PIPE,
            env=environment | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._info)},
        )

    def connect(self) -> None:
        """Wait until the JVM listens, and tell pyspark its address. Raises RuntimeError if the JVM ends."""
        while not self._info.exists():
            if self._process.poll() is not None:
                raise RuntimeError(f"Spark's JVM ended at its start with exit code {self._process.returncode}")
            time.sleep(_POLL_S)
        info = self._info.read_bytes()
        self._info.unlink()
        port, length = struct.unpack_from(">ii", info)
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = info[8 : 8 + length].decode()
