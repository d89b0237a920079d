"""Outputs of a step on GitHub: what chats and tickets need of a plan, of results and of drift.

Numbers and digests only: no name from a cluster or a manifest gets into another step. Names are an
interface: add, never rename. docs/github.md describes them.
"""

from collections import Counter
from collections.abc import Sequence

from reconciler.apply.results import ResultRow, ResultsHeader
from reconciler.model.outcome import Status
from reconciler.model.plan import Plan
from reconciler.plan.drift import DriftReport
from reconciler.plan.plan_file import Totals
from reconciler.report.document import Outputs

_UNDONE = (Status.FAILED, Status.NOT_ATTEMPTED, Status.BLOCKED, Status.STALE)


def plan_outputs(plan: Plan) -> Outputs:
    """Return the outputs of a plan. `records_removed_max` is empty if no number bounds it."""
    totals = Totals(plan)
    for decision in plan.decisions:
        totals.add(decision)
    names = ("irreversible", "records_removed_max", "blocked", "unread")
    counts: dict[str, str | int] = {name: totals.summary[name] for name in names}
    if totals.summary["unbounded"]:
        counts["records_removed_max"] = ""
    return {"digest": totals.digest, "actions": len(plan.actions), **counts, "refused": len(plan.refused)}


def result_outputs(header: ResultsHeader, rows: Sequence[ResultRow]) -> Outputs:
    """Return the outputs of an apply. `undone`: failed, not attempted, blocked or stale."""
    tally = Counter(row.status for row in rows)
    return {
        "digest": header.plan_digest,
        "applied": tally[Status.APPLIED],
        "failed": tally[Status.FAILED],
        "undone": sum(tally[status] for status in _UNDONE),
        "records_removed": sum(row.removed_max for row in rows),
        "refused": len(header.refused),
    }


def drift_outputs(reports: Sequence[DriftReport]) -> Outputs:
    """Return the outputs of drift, of all clusters together."""
    return {
        "drifting": sum(len(report.subjects) for report in reports),
        "unread": sum(len(report.unread) for report in reports),
        "refused": sum(len(report.refused) for report in reports),
    }
