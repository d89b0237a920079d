"""The HTML report: one harmless file of bounded size, whose pictures have the numbers of the document.

`make test-browser` looks at the same pages in a browser.
"""

import base64
import hashlib
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.apply import results as results_file
from reconciler.cli.app import run
from reconciler.companions.html.drift import drift_figures
from reconciler.companions.html.figures import ROWS_MAX, Bar
from reconciler.companions.html.offsets import RULERS_MAX, WORST
from reconciler.companions.html.page import PAGE_BYTES, write_html
from reconciler.companions.html.plan import plan_figures
from reconciler.companions.html.results import results_figures
from reconciler.companions.suggest.figures import suggest_figures
from reconciler.companions.suggest.findings import Suggestions
from reconciler.companions.suggest.report import suggest_report
from reconciler.model.names import Address, format_address, format_subject
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Blocked, Decision, Plan, Skipped, Source
from reconciler.operations import DeleteGroup, DeleteRecords
from reconciler.plan import drift, plan_file
from reconciler.plan.diff import compare
from reconciler.report.diff import diff_document
from reconciler.report.document import SUGGESTIONS, Document
from reconciler.report.drift import drift_document
from reconciler.report.plan import format_counts, plan_document, plan_report
from reconciler.report.results import results_document
from reconciler.report.tree import Item, Items, Report, Section, Severity
from reconciler.text.escape import display_name, escape_sentence, quoted
from reconciler.text.phrase import escaped_name, plain, sentence, strong
from tests.repeats import repeats
from tests.strategies import outcomes as ended
from tests.strategies import pages
from tests.strategies import plans as made
from tests.strategies.examples import blocked, election, plan, purge, removal, satisfied, waiting
from tests.strategies.facts import DAY
from tests.unit.apply.test_results import HEADER

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden" / "01-one-of-each-kind" / "plan.json"
ORDINARY_BYTES = 2_000_000
VOID = {"meta", "input", "rect", "line"}
"""Elements without an end tag; the two of SVG are written `<rect …/>`."""
_ELEMENTS = """
    html head title style body main header footer section nav div p h1 h2 h3 a b i small span strong
    code ul li details summary table thead tbody tr th td label svg text
    """
_ATTRIBUTES = """
    lang charset http-equiv content name id class type checked aria-label aria-hidden for href scope
    data-column open xmlns width height x y x1 x2 y1 y2 dx text-anchor
    """
ELEMENTS, ATTRIBUTES = VOID.union(_ELEMENTS.split()), frozenset(_ATTRIBUTES.split())
SOME = settings(made.FEW, max_examples=25)


