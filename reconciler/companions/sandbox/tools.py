"""Runs Kafka's own command-line tools against a sandbox, to check the reconciler's work.

A tool has the name of its script in Kafka's distribution; its class is the one of the sandbox's
Kafka version. Callers interpret the output.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from reconciler.companions.sandbox import config
from reconciler.companions.sandbox.client import partition_states, wait_until
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.java import find_java
from reconciler.errors import SandboxError

TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
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
"""Script → class, for the tools of Kafka 4 that take `--bootstrap-server`."""
BEFORE: Mapping[tuple[int, int], Mapping[str, str | None]] = {
    (3, 8): {
        "kafka-console-consumer": "kafka.tools.ConsoleConsumer",
        "kafka-consumer-groups": "kafka.admin.ConsumerGroupCommand",
    },
    (4, 0): {
        "kafka-acls": "kafka.admin.AclCommand",
        "kafka-console-producer": "kafka.tools.ConsoleProducer",
        "kafka-groups": None,
        "kafka-share-groups": None,
        "kafka-streams-groups": None,
    },
    (4, 4): {"kafka-configs": "kafka.admin.ConfigCommand"},
}
"""Version → script → class before it, where it differs; None where the tool did not exist."""
_SERVER_OPTIONS = ("--bootstrap-server", "--bootstrap-controller")


def kafka_version(cluster: SandboxCluster) -> tuple[int, ...]:
    """Version of the brokers and tools, such as (3, 9, 1), from the name of a jar."""
    (jar,) = cluster.jars.glob("kafka-clients-*.jar")
    return tuple(int(part) for part in jar.stem.removeprefix("kafka-clients-").split("."))


def tool_class(cluster: SandboxCluster, tool: str) -> str:
    """Return the class of a tool in the sandbox's Kafka version.

    `tool` is a name of `TOOLS` or a class. Raises SandboxError if this version has no such tool.
    """
    name = _classes(cluster).get(tool, tool)
    if name is None:
        raise SandboxError(f"Kafka {'.'.join(map(str, kafka_version(cluster)))} has no {tool}")
    return name


def _classes(cluster: SandboxCluster) -> dict[str, str | None]:
    version = kafka_version(cluster)
    classes: dict[str, str | None] = dict(TOOLS)
    for before, earlier in BEFORE.items():
        if version < before:
            classes |= earlier
    return classes


SCRIPT_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""JVM flags of kafka-run-class.sh, with which Kafka's scripts start the tools. Benches use them."""


def tool_names(cluster: SandboxCluster) -> list[str]:
    """Return the names of `TOOLS` that the sandbox's Kafka version has."""
    classes = _classes(cluster)
    return [tool for tool in TOOLS if classes[tool] is not None]


def tool_command(cluster: SandboxCluster, tool: str, *args: str, as_script: bool = False) -> list[str]:
    """Build the argv of a tool, with the sandbox's `--bootstrap-server` unless `args` name a server.

    That is the plain listener, whose clients are super users: no tool needs a password. `as_script`:
    with the JVM flags of Kafka's script, not with the faster ones of a sandbox.
    """
    java = find_java()
    flags = SCRIPT_FLAGS if as_script else config.jvm_flags(java, cluster.jars)
    program = [str(java), "-Xmx256m", *flags, "-cp", f"{cluster.jars}/*"]
    names_server = not {word.partition("=")[0] for word in args}.isdisjoint(_SERVER_OPTIONS)
    servers = [] if names_server else ["--bootstrap-server", cluster.bootstrap_servers]
    return [*program, tool_class(cluster, tool), *servers, *args]


def run_tool(
    cluster: SandboxCluster, tool: str, *args: str, timeout_s: float = 60, as_script: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a tool and return its output and exit code. Raises SandboxError if it does not end in time."""
    try:
        return subprocess.run(
            tool_command(cluster, tool, *args, as_script=as_script),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SandboxError(f"{tool} {' '.join(args)} did not end within {timeout_s:.0f} s") from None


def reassign(cluster: SandboxCluster, replicas: Mapping[tuple[str, int], Sequence[int]]) -> None:
    """Assign replicas, the preferred one first, and wait until they are in sync.

    A leader that is still one of the replicas stays the leader: a new order of the same replicas
    changes only the preferred leader. Every broker's metadata must show the result. Raises
    SandboxError if the tool fails, TimeoutError after a minute.
    """
    plan = [
        {"topic": topic, "partition": partition, "replicas": list(brokers)}
        for (topic, partition), brokers in replicas.items()
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=cluster.dir) as file:
        json.dump({"version": 1, "partitions": plan}, file)
        file.flush()
        arguments = ("--reassignment-json-file", file.name, "--execute")
        result = run_tool(cluster, "kafka-reassign-partitions", *arguments)
    if result.returncode != 0:
        reason = " ".join(result.stderr.split())[-800:]
        raise SandboxError(f"partitions of {cluster.name} were not reassigned: {reason}")
    for server in cluster.bootstrap_servers.split(","):
        for topic in sorted({topic for topic, _ in replicas}):
            expected = {partition: tuple(brokers) for (name, partition), brokers in replicas.items() if name == topic}
            what = f"the new replicas of {topic} in the metadata of {server}"
            wait_until(partial(_shows, server, topic, expected), 60, what)


def change_preferred_leaders(cluster: SandboxCluster, partitions: Iterable[tuple[str, int]]) -> None:
    """Rotate each partition's replicas by one, so that its leader is not the preferred one.

    Raises SandboxError for a partition with one replica, or with another leader already.
    """
    rotated: dict[tuple[str, int], tuple[int, ...]] = {}
    for topic, partition in partitions:
        state = partition_states(cluster.bootstrap_servers, topic)[partition]
        if len(state.replicas) < 2 or state.leader != state.replicas[0]:
            raise SandboxError(
                f"the leader of {topic}[{partition}] is {state.leader} of {state.replicas}: it must be the first of several"
            )
        rotated[topic, partition] = (*state.replicas[1:], state.replicas[0])
    if rotated:
        reassign(cluster, rotated)


def _shows(server: str, topic: str, expected: Mapping[int, tuple[int, ...]]) -> bool:
    states = partition_states(server, topic)
    return all(
        partition in states
        and states[partition].replicas == brokers
        and set(states[partition].in_sync) == set(brokers)
        and states[partition].leader in brokers
        for partition, brokers in expected.items()
    )
