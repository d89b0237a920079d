"""The HTML report: one harmless file of bounded size, whose pictures have the numbers of the document.

`make test-browser` looks at the same pages in a browser.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.apply import results as results_file
from reconciler.cli.app import run
from reconciler.companions.html.figures import ROWS_MAX, RULERS_MAX, WORST
from reconciler.companions.html.page import PAGE_BYTES, write_html
from reconciler.companions.html.plan import plan_figures
from reconciler.companions.html.results import results_figures
from reconciler.model.names import Address, format_address, format_subject
from reconciler.model.outcome import Outcome
from reconciler.model.plan import Blocked, Plan
from reconciler.operations import DeleteGroup, DeleteRecords
from reconciler.plan import drift, plan_file
from reconciler.plan.diff import compare
from reconciler.report.diff import diff_document
from reconciler.report.document import SUGGESTIONS, Document
from reconciler.report.drift import drift_document
from reconciler.report.plan import plan_document
from reconciler.report.results import results_document
from reconciler.report.tree import Item, Items, Report, Section, Severity
from reconciler.text.escape import display_name, escape_sentence, quoted
from reconciler.text.phrase import escaped_name, sentence, strong
from tests.repeats import repeats
from tests.strategies import outcomes as ended
from tests.strategies import pages
from tests.strategies import plans as made
from tests.strategies.examples import blocked, election, plan, purge, removal, satisfied
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

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)

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
    assert "::" not in text, "a CI runner reads commands in its log"
    assert "##[" not in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00-\x08\x0b-\x1f\x7f]", text)
    return page


def of_plan(planned: Plan) -> str:
    return write_html(plan_document(planned))


def of_results(outcomes: list[Outcome]) -> str:
    return write_html(results_document(HEADER, outcomes, lambda: ""))


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
    assert f"{topics * partitions:,} cannot be undone" in re.sub(r"(\d)(?=[a-z])", r"\1 ", page.text)
    for chart in (*figures.charts, *figures.tables):
        assert len(chart.rows) <= ROWS_MAX
    by_topic = next(chart for chart in figures.tables if chart.anchor == "by-topic")
    listed = sum(int("".join(map(str, row.cells[1])).replace(",", "") or 0) for row in by_topic.rows)
    match = re.search(r"more topics: ([\d,]+) records", by_topic.rest)
    assert listed + (int(match[1].replace(",", "")) if match else 0) == removed
    drawn = page.source.count('<details class="f topic')
    match = re.search(r"and ([\d,]+) more topics, which are in the tables", page.text)
    assert drawn + (int(match[1].replace(",", "")) if match else 0) == topics
    if partitions > RULERS_MAX:
        assert page.classes["ruler"] == WORST
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
    assert f"{120 * len(report.subjects):,} drift" in re.sub(r"(\d)(?=[a-z])", r"\1 ", page.text)


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
    assert [ruler.move.new_start for ruler in topic.rulers] == [1_500, *range(2_050, 2_041, -1)]
    page = read(of_plan(plan(*few)))
    assert "least 500, a quarter up to 1,012, half up to 1,025, three quarters up to 1,037, most 1,050" in page.text


def test_bars_have_the_numbers_of_the_plan() -> None:
    """Removed, kept and blocked of each topic, the leaders before and after, the days that groups are idle."""
    figures = plan_figures(pages.ordinary())
    charts = {chart.anchor: chart for chart in figures.charts}
    (clicks, orders, _counts, payments) = charts["topics"].rows
    assert [(s.style, s.amount) for s in orders.bars[0].segments] == [("deleted", 259_513), ("remaining", 374_487)]
    assert {s.style: s.amount for s in orders.bars[1].segments if s.amount} == {"deleted": 3, "blocked": 3}
    assert orders.bars[0].mark == pytest.approx(0.9 * 634_000)
    assert {s.style: s.amount for s in clicks.bars[1].segments if s.amount} == {"deleted": 6}
    assert len(payments.bars) == 1, "no partition of it loses records"
    assert [row.cells[1] for row in charts["leaders"].rows] == [("0 → 7",), ("7 → 0",), ("3 → 3",)]
    groups = [(row.bars[0].segments[0].amount, row.bars[0].mark) for row in charts["groups"].rows]
    assert groups == [(120.0, 7.0), (31.0, 7.0), (9.0, 7.0)]
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


def test_the_state_of_a_partition_counts_once() -> None:
    """A partition with a deletion and an election is one partition; the loss stands for both."""
    (chart,) = (
        c
        for c in plan_figures(plan(purge("a", 0), election("a", 0), satisfied("LeaderPolicy/all/a[1]"))).charts
        if c.anchor == "topics"
    )
    assert chart.rows[0].cells[2][-1] == "2 partitions: 1 losing records, 1 in sync"


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
    assert f"{len(report.subjects)} drift" in re.sub(r"(\d)(?=[a-z])", r"\1 ", page.text)
    in_sync = read(of_drift(drift.report(plan(satisfied("LeaderPolicy/all/x[0]"), notes=()))))
    assert "is in sync" in in_sync.text


def test_results_show_states_by_policy_and_topic() -> None:
    planned = pages.ordinary()
    outcomes = pages.outcomes(planned)
    page = read(of_results(outcomes))
    applied = sum(outcome.status == "applied" for outcome in outcomes)
    assert f"{applied} applied" in re.sub(r"(\d)(?=[a-z])", r"\1 ", page.text)
    assert "not attempted" in page.text
    topics = results_figures(list(map(results_file.as_row, outcomes))).charts[1].rows
    assert len({row.cells[0] for row in topics}) == len(topics), "a topic of two policies is one row"


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
        opening=(("Cluster ", "prod-eu"),),
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
    assert "30 warnings" in re.sub(r"(\d)(?=[a-z])", r"\1 ", page.text)


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


def test_other_formats_do_not_import_the_page() -> None:
    """The template engine costs a tenth of a second."""
    program = (
        "import sys\n"
        "from reconciler.cli.app import run\n"
        f"assert not any(run(['show', {str(GOLDEN)!r}, '-o', output]) for output in ('text', 'md', 'json'))\n"
        "heavy = {'jinja2', 'markupsafe', 'reconciler.companions.html.page'} & sys.modules.keys()\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
