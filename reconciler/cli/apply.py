"""`reconciler apply`, `converge` and `watch`: carry out a saved plan, or plan and apply."""

import math
import os
import random
import sys
import time
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.apply import results as results_file
from reconciler.apply.context import Tuning
from reconciler.apply.results import may_have_written
from reconciler.cli import common, console, loading
from reconciler.cli.loading import Paths, PlanAndPaths
from reconciler.cli.plan import parse_duration, show_plan
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.cli.signals import SignalState, handle_signals
from reconciler.clock import wall_clock_ms
from reconciler.errors import ExitCode, ManifestsInvalid, PlanUnusable, ReconcilerError, Refused, UsageError
from reconciler.journal.review import parse_tree
from reconciler.manifest.files import ClusterManifests
from reconciler.model.action import Mode
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.plan import Blocked, Plan, Waiting
from reconciler.operations import OPERATIONS, Operation
from reconciler.pipeline import ApplyResult
from reconciler.plan import plan_file
from reconciler.text.escape import display_name, quoted
from reconciler.text.formatting import approximate_duration, count, format_time

PAUSED = "RECONCILER_PAUSED"
"""The variable with which an operator stops `converge` and `watch` without a merge."""
_SLICE_S = 0.2
_LEAST_S = 1.0
"""Shortest time between two rounds of watch."""
_JITTER_S = 2.0
_DEFAULT_EVERY_MS = 30_000


@accepts_settings
def apply(
    settings: Settings,
    words: PlanAndPaths = None,
    expect_digest: Annotated[str | None, typer.Option(help="Refuse a plan with another digest.")] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Write the results as JSON to this file, beside those of earlier runs of the plan."),
    ] = None,
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
    reviewed_tree: Annotated[
        str | None,
        typer.Option(
            metavar="SHA",
            help="Record in the journal that this git tree, from which the manifests come, was reviewed. "
            "For converge --tree. Not with --operations that leave out a deletion.",
        ),
    ] = None,
) -> int:
    """Carry out a saved plan, or plan and ask for confirmation.

    Without a saved plan, the user must type the name of the cluster, which needs a terminal.
    """
    operations = OPERATIONS if only is None else parse_operations(only)
    if reviewed_tree is not None:
        parse_tree("--reviewed-tree", reviewed_tree)
        if left_out := [
            operation.API[0] for operation in OPERATIONS if operation.REMOVES and operation not in operations
        ]:
            raise UsageError(
                f"--reviewed-tree lets `converge` remove what continuous policies select, and --operations leaves out "
                f"{', '.join(left_out)}: name them in --operations, too, or leave --reviewed-tree out"
            )
    console.prepare(settings, results)
    plan, paths = common.split_plan_and_paths(words)
    if plan is None and (settings.no_input or not sys.stdin.isatty()):
        raise UsageError(
            "apply without a saved plan asks for confirmation, and standard input is no terminal: save a plan with "
            "`plan --out plan.json` and apply that file"
        )
    if plan is not None:
        _check_plan(plan, expect_digest, results)
    cluster_id = plan.cluster_id if plan else None
    manifests = loading.load_cluster(paths, settings, cluster_id=cluster_id, tree=reviewed_tree)
    if plan is None:
        plan = _plan_and_confirm(manifests, settings, expect_digest, results)
    # The results are written inside as well: a Ctrl-C at that moment must not end with "interrupted
    # before anything was written".
    with handle_signals() as signals:
        with common.open_run(settings, manifests, signals) as run:
            applied = pipeline.apply(
                plan,
                run,
                dry_run=dry_run,
                tuning=Tuning(batch_max=batch),
                operations=operations,
                reviewed_tree=reviewed_tree,
            )
        if results:
            with console.report_write_errors():
                written = results_file.write(results, applied.outcomes, applied.header)
                if written != results:
                    console.print_error(f"{results} was changed since the run began: its results are in {written}")
        _show_results(applied, settings)
    for message in applied.header.refused:
        console.print_error(message)
    return applied.header.exit_code


def parse_operations(text: str) -> tuple[type[Operation], ...]:
    """Return the operations of these names of Kafka's protocol, separated by commas.

    Raises UsageError.
    """
    by_name = {operation.API[0]: operation for operation in OPERATIONS}
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in by_name]:
        raise UsageError(
            f"--operations {text or 'is empty'}: {display_name(unknown[0]) if unknown[0] else 'an empty name'} is no "
            f"operation; known: {', '.join(by_name)}, separated by commas"
        )
    return tuple(by_name[name] for name in dict.fromkeys(names))


