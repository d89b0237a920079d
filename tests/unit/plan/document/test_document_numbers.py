"""Single values of a plan file, and numbers as people read them, at their edges."""

import pytest

from reconciler.model.names import Address
from reconciler.plan.document import checks
from reconciler.plan.document.parse import RowParser
from reconciler.text import formatting


@pytest.mark.parametrize("value", [True, "1", None, [1], float("inf"), float("-inf"), float("nan")])
def test_a_limit_is_a_finite_number(value: object) -> None:
    """`true` is not 1, and what has no end bounds nothing."""
    with pytest.raises(ValueError, match="expected a"):
        checks.number(value, "limit")


def test_numbers_keep_their_kind() -> None:
    """Written again, the same text: 50 stays 50, and 50.0 stays 50.0."""
    assert type(checks.number(50, "limit")) is int
    assert type(checks.number(50.0, "limit")) is float


@pytest.mark.parametrize("value", [{}, (), "a", None])
def test_a_list_is_a_list(value: object) -> None:
    """A text is no list of letters."""
    with pytest.raises(ValueError, match="expected a list"):
        checks.array(value, "targets")


@pytest.mark.parametrize("ms", [0, 1, 999, 1_000, 1_795_255_200_123, -1, -62_135_596_800_000, 253_402_300_799_999])
def test_instants_are_exact(ms: int) -> None:
    """No floating point on the way: the first and the last millisecond of the calendar come back."""
    assert checks.instant_ms(checks.instant(ms), "at") == ms


@pytest.mark.parametrize("ms", [-62_135_596_800_001, 253_402_300_800_000, 10**30])
def test_instants_outside_the_calendar_are_refused_and_still_shown(ms: int) -> None:
    """A header cannot hold them; a timestamp from a log is shown as the number it is."""
    with pytest.raises(ValueError, match="years 1 to 9999"):
        checks.instant(ms)
    assert formatting.format_time(ms) == f"{ms} ms since 1970"


def test_shared_values_do_not_grow_without_bound() -> None:
    """A plan with a reason of its own for each of its actions is read in bounded memory."""
    rows = RowParser()
    for number in range(5_000):
        assert rows.address(f"GroupRemoval/a/{number}") == Address("GroupRemoval", "a", str(number))
    assert len(rows._shared) <= 4_096


@pytest.mark.parametrize(
    ("ms", "told"),
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
def test_durations_have_two_neighbouring_units(ms: int, told: str) -> None:
    """A day and five seconds is a day."""
    assert formatting.approximate_duration(ms) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [(0, "0.0 %"), (0.04, "under 0.1 %"), (39.04, "39.0 %"), (99.96, "over 99.9 %"), (100, "100.0 %")],
)
def test_a_share_is_not_rounded_to_nothing_or_to_all(value: float, told: str) -> None:
    """99.96 % is not everything, and one record of a million is not none."""
    assert formatting.percent(value) == told
