"""Runs a ScanRequest into a ClusterSnapshot. Only this package imports pyspark, if a scan needs it."""
