"""What several commands share: arguments, manifests, the selection of clusters, and the run."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.cli import console
from reconciler.cli.settings import Format, Settings
from reconciler.errors import ManifestsInvalid, UsageError
from reconciler.manifest.diagnostics import Diagnostic, Rendering, render
from reconciler.manifest.manifest_set import ClusterManifests, ManifestSet
from reconciler.model.plan import Plan
from reconciler.pipeline import RunOptions
from reconciler.plan import plan_file
from reconciler.scan.session import SparkTarget


def parse_path(word: str) -> Path:
    """Parse a path argument. Raises BadParameter for an empty one."""
    if not word:  # an unset variable of a script; Path("") would be the whole current folder
        raise typer.BadParameter("an empty path: write . for the current folder, or omit it for manifests/")
    return Path(word)


Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        parser=parse_path, metavar="PATHS", help="Manifest files and folders. Default: manifests/", show_default=False
    ),
]
PlanAndPaths = Annotated[
    list[Path] | None,
    typer.Argument(
        parser=parse_path,
        metavar="[PLAN] [PATHS]",
        help="A saved plan (*.json), then manifest files and folders. Default: manifests/",
        show_default=False,
    ),
]
DetailedExitcode = Annotated[bool, typer.Option("--detailed-exitcode", help="Exit 2 if there are actions.")]
Full = Annotated[bool, typer.Option("--full", help="List every partition, and skipped subjects.")]
DEFAULT_PATHS = (Path("manifests"),)


def diagnostics_text(diagnostics: Sequence[Diagnostic], output: Format) -> str:
    """Render diagnostics. Raises UsageError for a format that they do not have."""
    try:
        rendering = Rendering(output.value)
    except ValueError:
        raise UsageError(f"-o {output}: diagnostics have the formats {', '.join(Rendering)}") from None
    return render(diagnostics, rendering)


def load(paths: list[Path] | None, settings: Settings) -> ManifestSet:
    """Load the manifests. Prints every diagnostic before it raises ManifestsInvalid."""
    try:
        return pipeline.load(paths or DEFAULT_PATHS, now_ms=now_ms(), cluster=settings.cluster)
    except ManifestsInvalid as error:
        diagnostics = [diagnostic for diagnostic in error.diagnostics if isinstance(diagnostic, Diagnostic)]
        output = Format.TEXT if settings.output is Format.MD else settings.output
        text = diagnostics_text(diagnostics, output)
        if output is Format.TEXT:
            console.print_stderr(text.rstrip("\n"))
        else:
            console.write(text)
        raise


def split_plan_and_paths(words: list[Path] | None) -> tuple[Plan | None, list[Path]]:
    """Split the words of PlanAndPaths, and read the plan, if any. Raises PlanUnusable."""
    words = words or []
    if words and words[0].suffix == ".json":
        return plan_file.read(words[0]), words[1:]
    return None, words


def clusters(manifests: ManifestSet, settings: Settings) -> Iterator[ClusterManifests]:
    """Yield the manifests of each cluster; with --cluster only of that one."""
    return iter([manifests.for_cluster(settings.cluster)] if settings.cluster else manifests.by_cluster)


def one_cluster(manifests: ManifestSet, settings: Settings, *, cluster_id: str | None = None) -> ClusterManifests:
    """Return the manifests of one cluster: of --cluster, of the plan's cluster id, or of the only one.

    Raises UsageError if several remain.
    """
    if settings.cluster:
        return manifests.for_cluster(settings.cluster)
    names = [cluster.metadata.name for cluster in manifests.clusters]
    matches = [c.metadata.name for c in manifests.clusters if cluster_id is None or c.spec.cluster_id == cluster_id]
    for candidates in (matches, names):
        if len(candidates) == 1:
            return manifests.for_cluster(candidates[0])
    raise UsageError(f"the manifests hold {len(names)} clusters ({', '.join(names)}): select one with --cluster NAME")


@contextmanager
def running(settings: Settings) -> Iterator[RunOptions]:
    """Set up a run by the settings, and show its progress until the block ends."""
    console.start_logging(settings)
    engine = SparkTarget(
        master=settings.spark_master or "local[*]",
        remote=settings.spark_remote or None,
        conf=settings.conf(),
    )
    with console.progress(settings) as progress:
        yield RunOptions(engine=engine, timeout_s=settings.timeout, progress=progress, clock=now_ms)


def now_ms() -> int:
    """Read the wall clock; the only place where commands read it."""
    return pipeline.wall_clock_ms()


def terminal_width() -> int | None:
    """Return the columns of the terminal, or of COLUMNS; None: the output is no terminal."""
    if columns := os.environ.get("COLUMNS", ""):
        return int(columns) if columns.isdigit() and int(columns) > 0 else None
    try:
        return os.get_terminal_size(1).columns
    except OSError:
        return None
