"""The one Spark query of a scan: every chunk read once, one shuffle, one row per subject to the driver.

Decided here: what is left out before it reaches the driver. A reader at or above the stable end matters
only if it was named. A listed group that was read and not requested needs no row.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler.scan.task_rows import FACTS, GROUP, Chunk, ScanTask, read_chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_PER_SHUFFLE_PARTITION = 50_000
_SINGLE = (
    "log_start",
    "stable_end",
    "high_watermark",
    "listed",
    "needed",
    "commits",
    "commit_topics",
    "fingerprint",
    "last_activity_ms",
    "log_partition",
    "log_offset",
    "seems",
    "live",
    "commit_keys",
    "error",
)
_SUMS = ("records", "unread", "skipped", "garbled")


def scan_query(session: "SparkSession", task: ScanTask, chunks: Sequence[Chunk], *, rows: int) -> "DataFrame":
    """One row per subject: partitions with lists of readers and origins, groups, topics, runs.

    `rows`: estimated number of input rows.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    count = len(chunks)
    facts = session.range(0, count, 1, count).mapInArrow(
        partial(read_chunks, task, tuple(chunks)), from_arrow_schema(FACTS)
    )
    reader = f.struct(f.col("reader").alias("group"), "committed", "named")
    origin = f.struct(
        f.col("origin").alias("group"),
        f.col("origin_committed").alias("committed"),
        f.col("origin_topic_id").alias("id"),
    )
    distributed = facts.repartition(
        max(1, min(200, -(-rows // _ROWS_PER_SHUFFLE_PARTITION))), "subject", "name", "number"
    )
    grouped = distributed.groupBy("subject", "name", "number").agg(
        *[f.max(name).alias(name) for name in _SINGLE],
        *[f.sum(name).alias(name) for name in _SUMS],
        f.first("offsets_at", ignorenulls=True).alias("offsets_at"),
        f.collect_list(f.when(f.col("reader").isNotNull(), reader)).alias("readers"),
        f.collect_list(f.when(f.col("origin").isNotNull(), origin)).alias("origins"),
    )
    readers_below_end = f.filter(
        "readers",
        lambda r: (
            r["named"]
            | f.col("stable_end").isNull()
            | (f.coalesce(r["committed"], f.col("log_start"), f.lit(0)) < f.col("stable_end"))
        ),
    )
    is_redundant = (
        (f.col("subject") == GROUP) & f.col("listed").isNotNull() & ~f.col("needed") & f.col("error").isNull()
    )
    return grouped.withColumn("readers", readers_below_end).where(~f.coalesce(is_redundant, f.lit(False)))


def as_scan_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """The result of `scan_query` for batches with one row per subject and without readers."""
    table = pa.Table.from_batches(batches, schema=FACTS)
    nulls = pa.nulls(table.num_rows, pa.list_(pa.null()))
    return table.append_column("readers", nulls).append_column("origins", nulls)
