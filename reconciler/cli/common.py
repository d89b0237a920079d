"""What several commands share: arguments, manifests, the run on a cluster, exit codes."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from rich.text import Text

from reconciler.apply.results import ResultRow, ResultsHeader
from reconciler.cli import console, loading
from reconciler.cli.codes import pages
from reconciler.cli.settings import Settings
from reconciler.cli.signals import SignalState
from reconciler.errors import ExitCode, ReconcilerError, Refused, UsageError
from reconciler.manifest.files import ClusterManifests
from reconciler.model.action import Mode
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome
from reconciler.model.plan import Plan
from reconciler.pipeline import Run
from reconciler.plan import drift, plan_file
from reconciler.plan.drift import DriftReport
from reconciler.report.annotations import write_annotations
from reconciler.report.drift import drift_report
from reconciler.report.markdown import write_pages
from reconciler.report.results import results_report
from reconciler.report.terminal import write_lines
from reconciler.report.tree import Report
from reconciler.scan.engine_choice import Engine, EngineName
from reconciler.text.escape import display_name

CONNECTION = "RECONCILER_CONNECTION"
"""The variable with the manifests whose connection every command uses, whatever other manifests say."""


def companion(name: str) -> Any:
    """Import a module of a companion by its name, such as `html.page`. The core imports none of them itself."""
    return import_module(f"reconciler.companions.{name}")


def split_plan_and_paths(words: list[Path] | None) -> tuple[Plan | None, list[Path]]:
    """Split the words of PlanAndPaths, and read the plan, if any. Raises PlanUnusable."""
    words = words or []
    if words and words[0].suffix == ".json":
        return plan_file.read(words[0]), words[1:]
    return None, words


def _connect_as_environment(manifests: ClusterManifests, settings: Settings) -> ClusterManifests:
    """Return the manifests with the connection that the environment names, if any.

    Raises Refused for another one: only `plan` is for manifests that propose a connection.
    """
    path = os.environ.get(CONNECTION)
    if not path or manifests.base is not None:
        return manifests
    connected = manifests.connect_as(loading.load_trusted(Path(path), settings))
    if connected.connection_changes:
        raise Refused(
            f"{manifests.cluster.address} ({manifests.cluster.declared_at}) connects elsewhere "
            f"({', '.join(connected.connection_changes)}) than {path}, which {CONNECTION} names: nothing was done; "
            "`reconciler plan` shows what the manifests would do"
        )
    return connected


def note_missing_policies(manifests: ClusterManifests, settings: Settings) -> None:
    """Say where policies were looked for, if the cluster has none: nothing is compared then."""
    if not manifests.policies and not settings.quiet:
        folders = ", ".join(dict.fromkeys(display_name(str(Path(file.path).parent)) for file in manifests.files))
        name = display_name(manifests.cluster.metadata.name)
        console.print_stderr(f"{name}: no policies in {folders}, so nothing is compared; write one there")


def note_missing_continuous(manifests: ClusterManifests, settings: Settings) -> None:
    """Say that a run without a reviewed plan does nothing, if no policy is in `mode: continuous`."""
    if not settings.quiet and not any(policy.mode is Mode.CONTINUOUS for policy in manifests.policies):
        name = display_name(manifests.cluster.metadata.name)
        console.print_stderr(
            f"{name}: no policy has `mode: continuous`, so nothing is done; `reconciler plan` plans the others"
        )


@contextmanager
def open_run(
    settings: Settings,
    manifests: ClusterManifests,
    signals: SignalState | None = None,
    last_purges: dict[TopicPartition, int] | None = None,
) -> Iterator[Run]:
    """Set up a run on one cluster, and show its progress until the block ends. Raises Refused, UsageError.

    `last_purges`: as in `Run`.
    """
    if (settings.spark_master or "").startswith("sc:"):
        raise UsageError("--spark-master names a Spark Connect server: use --spark-remote")
    manifests = _connect_as_environment(manifests, settings)
    engine = Engine(
        name=EngineName(settings.engine or manifests.cluster.spec.scan.engine),
        master=settings.spark_master or "local[*]",
        remote=settings.spark_remote or None,
        conf=dict(settings.spark_conf or ()),
        executor_secrets=settings.executor_secrets,
    )
    signals = signals or SignalState()
    with (
        console.progress(settings, signals) as progress,
        Run(
            manifests=manifests,
            engine=engine,
            timeout_s=settings.timeout,
            progress=progress,
            stop=signals,
            sending=signals.sending,
            last_purges=last_purges,
        ) as run,
    ):
        yield run


def lines(tree: Report, *, full: bool = False) -> Iterator[Text]:
    """Lay a report out for the terminal; without a terminal and COLUMNS, no line is broken."""
    return write_lines(tree, width=console.terminal_width(), full=full)


def show(
    settings: Settings,
    subject: str,
    trees: Callable[[], Sequence[Report]],
    *,
    figures: Callable[[], Sequence[Any]] = tuple,
    **others: Callable[[], console.Rendered],
) -> None:
    """Write a document in the selected formats: the reports of `trees`, with figures in HTML.

    `others`: what writes other formats, such as the JSON, or one of these in another way. Raises UsageError
    for a format that the document does not have, OutputUnwritten and BrokenPipeError.
    """

    def html() -> str:

        return str(companion("html.page").write_html(trees(), figures()))

    renderers: dict[str, Callable[[], console.Rendered]] = {
        "text": lambda: chain.from_iterable(map(lines, trees())),
        "md": lambda: write_pages(trees()),
        "html": html,
    }
    console.emit(settings, subject, **renderers | others)


def show_results(
    settings: Settings,
    header: ResultsHeader,
    outcomes: Sequence[Outcome | ResultRow],
    *,
    json: Callable[[], console.Rendered],
) -> None:
    """Write what became of a plan in the selected formats. `json`: renders its results file."""
    duration_ms = max(0, header.finished_at_ms - header.started_at_ms)
    tree = results_report(header, outcomes, duration_ms=duration_ms)
    show(
        settings,
        "a result",
        lambda: [tree],
        figures=lambda: [companion("html.results").results_figures(outcomes)],
        json=json,
        github=lambda: write_annotations(tree),
    )


def show_drift(settings: Settings, reports: Sequence[DriftReport], *, paths: Sequence[str] = ()) -> None:
    """Write what drifts in the selected formats. With -q, the text leaves clusters in sync out.

    `paths`: of the manifests, for the next command.
    """
    links = pages(settings.docs_url)
    trees = [drift_report(entry, pages=links) for entry in reports]
    visible = [entry for entry in reports if not (settings.quiet and entry.has_nothing_to_report)]
    show(
        settings,
        "a drift report",
        lambda: trees,
        figures=lambda: companion("html.drift").drift_figures(reports),
        text=lambda: (line for entry in visible for line in lines(drift_report(entry, paths=paths, pages=links))),
        github=lambda: write_pages(trees),
        json=lambda: drift.dumps(reports),
    )


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
