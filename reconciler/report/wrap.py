"""Lines no wider than a terminal, broken at spaces only: a name that does not fit sticks out rather than come apart."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text


def line(text: str, style: str = "") -> Text:
    """One line of that style; nothing in the text is markup."""
    return Text(text, style=style, end="")


def wrapped(text: str, *, width: int | None, style: str = "", indent: str = "    ") -> Iterator[Text]:
    """The text in lines of at most `width` cells, those after the first indented. Leading spaces are kept."""
    if width is None or cell_len(text) <= width:
        yield line(text, style)
        return
    body = text.lstrip(" ")
    first = text[: len(text) - len(body)]
    rest = first + indent
    current, room = first, width - len(first)
    empty = True
    for word in body.split(" "):
        size = cell_len(word)
        if not empty and size + 1 > room:
            yield line(current.rstrip(" "), style)
            current, room, empty = rest, width - len(rest), True
        if empty:
            current += word
            room -= size
            empty = False
        else:
            current += " " + word
            room -= size + 1
    yield line(current, style)


def two_columns(left: str, right: str, *, width: int | None, style: str = "") -> Iterator[Text]:
    """`left` and, at the right edge, `right`; on two lines where both do not fit."""
    gap = 3 if width is None else width - cell_len(left) - cell_len(right)
    if gap >= 2:
        yield line(f"{left}{' ' * gap}{right}", style)
        return
    yield from wrapped(left, width=width, style=style)
    yield from wrapped(f"      {right}", width=width, style=style)
