"""The data sources and the Parquet files, on which other programs rely."""

import io
import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.companions.sources import data_sources, export
from reconciler.companions.sources.command import EVERYTHING
from reconciler.companions.sources.target import Folder
from reconciler.errors import UsageError
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import list_topics
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.scan.engine_choice import Engine, EngineName
from reconciler.scan.java import find_java, spark_home, start_java
from reconciler.scan.scan import describe_log
from reconciler.spark import register
from tests.e2e import raw_requests
from tests.spark.conftest import scan_now
from tests.spark.servers import QUICK_START

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

FEW_TASKS = (
    "-Dspark.ui.enabled=false",
    "-Dspark.sql.shuffle.partitions=1",
    "-Dspark.sql.adaptive.enabled=false",
    "-Dspark.sql.codegen.wholeStage=false",
)
"""Properties of sessions that compute a few rows: their queries are neither divided nor compiled."""
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
EXAMPLE = Path(__file__).parents[2] / "examples" / "lag.py"
RECIPE = Path(__file__).parents[2] / "docs" / "recipes" / "history-of-a-cluster.md"
SQL = re.compile(r"```sql\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
"""A query of the recipe, and its output below it."""
FIRST_SCAN_MS, DAY_MS = 1_795_168_800_000, 86_400_000
"""2026-11-20T10:00:00Z, and a day."""


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
            end_session()
        finally:
            gateway.end()


@pytest.fixture
def session(jvm: None) -> SparkSession:
    """A session as a user's program creates it, for several tests: each context starts its own workers."""
    interrupt = signal.getsignal(signal.SIGINT)
    own = SparkSession.builder.master("local[2]").appName("sources").config(PUSHDOWN, "true").getOrCreate()
    signal.signal(signal.SIGINT, interrupt)  # Spark's handler would outlive its session
    return own


def end_session() -> None:
    """End the session of the tests before, if any: a JVM has one context."""
    if session := SparkSession.getActiveSession():
        session.stop()


@pytest.fixture
def load(session: SparkSession, cluster: SandboxCluster) -> Callable[..., DataFrame]:
    """`load(name, **options)` returns the rows of a source about the shared cluster."""
    register(session)
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    return lambda name, **options: session.read.format(name).options(**servers, **options).load()


@pytest.fixture
def half_read(cluster: SandboxCluster, unique: str) -> str:
    """A topic of two partitions with ten records, and a group at 4 and 10."""
    client.create_topics(cluster.bootstrap_servers, [Topic(unique, partitions=2)])
    client.produce(cluster.bootstrap_servers, unique, {number: [Record(b"x")] * 10 for number in (0, 1)})
    client.commit(cluster.bootstrap_servers, f"{unique}-g", {(unique, 0): 4, (unique, 1): 10})
    return unique


def test_sources_work_in_any_session(cluster: SandboxCluster, load: Callable[..., DataFrame], half_read: str) -> None:
    """Each format has the documented columns and options, and the cluster's facts."""

    def rows(name: str, **options: str) -> list[dict[str, object]]:
        return load(name, **options).toArrow().to_pylist()

    partitions = rows("kafka_partitions", topics=half_read, instants_ms="0")
    # The rows are grouped by leader.
    partitions.sort(key=lambda row: str(row["partition"]))
    assert [
        (row["partition"], row["log_start"], row["last_stable_offset"], row["offsets_at"], row["error"])
        for row in partitions
    ] == [(0, 0, 10, [0], None), (1, 0, 10, [0], None)]
    assert all(row["topic_id"] and row["leader"] in row["in_sync"] for row in partitions)
    commits = rows("kafka_group_commits", groups=f"{half_read}-*")
    assert sorted((row["partition"], row["committed"]) for row in commits if row["topic"]) == [(0, 4), (1, 10)]
    (total,) = [row for row in commits if row["topic"] is None]
    assert (total["commits"], total["commit_topics"], total["error"]) == (2, 1, None)
    (log, by_its_earlier_name) = (
        [row for row in rows(name) if row["group"] == f"{half_read}-g"]
        for name in ("kafka_consumer_offsets", "kafka_commit_log")
    )
    assert [row["log_offset"] for row in log] == [row["log_offset"] for row in by_its_earlier_name]
    assert {row["cluster_id"] for row in (*partitions, *commits, *log)} == {cluster.cluster_id}
    assert len({row["observed_at_ms"] for row in partitions}) == 1
    (activity,) = [row for row in log if row["topic"] is None]
    assert activity["seems"] == "classic"
    assert activity["live"] is True
    topic_ids = {row["topic_id"] for row in log if row["topic"] == half_read}
    assert topic_ids == {partitions[0]["topic_id"]}


def test_sparks_own_options_select_topics(load: Callable[..., DataFrame], half_read: str) -> None:
    """`subscribe` is exact names, `subscribePattern` one expression, whatever commas it has; no topic is no row.

    A source without partitions once failed in its task. An unknown option was once ignored.
    """

    def topics(name: str, **options: str) -> list[str]:
        return sorted({row["topic"] for row in load(name, **options).where("topic is not null").collect()})

    for name in ("kafka_partitions", "kafka_group_commits"):
        assert topics(name, subscribe=f"{half_read}, gone") == [half_read], name
        assert topics(name, subscribe=f"{half_read}*") == [], name
        assert topics(name, subscribePattern=f"{half_read[:-1]}.{{1,2}}") == [half_read], name
    for wrong, reason in ({"topic": half_read}, "did you mean topics?"), ({"startingOffsets": "earliest"}, "known: "):
        with pytest.raises(
            Exception, match=f"unknown option {next(iter(wrong)).lower()}.*{reason}".replace("?", r"\?")
        ):
            topics("kafka_partitions", **wrong)


def test_commits_of_a_streams_group_are_rows(cluster: SandboxCluster, half_read: str) -> None:
    """Only the old list call shows a group of Kafka Streams: its lag was once missing, without an error."""
    group = f"{half_read}-streams"
    raw_requests.join_streams_group(cluster.bootstrap_servers, group, half_read)
    raw_requests.leave_streams_group(cluster.bootstrap_servers, group)
    raw_requests.commit(cluster.bootstrap_servers, group, half_read, 0, 3)
    source = data_sources.KafkaGroupCommits(
        {"bootstrap.servers": cluster.bootstrap_servers, "groups": f"{half_read}-*"}
    )
    try:
        batches = [batch for part in source.partitions() for batch in source.read(part)]
    finally:
        raw_requests.delete(cluster.bootstrap_servers, group)
    rows = [row for batch in batches for row in batch.to_pylist() if row["topic"]]
    assert sorted((row["group"], row["partition"], row["committed"]) for row in rows) == [
        (f"{half_read}-g", 0, 4),
        (f"{half_read}-g", 1, 10),
        (group, 0, 3),
    ]


def test_options_make_the_reading_smaller(cluster: SandboxCluster, half_read: str) -> None:
    """Of one topic or group the driver makes fewer and smaller chunks.

    Of one group it reads one partition of `__consumer_offsets`, whose row says so, and no row of another group.
    """
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    client.commit(cluster.bootstrap_servers, f"{half_read}-h", {(half_read, 1): 2})

    def chunks(source: type[data_sources.KafkaSource], **options: str) -> list[Any]:
        return [part.value.chunk for part in source({**servers, **options}).partitions()]

    ((chunk, _metadata),) = chunks(data_sources.KafkaPartitions, subscribe=half_read)
    assert chunk.partitions == 2
    (of_group,) = chunks(data_sources.KafkaGroupCommits, groups=f"{half_read}-g")
    assert of_group.groups == (f"{half_read}-g",)
    assert sum(len(chunk.log) for chunk, _groups in chunks(data_sources.KafkaConsumerOffsets)) > 1
    source = data_sources.KafkaConsumerOffsets({**servers, "groups": f"{half_read}-g"})
    (part,) = source.partitions()
    assert len(part.value.chunk[0].log) == 1
    rows = [row for batch in source.read(part) for row in batch.to_pylist()]
    assert [(row["group"], row["partition"]) for row in rows if row["topic"]] == [(f"{half_read}-g", n) for n in (0, 1)]
    (run,) = [row for row in rows if row["group"] is None]
    assert (run["error"], run["log_partition"]) == (None, rows[1]["log_partition"])
    with pytest.raises(UsageError, match="takes names, and no patterns"):
        data_sources.KafkaConsumerOffsets({**servers, "groups": "billing-*"}).partitions()


def test_frames_of_one_load_have_their_own_rows(
    cluster: SandboxCluster, session: SparkSession, load: Callable[..., DataFrame], half_read: str
) -> None:
    """A union of two groups, and one with a frame without a filter.

    Spark 4.3 gives a source that takes filters the newest one of any frame of a `load`, for all of them: one
    group was missing (SPARK-58551).
    """
    client.commit(cluster.bootstrap_servers, f"{half_read}-h", {(half_read, 1): 2})
    session.conf.set(PUSHDOWN, "true")
    commits = load("kafka_group_commits").where("topic is not null")
    first, second = (commits.where(f"group = '{half_read}-{name}'").select("group") for name in "gh")
    assert sorted(first.union(second).collect()) == [(f"{half_read}-{name}",) for name in "ggh"]
    assert second.union(commits.select("group")).where(f"group = '{half_read}-g'").count() == 2


@pytest.mark.parametrize("is_pushed", [True, False])
def test_filters_are_left_to_spark(
    is_pushed: bool, cluster: SandboxCluster, session: SparkSession, load: Callable[..., DataFrame], half_read: str
) -> None:
    """A filter on topic, partition or group means the same in a session that pushes filters to sources.

    Spark 4.1 refuses a source that takes filters in a session that does not push them.
    """
    client.commit(cluster.bootstrap_servers, f"{half_read}-h", {(half_read, 1): 2})
    session.conf.set(PUSHDOWN, str(is_pushed).lower())
    group, other, topic = f"{half_read}-g", f"{half_read}-h", half_read
    of_group, of_both = [(group, topic, 0), (group, topic, 1)], [(group, topic, 1), (other, topic, 1)]
    for name, condition, expected in (
        ("partitions", f"topic in ('{topic}', 'gone') and partition = 1", [(topic, 1)]),
        ("partitions", f"topic = '{topic}' and topic = 'gone'", []),
        ("group_commits", f"topic = '{topic}' and group = '{group}'", of_group),
        ("group_commits", f"group in ('{group}', '{other}', null) and partition = 1", of_both),
        ("consumer_offsets", f"group = '{group}' and topic is not null", of_group),
        ("group_commits", f"topic not in ('{topic}') and group = '{group}'", []),
    ):
        found = load(f"kafka_{name}").where(condition)
        columns = ("topic", "partition") if name == "partitions" else ("group", "topic", "partition")
        assert sorted(map(tuple, found.select(*columns).collect())) == expected


def test_a_stream_has_a_reading_for_each_trigger(
    cluster: SandboxCluster, session: SparkSession, half_read: str, tmp_path: Path
) -> None:
    """Two runs append two readings of one topic, each with its own time; the checkpoint keeps none apart."""
    register(session)
    frame = session.readStream.format("kafka_partitions").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    for _ in range(2):
        writer = frame.option("subscribe", half_read).load().writeStream.format("parquet")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start(str(tmp_path / "out")).awaitTermination()
    rows = session.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row["partition"] for row in rows) == [0, 0, 1, 1]
    assert len({row["observed_at_ms"] for row in rows}) == 2
    assert {(row["cluster_id"], row["last_stable_offset"]) for row in rows} == {(cluster.cluster_id, 10)}


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


