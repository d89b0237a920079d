"""Real readers outside of Kafka's groups: a query of Spark Structured Streaming, and MirrorMaker 2.

Each is killed in its work, records are deleted up to the position that an ExternalReader reads, and it
goes on: nothing is missing. One offset above, the query stops and MirrorMaker loses a record.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from reconciler.companions.sandbox import client, config
from reconciler.companions.sandbox.client import Record, admin_client
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.companions.sandbox.jars import DEFAULT_VERSION, fetch
from reconciler.companions.sandbox.java import find_java
from tests.e2e.test_external_readers import CLAMP, reader
from tests.e2e.workspace import Workspace, floor, targets
from tests.kafka_client import read_to_end
from tests.repeats import LONG
from tools.lock_kafka_jars import MIRROR_LISTS, QUERY_LISTS, SPARK_VERSION

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not LONG, reason="a test of minutes: `make test-long` runs it"),
]

DEADLINE_S = 900.0
"""Of each step, on a busy machine."""
RECORDS = 400

MIRROR = """\
clusters = A, B
A.bootstrap.servers = {servers}
B.bootstrap.servers = {servers}
A->B.enabled = true
B->A.enabled = false
A->B.topics = {topic}
A->B.groups =
offset.lag.max = 20
offset.flush.interval.ms = 1000
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
refresh.topics.interval.seconds = 5
sync.topic.acls.enabled = false
consumer.max.poll.records = 20
replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.partitions = 1
offset.storage.partitions = 1
"""
"""Two names for one cluster: the mirror of a topic is A.TOPIC, and one broker suffices."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxCluster]:
    """A broker of this file, of the version that has a list of MirrorMaker's jars."""
    with stopping(start(1, name="readers", version=DEFAULT_VERSION)) as cluster:
        yield cluster


class Reader:
    """The process of a reader, which `kill` ends as a crash does."""

    def __init__(
        self, log: Path, command: Sequence[str | Path], values: Callable[[], set[int]], **variables: str
    ) -> None:
        self.log, self.values = log, values
        self._command, self._variables = command, {**os.environ, **variables}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)

    def wait_for(self, predicate: Callable[[set[int]], bool], what: str) -> set[int]:
        """Wait until what it has written is as wanted, while it runs; return that."""
        seen: set[int] = set()

        def is_there() -> bool:
            nonlocal seen
            assert self.process is not None
            assert self.process.poll() is None, f"it ended: {self.log.read_text(errors='replace')[-3000:]}"
            seen = self.values()
            return predicate(seen)

        client.wait_until(is_there, DEADLINE_S, what, every_s=0.3)
        return seen


@pytest.fixture
def topic(space: Workspace) -> str:
    """An empty topic, and a commit on another one, which creates `__consumer_offsets`."""
    topic = space.create_topic(0)
    space.commit(f"{topic}-group", space.create_topic(0), 0)
    return topic


def produce(space: Workspace, topic: str, values: range) -> None:
    client.produce(space.servers, topic, {0: [Record(b"%d" % value) for value in values]})


def planned_floor(space: Workspace, topic: str, *readers: str) -> int:
    """Plan to keep the last 10 records, and return the log start offset after that plan."""
    plan = space.plan(floor(topic, CLAMP), *readers, RECONCILER_READER_ROOTS=str(space.folder))
    return next(iter(targets(plan)), space.log_start(topic))


def delete(space: Workspace, topic: str, offset: int) -> None:
    """Delete as anyone may who asks no reader."""
    admin = admin_client(space.servers)  # it answers as long as it exists
    (future,) = admin.delete_records([ClientPartition(topic, 0, offset)]).values()
    future.result(timeout=30)


