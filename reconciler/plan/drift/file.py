"""The report as JSON, for the next run's `--previous` and for other tools. `format_version` is its own.

One subject per line, so that `diff` of two reports is readable. What a report says is decided in report.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reconciler.codec import Codec, compare, document, json_lines, shorten
from reconciler.plan.drift.report import DriftReport

FORMAT_VERSION = "1.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    format_version: str = FORMAT_VERSION
    kind: Literal["DriftReport"] = "DriftReport"
    clusters: tuple[DriftReport, ...]


_CODEC = Codec(_Document)
_LISTS = ("policies", "drift", "unread")


def dumps(reports: Sequence[DriftReport]) -> str:
    """Return the JSON document of these reports, clusters in the order given."""
    row = _CODEC.fields(_Document(clusters=tuple(reports)))

    def lines(cluster: dict[str, Any]) -> str:
        pieces = ((name, json_lines(value) if name in _LISTS else value) for name, value in cluster.items())
        return "".join(document(pieces)).rstrip("\n")

    return "".join(document({**row, "clusters": map(lines, row["clusters"])}.items()))


def read(path: Path) -> tuple[DriftReport, ...]:
    """Return the reports of a file that `dumps` wrote. Raises OSError, and ValueError for another document."""
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> tuple[DriftReport, ...]:
    """Return what `dumps` wrote. Raises ValueError for anything else; a newer minor version may hold more fields."""
    value = _CODEC.validate(text)
    major, _, minor = value.format_version.partition(".")
    expected_major, _, expected_minor = FORMAT_VERSION.partition(".")
    if major != expected_major:
        raise ValueError(f"format_version is {shorten(value.format_version)}, expected {FORMAT_VERSION}")
    compare(text, _CODEC.encode(value), newer=minor != expected_minor, exact=False)
    return value.clusters
