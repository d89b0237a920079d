"""A plan on a terminal. The golden cases show complete plans; these tests cover other details."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from reconciler.model.names import Address
from reconciler.model.plan import Plan
from reconciler.report.terminal import two_columns, wrapped
from reconciler.report.tree import cause_of
from tests import rendering as report
from tests.strategies import plans as made
from tests.strategies.examples import blocked, election, plan, purge, removal, waiting


def test_no_sign_stands_for_a_word() -> None:
    """A screen reader reads words; `-`, `~` and `!` once stood for what an action does."""
    for full in (True, False):
        example = plan(purge(), removal(), election(), blocked(), waiting("LeaderPolicy/all/z[0]"))
        for line in report.plain(report.text(example, full=full)):
            assert not re.search(r"^\s*[^\w\s\"'(]| -> |→", line)


@pytest.mark.parametrize(
    ("address", "reason", "cause"),
    [
        (
            "RetentionFloor/a/orders[3]",
            "the log start of orders[3] could not be read",
            "the log start of … could not be read",
        ),
        (
            "RetentionFloor/a/orders[3]",
            "the records of my-orders[3] and orders[31]",
            "the records of my-orders[3] and orders[31]",
        ),
        ("RetentionFloor/a/orders[3]", "RetentionFloor/a/orders[3] is gone", "RetentionFloor/a/… is gone"),
        ("RetentionFloor/a/a.b", "a.b is compacted, as a.b.c is, not a.b.", "… is compacted, as a.b.c is, not …."),
        ("RetentionFloor/orders", "RetentionFloor/orders selects nothing", "RetentionFloor/orders selects nothing"),
        ("GroupRemoval/a/is", 'group "is" is STABLE', "group … is STABLE"),
        ('GroupRemoval/a/say "hi"', 'group "say \\"hi\\"" is STABLE', "group … is STABLE"),
        ("GroupRemoval/a/etl", "GroupRemoval/a/etl is gone", "GroupRemoval/a/… is gone"),
    ],
)
def test_a_cause_is_a_reason_without_its_subject(address: str, reason: str, cause: str) -> None:
    assert cause_of(reason, Address.parse(address)) == cause


@made.FEW
@given(made.plans(), st.booleans())
def test_lines_fit_into_eighty_columns_unless_a_name_does_not(example: Plan, full: bool) -> None:
    """Lines break at spaces; only a word that is too long exceeds the width."""
    for line in report.text(example, width=80, full=full):
        if cell_len(line.plain) > 80:
            words = line.plain.split()
            assert (
                len(words) == 1
                or line.plain.startswith("Digest ")
                or cell_len(line.plain) - cell_len(words[-1]) - 1 <= 80
            )
            assert any(cell_len(word) > 80 - 16 for word in words)


@made.FEW
@given(
    st.text(" ab", min_size=1, max_size=60).map(str.strip).filter(lambda text: text and "  " not in text),
    st.integers(8, 30),
)
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    """The lines, joined again, have the same words."""
    wrapped_lines = report.plain(wrapped(f"  {text}", width=width))
    assert " ".join(line.strip() for line in wrapped_lines) == text
    assert all(line.startswith("  ") for line in wrapped_lines)


def test_wide_characters_count_twice() -> None:
    """Columns of a terminal are cells, not characters."""
    assert report.plain(wrapped("消费者 消费者", width=12)) == ["消费者", "    消费者"]


LEFT, RIGHT = "  reads everything", "by member"


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        # The right column is at the edge; without a width, three blanks are between them.
        *((width, [LEFT + " " * gap + RIGHT]) for width, gap in ((None, 3), (40, 13), (29, 2))),
        # With one blank between them they would look like one column. Each breaks at the width.
        (28, [LEFT, "      by member"]),
        (12, ["  reads", "      everything", "      by", "          member"]),
    ],
)
def test_two_columns_have_two_blanks_between_them_or_a_line_each(width: int | None, lines: list[str]) -> None:
    assert report.plain(two_columns(LEFT, RIGHT, width=width)) == lines
