"""`reconciler suggest`: reads a cluster and suggests its first policies."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from reconciler.cli import common, console, documents
from reconciler.cli.common import BootstrapServer, Client
from reconciler.cli.loading import Paths
from reconciler.cli.settings import Settings, accepts_settings, parse_duration
from reconciler.companions.suggest import drafts, findings
from reconciler.companions.suggest.drafts import ManifestText
from reconciler.companions.suggest.figures import suggest_figures
from reconciler.companions.suggest.find import find_suggestions
from reconciler.companions.suggest.findings import Suggestions
from reconciler.companions.suggest.report import ITEMS_MAX, suggest_report
from reconciler.companions.suggest.rules import DEFAULT_IDLE_FOR_MS
from reconciler.errors import UsageError
from reconciler.manifest.files import DEFAULT_FOLDER
from reconciler.report.document import SUGGESTIONS, Document
from reconciler.report.terminal import write_lines
from reconciler.text.escape import display_name
from reconciler.text.formatting import format_duration
from reconciler.text.validation import error_reason

LINES_MAX = 200
"""Lines that the command prints to stdout as text."""


@accepts_settings(SUGGESTIONS)
def suggest(
    settings: Settings,
    paths: Paths = None,
    bootstrap_server: BootstrapServer = None,
    name: Annotated[
        str, typer.Option(help="With --bootstrap-server: name of the Cluster manifest that --write writes.")
    ] = "my-cluster",
    client: Client = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the manifests to this file, which must not exist."),
    ] = None,
    ignore: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Leave findings out: a file with one id in each line, and comments after #."),
    ] = None,
    idle_for: Annotated[
        str, typer.Option(help="How long a group is without activity before its removal is suggested.")
    ] = format_duration(DEFAULT_IDLE_FOR_MS),
) -> None:
    """Scan a cluster and suggest its first policies.

    It only reads, and a review decides on what it suggests. With --bootstrap-server it needs no
    manifests. With manifests, it takes the connection of the Cluster and leaves out what their
    policies cover. docs/suggest.md describes the findings.
    """
    if write is not None and os.path.lexists(write):
        raise UsageError(f"--write {write}: the file exists, and suggest overwrites no file: name another one")
    documents.prepare(settings, SUGGESTIONS, write)
    idle_for_ms, ignored = parse_duration("--idle-for", idle_for), read_ignored(ignore)
    if idle_for_ms == 0:
        raise UsageError(f"--idle-for {idle_for}: would need no evidence that a group is idle; such as 3d")
    settings = replace(settings, engine=settings.engine or "auto")
    with common.open_reading_run(settings, paths, bootstrap_server, dict(client or ()), name=name) as run:
        suggestions = find_suggestions(run, idle_for_ms=idle_for_ms, ignored=ignored)
        cluster = run.manifests.cluster
    texts = list(drafts.policy_texts(suggestions))
    if bootstrap_server is not None:
        servers, properties = cluster.spec.bootstrap_servers, dict(client or ())
        of_cluster = drafts.cluster_text(suggestions, cluster=cluster.address, servers=servers, client=properties)
        texts.insert(0, of_cluster)
    if write is not None:
        _write(write, suggestions, texts)
    next_steps = tuple(_next_steps(suggestions, write, texts, paths, bootstrap_server))
    document = Document(
        kind=SUGGESTIONS,
        trees=lambda _view: [suggest_report(suggestions, next_steps=next_steps)],
        values=[suggest_figures(suggestions)],
        writers={
            "text": lambda: fitting_lines(suggestions, next_steps, width=console.terminal_width()),
            "json": lambda: findings.dumps(suggestions, texts),
        },
    )
    documents.emit(settings, document)


def read_ignored(path: Path | None) -> Sequence[str]:
    """Return the ids of the file of `--ignore`. Raises UsageError."""
    if path is None:
        return ()
    try:
        return findings.parse_ignored(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--ignore {path}: cannot be read: {error_reason(error)}") from error


def _write(path: Path, suggestions: Suggestions, texts: Sequence[ManifestText]) -> None:
    """Write the manifests to a new file. Raises UsageError if there is one already, OutputUnwritten."""
    if not texts:
        console.print_stderr(f"{path} is not written: there is no policy to suggest")
        return
    with console.write_errors(f"--write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as stream:
                stream.write(drafts.file_text(suggestions, texts))
        except FileExistsError:
            raise UsageError(f"--write {path}: the file exists, and suggest overwrites no file") from None
        except BaseException:  # half a file would refuse the next run
            path.unlink(missing_ok=True)
            raise


def _next_steps(
    suggestions: Suggestions,
    written_to: Path | None,
    texts: Sequence[ManifestText],
    paths: Sequence[Path] | None,
    bootstrap_server: str | None,
) -> Iterator[str]:
    """Yield what to type now; a file alone is enough where it has the Cluster."""
    words = [display_name(str(path)) for path in paths or ([] if bootstrap_server else [DEFAULT_FOLDER])]
    if written_to is None or not texts:
        if suggestions.drafts:
            source = f"--bootstrap-server {display_name(bootstrap_server)}" if bootstrap_server else " ".join(words)
            yield f"reconciler suggest {source} --write FILE writes the policies for a review"
        return
    file = display_name(str(written_to))
    yield f"review {file}, and name the owners"
    inside = any(written_to.resolve().is_relative_to(path.resolve()) for path in map(Path, words))
    everything = " ".join(words if inside else [*words, file])
    yield f"reconciler validate {everything}"
    if suggestions.drafts:
        yield f"reconciler plan {everything}"


def fitting_lines(suggestions: Suggestions, next_steps: Sequence[str], *, width: int | None) -> list[Text]:
    """Return the report in at most LINES_MAX lines of a terminal: with fewer findings, if need be."""
    items_max, lines = ITEMS_MAX, list[Text]()
    while items_max:
        tree = suggest_report(suggestions, next_steps=next_steps, items_max=items_max)
        lines = list(write_lines(tree, width=width))
        if len(lines) <= LINES_MAX:
            return lines
        items_max //= 2
    omitted = f"… {len(lines) - LINES_MAX + 1:,} more lines, for which this terminal is too narrow (-o json has all)"
    return [*lines[: LINES_MAX - 1], Text(omitted)]
