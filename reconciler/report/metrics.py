"""Prometheus metrics: what drifts, and what runs did. As a file, or behind an address.

Names and labels are an interface: add, never rename. docs/monitoring.md describes them.
"""

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest
from prometheus_client.exposition import start_wsgi_server
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from reconciler import __version__
from reconciler.atomic_file import write_bytes
from reconciler.clock import wall_clock_ms
from reconciler.errors import ExitCode, ReconcilerError
from reconciler.model.outcome import Outcome
from reconciler.model.plan import LimitVerdict, Plan
from reconciler.plan.drift import DriftReport

disable_created_metrics()  # type: ignore[no-untyped-call]  # beside each counter, they say when this process began, which a file goes on from
_CLUSTER, _RUN = ("cluster",), ("cluster", "command")
_OWNED = (*_CLUSTER, "kind", "policy", "owner")


class _Kind(NamedTuple):
    """What a metric means, and its labels. A name that ends in `_total` is a counter."""

    text: str
    labels: tuple[str, ...] = _CLUSTER


_OF_DRIFT = {
    "in_sync": _Kind("1: nothing drifts and everything was seen."),
    "complete": _Kind("1: everything that the policies need could be read."),
    "observed_timestamp_seconds": _Kind("When the cluster was read; an old one means that drift is no longer checked."),
    "drift_since_timestamp_seconds": _Kind(
        "Since when the oldest drifting subject drifts; absent while none does, and without --previous."
    ),
    "limits_refusing": _Kind("Limits that refuse the plan as it stands."),
    "drift_subjects": _Kind("Subjects that drift.", _OWNED),
    "unread_subjects": _Kind("Subjects that could not be read.", _OWNED),
    "unmatched": _Kind("1: the manifest selects or guards nothing, or names something that looks misspelt.", _OWNED),
    "subjects": _Kind("Subjects that do not drift: pending, waiting, skipped, satisfied.", (*_OWNED, "decision")),
}
_OF_RUNS = {
    "runs_total": _Kind("Runs, by their exit code.", (*_RUN, "exit_code")),
    "last_run_timestamp_seconds": _Kind("When the last run ended.", _RUN),
    "last_run_exit_code": _Kind("Exit code of the last run.", _RUN),
    "last_run_duration_seconds": _Kind("How long the last run took.", _RUN),
    "last_success_timestamp_seconds": _Kind("When the last run with exit code 0 ended.", _RUN),
    "limit_refusals_total": _Kind("Runs that this limit refused.", (*_CLUSTER, "limit")),
    "actions_total": _Kind("What became of actions.", (*_OWNED, "operation", "status")),
    "records_removed_total": _Kind(
        "Offsets that requests removed or may have removed: at most so many records.", _OWNED
    ),
}
_METRICS = {"build_info": _Kind("1, of this version.", ("version", "python")), **_OF_DRIFT, **_OF_RUNS}


