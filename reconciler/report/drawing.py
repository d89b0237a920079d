"""Draws bars, rulers of offsets and spreads as SVG, for pages of the HTML report.

Lengths are percents of the width, so that a drawing fits a phone and its text keeps its size. Colors
are classes of the page's stylesheet. svg.py escapes nothing: every text passes `_text`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import svg
from markupsafe import Markup, escape

from reconciler.model.description import OffsetMove
from reconciler.text.escape import quoted

GROUPS_MAX = 5
"""Groups that one ruler draws, those that skip most; the text beside it counts the others."""
_LEAST = 0.6
"""Percent of the width that keeps a small share visible."""
_NAME_MAX = 16
"""Characters of a group's name inside a drawing; the text below it has the name in full."""
_BAR_PX, _RULER_PX, _LANE_PX = 14, 44, 22


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: how much, and its class in the stylesheet, which the legend explains."""

    amount: float
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Segments beside each other, out of `total`. `mark`: an amount at which a line stands."""

    segments: tuple[Segment, ...]
    total: float
    mark: float | None = None


def draw_bar(bar: Bar) -> Markup:
    """Draw a bar. The text beside it says the same, so that a screen reader needs no drawing."""
    shapes: list[svg.Element] = [_rect(0, 100, y=2, height=_BAR_PX - 4, style="track")]
    start = 0.0
    for segment in bar.segments:
        share = _share(segment.amount, bar.total)
        if share:
            shapes.append(_rect(start, max(share, _LEAST), y=2, height=_BAR_PX - 4, style=segment.style))
            start += share
    if bar.mark is not None:
        shapes.append(_line(_share(bar.mark, bar.total), 0, _BAR_PX, "mark"))
    return _drawing(shapes, height=_BAR_PX)


def draw_ruler(move: OffsetMove) -> Markup:
    """Draw the offsets of one partition: those deleted and those that remain.

    A lane for each group that stands below the new start shows what it skips.
    """
    new_start, bar_y, bar_px = _at(move, move.new_start), 16, 12
    skips = move.skips[:GROUPS_MAX]
    height = _RULER_PX + _LANE_PX * len(skips)
    shapes: list[svg.Element] = [
        _rect(0, max(new_start, _LEAST), y=bar_y, height=bar_px, style="deleted"),
        _rect(new_start, 100 - new_start, y=bar_y, height=bar_px, style="remaining"),
        _line(new_start, bar_y - 3, height if skips else bar_y + bar_px + 3, "mark"),
        _text(f"new start {move.new_start:,}", at=new_start, y=11),
        _text(f"{move.log_start:,}", at=0, y=_RULER_PX - 4, style="quiet"),
        _text(f"end {move.high_watermark:,}", at=100, y=_RULER_PX - 4, style="quiet"),
    ]
    if move.last_stable_offset < move.high_watermark:
        shapes.append(_line(_at(move, move.last_stable_offset), bar_y, bar_y + bar_px, "stable"))
    for number, (group, committed, _skipped) in enumerate(skips):
        position, top = _at(move, committed), _RULER_PX + _LANE_PX * number
        shapes += [
            _text(f"{_shorten(quoted(group))} {committed:,}", at=position, y=top + 11, style="group"),
            _rect(position, max(new_start - position, _LEAST), y=top + 14, height=4, style="skip"),
            _line(position, top + 12, top + 20, "position"),
        ]
    return _drawing(shapes, height=height)


def draw_spread(amounts: Sequence[int]) -> Markup:
    """Draw least, quartiles and most of many partitions' amounts: a line, and a box on its middle."""
    ordered = sorted(amounts)
    most = ordered[-1]
    least, low, middle, high, _most = (_share(ordered[(len(ordered) - 1) * part // 4], most) for part in range(5))
    shapes: list[svg.Element] = [
        _rect(0, 100, y=2, height=_BAR_PX - 4, style="track"),
        _rect(least, 100 - least, y=_BAR_PX // 2 - 1, height=2, style="deleted"),
        _rect(low, max(high - low, _LEAST), y=2, height=_BAR_PX - 4, style="deleted"),
        _line(middle, 0, _BAR_PX, "mark"),
    ]
    return _drawing(shapes, height=_BAR_PX)


def _at(move: OffsetMove, offset: int) -> float:
    """Return the place of an offset; one below the log start stands at the log start."""
    return _share(max(0, offset - move.log_start), move.high_watermark - move.log_start)


def _share(amount: float, total: float) -> float:
    return min(100.0, 100.0 * amount / total) if total > 0 else 0.0


def _shorten(text: str) -> str:
    return text if len(text) <= _NAME_MAX else f"{text[: _NAME_MAX - 1]}…"


def _percent(value: float) -> svg.Length:
    return svg.Length(round(value, 2), "%")


def _rect(at: float, width: float, *, y: int, height: int, style: str) -> svg.Rect:
    return svg.Rect(x=_percent(at), y=y, width=_percent(min(width, 100 - at)), height=height, class_=[style])


def _line(at: float, top: int, bottom: int, style: str) -> svg.Line:
    return svg.Line(x1=_percent(at), x2=_percent(at), y1=top, y2=bottom, class_=[style])


def _text(text: str, *, at: float, y: int, style: str = "label") -> svg.Text:
    """Text that begins at its place, or ends there where the space to the right may be too small."""
    is_left = at <= 40
    return svg.Text(
        text=str(escape(text)),
        x=_percent(at),
        y=y,
        dx=3 if is_left else -3,
        text_anchor="start" if is_left else "end",
        class_=[style],
    )


def _drawing(shapes: list[svg.Element], *, height: int) -> Markup:
    drawing = svg.SVG(width=svg.Length(100, "%"), height=height, elements=shapes, extra={"aria-hidden": "true"})
    return Markup(str(drawing))  # noqa: S704  only numbers, our own classes and escaped text
