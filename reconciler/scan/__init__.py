"""Runs a ScanRequest into a ClusterSnapshot. Only this package imports pyspark, when needed."""
