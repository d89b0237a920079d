"""A plan, a comparison and results as people and programs read them: text, Markdown, GitHub annotations, JSON.

Renderers walk the very decisions that apply walks, and compute nothing that is not shown. They know no terminal and no clock.
"""

from reconciler.report.annotations import github
from reconciler.report.diff import diff_json, diff_markdown, diff_text
from reconciler.report.drift import drift_markdown, drift_text
from reconciler.report.explain import explain
from reconciler.report.journal import journal_text
from reconciler.report.markdown import markdown
from reconciler.report.results import results_github, results_markdown, results_text
from reconciler.report.terminal import text

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
