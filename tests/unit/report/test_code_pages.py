"""Pages and comments link a code to its page of the docs where they name it first; a terminal does not."""

import re

import pytest

from reconciler.cli.codes import pages
from reconciler.companions.html.page import write_html
from reconciler.model.plan import LimitVerdict, Plan
from reconciler.plan import drift
from reconciler.report.document import View
from reconciler.report.drift import drift_report
from reconciler.report.markdown import write_markdown
from reconciler.report.plan import plan_document, plan_report
from reconciler.report.terminal import write_lines
from reconciler.report.tree import NO_PAGES
from tests.strategies.examples import blocked, plan

BASE = "https://docs.example.org/kafka/"
PAGES = pages(BASE)
LINK = re.compile(r"\[`([^`]+)`\]\(([^)]+)\)")
ANCHOR = re.compile(r'<a href="(https:[^"]+)"><code>([^<]+)</code></a>')
REFUSED = LimitVerdict(id="topics", limit=50, observed=51, passed=False, message="topics: 51, the limit is 50")


def example(*, limit: LimitVerdict = REFUSED) -> Plan:
    """A plan in which two causes have one code, and one code is not of this version."""
    return plan(
        blocked("RetentionFloor/a/orders[0]", code="B204", reason='group "x" is behind'),
        blocked("RetentionFloor/a/orders[1]", code="B204", reason='group "y" is behind'),
        blocked("RetentionFloor/a/orders[2]", code="B203", reason="it has no leader"),
        blocked("RetentionFloor/a/orders[3]", code="B999](https://elsewhere.example)", reason="from a later version"),
        blocked("LeaderPolicy/b/orders[4]", code="B103", reason="it was not read", unread=True),
        limits=(limit,),
    )


def page(code: str) -> str:
    return f"https://docs.example.org/kafka/docs/codes/{code}/"


@pytest.mark.parametrize("full", [False, True])
def test_a_comment_links_each_code_once(full: bool) -> None:
    """Without the links, it is the same text."""
    text = write_markdown(plan_report(example(), full=full, pages=PAGES))
    assert sorted(LINK.findall(text)) == [(code, page(code)) for code in ("B103", "B203", "B204", "topics")]
    assert text.count("`B204`") == 2
    assert text.index("[`B204`]") == text.index("`B204`") - 1, "where it is named first"
    assert LINK.sub(r"`\1`", text).replace("`topics`: ", "topics: ") == write_markdown(
        plan_report(example(), full=full)
    )
    assert '(`"B999](https://elsewhere.example)"`)' in text, "no link, but a name in a code span"


def test_a_page_links_each_code_at_its_cause() -> None:
    """In the table of causes, and where the details name it first."""
    links = sorted(ANCHOR.findall(write_html(plan_document(example()), View(pages=PAGES))))
    codes = ("B103", "B103", "B203", "B203", "B204", "B204", "topics")
    assert links == [(page(code), code) for code in codes]
    assert re.findall('href="(?!#)', write_html(plan_document(example()))) == []


def test_a_report_of_drift_links_each_code_once() -> None:
    unread = [
        blocked(f"RetentionFloor/a/{name}[0]", code="B103", reason="it was not read", unread=True) for name in "xy"
    ]
    report = drift.report(plan(*unread, limits=(REFUSED,)))
    text = write_markdown(drift_report(report, pages=PAGES))
    assert sorted(LINK.findall(text)) == [("B103", page("B103")), ("topics", page("topics"))]
    assert text.count("`B103`") == 2
    assert LINK.sub(r"`\1`", text) == write_markdown(drift_report(report))


def test_a_terminal_shows_no_address() -> None:
    """Its lines stay as long as they were."""
    linked, other = (plan_report(example(), full=True, pages=pages) for pages in (PAGES, NO_PAGES))
    assert list(write_lines(linked)) == list(write_lines(other))


def test_without_an_address_of_the_docs_no_code_has_a_page() -> None:
    """The program does not know where a copy of the docs is, and names no host."""
    assert pages(None) == NO_PAGES
    assert LINK.findall(write_markdown(plan_report(example()))) == []
