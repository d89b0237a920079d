"""`reconciler validate`: check manifests without a cluster."""

from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings


@accepts_settings
def validate(settings: Settings, paths: Paths = None) -> int:
    """Check manifests without a cluster. Exit 1 if a manifest is invalid."""
    console.start_logging(settings)
    manifests = common.load(paths, settings)

    def render(output: Format, _color: bool) -> str:
        text = common.diagnostics_text(manifests.warnings, output)
        if output is not Format.TEXT:
            return text
        policies, files = len(manifests.policies), len(manifests.files)
        names = ", ".join(cluster.metadata.name for cluster in manifests.clusters)
        return f"{text}valid: {policies} policies for {names or 'no cluster'} in {files} files\n"

    console.emit(settings, render)
    return 0
