"""Writes a report as lines of rich Text for a terminal or a CI log, readable at 80 columns.

cli/ decides whether a style becomes an escape code. Lines break at spaces: long names stick out.
"""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from reconciler.model.names import format_location
from reconciler.report.tree import Item, Report, Section, Severity
from reconciler.text.phrase import join, plain

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold magenta",
    Severity.LOSS: "bold red",
    Severity.CHANGE: "yellow",
    Severity.GOOD: "green",
    Severity.PLAIN: "",
    Severity.QUIET: "dim",
}
_LABEL_WIDTH = 12


def write_lines(report: Report, *, width: int | None = None) -> Iterator[Text]:
    """Lay a report out in lines of at most `width` cells; None or 0: of any width."""
    width, full = width or None, report.is_full
    opening = report.opening or report.headline
    has_totals = any(section.are_totals for section in report.sections)
    ending = report.summary or (report.headline if report.opening and not has_totals else ())
    footer = () if report.is_quiet else report.footer
    if opening:
        yield from wrapped(plain(opening), width=width, style="bold")
    sections = [section for section in report.sections if section.items and (full or not section.optional)]
    for number, section in enumerate(sections):
        continues = section.subject and not section.heading and not full
        if (opening or number) and not continues:
            yield line("")
        yield from _section(section, width=width, full=full)
    if (opening or sections) and (ending or report.next_steps or footer):
        yield line("")
    if ending:
        yield from wrapped(plain(ending), width=width, style="bold")
    for phrase in (*footer, *(("Next: ", *step) for step in report.next_steps)):
        yield from wrapped(plain(phrase), width=width)


def _section(section: Section, *, width: int | None, full: bool) -> Iterator[Text]:
    if section.heading and not section.labelled:
        yield from wrapped(plain(section.heading), width=width, style=_STYLES[section.severity] or "bold")
    margin, of_policy = "  ", ""
    if section.subject and full:
        yield from two_columns(
            f"  {plain(section.subject)}", format_location(section.location), width=width, style="dim"
        )
        if section.note:
            note = ": ".join(plain(value) for _label, value in section.note)
            yield from wrapped(f"  {note}", width=width, style="dim", indent="  ")
        margin = "    "
    elif section.subject and len(section.items) > 1:
        yield from wrapped(f"  {plain(section.subject)}", width=width, style="dim")
        margin = "    "
    elif section.name:
        of_policy = f" ({plain(section.name)})"
    for item in section.items:
        yield from _item(item, width=width, margin=margin, of_policy=of_policy)


def _item(item: Item, *, width: int | None, margin: str, of_policy: str) -> Iterator[Text]:
    subject, text, style = plain(item.subject), plain(join(", ", item.loss, item.text)), _STYLES[item.severity]
    if item.label:
        head = f"{item.label}: {' — '.join(filter(None, (subject, text)))}"
    else:
        head = f"{margin}{': '.join(filter(None, (f'{subject}{of_policy}', text)))}" if subject else text
    if head:
        yield from wrapped(head, width=width, style=style)
    for label, value in item.facts:
        # the indent counts from the leading spaces; without a label, they are as wide as the column
        indent = " " * (_LABEL_WIDTH + 1) if label else ""
        yield from wrapped(f"  {label:<{_LABEL_WIDTH}} {plain(value)}", width=width, indent=indent)
    for child in item.children:
        yield from wrapped(f"{margin}    {plain(child.text)}", width=width, style=_STYLES[child.severity])


def line(text: str, style: str = "") -> Text:
    """One line of that style; nothing in the text is markup."""
    return Text(text, style=style, end="")


def wrapped(text: str, *, width: int | None, style: str = "", indent: str = "    ") -> Iterator[Text]:
    """Break the text into lines of at most `width` cells, indented after the first."""
    if width is None or cell_len(text) <= width:
        yield line(text, style)
        return
    body = text.lstrip(" ")
    margin = text[: len(text) - len(body)]
    first, *words = body.split(" ")
    current = margin + first
    for word in words:
        if cell_len(current) + 1 + cell_len(word) > width:
            yield line(current.rstrip(" "), style)
            current = margin + indent + word
        else:
            current += f" {word}"
    yield line(current, style)


def two_columns(left: str, right: str, *, width: int | None, style: str = "") -> Iterator[Text]:
    """`left` and, at the right edge, `right`; on two lines where both do not fit."""
    gap = 3 if width is None else width - cell_len(left) - cell_len(right)
    if gap >= 2:
        yield line(f"{left}{' ' * gap}{right}", style)
        return
    yield from wrapped(left, width=width, style=style)
    yield from wrapped(f"      {right}", width=width, style=style)
