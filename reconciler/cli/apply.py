"""`reconciler apply`: carry out a saved plan, or plan and ask for confirmation."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.apply import results as results_file
from reconciler.apply.context import Tuning
from reconciler.cli import common, console, documents, loading
from reconciler.cli.loading import PlanAndPaths
from reconciler.cli.settings import Settings, accepts_settings, parse_names
from reconciler.cli.signals import handle_signals
from reconciler.errors import ExitCode, UsageError
from reconciler.manifest import files
from reconciler.model.plan import Plan
from reconciler.operations import OPERATIONS, Operation
from reconciler.pipeline import ApplyResult
from reconciler.plan import plan_file
from reconciler.report.document import RESULTS, Format
from reconciler.report.plan import plan_document
from reconciler.report.results import results_document


@accepts_settings(RESULTS)
def apply(
    settings: Settings,
    words: PlanAndPaths = None,
    expect_digest: Annotated[str | None, typer.Option(help="Refuse a plan with another digest.")] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Write the results as JSON to this file, beside those of earlier runs of the plan."),
    ] = None,
    metrics: common.MetricsFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Recheck all actions, and send no request.")] = False,
    batch: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Most subjects in one request."),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--operations",
            metavar="NAMES",
            help="Send only requests of these names, such as DeleteRecords,DeleteGroups, and leave the others to another run.",
        ),
    ] = None,
    release: Annotated[
        bool,
        typer.Option(
            "--release",
            help="Release the manifests, from which the plan was made, to `converge --reviewed`. "
            "Not with --operations that leave out a deletion, nor for a plan of --target.",
        ),
    ] = False,
    reviewed_tree: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> int:
    """Carry out a saved plan, or plan and ask for confirmation.

    Without a saved plan, the user must type the name of the cluster, which needs a terminal.
    """
    operations = OPERATIONS if only is None else parse_operations(only)
    if reviewed_tree is not None:
        raise UsageError(
            "--reviewed-tree is gone: --release releases the manifests that were loaded, without a git tree"
        )
    left_out = [operation.API[0] for operation in OPERATIONS if operation.REMOVES and operation not in operations]
    if release and left_out:
        raise UsageError(
            f"--release lets `converge` remove what continuous policies select, and --operations leaves out "
            f"{', '.join(left_out)}: name them in --operations, too, or leave --release out"
        )
    documents.prepare(settings, RESULTS, results, metrics)
    # An output file in JSON is one of results, too: a second run must not take the undo of the first away.
    outputs = settings.output_file or []
    places = [*filter(None, [results]), *(path for output, path in outputs if output is Format.JSON)]
    settings = replace(settings, output_file=[file for file in outputs if file.output is not Format.JSON])
    plan, paths = common.split_plan_and_paths(words)
    if plan is None:
        instead = "save a plan with `plan --out plan.json` and apply that file"
        common.check_question(settings, "apply without a saved plan", instead)
    counted = common.open_metrics(metrics)
    codes: set[int] = set()
    try:
        with counted.measure("apply") as measured:
            if plan is not None:
                measured.cluster = plan.cluster
                measured.count(plan, (), plan.refused)
                _check_plan(plan, expect_digest, places)
            contents = files.read_contents(paths := paths or [files.DEFAULT_FOLDER])
            manifests = loading.load_cluster(paths, settings, cluster_id=plan.cluster_id if plan else None)
            measured.cluster = manifests.cluster.metadata.name
            if plan is None:
                plan = _plan_and_confirm(manifests, settings, expect_digest, places)
                # Those of now: a person takes time to answer, and somebody may protect a topic meanwhile.
                contents = files.read_contents(paths)
                manifests = loading.load_cluster(paths, settings, cluster_id=plan.cluster_id)
            # The results are written inside as well: a Ctrl-C at that moment must not end with "no record,
            # group or leader was changed".
            with handle_signals() as signals:
                with common.open_run(settings, manifests, signals) as run:
                    applied = pipeline.apply(
                        plan,
                        run,
                        dry_run=dry_run,
                        tuning=Tuning(batch_max=batch),
                        operations=operations,
                        release=release,
                        confirm=partial(loading.confirm_unchanged, paths, contents),
                    )
                for place in places:
                    with console.report_write_errors(codes), console.write_errors(str(place)):
                        written = results_file.write(place, applied.outcomes, applied.header)
                        if written != place:
                            console.print_error(
                                f"{place} was changed since the run began: its results are in {written}"
                            )
                show_applied(applied, settings, codes, paths)
            measured.count(plan, applied.outcomes, applied.refused)
            measured.exit_code = applied.header.exit_code
    finally:
        if not dry_run:  # it has done nothing that a counter should hold
            common.write_metrics(counted, metrics, codes)
    for verdict in applied.refused:
        console.print_error(verdict.message, code=verdict.id, exit_code=ExitCode.REFUSED)
    return applied.header.exit_code or max(codes, default=ExitCode.DONE)


def parse_operations(text: str) -> tuple[type[Operation], ...]:
    """Return the operations of these names of Kafka's protocol. Raises UsageError."""
    by_name = {operation.API[0]: operation for operation in OPERATIONS}
    return tuple(by_name[name] for name in parse_names("--operations", text, by_name))


def _plan_and_confirm(
    manifests: files.ClusterManifests, settings: Settings, expect_digest: str | None, places: Sequence[Path]
) -> Plan:
    """Return a new plan, after the user has seen it and typed the name of the cluster.

    Raises Refused for another answer, and what `_check_plan` raises.
    """
    with common.open_run(settings, manifests) as run:
        plan = pipeline.plan(run)
    documents.emit(settings, plan_document(plan))
    _check_plan(plan, expect_digest, places)
    if plan.actions:
        name = manifests.cluster.metadata.name
        console.confirm(f"Type the name of the cluster ({name}) to apply this plan:", name)
    return plan


def _check_plan(plan: Plan, expect_digest: str | None, places: Sequence[Path]) -> None:
    """Raise what `check_approval` raises, and UsageError for a file with something else than results of the plan."""
    pipeline.check_approval(plan, expect_digest)
    for place in places:
        results_file.read_earlier(place, plan_file.digest(plan))


def show_applied(applied: ApplyResult, settings: Settings, unwritten: set[int], paths: Iterable[Path]) -> None:
    """Write the outcomes of a plan in the selected formats, or an error line with its code in `unwritten`.

    `paths`: of the manifests.
    """
    header, outcomes = applied.header, applied.outcomes
    with console.report_write_errors(unwritten):
        document = results_document(header, outcomes, lambda: results_file.lines(outcomes, header), paths=paths)
        documents.emit(settings, document)
