"""`reconciler clusters`: the names of the clusters that the manifests are about, for scripts and workflow matrices."""

import json
from typing import Annotated

import typer

from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import UsageError
from reconciler.model.action import Mode


@accepts_settings
def clusters(
    settings: Settings,
    paths: Paths = None,
    mode: Annotated[Mode | None, typer.Option("--mode", help="Only clusters with a policy of this mode.")] = None,
) -> int:
    """List the clusters that the manifests name.

    A line each, or with -o json one list. Connects to nothing.
    """
    console.start_logging(settings)
    manifests = common.load(paths, settings, now_ms=common.clock()())
    names = [
        part.cluster.metadata.name
        for part in common.clusters(manifests, settings)
        if mode is None or any(policy.mode is mode for policy in part.policies)
    ]

    def rendered(chosen: Format, _colour: bool) -> str:
        match chosen:
            case Format.TEXT:
                return "".join(f"{name}\n" for name in names)
            case Format.JSON:
                return json.dumps(names) + "\n"
            case Format.MD | Format.GITHUB | Format.SARIF:
                raise UsageError(f"-o {chosen}: the clusters come as text or json")

    console.emit(settings, rendered)
    return 0
