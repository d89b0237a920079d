"""Reads catalogues of codes: Markdown files of the package, one section for each code."""

import re
from collections.abc import Iterator
from importlib.resources import files

_SECTION = re.compile(r"^## (\S+) (?:\((\w+)\) )?(.+)\n\n((?:.+\n)+)", re.MULTILINE)


def read_catalogue(package: str, name: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield code, word in brackets (or nothing), title and paragraph of each section of a file."""
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    return ((code, word, title, " ".join(paragraph.split())) for code, word, title, paragraph in _SECTION.findall(text))
