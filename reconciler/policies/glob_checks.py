"""Globs with two readings: refused, since the other reading may be the one that was meant.

A glob is `*`, `?`, `[…]` and `[!…]`, as Python's fnmatch reads it. Shells, regular expressions and other tools read some texts otherwise, and a
pattern of `protect` that matches nothing looks just like one that protects.
"""

import re

_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}")


def brace_error(name: str) -> tuple[str, str] | None:
    """As `misread`, of a text without any of `*?[`: `billing-{eu,us}` would mean, and protect, that very name and no `billing-eu`."""
    if not _BRACES.search(name):
        return None
    return "{a,b} is no choice here", f"one selector for each, or regex:{re.escape(name)} for just that name"


def ambiguous_glob(text: str) -> tuple[str, str] | None:
    """What of `text`, which holds at least one of `*?[`, somebody may read otherwise, and what to write; None: it has one reading."""
    if "\\" in text:
        return "a glob has no escapes, and this one holds a backslash", "write [*] for a star, or regex:…"
    if _BRACES.search(text):
        return "a glob has no {a,b}", "one selector for each, or regex:…"
    index = 0
    while (start := text.find("[", index)) >= 0:
        end = _end_of_set(text, start)
        if end < 0:
            return "a glob with `[` and no `]`", "write [[] for the bracket itself"
        inside = text[start + 1 : end]
        if inside.startswith("^"):
            return "in a glob `[^…]` holds the character `^`, and elsewhere means none of these", "write [!…]"
        if any(opening in inside for opening in ("[:", "[.", "[=")):
            return "a glob has no classes such as [:digit:]", "write [0-9]"
        if backwards := _backwards(inside.removeprefix("!")):
            return f"a range that ends before it begins: {backwards}", "write the lower end first"
        index = end + 1
    return None


def _end_of_set(text: str, start: int) -> int:
    """Index of the `]` that closes the set opened at `start`, -1 where none does; a `]` in first place stands for itself."""
    first = start + 1 + text.startswith("!", start + 1)
    return text.find("]", first + text.startswith("]", first))


def _backwards(inside: str) -> str:
    index = 0
    while index < len(inside):
        if inside[index + 1 : index + 2] == "-" and index + 2 < len(inside):
            if inside[index] > inside[index + 2]:
                return inside[index : index + 3]
            index += 3
        else:
            index += 1
    return ""
