"""Spark's own servers, started from the pip package: a standalone cluster and a Connect server, on loopback, ended with the test."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from reconciler.kafka.workload import wait_until

_SPEC = find_spec("pyspark")  # does not import it, which takes half a second
assert _SPEC is not None
assert _SPEC.origin is not None
HOME = Path(_SPEC.origin).parent
START_LIMIT_S = 120
CONNECT_LOG = "connect.log"
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVM flags for servers that live for minutes: most of what they do is to start and to compile."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def process(log: Path, *command: str, environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """A server with its words in `log`. It does not know this package: its directory is elsewhere and no path leads here."""
    with log.open("wb") as out:
        started = subprocess.Popen(
            command,
            cwd=log.parent,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            env={
                **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_NO_DAEMONIZE": "1",
                "PYSPARK_PYTHON": sys.executable,
                **(environment or {}),
            },
        )
    try:
        yield
    finally:
        started.terminate()
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """One Master and two Workers of one core each; its `spark://` address."""
    port, ui = free_port(), free_port()
    spark_class = str(HOME / "bin" / "spark-class")
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        running.enter_context(
            process(
                folder / "master.log",
                *(spark_class, "org.apache.spark.deploy.master.Master"),
                *("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui)),
                environment={"SPARK_DAEMON_JAVA_OPTS": QUICK_START},
            )
        )
        wait_until(lambda: listening(port), START_LIMIT_S, "the Spark master")
        for number in (1, 2):
            log = folder / f"worker-{number}.log"
            running.enter_context(
                process(
                    log,
                    *(spark_class, "org.apache.spark.deploy.worker.Worker", master),
                    *("--host", "127.0.0.1", "--cores", "1", "--memory", "512m"),
                    *("--webui-port", str(free_port()), "--work-dir", str(folder / f"work-{number}")),
                    environment={"SPARK_DAEMON_JAVA_OPTS": QUICK_START},
                )
            )
        for number in (1, 2):
            log = folder / f"worker-{number}.log"
            wait_until(
                lambda log=log: "Successfully registered with master" in log.read_text(errors="replace"),
                START_LIMIT_S,
                "a Spark worker",
            )
        yield master


@contextmanager
def connect_server(folder: Path, port: int | None = None, *, java_options: str = "") -> Iterator[str]:
    """A Spark Connect server with two cores; its `sc://` address. Its log is CONNECT_LOG in the folder."""
    port = port or free_port()
    conf = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "768m",
    }
    pairs = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [str(HOME / "bin" / "spark-submit"), *pairs]
    command += [
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--name",
        "connect",
        "spark-internal",
    ]
    with process(folder / CONNECT_LOG, *command, environment={"SPARK_SUBMIT_OPTS": java_options}):
        wait_until(lambda: listening(port), START_LIMIT_S, "the Spark Connect server")
        yield f"sc://127.0.0.1:{port}"
