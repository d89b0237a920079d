"""The one Spark query of a scan: each chunk is read once, one shuffle, one row per subject.

Decided here: what is left out before it reaches the driver. A reader between the stable end and the
high watermark matters only if it was named, or committed for another topic id. A listed group that was read and not requested needs no
row.
"""

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler.errors import ScanFailed
from reconciler.kafka.futures import Deadline, submit
from reconciler.scan.chunking import Chunk
from reconciler.scan.session import TimedCall, close, first_line, log_hint
from reconciler.scan.task_rows import FACTS, GROUP, KEYS, SUMS, ScanTask, read_chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_INTERRUPT_LIMIT_S = 3.0
_PROGRESS_EVERY_S = 2.0
_CHUNKS_PER_SHUFFLE_PARTITION = 3


def run_query(
    session: "SparkSession",
    task: ScanTask,
    chunks: Sequence[Chunk],
    *,
    limit_s: float,
    progress: Callable[[str], None],
) -> pa.Table:
    """One row per subject: partitions with lists of readers and origins, groups, topics, runs.

    Raises ScanFailed after `limit_s` or if Spark gives up. Ctrl-C stops the Spark session, too.
    """
    tag = f"reconciler-{uuid.uuid4().hex}"
    sizes = {
        "partitions": sum(chunk.partitions for chunk in chunks),
        "groups": sum(len(chunk.groups) for chunk in chunks),
        "partitions of the commit log": sum(len(chunk.log) for chunk in chunks),
    }
    subjects = ", ".join(f"{size:,} {unit}" for unit, size in sizes.items() if size)

    def query() -> pa.Table:
        session.addTag(tag)
        return _frame(session, task, chunks).toArrow()

    def interrupt() -> bool:
        """Cancel the query; whether Spark answered. A session that hangs is useless."""
        return TimedCall(lambda: session.interruptTag(tag)).succeeds_within(_INTERRUPT_LIMIT_S)

    future = submit(query)
    progress(f"reading {subjects}")
    deadline = Deadline.after(limit_s)
    try:
        while not wait([future], min(_PROGRESS_EVERY_S, deadline.remaining_s)).done:
            if deadline.passed:
                hint = log_hint()
                if not interrupt():
                    close(at_once=True)
                raise ScanFailed(f"Spark had not read {subjects} after {limit_s:.0f} s{hint}")
            progress(f"reading {subjects} ({limit_s - deadline.remaining_s:.0f} s)")
    except KeyboardInterrupt:
        interrupt()
        close(at_once=True)
        raise
    if error := future.exception():
        raise ScanFailed(f"Spark gave up reading {subjects}: {first_line(error)}{log_hint()}") from error
    return future.result()


def _frame(session: "SparkSession", task: ScanTask, chunks: Sequence[Chunk]) -> "DataFrame":
    """The reduced rows of all chunks."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    count = len(chunks)
    facts = session.range(0, count, 1, count).mapInArrow(
        partial(read_chunks, task, tuple(chunks)), from_arrow_schema(FACTS)
    )
    # Each of the other columns has at most one value per subject.
    values = [name for name in FACTS.names if name not in {*KEYS, *SUMS, "reader", "origin"}]
    distributed = facts.repartition(min(200, -(-count // _CHUNKS_PER_SHUFFLE_PARTITION)), *KEYS)
    grouped = distributed.groupBy(*KEYS).agg(
        *[f.max(name).alias(name) for name in values],
        *[f.sum(name).alias(name) for name in SUMS],
        f.collect_list("reader").alias("readers"),
        f.collect_list("origin").alias("origins"),
    )
    readers_below_end = f.filter(
        "readers",
        lambda r: (
            r["named"]
            | f.array_contains(f.col("origins.group"), r["group"])
            | f.col("stable_end").isNull()
            | f.coalesce(r["committed"] > f.col("high_watermark"), r["committed"].isNotNull())
            | (f.coalesce(r["committed"], f.col("log_start"), f.lit(0)) < f.col("stable_end"))
        ),
    )
    is_read = f.col("commits").isNotNull() & f.col("error").isNull()
    is_redundant = (f.col("subject") == GROUP) & is_read & ~f.col("needed")
    return grouped.withColumn("readers", readers_below_end).where(~f.coalesce(is_redundant, f.lit(False)))
