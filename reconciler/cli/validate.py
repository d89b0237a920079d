"""`reconciler validate`: the manifests alone, no cluster."""

from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings


@accepts_settings
def validate(settings: Settings, paths: Paths = None) -> int:
    """Check manifests without a cluster. Exit 1 where anything is wrong."""
    console.start_logging(settings)
    manifests = common.load(paths, settings, now_ms=common.clock()())

    def render(chosen: Format, _colour: bool) -> str:
        shown = common.diagnostics_text(manifests.warnings, chosen)
        if chosen is not Format.TEXT:
            return shown
        policies, files = len(manifests.policies), len(manifests.files)
        names = ", ".join(cluster.metadata.name for cluster in manifests.clusters)
        return f"{shown}valid: {policies} policies for {names or 'no cluster'} in {files} files\n"

    console.emit(settings, render)
    return 0
