"""Reports of plans, comparisons, drift, results, explanations and journals, for people and for GitHub.

A builder makes the report tree of a document, a writer lays any tree out for a medium:
`write_lines(plan_report(plan))`. Neither computes anything that apply would read, and neither knows
the clock or the terminal.
"""

from reconciler.report.annotations import write_annotations
from reconciler.report.diff import diff_json, diff_report
from reconciler.report.drift import drift_report
from reconciler.report.explain import explain_report
from reconciler.report.journal import journal_report
from reconciler.report.markdown import write_markdown
from reconciler.report.plan import plan_report
from reconciler.report.results import results_report
from reconciler.report.terminal import write_lines

__all__ = [
    "diff_json",
    "diff_report",
    "drift_report",
    "explain_report",
    "journal_report",
    "plan_report",
    "results_report",
    "write_annotations",
    "write_lines",
    "write_markdown",
]
