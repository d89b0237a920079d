"""A real Kafka Streams application beside `converge --every`, which purges its repartition topic.

A twin with another application id reads the same input, and Kafka Streams itself purges its
repartition topic. Both must give the same counts, whatever happens to the first one.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client, config
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.companions.sandbox.jars import configured_version, fetch
from reconciler.companions.sandbox.java import find_java
from reconciler.companions.sandbox.tools import kafka_version
from tests.command import running
from tests.e2e.workspace import Workspace, floor, removal
from tests.kafka_client import committed_offsets, read_to_end
from tests.repeats import LONG
from tools.lock_kafka_jars import STREAMS_LISTS

pytestmark = pytest.mark.skipif(not LONG, reason="a test of minutes: `make test-long` runs it")

PARTITIONS = 2
VALUES = 5
ROUND = 200
"""Records of each value in one round."""
NEVER_MS = 2**62
DEADLINE_S = 300.0
"""Of all steps of one test together."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxCluster]:
    """One broker that soon gives up a member and a transaction of a killed application.

    It keeps purged segments, as brokers do by default.
    """
    properties = {
        "group.streams.min.session.timeout.ms": "1000",
        "group.streams.session.timeout.ms": "6000",
        "group.streams.min.heartbeat.interval.ms": "500",
        "group.streams.heartbeat.interval.ms": "1000",
        "group.streams.initial.rebalance.delay.ms": "0",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "log.retention.check.interval.ms": "300000",
        "log.initial.task.delay.ms": "300000",
    }
    with stopping(start(1, name="streams", properties=properties)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def java_command(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The argv that starts StreamsApp, which is compiled first."""
    java, folder = find_java(), tmp_path_factory.mktemp("streams")
    modules = subprocess.run([java, "--list-modules"], check=True, capture_output=True, text=True, timeout=60).stdout
    if "jdk.compiler" not in modules:
        pytest.skip(f"{java} has no compiler: install a JDK, for example openjdk-17-jdk-headless")
    jars = fetch(configured_version(), lists=STREAMS_LISTS)
    # The compiler knows no `*` in a class path.
    class_path = ":".join(str(jar) for libs in (cluster.jars, jars) for jar in sorted(libs.glob("*.jar")))
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", class_path, "-d", folder]
    subprocess.run([*compiler, STREAMS_LISTS / "StreamsApp.java"], check=True, timeout=120)
    (folder / "log4j2.properties").write_text(config.LOG4J2)
    flags = (*config.jvm_flags(java, cluster.jars), *config.logging_flags(folder))
    return [str(java), "-Xmx256m", *flags, "-cp", f"{cluster.jars}/*:{jars}/*:{folder}", "StreamsApp"]


class Application:
    """An application of Kafka Streams that counts exactly once, and its process while it runs."""

    def __init__(
        self, servers: str, java_command: Sequence[str], folder: Path, group: str, protocol: str, purge_interval_ms: int
    ) -> None:
        self.servers, self.group, self.output = servers, group, f"{group}-output"
        self.repartition = f"{group}-values-repartition"
        self.log = folder / f"{group}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._deadline = time.monotonic() + DEADLINE_S
        self._java_command = java_command
        self._properties = {
            "bootstrap.servers": servers,
            "application.id": group,
            "group.protocol": protocol,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": "100",
            "statestore.cache.max.bytes": "0",  # so that each record gives one count
            "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
            "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
            "producer.transaction.timeout.ms": "5000",
            "repartition.purge.interval.ms": str(purge_interval_ms),
            "state.dir": str(folder / "state"),
            # The broker sets it for groups of the Streams protocol.
            **({"main.consumer.session.timeout.ms": "6000"} if protocol == "classic" else {}),
        }

    def start(self, topic: str) -> None:
        arguments = (topic, self.output, *(f"{name}={value}" for name, value in self._properties.items()))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._java_command, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def wait_until(self, predicate: Callable[[], bool], what: str) -> None:
        client.wait_until(predicate, self._deadline - time.monotonic(), f"{self.group}: {what}", every_s=0.2)

    def end(self, number: signal.Signals) -> None:
        """Send a signal, and wait for the end."""
        assert self.process is not None
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        self.process.wait(60)

    def counts(self) -> dict[str, list[int]]:
        """Map values to their counts in the output, in the order of a consumer that reads committed."""
        counts: dict[str, list[int]] = {}
        for record in read_to_end(self.servers, self.output):
            counts.setdefault(record.key().decode(), []).append(int(record.value()))
        return counts

    def wait_for_counts(self, records: int) -> None:
        """Wait until the last count of each value is there, and compare all of them."""

        def is_done() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"it ended: {self.log.read_text()[-2000:]}"
            counts = self.counts()
            return len(counts) == VALUES and all(records in of_value for of_value in counts.values())

        self.wait_until(is_done, f"{records} records of each value counted")
        assert self.counts() == {f"value-{number}": list(range(1, records + 1)) for number in range(VALUES)}

    def committed(self, topic: str) -> Mapping[tuple[str, int], int | None]:
        partitions = [(name, number) for name in (topic, self.repartition) for number in range(PARTITIONS)]
        return committed_offsets(self.servers, self.group, partitions)

    def log_starts(self) -> dict[tuple[str, int], int]:
        """Map partitions of the repartition topic to log start offsets."""
        return {
            (self.repartition, number): client.watermarks(self.servers, self.repartition, number)[0]
            for number in range(PARTITIONS)
        }

    def wait_for_purge(self, topic: str) -> dict[tuple[str, int], int]:
        """Wait until the log start offsets are the committed offsets, and never above; return them."""
        starts: dict[tuple[str, int], int] = {}

        def is_purged() -> bool:
            nonlocal starts
            starts, committed = self.log_starts(), self.committed(topic)
            for partition, log_start in starts.items():
                assert log_start <= (committed[partition] or 0), (starts, committed)
            return all(log_start == committed[partition] for partition, log_start in starts.items())

        self.wait_until(is_purged, "all records deleted that it has read")
        return starts


def remove_group(space: Workspace, app: Application) -> None:
    """Plan until the group counts as idle, and apply."""
    app.wait_until(lambda: len(space.plan()["actions"]) == 1, "a plan that removes the group")
    space.apply("--results", "results.json")


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_counts_are_those_of_a_twin(
    protocol: str, cluster: SandboxCluster, java_command: Sequence[str], tmp_path: Path
) -> None:
    """Neither purges, nor kill -9, nor the removal and the restore of its group change a count.

    The twin shows that the input and Kafka Streams give these counts anyway.
    """
    if protocol == "streams" and kafka_version(cluster) < (4, 2):
        pytest.skip("groups of the Streams protocol need Kafka 4.2")
    servers, mark = cluster.bootstrap_servers, uuid4().hex[:8]
    topic = f"input-{mark}"
    app, twin = (
        Application(servers, java_command, tmp_path, f"{name}-{mark}", protocol, interval_ms)
        for name, interval_ms in (("counter", NEVER_MS), ("twin", 1_000))
    )
    client.create_topics(servers, [Topic(name, PARTITIONS) for name in (topic, app.output, twin.output)])
    spaces = []
    keep = f"expectAtMost: 1, keep: {{unreadBy: [{app.group}]}}, every: 1s"
    for name, rule in (
        ("floor", floor(f'"{app.group}-*-repartition"', keep, mode="continuous")),
        ("removal", removal(app.group, f"idleFor: 1s, types: [{protocol}]")),
    ):
        (tmp_path / name).mkdir()
        spaces.append(Workspace(cluster, tmp_path / name))
        spaces[-1].write(rule, limits="groupsPercent: 100")
    purging, removing = spaces

    records = 0

    def produce(leave: threading.Event | None = None) -> None:
        """Write a round, or rounds until an event."""
        nonlocal records
        while True:
            values = [Record(b"value-%d" % (n % VALUES)) for n in range(ROUND * VALUES)]
            client.produce(servers, topic, {n: values[n::PARTITIONS] for n in range(PARTITIONS)})
            records += ROUND
            if leave is None or leave.wait(0.2):
                return

    with ExitStack() as stack:
        stack.enter_context(running(purging.folder, "converge", "--every", "1s", "-q"))
        for application in (app, twin):
            application.start(topic)
            stack.callback(application.end, signal.SIGKILL)
        produce()
        app.wait_for_counts(records)
        first = app.wait_for_purge(topic)

        read = app.committed(topic)
        with client.run_in_background(produce, "input"):
            app.wait_until(lambda: app.committed(topic) != read, "a commit while records are written")
            app.end(signal.SIGKILL)
        app.start(topic)
        app.wait_for_counts(records)
        second = app.wait_for_purge(topic)
        assert all(first[partition] < second[partition] for partition in second)
        twin.wait_for_counts(records)
        assert all(log_start > 0 for log_start in twin.log_starts().values()), "Kafka Streams purges by itself"

        for application in (app, twin):
            application.end(signal.SIGTERM)
        read = app.committed(topic)
        remove_group(removing, app)
        assert set(app.committed(topic).values()) == {None}
        removing.restore(app.group)
        assert app.committed(topic) == read
        produce()
        for application in (app, twin):
            application.start(topic)
            application.wait_for_counts(records)
        third = app.wait_for_purge(topic)
        assert all(second[partition] < third[partition] for partition in third)
    assert "out of range" not in app.log.read_text(), "a record was deleted before it was read"
