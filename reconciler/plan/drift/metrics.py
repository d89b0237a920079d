"""Writes drift reports as Prometheus text, for the node exporter's textfile collector or a push.

Names and labels are an interface: add, never rename. A policy without drift is a series of value 0, so that an alert on it can resolve.
"""

from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from reconciler.plan.drift.report import DriftReport

_POLICY = ("cluster", "kind", "policy")


def write_metrics(reports: Sequence[DriftReport], path: Path) -> None:
    """Write the metrics of these reports to `path`, whole or not at all. Raises OSError.

    A registry of its own: the default one would add this process's memory and garbage collections.
    """
    registry = CollectorRegistry()
    in_sync = Gauge("reconciler_in_sync", "1: nothing drifts and everything was seen.", ("cluster",), registry=registry)
    seen_all = Gauge(
        "reconciler_complete",
        "1: everything that the policies need could be read.",
        ("cluster",),
        registry=registry,
    )
    observed = Gauge(
        "reconciler_observed_timestamp_seconds",
        "When the cluster was read; an old one means that drift is no longer checked.",
        ("cluster",),
        registry=registry,
    )
    oldest = Gauge(
        "reconciler_drift_since_timestamp_seconds",
        "Since when the oldest drifting subject drifts; absent while none does.",
        ("cluster",),
        registry=registry,
    )
    refused = Gauge(
        "reconciler_limits_refusing", "Limits that refuse the plan as it stands.", ("cluster",), registry=registry
    )
    drifting = Gauge("reconciler_drift_subjects", "Subjects that drift.", _POLICY, registry=registry)
    unread = Gauge("reconciler_unread_subjects", "Subjects that could not be read.", _POLICY, registry=registry)
    others = Gauge(
        "reconciler_subjects",
        "Subjects that do not drift: pending, waiting, skipped, satisfied.",
        (*_POLICY, "decision"),
        registry=registry,
    )
    for report in reports:
        in_sync.labels(report.cluster).set(report.in_sync)
        seen_all.labels(report.cluster).set(not report.unseen)
        observed.labels(report.cluster).set(report.observed_at_ms / 1000)
        refused.labels(report.cluster).set(len(report.refused))
        if report.subjects:
            oldest.labels(report.cluster).set(min(subject.since_ms for subject in report.subjects) / 1000)
        for tally in report.tallies:
            names = (report.cluster, tally.policy.kind, tally.policy.policy)
            drifting.labels(*names).set(tally.drift)
            unread.labels(*names).set(tally.unread)
            for decision, count in (
                ("pending", tally.pending),
                ("waiting", tally.waiting),
                ("skipped", tally.skipped),
                ("satisfied", tally.satisfied),
            ):
                others.labels(*names, decision).set(count)
    write_to_textfile(str(path), registry)
