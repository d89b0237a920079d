"""Starts Spark's own servers from the pip package: a standalone cluster and a Connect server.

They listen on loopback and end with the test. Their workers can have a Python interpreter of their
own, which writes down which code of the scan it runs.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlencode

from reconciler.class_archive import use_flags
from reconciler.companions.sandbox.client import wait_until
from reconciler.companions.sandbox.ports import free_addresses, listens
from reconciler.scan.java import find_java

_SPEC = find_spec("pyspark")  # does not import it, which takes half a second
assert _SPEC is not None
assert _SPEC.origin is not None
HOME = Path(_SPEC.origin).parent
START_LIMIT_S = 300
CONNECT_LOG = "connect.log"
QUICK_START = " ".join(("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *use_flags("spark", find_java(), HOME / "jars")))
"""JVM flags for servers that run for minutes and spend most of that time on start and compilation."""


GUARD = """\
import os, subprocess, sys, threading

def end_with_parent():
    sys.stdin.buffer.read()
    server.terminate()
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        server.kill()

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
threading.Thread(target=end_with_parent, daemon=True).start()
os._exit(server.wait() & 0xFF)
"""
"""Runs a server until it ends, or until standard input closes, which also happens if its parent is killed."""


TRACE = """\
import os, sys

def trace(event, arguments):
    if event == "exec" and getattr(arguments[0], "co_filename", "").endswith("reconciler/scan/task_rows.py"):
        with open({file!r}, "a") as lines:
            lines.write(f"{{sys.executable}}|{{os.getcwd()}}|{{arguments[0].co_filename}}\\n")

sys.addaudithook(trace)
sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
"""
"""Adds a line to a file when the interpreter runs the module of the tasks.

It imports pyspark from its folder: each worker would compile that of Spark's zip, for half a second.
"""


@dataclass(frozen=True)
class WorkerImport:
    """A worker process that has imported the module of the tasks: with what, where, and from which file."""

    interpreter: Path
    folder: Path
    code: str


def make_interpreter(venv: Path, lines: str) -> tuple[Path, Path]:
    """Make a virtual environment with the packages of this one, but without this program. `lines`: more of its .pth file.

    Returns the interpreter and the folder of its packages.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    # A path of a .pth file is not a folder of .pth files itself: that of this program does not count.
    (packages / "others.pth").write_text(f"{HOME.parent}\n{lines}")
    return venv / "bin" / "python3", packages


class OtherPython:
    """Another Python interpreter, of server's workers."""

    def __init__(self, folder: Path) -> None:
        self.executable, packages = make_interpreter(folder / "other-python", "import trace_tasks\n")
        self._trace = folder / "worker-imports"
        self._trace.touch()
        (packages / "trace_tasks.py").write_text(TRACE.format(file=str(self._trace)))

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a server whose workers are to have this interpreter, as `python3` or by name."""
        path = os.pathsep.join((str(self.executable.parent), os.environ["PATH"]))
        return {"PATH": path, "PYSPARK_PYTHON": str(self.executable)}

    def imports(self) -> list[WorkerImport]:
        """Return the imports of the module of the tasks so far, one for each worker process."""
        lines = (line.split("|") for line in self._trace.read_text().splitlines())
        return [WorkerImport(Path(interpreter), Path(folder), code) for interpreter, folder, code in lines]


def free_port() -> int:
    """A port outside the range of outgoing connections, so that it stays free until the server listens."""
    return free_addresses(1)[0].port


@contextmanager
def process(
    log: Path, *command: str, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a server with its output in `log`.

    The server cannot import this package: it runs in another folder without a path to it.
    """
    with log.open("wb") as out:
        started = subprocess.Popen(
            [sys.executable, "-S", "-c", GUARD, *command],
            cwd=log.parent,
            stdout=out,
            stderr=out,
            stdin=subprocess.PIPE,
            env={
                **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_NO_DAEMONIZE": "1",
                "PYSPARK_PYTHON": sys.executable,
                **(environment or {}),
            },
        )
    assert started.stdin is not None
    try:
        yield started
    finally:
        started.stdin.close()
        started.wait(60)


