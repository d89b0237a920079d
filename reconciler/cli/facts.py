"""`reconciler scan` and `journal`: the facts of a cluster, and the history of all runs."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.journal.entry import dump


@accepts_settings
def scan(
    settings: Settings,
    out: Annotated[Path, typer.Option("--out", help="Folder for partitions/, topics/, groups/ and run.json.")],
    paths: Paths = None,
) -> None:
    """Write the facts that the policies need as Parquet.

    docs/scan.md describes the schema. The command changes nothing on the cluster.
    """
    with common.open_run(settings, common.load_cluster(paths, settings)) as run:
        files = pipeline.export(run, out)
    console.write("".join(f"{path}\n" for path in files))


@accepts_settings
def journal(
    settings: Settings,
    paths: Paths = None,
    address: Annotated[str | None, typer.Option("--address", help="Only this address, or this prefix of one.")] = None,
) -> None:
    """Print the intents and outcomes of all runs, oldest first."""
    with common.open_run(settings, common.load_cluster(paths, settings)) as run:
        entries = list(pipeline.journal_entries(run, address=address))
    console.emit(
        settings,
        "the journal",
        text=lambda: common.lines(report.journal_report(entries)),
        json=lambda: (f"{dump(entry)}\n" for entry in entries),
    )
