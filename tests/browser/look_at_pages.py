"""Looks at the HTML report and at a pull request's comment in a real browser: `make test-browser`.

`make test` does not collect this file, because it needs no browser; tests/unit/companions/html/test_html.py
checks the same pages without one. With UPDATE_PICTURES=1 the pictures go to docs/images.
"""

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.model.plan import Plan
from reconciler.report.markdown import write_markdown
from reconciler.report.plan import plan_report
from tests.browser import github_comment
from tests.browser.chromium import find_text, measure, print_pages, take_picture
from tests.strategies import pages
from tests.unit.companions.html.test_html import of_drift, of_plan, of_results, of_suggestions

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PICTURE_BYTES = 400_000
PHONE, DESK = 390, 1_280
SIZES = {PHONE: (1_500, 1.5), DESK: (1_700, 1.0)}
"""Width → height in points, pixels of a point."""
PLANS: dict[str, Callable[[], Plan]] = {"ordinary": pages.ordinary, "hostile": pages.hostile, "large": pages.large}

OVERFLOW = """
const wide = [...doc.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5);
return {width: doc.documentElement.scrollWidth, wide: wide.slice(0, 5).map(e => e.outerHTML.slice(0, 200)),
        background: frame.contentWindow.getComputedStyle(doc.documentElement).backgroundColor};
"""
FILTER = """
const visible = () => [...doc.querySelectorAll("tr.f")].filter(e => e.getClientRects().length)
  .map(e => e.className.includes("is-warning"));
const before = visible();
doc.querySelector("label[for=show-warning]").click();
const after = visible();
doc.querySelector("label[for=show-all]").click();
return {before, after, again: visible()};
"""
FOLDS = """
const hidden = () => [...doc.querySelectorAll("details > :not(summary)")]
  .filter(e => !e.checkVisibility({contentVisibilityAuto: true}) || !e.getBoundingClientRect().height).length;
const click = async wanted => {
  doc.querySelector("label[for=unfold]").click();
  for (let turn = 0; turn < 40 && hidden() != wanted; turn++) await new Promise(done => setTimeout(done, 100));
  return hidden();
};
const before = hidden();
return {before, unfolded: await click(0), after: await click(before)};
"""
POLICY = """
const violations = [];
doc.addEventListener("securitypolicyviolation", event => violations.push(event.effectiveDirective));
const style = doc.createElement("style");
style.textContent = "main { display: none }";
doc.head.append(style);
const image = doc.createElement("img");
image.src = "picture.png";
doc.body.append(image);
doc.body.setAttribute("style", "display: none");
await new Promise(done => setTimeout(done, 500));
return {violations, main: frame.contentWindow.getComputedStyle(doc.querySelector("main")).display};
"""
TARGET = """
const target = doc.querySelector(":target");
const box = target.getBoundingClientRect();
return {id: target.id, top: box.top, height: box.height};
"""


def save_picture(folder: Path, name: str, page: str, *, width: int, dark: bool = False, fragment: str = "") -> None:
    """Take a picture, check its size, and keep it with UPDATE_PICTURES=1."""
    height, scale = SIZES[width]
    target = (IMAGES if os.environ.get("UPDATE_PICTURES") else folder) / f"{name}.png"
    take_picture(folder, page, target, width=width, height=height, scale=scale, dark=dark, fragment=fragment)
    head = target.read_bytes()
    assert struct.unpack(">II", head[16:24]) == (width * scale, height * scale)
    assert 10_000 < len(head) < PICTURE_BYTES, f"{target}: {len(head):,} bytes"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_fits_its_width(name: str, width: int, dark: bool, tmp_path: Path) -> None:
    """Nothing is wider than the screen, and the colors are those that the reader prefers."""
    page = of_plan(PLANS[name]())
    seen = measure(tmp_path, page, OVERFLOW, width=width, dark=dark)
    assert seen["width"] <= width, seen["wide"]
    assert seen["background"] == ("rgb(13, 17, 23)" if dark else "rgb(246, 248, 250)")
    if not dark:
        save_picture(tmp_path, f"report-{name}-{width}", page, width=width)
    if name == "ordinary":
        shade = "-dark" if dark else ""
        save_picture(
            tmp_path, f"report-offsets-{width}{shade}", page, width=width, dark=dark, fragment="#offsets-orders"
        )


