"""`reconciler help`: the help of a command, and of the options that commands share."""

from typing import Annotated, ClassVar

import typer
import typer.main

from reconciler.cli import app
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.report.document import Format, Kind

_ALL = Kind("every command", tuple(Format))


class _OptionsPage(app.PlainCommand):
    """A page with all common options."""

    common: ClassVar[tuple[str, ...]] = tuple(Settings.__dataclass_fields__)


def help(  # noqa: A001  the name of the command
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND|options]", help="A command, or `options`: those that commands share."),
    ] = None,
) -> int:
    """Explain a command, or the options that commands share."""
    if words != ["options"]:
        return app.run([*(words or ()), "--help"])
    page = app.Application(add_completion=False)
    page.command(name="COMMAND", cls=_OptionsPage)(accepts_settings(_ALL)(_options))
    typer.main.get_command(page).main(["--help"], prog_name="reconciler COMMAND", standalone_mode=False)
    return 0


def _options(_settings: Settings) -> None:
    """Each command takes these options, beside its own; a variable sets the same as the option."""
