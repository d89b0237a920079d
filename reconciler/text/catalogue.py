"""Reads catalogues of codes: Markdown files of the package, one section for each code."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

_SECTION = re.compile(r"^## (\S+) (?:\((\w+)\) )?(.+)\n\n((?:.+\n)+)", re.MULTILINE)


class Entry(NamedTuple):
    """A code, its title, a paragraph of Markdown, and what that says to do next, in lower case.

    `next_step`: empty where it depends on the subject. `word`: in brackets behind the code; or nothing.
    """

    code: str
    title: str
    explanation: str
    next_step: str = ""
    word: str = ""


def read_catalogue(package: str, name: str) -> Mapping[str, Entry]:
    """Return the section of each code of a file, in the order of the file."""
    sections = _SECTION.findall(files(package).joinpath(name).read_text(encoding="utf-8"))
    return {code: _entry(code, word, title, " ".join(text.split())) for code, word, title, text in sections}


def _entry(code: str, word: str, title: str, paragraph: str) -> Entry:
    cause, _, next_step = paragraph.partition(" Next: ")
    explanation = f"{cause} {next_step[0].upper()}{next_step[1:]}." if next_step else cause
    return Entry(code, title, explanation, next_step, word)
