"""Prints to stdout and stderr; nothing else decides about color, terminals and NO_COLOR."""

import errno
import io
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from reconciler.atomic_file import write_bytes
from reconciler.cli.log_lines import write_line
from reconciler.cli.progress import ProgressBar, ProgressDisplay, StepLines, hidden, shown, shows_bar
from reconciler.cli.settings import Settings
from reconciler.errors import ExitCode, OutputUnwritten, ReconcilerError, Refused, UsageError
from reconciler.report.annotations import write_annotations
from reconciler.report.document import JOURNAL, RESULTS, Document, Format, Kind, Rendered, StepOutputs, View
from reconciler.report.markdown import write_pages
from reconciler.report.tree import NO_PAGES, Report
from reconciler.text.escape import escape_text, quoted
from reconciler.text.redact import redact
from reconciler.text.validation import error_reason

if TYPE_CHECKING:
    from rich.text import Text

# rich is imported where it is used: its import takes as long as `validate` itself
_PARTS_AT_ONCE = 1000
_WIDTH_MIN, _WIDTH_DEFAULT = 40, 80
STEP_OUTPUTS = "GITHUB_OUTPUT"
"""The variable with the file of the outputs of a step; unset outside of GitHub."""
step_outputs = StepOutputs()
"""Those of the documents of this command."""


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


def companion(name: str) -> Any:
    """Import a module of a companion by its name, such as `html.page`. The core imports none of them itself."""
    return import_module(f"reconciler.companions.{name}")


def lines(trees: Iterable[Report]) -> "Iterator[Text]":
    """Lay reports out for the terminal; without a terminal and COLUMNS, no line is broken."""
    from reconciler.report.terminal import write_lines

    return (line for tree in trees for line in write_lines(tree, width=terminal_width()))


def _annotations(trees: Sequence[Report]) -> str:
    """Write annotations; of reports that have no title for them, the text of an issue."""
    return "".join(map(write_annotations, trees)) if all(tree.title for tree in trees) else write_pages(trees)


_WRITERS: Mapping[str, Callable[[Document, View], Rendered]] = {
    Format.TEXT: lambda document, view: lines(document.trees(view)),
    Format.MD: lambda document, view: write_pages(document.trees(view)),
    Format.HTML: lambda document, view: str(companion("html.page").write_html(document, view)),
    Format.GITHUB: lambda document, view: _annotations(document.trees(view)),
}
"""Format → how the reports of a document are laid out."""


def emit(settings: Settings, document: Document) -> None:
    """Write a document to each `--output-file`, and to stdout in the format of `-o`.

    Raises OutputUnwritten and BrokenPipeError.
    """
    if os.environ.get(STEP_OUTPUTS):
        step_outputs.take(document.outputs())

    def write_stdout() -> None:
        for text in texts(_render(settings, document, settings.output), color=use_color(settings, sys.stdout)):
            write(text)

    write_files(settings, document, write_stdout)


def write_step_outputs(values: Mapping[str, str | int]) -> None:
    """Make values outputs of the step of a workflow on GitHub, if there is one. Raises OutputUnwritten."""
    if path := os.environ.get(STEP_OUTPUTS):
        with write_errors(f"{STEP_OUTPUTS} {path}"), Path(path).open("a", encoding="utf-8") as stream:
            # A second line of a text would be another output.
            stream.writelines(f"{name}={escape_text(str(value))}\n" for name, value in values.items())


def _render(settings: Settings, document: Document, output: Format) -> Rendered:
    if output in document.writers:
        return document.writers[output]()
    links = NO_PAGES
    if settings.docs_url:
        from reconciler.cli.codes import pages  # the operations, for the limits

        links = pages(settings.docs_url)
    return _WRITERS[output](document, View(output == Format.TEXT, links))


def write_files(settings: Settings, document: Document, write_stdout: Callable[[], None] = lambda: None) -> None:
    """Write a document to each `--output-file` whose format it has, and to stdout, also where a file cannot be written.

    Raises OutputUnwritten, which names each file that could not, and what `write_stdout` raises where all could.
    """
    unwritten: list[str] = []
    for output, path in settings.output_file or ():
        if output in document.kind.formats:
            try:
                with write_errors(f"--output-file {path}"):
                    _check_replaceable(path, document.kind)
                    _set_results_aside(path)
                    lines = texts(_render(settings, document, output), color=False)
                    write_bytes(path, (line.encode() for line in lines), mode=None)
            except OutputUnwritten as error:
                unwritten.append(str(error))
    try:
        write_stdout()
    except (OSError, OutputUnwritten):
        if not unwritten:
            raise
        discard_stdout()  # who reads stdout sees that, and not what a file lacks
    if unwritten:
        raise OutputUnwritten("; ".join(unwritten))


def texts(rendered: Rendered, *, color: bool) -> Iterator[str]:
    """Yield a result as text, many lines at a time. Only `color` makes escape codes."""
    if isinstance(rendered, str):
        yield rendered
        return
    from rich.console import Console

    parts = iter(rendered)
    console = Console(
        force_terminal=color, no_color=not color, width=100_000, soft_wrap=True, highlight=False, emoji=False
    )

    def text(part: "str | Text") -> str:
        if isinstance(part, str):
            return part
        with console.capture() as captured:
            console.print(part, end="\n")
        return captured.get()

    while batch := "".join(map(text, islice(parts, _PARTS_AT_ONCE))):
        yield batch


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


def prepare(settings: Settings, kind: Kind, *files: Path | None) -> None:
    """Check output files and `files` before a command does anything. Raises UsageError.

    It creates no folder: a command that fails later would leave it empty.
    """
    from reconciler.codec import read_kind  # what reads documents, which `help` does without

    places = set[Path]()
    for path in filter(None, (*(file.path for file in settings.output_file or ()), *files)):
        try:
            place = Path(os.path.realpath(path))
            if place in places and (place.is_file() or not place.exists()):
                raise UsageError(
                    f"{place} is named for two outputs, and one would replace the other: name a file for each"
                )
            places.add(place)
            present = next(place for place in (path, *path.parents) if place.exists())
            if present != path and not present.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, f"{present} is not a folder")
            _check_replaceable(path, kind)
            if kind != RESULTS and read_kind(path) == "Results":
                raise FileExistsError(errno.EEXIST, "it has results, with which restore-group writes offsets back")
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if place.is_symlink():
                place.stat()  # raises: it leads to itself
            if not os.access(present, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error_reason(error)}; nothing was done") from error


def _check_replaceable(path: Path, kind: Kind) -> None:
    """Raise FileExistsError for a manifest and for the journal, which no output replaces, but an export of it."""
    from reconciler.codec import read_kind
    from reconciler.journal.file import FOLDER
    from reconciler.manifest.files import SUFFIXES  # what validates manifests, which `help` does without

    if path.suffix.lower() in SUFFIXES and path.is_file():
        raise FileExistsError(errno.EEXIST, "it ends like a manifest, and would be replaced")
    if read_kind(path) == "Journal" and (kind != JOURNAL or path.resolve().parent.name == FOLDER):
        raise FileExistsError(errno.EEXIST, "it is a journal, whose entries would be lost")


def _set_results_aside(path: Path) -> None:
    """Rename results that hold offsets of removed groups by their run, so that the next document replaces none."""
    from reconciler.apply import results
    from reconciler.codec import read_kind

    if read_kind(path) == "Results" and (place := results.place_of_undo(path.resolve())):
        path.resolve().rename(place)
        print_stderr(f"{path} has offsets of removed groups, which are now in {place}")


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
