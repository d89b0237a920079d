"""A plan, a comparison and results as people and programs read them: text, Markdown, GitHub annotations, JSON.

Renderers walk the very decisions that apply walks, and compute nothing that is not shown. They know no terminal and no clock.
"""

from reconciler.plan.render.annotations import github
from reconciler.plan.render.comment import markdown
from reconciler.plan.render.diff import diff_json, diff_markdown, diff_text
from reconciler.plan.render.drift import drift_markdown, drift_text
from reconciler.plan.render.explain import explain
from reconciler.plan.render.history import journal_text
from reconciler.plan.render.results import results_github, results_markdown, results_text
from reconciler.plan.render.terminal import text

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
