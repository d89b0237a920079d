"""The data sources and the Parquet files, on which other programs rely."""

import json
import os
import runpy
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import Cluster
from reconciler.companions.sources import data_sources, export
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import list_topics
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.scan.engine_choice import Engine, EngineName
from reconciler.scan.java import find_java, spark_home, start_java
from reconciler.scan.scan import describe_log, scan
from tests.spark.servers import QUICK_START

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

FEW_TASKS = (
    "-Dspark.ui.enabled=false",
    "-Dspark.sql.shuffle.partitions=1",
    "-Dspark.sql.adaptive.enabled=false",
    "-Dspark.sql.codegen.wholeStage=false",
)
"""Properties of sessions that compute a few rows: their queries are neither divided nor compiled."""
EXAMPLE = Path(__file__).parents[2] / "examples" / "lag.py"


@pytest.fixture(scope="module")
def cluster(one_broker: Cluster) -> Cluster:
    return one_broker


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A JVM with Spark, without a session, for the programs of this file, one after the other.

    A JVM of its own for each of them would load and compile Spark's SQL again. The workers are the
    `python3` on its PATH. The scan's Spark runs in another process.
    """
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        environment.delenv("PYSPARK_PYTHON", raising=False)
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
            environment.setenv(name, "")  # set below, and removed at the end
        folder = tmp_path_factory.mktemp("jvm")
        gateway = start_java(find_java(), spark_home(), [*shlex.split(QUICK_START), *FEW_TASKS], folder)
        try:
            gateway.connect()
            yield
        finally:
            gateway.end()


@pytest.fixture
def session(jvm: None) -> Iterator[SparkSession]:
    """A session as a user's program creates it."""
    interrupt = signal.getsignal(signal.SIGINT)
    own = SparkSession.builder.master("local[2]").appName("sources").getOrCreate()
    signal.signal(signal.SIGINT, interrupt)  # Spark's handler would outlive its session
    yield own
    own.stop()


def half_read_topic(cluster: Cluster, name: str) -> None:
    """Create two partitions with ten records and a group with offsets 4 and 10."""
    client.create_topics(cluster.bootstrap_servers, [Topic(name, partitions=2)])
    client.produce(cluster.bootstrap_servers, name, {number: [Record(b"x")] * 10 for number in (0, 1)})
    client.commit(cluster.bootstrap_servers, f"{name}-g", {(name, 0): 4, (name, 1): 10})


def test_sources_work_in_any_session(cluster: Cluster, session: SparkSession, unique: str) -> None:
    """Each format has the documented columns and options, and the cluster's facts."""
    half_read_topic(cluster, unique)
    data_sources.register(session)

    def rows(name: str, **options: str) -> list[dict[str, object]]:
        frame = session.read.format(name).option("bootstrap.servers", cluster.bootstrap_servers).options(**options)
        return frame.load().toArrow().to_pylist()

    partitions = rows("kafka_partitions", topics=unique, instants_ms="0")
    # The rows are grouped by leader.
    partitions.sort(key=lambda row: str(row["partition"]))
    assert [
        (row["partition"], row["log_start"], row["last_stable_offset"], row["offsets_at"], row["error"])
        for row in partitions
    ] == [(0, 0, 10, [0], None), (1, 0, 10, [0], None)]
    assert all(row["topic_id"] and row["leader"] in row["in_sync"] for row in partitions)
    commits = rows("kafka_group_commits", groups=f"{unique}-*")
    assert sorted((row["partition"], row["committed"]) for row in commits if row["topic"]) == [(0, 4), (1, 10)]
    (total,) = [row for row in commits if row["topic"] is None]
    assert (total["commits"], total["commit_topics"], total["error"]) == (2, 1, None)
    log = [row for row in rows("kafka_commit_log") if row["group"] == f"{unique}-g"]
    (activity,) = [row for row in log if row["topic"] is None]
    assert activity["seems"] == "classic"
    assert activity["live"] is True
    topic_ids = {row["topic_id"] for row in log if row["topic"] == unique}
    assert topic_ids == {partitions[0]["topic_id"]}


def test_an_unknown_offset_adds_no_lag_and_has_a_row_with_its_error(session: SparkSession) -> None:
    """Unknown offsets add nothing to the lag and have a row with their error.

    Once a group with unreadable commits had no row, and an unknown log start counted as the group's
    offset.
    """
    commits = [
        ("reads", "orders", 0, 4, None),
        ("reads", "orders", 1, 4, None),
        ("reads", "orders", 2, 4, None),
        ("may-not", None, None, None, "GROUP_AUTHORIZATION_FAILED"),
        ("reads", None, None, None, None),
    ]
    partitions = [
        ("orders", 0, 6, 10, None),
        ("orders", 1, None, 10, "the broker was silent"),
        ("orders", 2, 0, None, None),
    ]
    lag = runpy.run_path(str(EXAMPLE))["compute_lag"](
        session.createDataFrame(commits, "group string, topic string, partition int, committed long, error string"),
        session.createDataFrame(
            partitions, "topic string, partition int, log_start long, last_stable_offset long, error string"
        ),
    )
    assert lag.toArrow().to_pylist() == [
        {"group": "reads", "topic": "orders", "lag": 4, "unknown": 2, "error": "the broker was silent"},
        {"group": "may-not", "topic": None, "lag": None, "unknown": 1, "error": "GROUP_AUTHORIZATION_FAILED"},
    ]


