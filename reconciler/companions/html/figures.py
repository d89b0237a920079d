"""What the HTML report draws of a document: tiles, bars, rulers and tables.

Only facts that the document holds are drawn; `intro` says what it lacks. Lists are cut, totals never:
`rest` sums up the rows that are left out. A module of this package for each document collects them.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from reconciler.model.action import Action
from reconciler.model.description import OffsetMove
from reconciler.report.tree import Severity
from reconciler.text.phrase import Phrase, Span, sentence

ROWS_MAX = 300
"""Rows of one list; the last row sums up the others."""
SEVERITIES = {
    "exceeded": Severity.ERROR,
    "blocked": Severity.WARNING,
    "unread": Severity.WARNING,
    "deleted": Severity.LOSS,
    "changed": Severity.CHANGE,
    "waiting": Severity.QUIET,
    "good": Severity.GOOD,
}
"""What a segment of this class means."""
_SENTENCE_MAX = 300
"""Characters of a sentence beside a figure; the details below the figures have more of it."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Numbers that also show only what has their severity. `counts`: by noun; `detail`: the same in words."""

    label: str
    counts: Mapping[str, int]
    severity: Severity
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """Segments beside each other, out of `total`: the class in the stylesheet, which the legend explains, and how much.

    `mark`: an amount at which a line stands.
    """

    segments: Mapping[str, float]
    total: float
    mark: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row. `cells`: one for each column; of bars: the name, and lines of numbers.

    `anchor`: its id in the page. `link`: the id of what says more. `note`: a sentence below it.
    """

    cells: tuple[Phrase, ...]
    severities: frozenset[Severity] = frozenset()
    bars: tuple[Bar, ...] = ()
    anchor: str = ""
    link: str = ""
    note: Phrase = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Rows under one heading: with `columns` a table, without them bars.

    `legend`: class → words. `footnote`: what the numbers mean, below them. `rest`: see the module.
    """

    anchor: str
    heading: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...] = ()
    intro: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    rest: str = ""
    footnote: Phrase = ()


Move = tuple[Action, OffsetMove]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRulers:
    """The rulers of one topic, the worst first: each of one partition, or of some whose picture is equal.

    `amounts`: records removed, of all its partitions.
    """

    anchor: str
    subject: Phrase
    rulers: tuple[Sequence[Move], ...]
    amounts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a page shows of one document besides its report tree."""

    tiles: tuple[Tile, ...] = ()
    charts: tuple[Chart, ...] = ()
    topics: tuple[TopicRulers, ...] = ()


def cut_chart(
    entries: Sequence[T],
    row: Callable[[T], Row],
    noun: str,
    sums: Callable[[Sequence[T]], Mapping[str, int]] = lambda _rest: {},
    *,
    rows_max: int = ROWS_MAX,
    **chart: Any,
) -> Chart:
    """Return a chart of the first entries. `sums`: of the others, by unit. `chart`: other fields of it."""
    rest = entries[rows_max:]
    more = format_tally(sums(rest))
    return Chart(
        rows=tuple(map(row, entries[:rows_max])),
        rest=f"… and {len(rest):,} more {noun}{': ' if more else ''}{more}." if rest else "",
        **chart,
    )


def drawn(*charts: Chart) -> tuple[Chart, ...]:
    """Return the charts that show anything."""
    return tuple(chart for chart in charts if chart.rows or chart.footnote)


def format_tally(counts: Mapping[str, int]) -> str:
    """`3 blocked, 9 in sync`; what has no number is left out."""
    return ", ".join(f"{number:,} {words}" for words, number in counts.items() if number)


def slug(text: str) -> str:
    """Return a name as part of an id and of a link: itself where it is plain, otherwise a hash of it."""
    if re.fullmatch(r"[A-Za-z0-9._/-]{1,100}", text):
        return text
    return f"~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def shorten(text: str) -> Span:
    """Return a sentence beside a figure, which is cut if it is long."""
    return sentence(text if len(text) <= _SENTENCE_MAX else f"{text[: _SENTENCE_MAX - 1]}…")
