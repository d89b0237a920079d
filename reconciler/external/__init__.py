"""Positions of readers that Kafka does not list: checkpoints of Spark, syncs of MirrorMaker 2, tables."""
