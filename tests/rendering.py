"""Renders whole documents with one call each, for tests.

`text(plan)` is `write_lines(plan_report(plan))`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from rich.text import Text

from reconciler.apply.results import ResultsHeader
from reconciler.journal.entry import JournalEntry
from reconciler.model.names import Address, count_by_sort
from reconciler.model.outcome import Outcome
from reconciler.model.plan import Plan
from reconciler.plan.diff import Comparison
from reconciler.plan.drift import DriftReport
from reconciler.plan.plan_file import digest
from reconciler.report.annotations import write_annotations
from reconciler.report.diff import diff_report
from reconciler.report.drift import drift_report
from reconciler.report.markdown import LIMIT_CHARS, write_markdown
from reconciler.report.metrics import Metrics
from reconciler.report.plan import explain_report, plan_report
from reconciler.report.results import journal_report, results_report
from reconciler.report.terminal import write_lines


def plain(lines: Iterable[Text]) -> list[str]:
    """Return the lines of a report without their styles."""
    return [line.plain for line in lines]


def text(plan: Plan, *, width: int | None = None, **options: Any) -> Iterator[Text]:
    """Return the lines of a plan. `options`: of `plan_report`."""
    return write_lines(plan_report(plan, **options), width=width)


def markdown(plan: Plan, *, limit_chars: int = LIMIT_CHARS) -> str:
    return write_markdown(plan_report(plan), limit_chars=limit_chars)


def github(plan: Plan) -> str:
    return write_annotations(plan_report(plan))


def diff_text(comparison: Comparison, *, width: int | None = None, full: bool = False) -> Iterator[Text]:
    return write_lines(diff_report(comparison, full=full), width=width)


def diff_markdown(comparison: Comparison) -> str:
    return write_markdown(diff_report(comparison))


def drift_text(report: DriftReport, *, width: int | None = None) -> Iterator[Text]:
    return write_lines(drift_report(report), width=width)


def drift_markdown(report: DriftReport) -> str:
    return write_markdown(drift_report(report))


def header_of(plan: Plan) -> ResultsHeader:
    """The header of the results of a run that has ended well."""
    return ResultsHeader(
        tool_version="0.1.0",
        run_id="run-1",
        plan_digest=digest(plan),
        cluster=plan.cluster,
        cluster_id=plan.cluster_id,
        started_at_ms=plan.observed_at_ms,
        finished_at_ms=plan.observed_at_ms,
        interrupted=False,
        exit_code=0,
        blocked=+count_by_sort(decision.address for decision in plan.blocked),
    )


def results_text(
    plan: Plan, outcomes: Sequence[Outcome], *, width: int | None = None, duration_ms: int = 0
) -> Iterator[Text]:
    header = header_of(plan)
    header = replace(header, finished_at_ms=header.started_at_ms + duration_ms)
    return write_lines(results_report(header, outcomes), width=width)


def results_markdown(plan: Plan, outcomes: Sequence[Outcome], *, limit_chars: int = LIMIT_CHARS) -> str:
    return write_markdown(results_report(header_of(plan), outcomes), limit_chars=limit_chars)


def results_github(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    return write_annotations(results_report(header_of(plan), outcomes))


def explain(plan: Plan, address: Address, *, width: int | None = None) -> Iterator[Text]:
    return write_lines(explain_report(plan, address), width=width)


def journal_text(entries: Sequence[JournalEntry], *, width: int | None = None, full: bool = False) -> Iterator[Text]:
    return write_lines(journal_report(entries, "prod-eu", full=full), width=width)


Samples = dict[str, dict[tuple[str, ...], float]]


def samples(metrics: Metrics, path: Path) -> Samples:
    """Return metric → values of its labels, sorted by label and without that of the cluster → value."""
    metrics.write(path)
    result: Samples = {}
    for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
        for sample in family.samples:
            labels = tuple(value for name, value in sample.labels.items() if name != "cluster")
            result.setdefault(sample.name, {})[labels] = sample.value
    return result
