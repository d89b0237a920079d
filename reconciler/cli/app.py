"""Runs one command, and turns every exception into one line on stderr and an exit code."""

import errno
import logging
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from reconciler import __version__
from reconciler.cli import console
from reconciler.cli.commands import build_app
from reconciler.errors import ExitCode, ManifestsInvalid, ReconcilerError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""Errors of the help pages, which typer prints, on a full disk. Files have their own errors."""

app = build_app()


def _version(requested: bool) -> None:
    if requested:
        console.write(f"reconciler {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code of the process.

    Never raises: a bug is a message, a traceback with -v, and exit 1.
    """
    try:
        return app(args=list(arguments), prog_name="reconciler", standalone_mode=False) or ExitCode.DONE
    except TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if message.startswith("Usage: "):  # a group of commands without one of them
            console.print_stderr(message)
        elif message:
            console.print_error(f"{message} (see reconciler --help)")
        return ExitCode.USAGE
    except ManifestsInvalid as error:
        return error.exit_code  # the command has printed the diagnostics
    except ReconcilerError as error:
        console.print_error(str(error))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        console.print_error("interrupted before anything was written")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        console.discard_stdout()
        return ExitCode.ERROR
    except OSError as error:
        if error.errno not in _NO_SPACE:
            return _report_bug(error)
        console.print_error(f"standard output could not be written: {error.strerror}")
        return ExitCode.ERROR
    except Exception as error:  # noqa: BLE001  the last line of defence: users get a message, not a traceback
        return _report_bug(error)


def _report_bug(error: Exception) -> int:
    if logging.getLogger("reconciler").isEnabledFor(logging.DEBUG):
        traceback.print_exception(error)
    console.print_error(
        f"this is a bug in reconciler {__version__}: {type(error).__name__}: {error} (run again with -v for a traceback)"
    )
    return ExitCode.ERROR
