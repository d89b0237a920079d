"""`reconciler apply`: carry out a saved plan, or plan and ask for confirmation first."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.apply import results as results_file
from reconciler.apply.context import Tuning
from reconciler.cli import common, console
from reconciler.cli.common import PlanAndPaths
from reconciler.cli.plan import show_plan
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.cli.signals import handle_signals
from reconciler.errors import PlanUnusable, Refused, UsageError
from reconciler.model.plan import Plan
from reconciler.pipeline import ApplyResult, wall_clock_ms
from reconciler.plan import plan_file


@accepts_settings
def apply(
    settings: Settings,
    words: PlanAndPaths = None,
    expect_digest: Annotated[
        str | None, typer.Option("--expect-digest", help="Refuse a plan with another digest.")
    ] = None,
    results: Annotated[Path | None, typer.Option("--results", help="Write the results as JSON to this file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Recheck all actions, and send no request.")] = False,
    batch: Annotated[
        int | None,
        typer.Option("--batch", min=1, metavar="N", help="Most subjects in one request.", show_default=False),
    ] = None,
) -> int:
    """Carry out a saved plan, or plan and ask for confirmation.

    Without a saved plan, the user must type the name of the cluster, which needs a terminal.
    """
    console.prepare(settings, results)
    plan, paths = common.split_plan_and_paths(words)
    if plan is None and (settings.no_input or not sys.stdin.isatty()):
        raise UsageError(
            "apply without a saved plan asks for confirmation, and standard input is no terminal: save a plan with "
            "`plan --out plan.json` and apply that file"
        )
    if plan is not None:
        _check_plan(plan, expect_digest)
    manifests = common.load_cluster(paths, settings, cluster_id=plan.cluster_id if plan else None)
    if plan is None:
        with common.open_run(settings, manifests) as run:
            plan = pipeline.plan(run)
        show_plan(plan, settings)
        _check_plan(plan, expect_digest)
        name = manifests.cluster.metadata.name
        if (
            plan.actions
            and (answer := console.ask(f"Type the name of the cluster ({name}) to apply this plan:")) != name
        ):
            raise Refused(f"{answer!r} is not {name!r}: nothing was done")
    # The results are written inside as well: a Ctrl-C at that moment must not end with "interrupted
    # before anything was written".
    with handle_signals() as signals:
        with common.open_run(settings, manifests, signals) as run:
            applied = pipeline.apply(plan, run, dry_run=dry_run, tuning=Tuning(batch_max=batch))
        if results:
            with console.report_write_errors():
                results_file.write(results, applied.outcomes, applied.header)
        show_results(applied, settings)
    for message in applied.header.refused:
        console.print_error(message)
    return applied.header.exit_code


def _check_plan(plan: Plan, expect_digest: str | None) -> None:
    """Raise PlanUnusable for another or an expired plan, Refused for a plan beyond a limit."""
    digest = plan_file.digest(plan)
    if expect_digest is not None and expect_digest != digest:
        raise PlanUnusable(
            f"the plan's digest is {digest}, and --expect-digest is {expect_digest or 'empty'}: nothing was done; apply the "
            f"plan that was approved"
        )
    if (late_ms := wall_clock_ms() - plan.expires_at_ms) > 0:
        raise PlanUnusable(f"the plan expired {late_ms // 1000} s ago: nothing was done; plan again")
    if plan.refused:
        raise Refused("; ".join(verdict.message for verdict in plan.refused))


def show_results(applied: ApplyResult, settings: Settings) -> None:
    """Write the outcomes of a plan in the selected formats, or an error line."""
    tree = report.results_report(applied.plan, applied.outcomes)
    with console.report_write_errors():
        console.emit(
            settings,
            "a result",
            text=lambda: common.lines(tree),
            md=lambda: report.write_markdown(tree),
            json=lambda: results_file.lines(applied.outcomes, applied.header),
            github=lambda: report.write_annotations(tree),
        )
