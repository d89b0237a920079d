"""Kafka's own command-line tools, run against a sandbox: the independent witness of what the reconciler did.

Tools have the names of their scripts in Kafka's distribution, and the classes of the version that the sandbox runs. Not here: what their output means.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence

from reconciler.errors import SandboxError
from reconciler.sandbox import config
from reconciler.sandbox.client import partition_states, wait_until
from reconciler.sandbox.cluster import Cluster
from reconciler.sandbox.java import find_java

TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
"""Tools of Kafka 4 that take `--bootstrap-server`, by the name of their script."""
BEFORE_4 = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-groups": None,
    "kafka-share-groups": None,
    "kafka-streams-groups": None,
}
"""Where that was different: another class, or no such tool."""


def kafka_version(cluster: Cluster) -> tuple[int, ...]:
    """Of the brokers and of the tools, by the name of their jar: (3, 9, 1)."""
    (jar,) = cluster.jars.glob("kafka-clients-*.jar")
    return tuple(int(part) for part in jar.stem.removeprefix("kafka-clients-").split("."))


def tool_class(cluster: Cluster, tool: str) -> str:
    """The class behind a tool (a name of `TOOLS`, or a class itself) in the sandbox's Kafka. Raises SandboxError where it has no such tool."""
    found = BEFORE_4.get(tool, TOOLS.get(tool, tool)) if kafka_version(cluster) < (4,) else TOOLS.get(tool, tool)
    if found is None:
        raise SandboxError(f"Kafka {'.'.join(map(str, kafka_version(cluster)))} has no {tool}")
    return found


def tool_command(cluster: Cluster, tool: str, *args: str) -> list[str]:
    """argv of a tool (a name of `TOOLS`, or a class of Kafka's), with `--bootstrap-server` of the sandbox added."""
    return [
        str(find_java()),
        "-Xmx256m",
        *config.JVM_FLAGS,
        "-cp",
        f"{cluster.jars}/*",
        tool_class(cluster, tool),
        "--bootstrap-server",
        cluster.bootstrap_servers,
        *args,
    ]


def run_tool(cluster: Cluster, tool: str, *args: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a tool and answer what it said and its exit code, whatever that is. Raises SandboxError if it does not end."""
    try:
        return subprocess.run(
            tool_command(cluster, tool, *args),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SandboxError(f"{tool} {' '.join(args)} did not end within {timeout_s:.0f} s") from None


def reassign(cluster: Cluster, replicas: Mapping[tuple[str, int], Sequence[int]], *, timeout_s: float = 60) -> None:
    """Give partitions these replicas, preferred first, and wait until every broker's metadata shows them in sync.

    A leader that is still among the replicas stays: a new order of the same ones moves the preference, not the leader.
    """
    plan = [
        {"topic": topic, "partition": partition, "replicas": list(brokers)}
        for (topic, partition), brokers in replicas.items()
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=cluster.dir) as file:
        json.dump({"version": 1, "partitions": plan}, file)
        file.flush()
        answer = run_tool(
            cluster,
            "kafka-reassign-partitions",
            "--reassignment-json-file",
            file.name,
            "--execute",
            timeout_s=timeout_s,
        )
    if answer.returncode != 0:
        raise SandboxError(
            f"partitions of {cluster.name} were not reassigned: {' '.join(answer.stderr.split())[-800:]}"
        )
    for server in cluster.bootstrap_servers.split(","):
        for topic in sorted({topic for topic, _ in replicas}):
            wanted = {partition: tuple(brokers) for (each, partition), brokers in replicas.items() if each == topic}
            wait_until(
                lambda server=server, topic=topic, wanted=wanted: _shows(server, topic, wanted),  # type: ignore[misc]
                timeout_s,
                f"the new replicas of {topic} in the metadata of {server}",
            )


def move_preference(cluster: Cluster, partitions: Iterable[tuple[str, int]]) -> None:
    """Make each partition's leader another one than the preferred: the order of its replicas turns by one, the leader stays.

    Needs at least two replicas, and the preferred one leading. Raises SandboxError.
    """
    turned: dict[tuple[str, int], tuple[int, ...]] = {}
    for topic, partition in partitions:
        state = partition_states(cluster.bootstrap_servers, topic)[partition]
        if len(state.replicas) < 2 or state.leader != state.replicas[0]:
            raise SandboxError(
                f"{topic}[{partition}] is led by {state.leader} of {state.replicas}: nothing to turn away from"
            )
        turned[topic, partition] = (*state.replicas[1:], state.replicas[0])
    if turned:
        reassign(cluster, turned)


def _shows(server: str, topic: str, wanted: Mapping[int, tuple[int, ...]]) -> bool:
    states = partition_states(server, topic)
    return all(
        partition in states
        and states[partition].replicas == brokers
        and set(states[partition].in_sync) == set(brokers)
        and states[partition].leader in brokers
        for partition, brokers in wanted.items()
    )
