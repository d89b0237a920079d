"""Reports of manifests, plans, comparisons, drift, results, explanations, journals and suggestions.

A builder makes the tree of a document, a writer lays any tree out: `write_lines(plan_report(plan))`.
Neither computes anything that apply would read, and neither knows the clock or the terminal.

A writer and a builder are imported when they are first used: `validate` reports no plan.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconciler.report.annotations import write_annotations as write_annotations
    from reconciler.report.diagnostics import DIAGNOSTICS_WRITERS as DIAGNOSTICS_WRITERS
    from reconciler.report.diff import diff_json as diff_json
    from reconciler.report.diff import diff_report as diff_report
    from reconciler.report.drift import drift_report as drift_report
    from reconciler.report.figures.drift import drift_figures as drift_figures
    from reconciler.report.figures.plan import plan_figures as plan_figures
    from reconciler.report.figures.results import results_figures as results_figures
    from reconciler.report.html import write_html as write_html
    from reconciler.report.markdown import write_markdown as write_markdown
    from reconciler.report.markdown import write_pages as write_pages
    from reconciler.report.plan import explain_report as explain_report
    from reconciler.report.plan import plan_report as plan_report
    from reconciler.report.restore import restore_plan_report as restore_plan_report
    from reconciler.report.restore import restore_report as restore_report
    from reconciler.report.results import journal_report as journal_report
    from reconciler.report.results import results_report as results_report
    from reconciler.report.suggest import suggest_report as suggest_report
    from reconciler.report.terminal import write_lines as write_lines

_MODULES = {
    "write_annotations": "annotations",
    "DIAGNOSTICS_WRITERS": "diagnostics",
    "diff_json": "diff",
    "diff_report": "diff",
    "drift_report": "drift",
    "drift_figures": "figures.drift",
    "plan_figures": "figures.plan",
    "results_figures": "figures.results",
    "write_html": "html",
    "write_markdown": "markdown",
    "write_pages": "markdown",
    "explain_report": "plan",
    "plan_report": "plan",
    "restore_plan_report": "restore",
    "restore_report": "restore",
    "journal_report": "results",
    "results_report": "results",
    "suggest_report": "suggest",
    "write_lines": "terminal",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value
