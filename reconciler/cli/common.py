"""What several commands share: arguments, manifests, the run on a cluster, exit codes."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli import console, loading
from reconciler.cli.log_lines import about
from reconciler.cli.settings import KeyValue, Settings, parse_key_value
from reconciler.cli.signals import SignalState
from reconciler.clock import wall_clock_ms
from reconciler.codec import read_kind
from reconciler.errors import ExitCode, ManifestsInvalid, UsageError
from reconciler.kafka import connect
from reconciler.manifest import secrets
from reconciler.manifest.files import DEFAULT_FOLDER, ClusterManifests, source_of, validate_sources
from reconciler.model.names import TopicPartition
from reconciler.model.plan import Plan
from reconciler.plan import plan_file
from reconciler.policies.cluster import Cluster
from reconciler.report.metrics import Metrics
from reconciler.run import Run, connect_as_environment
from reconciler.scan.engine_choice import Engine, EngineName
from reconciler.text.escape import display_name
from reconciler.text.validation import error_reason

MetricsFile = Annotated[
    Path | None,
    typer.Option("--metrics", help="Count in this file, in the Prometheus text format: one file for each schedule."),
]

BootstrapServer = Annotated[
    str | None,
    typer.Option(help="Addresses of some brokers as HOST:PORT, separated by commas, where there are no manifests yet."),
]
Client = Annotated[
    list[KeyValue] | None,
    typer.Option(
        metavar="KEY=VALUE",
        parser=parse_key_value,
        help="With --bootstrap-server: a librdkafka property; a secret as '${env:NAME}'. May be repeated.",
    ),
]


def open_metrics(path: Path | None) -> Metrics:
    """Return the metrics that runs of earlier commands wrote to a file, if any.

    Raises UsageError for a file of anything else: a command replaces it.
    """
    metrics = Metrics()
    try:
        if path is not None:
            metrics.continue_file(path)
    except (OSError, ValueError) as error:
        state = f"is not a metrics file of apply, converge or watch: {error_reason(error)}"
        raise UsageError(f"--metrics {path} {state}; nothing was done; name a file of its own") from None
    return metrics


def write_metrics(metrics: Metrics, path: Path | None, codes: set[int]) -> None:
    """Write the metrics. What was done stays done: a failure is an error line and a code in `codes`."""
    if path is not None:
        with console.collect_errors(codes), console.write_errors(f"--metrics {path}"):
            metrics.write(path)


def split_plan_and_paths(words: list[Path] | None) -> tuple[Plan | None, list[Path]]:
    """Split the words of PlanAndPaths, and read the plan, if any. Raises PlanUnusable, UsageError."""
    words = words or []
    if words and (words[0].suffix == ".json" or read_kind(words[0]) == "Plan"):
        return plan_file.read(words[0]), words[1:]
    for plan in words[1:]:
        if read_kind(plan) == "Plan":
            in_order = " ".join(display_name(str(word)) for word in (plan, *(word for word in words if word != plan)))
            raise UsageError(f"{plan} is a saved plan, which comes before manifests: write {in_order}")
    return None, words


def note_missing_policies(manifests: ClusterManifests, settings: Settings) -> None:
    """Say where policies were looked for, if the cluster has none: nothing is compared then."""
    if not manifests.policies and not settings.quiet:
        folders = ", ".join(dict.fromkeys(display_name(str(Path(file.path).parent)) for file in manifests.files))
        name = display_name(manifests.cluster.metadata.name)
        console.print_stderr(f"{name}: no policies in {folders}, so nothing is compared; write one there")


def check_question(settings: Settings, command: str, instead: str) -> None:
    """Raise UsageError where a command cannot ask for confirmation. `instead`: what needs no question."""
    if settings.no_input:
        obstacle = "--no-input, or the variable RECONCILER_NO_INPUT, forbids the question"
    elif not sys.stdin.isatty():
        obstacle = "standard input is not a terminal"
    else:
        return
    raise UsageError(f"{command} asks for confirmation, and {obstacle}: {instead}")


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
    manifests = connect_as_environment(manifests, lambda path: loading.load([path], settings))
    engine = Engine(
        name=EngineName(settings.engine or manifests.cluster.spec.scan.engine),
        master=settings.spark_master or "local[*]",
        remote=settings.spark_remote or None,
        conf=dict(settings.spark_conf or ()),
        executor_secrets=settings.executor_secrets,
    )
    signals = signals or SignalState()
    with console.progress(settings, signals) as progress:
        run = Run(
            manifests=manifests,
            engine=engine,
            timeout_s=settings.timeout,
            progress=progress,
            stop=signals,
            sending=signals.sending,
            last_purges=last_purges,
        )
        with about(cluster=manifests.cluster.metadata.name, run=run.run_id), run:
            yield run


@contextmanager
def open_reading_run(
    settings: Settings, paths: Sequence[Path] | None, servers: str | None, client: Mapping[str, str], *, name: str
) -> Iterator[Run]:
    """Set up a run that only reads: on the cluster of the manifests, or on that of `--bootstrap-server` alone.

    `name`: of the cluster without manifests, whose engine is `auto`. Raises as `open_run`.
    """
    if servers is None:
        if not paths and not DEFAULT_FOLDER.exists():
            raise UsageError(
                "there is no folder manifests/ here: name manifests, or add --bootstrap-server HOST:PORT, which needs none"
            )
        with open_run(settings, loading.load_cluster(paths, settings)) as run:
            yield run
        return
    if paths:
        raise UsageError("--bootstrap-server is for a cluster without manifests: leave it out, or leave the paths out")
    addresses = parse_servers(servers)

    def undeclared(cluster_id: str) -> ClusterManifests:
        """Return the manifests of a cluster that has none yet: a Cluster without policies."""
        spec = {"clusterId": cluster_id, "bootstrapServers": addresses, **({"client": client} if client else {})}
        manifest = {"apiVersion": "reconciler/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
        cluster = validate_cluster("cluster.yaml", json.dumps(manifest))
        return ClusterManifests(cluster=cluster, policies=(), waivers=(), files=())

    connection = secrets.resolve(undeclared("unknown").cluster, timeout_s=settings.timeout)
    with console.progress(settings) as progress:
        progress(f"reading the cluster id from {', '.join(addresses)}")
        manifests = undeclared(connect.cluster_id(connection))
        with open_run(replace(settings, engine=settings.engine or "auto"), manifests) as run:
            yield run


def parse_servers(text: str) -> list[str]:
    """Return the addresses of --bootstrap-server. Raises UsageError where there is none."""
    servers = [server.strip() for server in text.split(",") if server.strip()]
    if not servers:
        raise UsageError(f"--bootstrap-server {text!r}: expected host:port of some brokers, separated by commas")
    return servers


def validate_cluster(path: str, text: str) -> Cluster:
    """Return the Cluster of a manifest that the words of a command make. Raises UsageError if it is invalid."""
    try:
        return validate_sources([source_of(path, text.encode())], now_ms=wall_clock_ms()).by_cluster[0].cluster
    except ManifestsInvalid as error:
        errors = (problem for problem in error.diagnostics if problem.severity == "error")
        problems = "; ".join(f"{problem.message} {problem.context}: {problem.hint}" for problem in errors)
        raise UsageError(f"no manifest may have these values: {problems}") from None


_WORST_FIRST = tuple(map(ExitCode, (5, 130, 1, 64, 4, 3, 2, 0)))


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the exit code for several clusters: "partly applied" before all others."""
    return min(codes, key=_WORST_FIRST.index, default=ExitCode.DONE)
