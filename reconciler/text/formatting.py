"""Numbers, times and counted nouns as people read them. No clock: ages are relative to an instant that the caller names."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 partition`, `1,200 partitions`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(ms: int) -> str:
    """The two largest units: `9 d 14 h`, `12 s`, `250 ms`."""
    if ms < 1000:
        return f"{ms} ms"
    left = ms // 1000
    parts = []
    for unit, seconds in _UNITS:
        if left >= seconds:
            parts.append(f"{left // seconds} {unit}")
            left %= seconds
        elif parts:
            break
    return " ".join(parts[:2])


def instant(ms: int) -> str:
    """RFC 3339 in UTC, exact to the millisecond. Raises ValueError for an instant outside the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        raise ValueError(f"{ms} ms since 1970 is not an instant of the years 1 to 9999") from None
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")


def format_time(ms: int) -> str:
    """An instant in UTC, seconds; as a bare number where no calendar has it (timestamps in a log are not always times)."""
    try:
        return instant(ms - ms % 1000)
    except ValueError:
        return f"{ms} ms since 1970"


def until(ms: int, *, now_ms: int) -> str:
    """`in 12 s` or `12 s ago`."""
    return f"in {duration(ms - now_ms)}" if ms > now_ms else f"{duration(now_ms - ms)} ago"


def percent(value: float) -> str:
    """One decimal, and neither 0.0 nor 100.0 for what is not quite so."""
    if 0 < value < 0.1:
        return "under 0.1 %"
    return "over 99.9 %" if 99.9 < value < 100 else f"{value:.1f} %"


def span(low: int, high: int) -> str:
    """`7`, or `3..7`."""
    return str(low) if low == high else f"{low}..{high}"


def first_few(names: list[str], *, limit: int = 3) -> str:
    """The first few of a list: `a, b, c and 4 more`."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit:,} more"


def sentence(text: str) -> str:
    """With a full stop, unless it ends in a mark of its own."""
    return text if text.endswith((".", "?", "!")) else f"{text}."
