"""`reconciler drift`: report the difference between manifests and cluster, for schedules."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import ReconcilerError, WrongCluster
from reconciler.manifest.manifest_set import ClusterManifests
from reconciler.plan import drift as drift_reports
from reconciler.plan.drift import DriftReport

Previous = Annotated[
    Path | None,
    typer.Option(
        "--previous",
        help="The previous report (-o json), which dates the drift. The file may be missing on the first run.",
    ),
]
Metrics = Annotated[
    Path | None, typer.Option("--metrics", help="Write metrics in the Prometheus text format to this file.")
]


@accepts_settings
def drift(settings: Settings, paths: Paths = None, previous: Previous = None, metrics: Metrics = None) -> int:
    """Report drift for schedules, and change nothing. Exit 2 on drift.

    Exit 0 in sync, 1 if too many facts are unknown, 4 if the brokers belong to another cluster. With -q, nothing is printed for a
    cluster in sync.
    """
    console.prepare(settings, metrics)
    previous_reports = _read(previous)
    reports: list[DriftReport] = []
    errors: list[ReconcilerError] = []
    for part in common.clusters(common.load(paths, settings), settings):
        reports.append(_report(part, settings, previous_reports, errors))
    _show(reports, settings)
    if metrics:
        try:
            metrics.parent.mkdir(parents=True, exist_ok=True)
            drift_reports.write_metrics(reports, metrics)
        except OSError as error:
            raise ReconcilerError(f"--metrics {metrics} could not be written: {error.strerror or error}") from error
    # The wrong cluster stays wrong until the manifest changes, and its facts mean nothing.
    wrong_cluster = any(isinstance(error, WrongCluster) for error in errors)
    return WrongCluster.exit_code if wrong_cluster else drift_reports.exit_code(reports)


def _report(
    part: ClusterManifests, settings: Settings, previous: tuple[DriftReport, ...], errors: list[ReconcilerError]
) -> DriftReport:
    try:
        with common.running(settings) as run:
            return drift_reports.report(pipeline.plan(part, run), previous=previous)
    except ReconcilerError as error:  # the other clusters must still be reported
        errors.append(error)
        cluster = part.cluster
        console.print_error(f"{cluster.metadata.name}: {error}")
        return drift_reports.unreachable_report(
            cluster.metadata.name,
            cluster.spec.cluster_id,
            str(error),
            observed_at_ms=common.now_ms(),
            previous=previous,
        )


def _read(previous: Path | None) -> tuple[DriftReport, ...]:
    """Read the previous report. An unreadable one costs only the dates; a schedule recovers."""
    if previous is None:
        return ()
    try:
        return drift_reports.read(previous)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        console.print_stderr(
            f"warning: --previous {previous} is no drift report ({error}): the drift is dated from this run on"
        )
        return ()


def _show(reports: list[DriftReport], settings: Settings) -> None:
    def text(color: bool) -> str:
        width = common.terminal_width()
        visible = [entry for entry in reports if not (settings.quiet and entry.in_sync)]
        return console.styled(
            (line for entry in visible for line in report.write_lines(report.drift_report(entry), width=width)),
            color=color,
        )

    def markdown(_color: bool) -> str:
        return "\n".join(report.write_markdown(report.drift_report(entry)) for entry in reports)

    renderers: dict[Format, console.Renderer] = {
        Format.TEXT: text,
        Format.MD: markdown,
        Format.GITHUB: markdown,
        Format.JSON: lambda _color: drift_reports.dumps(reports),
    }
    console.emit_formats(settings, "a drift report", renderers)
