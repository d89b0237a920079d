"""Reads catalogues of codes: Markdown files of the package, one section for each code."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

_SECTION = re.compile(r"^## (\S+) (?:\((\w+)\) )?(.+)\n\n((?:.+\n)+)", re.MULTILINE)


class Entry(NamedTuple):
    """A code, the word in brackets behind it (or nothing), its title, and a paragraph of Markdown."""

    code: str
    word: str
    title: str
    explanation: str


def read_catalogue(package: str, name: str) -> Mapping[str, Entry]:
    """Return the section of each code of a file, in the order of the file."""
    sections = _SECTION.findall(files(package).joinpath(name).read_text(encoding="utf-8"))
    return {code: Entry(code, word, title, " ".join(text.split())) for code, word, title, text in sections}
