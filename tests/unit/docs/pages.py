"""Reads files of this repository, and compares the generated parts of a page with what the program writes now."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tools.generate_docs import fill_sections

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def read(path: str | Path) -> str:
    """Return the text of a file, relative to the root of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def code_blocks(page: str | Path, language: str) -> list[str]:
    """Return the text of each fenced block of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE)


def fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip()}\n```\n"


def assert_fresh(page: Path, sections: Mapping[str, str]) -> None:
    """Fail if a part of the page is stale; with UPDATE_DOCS=1, write it instead."""
    fresh = fill_sections(read(page), sections)
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(fresh, encoding="utf-8")
    assert read(page) == fresh, f"{page.name} is stale: UPDATE_DOCS=1 pytest with this test"
