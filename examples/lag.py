"""Lag per group and topic, from anybody's Spark session: python examples/lag.py BOOTSTRAP_SERVERS"""

import sys

from pyspark.sql import DataFrame, SparkSession  # noqa: TID253 - a user's script, not this program
from pyspark.sql import functions as f  # noqa: TID253

from reconciler.scan import sources


def lag(session: SparkSession, bootstrap_servers: str) -> DataFrame:
    """Records that each group has not read yet, by topic; positions and ends that were not read count for nothing and are told."""
    sources.register(session)
    commits = session.read.format("kafka_group_commits").option("bootstrap.servers", bootstrap_servers).load()
    partitions = session.read.format("kafka_partitions").option("bootstrap.servers", bootstrap_servers).load()
    ends = partitions.select("topic", "partition", "log_start", "stable_end")
    behind = f.greatest(f.lit(0), f.col("stable_end") - f.greatest("committed", "log_start"))
    return (
        commits.where("topic IS NOT NULL")
        .join(ends, ["topic", "partition"], "left")
        .groupBy("group", "topic")
        .agg(f.sum(behind).alias("lag"), f.sum(f.col("stable_end").isNull().cast("int")).alias("unread"))
        .orderBy(f.desc("lag"))
    )


def main() -> None:
    """Show it for the cluster on the command line."""
    session = SparkSession.builder.master("local[*]").appName("lag").getOrCreate()
    lag(session, sys.argv[1]).show(truncate=False)


if __name__ == "__main__":
    main()
