"""`reconciler scan`: it writes the facts of a cluster as Parquet."""

import os
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.cli import common, console
from reconciler.cli.common import BootstrapServer, Client
from reconciler.cli.loading import Paths
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.clock import wall_clock_ms
from reconciler.companions.sources.target import Folder, open_target
from reconciler.errors import UsageError
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.scan.engine_choice import Engine, check_packages

_ALL = (Selector("*"),)
EVERYTHING = ScanRequest(
    topics=(TopicRequest(topics=_ALL, offsets=True, readers=True, all_groups=True),),
    groups=(GroupRequest(groups=_ALL, activity=True),),
    topic_records=True,
    cluster_records=True,
)
"""Reads all partitions, and all groups with all their commits."""


@accepts_settings(None)
def scan(
    settings: Settings,
    out: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Folder for the tables: a path, s3://, gs:// or abfss://BUCKET/PATH."),
    ] = None,
    append: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Add everything to a history in this folder, by cluster and date."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Read all topics and groups, not only what the policies need.")
    ] = False,
    paths: Paths = None,
    bootstrap_server: BootstrapServer = None,
    client: Client = None,
) -> None:
    """Write the facts of a cluster as Parquet.

    It reads what the policies need, and with --all, --append or --bootstrap-server everything.
    docs/tables.md describes the tables. The command changes nothing on the cluster.
    """
    if (out is None) == (append is None) or "" in (out, append):  # an unset variable of a script
        raise UsageError("name one place for the tables: --out URI, or --append URI for a history")
    option, place = ("--out", out) if append is None else ("--append", append)
    everything = everything or append is not None or bootstrap_server is not None
    check_packages(ScanRequest(), Engine())  # the tables need pyarrow, whatever reads the cluster
    from reconciler.companions.sources import export

    with console.write_errors(f"{option} {place}"):  # before the scan, which may take minutes
        target = open_target(place or "", os.environ, limit_s=settings.timeout)
        if isinstance(target, Folder):
            export.check_folder(target.path, history=append is not None)
    with common.open_reading_run(settings, paths, bootstrap_server, dict(client or ()), name="my-cluster") as run:
        snapshot = pipeline.scan(run, EVERYTHING, wall_clock_ms()) if everything else pipeline.scan_policies(run)
        with console.write_errors(f"{option} {place}"):
            files = (export.write if append is None else export.append)(snapshot, target)
    console.write("".join(f"{(place or '').rstrip('/')}/{path}\n" for path in files))
