"""Writes a report as Markdown for a pull request comment, a job summary or an issue.

Lists, no tables, so that it can be read on a phone. A workflow finds its comment by the first line,
a hidden marker. Items beyond the limit are cut and counted; both the text and the marker say so. A
long section leaves the others their places: 127 topics once hid every group that a plan removes.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise

from reconciler.model.names import format_location
from reconciler.report.tree import Item, Items, Report, Section
from reconciler.text.escape import comment_value, markdown_code, markdown_prose, truncate
from reconciler.text.phrase import Phrase, Span, join

LIMIT_CHARS = 60_000
"""GitHub refuses comments above 65,536 characters."""
_NOTE_CHARS = 200
"""Room for the note that the text is cut, and for closing what stood open."""
_MARKER_VALUE_MAX = 100
"""Characters of a value in the marker; names of clusters and digests are shorter."""
_LEAST_CHARS = 4_000
"""A report that has less room than that is counted, and not shown."""
_SECTION_CHARS = 1_000
"""Kept for each section of a report that is cut, if that is at most half the room. The rest is for the first ones."""


def write_markdown(report: Report, *, limit_chars: int = LIMIT_CHARS) -> str:
    """The report in at most `limit_chars` characters. Raises ValueError if that is too few."""
    head = [f"### {_phrase(report.headline)}", ""] if report.headline else [""]
    if report.summary:
        head += [_phrase(report.summary), ""]
    head += [f"- {_phrase(report.opening)}", ""] if report.opening else [""]
    foot = [row for step in report.next_steps for row in ("", f"**Next:** {_phrase(step)}")]
    if report.footer:
        foot += ["", f"<sub>{'. '.join(map(_phrase, filter(None, (*report.footer, report.page_note))))}</sub>"]
    size = _size([_marker(report, is_cut=False), *head, *foot, _phrase(report.remainder)]) + _NOTE_CHARS
    if size > limit_chars:
        raise ValueError(f"limit_chars is {limit_chars}, and this report takes at least {size}")
    sections = [section for section in report.sections if section.items]
    blocks = (_section(section, report.remainder) for section in sections)
    room = limit_chars - size
    body, told, is_cut = _take_fitting(chain.from_iterable(blocks), room)
    if is_cut and 1 < len(sections) <= room // (2 * _SECTION_CHARS):
        body, told, _ = _take_fitting(_share(sections, report.remainder, room), room)
    if is_cut:
        number = sum(len(section.items) for section in sections) - told
        is_exact = all(not isinstance(section.items, Items) or section.items.exact for section in sections)
        most = "" if is_exact else "at most "
        body += ["", f"**Cut here: … and {most}{number:,} more,** {_phrase(report.remainder)}."]
    rows = [_marker(report, is_cut=is_cut), *head, *body, *foot]
    squeezed = (row for before, row in pairwise(["", *rows]) if row or before)  # at most one blank row at a place
    return "\n".join(squeezed).strip("\n") + "\n"


def write_pages(reports: Sequence[Report]) -> str:
    """The reports one after another, in at most `LIMIT_CHARS` characters together.

    Each has an equal part. Those for which no place is left are counted.
    """
    shown = reports[: max(1, LIMIT_CHARS // _LEAST_CHARS)]
    each = (LIMIT_CHARS + 1) // len(shown) - 1  # without the line end between two of them
    pages = [write_markdown(report, limit_chars=each) for report in shown]
    if len(reports) > len(shown):
        pages[-1] = f"**… and {len(reports) - len(shown) + 1:,} more clusters,** in the run's artifact.\n"
    return "\n".join(pages)


def _marker(report: Report, *, is_cut: bool) -> str:
    if report.marker is None:
        return ""
    kind, fields = report.marker
    cut = "yes" if is_cut else "no"
    texts = ((key, cut if value is None else truncate(value, value, _MARKER_VALUE_MAX)) for key, value in fields)
    return f"<!-- {kind} {' '.join(f'{key}={comment_value(text)}' for key, text in texts)} -->"


_Block = tuple[list[str], int]
"""Rows that stay together, and how many items they show or count."""


def _take_fitting(blocks: Iterable[_Block], chars: int) -> tuple[list[str], int, bool]:
    """The rows of the blocks that fit, with an open `<details>` closed.

    And how many items they show or count, and whether a block did not fit.
    """
    fitting: list[str] = []
    depth = items = 0
    for rows, number in blocks:
        if _size(rows) > chars:
            return fitting + ["", "</details>"] * depth, items, True
        chars -= _size(rows)
        items += number
        depth += sum(row.startswith("<details>") - (row == "</details>") for row in rows)
        fitting += rows
    return fitting, items, False


def _share(sections: Sequence[Section], remainder: Phrase, chars: int) -> Iterator[_Block]:
    """Yield the blocks of all sections, which are too long together."""
    needed = [_size_within(_section(section, remainder), _SECTION_CHARS) for section in sections]
    spare = chars - sum(needed)
    for section, least in zip(sections, needed, strict=True):
        spare += least
        for rows, number in _section(section, remainder, spare):
            yield rows, number
            spare -= _size(rows)


def _size_within(blocks: Iterable[_Block], chars: int) -> int:
    """The size of the blocks, or `chars` if that is less."""
    size = 0
    for rows, _number in blocks:
        size += _size(rows)
        if size >= chars:
            return chars
    return size


def _section(section: Section, remainder: Phrase, chars: int | None = None) -> Iterator[_Block]:
    """Yield the blocks of a section. `chars`: it takes no more, where its heading leaves room for that."""
    heading = _phrase(section.heading)
    head = [""]
    if heading and section.open_items != 0:
        head += [f"#### {heading}", ""]
    if section.subject:
        head += [f"**{_phrase(section.subject)}** in {markdown_code(format_location(section.location))}", ""]
    if section.note:
        head += [". ".join(f"{label}: {_phrase(value)}" for label, value in section.note), ""]
    yield head, 0
    room = section.limit_chars
    if chars is not None:
        left = chars - _size([*head, _phrase(remainder), heading]) - _NOTE_CHARS
        room = left if room is None else min(left, room)
    blocks = _bounded(section, remainder, room, counts=chars is None)
    yield from islice(blocks, section.open_items)
    if section.open_items is not None and len(section.items) > section.open_items:
        summary = f"{len(section.items) - section.open_items:,} more" if section.open_items else heading
        # The blank lines keep Markdown alive inside HTML.
        first = next(blocks, None)
        if first is not None:
            opening = (["", f"<details><summary>{summary}</summary>", ""], 0)
            yield from chain([opening, first], blocks, [(["", "</details>", ""], 0)])


def _bounded(section: Section, remainder: Phrase, room: int | None, *, counts: bool) -> Iterator[_Block]:
    """Yield the rows of each item within so many characters, and a row that tells how many others there are.

    An item that is too long keeps its first row: what it is about stays visible. `counts`: that row counts
    them; otherwise the end of the report does, too.
    """
    for number, item in enumerate(section.items):
        rows = list(_item(item, section))
        if room is not None:
            if _size(rows) > room:
                rows = [rows[0], f"  - … details {_phrase(remainder)}"]
            if _size(rows) > room:
                omitted = len(section.items) - number
                yield [f"- … and {omitted:,} more, {_phrase(remainder)}"], omitted if counts else 0
                return
            room -= _size(rows)
        yield rows, 1


def _size(rows: Iterable[str]) -> int:
    return sum(len(row) + 1 for row in rows)


def _item(item: Item, section: Section) -> Iterator[str]:
    label = f"**{item.label}**" if item.label and not (section.heading and section.labelled) else ""
    head = " ".join(filter(None, (label, _phrase(item.subject))))
    yield f"- {': '.join(filter(None, (head, _phrase(join(', ', item.loss, item.text)))))}"
    for name, value in item.facts:
        yield f"  - {name}: {_phrase(value)}" if name else f"  - {_phrase(value)}"
    for child in item.children:
        yield f"  - {_phrase(child.text)}"


def _phrase(phrase: Phrase) -> str:
    return "".join(part if isinstance(part, str) else _span(part) for part in phrase)


def _span(span: Span) -> str:
    write = {"name": markdown_code, "sentence": markdown_prose, "strong": "**{}**".format}[span.style]
    return f"[{write(span.text)}]({span.link})" if span.link else write(span.text)
