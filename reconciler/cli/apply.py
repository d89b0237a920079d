"""`reconciler apply`: executes a saved plan, or plans, asks and executes. Changes nothing by default."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.apply import results as results_file
from reconciler.apply.tuning import BatchLimits as Sizes
from reconciler.cli import common, console
from reconciler.cli.plan import show_plan
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.cli.signals import handle_signals
from reconciler.errors import PlanUnusable, Refused, UsageError
from reconciler.manifest.manifest_set import ClusterManifests
from reconciler.model.plan import Plan
from reconciler.pipeline import ApplyResult
from reconciler.plan import plan_file

Words = Annotated[
    list[Path] | None,
    typer.Argument(
        parser=common.path,
        metavar="[PLAN] [PATHS]",
        help="A saved plan (*.json), then manifest files and folders.",
        show_default=False,
    ),
]


@accepts_settings
def apply(
    settings: Settings,
    words: Words = None,
    expect_digest: Annotated[
        str | None, typer.Option("--expect-digest", help="Refuse any other plan than this one.")
    ] = None,
    results: Annotated[Path | None, typer.Option("--results", help="Write results.json there.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Recheck everything, send nothing.")] = False,
    batch: Annotated[
        int | None,
        typer.Option("--batch", min=1, metavar="N", help="At most N subjects in one request.", show_default=False),
    ] = None,
) -> int:
    """Carry out a saved plan, or plan, print and ask.

    Without a plan file the cluster's name has to be typed; without a terminal that is refused.
    """
    console.prepare(settings, results)
    words = words or []
    saved = words[0] if words and words[0].suffix == ".json" else None
    paths = words[1:] if saved else words
    if saved is None and (settings.no_input or not sys.stdin.isatty()):
        raise UsageError(
            "apply without a plan file asks, and there is no terminal: save a plan with `plan --out plan.json` and apply that"
        )
    planned = plan_file.read(saved) if saved else None
    now_ms = common.clock()()
    if planned:
        _refuse(planned, expect_digest, now_ms)
    manifests = common.load(paths, settings, now_ms=now_ms)
    part = common.one_cluster(manifests, settings, wanted_id=planned.cluster_id if planned else None)
    if planned is None:
        with common.running(settings) as run:
            planned = pipeline.plan(part, run)
        show_plan(planned, settings)
        _refuse(planned, expect_digest, now_ms)
        _confirm(planned, part)
    sizes = Sizes() if batch is None else Sizes().no_larger_than(batch)
    return _execute(planned, part, settings, results=results, dry_run=dry_run, sizes=sizes)


def _refuse(planned: Plan, expect_digest: str | None, now_ms: int) -> None:
    digest = plan_file.digest(planned)
    if expect_digest is not None and expect_digest != digest:
        raise PlanUnusable(
            f"the plan's digest is {digest}, expected {expect_digest or 'one, and the text given is empty'}: nothing was done; apply the plan that was approved"
        )
    if now_ms > planned.expires_at_ms:
        late_s = (now_ms - planned.expires_at_ms) // 1000
        raise PlanUnusable(f"the plan expired {late_s} s ago: nothing was done; plan again")
    if planned.refused:
        raise Refused("; ".join(verdict.message for verdict in planned.refused))


def _confirm(planned: Plan, part: ClusterManifests) -> None:
    if not planned.actions:
        return
    name = part.cluster.metadata.name
    answer = console.ask(f"Type the cluster's name ({name}) to carry this out:")
    if answer != name:
        raise Refused(f"{answer!r} is not {name!r}: nothing was done")


def _execute(
    planned: Plan, part: ClusterManifests, settings: Settings, *, results: Path | None, dry_run: bool, sizes: Sizes
) -> int:
    # Results, too, are written under it: a Ctrl-C that comes then must not end in "nothing was written".
    with handle_signals() as stop:
        with common.running(settings) as run:
            applied = pipeline.apply(planned, part, run, dry_run=dry_run, stop=stop, sending=stop.sending, sizes=sizes)
        if results:
            with console.report_write_errors():
                results_file.write(results, applied.outcomes, applied.header)
        with console.report_write_errors():
            show_results(applied, settings)
    for message in applied.refused:
        console.print_error(message)
    return applied.exit_code


def show_results(applied: ApplyResult, settings: Settings) -> None:
    """What became of the plan, in each wanted format."""

    def rendered(chosen: Format, colour: bool) -> str:
        match chosen:
            case Format.TEXT:
                lines = report.results_text(applied.plan, applied.outcomes, width=common.terminal_width())
                return console.styled(lines, colour=colour)
            case Format.MD:
                return report.results_markdown(applied.plan, applied.outcomes)
            case Format.JSON:
                return results_file.dumps(applied.outcomes, applied.header)
            case Format.GITHUB:
                return report.results_github(applied.plan, applied.outcomes)
            case Format.SARIF:
                raise UsageError("-o sarif: results come as text, md, json or github")

    console.emit(settings, rendered)