def _is_paused(command: str) -> bool:
    """Return whether an operator has paused the commands that act without a review, and say so."""
    value = os.environ.get(PAUSED, "")
    if value in ("", "0"):
        return False
    console.print_stderr(f"paused: {PAUSED} is set, so {command} does nothing; unset it to go on")
    return True


def _plan_and_confirm(
    manifests: ClusterManifests, settings: Settings, expect_digest: str | None, results: Path | None
) -> Plan:
    """Return a new plan, after the user has seen it and typed the name of the cluster.

    Raises Refused for another answer, and what `_check_plan` raises.
    """
    with common.open_run(settings, manifests) as run:
        plan = pipeline.plan(run)
    show_plan(plan, settings)
    _check_plan(plan, expect_digest, results)
    name = manifests.cluster.metadata.name
    question = f"Type the name of the cluster ({name}) to apply this plan:"
    if plan.actions and (answer := console.ask(question)) != name:
        raise Refused(f"{quoted(answer)} is not {quoted(name)}: nothing was done")
    return plan


def _check_plan(plan: Plan, expect_digest: str | None, results: Path | None) -> None:
    """Raise PlanUnusable for another or an expired plan, Refused for a plan beyond a limit.

    Raises UsageError for a file that holds something else than results of the plan.
    """
    digest = plan_file.digest(plan)
    if expect_digest is not None and expect_digest != digest:
        raise PlanUnusable(
            f"the plan's digest is {digest}, and --expect-digest is {expect_digest or 'empty'}: nothing was done; apply the "
            f"plan that was approved"
        )
    if (late_ms := wall_clock_ms() - plan.expires_at_ms) > 0:
        raise PlanUnusable(f"the plan expired {approximate_duration(late_ms)} ago: nothing was done; plan again")
    if plan.refused:
        raise Refused("; ".join(verdict.message for verdict in plan.refused))
    if results is not None:
        results_file.read_earlier(results, digest)


def _show_results(applied: ApplyResult, settings: Settings) -> None:
    """Write the outcomes of a plan in the selected formats, or an error line."""
    header, outcomes = applied.header, applied.outcomes
    with console.report_write_errors():
        common.show_results(settings, header, outcomes, json=lambda: results_file.lines(outcomes, header))


@accepts_settings
def converge(
    settings: Settings,
    paths: Paths = None,
    tree: Annotated[
        str | None,
        typer.Option(
            metavar="SHA",
            help="The git tree that the manifests come from. Do nothing unless apply --reviewed-tree has recorded it.",
        ),
    ] = None,
) -> int:
    """Plan and apply the policies in `mode: continuous`, once.

    For schedules: with -q, nothing is printed if there is nothing to do. With RECONCILER_PAUSED=1,
    nothing is done.
    """
    if _is_paused("converge"):
        return ExitCode.DONE
    if tree is not None:
        parse_tree("--tree", tree)
    clusters = loading.load_clusters(paths, settings, tree=tree)
    if len(clusters) > 1 and settings.output_file:
        raise UsageError("--output-file needs one cluster: select it with --cluster NAME")
    console.prepare(settings)
    codes: set[int] = set()
    wrote = False
    with handle_signals() as signals:
        for manifests in clusters:
            if signals():
                codes.add(ExitCode.PARTLY if wrote else ExitCode.INTERRUPTED)
                break
            common.note_missing_continuous(manifests, settings)
            with common.collect_errors(manifests, codes):
                applied = _converge_once(manifests, settings, signals, codes, quiet_when_idle=settings.quiet, tree=tree)
                wrote = wrote or any(map(may_have_written, applied.outcomes))
    return common.worst_exit_code(codes)


