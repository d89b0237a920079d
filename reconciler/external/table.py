"""Reads positions from a table that their owner writes: Parquet, CSV with a header, or JSON lines."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from reconciler.external.places import NUMBER, Files, PositionUnreadable, without_repetition
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import ExternalPosition

COLUMNS = ("cluster_id", "topic", "partition", "offset", "written_at")
_ROWS_MAX = 1_000_000

_Row = Mapping[str, Any]


def read_table(files: Files, name: str, cluster_id: str) -> ExternalPosition:
    """Return the next offset needed of each partition, in the rows of this cluster. Raises PositionUnreadable.

    `name`: its suffix says how it is written. Times without a zone are in UTC.
    """
    content = files.read()
    if content is None:
        raise PositionUnreadable("there is no such file")
    try:
        return _position(_READERS[name.rpartition(".")[2]](content), cluster_id)
    except PositionUnreadable:
        raise
    except Exception:  # noqa: BLE001 - the library's words may quote the content
        raise PositionUnreadable(f"it is not a table with the columns {', '.join(COLUMNS)}") from None


def _position(rows: Iterable[_Row], cluster_id: str) -> ExternalPosition:
    offsets: dict[TopicPartition, int] = {}
    written_at_ms = 0
    for number, row in enumerate(rows, 1):
        cluster, topic, partition, offset, written_at = (row[column] for column in COLUMNS)
        if not (isinstance(cluster, str) and cluster and isinstance(topic, str) and topic):
            raise PositionUnreadable(f"row {number} has no cluster_id, or no topic")
        if cluster != cluster_id:
            continue
        at = TopicPartition(topic, _whole(partition, number))
        if at in offsets:
            raise PositionUnreadable(f"row {number} is a second row for one partition")
        offsets[at] = _whole(offset, number)
        written_at_ms = max(written_at_ms, _instant_ms(written_at, number))
    if not offsets:
        raise PositionUnreadable(f"it has no row with the cluster_id {cluster_id}")
    return ExternalPosition(offsets, written_at_ms)


def _whole(value: object, row: int) -> int:
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = int(value)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise PositionUnreadable(f"row {row} has a partition or an offset that is not a number from 0 on")
    return value


def _instant_ms(value: Any, row: int) -> int:
    try:
        instant = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return int((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        raise PositionUnreadable(f"row {row} has a written_at that is not a time") from None


def _parquet_rows(content: bytes) -> Iterator[_Row]:
    import pyarrow as pa
    from pyarrow import parquet

    # A dictionary repeats long texts without their bytes: what is small as a file stays small.
    file = parquet.ParquetFile(pa.BufferReader(content), read_dictionary=["cluster_id", "topic"])
    without_repetition([(column, None) for column in file.schema_arrow.names])
    if file.metadata.num_rows > _ROWS_MAX:
        raise PositionUnreadable(f"it has more than {_ROWS_MAX:,} rows")
    for batch in file.iter_batches(columns=list(COLUMNS)):
        times = batch.column("written_at")
        # Nanoseconds become Python's times by pandas only, which not every installation has.
        if pa.types.is_timestamp(times.type) and times.type.unit == "ns":
            times = times.cast(pa.timestamp("us", times.type.tz), safe=False)
        yield from batch.set_column(batch.schema.get_field_index("written_at"), "written_at", times).to_pylist()


def _csv_rows(content: bytes) -> Iterator[_Row]:
    if not content.endswith((b"\n", b"\r")):
        # Half a number is a number, and half a partition's the number of another one.
        raise PositionUnreadable("its last line has no line end, so it may be half written")
    header, *rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
    without_repetition([(name, None) for name in header])
    return (dict(zip(header, row, strict=True)) for row in rows if row)


def _json_rows(content: bytes) -> Iterator[_Row]:
    return (
        json.loads(line, object_pairs_hook=without_repetition)
        for line in content.decode("utf-8-sig").split("\n")
        if line.strip()
    )


_READERS = {"parquet": _parquet_rows, "csv": _csv_rows, "json": _json_rows, "jsonl": _json_rows}
