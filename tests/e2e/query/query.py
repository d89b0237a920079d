"""A query of Structured Streaming, run by a Spark that has the connector: SERVERS TOPIC CHECKPOINT OUTPUT."""

import sys

from pyspark.sql import SparkSession

servers, topic, checkpoint, output = sys.argv[1:]
session = SparkSession.builder.getOrCreate()
records = (
    session.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "20")
    .load()
)
rows = records.selectExpr("CAST(value AS STRING) AS value").writeStream.format("json")
rows.option("checkpointLocation", checkpoint).trigger(processingTime="200 milliseconds").start(
    output
).awaitTermination()
