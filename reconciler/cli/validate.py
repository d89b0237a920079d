"""`reconciler validate` and `clusters`: they read manifests, and nothing else."""

import json
from collections.abc import Iterable
from typing import Annotated

import typer

from reconciler.cli import documents, loading
from reconciler.cli.loading import Paths
from reconciler.cli.settings import SPARK, Settings, accepts_settings
from reconciler.manifest.files import ClusterManifests
from reconciler.model.action import Mode
from reconciler.report.diagnostics import diagnostics_document
from reconciler.report.document import CLUSTERS, DIAGNOSTICS, Document
from reconciler.text.formatting import count


@accepts_settings(DIAGNOSTICS, without=SPARK)
def validate(settings: Settings, paths: Paths = None) -> None:
    """Check manifests without a cluster. Exit 1 if a manifest is invalid."""
    manifests = loading.load(paths, settings)
    loading.selected(manifests, settings)  # refuses a --cluster that is none of theirs
    names = ", ".join(cluster.metadata.name for cluster in manifests.clusters) or "no cluster"
    policies = count(len(manifests.policies), "policy", "policies")
    summary = f"valid: {policies} for {names} in {count(len(manifests.files), 'file')}\n"
    documents.emit(settings, diagnostics_document(manifests.warnings, summary=summary))


@accepts_settings(CLUSTERS, without=SPARK)
def clusters(
    settings: Settings,
    paths: Paths = None,
    mode: Annotated[Mode | None, typer.Option(help="List only clusters with a policy in this mode.")] = None,
) -> None:
    """List the clusters of the manifests; `doctor --list` does the same.

    One name per line, or one JSON list with -o json. Connects to no cluster.
    """
    parts = loading.load_clusters(paths, settings)
    show_clusters((part for part in parts if mode in (None, *(policy.mode for policy in part.policies))), settings)


def show_clusters(clusters: Iterable[ClusterManifests], settings: Settings) -> None:
    """Write the names of clusters in the format of `-o`."""
    names = [part.cluster.metadata.name for part in clusters]
    writers = {"text": lambda: "".join(f"{name}\n" for name in names), "json": lambda: json.dumps(names) + "\n"}
    documents.emit(settings, Document(kind=CLUSTERS, writers=writers))
