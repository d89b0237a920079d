"""Where words go: results to stdout, progress and logs to stderr. Colour, terminals and NO_COLOR are decided here and nowhere else."""

import errno
import io
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from reconciler.cli.settings import Color, Format, LogFormat, Settings
from reconciler.errors import OutputUnwritten, ReconcilerError, UsageError
from reconciler.text.escape import escape_text, harmless_json


def use_color(settings: Settings, *, stream_is_terminal: bool) -> bool:
    """Whether to colour: `--color` decides, and `auto` asks the terminal and NO_COLOR."""
    match settings.color:
        case Color.ALWAYS:
            return True
        case Color.NEVER:
            return False
        case Color.AUTO:
            return stream_is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write(text: str) -> None:
    """Write text to stdout as UTF-8, whatever the terminal's encoding. Raises OutputUnwritten, and BrokenPipeError where the reader left."""
    with _written("standard output"):
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.flush()


def print_error(message: str) -> None:
    """Print one error line to stderr, with control and other invisible characters of names escaped."""
    with suppress(OSError):  # the results come first; a failure to write them must not hide the error
        sys.stdout.flush()
    print_stderr(f"error: {escape_text(message)}")


def print_stderr(message: str) -> None:
    """Print one line to stderr. A reader that left must not stop an apply half-way."""
    with suppress(OSError):
        print(message, file=sys.stderr, flush=True)


class _UnfailingFile(io.FileIO):
    """A file that drops what it cannot write."""

    def write(self, data: Any, /) -> int:
        try:
            written = super().write(data)
        except OSError:  # the reader left, the disk is full
            return len(data)
        return len(data) if written is None else written  # None: a pipe in non-blocking mode is full


def unfailing_stderr() -> TextIO:
    """Return a stream on stderr's file that never raises OSError, neither for a write nor for the flush at the interpreter's exit.

    It covers every writer: print, logging, warnings, tracebacks of threads. Without it, text that a failed write left in the buffer
    fails once more at exit, and Python replaces the exit code by 120.
    """
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError):  # not a file: it has no buffer to flush at exit
        return sys.stderr
    buffer = io.BufferedWriter(_UnfailingFile(descriptor, "wb", closefd=False))
    return io.TextIOWrapper(buffer, encoding=sys.stderr.encoding, errors=sys.stderr.errors, line_buffering=True)


def emit(settings: Settings, render: Callable[[Format, bool], str | Iterable[str]]) -> None:
    """The result in the chosen format to stdout, and in each `--output-file` format to its file. `render(format, coloured)`.

    What is rendered in parts is written in parts: it may be larger than anybody wants to hold. Raises OutputUnwritten, and BrokenPipeError.
    """
    for chosen, path in settings.formats():
        made = render(chosen, False)  # before the file is emptied: it may be a format that is none here
        with _written(f"--output-file {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", encoding="utf-8") as stream:
                stream.writelines(_parts(made))
    for part in _parts(render(settings.output, use_color(settings, stream_is_terminal=sys.stdout.isatty()))):
        write(part)


@contextmanager
def _written(where: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # whoever read had enough
        raise
    except OSError as failed:
        raise OutputUnwritten(f"{where} could not be written: {failed.strerror or failed}") from failed


@contextmanager
def report_write_errors() -> Iterator[None]:
    """What was done stays done, and its exit code says so, where it cannot be told: a full disk, a reader that went away."""
    try:
        yield
    except (OSError, OutputUnwritten) as failed:
        if isinstance(failed, BrokenPipeError):
            discard_stdout()
        print_error(f"the results could not be written whole: {failed}; the journal has them: reconciler journal")


def discard_stdout() -> None:
    """Point stdout to /dev/null, so that text left in its buffer by a failed write does not fail again at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def flush_or_discard_stdout() -> None:
    """Flush stdout; where that fails, drop what could not be written."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_stdout()


def prepare(settings: Settings, *files: Path | None) -> None:
    """Find out before anything is done what would only fail after it: formats that are none, files that cannot be written.

    Raises UsageError. `files`: others that will be written.
    """
    if settings.output is Format.SARIF or any(chosen is Format.SARIF for chosen, _path in settings.formats()):
        raise UsageError("sarif is for validate: results come as text, md, json or github")
    for path in (*(path for _format, path in settings.formats()), *files):
        if path is None:
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as failed:
            raise UsageError(f"{path} cannot be written: {failed.strerror or failed}; nothing was done") from failed


def _parts(text: str | Iterable[str]) -> Iterable[str]:
    return (text,) if isinstance(text, str) else text


def render_stream(lines: Iterable[Text], *, colour: bool) -> Iterator[str]:
    """`styled`, a thousand lines at a time."""
    left = iter(lines)
    while batch := list(islice(left, 1000)):
        yield styled(batch, colour=colour)


def styled(lines: Iterable[Text], *, colour: bool) -> str:
    """Rich text as a string, with escape codes only where `colour`. Lines are as long as their renderer made them."""
    console = Console(
        force_terminal=colour, no_color=not colour, width=100_000, soft_wrap=True, highlight=False, emoji=False
    )
    with console.capture() as captured:
        for line in lines:
            console.print(line, end="\n")
    return captured.get()


SAME_STEP_S = 10.0
"""Without a terminal, a step that goes on is told again after this long: enough to see life, little to scroll past."""


@contextmanager
def progress(settings: Settings) -> Iterator[Callable[[str], None]]:
    """A function that shows what is being done: one changing line on a terminal, a line per step without one, nothing with -q."""
    if settings.quiet:
        yield lambda _message: None
        return
    if sys.stderr.isatty():
        console = Console(
            stderr=True, highlight=False, emoji=False, no_color=not use_color(settings, stream_is_terminal=True)
        )
        with console.status("…", spinner="dots") as status:

            def changed(message: str) -> None:
                with suppress(OSError):
                    status.update(Text(message))

            yield changed
        return
    started = time.monotonic()
    last_step, last_at = "", started

    def line(message: str) -> None:
        nonlocal last_step, last_at
        now = time.monotonic()
        step = "".join(character for character in message.partition(" (")[0] if not character.isdigit())
        if step == last_step and now - last_at < SAME_STEP_S:
            return
        last_step, last_at = step, now
        print_stderr(f"[{now - started:6.1f} s] {message}")

    yield line


class _PlainLines(logging.Formatter):
    """One line per log record: what a library quotes in its messages may hold anything."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the name is logging's)
        return escape_text(super().formatMessage(record))


class _JsonLines(logging.Formatter):
    """One JSON object per log line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "at": record.created,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        return harmless_json(json.dumps(fields, ensure_ascii=True))


def start_logging(settings: Settings) -> None:
    """Logs to stderr: warnings by default, everything of this program with -v. Other libraries stay quiet."""
    handler = logging.StreamHandler(sys.stderr)
    plain = _PlainLines("%(levelname)s %(name)s %(message)s")
    handler.setFormatter(_JsonLines() if settings.log_format is LogFormat.JSON else plain)
    own = logging.getLogger("reconciler")
    own.handlers[:] = [handler]
    own.propagate = False
    own.setLevel(logging.DEBUG if settings.verbose else logging.WARNING)
    logging.getLogger().handlers[:] = [logging.NullHandler()]


def ask(question: str) -> str:
    """One line from the terminal. Raises ReconcilerError at its end."""
    print(question, end=" ", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise ReconcilerError("no answer")
    return answer.strip()
