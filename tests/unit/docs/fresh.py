"""Compares the generated parts of a page with what the program writes now."""

import os
from collections.abc import Mapping
from pathlib import Path

from tools.generate_docs import fill_sections


def assert_fresh(page: Path, sections: Mapping[str, str]) -> None:
    """Fail if a part of the page is stale; with UPDATE_DOCS=1, write it instead."""
    fresh = fill_sections(page.read_text(encoding="utf-8"), sections)
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(fresh, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == fresh, f"{page.name} is stale: UPDATE_DOCS=1 pytest with this test"
