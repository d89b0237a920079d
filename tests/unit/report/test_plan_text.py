"""A plan on a terminal. The golden cases show complete plans; these tests cover other details."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from reconciler.model.names import Address
from reconciler.model.plan import Plan
from reconciler.report.terminal import wrapped
from reconciler.report.tree import cause_of
from tests import rendering as report
from tests.strategies import plans as made
from tests.strategies.examples import blocked, election, plan, purge, removal, waiting


def lines(example: Plan, **how: object) -> list[str]:
    return [line.plain for line in report.text(example, **how)]  # type: ignore[arg-type]


def test_no_sign_stands_for_a_word() -> None:
    """A screen reader reads words; `-`, `~` and `!` once stood for what an action does."""
    for full in (True, False):
        text_lines = lines(plan(purge(), removal(), election(), blocked(), waiting("LeaderPolicy/all/z[0]")), full=full)
        assert not any(re.match(r"\s*[^\w\s\"'(]", line) or " -> " in line or "→" in line for line in text_lines)


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
    wrapped_lines = [line.plain for line in wrapped(f"  {text}", width=width)]
    assert " ".join(line.strip() for line in wrapped_lines) == text
    assert all(line.startswith("  ") for line in wrapped_lines)


def test_wide_characters_count_twice() -> None:
    """Columns of a terminal are cells, not characters."""
    wrapped_lines = [line.plain for line in wrapped("消费者 消费者", width=12)]
    assert wrapped_lines == ["消费者", "    消费者"]