@accepts_settings
def watch(
    settings: Settings,
    paths: Paths = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Time between two rounds. Default: the shortest `every` of the policies."
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after this number of rounds.")] = None,
) -> int:
    """Converge at regular intervals until Ctrl-C or SIGTERM.

    Reads the manifests again before each round. While they are invalid, the last valid ones stay in
    force, with the protections of both; if the Cluster cannot be read, nothing is done. With
    RECONCILER_PAUSED=1, nothing is done.
    """
    if _is_paused("watch"):
        return ExitCode.DONE
    fixed_ms = None if every is None else parse_duration("--every", every)
    if fixed_ms == 0:
        raise UsageError(f"--every {every}: expected more than 0s, such as 30s")
    valid = loading.load_cluster(paths, settings)
    console.prepare(settings)
    common.note_missing_continuous(valid, settings)
    completed = 0
    codes: set[int] = set()
    last_purge = "no purge yet"
    last_purges: dict[TopicPartition, int] = {}
    with handle_signals() as signals, console.progress(settings, signals) as progress:
        while not signals():
            clocks = [policy.every_ms for policy in valid.policies if policy.mode is Mode.CONTINUOUS]
            interval_ms = fixed_ms or min(filter(None, clocks), default=_DEFAULT_EVERY_MS)
            # Without jitter, two loops that delay each other would meet again after each interval.
            wait_s = interval_ms / 1000 + random.uniform(0, min(_JITTER_S, interval_ms / 10_000))  # noqa: S311  no secret
            next_s = time.monotonic() + wait_s
            blocked = "this round failed"
            with common.collect_errors(valid, codes):  # the cluster may be available in the next round
                valid, manifests = _load_again(paths, settings, valid, codes) if completed else (valid, valid)
                applied = _converge_once(
                    manifests, settings, signals, codes, quiet_when_idle=True, last_purges=last_purges
                )
                last_purge = _describe_purge(applied) or last_purge
                blocked = f"{sum(isinstance(decision, Blocked) for decision in applied.plan.decisions):,} blocked"
                # A round that begins just before a purge is due would delay it by an interval.
                due_ms = [
                    d.until_ms for d in applied.plan.decisions if isinstance(d, Waiting) and d.until_ms is not None
                ]
                due_s = (min(due_ms, default=math.inf) - wall_clock_ms()) / 1000
                next_s = min(next_s, time.monotonic() + max(_LEAST_S, due_s))
            completed += 1
            if completed == rounds:
                break
            while not signals() and (left_s := next_s - time.monotonic()) > 0:
                progress.idle(f"{valid.cluster.metadata.name}: next round in {left_s:.0f} s, {last_purge}, {blocked}")
                time.sleep(_SLICE_S)
    return ExitCode.DONE if rounds is None else common.worst_exit_code(codes)


def _describe_purge(applied: ApplyResult) -> str:
    """Return when the round removed records, and how many; empty: it removed none."""
    purged = [outcome for outcome in applied.outcomes if outcome.status is Status.APPLIED and outcome.removed_max]
    if not purged:
        return ""
    records = count(sum(outcome.removed_max for outcome in purged), "record")
    return (
        f"last purge {format_time(applied.header.finished_at_ms)} "
        f"({count(len(purged), 'partition')}, at most {records})"
    )


def _load_again(
    paths: Paths, settings: Settings, valid: ClusterManifests, codes: set[int]
) -> tuple[ClusterManifests, ClusterManifests]:
    """Return the last valid manifests of the cluster, and those that are in force.

    Raises ReconcilerError where it is not known what the cluster protects by now.
    """
    name = valid.cluster.metadata.name
    try:
        present = loading.load(paths, settings).for_cluster(name)
    except UsageError as error:
        raise UsageError(f"{error}: nothing is done until it is back; start watch again for another cluster") from None
    except ManifestsInvalid as error:
        declared = [cluster for cluster in error.clusters if cluster.metadata.name == name]
        if not declared:
            raise ReconcilerError(
                f"the manifests are invalid by now, and what Cluster/{name} protects cannot be read: nothing is "
                "done until it can be read"
            ) from None
        console.print_error(
            f"{name}: the manifests are invalid by now: the last valid ones stay in force, with what Cluster/{name} "
            "protects by now"
        )
        codes.add(error.exit_code)
        # A Cluster that is declared twice is invalid, also under two names, and either one may protect more.
        same_id = (cluster for cluster in error.clusters if cluster.spec.cluster_id == valid.cluster.spec.cluster_id)
        return valid, reduce(ClusterManifests.with_protections, chain(declared, same_id), valid)
    return present, present


def _converge_once(
    manifests: ClusterManifests,
    settings: Settings,
    signals: SignalState,
    codes: set[int],
    *,
    quiet_when_idle: bool,
    tree: str | None = None,
    last_purges: dict[TopicPartition, int] | None = None,
) -> ApplyResult:
    """Converge a cluster, and add its exit code; 1 if only a fact could not be read.

    `last_purges`: of the rounds of a loop, as in `pipeline.Run`.
    Raises PlanUnusable for a tree of manifests that was never reviewed.
    """

    def on_plan(plan: Plan) -> None:
        has_unknown_facts = plan.incomplete or any(isinstance(d, Blocked) and d.unread for d in plan.decisions)
        if has_unknown_facts:
            codes.add(ExitCode.ERROR)
        if plan.actions or plan.refused or has_unknown_facts or not quiet_when_idle:
            show_plan(plan, settings)

    with common.open_run(settings, manifests, signals, last_purges) as run:
        if tree is not None:
            pipeline.check_review(run, tree)
        applied = pipeline.converge(run, on_plan=on_plan)
    codes.add(applied.header.exit_code)
    for message in applied.header.refused:
        console.print_error(message)
    if applied.outcomes:
        _show_results(applied, settings)
    return applied
