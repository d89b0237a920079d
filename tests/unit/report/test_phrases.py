"""The rendering of numbers, times and names, with edge cases."""

import pytest

from reconciler.text import escape, formatting

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (999, "999 ms"),
        (1_000, "1 s"),
        (61_000, "1 min 1 s"),
        (DAY + HOUR + MINUTE + 1_000, "1 d 1 h"),
        (DAY + MINUTE, "1 d"),
    ],
)
def test_a_duration_has_two_units_at_most(ms: int, words: str) -> None:
    assert formatting.approximate_duration(ms) == words


@pytest.mark.parametrize(("ms", "words"), [(6_000, "in 1 s"), (5_000, "0 ms ago"), (3_000, "2 s ago")])
def test_until_works_for_past_and_future(ms: int, words: str) -> None:
    assert formatting.until(ms, now_ms=5_000) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0.0 %"),
        (0.09, "under 0.1 %"),
        (0.1, "0.1 %"),
        (1.0, "1.0 %"),
        (99.9, "99.9 %"),
        (99.95, "over 99.9 %"),
        (100.0, "100.0 %"),
    ],
)
def test_a_share_is_never_rounded_to_zero_or_all(value: float, words: str) -> None:
    assert formatting.percent(value) == words


@pytest.mark.parametrize(
    ("names", "words"), [("abc", "a, b, c"), ("abcd", "a, b, c and 1 more"), ("abcdefg", "a, b, c and 4 more")]
)
def test_some_names_and_how_many_more(names: str, words: str) -> None:
    assert formatting.first_few(list(names)) == words


def test_characters_that_split_a_workflow_command_are_escaped() -> None:
    """GitHub's runner ends a property at a colon or a comma, and a command at its line."""
    assert escape.command_property("a:b,c%d") == "a%3Ab%2Cc%25d"
    assert escape.command_data("100 %") == "100 %25"
