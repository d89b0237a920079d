"""Needs in, ClusterSnapshot out: the only package that imports pyspark, and only once a scan needs it."""
