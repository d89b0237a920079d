"""Prints to stdout and stderr, logs and asks; nothing else decides about color, terminals and NO_COLOR."""

import io
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TextIO

from reconciler.cli.log_lines import write_line
from reconciler.cli.progress import ProgressBar, ProgressDisplay, StepLines, hidden, shown, shows_bar
from reconciler.cli.settings import Settings
from reconciler.errors import ExitCode, OutputUnwritten, ReconcilerError, Refused
from reconciler.text.escape import escape_text, quoted
from reconciler.text.redact import redact
from reconciler.text.validation import error_reason

_WIDTH_MIN, _WIDTH_DEFAULT = 40, 80


def use_color(settings: Settings, stream: TextIO) -> bool:
    """Return whether to use color. `auto` depends on the terminal, NO_COLOR and TERM."""
    if settings.color == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return settings.color == "always"


def terminal_width() -> int | None:
    """Return the cells of a line on stdout; None: no terminal and no COLUMNS, so lines have any width.

    A terminal that reports 0 cells does not know its width. Below 40 cells, long lines stick out.
    """
    columns = shutil.get_terminal_size((0, 0)).columns
    if columns <= 0:
        return _WIDTH_DEFAULT if sys.stdout.isatty() else None
    return max(columns, _WIDTH_MIN)


def write(text: str) -> None:
    """Write UTF-8 to stdout. Raises OutputUnwritten, and BrokenPipeError if nothing reads it."""
    with write_errors("standard output", BrokenPipeError), hidden():
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.flush()


def print_error(message: str, *, code: str = "Error", exit_code: int = ExitCode.ERROR, **fields: object) -> None:
    """Print one error line to stderr, with invisible characters escaped.

    `code`, `exit_code` and `fields`: of the line as JSON.
    """
    if not write_line("ERROR", message, code=code, exit_code=int(exit_code), **fields):
        print_stderr(f"error: {escape_text(message)}")


def print_exception(error: ReconcilerError, about: str = "") -> None:
    """Print the error line of an exception. `about`: the cluster, where a command goes on with others."""
    message = f"{about}: {error}" if about else str(error)
    print_error(message, code=type(error).__name__, exit_code=error.exit_code)


def print_stderr(message: str) -> None:
    """Print one line to stderr, which never fails: see `unfailing_stderr`."""
    if not write_line("INFO", message):
        with hidden():
            print(message, file=sys.stderr, flush=True)


class _UnfailingFile(io.FileIO):
    """A file that drops what it cannot write."""

    def write(self, data: Any, /) -> int:
        with suppress(OSError):  # a closed pipe or a full disk
            return super().write(data) or len(data)  # None: a pipe in non-blocking mode is full
        return len(data)


def unfailing_stderr() -> TextIO:
    """Return a stream on stderr's file that never raises OSError, not even when Python exits.

    It covers every writer: print, logging, warnings, tracebacks of threads. Without it, text that a
    failed write left in the buffer fails again at exit, and Python replaces the exit code by 120.
    """
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError):  # not a file: it has no buffer to flush at exit
        return sys.stderr
    buffer = io.BufferedWriter(_UnfailingFile(descriptor, "wb", closefd=False))
    return io.TextIOWrapper(buffer, encoding=sys.stderr.encoding, errors=sys.stderr.errors, line_buffering=True)


@contextmanager
def write_errors(target: str, *others: type[OSError]) -> Iterator[None]:
    """Raise OutputUnwritten for an OSError of the block, except for `others`."""
    try:
        yield
    except others:
        raise
    except OSError as error:
        raise OutputUnwritten(f"{target} could not be written: {error_reason(error)}") from error


@contextmanager
def collect_errors(codes: set[int], cluster: str = "") -> Iterator[list[ReconcilerError]]:
    """Print an error of the block and add its exit code; what was done stays done, and other clusters still run.

    `cluster`: which one the block is about, if there are several. Yields where the error is added.
    """
    errors: list[ReconcilerError] = []
    try:
        yield errors
    except ReconcilerError as error:
        print_exception(error, cluster)
        codes.add(error.exit_code)
        errors.append(error)
    except BrokenPipeError:
        discard_stdout()
        codes.add(ExitCode.ERROR)


@contextmanager
def report_write_errors(codes: set[int]) -> Iterator[None]:
    """Print an error if the results are not written, and add its exit code to `codes`.

    The code of what was done comes before it. A reader of stdout that has gone is not an error of this run.
    """
    try:
        yield
    except (OSError, OutputUnwritten) as error:
        if isinstance(error, BrokenPipeError):
            discard_stdout()
        else:
            codes.add(ExitCode.ERROR)
        print_error(
            f"the results could not be written completely: {error_reason(error)}; `reconciler journal` prints them, "
            "and with -o json what restore-group needs",
            code="OutputUnwritten",
        )


def discard_stdout() -> None:
    """Point stdout to /dev/null: text in its buffer would fail again at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def progress(
    settings: Settings, is_interrupted: Callable[[], bool] = lambda: False
) -> AbstractContextManager[ProgressDisplay]:
    """Return what shows the steps of a command: a bar on a terminal, otherwise lines.

    `is_interrupted`: as in `shown`.
    """

    def create() -> ProgressDisplay:
        if settings.quiet:
            return ProgressDisplay()
        return ProgressBar(color=use_color(settings, sys.stderr)) if shows_bar() else StepLines(print_stderr)

    return shown(create, is_interrupted=is_interrupted)


class _LogHandler(logging.Handler):
    """Writes one line per log record, escaped: libraries quote arbitrary text in their messages."""

    def emit(self, record: logging.LogRecord) -> None:
        text, trace = record.getMessage(), ""
        if record.exc_info and record.exc_info[0]:
            trace = f"\n{redact(logging.Formatter().formatException(record.exc_info))}"
        if not write_line(record.levelname, f"{text}{trace}", logger=record.name):
            print_stderr(f"{escape_text(f'{record.levelname} {record.name} {text}')}{trace}")


def start_logging(settings: Settings) -> None:
    """Log to stderr: warnings, with -v all records of this program, and none of libraries."""
    logger = logging.getLogger("reconciler")
    logger.handlers[:] = [_LogHandler()]
    logger.propagate = False
    logger.setLevel(logging.DEBUG if settings.verbose else logging.WARNING)
    logging.getLogger().handlers[:] = [logging.NullHandler()]


def confirm(question: str, expected: str) -> None:
    """Read one line from the terminal. Raises ReconcilerError at the end of the input, Refused for another answer.

    Blanks around the answer do not count, unless the name has them.
    """
    with hidden():
        if not write_line("INFO", question):
            print(question, end=" ", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
    if not answer:
        raise ReconcilerError("the input ended without an answer: nothing was done")
    answer = answer.removesuffix("\n")
    if expected not in (answer, answer.strip()):
        raise Refused(f"{quoted(answer)} is not {quoted(expected)}: nothing was done")
