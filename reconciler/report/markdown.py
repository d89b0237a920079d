"""Writes a report as Markdown for a pull request comment, a job summary or an issue.

Lists, no tables, so that it can be read on a phone. A workflow finds its comment by the first line,
a hidden marker. Text beyond the limit is cut at a line, and both the text and the marker say so.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, pairwise

from reconciler.model.names import format_location
from reconciler.report.tree import Item, Report, Section
from reconciler.text.escape import comment_value, markdown_code, markdown_prose
from reconciler.text.phrase import Phrase, join

LIMIT_CHARS = 60_000
"""GitHub refuses comments above 65,536 characters."""
_NOTE_CHARS = 200
"""Room for the note that the text is cut, and for closing what stood open."""


def write_markdown(report: Report, *, limit_chars: int = LIMIT_CHARS) -> str:
    """The report in at most `limit_chars` characters. Raises ValueError if that is too few."""
    head = [f"### {_phrase(report.headline)}", ""] if report.headline else [""]
    if report.summary:
        head += [_phrase(report.summary), ""]
    head += [*(f"- {_phrase(phrase)}" for phrase in report.opening), ""]
    foot = [row for step in report.next_steps for row in ("", f"**Next:** {_phrase(step)}")]
    if report.footer:
        foot += ["", f"<sub>{'. '.join(map(_phrase, filter(None, (*report.footer, report.page_note))))}</sub>"]
    size = sum(len(row) + 1 for row in (_marker(report, is_cut=False), *head, *foot)) + _NOTE_CHARS
    if size > limit_chars:
        raise ValueError(f"limit_chars is {limit_chars}, and this report takes at least {size}")
    body, is_cut = _take_fitting(_squeeze_blank_rows(_sections(report)), limit_chars - size)
    if is_cut:
        body += ["", f"**Cut here: this is not everything.** {_phrase(report.remainder)}"]
    return "\n".join(_squeeze_blank_rows([_marker(report, is_cut=is_cut), *head, *body, *foot])).strip("\n") + "\n"


def _marker(report: Report, *, is_cut: bool) -> str:
    if report.marker is None:
        return ""
    kind, fields = report.marker
    cut = "yes" if is_cut else "no"
    values = " ".join(f"{key}={comment_value(cut if value is None else value)}" for key, value in fields)
    return f"<!-- {kind} {values} -->"


def _take_fitting(rows: Iterable[str], chars: int) -> tuple[list[str], bool]:
    """The rows that fit, with an open `<details>` closed, and whether any row did not fit."""
    fitting: list[str] = []
    depth = 0
    for row in rows:
        if len(row) + 1 > chars:
            return fitting + ["", "</details>"] * depth, True
        chars -= len(row) + 1
        depth += row.startswith("<details>") - (row == "</details>")
        fitting.append(row)
    return fitting, False


def _squeeze_blank_rows(rows: Iterable[str]) -> Iterator[str]:
    return (row for before, row in pairwise(chain([""], rows)) if row or before)


def _sections(report: Report) -> Iterator[str]:
    for section in report.sections:
        if not section.items:
            continue
        heading = _phrase(section.heading)
        yield ""
        if heading and section.open_items != 0:
            yield from (f"#### {heading}", "")
        if section.subject:
            yield from (f"**{_phrase(section.subject)}** in {markdown_code(format_location(section.location))}", "")
        if section.note:
            yield from (". ".join(f"{label}: {_phrase(value)}" for label, value in section.note), "")
        items = iter(section.items)
        for item in islice(items, section.open_items):
            yield from _item(item, section)
        if section.open_items is not None and len(section.items) > section.open_items:
            summary = f"{len(section.items) - section.open_items:,} more" if section.open_items else heading
            # The blank lines keep Markdown alive inside HTML.
            yield from ("", f"<details><summary>{summary}</summary>", "")
            for item in items:
                yield from _item(item, section)
            yield from ("", "</details>", "")


def _item(item: Item, section: Section) -> Iterator[str]:
    label = f"**{item.label}**" if item.label and not (section.heading and section.labelled) else ""
    head = " ".join(filter(None, (label, _phrase(item.subject))))
    yield f"- {': '.join(filter(None, (head, _phrase(join(', ', item.loss, item.text)))))}"
    for name, value in item.facts:
        yield f"  - {name}: {_phrase(value)}" if name else f"  - {_phrase(value)}"
    for child in item.children:
        yield f"  - {_phrase(child.text)}"


def _phrase(phrase: Phrase) -> str:
    return "".join(
        part.replace("->", "→") if isinstance(part, str) else _SPANS[part.style](part.text) for part in phrase
    )


_SPANS: dict[str, Callable[[str], str]] = {
    "name": markdown_code,
    "sentence": markdown_prose,
    "strong": lambda text: f"**{text.replace('->', '→')}**",
}