OTHERS: dict[str, Callable[[], str]] = {
    "results": lambda: of_results(pages.outcomes(pages.ordinary())),
    "drift": lambda: of_drift(pages.drifting()),
    "suggest": lambda: of_suggestions(pages.suggested()),
}


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", OTHERS)
def test_other_documents_fit_their_width(name: str, width: int, tmp_path: Path) -> None:
    page = OTHERS[name]()
    assert measure(tmp_path, page, OVERFLOW, width=width)["width"] <= width
    if width == DESK or name != "results":
        save_picture(tmp_path, f"report-{name}-{width}", page, width=width)


def test_a_tile_filters_without_a_script(tmp_path: Path) -> None:
    """A click on `blocked` leaves the rows with something blocked, a click on `all` brings all back."""
    seen = measure(tmp_path, of_plan(pages.ordinary()), FILTER, width=DESK)
    assert True in seen["before"]
    assert False in seen["before"]
    assert seen["after"] == [True] * sum(seen["before"])
    assert seen["again"] == seen["before"]


def test_the_browser_enforces_the_policy(tmp_path: Path) -> None:
    """Style and image that get into the page in any way are refused."""
    seen = measure(tmp_path, of_plan(pages.ordinary()), POLICY, width=DESK)
    assert {"style-src-elem", "style-src-attr", "img-src"} <= set(seen["violations"])
    assert seen["main"] == "block"


@pytest.mark.parametrize(
    ("made", "link"),
    [
        (pages.ordinary, "cause-blocked-B204"),
        (pages.large, "offsets-events-00095"),
        (pages.large, "topic-events-00095"),
    ],
    ids=["a row", "a folded topic", "a row below the fold"],
)
def test_a_deep_link_leads_to_its_place(made: Callable[[], Plan], link: str, tmp_path: Path) -> None:
    """It opens the fold that its place is in; before, the reader saw a closed topic, or the top of the page."""
    seen = measure(tmp_path, of_plan(made()), TARGET, width=DESK, fragment=f"#{link}")
    assert seen["id"] == link
    assert -1 < seen["top"] < 2_000
    assert seen["height"] > 20


def test_all_folds_open_without_a_script(tmp_path: Path) -> None:
    """A text search finds what is on the page; so a click shows all that is folded, and another one hides it."""
    seen = measure(tmp_path, of_plan(pages.large(30, 2)), FOLDS, width=DESK)
    assert seen["before"] > 0
    assert seen["unfolded"] == 0
    assert seen["after"] == seen["before"]


def test_the_search_of_the_browser_opens_the_fold_that_it_finds_something_in(tmp_path: Path) -> None:
    """The page hides folds in no way that the search does not see; all other folds stay closed."""
    page = of_plan(pages.large(30, 2))
    assert page.index("<details><summary>45 more") < page.index("stuck-039")
    seen = find_text(tmp_path, page, "stuck-039")
    assert '<details open=""><summary>45 more' in seen
    assert seen.count('<details open=""') == 1
    assert seen.count("<details") > 3


def test_a_printed_page_has_no_closed_fold(tmp_path: Path) -> None:
    """It takes as many sheets as with all folds open."""
    page = of_plan(pages.large())
    opened = re.sub("<details(?![^>]* open)", "<details open", page)
    assert opened != page
    assert print_pages(tmp_path, page) == print_pages(tmp_path, opened) > 10


def test_a_comment_is_read_on_a_phone(tmp_path: Path) -> None:
    """The comment of 23 actions, as GitHub shows it."""
    page = github_comment.page(write_markdown(plan_report(pages.ordinary())))
    seen = measure(tmp_path, page, "return {width: doc.documentElement.scrollWidth};", width=PHONE)
    assert seen["width"] <= PHONE
    save_picture(tmp_path, "plan-comment-phone", page, width=PHONE)
