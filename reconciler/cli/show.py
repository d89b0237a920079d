"""`reconciler show` and `plan diff`: print what was saved. They import neither the Kafka client nor the pipeline."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from reconciler.apply import results as results_file
from reconciler.cli import console, documents
from reconciler.cli.settings import NO_CLUSTER, Settings, accepts_settings
from reconciler.clock import wall_clock_ms
from reconciler.codec import document, read_kind
from reconciler.errors import ExitCode, PlanUnusable, ReconcilerError
from reconciler.model.names import format_subject
from reconciler.model.plan import Plan
from reconciler.plan import drift as drift_reports
from reconciler.plan import plan_file
from reconciler.plan.diff import compare
from reconciler.report.diff import diff_document
from reconciler.report.document import DIFF, PLAN, Document
from reconciler.report.drift import drift_document
from reconciler.report.plan import count_subjects_of, plan_document
from reconciler.report.results import results_document
from reconciler.text.formatting import format_time, until
from reconciler.text.validation import error_reason

DetailedExitcode = Annotated[bool, typer.Option("--detailed-exitcode", help="Exit 2 if there are actions.")]
FINDINGS = ("blocked", "unknown", "unmatched")
"""What `plan --fail-on` may name, in the order of their messages."""
Full = Annotated[bool, typer.Option("--full", help="List every partition, and skipped subjects.")]


def exit_code(plan: Plan, *, detailed: bool, fail_on: Collection[str] = ()) -> ExitCode:
    """Return 3 if a limit or a finding of `fail_on` refuses, 2 for actions if `detailed`, else 0.

    1: no subject could be read, so the plan says nothing about the cluster.
    """
    blocked = plan.blocked
    first = f"{count_subjects_of(blocked)} blocked, the first: {format_subject(blocked[0].address)}" if blocked else ""
    unmatched = ", ".join(dict.fromkeys(str(warning.policy) for warning in plan.unmatched))
    findings = zip(FINDINGS, (first, " ".join(plan.incomplete), unmatched), strict=True)
    refusals = {verdict.id: verdict.cause for verdict in plan.refused}
    refusals |= {name: f"--fail-on {name}: {text}" for name, text in findings if name in fail_on and text}
    for code, message in refusals.items():
        console.print_error(message, code=code, exit_code=ExitCode.REFUSED)
    if refusals:
        return ExitCode.REFUSED
    unread = [decision for decision in blocked if decision.unread]
    if unread and len(unread) == len(plan.decisions):
        first = f"{format_subject(unread[0].address)}: {unread[0].reason}"
        console.print_error(
            f"none of {count_subjects_of(unread)} could be read, the first: {first}; `reconciler doctor` says more"
        )
        return ExitCode.ERROR
    return ExitCode.ACTIONS if detailed and plan.actions else ExitCode.DONE


@accepts_settings(DIFF, without=NO_CLUSTER)
def plan_diff(
    settings: Settings,
    old: Annotated[Path, typer.Argument(help="The older saved plan.")],
    new: Annotated[Path, typer.Argument(help="The newer saved plan.")],
    full: Annotated[bool, typer.Option("--full", help="List every partition and group.")] = False,
) -> None:
    """Show what changed between two saved plans."""
    comparison = compare(plan_file.open_plan(old, proven=False), plan_file.open_plan(new, proven=False))
    documents.emit(settings, diff_document(comparison, full=full))


@accepts_settings(PLAN, without=NO_CLUSTER)
def show(
    settings: Settings,
    saved: Annotated[Path, typer.Argument(metavar="PLAN", help="A saved plan, results or a drift report.")],
    detailed_exitcode: DetailedExitcode = False,
    full: Full = False,
) -> int:
    """Print a saved plan in any format.

    It also prints the file of `apply --results`, and the JSON of `drift`.
    """
    kind = read_kind(saved)
    if kind in ("Results", "DriftReport"):
        documents.emit(settings, _read_document(saved, kind, settings))
        return ExitCode.DONE
    planned = plan_file.read(saved)
    has_expired = planned.has_expired(now_ms := wall_clock_ms())
    documents.emit(settings, plan_document(planned, full=full, saved_to=saved, with_next_step=not has_expired))
    if has_expired:
        console.print_stderr(
            f"warning: this plan expired at {format_time(planned.expires_at_ms)}, "
            f"{until(planned.expires_at_ms, now_ms=now_ms)}: apply refuses it; plan again"
        )
    return exit_code(planned, detailed=detailed_exitcode)


def _read_document(saved: Path, kind: str, settings: Settings) -> Document:
    """Read a results file or a report of drift. Raises PlanUnusable for results, ReconcilerError for drift."""
    try:
        text = saved.read_text(encoding="utf-8-sig")
        if kind == "DriftReport":
            return drift_document(drift_reports.parse(text), quiet=settings.quiet)
        header, rows = results_file.parse(text)
        return results_document(header, rows, lambda: document(json.loads(text)))
    except (OSError, ValueError) as error:
        if kind == "DriftReport":
            raise ReconcilerError(f"the drift report {saved} is not usable: {error_reason(error)}") from error
        raise PlanUnusable(f"the results {saved} are not usable: {error_reason(error)}") from error
