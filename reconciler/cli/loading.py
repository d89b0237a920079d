"""Arguments that name manifests, and their loading. Imports neither the Kafka client nor the scan."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli import console
from reconciler.cli.settings import Format, Settings
from reconciler.clock import wall_clock_ms
from reconciler.codec import HEAD_CHARS, document_kind, wrong_document
from reconciler.errors import ManifestsInvalid, UsageError
from reconciler.manifest import files
from reconciler.manifest.files import ClusterManifests, ManifestSet
from reconciler.report.diagnostics import DIAGNOSTICS_WRITERS


def parse_path(word: str) -> Path:
    """Parse a path argument. Raises BadParameter for an empty one."""
    if not word:  # an unset variable of a script; Path("") would be the whole current folder
        raise typer.BadParameter("an empty path: write . for the current folder, or omit it for manifests/")
    return Path(word)


Paths = Annotated[
    list[Path] | None,
    typer.Argument(parser=parse_path, metavar="PATHS", help="Manifest files and folders. Default: manifests/"),
]
PlanAndPaths = Annotated[
    list[Path] | None,
    typer.Argument(
        parser=parse_path,
        metavar="[PLAN] [PATHS]",
        help="A saved plan (*.json), then manifest files and folders. Default: manifests/",
    ),
]


def load(paths: Sequence[Path] | None, settings: Settings) -> ManifestSet:
    """Load the manifests. Prints every diagnostic before it raises ManifestsInvalid."""
    console.start_logging(settings)
    paths = paths or [files.DEFAULT_FOLDER]
    for path in paths:
        _refuse_document(path)
    try:
        return files.load(paths, now_ms=wall_clock_ms(), cluster=settings.cluster)
    except ManifestsInvalid as error:
        writers = {form: partial(write, error.diagnostics) for form, write in DIAGNOSTICS_WRITERS.items()}
        console.write_files(settings, writers)
        if settings.output is Format.TEXT or settings.output not in writers:
            console.print_stderr(writers["text"]().rstrip("\n"))
        else:
            console.write(writers[settings.output]())
        raise


def _refuse_document(path: Path) -> None:
    """Raise UsageError for a document of this program: each of its lines would be an error of a manifest."""
    with suppress(OSError):  # the loader reports it
        with path.open(encoding="utf-8", errors="replace") as stream:
            kind = document_kind(stream.read(HEAD_CHARS))
        if kind:
            raise UsageError(wrong_document(path, kind, "a manifest"))


def load_clusters(paths: Sequence[Path] | None, settings: Settings) -> list[ClusterManifests]:
    """Load the manifests of each cluster; with --cluster only of that one."""
    return selected(load(paths, settings), settings)


def selected(manifests: ManifestSet, settings: Settings) -> list[ClusterManifests]:
    """Return the manifests of each cluster; with --cluster only of that one."""
    return [manifests.for_cluster(settings.cluster)] if settings.cluster else list(manifests.by_cluster)


def load_cluster(
    paths: Sequence[Path] | None, settings: Settings, *, cluster_id: str | None = None
) -> ClusterManifests:
    """Load the manifests of --cluster, of this cluster id or of the only one. Raises UsageError."""
    manifests = load(paths, settings)
    names = [cluster.metadata.name for cluster in manifests.clusters if cluster.spec.cluster_id == cluster_id]
    return manifests.for_cluster(settings.cluster or (names[0] if len(names) == 1 else None))


def load_trusted(path: Path, settings: Settings) -> ManifestSet:
    """Load the manifests that a connection is taken from, whatever clusters they hold."""
    return load([path], replace(settings, cluster=None))
