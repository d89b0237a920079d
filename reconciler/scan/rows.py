"""The one table that a scan ends in, as dictionaries by what they are about. What they prove is decided in assemble."""

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
"""What is read here of a row about each kind of subject."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one scan by subject."""

    partitions: Mapping[TopicPartition, Row]
    groups: Mapping[str, Row]
    topics: Mapping[str, Row]
    runs: Sequence[Row]


def rows_of(table: pa.Table) -> Rows:
    """The rows of `reduce.reduced` or `reduce.unreduced`, by what they are about."""
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
    """Rows about one kind of subject, as dictionaries of its columns alone: the others would take most of the time, and all are null."""
    # By now it has been loaded together with pandas; at the top of the module every command would wait for it.
    from pyarrow import compute as pc

    about = batch.filter(pc.equal(batch.column("subject"), subject))
    names = ("name", "number", *_COLUMNS[subject])
    for values in zip(*(about.column(name).to_pylist() for name in names), strict=True):
        yield dict(zip(names, values, strict=True))
