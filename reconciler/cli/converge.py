"""`reconciler converge` and `watch`: plan → limits → apply in one, for policies in `mode: continuous` only."""

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
from reconciler.cli.plan import show_plan, worst_exit_code
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.cli.signals import SignalState, handle_signals
from reconciler.errors import ReconcilerError, UsageError
from reconciler.manifest.manifest_set import ClusterManifests
from reconciler.model.action import Mode
from reconciler.model.plan import Blocked, Plan, Waiting
from reconciler.pipeline import EXIT_INTERRUPTED, ApplyResult
from reconciler.plan.drift.report import EXIT_UNSEEN
from reconciler.policies import RetentionFloor
from reconciler.policies.fields import duration_ms

SLICE_S = 0.2
LEAST_S = 1.0
_JITTER_S = 2.0
"""Between two rounds of watch, however close the clocks of its partitions are."""


@accepts_settings
def converge(settings: Settings, paths: Paths = None) -> int:
    """Plan and apply the policies in `mode: continuous`, once. For schedules: with -q nothing is printed where there is nothing to do."""
    manifests = common.load(paths, settings, now_ms=common.clock()())
    chosen = list(common.clusters(manifests, settings))
    if len(chosen) > 1 and settings.output_file:
        raise UsageError("--output-file takes one cluster: choose it with --cluster NAME")
    console.prepare(settings)
    codes, wrote = [], False
    with handle_signals() as stop:
        for part in chosen:
            if stop():
                codes.append(EXIT_PARTLY if wrote else EXIT_INTERRUPTED)
                break
            try:
                applied = _once(part, settings, stop, quiet_when_idle=settings.quiet)
                wrote = wrote or any(may_have_written(outcome) for outcome in applied.outcomes)
                codes.append(_code(applied))
            except ReconcilerError as error:  # one cluster that is away must not keep the others from their purges
                console.print_error(f"{part.cluster.metadata.name}: {error}")
                codes.append(error.exit_code)
            except BrokenPipeError:  # nor must a reader that went away
                console.discard_stdout()
                codes.append(1)
    return worst_exit_code(codes)


@accepts_settings
def watch(
    settings: Settings,
    paths: Paths = None,
    every: Annotated[
        str | None, typer.Option("--every", help="Clock of the loop; default: the shortest `every` of the policies.")
    ] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="Stop after this many.")] = None,
) -> int:
    """Converge in a loop on the purge clock, until Ctrl-C or SIGTERM."""
    manifests = common.load(paths, settings, now_ms=common.clock()())
    console.prepare(settings)
    part = common.one_cluster(manifests, settings)
    interval_s = _interval_ms(part, every) / 1000
    done, code = 0, 0
    with handle_signals() as stop:
        while not stop():
            # Two loops that hold each other back would else meet again after each interval.
            next_s = time.monotonic() + interval_s + random.uniform(0, min(_JITTER_S, interval_s / 10))  # noqa: S311 - no secret
            try:
                applied = _once(part, settings, stop, quiet_when_idle=True)
                code = worst_exit_code([code, _code(applied)])
                next_s = min(next_s, time.monotonic() + _until_due_s(applied.plan, common.clock()()))
            except ReconcilerError as error:  # a cluster that is away now may be back on the next round
                console.print_error(str(error))
                code = worst_exit_code([code, error.exit_code])
            except BrokenPipeError:
                console.discard_stdout()
                code = worst_exit_code([code, 1])
            done += 1
            if done == rounds:
                break
            while not stop() and time.monotonic() < next_s:
                time.sleep(SLICE_S)
    return code if rounds is not None else 0


def _until_due_s(planned: Plan, now_ms: int) -> float:
    """Seconds until the first purge that waits for its clock may happen. A round that came a moment too early for it would else cost
    it a whole interval.
    """
    clocks = [d.until_ms for d in planned.decisions if isinstance(d, Waiting) and d.until_ms is not None]
    return max(LEAST_S, (min(clocks) - now_ms) / 1000) if clocks else math.inf


def _interval_ms(part: ClusterManifests, every: str | None) -> int:
    if every:
        try:
            return duration_ms(every)
        except ValueError as wrong:
            raise UsageError(f"--every {every}: {wrong}") from wrong
    clocks = [
        policy.spec.every_ms
        for policy in part.policies
        if isinstance(policy, RetentionFloor) and policy.mode is Mode.CONTINUOUS and policy.spec.every_ms
    ]
    return min(clocks, default=30_000)


def _code(applied: ApplyResult) -> int:
    """The exit code of one convergence: 1 also where nothing failed and something could not be read, since nobody knows then."""
    return worst_exit_code([applied.exit_code, EXIT_UNSEEN if _unseen(applied.plan) else 0])


def _unseen(planned: Plan) -> bool:
    return bool(planned.incomplete) or any(isinstance(d, Blocked) and d.unread for d in planned.decisions)


def _once(part: ClusterManifests, settings: Settings, stop: SignalState, *, quiet_when_idle: bool) -> ApplyResult:
    def on_plan(planned: Plan) -> None:
        if planned.actions or planned.refused or _unseen(planned) or not quiet_when_idle:
            show_plan(planned, settings)

    with common.running(settings) as run:
        applied = pipeline.converge(part, run, stop=stop, on_plan=on_plan, sending=stop.sending)
    for message in applied.refused:
        console.print_error(message)
    if applied.outcomes:
        with console.report_write_errors():
            show_results(applied, settings)
    return applied
