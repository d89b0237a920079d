"""Arguments that name manifests, and their loading. Imports neither the Kafka client nor the scan."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli import console, documents
from reconciler.cli.log_lines import write_line
from reconciler.cli.settings import Settings
from reconciler.clock import wall_clock_ms
from reconciler.codec import read_kind, wrong_document
from reconciler.errors import ManifestsInvalid, PlanUnusable, UsageError
from reconciler.manifest import files
from reconciler.manifest.files import ClusterManifests, ManifestSet
from reconciler.report.diagnostics import diagnostics_document, write_diagnostics
from reconciler.report.document import Document, Format


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
    paths = paths or [files.DEFAULT_FOLDER]
    for path in paths:
        if kind := read_kind(path):  # each line of a document would be an error of a manifest
            raise UsageError(wrong_document(path, kind, "a manifest"))
    try:
        return files.load(paths, now_ms=wall_clock_ms())
    except ManifestsInvalid as error:
        document = diagnostics_document(error.diagnostics)
        documents.write_files(settings, document, partial(_print_diagnostics, error, document, settings.output))
        raise


def _print_diagnostics(error: ManifestsInvalid, document: Document, output: Format) -> None:
    """Print all diagnostics in a format of theirs; to stderr as text with the source lines, or each as a line of JSON."""
    if output is not Format.TEXT and output in document.writers:
        console.write(str(document.writers[output]()))
        return
    for found in error.diagnostics:
        fields = {"code": found.code, "hint": found.hint, "exit_code": int(error.exit_code)}
        if not write_line(found.severity.upper(), f"{found.location}: {found.message}", **fields):
            console.print_stderr(write_diagnostics(error.diagnostics).rstrip("\n"))
            return


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


def confirm_unchanged(paths: Sequence[Path], contents: object) -> None:
    """Raise PlanUnusable if the manifests are not `contents` (`read_contents`) any more: somebody writes them."""
    if files.read_contents(paths) != contents:
        raise PlanUnusable(
            "the manifests changed while the cluster was read: nothing was done; run again when they are complete"
        )
