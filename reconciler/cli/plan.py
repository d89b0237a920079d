"""`reconciler plan`, `plan diff`, `show` and `explain`: what would change, and why. Read only."""

import re
from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.cli import common, console, loading
from reconciler.cli.loading import Paths, PlanAndPaths
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.clock import wall_clock_ms
from reconciler.errors import ExitCode, ReconcilerError, Refused, UsageError
from reconciler.manifest.error_codes import CODES
from reconciler.manifest.files import ClusterManifests
from reconciler.model.block_reason import BLOCK_CODES
from reconciler.model.names import Address
from reconciler.model.plan import Plan
from reconciler.plan import drift as drift_reports
from reconciler.plan import limits, plan_file
from reconciler.plan.diff import compare
from reconciler.policies.fields import duration_ms
from reconciler.text.formatting import format_duration

_HEAD_CHARS = 1_000
"""Characters of a document in which its kind stands."""
LONGEST_EXPIRY_MS = 366 * 86_400_000
DetailedExitcode = Annotated[bool, typer.Option("--detailed-exitcode", help="Exit 2 if there are actions.")]
Full = Annotated[bool, typer.Option("--full", help="List every partition, and skipped subjects.")]


def show_plan(plan: Plan, settings: Settings, *, full: bool = False, saved_to: Path | None = None) -> None:
    """Write the plan in the selected formats."""
    path = str(saved_to) if saved_to else None
    console.emit(
        settings,
        "a plan",
        text=lambda: common.lines(report.plan_report(plan, full=full, saved_to=path), full=full),
        md=lambda: report.write_markdown(report.plan_report(plan)),
        html=lambda: report.write_html([report.plan_report(plan, full=full)], [report.plan_figures(plan)]),
        json=lambda: plan_file.lines(plan),
        github=lambda: report.write_annotations(report.plan_report(plan)),
    )


def exit_code(plan: Plan, *, detailed: bool) -> ExitCode:
    """Return 3 if a limit refuses the plan, 2 for actions with --detailed-exitcode, else 0."""
    for verdict in plan.refused:
        console.print_error(verdict.message)
    if plan.refused:
        return ExitCode.REFUSED
    return ExitCode.ACTIONS if detailed and plan.actions else ExitCode.DONE


@accepts_settings
def plan(
    settings: Settings,
    paths: Paths = None,
    out: Annotated[Path | None, typer.Option(help="Save the plan to this file, for apply.")] = None,
    detailed_exitcode: DetailedExitcode = False,
    within: Annotated[
        Path | None, typer.Option(help="Plan only actions that this reviewed plan holds as well.")
    ] = None,
    connect_as: Annotated[
        Path | None,
        typer.Option(
            metavar="TRUSTED",
            envvar=common.CONNECTION,
            parser=loading.parse_path,
            help="Take the connection of each Cluster from these manifests, such as a checkout of the default branch.",
        ),
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="Plan only this address. May be repeated.")] = None,
    expires_after: Annotated[str, typer.Option(help="How long a saved plan may be applied.")] = "24h",
    full: Full = False,
) -> int:
    """Show what would change on the cluster, and why.

    The command changes nothing. `reconciler plan diff OLD NEW` compares two saved plans.
    """
    expires_after_ms = parse_duration("--expires-after", expires_after)
    if expires_after_ms > LONGEST_EXPIRY_MS:
        raise UsageError(f"--expires-after {expires_after}: at most {format_duration(LONGEST_EXPIRY_MS)}")
    reviewed = plan_file.open_plan(within) if within else None
    clusters = loading.load_clusters(paths, settings)
    trusted = loading.load_trusted(connect_as, settings) if connect_as else None
    if len(clusters) > 1 and (out or reviewed or settings.output_file):
        raise UsageError("--out, --within and --output-file need one cluster: select it with --cluster NAME")
    console.prepare(settings, out)
    codes: set[int] = set()
    target_errors: list[UsageError] = []
    for manifests in clusters:
        with common.collect_errors(manifests, codes):
            try:
                connected = manifests if trusted is None else manifests.connect_as(trusted)
                if trusted is not None and connected.base is None:
                    codes.add(_announce_new_cluster(connected))
                    continue
                with common.open_run(settings, connected) as run:
                    planned = pipeline.plan(
                        run, targets=target or [], reviewed=reviewed, expires_after_ms=expires_after_ms
                    )
            except UsageError as error:  # a target is an address of one cluster and unknown to the others
                target_errors.append(error)
                continue
            if out:
                plan_file.write(planned, out)
            show_plan(planned, settings, full=full, saved_to=out)
            codes.add(exit_code(planned, detailed=detailed_exitcode))
    if target_errors and len(target_errors) == len(clusters):
        raise target_errors[-1]
    return common.worst_exit_code(codes)


