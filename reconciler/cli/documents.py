"""Writes the documents of commands to stdout, to files and to the outputs of a step, without replacing what is needed."""

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.atomic_file import write_bytes
from reconciler.cli import console
from reconciler.cli.settings import Settings
from reconciler.errors import OutputUnwritten, UsageError
from reconciler.report.annotations import write_annotations
from reconciler.report.document import (
    JOURNAL,
    RESULTS,
    SUGGESTIONS,
    Document,
    Format,
    Kind,
    Rendered,
    StepOutputs,
    View,
)
from reconciler.report.markdown import write_pages
from reconciler.report.tree import NO_PAGES, Report
from reconciler.text.escape import escape_text
from reconciler.text.validation import error_reason

if TYPE_CHECKING:
    from rich.text import Text

# rich is imported where it is used: its import takes as long as `validate` itself
_PARTS_AT_ONCE = 1000
STEP_OUTPUTS = "GITHUB_OUTPUT"
"""The variable with the file of the outputs of a step; unset outside of GitHub."""
step_outputs = StepOutputs()
"""Those of the documents of this command."""


def companion(name: str) -> Any:
    """Import a module of a companion by its name, such as `html.page`. The core imports none of them itself."""
    return import_module(f"reconciler.companions.{name}")


def lines(trees: Iterable[Report]) -> "Iterator[Text]":
    """Lay reports out for the terminal; without a terminal and COLUMNS, no line is broken."""
    from reconciler.report.terminal import write_lines

    return (line for tree in trees for line in write_lines(tree, width=console.terminal_width()))


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
        for text in texts(_render(settings, document, settings.output), color=console.use_color(settings, sys.stdout)):
            console.write(text)

    write_files(settings, document, write_stdout)


def write_step_outputs(values: Mapping[str, str | int]) -> None:
    """Make values outputs of the step of a workflow on GitHub, if there is one. Raises OutputUnwritten."""
    if path := os.environ.get(STEP_OUTPUTS):
        with console.write_errors(f"{STEP_OUTPUTS} {path}"), Path(path).open("a", encoding="utf-8") as stream:
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
                with console.write_errors(f"--output-file {path}"):
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
        console.discard_stdout()  # who reads stdout sees that, and not what a file lacks
    if unwritten:
        raise OutputUnwritten("; ".join(unwritten))


def texts(rendered: Rendered, *, color: bool) -> Iterator[str]:
    """Yield a result as text, many lines at a time. Only `color` makes escape codes."""
    if isinstance(rendered, str):
        yield rendered
        return
    from rich.console import Console

    parts = iter(rendered)
    screen = Console(
        force_terminal=color, no_color=not color, width=100_000, soft_wrap=True, highlight=False, emoji=False
    )

    def text(part: "str | Text") -> str:
        if isinstance(part, str):
            return part
        with screen.capture() as captured:
            screen.print(part, end="\n")
        return captured.get()

    while batch := "".join(map(text, islice(parts, _PARTS_AT_ONCE))):
        yield batch


def prepare(settings: Settings, kind: Kind, *files: Path | None) -> None:
    """Check output files and `files` before a command does anything. Raises UsageError.

    It creates no folder: a command that fails later would leave it empty.
    """
    from reconciler.codec import read_kind  # what reads documents, which `help` does without

    places = set[Path]()
    outputs = [file.path for file in settings.output_file or ()]
    for path in filter(None, (*outputs, *files)):
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
            _check_replaceable(path, kind, of_manifests=kind == SUGGESTIONS and path not in outputs)
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


def _check_replaceable(path: Path, kind: Kind, *, of_manifests: bool = False) -> None:
    """Raise FileExistsError for the name of a manifest, unless a new file `of_manifests` gets it, and for the journal.

    No output replaces the journal but an export of it.
    """
    from reconciler.codec import read_kind
    from reconciler.journal.file import FOLDER
    from reconciler.model.plan import MANIFEST_SUFFIXES

    if path.suffix.lower() in MANIFEST_SUFFIXES and (path.is_file() or not of_manifests):
        raise FileExistsError(errno.EEXIST, "it ends like a manifest, and would be read as one; name it otherwise")
    if read_kind(path) == "Journal" and (kind != JOURNAL or path.resolve().parent.name == FOLDER):
        raise FileExistsError(errno.EEXIST, "it is a journal, whose entries would be lost")


def _set_results_aside(path: Path) -> None:
    """Rename results that hold offsets of removed groups by their run, so that the next document replaces none."""
    from reconciler.apply import results
    from reconciler.codec import read_kind

    if read_kind(path) == "Results" and (place := results.place_of_undo(path.resolve())):
        path.resolve().rename(place)
        console.print_stderr(f"{path} has offsets of removed groups, which are now in {place}")
