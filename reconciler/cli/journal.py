"""`reconciler journal`: prints the journal."""

from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import ExitCode
from reconciler.journal.entry import dump


@accepts_settings
def journal(
    settings: Settings,
    paths: Paths = None,
    address: Annotated[str | None, typer.Option("--address", help="Only this address, or this prefix of one.")] = None,
) -> int:
    """Print the intents and outcomes of all runs, oldest first."""
    with common.open_run(settings, common.load_cluster(paths, settings)) as run:
        entries = list(pipeline.journal_entries(run, address=address))
    console.emit(
        settings,
        "the journal",
        {
            Format.TEXT: lambda: common.lines(report.journal_report(entries)),
            Format.JSON: lambda: (f"{dump(entry)}\n" for entry in entries),
        },
    )
    return ExitCode.DONE
