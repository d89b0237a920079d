"""The types of all columns: of rows from tasks, of the data sources, and of exported files."""

import pyarrow as pa

_TYPES = {
    name: data_type
    for data_type, names in (
        (pa.string(), "cluster_id topic topic_id group type state seems fingerprint error metadata_base64"),
        (pa.int32(), "partition partitions leader commits commit_topics commit_keys members log_partition"),
        (
            pa.int64(),
            "observed_at_ms log_start last_stable_offset high_watermark committed log_offset last_activity_ms",
        ),
        (pa.int64(), "records skipped garbled read"),
        (pa.bool_(), "internal listed live without_commit unanswered"),
        (pa.list_(pa.string()), "cleanup_policy may_read"),
        (pa.list_(pa.int32()), "replicas in_sync"),
        (pa.list_(pa.int64()), "instants offsets_at stamps_at"),
    )
    for name in names.split()
}


def columns(names: str, **types: pa.DataType) -> pa.Schema:
    """The schema of these columns. `!`: never null. `types`: of columns that differ here."""
    types = _TYPES | types
    return pa.schema(
        [pa.field(name.rstrip("!"), types[name.rstrip("!")], nullable=not name.endswith("!")) for name in names.split()]
    )