class Page(HTMLParser):
    """A parsed page. Fails where elements do not nest, or where one can load or run anything."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.classes: Counter[str] = Counter()
        self.metas: dict[str, str] = {}
        self.style = ""
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        values = dict(attrs)
        assert ATTRIBUTES.issuperset(values), (tag, values)
        assert len(values) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values["href"] or ""] if "href" in values else []
        self.classes.update((values.get("class") or "").split())
        self.metas[values.get("http-equiv") or values.get("name") or ""] = values.get("content") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.words.append(data)

    def refuse(self, data: str) -> None:
        raise AssertionError(data)

    handle_comment = unknown_decl = handle_pi = refuse

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def read(text: str) -> Page:
    """Return the page, after checks that hold for every page."""
    page = Page(text)
    assert text.startswith("<!doctype html>\n<html lang=")
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert page.metas["Content-Security-Policy"] == policy
    assert page.metas["viewport"] == "width=device-width, initial-scale=1"
    assert text.index("Content-Security-Policy") < text.index("<style>")
    assert not re.search(r"url\(|@import|expression", page.style)
    assert len(set(page.ids)) == len(page.ids), [name for name, count in Counter(page.ids).items() if count > 1]
    for link in page.links:
        assert link.startswith("#")
        assert link[1:] in page.ids, link
    assert len(text.encode()) <= PAGE_BYTES
    assert "::" not in text.replace(page.style, ""), "a CI runner reads commands in its log"
    assert not re.search(r"^\s*::", page.style, re.MULTILINE), "a command begins its line"
    assert "##[" not in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00-\x08\x0b-\x1f\x7f]", text)
    return page


def drawn_of(bar: Bar) -> dict[str, float]:
    return {style: number for style, number in bar.segments.items() if number}


def of_plan(planned: Plan) -> str:
    return write_html(plan_document(planned))


def of_results(outcomes: list[Outcome]) -> str:
    return write_html(results_document(HEADER, outcomes, lambda: ""))


def of_suggestions(found: Suggestions) -> str:
    steps = ["reconciler plan first.yaml"]
    tree = suggest_report(found, next_steps=steps)
    return write_html(Document(kind=SUGGESTIONS, trees=lambda _view: [tree], values=[suggest_figures(found)]))


def of_drift(*reports: drift.DriftReport) -> str:
    return write_html(drift_document(reports))


@SOME
@given(made.plans(max_size=4))
def test_no_plan_makes_its_page_load_or_run_anything(planned: Plan) -> None:
    """Whatever its names, reasons, owners and paths are, the page has our elements only."""
    read(of_plan(planned))


@SOME
@given(made.plans(max_size=3), st.lists(ended.outcomes, max_size=4))
def test_no_result_drift_or_comparison_makes_its_page_load_or_run_anything(
    planned: Plan, outcomes: list[Outcome]
) -> None:
    read(of_results(outcomes))
    read(of_drift(drift.report(planned), drift.report(planned)))
    read(write_html(diff_document(compare(planned, replace(planned, decisions=())))))


def test_each_hostile_name_is_shown_escaped() -> None:
    """A reader sees the escaped text of each name, reason and owner, and the browser sees no markup."""
    page = read(of_plan(pages.hostile()))
    for text in pages.HOSTILE:
        assert re.sub(r"\s+", " ", escape_sentence(text)) in page.text, text
        assert f"{format_address(Address('GroupRemoval', text))}" in page.text
    assert "<script" not in page.source


def test_the_same_plan_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Sets and hashes of strings differ between processes; no page may show their order."""
    saved = tmp_path / "plan.json"
    plan_file.write(pages.ordinary(), saved)
    command = [sys.executable, "-m", "reconciler", "show", str(saved), "-o", "html"]
    outputs = {
        subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True, check=True, timeout=120
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {of_plan(plan_file.read(saved)).encode()}


@pytest.mark.parametrize(
    ("topics", "partitions", "most"),
    [(100, 50, ORDINARY_BYTES), (1, 5_000, ORDINARY_BYTES), (repeats(400, 4_000), 50, PAGE_BYTES)],
)
def test_a_large_plan_fits_and_says_what_is_left_out(topics: int, partitions: int, most: int) -> None:
    """A page for 20,000 partitions (200,000 in a long run) has all totals, and counts what it does not list."""
    planned = pages.large(topics, partitions)
    page = read(of_plan(planned))
    assert len(page.source.encode()) <= most
    figures = plan_figures(planned)
    removed = sum(action.records_removed_max(None) for action in planned.actions)
    assert f"at most {removed:,} records" in page.text
    assert f"{topics * partitions:,} partitions cannot be undone" in page.text
    for chart in figures.charts:
        assert len(chart.rows) <= ROWS_MAX
    by_topic = next(chart for chart in figures.charts if chart.anchor == "topics")
    listed = sum(int("".join(map(str, row.cells[1])).split()[0].replace(",", "")) for row in by_topic.rows if row.link)
    match = re.search(r"more topics: ([\d,]+) records", by_topic.rest)
    assert listed + (int(match[1].replace(",", "")) if match else 0) == removed
    drawn = page.source.count('<details class="f topic')
    match = re.search(r"and ([\d,]+) more topics, which are in the tables", page.text)
    assert drawn + (int(match[1].replace(",", "")) if match else 0) == topics
    if partitions > RULERS_MAX:
        assert 0 < page.classes["ruler"] <= WORST
        assert f"Of {partitions:,} partitions, the {WORST} worst" in page.text


def test_a_page_of_many_long_names_fits() -> None:
    """Names, owners and reasons of four bytes a character, in more rows than a page lists."""
    notes = tuple(
        replace(pages.hostile().notes[0], policy=Address("GroupRemoval", f"p{n:04}"), owner="\U0001f4a3" * 2_000)
        for n in range(1_000)
    )
    decisions = [removal("\U0001f4a3" * 90 + f"{n:04}", policy=f"p{n:04}") for n in range(1_000)]
    decisions += [
        blocked(f"RetentionFloor/b/t{n:04}[0]", code=f"B{n:03}", reason='"' * 2_000, next_step="<" * 2_000)
        for n in range(1_000)
    ]  # type: ignore[list-item]
    page = read(of_plan(plan(*decisions, notes=notes)))
    assert "700 more policies" in page.text.replace("701", "700")
    assert "1,000 more" not in page.text


def test_many_clusters_share_the_size_of_a_page() -> None:
    """Drift of more clusters than one page shows is counted, in the tiles, too."""
    report = drift.report(pages.ordinary())
    page = read(of_drift(*(replace(report, cluster=f"cluster-{number}") for number in range(120))))
    assert "… and 20 more reports" in page.text
    assert f"{120 * 14:,} partitions, {120 * 3:,} groups drift" in page.text


def test_a_ruler_shows_starts_ends_and_what_groups_skip() -> None:
    """Half of the log is removed; a group at a quarter skips a quarter, another stands before the log."""
    action = purge(
        log_start=1_000,
        before_offset=51_000,
        end=101_000,
        skips=[("billing", 26_000), ("early", 10), ("at-end", 51_000)],
    )
    page = read(of_plan(plan(action)))
    assert 'x="25%" y="80" width="25%" height="4"' in page.source
    assert 'x="0%" y="58" width="50%" height="4"' in page.source
    for words in (
        "new start 51,000",
        "end 101,000",
        '"billing" at 26,000 would skip 25,000',
        '"early" at 10 would skip 50,000',
    ):
        assert words in page.text
    assert "at-end" not in page.text
    assert "50,000 of 100,000 records removed at most, 50,000 kept" in page.text


def test_a_ruler_says_what_the_plan_does_not_hold() -> None:
    """The plan names the groups of unreadBy, and not where they stand: no mark is invented."""
    page = read(of_plan(pages.ordinary()))
    assert '"word-count" must have read up to the new start; the plan does not hold where they stand' in page.text


def test_the_worst_partitions_are_those_whose_groups_skip_most() -> None:
    """Above 50 partitions ten are drawn, and the spread of all."""
    few = [purge(partition=number, before_offset=2_000 + number) for number in range(RULERS_MAX + 1)]
    few[7] = purge(partition=7, before_offset=1_500, skips=[("billing", 1_100)])
    (topic,) = plan_figures(plan(*few)).topics
    assert [move.new_start for ruler in topic.rulers for _action, move in ruler] == [1_500, *range(2_050, 2_041, -1)]
    page = read(of_plan(plan(*few)))
    assert "least 500, a quarter up to 1,012, half up to 1,025, three quarters up to 1,037, most 1,050" in page.text


def test_partitions_whose_pictures_are_equal_are_drawn_once() -> None:
    """16 partitions of one look are one ruler; the numbers of each are in its fold, and the sums are theirs."""
    alike = [
        purge(partition=number, log_start=number, before_offset=50_100 + number, end=100_000) for number in range(16)
    ]
    (topic,) = plan_figures(plan(*alike)).topics
    assert [len(ruler) for ruler in topic.rulers] == [16]
    page = read(of_plan(plan(*alike)))
    records = sum(100_000 - number for number in range(16))
    assert f"16 partitions alike: {16 * 50_100:,} of {records:,} records removed at most" in page.text
    assert "orders[7]50,100750,107100,000" in page.text.replace(" ", "")


@pytest.mark.parametrize(
    "other",
    [
        purge(partition=1, before_offset=600_000, log_start=100_000, end=1_100_000),
        purge(partition=1, before_offset=600, log_start=100, end=1_100, skips=[("billing", 350)]),
        purge(partition=1, before_offset=600, log_start=100, end=1_100, last_stable_offset=850),
        purge(partition=1, before_offset=600, log_start=100, end=1_100, policy="others"),
        purge(partition=1, before_offset=600, log_start=100, end=1_100, reason="clamped: group billing is at 600"),
    ],
    ids=["a thousand times as large", "a group skips", "an open transaction", "another policy", "another cause"],
)
def test_what_only_looks_alike_is_drawn_apart(other: DeleteRecords) -> None:
    """Half of ten records looks like half of ten million, and a fold must hide neither that nor a group that skips."""
    one = purge(partition=0, before_offset=600, log_start=100, end=1_100)
    (topic,) = plan_figures(plan(one, other)).topics
    assert [len(ruler) for ruler in topic.rulers] == [1, 1]


def test_limits_have_one_scale() -> None:
    """A bar is the share of its limit, and all limits stand at the same place; one of 0 is exceeded by anything."""
    (chart,) = plan_figures(plan(limits=pages.limits(groups=10, uncleanElections=1))).charts
    bars = {plain(row.cells[0]): row.bars[0] for row in chart.rows}
    assert {(bar.mark, bar.total) for bar in bars.values()} == {(100, 125)}
    assert bars["groups"].segments == {"good": 50}
    assert bars["uncleanElections"].segments == {"exceeded": 125}
    texts = {plain(row.cells[0]): [plain(cell) for cell in row.cells[1:]] for row in chart.rows}
    assert texts == {"groups": ["10 of 20", "50.0 % of the limit"], "uncleanElections": ["1 of 0", ""]}


def _lab(color: str) -> tuple[float, float, float]:
    """Return a color as CIELAB, in which a distance is about what an eye sees."""
    linear = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (x / 255 for x in bytes.fromhex(color))
    ]
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    x, y, z = (sum(a * b for a, b in zip(row, linear, strict=True)) / w for row, w in zip(rows, white, strict=True))
    f = [t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def test_no_two_colors_of_the_pictures_look_alike() -> None:
    """Before, removed records and new leaders were orange and ochre. Light and dark, each pair is far apart."""
    style = read(of_plan(pages.ordinary())).style
    for mode in style.split("prefers-color-scheme")[:2]:
        names = ("deleted", "remaining", "skip", "blocked", "changed", "waiting", "done", "unread")
        colors = {name: _lab(re.search(rf"--{name}: #([0-9a-f]{{6}})", mode)[1]) for name in names}  # type: ignore[index]
        for one, other in combinations(names, 2):
            assert math.dist(colors[one], colors[other]) > 25, (one, other)


def test_bars_have_the_numbers_of_the_plan() -> None:
    """Removed, kept and blocked of each topic, the leaders before and after, the days that groups are idle."""
    figures = plan_figures(pages.ordinary())
    charts = {chart.anchor: chart for chart in figures.charts}
    (clicks, orders, _counts, payments) = charts["topics"].rows
    assert list(orders.bars[0].segments.items()) == [("deleted", 259_513), ("remaining", 374_487)]
    assert drawn_of(orders.bars[1]) == {"deleted": 3, "blocked": 3}
    assert orders.cells[2][-1] == "6 partitions: 3 blocked, 3 irreversible, 3 reversible"
    assert orders.bars[0].mark == pytest.approx(0.9 * 634_000)
    assert drawn_of(clicks.bars[1]) == {"deleted": 6}
    assert len(payments.bars) == 1, "no partition of it loses records"
    assert [(*row.cells[0], *row.cells[1]) for row in charts["leaders"].rows] == [
        ("broker 2 -> broker 1", "4 partitions"),
        ("broker 2 -> broker 3", "3 partitions"),
        ("broker 3 -> broker 1", "3 partitions"),
    ]
    groups = [(row.bars[0].segments["deleted"], row.bars[0].mark) for row in charts["groups"].rows]
    assert groups == [(days * 86_400_000, 7 * DAY) for days in (120, 31, 9)]
    assert [row.cells[0][0].text for row in charts["limits"].rows][:2] == ["topics", "recordsPercentPerTopic"]  # type: ignore[union-attr]


def test_records_that_named_groups_vouch_for_have_no_limit_mark() -> None:
    """The limits do not count them, so that a mark would say something else."""
    (chart,) = (chart for chart in plan_figures(pages.ordinary()).charts if chart.anchor == "topics")
    (row,) = (row for row in chart.rows if row.link == "offsets-counts-repartition")
    assert row.bars[0].mark is None
    consumed_by_named = next(
        action for action in pages.ordinary().actions if action.address.name == "counts-repartition"
    )
    both = plan(consumed_by_named, purge("counts-repartition", 1), limits=pages.limits())
    (chart,) = (chart for chart in plan_figures(both).charts if chart.anchor == "topics")
    assert chart.rows[0].bars[0].mark is None, "the limit counts one of two partitions"


@pytest.mark.parametrize("share", [True, False])
def test_a_limit_that_is_not_known_has_an_empty_bar(share: bool) -> None:
    """Not known is never zero: the words say so."""
    (verdict,) = (v for v in pages.limits() if v.id == ("recordsPercent" if share else "groups"))
    unknown = replace(verdict, observed=None, passed=False)
    page = read(of_plan(plan(removal(), limits=(unknown,))))
    assert f"not known of {'50 %' if share else '20'}" in page.text


def _skipped(address: str) -> Skipped:
    return Skipped(address=Address.parse(address), code="B214", reason="a is compacted, and only a pattern selects it")


A0, LED = "RetentionFloor/gdpr/a[0]", [satisfied(f"LeaderPolicy/all/a[{number}]") for number in (0, 1)]
TOPIC_ROWS: dict[str, tuple[list[Decision], str, str, set[str]]] = {
    # Before, a partition that is blocked and gets a leader counted as reversible, and no tile showed its topic.
    "an election never hides a block": (
        [blocked(A0), election("a", 0), LED[1]], "1 blocked, 1 good",
        "2 partitions: 1 blocked, 1 reversible, 1 in sync", {"warning", "change", "good"},
    ),
    # Before, a topic of two partitions had one that is blocked, and two in sync.
    "a topic that is blocked as a whole is no partition of it": (
        [blocked("RetentionFloor/gdpr/a"), *LED], "2 blocked",
        "the topic as a whole: blocked; 2 partitions: 2 in sync", {"warning", "good"},
    ),
    # The bar has the partition once; the words and the filter have both of its decisions.
    "a blocked election does not hide a deletion": (
        [blocked("LeaderPolicy/all/a[0]"), purge("a", 0)], "1 blocked",
        "1 partition: 1 blocked, 1 irreversible", {"warning", "loss"},
    ),
    # Before, what a policy must not touch was said to wait. Both are grey in the bar.
    "a topic that is skipped does not wait": (
        [_skipped("RetentionFloor/gdpr/a[0]"), waiting("RetentionFloor/gdpr/a[1]")], "2 waiting",
        "2 partitions: 1 waiting, 1 skipped", {"quiet"},
    ),
    # It is in sync with one policy, and another one deletes: the text does not count it, nor does the page.
    "a partition that something happens to is not in sync": (
        [purge("a", 0), *LED], "1 deleted, 1 good", "2 partitions: 1 irreversible, 1 in sync", {"loss", "good"},
    ),
    # An unclean election is irreversible, and loses records only perhaps: the words do not say that it does.
    "a reversible action is worded by no operation": (
        [election("a", 0, unclean=True), election("a", 1)], "1 deleted, 1 changed",
        "2 partitions: 1 irreversible, 1 reversible", {"loss", "change"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("decisions", "drawn", "words", "severities"), TOPIC_ROWS.values(), ids=TOPIC_ROWS)
def test_the_row_of_a_topic_counts_its_partitions(
    decisions: list[Decision], drawn: str, words: str, severities: set[str]
) -> None:
    (chart,) = (chart for chart in plan_figures(plan(*decisions)).charts if chart.anchor == "topics")
    row = chart.rows[0]
    assert ", ".join(f"{number} {style}" for style, number in drawn_of(row.bars[-1]).items()) == drawn
    assert (row.cells[2][-1], row.severities) == (words, severities)


@pytest.mark.parametrize("made", [pages.ordinary, pages.large])
def test_tiles_count_like_the_text(made: Callable[[], Plan]) -> None:
    """Before, tiles counted decisions: 314 in sync beside the text's 204 partitions, 1 group."""
    page = read(of_plan(made()))
    totals = next(section for section in plan_report(made()).sections if section.are_totals)
    counted = [item for item in totals.items if item.counts]
    assert len(counted) > 1
    for item in counted:
        assert f"{format_counts(item.counts)} {item.label.lower()}" in page.text
        assert plain(item.text) in page.text


@pytest.mark.parametrize("case", sorted(GOLDEN.parents[1].glob("*/plan.json")), ids=lambda path: path.parent.name)
def test_the_page_of_each_golden_plan_shows_its_facts(case: Path) -> None:
    """Subjects, numbers, skipped records, codes, limits and the digest, whatever the sentences around them are."""
    planned = plan_file.read(case)
    page = read(of_plan(planned))
    facts = [plan_file.digest(planned), display_name(planned.cluster)]
    partitions = Counter(action.address.name for action in planned.actions)
    for action in planned.actions:
        facts.append(format_subject(action.address) if action.address.partition < 0 else action.address.name)
        if isinstance(action, DeleteRecords) and partitions[action.address.name] <= RULERS_MAX:
            facts += [f"{action.records_max:,}", f"{action.before_offset:,}"]
            facts += [f"{quoted(group)} at" for group, _records in action.skips]
            facts += [f"would skip {records:,} records" for _group, records in action.skips]
        if isinstance(action, DeleteGroup):
            facts.append(f"{action.seen.commits:,} committed offset")
    for decision in planned.decisions:
        if isinstance(decision, Blocked):
            facts += [decision.code, escape_sentence(decision.next_step)[:200]]
    facts += [escape_sentence(verdict.message) for verdict in planned.refused]
    for fact in facts:
        assert re.sub(r"\s+", " ", fact) in page.text, fact


def test_tiles_filter_without_a_script() -> None:
    """Each tile is the label of a radio button, and the stylesheet hides what has another severity."""
    page = read(of_plan(pages.ordinary()))
    for severity in ("loss", "warning", "change", "quiet", "good"):
        assert f'for="show-{severity}"' in page.source
        assert f"#show-{severity}:checked ~ main .f:not(.is-{severity})" in page.style
        assert page.classes[f"is-{severity}"] > 1
    assert "show-error" not in page.source.replace(page.style, "")


def test_causes_and_policies_have_links() -> None:
    """A link to a row of a table stays the same while the names are the same."""
    page = read(of_plan(pages.ordinary()))
    assert {
        "policy-RetentionFloor/orders-gdpr",
        "topic-orders",
        "offsets-orders",
        "cause-blocked-B204",
        "limit-topics",
    } <= set(page.ids)


def test_drift_shows_states_by_policy() -> None:
    report = drift.report(pages.ordinary())
    page = read(of_drift(report))
    assert "14 partitions, 3 groups drift" in page.text
    assert "3 partitions blocked" in page.text
    assert "510 partitions in sync" in page.text
    in_sync = read(of_drift(drift.report(plan(satisfied("LeaderPolicy/all/x[0]"), notes=()))))
    assert "is in sync" in in_sync.text


def test_drift_shows_what_is_overdue_and_for_how_long() -> None:
    """The longest first, by time since the first report; of the same time, what is blocked, then by number."""
    (chart, _policies) = drift_figures([pages.drifting()])[0].charts
    words = [(plain(row.cells[0]), plain(row.cells[1]).partition(",")[0], plain(row.cells[2])) for row in chart.rows]
    assert words[:5] == [
        ("3 partitions of orders", "for 6 d", "blocked (B204)"),
        ("3 partitions of orders", "for 6 d", ""),
        ("3 partitions of orders", "for 6 d", ""),
        ("6 partitions of clicks", "for 3 d", ""),
        ("3 partitions of clicks", "for 3 d", ""),
    ]
    assert words[-1] == ('"console-consumer-7731", "old-etl"', "", "")
    assert chart.rows[3].bars[0].segments["changed"] / chart.rows[3].bars[0].total == 0.5


def test_drift_shows_how_much_is_overdue_where_the_plan_knows_it() -> None:
    """What is blocked, unread or elected has no number and no bar, which is not a zero; offsets are not records."""
    gaps = purge("counts", 1, policy="orders-gdpr", before_offset=700, log_start=0, end=2_000, may_have_gaps=True)
    unreadable = blocked("RetentionFloor/orders-gdpr/orders[9]", code="B103", unread=True)
    report = drift.report(plan(*pages.ordinary().decisions, gaps, unreadable))
    amounts = {s.address.partition: s.removed_max for s in report.subjects if s.address.name == "counts"}
    assert amounts == {1: {"offset": 700}}
    (chart, _policies) = drift_figures([report])[0].charts
    known = {row.anchor: (plain(row.cells[3]), len(row.bars)) for row in chart.rows}
    assert known["drift-records-RetentionFloor/clicks-7d/clicks"] == ("at most 284,778 records to remove", 1)
    assert known["drift-records-RetentionFloor/orders-gdpr/counts"] == ("at most 700 offsets to remove", 1)
    for unknown in ("blocked-RetentionFloor/orders-gdpr/orders", "unread-RetentionFloor/orders-gdpr/orders"):
        assert known[f"drift-{unknown}"] == ("", 0)
    elected = [words for anchor, words in known.items() if anchor.startswith("drift-leader-")]
    assert set(elected) == {("", 0)}
    later = replace(report, observed_at_ms=report.observed_at_ms + DAY)
    assert {len(row.bars) for row in drift_figures([later])[0].charts[0].rows} == {1, 2}


def test_drift_that_looks_alike_is_one_row() -> None:
    """59 groups that drift since now were 59 rows without a bar. A row names the code of all its subjects."""
    groups = [removal(f"tmp-{number}") for number in range(59)]
    floors = [blocked(f"RetentionFloor/f/t[{number}]", code=code) for number, code in enumerate(("B204", "B217"))]
    report = drift.report(plan(*groups, *floors))
    dated = replace(report.subjects[0], since_ms=report.observed_at_ms - DAY)
    (chart, _policies) = drift_figures([replace(report, subjects=(dated, *report.subjects[1:]))])[0].charts
    assert [(plain(row.cells[0]).partition(",")[0], plain(row.cells[2])) for row in chart.rows] == [
        ('"tmp-0"', ""),
        ("t[0]", "blocked (B204)"),
        ("t[1]", "blocked (B217)"),
        ('"tmp-1"', ""),
    ]
    (undated, _policies) = drift_figures([replace(report, subjects=report.subjects[:3])])[0].charts
    assert undated.legend == ()


def test_a_count_has_no_decimals() -> None:
    """Pictures of the docs said `topics: 100.0` and `idle for 120.0 days`; only shares in percent have decimals."""
    for planned in (pages.ordinary(), pages.large()):
        assert re.findall(r"\d\.0\b(?! %)", read(of_plan(planned)).text) == []


def test_a_blocked_subject_of_drift_is_not_what_an_apply_corrects() -> None:
    """Its policy and its tile say blocked; the tile of drift does not count it again."""
    (_overdue, chart) = drift_figures([pages.drifting()])[0].charts
    assert Severity.WARNING in chart.rows[0].severities
    assert drawn_of(chart.rows[0].bars[0]) == {"blocked": 3, "changed": 3}


def test_an_old_drift_report_claims_nothing_about_what_is_in_sync() -> None:
    """Reports of earlier versions count decisions by policy, and not partitions: no tile is not zero."""
    page = read(of_drift(replace(pages.drifting(), satisfied=None, waiting=None)))
    assert "as desired" not in page.text


def test_suggestions_show_records_shares_and_their_sum() -> None:
    """Each topic is in one suggestion, so that the sum of all counts no record twice."""
    page = read(of_suggestions(pages.suggested()))
    for words in (
        "at most 609,000 of 630,000 records (96.7 %)",
        "in RetentionFloor/read-by-billing",
        "in no draft yet",
        "Taking all of 4 topics: at most 727,300 of 1,233,000 records (59.0 %).",
        "The drafts have 2 topics: at most 705,000 of 879,000 records (80.3 %).",
    ):
        assert words in page.text


def test_results_draw_only_what_was_not_done() -> None:
    """What went as planned is a number, and no row. A topic of two policies is one row."""
    outcomes = pages.outcomes(pages.ordinary())
    page = read(of_results(outcomes))
    assert f"{sum(outcome.status == 'applied' for outcome in outcomes)} applied" in page.text
    assert "not attempted" in page.text
    charts = results_figures(list(map(results_file.as_row, outcomes))).charts
    assert [[plain(row.cells[0]) for row in chart.rows] for chart in charts] == [
        ["LeaderPolicy/preferred", "RetentionFloor/clicks-7d"],
        ["clicks", "payments"],
    ]
    assert charts[0].intro == "Where something was not done: 2 of 5."
    applied = [replace(outcome, status=Status.APPLIED) for outcome in outcomes]
    assert results_figures(list(map(results_file.as_row, applied))).charts == ()


def test_the_page_of_a_plan_names_commit_author_and_the_next_command() -> None:
    """Whoever gets the file alone knows what it is of, and what to type."""
    planned = replace(pages.ordinary(), source=Source(commit="4f2c9aa" * 5, author="Ada <b>"))
    page = read(of_plan(planned))
    assert "commit 4f2c9aa by Ada <b>" in page.text
    assert "Next: reconciler apply PLAN" in page.text
    assert plan_file.digest(planned) in page.text


def test_any_report_tree_is_a_page() -> None:
    """A document without figures has tiles that count its items, and all parts of its tree."""
    facts = (("Evidence", ("idle for ", strong("40 days"))), ("", (sentence("<b>"),)))
    item = Item(
        label="Idle",
        subject=(escaped_name('"old-etl"'),),
        text=("holds back 6 partitions",),
        loss=("12 commits",),
        severity=Severity.WARNING,
        facts=facts,
        children=(Item(text=("a child",), severity=Severity.LOSS),),
    )
    tree = Report(
        title="suggestions for prod-eu",
        headline=("prod-eu: 31 findings",),
        opening=("Cluster ", "prod-eu"),
        summary=(strong("31 findings"),),
        sections=(
            Section(heading=("Idle groups",), items=(item,) * 30, labelled=False, note=(("Note", ("a note",)),)),
            Section(
                heading=("Cannot tell",),
                items=Items(3, lambda: [replace(item, severity=Severity.QUIET)] * 3),
                open_items=0,
            ),
        ),
        next_steps=(("write one with ", escaped_name("--write FILE")),),
        footer=(("Scanned today",),),
        remainder=("in the JSON",),
    )
    page = read(write_html(Document(kind=SUGGESTIONS, trees=lambda _view: [tree])))
    for words in (
        "Idle",
        "40 days",
        "<b>",
        "a child",
        "Cannot tell",
        "write one with --write FILE",
        "Scanned today",
        "5 more",
    ):
        assert words in page.text
    assert "30 warnings" in page.text


@pytest.mark.parametrize("words", [["show", str(GOLDEN)], ["plan", "diff", str(GOLDEN), str(GOLDEN)]], ids=" ".join)
def test_commands_write_the_page(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o html` and `--output-file html=…` are the same page."""
    assert run([*words, "-o", "html", "--output-file", f"html={tmp_path / 'plan.html'}"]) == 0
    written = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert capsys.readouterr().out == written
    read(written)


@pytest.mark.parametrize("output", ["text", "md", "json", "html"])
def test_show_reads_a_drift_report(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is saved as JSON, and is shown like the plan: with all its subjects, in each format."""
    saved = tmp_path / "drift.json"
    saved.write_text(drift.dumps([drift.report(pages.ordinary())]), encoding="utf-8")
    assert run(["show", str(saved), "-o", output]) == 0
    shown = capsys.readouterr().out
    assert "load-test" in shown
    if output == "json":
        assert shown == saved.read_text(encoding="utf-8")
    if output == "html":
        read(shown)


def test_show_says_why_a_drift_report_is_not_usable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cut file is not a crash, and not taken for a plan."""
    (tmp_path / "drift.json").write_text('{"format_version": "1.1", "kind": "DriftReport",', encoding="utf-8")
    assert run(["show", str(tmp_path / "drift.json")]) == 1
    assert "drift.json is not usable" in capsys.readouterr().err


def test_a_results_file_has_the_same_pictures(tmp_path: Path) -> None:
    """A row of the file has no action, and says as much as the outcome of the run."""
    planned = pages.ordinary()
    outcomes = pages.outcomes(planned)
    results_file.write(tmp_path / "results.json", outcomes, HEADER)
    _header, rows = results_file.parse((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results_figures(rows) == results_figures(list(map(results_file.as_row, outcomes)))