class Metrics(Collector):
    """Values by name and labels. Any thread may read and write them."""

    def __init__(self) -> None:
        makers = {name: Counter if name.endswith("_total") else Gauge for name in _METRICS}
        self._metrics: Mapping[str, Any] = {
            name: makers[name](f"reconciler_{name}", kind.text, kind.labels, registry=None)
            for name, kind in _METRICS.items()
        }
        self._registry = CollectorRegistry()  # the default one would add this process's memory and garbage collections
        self._registry.register(self)
        self.set("build_info", 1, __version__, platform.python_version())

    def set(self, name: str, value: float, *labels: str) -> None:
        self._metrics[name].labels(*labels).set(value)

    def add(self, name: str, value: float, *labels: str) -> None:
        self._metrics[name].labels(*labels).inc(value)

    def collect(self) -> Iterator[Metric]:
        """Return all metrics that have a value; Prometheus calls it."""
        return (family for metric in self._metrics.values() for family in metric.collect() if family.samples)

    def write(self, path: Path) -> None:
        """Write the text format, for the textfile collector or a push: whole or not at all. Raises OSError."""
        write_bytes(path, [generate_latest(self._registry)], mode=None)

    @contextmanager
    def serve(self, host: str, port: int) -> Iterator[int]:
        """Serve the metrics until the block ends. Yields the port. Raises OSError for an address in use."""
        server, thread = start_wsgi_server(port, host, self._registry)
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def continue_file(self, path: Path) -> None:
        """Take over what earlier runs wrote: a counter that began again would hide what the next run adds.

        Raises ValueError for a file with anything else, and OSError.
        """
        if not path.is_file():  # none yet, or a device
            return
        text = path.read_text(encoding="utf-8")
        try:
            families = list(text_string_to_metric_families(text))
        except ValueError:  # the library's words are about Python
            raise ValueError("it is not in the Prometheus text format") from None
        for family in families:
            for sample in family.samples:
                name = sample.name.removeprefix("reconciler_")
                if name in _OF_RUNS and set(sample.labels) == set(_METRICS[name].labels):
                    take = self.add if name.endswith("_total") else self.set
                    take(name, sample.value, *(sample.labels[label] for label in _METRICS[name].labels))
                elif name != "build_info":
                    raise ValueError(f"it has the metric {sample.name}, which no run writes")

    @contextmanager
    def measure(self, command: str, cluster: str = "") -> Iterator["MeasuredRun"]:
        """Count a run of a command. An error that ends the block counts with its exit code."""
        run = MeasuredRun(self, cluster)
        started_ms = wall_clock_ms()
        try:
            yield run
        except ReconcilerError as error:
            run.exit_code = error.exit_code
            raise
        except BaseException as error:
            run.exit_code = ExitCode.INTERRUPTED if isinstance(error, KeyboardInterrupt) else ExitCode.ERROR
            raise
        finally:
            if run.cluster:
                labels, ended_ms = (run.cluster, command), wall_clock_ms()
                self.add("runs_total", 1, *labels, str(int(run.exit_code)))
                self.set("last_run_timestamp_seconds", ended_ms / 1000, *labels)
                self.set("last_run_exit_code", run.exit_code, *labels)
                self.set("last_run_duration_seconds", max(0, ended_ms - started_ms) / 1000, *labels)
                if run.exit_code == ExitCode.DONE:
                    self.set("last_success_timestamp_seconds", ended_ms / 1000, *labels)


@dataclass(slots=True)
class MeasuredRun:
    """One run while it goes on. `cluster`: empty until it is known. `exit_code`: where no error ends it."""

    metrics: Metrics
    cluster: str
    exit_code: int = ExitCode.DONE

    def count(self, plan: Plan, outcomes: Iterable[Outcome], refused: Iterable[LimitVerdict]) -> None:
        """Count what became of a plan. Each policy has its series from then on, also at 0."""
        owners = plan.owners
        policies = owners.keys() | {decision.address.policy_address for decision in plan.decisions}
        labels = {policy: (self.cluster, policy.kind, policy.policy, owners.get(policy, "")) for policy in policies}
        for owned in labels.values():
            self.metrics.add("records_removed_total", 0, *owned)
        for outcome in outcomes:
            owned = labels[outcome.action.address.policy_address]
            self.metrics.add("actions_total", 1, *owned, outcome.action.OPERATION, outcome.status)
            self.metrics.add("records_removed_total", outcome.removed_max, *owned)
        for verdict in refused:
            self.metrics.add("limit_refusals_total", 1, self.cluster, verdict.id)


def drift_metrics(reports: Sequence[DriftReport], *, dated: bool = True) -> Metrics:
    """Return the metrics of drift reports. `dated`: previous reports tell since when.

    A policy without drift is a series of value 0, so that an alert on it can resolve.
    """
    metrics = Metrics()
    for report in reports:
        cluster = report.cluster
        metrics.set("in_sync", report.in_sync, cluster)
        metrics.set("complete", not report.has_unknowns, cluster)
        metrics.set("observed_timestamp_seconds", report.observed_at_ms / 1000, cluster)
        metrics.set("limits_refusing", len(report.refused), cluster)
        if report.subjects and dated:
            oldest_ms = min(subject.since_ms for subject in report.subjects)
            metrics.set("drift_since_timestamp_seconds", oldest_ms / 1000, cluster)
        for tally in report.tallies:
            policy = (cluster, tally.policy.kind, tally.policy.policy, tally.owner)
            metrics.set("drift_subjects", tally.drift, *policy)
            metrics.set("unread_subjects", tally.unread, *policy)
            metrics.set("unmatched", tally.unmatched, *policy)
            for decision in ("pending", "waiting", "skipped", "satisfied"):
                metrics.set("subjects", getattr(tally, decision), *policy, decision)
    return metrics
