"""The rendering of numbers, with edge cases."""

import pytest

from reconciler.text import formatting


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (90_000, "1 min 30 s"),
        (86_400_000, "1 d"),
        (86_405_000, "1 d"),
        (9 * 86_400_000 + 14 * 3_600_000 + 59_000, "9 d 14 h"),
    ],
)
def test_durations_have_two_neighbouring_units(ms: int, expected: str) -> None:
    """A day and five seconds is a day."""
    assert formatting.approximate_duration(ms) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0.0 %"),
        (0.04, "under 0.1 %"),
        (39.04, "39.1 %"),
        (99.96, "over 99.9 %"),
        (100, "100.0 %"),
        (1.1, "1.1 %"),
        (0.3, "0.3 %"),
    ],
)
def test_a_share_is_not_rounded_to_nothing_or_to_all(value: float, expected: str) -> None:
    """99.96 % is not 100 %, and one record of a million is not 0 %."""
    assert formatting.percent(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.04, "under 0.1 %"), (12.14, "12.2 %"), (26.25, "26.3 %"), (40, "40.0 %"), (99.96, "over 99.9 %")],
)
def test_an_upper_bound_is_never_rounded_down(value: float, expected: str) -> None:
    """A plan once said `up to 26.2 % of the cluster` of 26.25 %, and `recordsPercent 26.3` below."""
    assert formatting.percent(value) == expected


def test_a_number_of_any_size_can_be_rounded() -> None:
    """A plan file may hold 1e308, ten times of which is not a number: the page of such a plan failed."""
    assert [formatting.round_up(value) for value in (1e308, -1e308)] == [1e308, -1e308]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (1_500, "1.5s"), (90_000, "90s"), (120_000, "2m"), (7 * 86_400_000, "7d"), (1_234_567_000, "1234567s")],
)
def test_a_manifests_duration_keeps_all_its_digits(ms: int, text: str) -> None:
    """The shortest text, and never `1.23457e+06s`, which no manifest may say."""
    assert formatting.format_duration(ms) == text
