"""Reports of manifests, plans, comparisons, drift, results, explanations and journals.

A builder makes the tree of a document, a writer lays any tree out: `write_lines(plan_report(plan))`.
Neither computes anything that apply would read, and neither knows the clock or the terminal.
"""

from reconciler.report.annotations import write_annotations as write_annotations
from reconciler.report.diagnostics import DIAGNOSTICS_WRITERS as DIAGNOSTICS_WRITERS
from reconciler.report.diff import diff_json as diff_json
from reconciler.report.diff import diff_report as diff_report
from reconciler.report.drift import drift_report as drift_report
from reconciler.report.markdown import write_markdown as write_markdown
from reconciler.report.markdown import write_pages as write_pages
from reconciler.report.plan import explain_report as explain_report
from reconciler.report.plan import plan_report as plan_report
from reconciler.report.restore import restore_plan_report as restore_plan_report
from reconciler.report.restore import restore_report as restore_report
from reconciler.report.results import journal_report as journal_report
from reconciler.report.results import results_report as results_report
from reconciler.report.terminal import write_lines as write_lines
