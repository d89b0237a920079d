"""Renders the configuration of a sandbox's brokers: properties, logging and JVM flags.

The first three nodes are also controllers, so that the controller can move; further nodes are
brokers only. This module runs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler import class_archive
from reconciler.companions.sandbox.security import LISTENER

CONTROLLERS = 3
ARCHIVE = "kafka"
"""The name of the archives of Kafka's classes."""

# The start is most of a sandbox's work. The first JIT tier alone and the serial collector halve its time.
_JVM_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)


LOG4J2 = """\
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRefs=console
rootLogger.appenderRef.console.ref=console
logger.state.name=state.change.logger
logger.state.level=WARN
"""
"""log4j2.properties: INFO and above to standard output, where the JVM writes its own messages, too.

The logger `state` writes a line per partition and step: thousands for a large topic.
"""

LOG4J = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.state.change.logger=WARN
"""
"""log4j.properties: the same for Kafka before 4.0."""


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """Ports of a node on 127.0.0.1. None: the node is not a controller, or has no second listener."""

    id: int
    port: int
    controller_port: int | None
    secure_port: int | None = None


def render_properties(
    node: NodeAddress,
    nodes: Sequence[NodeAddress],
    data: Path,
    *,
    overrides: Mapping[str, str],
    secure_protocol: str = "SASL_PLAINTEXT",
) -> str:
    """Render server.properties of one node. `overrides` replace the values of this module.

    `secure_protocol` is the security protocol of the second listener, if there is one.
    """
    replicas = min(3, len(nodes))
    listeners = [f"PLAINTEXT://127.0.0.1:{node.port}"]
    if node.secure_port is not None:
        listeners.append(f"{LISTENER}://127.0.0.1:{node.secure_port}")
    controller = [] if node.controller_port is None else [f"CONTROLLER://127.0.0.1:{node.controller_port}"]
    properties = {
        "node.id": str(node.id),
        "process.roles": "broker" if node.controller_port is None else "broker,controller",
        "controller.quorum.voters": ",".join(
            f"{peer.id}@127.0.0.1:{peer.controller_port}" for peer in nodes if peer.controller_port is not None
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:{secure_protocol}",
        "listeners": ",".join([*listeners, *controller]),
        "advertised.listeners": ",".join(listeners),
        "log.dirs": str(data),
        # Kafka must not repair leaders, old records and offsets before the reconciler does.
        "auto.leader.rebalance.enable": "false",
        "log.retention.ms": "-1",
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "1000",
        # By default an idle controller writes two records per second: a quarter of an idle broker's CPU time.
        "metadata.max.idle.interval.ms": "5000",
        "delete.topic.enable": "true",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "10",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        # Threads and buffers that suit a laptop.
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "4",
        "log.cleaner.dedupe.buffer.size": "16777216",
        "controlled.shutdown.enable": "true",
    }
    return "".join(f"{key}={value}\n" for key, value in (properties | dict(overrides)).items())


def broker_command(
    java: Path, jars: Path, folder: Path, properties: Path, *, heap_mib: int, archive: Path | None = None
) -> tuple[str, ...]:
    """Build the argv of one broker; `folder` holds the logging files. `archive`: as in `jvm_flags`."""
    return (
        str(java),
        f"-Xms{min(heap_mib, 256)}m",
        f"-Xmx{heap_mib}m",
        *jvm_flags(java, jars, archive),
        *logging_flags(folder),
        "-cp",
        f"{jars}/*",
        "kafka.Kafka",
        str(properties),
    )


def jvm_flags(java: Path, jars: Path, archive: Path | None = None) -> tuple[str, ...]:
    """JVM flags of brokers and Kafka's tools. `archive`: where the JVM writes its classes when it ends."""
    use_flags = class_archive.use_flags(ARCHIVE, java, jars)
    return (*_JVM_FLAGS, *(use_flags if archive is None else (class_archive.write_flag(archive),)))


def logging_flags(folder: Path) -> tuple[str, ...]:
    """JVM flags for log4j 1 and log4j 2; each version ignores the other's flag."""
    return (
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-Dlog4j.configuration={(folder / 'log4j.properties').as_uri()}",
    )
