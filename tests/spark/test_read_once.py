"""Each source is read once per scan, by the count of Spark's tasks."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import SparkContext

from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import Cluster
from tests.spark.conftest import Scan

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


def jobs() -> dict[int, Any]:
    """Spark's record of the jobs of this session, by id."""
    assert SparkContext._active_spark_context is not None
    jobs = SparkContext._active_spark_context._jsc.sc().statusStore().jobsList(None)
    return {jobs.apply(index).jobId(): jobs.apply(index) for index in range(jobs.size())}


def stages(job: Any) -> Iterator[tuple[int, int]]:
    """(tasks, failed tasks) of each stage of a job."""
    assert SparkContext._active_spark_context is not None
    store = SparkContext._active_spark_context._jsc.sc().statusStore()
    ids = job.stageIds()
    for index in range(ids.size()):
        stage = store.lastStageAttempt(ids.apply(index))
        yield stage.numCompleteTasks(), stage.numFailedTasks()


def test_scan_reads_each_source_once(cluster: Cluster, scanned: Scan, unique: str) -> None:
    """A full scan is one job of two stages: one task per chunk, and one for the shuffle.

    The scan reads offsets, commits, the commit log, consumers, named groups, evidence and record
    counts. A join of two sources once read one of them twice, silently.
    """
    servers = cluster.bootstrap_servers
    client.create_topics(servers, [Topic(unique, partitions=2)])
    client.produce(servers, unique, {number: [Record(b"x")] * 3 for number in (0, 1)})
    for name in ("a", "b"):
        client.commit(servers, f"{unique}-{name}", {(unique, 0): 1, (unique, 1): 2})
    needs = ScanRequest(
        topics=(
            TopicRequest(
                topics=(Selector(unique),),
                offsets=True,
                instants_ms=(0,),
                readers=True,
                named_groups=frozenset({f"{unique}-a"}),
            ),
        ),
        groups=(GroupRequest(groups=(Selector(f"{unique}-*"),), activity=True),),
        topic_records=True,
    )
    scanned(needs)
    before = jobs().keys()
    snapshot = scanned(needs)
    (job,) = [job for number, job in jobs().items() if number not in before]
    assert snapshot.topics[unique].records == 6
    # Few partitions, groups and log records: each source is one chunk.
    assert sorted(stages(job)) == [(1, 0), (3, 0)]
