"""Lag per group and topic: python examples/lag.py BOOTSTRAP_SERVERS [TOPIC ...]"""

import sys

from pyspark.sql import DataFrame, SparkSession  # noqa: TID253 - a user's script, not this program
from pyspark.sql import functions as f  # noqa: TID253

from reconciler.spark import register

_ROWS = 1_000


def read_lag(session: SparkSession, bootstrap_servers: str) -> DataFrame:
    """Count the records that each group has not read yet, by topic."""
    register(session)
    options = {"kafka.bootstrap.servers": bootstrap_servers}
    commits = session.read.format("kafka_group_commits").options(**options).load()
    partitions = session.read.format("kafka_partitions").options(**options).load()
    return compute_lag(commits, partitions)


def compute_lag(commits: DataFrame, partitions: DataFrame) -> DataFrame:
    """Sum the lag of all partitions whose offsets are known.

    `unknown` counts the other partitions, and `error` has one of their errors. A group whose
    commits cannot be read at all has a row without a topic.
    """
    ends = partitions.select("topic", "partition", "log_start", "last_stable_offset", f.col("error").alias("end_error"))
    known = f.col("committed").isNotNull() & f.col("log_start").isNotNull() & f.col("last_stable_offset").isNotNull()
    records = f.greatest(f.lit(0), f.col("last_stable_offset") - f.greatest("committed", "log_start"))
    return (
        commits.where("topic IS NOT NULL OR error IS NOT NULL")
        .join(ends, ["topic", "partition"], "left")
        .groupBy("group", "topic")
        .agg(
            f.sum(f.when(known, records)).alias("lag"),
            f.sum((~known).cast("int")).alias("unknown"),
            f.max(f.coalesce("error", "end_error")).alias("error"),
        )
        .orderBy(f.desc("lag"))
    )


def main() -> None:
    """Show the lag for the topics on the command line, the largest first.

    Groups whose commits cannot be read are shown for any topic.
    """
    session = SparkSession.builder.master("local[*]").appName("lag").getOrCreate()
    bootstrap_servers, *topics = sys.argv[1:]
    rows = read_lag(session, bootstrap_servers)
    if topics:
        rows = rows.where(f.col("topic").isin(topics) | f.col("topic").isNull())
    rows.show(n=_ROWS, truncate=False)


if __name__ == "__main__":
    main()
