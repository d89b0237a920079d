"""Complete pages, compared character by character: one of each report with its styles, as
documentation, and those of other plans, results, comparisons and drift, of many and of few.

A reviewer of the difference looks for: the subject, numbers, code, reason and next step of each
action and block; the worst first; each cause once, with its count; one next step for each status.

After an intended change write the pages again with `RECONCILER_GOLDEN=write make test-unit`, and
read the difference.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.text import Text

from reconciler.model.names import Address
from reconciler.plan import drift
from reconciler.plan.diff import compare
from tests import rendering as report
from tests.strategies.examples import NOW_MS
from tests.strategies.facts import HOUR
from tests.unit.report.sample_plans import (
    CHANGED,
    COMPARISONS,
    JOURNALS,
    OUTCOMES,
    PLANS,
    TEXTS,
    WHOLE,
    journal_entries,
    mixed_outcomes,
)

PAGES = Path(__file__).with_name("pages")
WRITE = os.environ.get("RECONCILER_GOLDEN") == "write"
EXPLAINED = (
    "RetentionFloor/ignoring/orders[20]",
    "RetentionFloor/streams/counts[0]",
    "GroupRemoval/dead-etl/old-etl",
    "GroupRemoval/dead-etl/quiet",
    "LeaderPolicy/all/payments[0]",
    "LeaderPolicy/rescue/dead[4]",
    "RetentionFloor/orders-gdpr/orders[15]",
    "RetentionFloor/streams/counts[1]",
    "RetentionFloor/clamping/clamped[1]",
    "RetentionFloor/orders-gdpr/orders[16]",
    "LeaderPolicy/all/x[0]",
)


EXPLAINED_TOO = ("RetentionFloor/all/compacted", "LeaderPolicy/all/payments[9]", "RetentionFloor/typo")


def drift_report() -> drift.DriftReport:
    """Return the drift of a plan, which also existed 30 hours before."""
    before = drift.report(replace(WHOLE, observed_at_ms=NOW_MS - 30 * HOUR))
    return drift.report(WHOLE, previous=[before])


def lines(texts: Iterable[Text]) -> str:
    """Return the lines, with `[bold]…[/bold]` where a terminal shows colours."""
    return "".join(f"{line.markup}\n" for line in texts)


def plain(texts: Iterable[Text]) -> str:
    return "".join(f"{line.plain}\n" for line in texts)


def all_texts() -> Iterator[tuple[str, str]]:
    for name, (plan, options) in TEXTS.items():
        yield name, plain(report.text(plan, **options))


def all_plans() -> Iterator[tuple[str, str]]:
    for name, plan in PLANS.items():
        yield f"{name}, text", plain(report.text(plan))
        yield f"{name}, Markdown", report.markdown(plan)
        yield f"{name}, annotations", report.github(plan)


def all_full_texts() -> Iterator[tuple[str, str]]:
    for name, plan in PLANS.items():
        if name not in ("crowded", "edges"):  # hundreds of lines that differ in a number
            yield name, plain(report.text(plan, full=True))


def all_results() -> Iterator[tuple[str, str]]:
    for name, make in OUTCOMES.items():
        outcomes = make()
        yield f"{name}, text", plain(report.results_text(WHOLE, outcomes))
        yield f"{name}, Markdown", report.results_markdown(WHOLE, outcomes)
        yield f"{name}, annotations", report.results_github(WHOLE, outcomes)


def all_comparisons() -> Iterator[tuple[str, str]]:
    for name, pair in COMPARISONS.items():
        yield f"{name}, text", plain(report.diff_text(compare(*pair)))
        yield f"{name}, Markdown", report.diff_markdown(compare(*pair))


def all_drift() -> Iterator[tuple[str, str]]:
    """Every second decision of each plan existed an hour before."""
    for name, plan in PLANS.items():
        before = replace(plan, decisions=plan.decisions[1::2], observed_at_ms=plan.observed_at_ms - HOUR)
        found = drift.report(plan, previous=[drift.report(before)])
        yield f"{name}, text", plain(report.drift_text(found))
        yield f"{name}, Markdown", report.drift_markdown(found)


def all_journals() -> Iterator[tuple[str, str]]:
    for name, entries in JOURNALS.items():
        yield name, plain(report.journal_text(entries))
    overlapping = JOURNALS["two runs that overlap"]
    yield "two runs that overlap, in full", plain(report.journal_text(overlapping, full=True))


def titled(pages: Iterable[tuple[str, str]]) -> str:
    return "".join(f"=== {title} ===\n{page}\n" for title, page in pages)


RENDERERS: dict[str, Callable[[], str]] = {
    "plan-80.txt": lambda: lines(report.text(WHOLE, width=80, saved_to="plan.json")),
    "plan.md": lambda: report.markdown(WHOLE),
    "plan.github": lambda: report.github(WHOLE),
    "explain-80.txt": lambda: "".join(
        lines(report.explain(WHOLE, Address.parse(address), width=80)) for address in EXPLAINED
    ),
    "results-80.txt": lambda: lines(report.results_text(WHOLE, mixed_outcomes(), width=80, duration_ms=72_500)),
    "diff-80.txt": lambda: lines(report.diff_text(compare(WHOLE, CHANGED), width=80)),
    "drift-80.txt": lambda: lines(report.drift_text(drift_report(), width=80)),
    "journal-80.txt": lambda: lines(report.journal_text(journal_entries(), width=80)),
    "journal-full-80.txt": lambda: lines(report.journal_text(journal_entries(), width=80, full=True)),
    "plans.txt": lambda: titled(all_texts()),
    "explain.txt": lambda: "".join(plain(report.explain(WHOLE, Address.parse(address))) for address in EXPLAINED_TOO),
    "samples.txt": lambda: titled(all_plans()),
    "samples-full.txt": lambda: titled(all_full_texts()),
    "results.txt": lambda: titled(all_results()),
    "comparisons.txt": lambda: titled(all_comparisons()),
    "journals.txt": lambda: titled(all_journals()),
    "drift.txt": lambda: titled(all_drift()),
}


@pytest.mark.parametrize("name", RENDERERS)
def test_a_page_equals_the_reviewed_one(name: str) -> None:
    """The same plan gives the same characters as at the review."""
    path, page = PAGES / name, RENDERERS[name]()
    if WRITE:
        path.write_text(page, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == page, (
        f"pages/{name}: if intended, RECONCILER_GOLDEN=write make test-unit, then read the diff"
    )


def test_every_page_is_compared() -> None:
    """A page that no test compares would become outdated."""
    assert {path.name for path in PAGES.iterdir()} == set(RENDERERS)
