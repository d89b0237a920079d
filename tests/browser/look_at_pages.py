"""Looks at the HTML report and at a pull request's comment in a real browser: `make test-browser`.

`make test` does not collect this file, because it needs no browser; tests/unit/companions/html/test_html.py
checks the same pages without one. With UPDATE_PICTURES=1 the pictures go to docs/images.
"""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.model.plan import Plan
from reconciler.report.markdown import write_markdown
from reconciler.report.plan import plan_report
from tests.browser import github_comment
from tests.browser.chromium import measure, take_picture
from tests.strategies import pages
from tests.unit.companions.html.test_html import of_plan, of_results

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
return {id: target && target.id, top: target && target.getBoundingClientRect().top};
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


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_results_fit_their_width(width: int, tmp_path: Path) -> None:
    assert measure(tmp_path, of_results(pages.outcomes(pages.ordinary())), OVERFLOW, width=width)["width"] <= width


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


def test_a_deep_link_leads_to_its_row(tmp_path: Path) -> None:
    seen = measure(tmp_path, of_plan(pages.ordinary()), TARGET, width=DESK, fragment="#cause-blocked-B204")
    assert seen["id"] == "cause-blocked-B204"
    assert 0 <= seen["top"] < 2_000


def test_a_comment_is_read_on_a_phone(tmp_path: Path) -> None:
    """The comment of 23 actions, as GitHub shows it."""
    page = github_comment.page(write_markdown(plan_report(pages.ordinary())))
    seen = measure(tmp_path, page, "return {width: doc.documentElement.scrollWidth};", width=PHONE)
    assert seen["width"] <= PHONE
    save_picture(tmp_path, "plan-comment-phone", page, width=PHONE)
