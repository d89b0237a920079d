"""Arrow schemas of the three sources: what a row is and what its nulls mean. Read in tasks, joined in scan/.

Every row has a status: `error` null means that the row was read. A null number beside an `error` was not read; it is never zero.
Written out as Parquet and offered as data sources, so a column here is a promise to users (docs/scan.md).
"""

import pyarrow as pa

PARTITIONS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("log_start", pa.int64()),
        # The read-committed end; null also where only the records were asked for.
        pa.field("stable_end", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        # Asked instants in epoch ms, and per instant the first offset at or after it: -1 none, null unread.
        pa.field("instants", pa.list_(pa.int64())),
        pa.field("offsets_at", pa.list_(pa.int64())),
        pa.field("error", pa.string()),
    ]
)
"""One row per asked partition."""

GROUP_COMMITS = pa.schema(
    [
        pa.field("group", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("committed", pa.int64()),
        pa.field("commits", pa.int32()),
        pa.field("commit_topics", pa.int32()),
        pa.field("fingerprint", pa.string()),
        pa.field("error", pa.string()),
    ]
)
"""One row per committed offset, then one per group (topic null) with its counts and fingerprint, or the reason why not."""

COMMIT_LOG = pa.schema(
    [
        pa.field("group", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("committed", pa.int64()),
        pa.field("topic_id", pa.string()),
        pa.field("last_activity_ms", pa.int64()),
        pa.field("log_partition", pa.int32()),
        pa.field("log_offset", pa.int64()),
        pa.field("seems", pa.string()),
        pa.field("live", pa.bool_()),
        pa.field("commit_keys", pa.int32()),
        pa.field("records", pa.int64()),
        pa.field("skipped", pa.int64()),
        pa.field("garbled", pa.int64()),
        pa.field("error", pa.string()),
    ]
)
"""Three shapes of row. Group and topic: a topic id that the group's commits on the partition were made for, with the newest offset
committed under it (`topic_id` null: by a value version that carries none). Group only: its newest activity, where its newest record
is, the type that its records suggest, whether any of its keys is still set, and how many of commits are. Neither: one partition of the log, with what was
read, skipped (unknown key types) and garbled, or why it was not read."""
