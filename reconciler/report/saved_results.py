"""Builds the report of a results file, which has the address and the request of each action only."""

from collections import Counter
from collections.abc import Iterator, Sequence

from reconciler.apply.results import ResultRow, ResultsHeader
from reconciler.model.outcome import Status
from reconciler.report.results import severity_of
from reconciler.report.tree import Item, Report, Section, Severity, format_subjects, group_equal
from reconciler.text import formatting
from reconciler.text.phrase import name, sentence, strong

_SEVERITIES = tuple(Severity)


def saved_results_report(header: ResultsHeader, rows: Sequence[ResultRow]) -> Report:
    """Return the report of what became of a plan, the worst first."""
    tally = Counter(row.status for row in rows)
    counts = ", ".join(f"{tally[status]:,} {_words(status)}" for status in Status if tally[status])
    removed = sum(row.removed_max for row in rows)
    loss = f"; at most {formatting.count(removed, 'record')} removed" if removed else ""
    ended = formatting.format_time(header.finished_at_ms)
    duration = formatting.approximate_duration(max(0, header.finished_at_ms - header.started_at_ms))
    refused = tuple(Item(label="REFUSED", text=(sentence(text),), severity=Severity.ERROR) for text in header.refused)
    return Report(
        title=f"results of {header.cluster}",
        headline=(name(header.cluster), f": {counts or 'nothing to do'}"),
        opening=(("Cluster ", name(header.cluster), " (", name(header.cluster_id), ")"),),
        summary=(strong("Result:"), f" {counts or 'nothing to do'}{loss}; exit code {header.exit_code}."),
        sections=(Section(items=refused), Section(items=tuple(_items(rows)))),
        footer=(
            ("Run ", name(header.run_id), f", ended {ended} after {duration}", ", interrupted" * header.interrupted),
            ("Digest of the plan ", name(header.plan_digest)),
        ),
        remainder=("in the results file",),
    )


def _items(rows: Sequence[ResultRow]) -> Iterator[Item]:
    """Yield an item for the results of one topic that say the same."""

    def key(row: ResultRow) -> tuple[object, ...]:
        detail = "" if row.status is Status.APPLIED else row.detail
        return row.status, row.operation, row.address.policy_address, row.address.name, row.code, detail

    ordered = sorted(rows, key=lambda row: (_SEVERITIES.index(severity_of(row.status)), row.status, row.address))
    for same in group_equal(ordered, key):
        first, removed = same[0], sum(row.removed_max for row in same)
        effect = f"at most {formatting.count(removed, 'record')} removed" if removed else ""
        shown = f"now {first.read_back}" if len(same) == 1 and first.read_back else ""
        code = first.code if first.code not in (None, "NONE") else ""
        detail = first.detail if first.status is not Status.APPLIED or len(same) == 1 else ""
        text = "; ".join(filter(None, (detail, code, effect, shown)))
        yield Item(
            label=_words(first.status).capitalize(),
            subject=format_subjects([row.address for row in same]),
            text=(sentence(text),) if text else (),
            severity=severity_of(first.status),
        )


def _words(status: Status) -> str:
    return status.replace("_", " ")
