"""`reconciler scan`: write the facts of the Spark scan as Parquet, for analysis by the user."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.errors import ExitCode


@accepts_settings
def scan(
    settings: Settings,
    out: Annotated[Path, typer.Option("--out", help="Folder for partitions/, topics/, groups/ and run.json.")],
    paths: Paths = None,
) -> int:
    """Write the facts that the policies need as Parquet.

    docs/scan.md describes the schema. The command changes nothing on the cluster.
    """
    with common.open_run(settings, common.load_cluster(paths, settings)) as run:
        files = pipeline.export(run, out)
    console.write("".join(f"{path}\n" for path in files))
    return ExitCode.DONE
