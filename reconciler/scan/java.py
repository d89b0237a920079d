"""Finds Java and Spark on this machine, and starts Spark's JVM, without `spark-submit` where it can.

`spark-submit` starts a JVM of its own that prints the command of the second one. Without it the JVM
starts 0.3 s earlier, while this process imports pyspark. Without SPARK_HOME in its environment the
Python workers import pyspark from its folder; otherwise they compile it from a zip, which takes 0.5 s.
"""

import importlib.util
import os
import re
import shlex
import shutil
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from reconciler.errors import ScanFailed

MINIMUM = 17
"""The oldest Java that runs Spark and the brokers of a sandbox."""
_POLL_S = 0.01
_INFO_FILE = "gateway"
_PROPERTIES_FILE = "spark.properties"
_FILE = "--properties-file"
_ESCAPES = {"\n": "\\n", "\r": "\\r"}
_MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
_OPENED = (
    *(f"java.base/java.{name}" for name in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util")),
    *(f"java.base/java.util.{name}" for name in ("concurrent", "concurrent.atomic")),
    *(f"java.base/{name}" for name in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action")),
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""Packages that Spark opens to itself: JavaModuleOptions of Spark 4."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
"""Up to Java 8 the first number is always 1."""
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


def major_version(java: Path) -> int | None:
    """Major version of a `java`, such as 17; None if it prints no version."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout) if answer.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """Parse the major version from the output of `java -version`."""
    match = _VERSION.search(text)
    return None if match is None else int(match[1])


def spark_home() -> Path:
    """Return the folder of Spark: SPARK_HOME, or that of pyspark. Raises ScanFailed. Does not import pyspark."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ScanFailed("pyspark is not installed")
    return Path(spec.origin).parent


def start_java(java: Path, home: Path, flags: Sequence[str], folder: Path) -> "JvmGateway":
    """Start the JVM directly, with the class path of Spark's launcher: an archive of classes fits one only."""
    jars = home / "jars"
    class_path = [home / "conf", *sorted(jars.glob("slf4j-api-*.jar")), jars / "*"]
    command = [str(java), "-cp", os.pathsep.join(map(str, class_path)), *_FLAGS, *flags, _MAIN_CLASS]
    return JvmGateway(command, {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}, folder)


def start_submit(home: Path, properties: Mapping[str, str], folder: Path) -> "JvmGateway":
    """Start the JVM with spark-submit, and its properties in a file until it listens.

    Other users can read a command line, but not this file. PYSPARK_SUBMIT_ARGS counts, too.
    """
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    words = [part for word in words for part in (word.split("=", 1) if word.startswith(f"{_FILE}=") else [word])]
    defaults, before = ["--load-spark-defaults"], b""
    if _FILE in words[:-1]:  # spark-submit reads one file only, and then not spark-defaults.conf
        at = words.index(_FILE)
        defaults, before = [], Path(words[at + 1]).read_bytes() + b"\n"
        del words[at : at + 2]
    file = folder / _PROPERTIES_FILE
    file.touch(mode=0o600)
    file.write_bytes(before + format_properties(properties))
    command = [str(home / "bin" / "spark-submit"), _FILE, str(file), *defaults, *words]
    return JvmGateway(command, os.environ | {"SPARK_HOME": str(home), "SPARK_CONNECT_MODE": "0"}, folder)


def format_properties(properties: Mapping[str, str]) -> bytes:
    """Return the content of a file for java.util.Properties, in UTF-8, as Spark reads it."""

    def escape(text: str) -> str:
        return re.sub(r"[\\\s:=#!]", lambda match: _ESCAPES.get(match[0], f"\\{match[0]}"), text)

    lines = (f"{escape(name)}={escape(value)}\n" for name, value in properties.items())
    return "".join(lines).encode(errors="surrogateescape")


class JvmGateway:
    """A JVM for pyspark. It ends when its standard input is closed, as with this process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._info = folder / _INFO_FILE
        self._properties = folder / _PROPERTIES_FILE
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, env={**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._info)}
        )

    def connect(self) -> None:
        """Wait until the JVM listens, and tell pyspark its address. Raises RuntimeError if the JVM ends."""
        while not self._info.exists():
            if self._process.poll() is not None:
                raise RuntimeError(f"Spark's JVM ended at its start with exit code {self._process.returncode}")
            time.sleep(_POLL_S)
        self._properties.unlink(missing_ok=True)
        info = self._info.read_bytes()
        self._info.unlink()
        port, length = struct.unpack_from(">ii", info)
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = info[8 : 8 + length].decode()

    def end(self) -> None:
        """Let the JVM end, and wait until it has."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
