"""`reconciler drift`: a read-only plan made for schedules. Quiet while all is well."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler import report as render
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import ReconcilerError, UsageError, WrongCluster
from reconciler.manifest.files import ClusterManifests
from reconciler.plan import drift as drifting
from reconciler.plan.drift import DriftReport

Previous = Annotated[
    Path | None,
    typer.Option(
        "--previous", help="The last report (-o json), which tells since when; may be missing on the first run."
    ),
]


@accepts_settings
def drift(
    settings: Settings,
    paths: Paths = None,
    previous: Previous = None,
    metrics: Annotated[Path | None, typer.Option("--metrics", help="Write Prometheus text format there.")] = None,
) -> int:
    """A read-only plan for schedules: exit 2 on drift.

    Exit 0 in sync, 1 where too little could be seen to tell, 4 where the brokers are another cluster. With -q nothing is printed while in sync.
    """
    console.prepare(settings, metrics)
    before = _read(previous)
    manifests = common.load(paths, settings, now_ms=common.clock()())
    reports: list[DriftReport] = []
    failures: list[ReconcilerError] = []
    for part in common.clusters(manifests, settings):
        reports.append(_report(part, settings, before, failures))
    _show(reports, settings)
    if metrics:
        try:
            metrics.parent.mkdir(parents=True, exist_ok=True)
            drifting.write_metrics(reports, metrics)
        except OSError as unwritten:
            raise ReconcilerError(f"--metrics {metrics}: {unwritten.strerror or unwritten}") from unwritten
    # Pointed at another cluster: that does not pass by itself, and what was seen of it is nothing.
    wrong = next((failure.exit_code for failure in failures if isinstance(failure, WrongCluster)), None)
    return drifting.exit_code(reports) if wrong is None else wrong


def _report(
    part: ClusterManifests, settings: Settings, before: tuple[DriftReport, ...], failures: list[ReconcilerError]
) -> DriftReport:
    try:
        with common.running(settings) as run:
            return drifting.report(pipeline.plan(part, run), previous=before)
    except ReconcilerError as away:  # one cluster that is away must not hide what the others show
        failures.append(away)
        cluster = part.cluster
        console.print_error(f"{cluster.metadata.name}: {away}")
        return drifting.unreachable_report(
            cluster.metadata.name,
            cluster.spec.cluster_id,
            str(away),
            observed_at_ms=common.clock()(),
            previous=before,
        )


def _read(previous: Path | None) -> tuple[DriftReport, ...]:
    """The last report. What cannot be read costs the memory of since when, not the report: a schedule must mend itself."""
    if previous is None:
        return ()
    try:
        return drifting.read(previous)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as unreadable:
        console.print_stderr(
            f"warning: --previous {previous} is no drift report ({unreadable}): since when starts anew"
        )
        return ()


def _show(reports: list[DriftReport], settings: Settings) -> None:
    def rendered(chosen: Format, colour: bool) -> str:
        width = common.terminal_width()
        match chosen:
            case Format.TEXT:
                told = [each for each in reports if not (settings.quiet and each.in_sync)]
                lines = [line for report in told for line in render.drift_text(report, width=width)]
                return console.styled(lines, colour=colour)
            case Format.MD | Format.GITHUB:
                return "\n".join(render.drift_markdown(report) for report in reports)
            case Format.JSON:
                return drifting.dumps(reports)
            case Format.SARIF:
                raise UsageError("-o sarif: a drift report comes as text, md or json")

    console.emit(settings, rendered)
