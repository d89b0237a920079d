"""`reconciler plan`, `plan diff` and `show`: what would happen, and why. Reads only."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import ReconcilerError, UsageError
from reconciler.model.plan import Plan
from reconciler.plan import plan_file
from reconciler.plan.review import compare
from reconciler.policies.fields import duration_ms, format_duration

Full = Annotated[bool, typer.Option("--full", help="List every partition, and what was skipped.")]
DetailedExitcode = Annotated[bool, typer.Option("--detailed-exitcode", help="Exit 2 where there are actions.")]
LONGEST_EXPIRY_MS = 366 * 86_400_000
EXIT_ACTIONS = 2
EXIT_REFUSED = 3
_WORST_FIRST = (5, 130, 1, 64, 4, 3, 2, 0)


def show_plan(plan: Plan, settings: Settings, *, full: bool = False, saved_to: Path | None = None) -> None:
    """The plan in each wanted format."""

    def rendered(chosen: Format, colour: bool) -> str | Iterable[str]:
        match chosen:
            case Format.TEXT:
                saved = str(saved_to) if saved_to else None
                lines = report.text(plan, full=full, width=common.terminal_width(), saved_to=saved)
                return console.render_stream(lines, colour=colour)
            case Format.MD:
                return report.markdown(plan)
            case Format.JSON:
                return plan_file.lines(plan)
            case Format.GITHUB:
                return report.github(plan)
            case Format.SARIF:
                raise UsageError("-o sarif: a plan comes as text, md, json or github")

    console.emit(settings, rendered)


def exit_code(plan: Plan, *, detailed: bool) -> int:
    """3 where a limit refuses, 2 for actions under --detailed-exitcode, else 0."""
    for verdict in plan.refused:
        console.print_error(verdict.message)
    if plan.refused:
        return EXIT_REFUSED
    return EXIT_ACTIONS if detailed and plan.actions else 0


@accepts_settings
def plan(
    settings: Settings,
    paths: Paths = None,
    out: Annotated[Path | None, typer.Option("--out", help="Save the plan for apply.")] = None,
    detailed_exitcode: DetailedExitcode = False,
    within_: Annotated[
        Path | None, typer.Option("--within", help="Keep only what this reviewed plan holds, too.")
    ] = None,
    target: Annotated[list[str] | None, typer.Option("--target", help="Only this address; may be repeated.")] = None,
    expires_after: Annotated[
        str, typer.Option("--expires-after", help="How long a saved plan may be applied.")
    ] = "24h",
    full: Full = False,
) -> int:
    """Show what would change on the cluster, and why. Changes nothing."""
    try:
        expires_after_ms = duration_ms(expires_after)
    except ValueError as wrong:
        raise UsageError(f"--expires-after {expires_after}: {wrong}") from wrong
    if expires_after_ms > LONGEST_EXPIRY_MS:
        raise UsageError(f"--expires-after {expires_after}: at most {format_duration(LONGEST_EXPIRY_MS)}")
    reviewed = plan_file.open_plan(within_) if within_ else None
    manifests = common.load(paths, settings, now_ms=common.clock()())
    chosen = list(common.clusters(manifests, settings))
    if len(chosen) > 1 and (out or reviewed or settings.output_file):
        raise UsageError("--out, --within and --output-file take one cluster: choose it with --cluster NAME")
    console.prepare(settings, out)
    codes: list[int] = []
    strangers: list[UsageError] = []
    for part in chosen:
        try:
            with common.running(settings) as run:
                planned = pipeline.plan(
                    part, run, targets=target or [], reviewed=reviewed, expires_after_ms=expires_after_ms
                )
        except UsageError as unknown:  # a target is of one cluster, and nothing is decided about it in the others
            strangers.append(unknown)
            if len(strangers) == len(chosen):
                raise
            continue
        except ReconcilerError as error:  # one cluster that is away must not hide what would happen to the others
            if len(chosen) == 1:
                raise
            console.print_error(f"{part.cluster.metadata.name}: {error}")
            codes.append(error.exit_code)
            continue
        if out:
            plan_file.write(planned, out)
        show_plan(planned, settings, full=full, saved_to=out)
        codes.append(exit_code(planned, detailed=detailed_exitcode))
    return worst_exit_code(codes)


def worst_exit_code(codes: Sequence[int]) -> int:
    """The exit code of several clusters: an error hides "there are actions", and "partly applied" hides everything."""
    return min(codes, key=_WORST_FIRST.index, default=0)


@accepts_settings
def plan_diff(
    settings: Settings,
    old: Annotated[Path, typer.Argument(help="A saved plan.")],
    new: Annotated[Path, typer.Argument(help="A saved plan.")],
) -> int:
    """Show what changed between two saved plans. Typed as `reconciler plan diff OLD NEW`."""
    comparison = compare(plan_file.open_plan(old, proven=False), plan_file.open_plan(new, proven=False))

    def rendered(chosen: Format, colour: bool) -> str | Iterable[str]:
        match chosen:
            case Format.TEXT:
                return console.render_stream(report.diff_text(comparison, width=common.terminal_width()), colour=colour)
            case Format.MD:
                return report.diff_markdown(comparison)
            case Format.JSON:
                return report.diff_json(comparison)
            case Format.GITHUB | Format.SARIF:
                raise UsageError(f"-o {chosen}: a comparison comes as text, md or json")

    console.emit(settings, rendered)
    return 0


@accepts_settings
def show(
    settings: Settings,
    saved: Annotated[Path, typer.Argument(metavar="PLAN", help="A saved plan.")],
    detailed_exitcode: DetailedExitcode = False,
    full: Full = False,
) -> int:
    """Render a saved plan in any format."""
    planned = plan_file.read(saved)
    show_plan(planned, settings, full=full, saved_to=saved)
    return exit_code(planned, detailed=detailed_exitcode)
