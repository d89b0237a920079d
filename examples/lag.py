"""Lag per group and topic, from anybody's Spark session: python examples/lag.py BOOTSTRAP_SERVERS [TOPIC ...]"""

import sys

from pyspark.sql import DataFrame, SparkSession  # noqa: TID253 - a user's script, not this program
from pyspark.sql import functions as f  # noqa: TID253

from reconciler.scan import data_sources

_ROWS = 1_000


def lag(session: SparkSession, bootstrap_servers: str) -> DataFrame:
    """Records that each group has not read yet, by topic, of the brokers' own telling."""
    data_sources.register(session)
    commits = session.read.format("kafka_group_commits").option("bootstrap.servers", bootstrap_servers).load()
    partitions = session.read.format("kafka_partitions").option("bootstrap.servers", bootstrap_servers).load()
    return behind(commits, partitions)


def behind(commits: DataFrame, partitions: DataFrame) -> DataFrame:
    """What was not read is in no sum: `unread` counts it and `error` tells of it, also in a row without a topic for a group whose commits
    could not be read at all.
    """
    ends = partitions.select("topic", "partition", "log_start", "stable_end", f.col("error").alias("end_error"))
    known = f.col("committed").isNotNull() & f.col("log_start").isNotNull() & f.col("stable_end").isNotNull()
    records = f.greatest(f.lit(0), f.col("stable_end") - f.greatest("committed", "log_start"))
    return (
        commits.where("topic IS NOT NULL OR error IS NOT NULL")
        .join(ends, ["topic", "partition"], "left")
        .groupBy("group", "topic")
        .agg(
            f.sum(f.when(known, records)).alias("lag"),
            f.sum((~known).cast("int")).alias("unread"),
            f.max(f.coalesce("error", "end_error")).alias("error"),
        )
        .orderBy(f.desc("lag"))
    )


def main() -> None:
    """Show it for the cluster and the topics on the command line, the most first. What could not be read is shown for any topic."""
    session = SparkSession.builder.master("local[*]").appName("lag").getOrCreate()
    bootstrap_servers, *topics = sys.argv[1:]
    found = lag(session, bootstrap_servers)
    if topics:
        found = found.where(f.col("topic").isin(topics) | f.col("topic").isNull())
    found.show(n=_ROWS, truncate=False)


if __name__ == "__main__":
    main()
