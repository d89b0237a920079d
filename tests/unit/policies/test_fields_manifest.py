"""Durations and instants as text and as numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.policies.fields import duration_ms, instant_ms
from reconciler.text.formatting import format_duration, format_instant


@given(st.integers(0, 99_999), st.sampled_from("smhd"))
def test_durations_survive_their_text(count: int, unit: str) -> None:
    """The shortest text of a duration has the same value."""
    ms = duration_ms(f"{count}{unit}")
    assert duration_ms(format_duration(ms)) == ms


@given(st.integers(0, 4_102_444_800_000))
def test_instants_survive_their_text(ms: int) -> None:
    """The text of an instant has the same value, to the millisecond."""
    assert instant_ms(format_instant(ms)) == ms


@pytest.mark.parametrize("value", ["7", "7 d", "1.5d", "", "d", "-1d", 7, None, ["7d"]])
def test_other_durations_are_refused(value: object) -> None:
    """A number without a unit is refused."""
    with pytest.raises(ValueError, match="duration"):
        duration_ms(value)


@pytest.mark.parametrize("value", ["2026-11-01", "2026-11-01T00:00:00", "now", 7, None])
def test_other_instants_are_refused(value: object) -> None:
    """An instant without a zone would depend on the machine that reads it."""
    with pytest.raises(ValueError, match="instant"):
        instant_ms(value)
