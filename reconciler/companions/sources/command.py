"""`reconciler scan`: it writes the facts that the policies need as Parquet."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.cli import common, console, loading
from reconciler.cli.loading import Paths
from reconciler.cli.settings import Settings, accepts_settings


@accepts_settings(None)
def scan(
    settings: Settings,
    out: Annotated[Path, typer.Option(help="Folder for partitions/, topics/, groups/ and run.json.")],
    paths: Paths = None,
) -> None:
    """Write the facts that the policies need as Parquet.

    docs/scan.md describes the schema. The command changes nothing on the cluster.
    """
    with common.open_run(settings, loading.load_cluster(paths, settings)) as run:
        snapshot = pipeline.scan_policies(run)
        from reconciler.companions.sources import export  # needs pyarrow, which a scan has asked for

        files = export.write(snapshot, out)
    console.write("".join(f"{path}\n" for path in files))