def _announce_new_cluster(manifests: ClusterManifests) -> ExitCode:
    """Say that a Cluster without policies is new: nothing connects to it before the merge."""
    verdict = limits.connection_verdict(
        manifests.cluster, manifests.waivers, manifests.connection_changes, now_ms=wall_clock_ms()
    )
    if not verdict.passed:
        raise Refused(verdict.message)
    console.print_stderr(f"{manifests.cluster.metadata.name}: new, and without policies to plan; {verdict.message}")
    return ExitCode.DONE


def parse_duration(option: str, text: str) -> int:
    """Return the milliseconds of an option's duration. Raises UsageError."""
    try:
        return duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error


@accepts_settings
def plan_diff(
    settings: Settings,
    old: Annotated[Path, typer.Argument(help="The older saved plan.")],
    new: Annotated[Path, typer.Argument(help="The newer saved plan.")],
) -> None:
    """Show what changed between two saved plans."""
    comparison = compare(plan_file.open_plan(old, proven=False), plan_file.open_plan(new, proven=False))
    console.emit(
        settings,
        "a comparison",
        text=lambda: common.lines(report.diff_report(comparison)),
        md=lambda: report.write_markdown(report.diff_report(comparison)),
        html=lambda: report.write_html([report.diff_report(comparison)]),
        json=lambda: report.diff_json(comparison),
    )


@accepts_settings
def show(
    settings: Settings,
    saved: Annotated[Path, typer.Argument(metavar="PLAN", help="A saved plan, or a drift report.")],
    detailed_exitcode: DetailedExitcode = False,
    full: Full = False,
) -> int:
    """Print a saved plan in any format.

    It also prints the JSON of `drift`.
    """
    if _is_drift_report(saved):
        return _show_drift_report(saved, settings)
    planned = plan_file.read(saved)
    show_plan(planned, settings, full=full, saved_to=saved)
    return exit_code(planned, detailed=detailed_exitcode)


def _is_drift_report(saved: Path) -> bool:
    """Return whether the file begins like the JSON of `drift`."""
    try:
        with saved.open(encoding="utf-8") as stream:
            return saved.is_file() and '"kind": "DriftReport"' in stream.read(_HEAD_CHARS)
    except (OSError, ValueError):
        return False


def _show_drift_report(saved: Path, settings: Settings) -> ExitCode:
    """Write a saved report of drift in the selected formats. Raises ReconcilerError."""
    try:
        reports = drift_reports.parse(saved.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReconcilerError(f"the drift report {saved} is not usable: {error}") from error
    trees = list(map(report.drift_report, reports))
    console.emit(
        settings,
        "a drift report",
        text=lambda: (line for tree in trees for line in common.lines(tree)),
        md=lambda: report.write_pages(trees),
        html=lambda: report.write_html(trees, report.drift_figures(reports)),
        json=lambda: drift_reports.dumps(reports),
    )
    return ExitCode.DONE


@accepts_settings
def explain(
    settings: Settings,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS|CODE", help="An address such as RetentionFloor/orders/orders[3], or a code such as B204."
        ),
    ],
    words: PlanAndPaths = None,
) -> None:
    """Explain one decision of a plan, or an error code.

    Without a saved plan, the command makes a plan of the manifests first.
    """
    code = subject.upper()
    if re.fullmatch("[A-Z][0-9]{3}", code):
        entry = BLOCK_CODES.get(code) or CODES.get(code)
        if entry is None:
            raise UsageError(f"no such code: {code}; codes of manifests begin with M, codes of blocked subjects with B")
        text: console.Rendered = f"{code}: {entry.title}\n\n{entry.explanation}\n"
    else:
        text = _explain_decision(subject, words, settings)
    console.emit(settings, "an explanation", text=lambda: text, md=lambda: text)


def _explain_decision(subject: str, words: PlanAndPaths, settings: Settings) -> console.Rendered:
    try:
        address = Address.parse(subject)
    except ValueError as error:
        raise UsageError(str(error)) from error
    plan, paths = common.split_plan_and_paths(words)
    if plan is None:
        with common.open_run(settings, loading.load_cluster(paths, settings)) as run:
            plan = pipeline.plan(run)
    return list(common.lines(report.explain_report(plan, address)))
