"""`reconciler restore-group`: undo the removal of a group."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.apply import restore
from reconciler.apply.results import exit_code
from reconciler.cli import common, console, documents, loading
from reconciler.cli.loading import Paths, parse_path
from reconciler.cli.settings import SPARK, Settings, accepts_settings
from reconciler.cli.signals import handle_signals
from reconciler.errors import ExitCode, PlanUnusable, UsageError
from reconciler.report.document import RESTORE, Document
from reconciler.report.restore import restore_report
from reconciler.text.escape import quoted
from reconciler.text.validation import error_reason


@accepts_settings(RESTORE, without=SPARK)
def restore_group(
    settings: Settings,
    source: Annotated[
        Path,
        typer.Argument(
            parser=parse_path,
            metavar="RESULTS",
            help="The file of `apply --results`, or of `journal -o json` after a run that was killed.",
        ),
    ],
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group that was removed.")],
    paths: Paths = None,
    confirm: Annotated[
        str | None, typer.Option(metavar="GROUP", help="The group again, instead of the question; for scripts.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and write nothing.")] = False,
) -> int:
    """Write the committed offsets of a removed group back.

    Only offsets whose topic still has the same id and whose log still holds them are written, and
    never over a group that exists. Records that apply has deleted cannot be restored.
    """
    documents.prepare(settings, RESTORE)
    if confirm is not None and confirm != group:
        raise UsageError(f"--confirm {quoted(confirm)} is not the group {quoted(group)}: nothing was done")
    if not dry_run and confirm is None:
        instead = "repeat the name of the group with --confirm, or look at the plan with --dry-run"
        common.check_question(settings, "restore-group", instead)
    try:
        text = source.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise PlanUnusable(
            f"{source} cannot be read: {error_reason(error)}; pass the file of `apply --results`, or the "
            "output of `reconciler journal -o json`, which holds removals, too"
        ) from None
    removal = restore.find_removal(text, group, name=str(source))
    manifests = loading.load_cluster(paths, settings, cluster_id=removal.cluster_id)
    cluster = manifests.cluster.metadata.name
    with common.open_run(settings, manifests) as run:
        unwritable = pipeline.plan_restore(run, removal)
    plan_tree = restore_report(removal, unwritable, cluster, manifests.policies, is_planned=True)
    documents.emit(settings, Document(kind=RESTORE, trees=lambda _view: [plan_tree]))
    if len(unwritable) == len(removal.offsets):
        return exit_code(unwritable.values())
    if dry_run:
        return ExitCode.DONE
    if confirm is None:
        console.confirm(f"Type the name of the group ({quoted(group)}) to write:", group)
    with handle_signals() as signals:
        with common.open_run(settings, manifests, signals) as run:
            outcomes = pipeline.restore_group(run, removal, unwritable)
        unwritten: set[int] = set()
        with console.report_write_errors(unwritten):
            tree = restore_report(removal, outcomes, cluster)
            documents.emit(settings, Document(kind=RESTORE, trees=lambda _view: [tree]))
    return exit_code(outcomes.values(), interrupted=signals()) or max(unwritten, default=ExitCode.DONE)
