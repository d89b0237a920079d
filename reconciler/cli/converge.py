"""`reconciler converge` and `watch`: plan and apply policies in `mode: continuous`, once or in a loop."""

import math
import os
import random
import time
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli import common, console, documents, loading
from reconciler.cli.health import Health, served
from reconciler.cli.loading import Paths
from reconciler.cli.rounds import ClusterRounds
from reconciler.cli.settings import Settings, accepts_settings, parse_duration
from reconciler.cli.signals import handle_signals
from reconciler.clock import wall_clock_ms
from reconciler.errors import ExitCode, ManifestsInvalid, ReconcilerError, UsageError
from reconciler.manifest import files
from reconciler.manifest.files import ManifestSet
from reconciler.model.action import Mode
from reconciler.model.plan import Plan, Waiting
from reconciler.report.document import PLAN, RESULTS
from reconciler.text.escape import display_name

PAUSED = "RECONCILER_PAUSED"
"""The variable with which an operator stops `converge` and `watch` without a merge."""
_SLICE_S = 0.2
_LEAST_S = 1.0
"""Shortest time between two rounds."""
_JITTER_S = 2.0
_DEFAULT_EVERY_MS = 30_000

SHORTEST = "auto"
"""Of `--every`: the shortest `every` of the policies."""


def _converge(
    settings: Settings,
    context: typer.Context,
    paths: Paths = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help=f"Time between two rounds; {SHORTEST}: the shortest `every` of the policies. Without it, converge runs once.",
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after this number of rounds.")] = None,
    reviewed: Annotated[
        bool, typer.Option("--reviewed", help="Act on manifests only that the newest `apply --release` has released.")
    ] = False,
    metrics: common.MetricsFile = None,
    metrics_address: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve the same metrics while the loop runs; without HOST, to this machine only.",
        ),
    ] = None,
    health_file: Annotated[
        Path | None,
        typer.Option(help="Touch this file while the loop is alive; as JSON, it says how the last round ended."),
    ] = None,
    tree: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> int:
    """Converge the clusters once without `every`, otherwise in a loop; `rounds` None: until a signal.

    Metrics count the word that was typed, as the lines of `--log-format json` name it.
    """
    if os.environ.get(PAUSED, "") not in ("", "0"):
        console.print_stderr(f"paused: {PAUSED} is set, so converge and watch do nothing; unset it to go on")
        return ExitCode.DONE
    if tree is not None:
        raise UsageError("--tree is gone: --reviewed compares the manifests that were loaded, without a git tree")
    of_loops = {"--rounds": rounds, "--metrics-address": metrics_address, "--health-file": health_file}
    for option, value in of_loops.items():
        if value is not None and every is None:
            raise UsageError(f"{option} {value}: converge runs once without --every; add --every, such as --every 30s")
    fixed_ms = None if every is None or every == SHORTEST else parse_duration("--every", every)
    if fixed_ms == 0:
        raise UsageError(f"--every {every}: expected more than 0s, such as 30s")
    rounds = 1 if every is None else rounds
    reading: ManifestSet | ReconcilerError = (loaded := loading.load(paths, settings))
    paths = paths or [files.DEFAULT_FOLDER]
    clusters = [
        ClusterRounds(manifests, settings, paths, reviewed, last_purges=None if every is None else {})
        for manifests in loading.selected(loaded, settings)
    ]
    if len(clusters) > 1 and settings.output_file:
        raise UsageError("--output-file needs one cluster: select it with --cluster NAME")
    documents.prepare(settings, RESULTS, metrics, health_file)
    counted, command = common.open_metrics(metrics), context.info_name or ""
    for cluster in clusters:
        if not settings.quiet and not any(policy.mode is Mode.CONTINUOUS for policy in cluster.known.policies):
            what = "no policy has `mode: continuous`, so nothing is done; `reconciler plan` plans the others"
            console.print_stderr(f"{display_name(cluster.known.cluster.metadata.name)}: {what}")
    codes, told = set[int](), {cluster.known.cluster.metadata.name for cluster in clusters}
    with (
        served(counted, metrics_address),
        Health(health_file) as health,
        handle_signals() as signals,
        console.progress(settings, signals) as progress,
    ):
        for completed in count(1):
            next_s = time.monotonic() + _interval_s(clusters, fixed_ms)
            for cluster in clusters:
                if signals():
                    has_written = any(cluster.has_written for cluster in clusters)
                    codes.add(ExitCode.PARTLY if has_written else ExitCode.INTERRUPTED)
                    break
                name, ended = cluster.known.cluster.metadata.name, set[int]()
                with console.collect_errors(ended, name), counted.measure(command, name) as measured:
                    plan = cluster.converge(reading, signals, ended, measured)
                    next_s = min(next_s, time.monotonic() + max(_LEAST_S, _due_s(plan)))
                    measured.exit_code = common.worst_exit_code(ended)
                health.note(name, common.worst_exit_code(ended))  # it may be available in the next round
                codes |= ended
            common.write_metrics(counted, metrics, codes)
            health.write(next_s - time.monotonic())
            if completed == rounds:
                break
            while not signals() and (left_s := next_s - time.monotonic()) > 0:
                worst_first = sorted(clusters, key=lambda cluster: cluster.rank)
                progress.idle("; ".join(cluster.status(left_s) for cluster in worst_first))
                health.touch()
                time.sleep(_SLICE_S)
            if signals():
                break
            try:
                reading = loading.load(paths, settings)
                new = {cluster.metadata.name for cluster in reading.clusters} - told if not settings.cluster else set()
                told |= new
                for name in sorted(new):
                    console.print_stderr(
                        f"{display_name(name)}: new in the manifests, and not run before the loop starts again"
                    )
            except (ManifestsInvalid, UsageError) as error:
                reading = error
    return ExitCode.DONE if rounds is None else common.worst_exit_code(codes)


converge = accepts_settings(
    PLAN,
    description="""Plan and apply `mode: continuous`, once or at intervals.

    For schedules: with -q, nothing is printed if there is nothing to do. With --every, it repeats until
    Ctrl-C or SIGTERM, and reads the manifests again before each round. With RECONCILER_PAUSED=1,
    nothing is done.
    """,
)(_converge)
watch = accepts_settings(
    PLAN,
    description=f"""Converge at intervals until Ctrl-C or SIGTERM.

    The same as `converge --every {SHORTEST}`.
    """,
)(partial(_converge, every=SHORTEST))


def _interval_s(clusters: list[ClusterRounds], fixed_ms: int | None) -> float:
    policies = chain.from_iterable(cluster.known.policies for cluster in clusters)
    clocks = [policy.every_ms for policy in policies if policy.mode is Mode.CONTINUOUS]
    interval_ms = fixed_ms or min(filter(None, clocks), default=_DEFAULT_EVERY_MS)
    # Without jitter, two loops that delay each other would meet again after each interval.
    return interval_ms / 1000 + random.uniform(0, min(_JITTER_S, interval_ms / 10_000))  # noqa: S311  no secret


def _due_s(plan: Plan) -> float:
    """Return when a purge is due: a round that begins just before would delay it by an interval."""
    due_ms = [d.until_ms for d in plan.decisions if isinstance(d, Waiting) and d.until_ms is not None]
    return (min(due_ms, default=math.inf) - wall_clock_ms()) / 1000
