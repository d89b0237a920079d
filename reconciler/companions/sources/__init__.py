"""Facts of a cluster as tables: Spark data sources, and Parquet files of a scan."""
