"""Writes reports and their figures as one HTML page: no network, no script, no server.

The browser enforces that by a content security policy with the hash of the page's own stylesheet.
The templates escape every value; only the functions here return markup. The same documents give
the same bytes.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from reconciler.companions.html.drift import drift_figures
from reconciler.companions.html.figures import Chart, Figures, Tile, TopicRulers, shorten
from reconciler.companions.html.offsets import RULERS_MAX, WORST
from reconciler.companions.html.plan import plan_figures
from reconciler.companions.html.results import results_figures
from reconciler.model.names import format_address, format_location, format_subject
from reconciler.report.document import DRIFT, PLAN, RESULTS, SUGGESTIONS, Document, Kind, View
from reconciler.report.plan import OPEN_ITEMS, format_counts
from reconciler.report.tree import Items, Report, Section, Severity
from reconciler.text.escape import escape_sentence, escape_text, quoted
from reconciler.text.phrase import Phrase, Span, escaped_name, plain

PAGE_BYTES = 5_000_000
"""No page is larger, whatever it shows."""
_TEXT_BYTES = 1_200_000
"""Of all sections of one page; each may take at most a third of it."""
_HEAD_BYTES = 4_000
"""Room that a section needs to be shown at all: heading, owner and reason."""
_RULERS_BYTES = 800_000
"""Of all rulers of one page; topics beyond that are in the tables."""
_RULER_BYTES = 1_300
"""What a ruler takes; one with long names of groups takes more."""
_GROUPS_MAX = 5
"""Groups that one ruler draws, those that skip most; the text beside it counts the others."""
_OPEN_RULERS = 20
"""Rulers of a page before topics are folded."""
_REPORTS_MAX = 100
"""Reports of one page, such as one for each cluster."""
_LOADER = PackageLoader("reconciler.companions.html")
_TILES = {
    Severity.ERROR: ("error", ""),
    Severity.LOSS: ("item", "cannot be undone"),
    Severity.WARNING: ("warning", ""),
    Severity.CHANGE: ("change", ""),
    Severity.GOOD: ("item", "done"),
}
"""Nouns and labels of the tiles of a report without totals; other items are only in the list of all."""


class _Part(NamedTuple):
    """A laid out section, and the severities of what it shows.

    `is_urgent`: it stands above the figures, as it has an error, or neither heading nor subject. Without
    an error, mere changes stand below them: the figures draw those, too.
    """

    text: Markup
    severities: set[Severity]
    is_urgent: bool


_FIGURES: Mapping[Kind, Callable[[Sequence[Any], View], Sequence[Figures]]] = {
    PLAN: lambda plans, view: [plan_figures(plan, pages=view.pages) for plan in plans],
    RESULTS: lambda outcomes, _view: [results_figures(outcomes)],
    DRIFT: lambda reports, _view: drift_figures(reports),
    SUGGESTIONS: lambda figures, _view: figures,
}
"""Kind of a document → what draws its values; the pages of others show their reports only."""


def write_html(document: Document, view: View = View()) -> str:  # noqa: B008  immutable
    """Return the page of a document: of one or more reports, each with its figures, if any."""
    view = view._replace(stands_alone=True)
    reports = document.trees(view)
    none = [Figures()] * len(reports)
    figures = _FIGURES[document.kind](document.values, view) if document.values else none
    shown = list(zip(reports, figures, strict=True))
    documents = [
        _document(report, own, number, len(shown)) for number, (report, own) in enumerate(shown[:_REPORTS_MAX])
    ]
    environment = _environment()
    stylesheet = _LOADER.get_source(environment, "page.css")[0]
    digest = base64.b64encode(hashlib.sha256(stylesheet.encode()).digest()).decode()
    text: str = environment.get_template("page.html").render(
        title=escape_text(", ".join(report.title or plain(report.headline) or "report" for report in reports[:3])),
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        stylesheet=Markup(stylesheet),  # noqa: S704  a file of this package
        documents=documents,
        tiles=_tiles(shown),
        open_rows=OPEN_ITEMS,
        omitted_reports=len(shown) - len(documents),
    )
    return text


def _document(report: Report, figures: Figures, number: int, total: int) -> dict[str, Any]:
    prefix, share = (f"{number + 1}-", min(total, _REPORTS_MAX)) if total > 1 else ("", 1)
    parts, omitted = _parts(report, prefix, _TEXT_BYTES // share)
    rulers, omitted_topics = _rulers(figures.topics, prefix, _RULERS_BYTES // share)
    anchors = {topic.anchor for topic in figures.topics[: len(rulers)]}
    severities = set[Severity]().union(*(part.severities for part in parts))
    return {
        "prefix": prefix,
        "report": report,
        "charts": _with_unique_anchors(figures.charts, anchors),
        "anchors": anchors,
        "verdict": next((severity for severity in Severity if severity in severities), Severity.GOOD),
        "urgent": [part.text for part in parts if part.is_urgent],
        "parts": [part.text for part in parts if not part.is_urgent],
        "omitted_items": omitted,
        "rulers": rulers,
        "omitted_topics": omitted_topics,
    }


def _with_unique_anchors(charts: Sequence[Chart], anchors: set[str]) -> list[Chart]:
    """Return the charts without the anchors that are taken, and add theirs to `anchors`."""
    unique = []
    for chart in charts:
        rows = []
        for row in chart.rows:
            rows.append(replace(row, anchor="") if row.anchor in anchors else row)
            anchors.add(row.anchor)
        unique.append(replace(chart, rows=tuple(rows)))
    anchors.discard("")
    return unique


def _tiles(shown: Sequence[tuple[Report, Figures]]) -> list[tuple[Severity, list[Tile]]]:
    """Return the tiles by severity: those of the figures and the totals of the text, or counts of items."""
    tiles: dict[tuple[Severity, str], Tile] = {}
    for report, figures in shown:
        for tile in (*figures.tiles, *_totals(report)) or _count_items(report):
            key = tile.severity, tile.label
            if before := tiles.get(key):
                counts = Counter(before.counts) + Counter(tile.counts)
                detail = tile.detail if tile.detail == before.detail else ""
                tile = replace(before, counts=counts, detail=detail)
            tiles[key] = tile
    by_severity = {severity: [tile for key, tile in tiles.items() if key[0] is severity] for severity in Severity}
    return [(severity, same) for severity, same in by_severity.items() if same]


def _totals(report: Report) -> Iterator[Tile]:
    for item in (item for section in report.sections if section.are_totals for item in section.items if item.counts):
        text = plain(item.text)
        detail = "" if text == format_counts(item.counts) else text
        yield Tile(label=item.label.lower(), counts=item.counts, severity=item.severity, detail=detail)


def _count_items(report: Report) -> Iterator[Tile]:
    counts = {severity: Counter[str]() for severity in _TILES}
    for item in (item for section in report.sections for item in section.items if item.severity in _TILES):
        counts[item.severity].update(item.counts or {_TILES[item.severity][0]: 1})
    for severity, (_noun, label) in _TILES.items():
        if counts[severity]:
            yield Tile(label=label, counts=counts[severity], severity=severity)


def _parts(report: Report, prefix: str, room: int) -> tuple[list[_Part], int]:
    """Lay out the sections that fit into `room` bytes, and count the items of the others. Tiles show the totals."""
    parts: list[_Part] = []
    omitted, most = 0, room // 3
    for section in (section for section in report.sections if section.items and not section.are_totals):
        if room < _HEAD_BYTES:
            omitted += len(section.items)
            continue
        part = _part(section, f"{prefix}part-{len(parts) + 1}", min(room, most), report.remainder)
        room -= len(part.text.encode())
        parts.append(part)
    return parts, omitted


def _part(section: Section, anchor: str, room: int, remainder: Phrase) -> _Part:
    """Lay out a section, with the items that fit into `room` bytes, and count the others."""
    macros: Any = _environment().get_template("section.html").module
    shown: list[Markup] = []
    severities: set[Severity] = set()
    is_labelled = not (section.heading and section.labelled)
    for item in section.items:
        text = macros.item(item, is_labelled)
        room -= len(text.encode())
        if room < 0:
            break
        shown.append(text)
        severities |= {item.severity, *(c.severity for c in item.children if c.severity is not Severity.PLAIN)}
    number = len(section.items) - len(shown)
    most = "at most " if isinstance(section.items, Items) and not section.items.exact else ""
    open_items = OPEN_ITEMS if section.open_items is None else section.open_items
    text = macros.section(
        section,
        anchor,
        severities,
        shown[:open_items],
        shown[open_items:],
        f"{most}{number:,}" if number else "",
        remainder,
    )
    is_list = section.heading or section.subject or severities == {Severity.CHANGE}
    return _Part(text, severities, is_urgent=not is_list or Severity.ERROR in severities)


def _rulers(topics: Sequence[TopicRulers], prefix: str, room: int) -> tuple[list[Markup], int]:
    """Return the rulers of the topics that fit into `room` bytes, and how many topics do not.

    Many topics show fewer partitions each, so that most of them are there.
    """
    macros: Any = _environment().get_template("rulers.html").module
    most = room // _RULER_BYTES
    limit = next((n for n in (RULERS_MAX, WORST) if sum(min(len(topic.rulers), n) for topic in topics) <= most), 3)
    shown: list[Markup] = []
    drawn = 0
    for topic in topics:
        rulers = topic.rulers[:limit]
        text = macros.topic(topic, rulers, prefix, _GROUPS_MAX, drawn < _OPEN_RULERS)
        room -= len(text.encode())
        if room < 0:
            break
        shown.append(text)
        drawn += len(rulers)
    return shown, len(topics) - len(shown)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=_LOADER,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "phrase": _phrase,
        "percent": lambda value: f"{round(value, 2):g}%",
        "share": _share,
        "place": lambda offset, move: _share(max(0, offset - move.log_start), move.high_watermark - move.log_start),
        "quoted": quoted,
        "number": lambda number: f"{number:,}",
        "counts": format_counts,
        "location": format_location,
        "subject": lambda action: _phrase((escaped_name(format_subject(action.address)),)),
        "policy": lambda action: _phrase((escaped_name(format_address(action.address.policy_address)),)),
        "reason": lambda action: _phrase((shorten(action.reason),)),
        "classes": lambda severities: " ".join(f"is-{severity}" for severity in sorted(severities)),
        "quartile": lambda amounts, part: sorted(amounts)[(len(amounts) - 1) * part // 4],
    }
    return environment


def _share(amount: float, total: float) -> float:
    return min(100.0, 100.0 * amount / total) if total > 0 else 0.0


def _phrase(phrase: Phrase) -> Markup:
    """Return a phrase as markup: every part is escaped, whatever its author."""
    return Markup("").join(_arrow(part) if isinstance(part, str) else _span(part) for part in phrase)


def _span(span: Span) -> Markup:
    markup, escaped = _SPANS[span.style]
    text = markup.format(escaped(span.text))
    return Markup('<a href="{}">{}</a>').format(span.link, text) if span.link else text


def _arrow(text: str) -> Markup:
    return escape(text.replace("->", "→")).replace(" %", Markup("&nbsp;%"))


_SPANS: Mapping[str, tuple[Markup, Callable[[str], str]]] = {
    "name": (Markup("<code>{}</code>"), str),
    "sentence": (Markup("{}"), escape_sentence),
    "strong": (Markup("<strong>{}</strong>"), _arrow),
}
