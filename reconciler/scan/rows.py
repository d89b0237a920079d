"""The rows of a scan's result table, as dictionaries by subject. snapshot_builder.py turns them into facts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from reconciler.model.names import TopicPartition
from reconciler.scan.task_rows import GROUP, PARTITION, RUN, TOPIC

Row = Mapping[str, Any]

_COLUMNS: Mapping[int, Sequence[str]] = {
    PARTITION: ("error", "log_start", "stable_end", "high_watermark", "offsets_at", "readers", "origins"),
    GROUP: (
        "error",
        "commits",
        "commit_topics",
        "fingerprint",
        "commit_keys",
        "last_activity_ms",
        "log_partition",
        "log_offset",
        "seems",
        "live",
    ),
    TOPIC: ("records", "unread"),
    RUN: ("error", "records", "skipped", "garbled"),
}
"""The columns of each kind of subject."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one scan by subject."""

    partitions: Mapping[TopicPartition, Row]
    groups: Mapping[str, Row]
    topics: Mapping[str, Row]
    runs: Sequence[Row]


def rows_of(table: pa.Table) -> Rows:
    """The rows of `scan_query` or `as_scan_table`, by subject."""
    partitions: dict[TopicPartition, Row] = {}
    groups: dict[str, Row] = {}
    topics: dict[str, Row] = {}
    runs: list[Row] = []
    for batch in table.to_batches(max_chunksize=50_000):
        for row in _of(batch, PARTITION):
            partitions[TopicPartition(row["name"], row["number"])] = row
        groups.update((row["name"], row) for row in _of(batch, GROUP))
        topics.update((row["name"], row) for row in _of(batch, TOPIC))
        runs.extend(_of(batch, RUN))
    return Rows(partitions, groups, topics, runs)


def _of(batch: pa.RecordBatch, subject: int) -> Iterator[Row]:
    """Rows of one kind of subject, as dictionaries of its columns; all other columns are null."""
    # Imported here, where pandas has already loaded it; a module-level import would delay every command.
    from pyarrow import compute as pc

    rows = batch.filter(pc.equal(batch.column("subject"), subject))
    names = ("name", "number", *_COLUMNS[subject])
    for values in zip(*(rows.column(name).to_pylist() for name in names), strict=True):
        yield dict(zip(names, values, strict=True))
