"""`reconciler drift`: report the difference between manifests and cluster, for schedules."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.errors import ReconcilerError, WrongCluster
from reconciler.plan import drift as drift_reports
from reconciler.plan.drift import DriftReport


@accepts_settings
def drift(
    settings: Settings,
    paths: Paths = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            "--previous",
            help="The previous report (-o json), which dates the drift. The file may be missing on the first run.",
        ),
    ] = None,
    metrics: Annotated[
        Path | None, typer.Option("--metrics", help="Write metrics in the Prometheus text format to this file.")
    ] = None,
) -> int:
    """Report drift for schedules, and change nothing. Exit 2 on drift.

    Exit 0 in sync, 1 if too many facts are unknown, 4 if the brokers belong to another cluster. With
    -q, nothing is printed for a cluster in sync.
    """
    console.prepare(settings, metrics)
    previous_reports = _read(previous)
    reports: list[DriftReport] = []
    wrong_cluster = False
    for manifests in common.load_clusters(paths, settings):
        try:
            with common.open_run(settings, manifests) as run:
                reports.append(drift_reports.report(pipeline.plan(run), previous=previous_reports))
        except ReconcilerError as error:  # the other clusters must still be reported
            name, cluster_id = manifests.cluster.metadata.name, manifests.cluster.spec.cluster_id
            console.print_error(f"{name}: {error}")
            now_ms = pipeline.wall_clock_ms()
            reports.append(
                drift_reports.unreachable_report(
                    name, cluster_id, str(error), observed_at_ms=now_ms, previous=previous_reports
                )
            )
            # The wrong cluster stays wrong until the manifest changes, and its facts mean nothing.
            wrong_cluster = wrong_cluster or isinstance(error, WrongCluster)
    trees = [report.drift_report(entry) for entry in reports]
    visible = [tree for tree, entry in zip(trees, reports, strict=True) if not (settings.quiet and entry.in_sync)]
    console.emit(
        settings,
        "a drift report",
        text=lambda: (line for tree in visible for line in common.lines(tree)),
        md=lambda: "\n".join(map(report.write_markdown, trees)),
        github=lambda: "\n".join(map(report.write_markdown, trees)),
        json=lambda: drift_reports.dumps(reports),
    )
    if metrics:
        with console.write_errors(f"--metrics {metrics}"):
            metrics.parent.mkdir(parents=True, exist_ok=True)
            drift_reports.write_metrics(reports, metrics)
    return WrongCluster.exit_code if wrong_cluster else drift_reports.exit_code(reports)


def _read(previous: Path | None) -> Sequence[DriftReport]:
    """Read the previous report. An unreadable one costs only the dates; a schedule recovers."""
    try:
        return drift_reports.read(previous) if previous else ()
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        console.print_stderr(
            f"warning: --previous {previous} is no drift report ({error}): the drift is dated from this run on"
        )
        return ()