def wait_for(server: "subprocess.Popen[bytes]", log: Path, ready: Callable[[], bool], name: str) -> None:
    """Wait until `ready`.

    Raises RuntimeError if the server ends first, TimeoutError after START_LIMIT_S.
    """

    def ready_or_ended() -> bool:
        if server.poll() is not None:
            raise RuntimeError(f"{name} ended with {server.returncode}: {log.read_text(errors='replace')[-2000:]}")
        return ready()

    wait_until(ready_or_ended, START_LIMIT_S, name)


def _registered(log: Path) -> bool:
    return "Successfully registered with master" in log.read_text(errors="replace")


@dataclass(frozen=True)
class StandaloneCluster:
    """A Master with a Worker. `address`: the `spark://` address. `web_ui`: of the Master."""

    address: str
    web_ui: str

    def applications(self) -> list[str]:
        """Return the ids of the applications that run."""
        with urllib.request.urlopen(f"{self.web_ui}/json/", timeout=30) as answer:
            return [application["id"] for application in json.load(answer)["activeapps"]]

    def kill(self, application: str) -> None:
        """End an application, as the link of the Master's page does."""
        with urllib.request.urlopen(self.web_ui, timeout=30) as page:
            token = re.search(r'"csrfToken"[^>]* value="([^"]*)"', page.read().decode())
        assert token is not None
        form = urlencode({"id": application, "terminate": "true", "csrfToken": token[1]}).encode()
        urllib.request.urlopen(f"{self.web_ui}/app/kill/", data=form, timeout=30).close()


@contextmanager
def standalone(folder: Path, *, environment: Mapping[str, str] | None = None) -> Iterator[StandaloneCluster]:
    """Run a Master and a Worker with two cores. `environment`: variables of the Worker.

    An executor runs in a folder that has its number as name. A second Worker would be one more JVM.
    """
    port, ui = free_port(), free_port()
    spark_class = str(HOME / "bin" / "spark-class")
    cluster = StandaloneCluster(f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{ui}")
    with ExitStack() as running:
        log = folder / "master.log"
        server = running.enter_context(
            process(
                log,
                *(spark_class, "org.apache.spark.deploy.master.Master"),
                *("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui)),
                environment={"SPARK_DAEMON_JAVA_OPTS": QUICK_START},
            )
        )
        wait_for(server, log, lambda: listens(port), "the Spark master")
        log = folder / "worker.log"
        server = running.enter_context(
            process(
                log,
                *(spark_class, "org.apache.spark.deploy.worker.Worker", cluster.address),
                *("--host", "127.0.0.1", "--cores", "2", "--memory", "1g"),
                *("--webui-port", str(free_port()), "--work-dir", str(folder / "work")),
                environment={"SPARK_DAEMON_JAVA_OPTS": QUICK_START, **(environment or {})},
            )
        )
        wait_for(server, log, partial(_registered, log), "the Spark worker")
        yield cluster


@contextmanager
def connect_server(
    folder: Path, port: int | None = None, *, java_options: str = "", environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a Spark Connect server with two cores; yields the `sc://` address.

    `environment`: variables of the server and its workers. Its log is CONNECT_LOG in the folder.
    """
    port = port or free_port()
    conf = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "768m",
        # Queries of a few rows are not compiled, which costs more than they do.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
    }
    pairs = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    server_class = "org.apache.spark.sql.connect.service.SparkConnectServer"
    end = ("--class", server_class, "--name", "connect", "spark-internal")
    command = [str(HOME / "bin" / "spark-submit"), *pairs, *end]
    log = folder / CONNECT_LOG
    with process(log, *command, environment={"SPARK_SUBMIT_OPTS": java_options, **(environment or {})}) as server:
        wait_for(server, log, lambda: listens(port), "the Spark Connect server")
        yield f"sc://127.0.0.1:{port}"
