"""Runs a ScanRequest into a ClusterSnapshot. The only package that imports pyspark, and only when a scan needs it."""
