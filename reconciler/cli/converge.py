"""`reconciler converge` and `watch`: plan and apply the policies in `mode: continuous`."""

import math
import random
import time
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.apply.results import EXIT_PARTLY, may_have_written
from reconciler.cli import common, console
from reconciler.cli.apply import show_results
from reconciler.cli.common import Paths
from reconciler.cli.plan import parse_duration, show_plan, worst_exit_code
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.cli.signals import EXIT_INTERRUPTED, SignalState, handle_signals
from reconciler.errors import ReconcilerError, UsageError
from reconciler.manifest.manifest_set import ClusterManifests
from reconciler.model.action import Mode
from reconciler.model.plan import Blocked, Plan, Waiting
from reconciler.pipeline import ApplyResult
from reconciler.plan.drift import EXIT_UNSEEN

SLICE_S = 0.2
LEAST_S = 1.0
"""Shortest time between two rounds of watch."""
_JITTER_S = 2.0
_DEFAULT_EVERY_MS = 30_000


@accepts_settings
def converge(settings: Settings, paths: Paths = None) -> int:
    """Plan and apply the policies in `mode: continuous`, once.

    For schedules: with -q, nothing is printed if there is nothing to do.
    """
    parts = list(common.clusters(common.load(paths, settings), settings))
    if len(parts) > 1 and settings.output_file:
        raise UsageError("--output-file needs one cluster: select it with --cluster NAME")
    console.prepare(settings)
    codes, wrote = [], False
    with handle_signals() as stop:
        for part in parts:
            if stop():
                codes.append(EXIT_PARTLY if wrote else EXIT_INTERRUPTED)
                break
            try:
                applied = _converge_once(part, settings, stop, quiet_when_idle=settings.quiet)
                wrote = wrote or any(may_have_written(outcome) for outcome in applied.outcomes)
                codes.append(_exit_code(applied))
            except ReconcilerError as error:  # the other clusters must still converge
                console.print_error(f"{part.cluster.metadata.name}: {error}")
                codes.append(error.exit_code)
            except BrokenPipeError:  # as above
                console.discard_stdout()
                codes.append(1)
    return worst_exit_code(codes)


@accepts_settings
def watch(
    settings: Settings,
    paths: Paths = None,
    every: Annotated[
        str | None,
        typer.Option("--every", help="Time between two rounds. Default: the shortest `every` of the policies."),
    ] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="Stop after this number of rounds.")] = None,
) -> int:
    """Converge at regular intervals until Ctrl-C or SIGTERM."""
    manifests = common.load(paths, settings)
    console.prepare(settings)
    part = common.one_cluster(manifests, settings)
    interval_s = _interval_ms(part, every) / 1000
    completed, code = 0, 0
    with handle_signals() as stop:
        while not stop():
            # Without jitter, two loops that delay each other would meet again after each interval.
            jitter_s = random.uniform(0, min(_JITTER_S, interval_s / 10))  # noqa: S311  no secret
            next_s = time.monotonic() + interval_s + jitter_s
            try:
                applied = _converge_once(part, settings, stop, quiet_when_idle=True)
                code = worst_exit_code([code, _exit_code(applied)])
                next_s = min(next_s, time.monotonic() + _due_in_s(applied.plan, common.now_ms()))
            except ReconcilerError as error:  # the cluster may be available in the next round
                console.print_error(str(error))
                code = worst_exit_code([code, error.exit_code])
            except BrokenPipeError:
                console.discard_stdout()
                code = worst_exit_code([code, 1])
            completed += 1
            if completed == rounds:
                break
            while not stop() and time.monotonic() < next_s:
                time.sleep(SLICE_S)
    return code if rounds is not None else 0


def _due_in_s(plan: Plan, now_ms: int) -> float:
    """Return the seconds until the first purge that waits for its `every` is due.

    Otherwise a round that begins just before that moment would delay the purge by an interval.
    """
    due_ms = [d.until_ms for d in plan.decisions if isinstance(d, Waiting) and d.until_ms is not None]
    return max(LEAST_S, (min(due_ms) - now_ms) / 1000) if due_ms else math.inf


def _interval_ms(part: ClusterManifests, every: str | None) -> int:
    if every:
        return parse_duration("--every", every)
    clocks = [policy.every_ms for policy in part.policies if policy.mode is Mode.CONTINUOUS and policy.every_ms]
    return min(clocks, default=_DEFAULT_EVERY_MS)


def _exit_code(applied: ApplyResult) -> int:
    """Return the exit code of one cluster; 1 if only a fact could not be read."""
    return worst_exit_code([applied.exit_code, EXIT_UNSEEN if _has_unknown_facts(applied.plan) else 0])


def _has_unknown_facts(plan: Plan) -> bool:
    return bool(plan.incomplete) or any(isinstance(d, Blocked) and d.unread for d in plan.decisions)


def _converge_once(
    part: ClusterManifests, settings: Settings, stop: SignalState, *, quiet_when_idle: bool
) -> ApplyResult:
    def on_plan(plan: Plan) -> None:
        if plan.actions or plan.refused or _has_unknown_facts(plan) or not quiet_when_idle:
            show_plan(plan, settings)

    with common.running(settings) as run:
        applied = pipeline.converge(part, run, stop=stop, on_plan=on_plan, sending=stop.sending)
    for message in applied.refused:
        console.print_error(message)
    if applied.outcomes:
        with console.report_write_errors():
            show_results(applied, settings)
    return applied
