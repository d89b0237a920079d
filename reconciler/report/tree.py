"""The report tree: what every document consists of, before any medium lays it out.

A builder per document (plan, plan diff, drift, results, explain, journal) makes a `Report`; a writer
per medium (terminal, Markdown, annotations) renders any of them. Items are made on demand, so that
the report of a million actions never stands in memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from reconciler.model.description import Fact
from reconciler.model.names import NOWHERE, SourceLocation
from reconciler.text.phrase import Phrase


class Severity(StrEnum):
    """What an item means to its reader. ERROR and WARNING also become annotations."""

    ERROR = "error"
    WARNING = "warning"
    LOSS = "loss"
    CHANGE = "change"
    GOOD = "good"
    PLAIN = "plain"
    QUIET = "quiet"


class ItemSource(Protocol):
    """Items that can be read again and again. The length may be an upper bound, and is 0 only of none."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator["Item"]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that a report says.

    `sign`: a character for the margin. `label`: the sort of statement, such as `Blocked`. `text`:
    what is said of the subject. `loss`: what cannot be undone. `code`: a stable id of the statement.
    `facts`: labelled values, for explanations. `members`: the items that this one stands for.
    """

    sign: str = ""
    label: str = ""
    subject: Phrase = ()
    text: Phrase = ()
    loss: Phrase = ()
    severity: Severity = Severity.PLAIN
    code: str = ""
    location: SourceLocation = NOWHERE
    facts: tuple[Fact, ...] = ()
    children: tuple["Item", ...] = ()
    members: ItemSource = ()


class Items:
    """Items that are made of their sources one at a time, each time they are asked for."""

    __slots__ = ("_make", "_sources")

    def __init__(self, sources: Sequence[Any], make: Callable[[Any], Item]) -> None:
        self._sources, self._make = sources, make

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[Item]:
        return map(self._make, self._sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Items that belong together.

    `heading`: a page shows it. A terminal shows it where `labelled` is False; otherwise the label or
    sign of each item says the same, and a page leaves the labels out. `subject`, `location`, `note`:
    the policy of the items, where it was declared, its owner and purpose. `severity`: of the heading;
    annotations look only into sections of ERROR and WARNING. `open_items`: how many a page shows
    before the reader opens the rest, of items whose length is exact; None: all. `collapsed`: the reader has to open the section.
    `optional`: a terminal shows the section only in full.
    """

    heading: Phrase = ()
    subject: Phrase = ()
    location: SourceLocation = NOWHERE
    note: tuple[Fact, ...] = ()
    items: ItemSource = ()
    severity: Severity = Severity.PLAIN
    labelled: bool = True
    open_items: int | None = None
    collapsed: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One document.

    `headline`: the answer in one line; a page begins with it. `opening`: what the document is about;
    a terminal begins with it, or with the headline where there is none. `summary`: the totals, after
    a label; a terminal ends with it, or with the headline. `next_steps`: what to do now. `footer`:
    identity and age of the document; a terminal leaves it out where `is_quiet`, when there is nothing to
    do. `page_note`: what only a page says below it. `marker`: kind and values of a hidden line that workflows read;
    a value of None says whether the writer cut the text. `remainder`: where to read what was cut.
    """

    headline: Phrase = ()
    opening: tuple[Phrase, ...] = ()
    summary: Phrase = ()
    summary_label: str = ""
    sections: tuple[Section, ...] = ()
    next_steps: tuple[Phrase, ...] = ()
    footer: tuple[Phrase, ...] = ()
    is_quiet: bool = False
    page_note: Phrase = ()
    marker: tuple[str, tuple[tuple[str, str | None], ...]] | None = None
    remainder: Phrase = ()
    title: str = ""
    """What an annotation of the whole document is called. Raw text."""