EXAMPLE_AND_ANOTHER_JOB = """
import runpy, sys
from pyspark.sql import SparkSession
runpy.run_path(sys.argv[0], run_name="__main__")
def pids(batches):
    import os, pyarrow as pa
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"pid": [os.getpid()]})
session = SparkSession.getActiveSession()
print(session.range(0, 4, 1, 4).mapInArrow(pids, "pid long").count())
session.stop()
"""
"""Runs the example as the program that it is, and then a job of its session that is not its own."""


def test_example_runs_as_it_is_documented(cluster: Cluster, jvm: None, unique: str) -> None:
    """The example runs as a process, in a session that it creates, and computes the lag of Kafka's tool.

    Executors once found no code, because the file was removed before their first task. After a
    registration of the sources, other jobs and other executors of the session work.
    """
    half_read_topic(cluster, unique)
    program = f"import sys; sys.argv = sys.argv[1:]\n{EXAMPLE_AND_ANOTHER_JOB}"
    result = subprocess.run(
        [sys.executable, "-c", program, "examples/lag.py", cluster.bootstrap_servers, unique],
        cwd=EXAMPLE.parents[1],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    *table, jobs = result.stdout.splitlines()
    (line,) = [line for line in table if unique in line]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [f"{unique}-g", unique, "6", "0", "NULL"]
    assert jobs == "4"


def test_commit_log_is_divided_by_its_size(cluster: Cluster, connection: Connection, unique: str) -> None:
    """The commit log is divided by its size.

    Each partition once counted as one record, so that one task read the whole log.
    """
    half_read_topic(cluster, unique)
    session = KafkaSession(connection)
    log = describe_log(session, list_topics(session))
    assert set(log.sizes) == set(range(log.partitions))
    for _ in range(10):
        client.commit(cluster.bootstrap_servers, f"{unique}-g", {(unique, 0): 4})
    assert sum(describe_log(session, list_topics(session)).sizes.values()) >= sum(log.sizes.values()) + 10


def test_export_writes_documented_parquet(
    cluster: Cluster, connection: Connection, unique: str, tmp_path: Path
) -> None:
    """Partitions with consumers, groups, topics and the run; a null has its reason in `unread`."""
    half_read_topic(cluster, unique)
    topic_request = TopicRequest(topics=(Selector(unique),), offsets=True, instants_ms=(0,), readers=True)
    needs = ScanRequest(
        topics=(topic_request,),
        groups=(GroupRequest(groups=(Selector(f"{unique}-g"),), activity=True),),
        topic_records=True,
    )
    before = time.time_ns() // 1_000_000
    snapshot = scan(
        needs,
        KafkaSession(connection),
        observed_at_ms=before,
        last_purges={},
        engine=Engine(name=EngineName.INLINE),  # all engines give the same snapshot
        progress=lambda *_step: None,
    )
    written = export.write(snapshot, tmp_path / "scan")
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "scan/partitions/part-0.parquet",
        "scan/groups/part-0.parquet",
        "scan/topics/part-0.parquet",
        "scan/run.json",
    ]
    partitions, groups, topics = (pq.read_table(path) for path in written[:3])
    assert partitions.schema.names == export.PARTITION_COLUMNS.names
    assert groups.schema.names == export.GROUP_COLUMNS.names
    assert topics.schema.names == export.TOPIC_COLUMNS.names
    first, second = partitions.to_pylist()
    assert first["readers"] == [{"group": f"{unique}-g", "committed": 4, "implied": False, "topic_id": None}]
    assert second["readers"] == []
    assert first["offsets_at"] == [(0, 0)]
    (group,) = [row for row in groups.to_pylist() if row["group"] == f"{unique}-g"]
    assert group["commits"] == 2
    assert group["last_activity_ms"] is not None
    (topic,) = [row for row in topics.to_pylist() if row["topic"] == unique]
    assert topic["records"] == 20
    other_topics = [row for row in topics.to_pylist() if row["topic"] != unique]
    assert all(dict(row["unread"])["records"] == "not asked" for row in other_topics)
    run = json.loads(written[3].read_text())
    assert (run["cluster_id"], run["observed_at_ms"]) == (cluster.cluster_id, before)
    assert run["incomplete"] == {}
