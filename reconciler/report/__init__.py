"""Reports of plans, comparisons, drift, results, explanations and journals, for people and for GitHub.

A builder makes the report tree of a document, a writer lays it out for a medium. Neither computes
anything that apply would read, and neither knows the clock or the terminal.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from reconciler.journal.entry import JournalEntry
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome
from reconciler.model.plan import Plan
from reconciler.plan.diff import Comparison
from reconciler.plan.drift import DriftReport
from reconciler.report.annotations import write_annotations
from reconciler.report.diff import diff_json, diff_report
from reconciler.report.drift import drift_report
from reconciler.report.explain import explain_report
from reconciler.report.journal import journal_report
from reconciler.report.markdown import LIMIT_CHARS, write_markdown
from reconciler.report.plan import plan_report
from reconciler.report.results import results_report
from reconciler.report.terminal import write_lines

__all__ = [
    "diff_json",
    "diff_markdown",
    "diff_text",
    "drift_markdown",
    "drift_text",
    "explain",
    "github",
    "journal_text",
    "markdown",
    "results_github",
    "results_markdown",
    "results_text",
    "text",
]

_COMMENT_MIN = 4_000


def text(plan: Plan, *, full: bool = False, width: int | None = None, saved_to: str | None = None) -> Iterator[Text]:
    """A plan for a terminal. `full`: every partition, and what was skipped. Without actions no digest is shown."""
    report = plan_report(plan, full=full, saved_to=saved_to)
    if not plan.actions and not saved_to:
        report = replace(report, footer=())
    return write_lines(report, width=width, full=full)


def markdown(plan: Plan, *, limit_chars: int = LIMIT_CHARS) -> str:
    """A plan as a comment. Raises ValueError for a limit that does not hold marker, headline and digest (4,000)."""
    if limit_chars < _COMMENT_MIN:
        raise ValueError(f"limit_chars is {limit_chars}, and a comment takes at least {_COMMENT_MIN}")
    return write_markdown(plan_report(plan), limit_chars=limit_chars)


def github(plan: Plan) -> str:
    """A plan as annotations: refused limits, blocked subjects, facts that could not be read, and the totals."""
    return write_annotations(plan_report(plan))


def diff_text(comparison: Comparison, *, width: int | None = None) -> Iterator[Text]:
    """A comparison of two plans for a terminal."""
    return write_lines(diff_report(comparison), width=width)


def diff_markdown(comparison: Comparison, *, limit_chars: int = LIMIT_CHARS) -> str:
    """A comparison of two plans for a pull request."""
    return write_markdown(diff_report(comparison), limit_chars=limit_chars)


def drift_text(report: DriftReport, *, width: int | None = None) -> Iterator[Text]:
    """A cluster's drift for a terminal; one line where all is in sync."""
    return write_lines(drift_report(report), width=width)


def drift_markdown(report: DriftReport) -> str:
    """A cluster's drift as the body of an issue; an unchanged drift is an unchanged text."""
    shown = drift_report(report)
    if shown.footer:
        shown = replace(shown, footer=(*shown.footer, ("The issue closes by itself once all is in sync",)))
    return write_markdown(shown)


def results_text(plan: Plan, outcomes: Sequence[Outcome], *, width: int | None = None) -> Iterator[Text]:
    """The results of an apply for a terminal."""
    return write_lines(results_report(plan, outcomes), width=width)


def results_markdown(plan: Plan, outcomes: Sequence[Outcome], *, limit_chars: int = LIMIT_CHARS) -> str:
    """The results of an apply for a job summary."""
    return write_markdown(results_report(plan, outcomes), limit_chars=limit_chars)


def results_github(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    """The results of an apply as annotations: failures, stale and blocked actions, and the totals."""
    return write_annotations(results_report(plan, outcomes))


def explain(plan: Plan, address: Address, *, width: int | None = None) -> Iterator[Text]:
    """The explanation of the decisions at an address, for a terminal. Raises UsageError where there is none."""
    return write_lines(explain_report(plan, address), width=width)


def journal_text(entries: Iterable[JournalEntry], *, width: int | None = None) -> Iterator[Text]:
    """The entries of a journal for a terminal, one line each."""
    return write_lines(journal_report(tuple(entries)), width=width)
