"""Drift: what a plan says about a cluster that should already be as desired, told briefly and the same way twice.

Here: which decisions are drift, since when, and the report's two files (JSON for the next run and for people, Prometheus text for
alerts). Not here: how a report reads, which is render's, and what is drift at all, which each kind decides with its actions.
"""

from reconciler.plan.drift.file import FORMAT_VERSION, dumps, parse, read
from reconciler.plan.drift.metrics import write_metrics
from reconciler.plan.drift.report import (
    BLOCKED,
    UNREAD,
    DriftReport,
    PolicyTally,
    Subject,
    exit_code,
    report,
    unreachable_report,
)

__all__ = [
    "BLOCKED",
    "UNREAD",
    "FORMAT_VERSION",
    "DriftReport",
    "PolicyTally",
    "Subject",
    "dumps",
    "exit_code",
    "unreachable_report",
    "parse",
    "read",
    "report",
    "write_metrics",
]
