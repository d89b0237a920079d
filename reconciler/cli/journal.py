"""`reconciler journal`: who did what and when."""

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
    """Show what was intended and what became of it, oldest first."""
    manifests = common.load(paths, settings, now_ms=common.clock()())
    part = common.one_cluster(manifests, settings)
    with common.running(settings) as run:
        entries = list(pipeline.journal_entries(part, run, address=address))

    def rendered(chosen: Format, colour: bool) -> str:
        match chosen:
            case Format.TEXT:
                return console.styled(report.journal_text(entries, width=common.terminal_width()), colour=colour)
            case Format.JSON:
                return "".join(f"{dump(entry)}\n" for entry in entries)
            case Format.MD | Format.GITHUB | Format.SARIF:
                raise UsageError(f"-o {chosen}: the journal comes as text or json")

    console.emit(settings, rendered)
    return 0
