"""The table of block codes is complete and has no unused code."""

import re
from pathlib import Path

import reconciler
from reconciler.model.block_reason import BLOCK_CODES

SOURCES = [
    path
    for folder in ("model", "policies", "operations", "plan")
    for path in (Path(reconciler.__file__).parent / folder).rglob("*.py")
]


def test_the_table_has_exactly_the_codes_that_are_used() -> None:
    """`explain CODE` has a text for each code of a plan."""
    used = {
        code for path in SOURCES for code in re.findall(r'(?:code=|\bBlockReason\(\s*)"(B[0-9]{3})"', path.read_text())
    }
    assert used == set(BLOCK_CODES)


def test_codes_are_in_order_and_have_plain_texts() -> None:
    assert list(BLOCK_CODES) == sorted(BLOCK_CODES)
    for code, reason in BLOCK_CODES.items():
        assert re.fullmatch(r"B[1-9][0-9]{2}", code)
        assert reason.title
        assert not reason.title.endswith(".")
        assert reason.explanation.endswith(".")
        assert len(reason.explanation.split()) > 15
    assert BLOCK_CODES["B204"].title == "another group is behind the floor"


def test_codes_have_a_next_step_unless_it_depends_on_the_subject() -> None:
    """The planner words the next step of these codes: it names the policies or the numbers."""
    assert {code for code, reason in BLOCK_CODES.items() if not reason.next_step} == {"B105", "B107", "B306"}
