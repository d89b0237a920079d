"""Records `checkpoints/*.json`: real queries, and where each restarts after every file of its checkpoint.

    record_checkpoints.py BOOTSTRAP_SERVER JAR,JAR,… [LAYOUT…]

Needs brokers without the topics orders and payments, a pyspark of its own (4.2.0) and the jars of its
Kafka connector. `files`: path, text and milliseconds, in the order in which Spark created them.
`restarts`: for each number of files the lowest offsets that the query then read; null: it did not start.
"""

import json
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

servers, jars, *chosen = sys.argv[1:]
spark = SparkSession.builder.master("local[8]").config("spark.jars", jars).getOrCreate()
admin = AdminClient({"bootstrap.servers": servers})
work = Path(mkdtemp())
(work / "empty").mkdir()
Offsets = dict[tuple[str, int], int]


def kafka(topics: str, starting: str, **options: str) -> DataFrame:
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    loaded = source.options(subscribe=topics, startingOffsets=starting, **options).load()
    return loaded.selectExpr("concat_ws('/', topic, cast(partition as string), cast(offset as string)) as value")


LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    # Two sources of one topic, and one without an offset.
    "micro-batch": {
        "sources": lambda: [
            kafka("orders,payments", "earliest"),
            kafka("orders", "earliest"),
            spark.readStream.format("text").load(str(work / "empty")),
        ]
    },
    "version-2": {"sources": lambda: [kafka("orders", "latest"), kafka("payments", "earliest")], "version": "2"},
    "continuous": {"sources": lambda: [kafka("orders,payments", "earliest")], "trigger": {"continuous": "1 second"}},
    "async-progress": {
        "sources": lambda: [kafka("orders,payments", "earliest", maxOffsetsPerTrigger="2")],
        "options": {"asyncProgressTrackingEnabled": "true", "asyncProgressTrackingCheckpointIntervalMs": "1500"},
    },
}


def create(*topics: str, partitions: int) -> None:
    for future in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        future.result()


def start(layout: Mapping[str, Any], checkpoint: Path, sink: str) -> StreamingQuery:
    spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", layout.get("version", "1"))
    first, *others = layout["sources"]()
    for other in others:
        first = first.union(other)
    options = {"kafka.bootstrap.servers": servers, "topic": sink, "checkpointLocation": str(checkpoint)}
    writer = first.writeStream.format("kafka").options(**options, **layout.get("options", {}))
    return writer.trigger(**layout["trigger"]).start() if "trigger" in layout else writer.start()


def wait_for(query: StreamingQuery, sink: str, ends: Offsets, seconds: float) -> dict[str, dict[str, int]]:
    """Wait until the query has read all, or for some time; return the lowest offset of each partition."""
    until, lowest, highest = time.monotonic() + seconds, dict[str, dict[str, int]](), Offsets()
    while time.monotonic() < until and any(highest.get(at, 0) < end for at, end in ends.items()):
        if (failure := query.exception()) is not None:
            raise failure
        options = {"kafka.bootstrap.servers": servers, "subscribe": sink}
        rows = spark.read.format("kafka").options(**options).load().selectExpr("cast(value as string) v").collect()
        for topic, number, offset in (row.v.rsplit("/", 2) for row in rows):
            of_topic = lowest.setdefault(topic, {})
            of_topic[number] = min(int(offset), of_topic.get(number, int(offset)))
            at = topic, int(number)
            highest[at] = max(int(offset) + 1, highest.get(at, 0))
        time.sleep(0.5)
    return lowest


def record(name: str, layout: Mapping[str, Any]) -> None:
    create("orders", "payments", partitions=2)
    ends: Offsets = {(topic, number): 0 for topic in ("orders", "payments") for number in (0, 1)}

    def add(records: Mapping[tuple[str, int], int]) -> None:
        for (topic, number), count in records.items():
            rows = spark.createDataFrame([(topic, number, "r")] * count, "topic string, partition int, value string")
            rows.write.format("kafka").option("kafka.bootstrap.servers", servers).save()
            ends[topic, number] += count

    def run(checkpoint: Path, seconds: float, *rounds: Mapping[tuple[str, int], int]) -> dict[str, dict[str, int]]:
        create(sink := f"out-{uuid4().hex[:8]}", partitions=1)
        query = start(layout, checkpoint, sink)
        lowest = wait_for(query, sink, ends, seconds)
        for records in rounds:
            add(records)
            lowest = wait_for(query, sink, ends, seconds)
        time.sleep(3)
        query.stop()
        return lowest

    add(dict.fromkeys(ends, 3))
    checkpoint = work / name
    run(checkpoint, 30, *[{("orders", step % 2): 4, ("payments", 1): 1} for step in range(2)])
    visible = [path for path in checkpoint.rglob("*") if path.is_file() and not path.name.startswith(".")]
    files = sorted(visible, key=lambda path: path.stat().st_mtime_ns)
    add(dict.fromkeys(ends, 1))
    restarts: list[dict[str, dict[str, int]] | None] = []
    for length in range(len(files) + 1):
        prefix = work / f"{name}-{length}"
        for path in files[:length]:
            (prefix / path.relative_to(checkpoint)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, prefix / path.relative_to(checkpoint))
        try:
            restarts.append(run(prefix, 30))
        except Exception as error:  # noqa: BLE001 - a checkpoint that Spark itself does not read
            print(name, length, error)
            restarts.append(None)
    began = files[0].stat().st_mtime_ns
    rows = [
        [str(path.relative_to(checkpoint)), path.read_text(), (path.stat().st_mtime_ns - began) // 1_000_000]
        for path in files
    ]
    recording = Path(__file__).parent / "checkpoints" / f"{name}.json"
    recording.write_text(json.dumps({"files": rows, "restarts": restarts}, indent=1) + "\n")
    for future in admin.delete_topics(["orders", "payments"], operation_timeout=30).values():
        future.result()


if __name__ == "__main__":
    for layout_name in chosen or LAYOUTS:
        record(layout_name, LAYOUTS[layout_name])
