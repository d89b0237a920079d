"""Durations and instants as text and as numbers."""

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
