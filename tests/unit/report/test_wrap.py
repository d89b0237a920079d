"""Where lines are broken."""

import pytest

from reconciler.report.terminal import two_columns

LEFT, RIGHT = "  reads everything", "by member"


def columns(width: int | None) -> list[str]:
    return [line.plain for line in two_columns(LEFT, RIGHT, width=width)]


@pytest.mark.parametrize(("width", "gap"), [(None, 3), (40, 13), (29, 2)])
def test_two_columns_fit_on_one_line_with_two_blanks_between(width: int | None, gap: int) -> None:
    """The right column is at the edge; without a width, three blanks are between them."""
    assert columns(width) == [LEFT + " " * gap + RIGHT]


def test_two_columns_that_do_not_fit_are_separate_lines() -> None:
    """With one blank between them they would look like one column. Each breaks at the width."""
    assert columns(28) == [LEFT, "      by member"]
    assert columns(12) == ["  reads", "      everything", "      by", "          member"]
