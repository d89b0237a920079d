"""`reconciler journal`: prints the journal."""

from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import UsageError
from reconciler.journal.entry import dump


@accepts_settings
def journal(
    settings: Settings,
    paths: Paths = None,
    address: Annotated[str | None, typer.Option("--address", help="Only this address, or this prefix of one.")] = None,
) -> int:
    """Print the intents and outcomes of all runs, oldest first."""
    manifests = common.load(paths, settings)
    part = common.one_cluster(manifests, settings)
    with common.running(settings) as run:
        entries = list(pipeline.journal_entries(part, run, address=address))

    def rendered(chosen: Format, color: bool) -> str:
        match chosen:
            case Format.TEXT:
                return console.styled(
                    report.write_lines(report.journal_report(entries), width=common.terminal_width()), color=color
                )
            case Format.JSON:
                return "".join(f"{dump(entry)}\n" for entry in entries)
            case Format.MD | Format.GITHUB | Format.SARIF:
                raise UsageError(f"-o {chosen}: journal prints text or json")

    console.emit(settings, rendered)
    return 0