def test_example_runs_as_it_is_documented(cluster: SandboxCluster, jvm: None, half_read: str) -> None:
    """The example runs as a process, in a session that it creates, and computes the lag of Kafka's tool.

    Executors once found no code, because the file was removed before their first task. After a
    registration of the sources, other jobs and other executors of the session work.
    """
    end_session()
    program = f"import sys; sys.argv = sys.argv[1:]\n{EXAMPLE_AND_ANOTHER_JOB}"
    result = subprocess.run(
        [sys.executable, "-c", program, "examples/lag.py", cluster.bootstrap_servers, half_read],
        cwd=EXAMPLE.parents[1],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    *table, jobs = result.stdout.splitlines()
    (line,) = [line for line in table if half_read in line]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [f"{half_read}-g", half_read, "6", "0", "NULL"]
    assert jobs == "4"


def test_consumer_offsets_is_divided_by_its_size(
    cluster: SandboxCluster, connection: Connection, half_read: str
) -> None:
    """`__consumer_offsets` is divided by its size.

    Each partition once counted as one record, so that one task read the whole log.
    """
    session = KafkaSession(connection)
    log = describe_log(session, list_topics(session))
    assert set(log.sizes) == set(range(log.partitions))
    for _ in range(10):
        client.commit(cluster.bootstrap_servers, f"{half_read}-g", {(half_read, 0): 4})
    assert sum(describe_log(session, list_topics(session)).sizes.values()) >= sum(log.sizes.values()) + 10


def test_export_writes_documented_parquet(
    cluster: SandboxCluster, connection: Connection, half_read: str, tmp_path: Path
) -> None:
    """Partitions, commits, groups, topics and the run; a null has its reason in `unread`."""
    topic_request = TopicRequest(topics=(Selector(half_read),), offsets=True, instants_ms=(0,), readers=True)
    needs = ScanRequest(
        topics=(topic_request,),
        groups=(GroupRequest(groups=(Selector(f"{half_read}-g"),), activity=True),),
        topic_records=True,
    )
    before = time.time_ns() // 1_000_000
    inline = Engine(name=EngineName.INLINE)  # all engines give the same snapshot
    snapshot = scan_now(KafkaSession(connection), needs, inline, observed_at_ms=before)
    *files, run_file = export.write(snapshot, Folder(tmp_path))
    tables = {path.split("/")[0]: pq.read_table(tmp_path / path) for path in files}
    assert {name: table.schema.names for name, table in tables.items()} == {
        name: schema.names for name, schema in export.SCHEMAS.items()
    }
    rows = {name: table.to_pylist() for name, table in tables.items()}
    assert [(row["partition"], row["offsets_at"]) for row in rows["partitions"]] == [(0, [(0, 0)]), (1, [(0, 0)])]
    (commit,) = rows["commits"]  # the group is at the end of the other partition
    assert (commit["group"], commit["partition"], commit["committed"]) == (f"{half_read}-g", 0, 4)
    (group,) = [row for row in rows["groups"] if row["group"] == f"{half_read}-g"]
    assert group["commits"] == 2
    assert group["last_activity_ms"] is not None
    (topic,) = [row for row in rows["topics"] if row["topic"] == half_read]
    assert topic["records"] == 20
    other_topics = [row for row in rows["topics"] if row["topic"] != half_read]
    assert all(dict(row["unread"])["records"] == "not asked" for row in other_topics)
    run = json.loads((tmp_path / run_file).read_text())
    assert (run["cluster_id"], run["observed_at_ms"]) == (cluster.cluster_id, before)
    assert run["incomplete"] == {}


def test_the_recipe_of_a_history_runs(session: SparkSession, tmp_path: Path) -> None:
    """Every query of docs/recipes/history-of-a-cluster.md runs on scans of a real cluster, and its output is there.

    The scans are a day apart by their own word. A scan that was cut short before its row in `scans`
    changes no answer (UPDATE_DOCS=1 writes the page). A group without a commit on a partition was once behind
    by all of its records, and a scan that ended between two listings of files was in one table of a query only.
    """
    session.conf.set("spark.sql.session.timeZone", "UTC")
    history = Folder(tmp_path / "history")
    with stopping(start(1, name="history", heap_mib=256)) as cluster:
        snapshot = write_history(cluster, history)
    page = RECIPE.read_text(encoding="utf-8")

    def run(match: re.Match[str]) -> str:
        output = io.StringIO()
        for statement in match[1].split(";\n"):
            with redirect_stdout(output):
                frame = session.sql(statement.replace("`history/", f"`{tmp_path}/history/"))
                if frame.columns:
                    frame.show(truncate=False)
        shown = f"\n```text\n{output.getvalue().strip()}\n```\n" if output.getvalue() else ""
        return f"```sql\n{match[1]}```\n{shown}"

    fresh = SQL.sub(run, page)
    if os.environ.get("UPDATE_DOCS"):
        RECIPE.write_text(fresh, encoding="utf-8")
    assert RECIPE.read_text(encoding="utf-8") == fresh

    def count_scans() -> list[Any]:
        return [
            session.sql(f"SELECT count(DISTINCT observed_at_ms) FROM {view}").first() for view in ("scans", "groups")
        ]

    before = count_scans()
    export.append(replace(snapshot, observed_at_ms=snapshot.observed_at_ms + DAY_MS), history)
    assert count_scans() == before
    for word in ("UNCACHE", "CACHE"):
        session.sql(f"{word} TABLE scans")
    assert count_scans() == [(before[0][0] + 1,)] * 2


def write_history(cluster: SandboxCluster, history: Folder) -> ClusterSnapshot:
    """Write a scan for each of three days, two for the first one, and one of a fourth that was cut short.

    An hour before each scan is one of another cluster, with one group: it seemed to be gone. The two scans of
    a day doubled the lag. The second has no row of commits for one partition, which was missing from the lag
    without a hint. Returns the last one.
    """
    servers = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    topics = {"orders": 100, "clicks": 50, "archive": 20}
    client.create_topics(servers, [Topic(name, partitions=2) for name in topics])

    def write(name: str, records: int) -> None:
        client.produce(servers, name, {number: [Record(b"x")] * records for number in (0, 1)})

    def commit(group: str, offset: int) -> None:
        client.commit(servers, group, {("orders", number): offset for number in (0, 1)})

    def remove_group() -> None:
        admin.delete_consumer_groups(["old-etl"])["old-etl"].result(30)

    def delete_records() -> None:
        before = [ClientPartition("orders", number, 60) for number in (0, 1)]
        for future in admin.delete_records(before).values():
            future.result(30)

    days: Sequence[Sequence[Callable[[], None]]] = (
        (
            *(partial(write, *topic) for topic in topics.items()),
            partial(commit, "billing", 60),
            partial(commit, "old-etl", 10),
            partial(client.commit, servers, "new-app", {("orders", 0): 90}),
        ),
        (partial(write, "orders", 40), partial(write, "clicks", 10), partial(commit, "billing", 90), remove_group),
        (partial(write, "orders", 5), delete_records),
        (partial(write, "archive", 1), partial(commit, "late", 1)),
    )
    for number, changes in enumerate(days):
        for change in changes:
            change()
        with closing(KafkaSession(Connection((servers,), {}))) as kafka:
            at_ms = FIRST_SCAN_MS + number * DAY_MS
            snapshot = scan_now(kafka, EVERYTHING, Engine(name=EngineName.INLINE), observed_at_ms=at_ms)
        *_files, last = export.append(snapshot, history)
        group = replace(snapshot.groups["billing"], group="elsewhere")
        earlier_ms = snapshot.observed_at_ms - 3_600_000
        elsewhere = replace(snapshot, cluster_id="elsewhere", observed_at_ms=earlier_ms, topics={}, partitions={})
        export.append(replace(elsewhere, groups={group.group: group}), history)
        if number == 0:
            second = TopicPartition("orders", 1)
            unread = replace(snapshot.partitions[second], log_start=Unknown("silent"), readers=Unknown("silent"))
            partitions = {**snapshot.partitions, second: unread}
            later_ms = snapshot.observed_at_ms + 3_600_000
            export.append(replace(snapshot, observed_at_ms=later_ms, partitions=partitions), history)
    history.remove(last)
    return snapshot
