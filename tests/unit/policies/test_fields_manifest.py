"""Durations and instants as text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.policies.fields import duration_ms, instant_ms
from reconciler.text.formatting import format_duration, format_instant


@given(st.integers(0, 99_999), st.sampled_from("smhd"))
def test_durations_there_and_back(count: int, unit: str) -> None:
    """The shortest text of a duration means the same duration."""
    ms = duration_ms(f"{count}{unit}")
    assert duration_ms(format_duration(ms)) == ms


@given(st.integers(0, 4_102_444_800_000))
def test_instants_there_and_back(ms: int) -> None:
    """An instant's text means the same instant, to the millisecond."""
    assert instant_ms(format_instant(ms)) == ms


def test_words() -> None:
    """The shortest unit that is whole; below a second, seconds with a fraction."""
    assert [format_duration(ms) for ms in (0, 30_000, 90_000, 7_200_000, 86_400_000, 1_500)] == [
        "0s",
        "30s",
        "90s",
        "2h",
        "1d",
        "1.5s",
    ]


@pytest.mark.parametrize("value", ["7", "7 d", "1.5d", "", "d", "-1d", 7, None, ["7d"]])
def test_other_durations_are_refused(value: object) -> None:
    """A bare number has no unit."""
    with pytest.raises(ValueError, match="duration"):
        duration_ms(value)


@pytest.mark.parametrize("value", ["2026-11-01", "2026-11-01T00:00:00", "now", 7, None])
def test_other_instants_are_refused(value: object) -> None:
    """Without a zone an instant would depend on where it is read."""
    with pytest.raises(ValueError, match="instant"):
        instant_ms(value)
