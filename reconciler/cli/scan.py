"""`reconciler scan`: the Spark scan alone, written as Parquet for people's own analysis."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Settings, accepts_settings


@accepts_settings
def scan(
    settings: Settings,
    out: Annotated[Path, typer.Option("--out", help="A folder for partitions/, topics/, groups/ and run.json.")],
    paths: Paths = None,
) -> int:
    """Read what the policies need; write it as Parquet.

    docs/scan.md has the schema. Changes nothing on the cluster.
    """
    manifests = common.load(paths, settings, now_ms=common.clock()())
    part = common.one_cluster(manifests, settings)
    with common.running(settings) as run:
        written = pipeline.export(part, run, out)
    for path in written:
        console.write(f"{path}\n")
    return 0
