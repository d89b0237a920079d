"""`reconciler converge` and `watch`: plan → limits → apply in one, for policies in `mode: continuous` only."""

import time
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.cli import common, console
from reconciler.cli.apply import show_results
from reconciler.cli.common import Paths
from reconciler.cli.interrupts import Interrupts, graceful
from reconciler.cli.plan import show_plan, worst
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.errors import ReconcilerError
from reconciler.kinds import RetentionFloor
from reconciler.kinds.fields import duration_ms
from reconciler.load.manifest_set import ClusterManifests
from reconciler.model.action import Mode
from reconciler.model.plan import Plan

SLICE_S = 0.2


@accepts_settings
def converge(settings: Settings, paths: Paths = None) -> int:
    """Plan and apply the policies in `mode: continuous`, once. For schedules: with -q nothing is printed where there is nothing to do."""
    manifests = common.load(paths, settings, now_ms=common.clock()())
    codes = []
    for part in common.clusters(manifests, settings):
        with graceful() as stop:
            codes.append(_once(part, settings, stop, quiet_when_idle=settings.quiet))
    return worst(codes)


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
    part = common.one_cluster(manifests, settings)
    interval_s = _interval_ms(part, every) / 1000
    done = 0
    worst = 0
    with graceful() as stop:
        while not stop():
            began = time.monotonic()
            try:
                worst = max(worst, _once(part, settings, stop, quiet_when_idle=True))
            except ReconcilerError as error:  # a cluster that is away now may be back on the next round
                console.fail(str(error))
                worst = max(worst, error.exit_code)
            done += 1
            if rounds is not None and done >= rounds:
                break
            while not stop() and time.monotonic() - began < interval_s:
                time.sleep(SLICE_S)
    return worst if rounds is not None else 0


def _interval_ms(part: ClusterManifests, every: str | None) -> int:
    if every:
        return duration_ms(every)
    clocks = [
        policy.spec.every_ms
        for policy in part.policies
        if isinstance(policy, RetentionFloor) and policy.mode is Mode.CONTINUOUS and policy.spec.every_ms
    ]
    return min(clocks, default=30_000)


def _once(part: ClusterManifests, settings: Settings, stop: Interrupts, *, quiet_when_idle: bool) -> int:
    def on_plan(planned: Plan) -> None:
        if planned.actions or planned.refused or not quiet_when_idle:
            show_plan(planned, settings)

    with common.running(settings) as run:
        applied = pipeline.converge(part, run, stop=stop, on_plan=on_plan, sending=stop.sending)
    for message in applied.refused:
        console.fail(message)
    if applied.outcomes:
        show_results(applied, settings)
    return applied.exit_code