def crash_delete_restart(space: Workspace, topic: str, manifest: str, process: Reader) -> None:
    """Kill the reader in its work, delete up to its position, and start it again: it misses nothing."""
    produce(space, topic, range(RECORDS - 100))
    process.start()
    process.wait_for(lambda seen: len(seen) >= 100, "the first records read")
    process.kill()
    produce(space, topic, range(RECORDS - 100, RECORDS))
    limit = planned_floor(space, topic, manifest)
    assert 0 < limit < planned_floor(space, topic), "the reader holds the floor"
    assert planned_floor(space, topic, manifest) == limit
    space.apply(RECONCILER_READER_ROOTS=str(space.folder))
    assert space.log_start(topic) == limit
    process.start()
    assert process.wait_for(lambda seen: RECORDS - 1 in seen, "the last record read") == set(range(RECORDS))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pyspark for which the registry has the connector; its hash is in a lock file.

    RECONCILER_TEST_WHEELHOUSE names a folder that has it already, for quick repetitions.
    """
    folder = tmp_path_factory.mktemp("spark")
    options = ["--quiet", "--require-hashes", "--no-deps", "--no-build-isolation", "--dest", str(folder)]
    if downloaded := os.environ.get("RECONCILER_TEST_WHEELHOUSE"):
        options += ["--no-index", "--find-links", downloaded]
    lock = QUERY_LISTS / "requirements.lock"
    subprocess.run([sys.executable, "-m", "pip", "download", *options, "--requirement", lock], check=True, timeout=1800)
    with tarfile.open(folder / f"pyspark-{SPARK_VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"pyspark-{SPARK_VERSION}"


def test_a_query_of_structured_streaming(space: Workspace, topic: str, spark: Path, tmp_path: Path) -> None:
    """Deletion up to its checkpoint loses nothing. One offset above, it stops: Spark calls that a loss of data."""
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"
    jars = fetch(SPARK_VERSION, lists=QUERY_LISTS)
    (py4j,) = (spark / "lib").glob("py4j-*-src.zip")

    def values() -> set[int]:
        """What the query has committed: Spark lists the files of each batch."""
        logs = (output / "_spark_metadata").glob("[0-9]*")
        rows = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
        files = [Path(row["path"].removeprefix("file://")) for row in rows]
        return {int(json.loads(line)["value"]) for file in files for line in file.read_text().splitlines()}

    def batches(kind: str) -> set[str]:
        return {file.name for file in (checkpoint / kind).glob("[0-9]*")}

    properties = (
        *("spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1", "spark.ui.enabled=false"),
        # Queries of a few rows are not compiled, which costs more than they do.
        *(
            "spark.sql.codegen.wholeStage=false",
            "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        ),
    )
    command: list[str | Path] = [spark / "deps" / "bin" / "spark-submit", "--master", "local[1]"]
    command += ["--driver-class-path", f"{jars}/*", *(word for pair in properties for word in ("--conf", pair))]
    command += [QUERY_LISTS / "query.py", space.servers, topic, checkpoint, output]
    query = Reader(
        tmp_path / "query.log",
        command,
        values,
        SPARK_HOME=str(spark / "deps"),
        PYTHONPATH=f"{spark}:{py4j}",
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_LOCAL_HOSTNAME="localhost",
    )
    manifest = reader(topic, f"sparkCheckpoint: {checkpoint}")
    try:
        crash_delete_restart(space, topic, manifest, query)
        # Spark commits a batch in its checkpoint after the files of the batch are listed.
        client.wait_until(lambda: batches("commits") == batches("offsets"), DEADLINE_S, "the last batch is committed")
        query.kill()
        produce(space, topic, range(RECORDS, RECORDS + 40))
        position = planned_floor(space, topic, manifest)
        assert position == RECORDS < planned_floor(space, topic), "the reader prevents what follows"
        delete(space, topic, position + 1)
        query.start()
        assert query.process is not None
        assert query.process.wait(DEADLINE_S) != 0
        assert "failOnDataLoss" in query.log.read_text(errors="replace")
        assert query.values() == set(range(RECORDS))
    finally:
        query.kill()


def test_mirrormaker(space: Workspace, topic: str, tmp_path: Path) -> None:
    """Deletion up to its sync loses nothing. One offset above what it has mirrored, a record is lost in silence."""
    mirrored = f"A.{topic}"
    (tmp_path / "mirror.properties").write_text(MIRROR.format(servers=space.servers, topic=topic))
    (tmp_path / "log4j2.properties").write_text(config.LOG4J2)
    java, jars = find_java(), fetch(DEFAULT_VERSION, lists=MIRROR_LISTS)
    flags = (*config.jvm_flags(java, space.cluster.jars), *config.logging_flags(tmp_path))
    class_path = f"{space.cluster.jars}/*:{jars}/*"
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    mirror = Reader(
        tmp_path / "mirror.log",
        [java, "-Xmx256m", *flags, "-cp", class_path, main, tmp_path / "mirror.properties"],
        lambda: {int(record.value()) for record in read_to_end(space.servers, mirrored)},
    )
    manifest = reader(topic, "mirrorMakerSyncs: mm2-offset-syncs.B.internal")
    try:
        crash_delete_restart(space, topic, manifest, mirror)
        mirror.kill()
        produce(space, topic, range(RECORDS, RECORDS + 40))
        position = planned_floor(space, topic, manifest)
        assert position <= RECORDS < planned_floor(space, topic), "the reader prevents what follows"
        delete(space, topic, RECORDS + 1)
        mirror.start()
        seen = mirror.wait_for(lambda seen: RECORDS + 39 in seen, "the last record mirrored")
        assert set(range(RECORDS + 40)) - seen == {RECORDS}
    finally:
        mirror.kill()
