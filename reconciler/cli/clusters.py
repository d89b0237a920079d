"""`reconciler clusters`: list cluster names for scripts and workflow matrices."""

import json
from typing import Annotated

import typer

from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.model.action import Mode


@accepts_settings
def clusters(
    settings: Settings,
    paths: Paths = None,
    mode: Annotated[Mode | None, typer.Option("--mode", help="List only clusters with a policy in this mode.")] = None,
) -> int:
    """List the clusters of the manifests.

    One name per line, or one JSON list with -o json. Connects to no cluster.
    """
    console.start_logging(settings)
    manifests = common.load(paths, settings)
    names = [
        part.cluster.metadata.name
        for part in common.clusters(manifests, settings)
        if mode is None or any(policy.mode is mode for policy in part.policies)
    ]
    renderers: dict[Format, console.Renderer] = {
        Format.TEXT: lambda _color: "".join(f"{name}\n" for name in names),
        Format.JSON: lambda _color: json.dumps(names) + "\n",
    }
    console.emit_formats(settings, "the list of clusters", renderers)
    return 0
