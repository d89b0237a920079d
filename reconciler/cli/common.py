"""What several commands share: arguments, manifests, the run on a cluster, exit codes."""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from reconciler import gitops
from reconciler.cli import console
from reconciler.cli.settings import Format, Settings
from reconciler.cli.signals import SignalState
from reconciler.errors import ExitCode, ManifestsInvalid, PlanUnusable, ReconcilerError, Refused, UsageError
from reconciler.manifest import files
from reconciler.manifest.files import ClusterManifests, ManifestSet
from reconciler.model.plan import Plan
from reconciler.pipeline import Run, wall_clock_ms
from reconciler.plan import plan_file
from reconciler.report import DIAGNOSTICS_WRITERS, write_lines
from reconciler.report.tree import Report
from reconciler.scan.session import SparkTarget

CONNECTION = "RECONCILER_CONNECTION"
"""The variable with the manifests whose connection every command uses, whatever other manifests say."""


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


def load(paths: Sequence[Path] | None, settings: Settings, *, tree: str | None = None) -> ManifestSet:
    """Load the manifests. Prints every diagnostic before it raises ManifestsInvalid.

    `tree`: the git tree of the one folder of manifests; raises PlanUnusable for other content.
    """
    console.start_logging(settings)
    paths = paths or [Path("manifests")]
    if tree is not None and (len(paths) != 1 or not paths[0].is_dir()):
        raise UsageError(f"the tree {tree} is that of one folder of manifests: name one folder, and no file")
    try:
        manifests = files.load(paths, now_ms=wall_clock_ms(), cluster=settings.cluster)
    except ManifestsInvalid as error:
        writers = {form: partial(write, error.diagnostics) for form, write in DIAGNOSTICS_WRITERS.items()}
        console.write_files(settings, writers)
        if settings.output in (Format.TEXT, Format.MD):
            console.print_stderr(writers["text"]().rstrip("\n"))
        else:
            console.write(writers[settings.output]())
        raise
    if tree is not None and (difference := gitops.tree_difference(paths[0], tree, manifests.files)):
        raise PlanUnusable(
            f"the manifests are not those of the tree {tree}: {difference}; nothing was done, commit the change and "
            "have it reviewed"
        )
    return manifests


def load_clusters(
    paths: Sequence[Path] | None, settings: Settings, *, tree: str | None = None
) -> list[ClusterManifests]:
    """Load the manifests of each cluster; with --cluster only of that one. `tree`: as in `load`."""
    manifests = load(paths, settings, tree=tree)
    return [manifests.for_cluster(settings.cluster)] if settings.cluster else list(manifests.by_cluster)


def load_cluster(
    paths: Sequence[Path] | None, settings: Settings, *, cluster_id: str | None = None, tree: str | None = None
) -> ClusterManifests:
    """Load the manifests of --cluster, of this cluster id or of the only one. Raises UsageError.

    `tree`: as in `load`.
    """
    manifests = load(paths, settings, tree=tree)
    names = [cluster.metadata.name for cluster in manifests.clusters if cluster.spec.cluster_id == cluster_id]
    return manifests.for_cluster(settings.cluster or (names[0] if len(names) == 1 else None))


def split_plan_and_paths(words: list[Path] | None) -> tuple[Plan | None, list[Path]]:
    """Split the words of PlanAndPaths, and read the plan, if any. Raises PlanUnusable."""
    words = words or []
    if words and words[0].suffix == ".json":
        return plan_file.read(words[0]), words[1:]
    return None, words


def load_trusted(path: Path, settings: Settings) -> ManifestSet:
    """Load the manifests that a connection is taken from, whatever clusters they hold."""
    return load([path], replace(settings, cluster=None))


def _connect_as_environment(manifests: ClusterManifests, settings: Settings) -> ClusterManifests:
    """Return the manifests with the connection that the environment names, if any.

    Raises Refused for another one: only `plan` is for manifests that propose a connection.
    """
    path = os.environ.get(CONNECTION)
    if not path or manifests.base is not None:
        return manifests
    connected = manifests.connect_as(load_trusted(Path(path), settings))
    if connected.connection_changes:
        raise Refused(
            f"{manifests.cluster.address} ({manifests.cluster.declared_at}) connects elsewhere "
            f"({', '.join(connected.connection_changes)}) than {path}, which {CONNECTION} names: nothing was done; "
            "`reconciler plan` shows what the manifests would do"
        )
    return connected


@contextmanager
def open_run(settings: Settings, manifests: ClusterManifests, signals: SignalState | None = None) -> Iterator[Run]:
    """Set up a run on one cluster, and show its progress until the block ends. Raises Refused, UsageError."""
    if (settings.spark_master or "").startswith("sc:"):
        raise UsageError("--spark-master names a Spark Connect server: use --spark-remote")
    manifests = _connect_as_environment(manifests, settings)
    engine = SparkTarget(
        master=settings.spark_master or "local[*]",
        remote=settings.spark_remote or None,
        conf=dict(settings.spark_conf or ()),
    )
    signals = signals or SignalState()
    with (
        console.progress(settings) as progress,
        Run(
            manifests=manifests,
            engine=engine,
            timeout_s=settings.timeout,
            progress=progress,
            stop=signals,
            sending=signals.sending,
        ) as run,
    ):
        yield run


def lines(tree: Report, *, full: bool = False) -> Iterator[Text]:
    """Lay a report out for the terminal; without a terminal and COLUMNS, no line is broken."""
    return write_lines(tree, width=shutil.get_terminal_size((0, 0)).columns or None, full=full)


@contextmanager
def collect_errors(manifests: ClusterManifests, codes: set[int]) -> Iterator[None]:
    """Print an error of the block and add its exit code; the other clusters still run."""
    try:
        yield
    except ReconcilerError as error:
        console.print_error(f"{manifests.cluster.metadata.name}: {error}")
        codes.add(error.exit_code)
    except BrokenPipeError:
        console.discard_stdout()
        codes.add(ExitCode.ERROR)


_WORST_FIRST = tuple(map(ExitCode, (5, 130, 1, 64, 4, 3, 2, 0)))


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the exit code for several clusters: "partly applied" before all others."""
    return min(codes, key=_WORST_FIRST.index, default=ExitCode.DONE)
