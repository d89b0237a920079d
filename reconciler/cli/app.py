"""The commands put together, and the one place where an exception becomes a line on stderr and an exit code."""

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
from reconciler.errors import ManifestsInvalid, ReconcilerError

EXIT_USAGE = 64
EXIT_INTERRUPTED = 130
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""What the pages of --help, which typer prints, fail with on a full disk. Files name themselves in errors of their own."""

app = build_app()


def _version(asked: bool) -> None:
    if asked:
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
    """Run one command and return the process's exit code. Never raises: a bug is a message, a traceback under -v, and exit 1."""
    words = list(arguments)
    if words[:2] == ["plan", "diff"]:  # a verb of its own, though it reads as one of plan's
        words[:2] = ["plan-diff"]
    try:
        answer = app(args=words, prog_name="reconciler", standalone_mode=False)
        return answer if isinstance(answer, int) else 0
    except TyperException as wrong:
        message = wrong.format_message() if hasattr(wrong, "format_message") else str(wrong)
        if message.startswith("Usage: "):  # a group of verbs without one
            console.print_stderr(message)
        elif message:
            console.print_error(f"{message} (see reconciler --help)")
        return EXIT_USAGE
    except ManifestsInvalid as invalid:
        return invalid.exit_code  # the command has shown the diagnostics
    except ReconcilerError as error:
        console.print_error(str(error))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        console.print_error("interrupted before anything was written")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        console.discard_stdout()
        return 1
    except OSError as error:
        if error.errno not in _NO_SPACE:
            return _report_bug(error)
        console.print_error(f"standard output could not be written: {error.strerror}")
        return 1
    except Exception as bug:  # noqa: BLE001  the last line of defence: nobody should read a traceback at night
        return _report_bug(bug)


def _report_bug(bug: Exception) -> int:
    if logging.getLogger("reconciler").isEnabledFor(logging.DEBUG):
        traceback.print_exception(bug)
    console.print_error(
        f"this is a bug in reconciler {__version__}: {type(bug).__name__}: {bug} (run again with -v for where)"
    )
    return 1
