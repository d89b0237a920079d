"""Positions from tables: the same rows in three formats, and everything that makes them unknown."""

import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from reconciler.external.places import PositionUnreadable
from reconciler.external.table import COLUMNS, read_table
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import ExternalPosition

CLUSTER = "5ELteRCDSEa3CWn97iMAoQ"
WRITTEN = datetime(2026, 11, 26, 6, 40, 0, 250_000, tzinfo=UTC)
ROWS: Sequence[tuple[Any, ...]] = (
    (CLUSTER, "orders", 0, 4200, WRITTEN.replace(hour=5)),
    ("other", "orders", 0, 9000, WRITTEN.replace(hour=9)),
    (CLUSTER, "orders", 1, 0, WRITTEN),
)


class Content:
    """One file with this content."""

    def __init__(self, content: bytes | None) -> None:
        self.content = content

    def names(self, *_below: str) -> Mapping[str, int]:
        return {}

    def read(self, *_below: str) -> bytes | None:
        return self.content


def by_name(rows: Sequence[tuple[Any, ...]] = ROWS) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def table(rows: Sequence[tuple[Any, ...]] = ROWS) -> pa.Table:
    return pa.Table.from_pylist(by_name(rows))


def as_parquet(rows: Sequence[tuple[Any, ...]] = ROWS, **options: Any) -> bytes:
    parquet.write_table(table(rows), stream := io.BytesIO(), **options)
    return stream.getvalue()


Made = bytes | Callable[[], bytes]
"""A file, or what makes it in its test: pyarrow's tables import pandas, which each collection of all tests would wait for."""


def as_csv(*, before: bytes = b"", after: bytes = b"") -> bytes:
    csv.write_csv(table(), stream := io.BytesIO())
    return before + stream.getvalue() + after


def as_json(*rows: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps(row, default=str) + "\n" for row in rows).encode()


def row(**changes: Any) -> dict[str, Any]:
    values = {**dict(zip(COLUMNS, ROWS[0], strict=True)), **changes}
    return {name: value for name, value in values.items() if value is not ...}


def refusal(content: bytes | None, name: str = "x.jsonl") -> str:
    with pytest.raises(PositionUnreadable) as refused:
        read_table(Content(content), name, CLUSTER)
    assert "planted" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.parquet", as_parquet),
        ("spark.parquet", partial(as_parquet, use_deprecated_int96_timestamps=True)),
        ("x.csv", as_csv),
        ("x.csv", partial(as_csv, after=b"\n")),
        ("excel.csv", partial(as_csv, before=b"\xef\xbb\xbf")),
        ("x.jsonl", as_json(*by_name())),
        ("x.json", as_json(*by_name())),
    ],
)
def test_the_rows_of_this_cluster_are_the_position(name: str, content: Made) -> None:
    """Each format gives the same position, and rows of other clusters do not count. Spark writes INT96 times."""
    offsets = {TopicPartition("orders", 0): 4200, TopicPartition("orders", 1): 0}
    content = content() if callable(content) else content
    assert read_table(Content(content), name, CLUSTER) == ExternalPosition(offsets, int(WRITTEN.timestamp() * 1000))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no such file"),
        (b"", "no row with the cluster_id"),
        (as_json(row(cluster_id="another")), "no row with the cluster_id"),
        (as_json(row(), row()), "second row"),
        (as_json(row(), row(offset=9000)), "second row"),
        (as_json(row(offset=-1)), "from 0 on"),
        (as_json(row(offset=4.0)), "from 0 on"),
        (as_json(row(offset=True)), "from 0 on"),
        (as_json(row(offset=1 << 63)), "from 0 on"),
        (as_json(row(offset="4_200")), "from 0 on"),
        (as_json(row(offset=None)), "from 0 on"),
        (as_json(row(partition="planted")), "from 0 on"),
        (as_json(row(written_at="planted")), "not a time"),
        (as_json(row(written_at=None)), "not a time"),
        (as_json(row(written_at=...)), "not a table"),
        (as_json(row(topic="")), "no cluster_id, or no topic"),
        (as_json(row(cluster_id=None)), "no cluster_id, or no topic"),
        (as_json(row())[:-2], "not a table"),
        (b'{"topic": "planted", "topic": "b"}', "occurs twice"),
        (b"[" * 100_000, "not a table"),
        (b"planted", "not a table"),
        (b"\xff\xfe", "not a table"),
    ],
)
def test_what_is_not_clear_is_unknown(content: bytes | None, reason: str) -> None:
    """Missing, garbled, negative, or two rows for one partition: no position, and no word of the content."""
    assert reason in refusal(content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.parquet", b"planted"),
        ("x.parquet", lambda: as_parquet()[:-9]),
        ("x.parquet", lambda: as_parquet([(CLUSTER, "orders", 0, 1.5, WRITTEN)])),
        ("x.csv", b"cluster_id,topic,partition,offset,written_at\nplanted,planted\n"),
        ("x.csv", b"cluster_id,topic,partition,offset,offset\n"),
        ("x.csv", b""),
        ("x.csv", b"offset,topic,cluster_id,written_at,partition\n7,orders,%b,2026-01-01,1" % CLUSTER.encode()),
        ("x.csv", lambda: as_csv().rstrip()[:-30]),
        ("x.avro", as_json(row())),
    ],
)
def test_a_torn_file_is_unknown(name: str, content: Made) -> None:
    """Half a file never passes for a smaller table."""
    assert refusal(content() if callable(content) else content, name)


def test_a_column_of_parquet_that_occurs_twice_is_unknown() -> None:
    """The last one counted, which may be the higher offset."""
    rows = table([(CLUSTER, "orders", 0, 5, WRITTEN)])
    parquet.write_table(rows.append_column("offset", pa.array([7])), stream := io.BytesIO())
    assert "occurs twice" in refusal(stream.getvalue(), "x.parquet")


def test_a_byte_order_mark_is_no_part_of_a_table() -> None:
    """Editors of Windows write one. JSON Lines were refused for other columns."""
    for name, content in (("x.csv", as_csv()), ("x.jsonl", as_json(row()))):
        mark = Content(b"\xef\xbb\xbf" + content)
        assert read_table(mark, name, CLUSTER) == read_table(Content(content), name, CLUSTER)


WITHOUT_PANDAS = """\
import sys
from importlib.abc import MetaPathFinder

class NoPandas(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoPandas())
from reconciler.external.table import read_table
from tests.unit.external.test_table import CLUSTER, Content
print(read_table(Content(sys.stdin.buffer.read()), "x.parquet", CLUSTER).written_at_ms)
"""


def test_nanoseconds_need_no_pandas() -> None:
    """pandas writes them, and an installation without Spark does not have it: the table was "not a table"."""
    stamps = pa.array([1_764_000_000_123_456_789], pa.timestamp("ns"))
    values = ([CLUSTER], ["orders"], [0], [4200], stamps)
    parquet.write_table(pa.table(dict(zip(COLUMNS, values, strict=True))), stream := io.BytesIO())
    command = [sys.executable, "-c", WITHOUT_PANDAS]
    answer = subprocess.run(command, input=stream.getvalue(), capture_output=True, check=False)
    assert answer.stdout.decode().strip() == "1764000000123", answer.stderr.decode()
