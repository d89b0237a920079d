"""docs/plan.md agrees with the program."""

import re
from pathlib import Path

from reconciler.model.block_reason import BLOCK_CODES
from reconciler.plan import plan_file
from reconciler.plan.plan_file import FORMAT_VERSION

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")


def test_every_code_is_listed() -> None:
    """The table of block codes has one row for each code, with its title."""
    catalogue = (ROOT / "docs" / "block-codes.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| \[(B\d{3})\]\S+ \| (.*) \|$", catalogue, re.MULTILINE))
    assert listed == {code: reason.title for code, reason in BLOCK_CODES.items()}


def test_every_field_of_the_header_is_explained() -> None:
    for name in plan_file.schema()["properties"]:
        assert f"`{name}`" in PAGE or name in ("kind", "$schema"), name
    assert f"`{FORMAT_VERSION}`" in PAGE
