"""Formats numbers, times and counted nouns for people. The caller gives the present time."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WITHOUT_TENTHS = 1e12
DAY_MS = 86_400_000
_UNITS_MS = (("d", DAY_MS), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 partition`, `1,200 partitions`. `plural`: where it is not the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count_partitions(partitions: int, topics: int) -> str:
    """`1 partition`, `12 partitions of 3 topics`."""
    return count(partitions, "partition") + (f" of {count(topics, 'topic')}" if partitions > 1 else "")


def format_duration(ms: int) -> str:
    """The shortest manifest text of a duration: `7d`, `90s`, `1.5s`; inverse of `duration_ms`."""
    for unit, unit_ms in _UNITS_MS:
        if ms and ms % unit_ms == 0:
            return f"{ms // unit_ms}{unit[0]}"
    return f"{ms / 1000:.15g}s"


def approximate_duration(ms: int) -> str:
    """The two largest units: `9 d 14 h`, `12 s`, `250 ms`."""
    if ms < 1000:
        return f"{ms} ms"
    parts: list[str] = []
    for unit, unit_ms in _UNITS_MS:
        number, ms = divmod(ms, unit_ms)
        if number or parts:
            parts.append(f"{number} {unit}" if number else "")
    return " ".join(filter(None, parts[:2]))


def format_exact_instant(ms: int) -> str:
    """RFC 3339 in UTC (`Z`); milliseconds only if any. Raises ValueError outside years 1-9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        raise ValueError(f"{ms} ms since 1970 is not an instant of the years 1 to 9999") from None
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")


def format_instant(ms: int, *, unit_ms: int = 1) -> str:
    """`format_exact_instant`, or a bare number: producers write any timestamp into records."""
    try:
        return format_exact_instant(ms - ms % unit_ms)
    except ValueError:
        return f"{ms} ms since 1970"


def format_time(ms: int) -> str:
    """`format_instant` in whole seconds."""
    return format_instant(ms, unit_ms=1000)


def until(ms: int, *, now_ms: int) -> str:
    """`in 12 s` or `12 s ago`."""
    return f"in {approximate_duration(ms - now_ms)}" if ms > now_ms else f"{approximate_duration(now_ms - ms)} ago"


def percent(value: float) -> str:
    """One decimal, rounded up, and neither 0.0 nor 100.0 for what is not quite so."""
    if 0 < value < 0.1:
        return "under 0.1 %"
    return "over 99.9 %" if 99.9 < value < 100 else f"{round_up(value):.1f} %"


def round_up(value: float, limit: float = math.inf) -> float:
    """Round up to a tenth, or to more digits where only they show on which side of `limit` the value is.

    The noise of a division (1.1 * 10 is 11.000000000000002) is not a share. A number of a plan file may be
    of any size, and a large one has no tenths.
    """
    if abs(value) >= _WITHOUT_TENTHS:
        return value
    rounded = (math.ceil(value * scale - 1e-9) / scale for scale in (10, 100, 1_000, 10_000, 100_000))
    return next((number for number in rounded if (number > limit) == (value > limit)), value)


def use_of_limit(value: float | None, limit: float) -> str:
    """`3 of 50`, `13.1 of 50`, `14.29 of 14.29`, `not known of 50`: without the unit."""
    used = "not known" if value is None else f"{round_up(value, limit):,.15g}"
    return f"{used} of {limit:,.15g}"


def broker_ids(ids: Iterable[int]) -> str:
    """`1,2,3`, or `none`."""
    return ",".join(map(str, ids)) or "none"


def first_few(names: list[str], *, limit: int = 3) -> str:
    """The first few of a list: `a, b, c and 4 more`."""
    first = ", ".join(names[:limit])
    return first if len(names) <= limit else f"{first} and {len(names) - limit:,} more"
