"""What several commands do first: load manifests and show what is wrong with them, choose clusters, set up the run."""

import os
from collections.abc import Callable, Iterator, Sequence
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
from reconciler.pipeline import RunOptions
from reconciler.scan.session import SparkTarget


def path(word: str) -> Path:
    """A path as somebody typed it. Raises BadParameter for an empty one."""
    if not word:  # an unset variable in somebody's script; as a Path it would be the whole current folder
        raise typer.BadParameter("an empty path: say . for the current folder, or leave it out for manifests/")
    return Path(word)


Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        parser=path, metavar="PATHS", help="Manifest files and folders. Default: manifests/", show_default=False
    ),
]
Stop = Callable[[], bool]
DEFAULT_PATHS = (Path("manifests"),)


def diagnostics_text(found: Sequence[Diagnostic], chosen: Format) -> str:
    """Diagnostics in one of the formats that manifests have. Raises UsageError for the others."""
    match chosen:
        case Format.TEXT:
            return render(found, Rendering.TEXT)
        case Format.JSON:
            return render(found, Rendering.JSON)
        case Format.GITHUB:
            return render(found, Rendering.GITHUB)
        case Format.SARIF:
            return render(found, Rendering.SARIF)
        case Format.MD:
            raise UsageError("-o md: diagnostics come as text, json, github or sarif")


def load(paths: list[Path] | None, settings: Settings, *, now_ms: int) -> ManifestSet:
    """The manifests; where they are wrong, every diagnostic is shown before ManifestsInvalid goes on its way."""
    try:
        return pipeline.load(paths or DEFAULT_PATHS, now_ms=now_ms, cluster=settings.cluster)
    except ManifestsInvalid as invalid:
        chosen = settings.output if settings.output in (Format.JSON, Format.GITHUB, Format.SARIF) else Format.TEXT
        found = [each for each in invalid.diagnostics if isinstance(each, Diagnostic)]
        shown = diagnostics_text(found, chosen)
        if chosen is Format.TEXT:
            console.print_stderr(shown.rstrip("\n"))
        else:
            console.write(shown)
        raise


def clusters(manifests: ManifestSet, settings: Settings) -> Iterator[ClusterManifests]:
    """Each cluster's share of the set; only one with --cluster."""
    names = [settings.cluster] if settings.cluster else [cluster.metadata.name for cluster in manifests.clusters]
    for name in names:
        yield manifests.for_cluster(name)


def one_cluster(manifests: ManifestSet, settings: Settings, *, wanted_id: str | None = None) -> ClusterManifests:
    """The one cluster that is meant: by --cluster, by the id in a plan, or because there is only one. Raises UsageError."""
    if settings.cluster:
        return manifests.for_cluster(settings.cluster)
    matching = [c.metadata.name for c in manifests.clusters if wanted_id is None or c.spec.cluster_id == wanted_id]
    if len(matching) == 1:
        return manifests.for_cluster(matching[0])
    if not matching and len(manifests.clusters) == 1:
        return manifests.for_cluster(manifests.clusters[0].metadata.name)
    known = ", ".join(c.metadata.name for c in manifests.clusters)
    raise UsageError(f"the manifests hold {len(manifests.clusters)} clusters ({known}): choose one with --cluster NAME")


@contextmanager
def running(settings: Settings) -> Iterator[RunOptions]:
    """The run that the settings ask for, with progress shown while it lasts."""
    console.start_logging(settings)
    engine = SparkTarget(
        master=settings.spark_master or "local[*]",
        remote=settings.spark_remote or None,
        conf=settings.conf(),
    )
    with console.progress(settings) as progress:
        yield RunOptions(engine=engine, timeout_s=settings.timeout, progress=progress, clock=clock())


def clock() -> Callable[[], int]:
    """The wall clock; the only one that commands read."""
    return pipeline.wall_clock_ms


def terminal_width() -> int | None:
    """Columns of the terminal, or of COLUMNS; None where the output is not a terminal."""
    if columns := os.environ.get("COLUMNS", ""):
        return int(columns) if columns.isdigit() and int(columns) > 0 else None
    try:
        return os.get_terminal_size(1).columns
    except OSError:
        return None
