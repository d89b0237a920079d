"""Runs one scan as a process and prints the snapshot, for engines that cannot share a process.

python scan_once.py BOOTSTRAP TOPIC GROUP ENGINE [CONF=VALUE …]; ENGINE is a Spark master or an
sc:// address. OBSERVED_AT_MS is fixed, so that equal clusters give equal snapshots.
"""

import pprint
import sys
from typing import TYPE_CHECKING

from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.scan.scan import SparkTarget, close, scan
from reconciler.scan.session import PendingSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OBSERVED_AT_MS = 1_000_000


def needs(topic: str, group: str) -> ScanRequest:
    return ScanRequest(
        topics=(
            TopicRequest(
                topics=(Selector(topic),),
                offsets=True,
                instants_ms=(0, 5_000),
                readers=True,
                named_groups=frozenset({group}),
            ),
        ),
        groups=(GroupRequest(groups=(Selector(f"{group}*"),), activity=True),),
        topic_records=True,
    )


def as_text(snapshot: ClusterSnapshot, topic: str, group: str) -> str:
    """The facts of this topic and these groups only; other tests change the shared cluster."""
    partitions = {str(key): value for key, value in snapshot.partitions.items()}
    groups = {name: value for name, value in snapshot.groups.items() if name.startswith(group)}
    return pprint.pformat((snapshot.topics[topic], partitions, groups, snapshot.groups_incomplete), width=160)


def code_path(session: "SparkSession") -> str:
    """The path from which a worker of this session imported the code."""

    def read_path(batches):  # type: ignore[no-untyped-def]
        import pyarrow as pa

        import reconciler.scan.task_rows

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"path": [reconciler.scan.task_rows.__file__]})

    (row,) = session.range(0, 1, 1, 1).mapInArrow(read_path, "path string").collect()
    return str(row["path"])


def main(bootstrap: str, topic: str, group: str, engine: str, *conf: str) -> None:
    spark_conf = dict(pair.split("=", 1) for pair in conf)
    target = (
        SparkTarget(remote=engine, conf=spark_conf)
        if engine.startswith("sc://")
        else SparkTarget(master=engine, conf=spark_conf)
    )
    snapshot = scan(
        needs(topic, group),
        KafkaSession(Connection(tuple(bootstrap.split(",")))),
        observed_at_ms=OBSERVED_AT_MS,
        last_purges={},
        engine=target,
        progress=lambda message: print(message, file=sys.stderr),
    )
    print("code from", code_path(PendingSession(target).result()), file=sys.stderr)
    close()
    print(as_text(snapshot, topic, group))


if __name__ == "__main__":
    main(*sys.argv[1:])
