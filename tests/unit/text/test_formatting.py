"""The rendering of numbers, times and names, with edge cases."""

import pytest

from reconciler.text import escape, formatting

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (61_000, "1 min 1 s"),
        (90_000, "1 min 30 s"),
        (DAY, "1 d"),
        (DAY + 5 * SECOND, "1 d"),
        (DAY + MINUTE, "1 d"),
        (DAY + HOUR + MINUTE + SECOND, "1 d 1 h"),
        (9 * DAY + 14 * HOUR + 59_000, "9 d 14 h"),
    ],
)
def test_durations_have_two_neighbouring_units_at_most(ms: int, words: str) -> None:
    assert formatting.approximate_duration(ms) == words


@pytest.mark.parametrize(("ms", "words"), [(6_000, "in 1 s"), (5_000, "0 ms ago"), (3_000, "2 s ago")])
def test_until_works_for_past_and_future(ms: int, words: str) -> None:
    assert formatting.until(ms, now_ms=5_000) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        # 99.96 % is not 100 %, and one record of a million is not 0 %.
        (0.0, "0.0 %"),
        (0.04, "under 0.1 %"),
        (0.09, "under 0.1 %"),
        (0.1, "0.1 %"),
        (0.3, "0.3 %"),
        (1.0, "1.0 %"),
        (1.1, "1.1 %"),
        # A plan once said `up to 26.2 % of the cluster` of 26.25 %, and `recordsPercent 26.3` below.
        (12.14, "12.2 %"),
        (26.25, "26.3 %"),
        (39.04, "39.1 %"),
        (40, "40.0 %"),
        (99.9, "99.9 %"),
        (99.95, "over 99.9 %"),
        (99.96, "over 99.9 %"),
        (100, "100.0 %"),
    ],
)
def test_a_share_is_never_rounded_down_or_to_all(value: float, words: str) -> None:
    assert formatting.percent(value) == words


@pytest.mark.parametrize(
    ("value", "limit", "rounded"),
    [
        (100 / 7, 50, 14.3),
        # A plan within its limit once said `14.3 of 14.29 %`.
        (100 / 7, 14.29, 14.29),
        (100 / 7, 14.2858, 14.2858),
        (14.29, 14.29, 14.29),
        (14.291, 14.29, 14.3),
        (33.31, 33.3, 33.4),
        (50.00000000001, 50, 50.001),
        (0.04, 0.05, 0.04),
        (3, 3, 3),
    ],
)
def test_a_rounded_share_is_on_the_same_side_of_its_limit(value: float, limit: float, rounded: float) -> None:
    assert formatting.round_up(value, limit) == rounded


def test_a_number_of_any_size_can_be_rounded() -> None:
    """A plan file may hold 1e308, ten times of which is not a number: the page of such a plan failed."""
    assert [formatting.round_up(value) for value in (1e308, -1e308)] == [1e308, -1e308]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (1_500, "1.5s"),
        (90_000, "90s"),
        (120_000, "2m"),
        (2 * HOUR, "2h"),
        (7 * DAY, "7d"),
        (1_234_567_000, "1234567s"),
    ],
)
def test_a_manifests_duration_keeps_all_its_digits(ms: int, text: str) -> None:
    """The shortest text, and never `1.23457e+06s`, which no manifest may say."""
    assert formatting.format_duration(ms) == text


@pytest.mark.parametrize(
    ("names", "words"), [("abc", "a, b, c"), ("abcd", "a, b, c and 1 more"), ("abcdefg", "a, b, c and 4 more")]
)
def test_some_names_and_how_many_more(names: str, words: str) -> None:
    assert formatting.first_few(list(names)) == words


def test_characters_that_split_a_workflow_command_are_escaped() -> None:
    """GitHub's runner ends a property at a colon or a comma, and a command at its line."""
    assert escape.command_property("a:b,c%d") == "a%3Ab%2Cc%25d"
    assert escape.command_data("100 %") == "100 %25"
