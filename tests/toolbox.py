"""Runs Kafka's own command-line tools in one warm JVM, to check the results of tests.

`Toolbox` runs any tool without a new JVM. The functions below it answer the questions of many
tests, with one toolbox per cluster and process.
"""

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import pyspark
import pytest
from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway

from reconciler.companions.sandbox import client, config, tools
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.java import find_java
from reconciler.companions.sandbox.tools import tool_class


class Toolbox:
    """Runs tools with `run`.

    A lock allows one tool at a time, because a tool prints to the JVM's standard output.
    """

    def __init__(self, cluster: SandboxCluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        java = find_java()
        self._process = subprocess.Popen(
            [
                str(java),
                "-Xmx256m",
                *config.jvm_flags(java, cluster.jars),
                "-cp",
                f"{cluster.jars}/*:{jar}",
                "py4j.GatewayServer",
                "--die-on-broken-pipe",
                "0",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        port = int(self._process.stdout.readline())
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True),
            callback_server_parameters=CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True),
        )
        server = self._gateway.get_callback_server()
        self._gateway.java_gateway_server.resetCallbackClient(
            self._gateway.java_gateway_server.getCallbackClient().getAddress(), server.get_listening_port()
        )
        package = "org.apache.kafka.common.utils" + (".internals" if tools.kafka_version(cluster) >= (4, 4) else "")
        self._exit = _Exit(f"{package}.Exit$Procedure")
        jvm: Any = self._gateway.jvm
        _resolve(jvm, f"{package}.Exit").setExitProcedure(self._exit)
        # One stream for all tools: those of Kafka 3.7 are in Scala, which keeps the stream of the first one.
        self._output = jvm.java.io.ByteArrayOutputStream()
        jvm.java.lang.System.setOut(jvm.java.io.PrintStream(self._output, True))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM."""
        self._gateway.shutdown()
        with self._process:  # closes the pipes, and waits
            self._process.kill()

    def run(self, tool: str, *arguments: str) -> str:
        """Run a tool, by its script's name or its class, and return its output.

        Raises RuntimeError if the exit code is not 0.
        """
        arguments = ("--bootstrap-server", self._cluster.bootstrap_servers, *arguments)
        with self._lock:
            self._exit.code = 0
            jvm: Any = self._gateway.jvm
            array = self._gateway.new_array(jvm.java.lang.String, len(arguments))
            for index, argument in enumerate(arguments):
                array[index] = argument
            self._output.reset()
            _resolve(jvm, tool_class(self._cluster, tool)).main(array)
            output = str(self._output.toString())
        if self._exit.code:
            raise RuntimeError(f"{tool} {' '.join(arguments)}: exit code {self._exit.code}: {output[-500:]}")
        return output


class _Exit:
    """Records the exit code of a tool, which otherwise ends the JVM. `interface`: of Java, which it implements."""

    def __init__(self, interface: str) -> None:
        self.code = 0
        self.Java = SimpleNamespace(implements=[interface])

    def execute(self, code: int, _message: str | None) -> None:
        self.code = self.code or code


def _resolve(jvm: Any, name: str) -> Any:
    node = jvm
    for part in name.split("."):
        node = getattr(node, part)
    return node


_TOOLBOXES: dict[str, Toolbox] = {}
"""Bootstrap servers → the toolbox of this process for that cluster."""


def run_kafka_tool(cluster: SandboxCluster, tool: str, *arguments: str) -> str:
    """Run a tool in this process's JVM for a cluster and return its output.

    Raises RuntimeError if the exit code is not 0.
    """
    toolbox = _TOOLBOXES.get(cluster.bootstrap_servers)
    if toolbox is None:
        toolbox = _TOOLBOXES[cluster.bootstrap_servers] = Toolbox(cluster)
    return toolbox.run(tool, *arguments)


@contextmanager
def warm_tools() -> Iterator[None]:
    """In this block `tools.reassign` runs its tool as `run_kafka_tool` does, instead of in a JVM of its own."""

    def run(cluster: SandboxCluster, tool: str, *words: str, **_options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, 0, run_kafka_tool(cluster, tool, *words), "")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tools, "run_tool", run)
        yield


def close_toolboxes() -> None:
    """End the JVMs of `run_kafka_tool`."""
    while _TOOLBOXES:
        _TOOLBOXES.popitem()[1].close()


def log_start_offsets(cluster: SandboxCluster, topic: str) -> dict[int, int]:
    """Map partitions to log start offsets, from kafka-get-offsets."""
    rows = run_kafka_tool(cluster, "kafka-get-offsets", "--topic", topic, "--time", "earliest").split()
    return {int(row.split(":")[1]): int(row.split(":")[2]) for row in rows}


def list_groups(cluster: SandboxCluster) -> set[str]:
    """Names of all consumer groups, from kafka-consumer-groups."""
    return set(run_kafka_tool(cluster, "kafka-consumer-groups", "--list").split())


def group_types(cluster: SandboxCluster) -> dict[str, str]:
    """Map groups of all types to their type, from kafka-groups."""
    listing = run_kafka_tool(cluster, "kafka-groups", "--list")
    return {cells[0]: cells[1].lower() for line in listing.splitlines() if len(cells := line.split()) > 2}


def committed_offsets(cluster: SandboxCluster, group: str, topic: str) -> dict[int, int]:
    """Map partitions to committed offsets of a group, from kafka-consumer-groups."""
    rows = run_kafka_tool(cluster, "kafka-consumer-groups", "--describe", "--offsets", "--group", group)
    return {int(number): int(offset) for number, offset in re.findall(rf"{re.escape(topic)}\s+(\d+)\s+(\d+)", rows)}


def partition_leaders(cluster: SandboxCluster, topic: str) -> dict[int, tuple[int, int]]:
    """Map partitions to (leader, preferred leader), from kafka-topics."""
    rows = run_kafka_tool(cluster, "kafka-topics", "--describe", "--topic", topic)
    matches = re.findall(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\d+)", rows)
    return {int(number): (int(leader), int(preferred)) for number, leader, preferred in matches}


def await_leader(cluster: SandboxCluster, topic: str, partition: int, leader: int) -> None:
    """Wait until kafka-topics shows this leader: the tool may ask a broker that learns of an election last."""
    client.wait_until(
        lambda: partition_leaders(cluster, topic)[partition][0] == leader, 30, f"leader {leader} of {topic}"
    )


def wait_for_topic(cluster: SandboxCluster, name: str) -> None:
    """Wait until every broker's metadata has the topic; Kafka 3.9 takes longer than Kafka 4."""
    client.wait_until(
        lambda: all(client.partition_states(server, name) for server in cluster.bootstrap_servers.split(",")),
        30,
        f"{name} in the metadata of every broker",
    )
