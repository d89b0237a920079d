"""Builds the report of a cluster's drift: what drifts, since when, and what to do.

The text changes only with the subjects that drift: offsets, ages and counts are in the JSON.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from reconciler import operations
from reconciler.model.block_reason import BLOCK_CODES, SILENT
from reconciler.model.names import format_address
from reconciler.plan.drift import BLOCKED, UNREAD, DriftReport, Subject, dumps
from reconciler.report.document import DRIFT, Document, View
from reconciler.report.plan import count_subjects, plan_command
from reconciler.report.tree import (
    NO_PAGES,
    Item,
    Report,
    Section,
    Severity,
    fold_causes,
    format_subjects,
    unmatched_item,
)
from reconciler.text import formatting
from reconciler.text.phrase import Phrase, escaped_name, join, name, sentence, strong

ROWS_MAX = 40
"""Items of one list; the others are counted. An issue is read on a phone."""


def drift_document(
    reports: Sequence[DriftReport], *, paths: Iterable[Path] = (), quiet: bool = False, dated: bool = True
) -> Document:
    """Return the document of several clusters. `quiet`: a terminal shows none that is in sync without a warning.

    `paths`: of the manifests, for the command that a person types at a terminal. `dated`: as in `drift_report`.
    """

    def trees(view: View) -> Sequence[Report]:
        typed = tuple(map(str, paths)) if view.at_terminal else ()
        return [
            drift_report(report, paths=typed, pages=view.pages, dated=dated)
            for report in reports
            if not (quiet and view.at_terminal and report.in_sync and not report.unmatched)
        ]

    return Document(
        kind=DRIFT,
        trees=trees,
        values=reports,
        writers={"json": lambda: dumps(reports)},
        outputs=lambda: {
            "drifting": sum(len(report.subjects) for report in reports),
            "unread": sum(len(report.unread) for report in reports),
            "refused": sum(len(report.refused) for report in reports),
        },
    )


def drift_report(
    report: DriftReport, *, paths: Iterable[str] = (), pages: Mapping[str, str] = NO_PAGES, dated: bool = True
) -> Report:
    """The report of one cluster, without the time of the run; in sync: without a headline.

    `paths`: of the manifests, for the command that a person types; empty: the default folder.
    `pages`: of codes, by their names. `dated`: the report is one of a series, which tells since when.
    """
    unlinked = dict(pages)
    cluster: Phrase = (name(report.cluster), " (", name(report.cluster_id), ")")
    marker = ("reconciler:drift", (("cluster", report.cluster), ("id", report.cluster_id)))
    unmatched = [unmatched_item(warning) for warning in report.unmatched]
    if report.in_sync:
        satisfied = sum(tally.satisfied for tally in report.tallies)
        waiting = sum(tally.waiting + tally.pending for tally in report.tallies)
        counts = f"{satisfied:,} satisfied, {waiting:,} waiting or within their allowance"
        if skipped := sum(tally.skipped for tally in report.tallies):
            counts += f", {skipped:,} skipped"
        summary = (*cluster, f" is in sync ({counts}).")
        return Report(summary=summary, sections=(Section(items=tuple(unmatched)),), marker=marker)
    blocked = [subject for subject in report.subjects if subject.sort == BLOCKED]
    to_correct = [subject for subject in report.subjects if subject.sort != BLOCKED]
    sorts = {"blocked": blocked, "not read": report.unread, "to correct": to_correct}
    numbers = [f"{sort}: {count_subjects(s.address for s in same)}" for sort, same in sorts.items() if same]
    oldest = min((subject.since_ms for subject in report.subjects), default=0)
    drifts = "; ".join([*numbers, f"the oldest since {formatting.format_time(oldest)}"] if dated else numbers)
    command = plan_command("--full", "--cluster", report.cluster, *paths)
    # Where nothing could be read, the plan would end with the same error now.
    every = "For every subject" if numbers or report.tallies else "Once that is mended, for every subject"
    warnings = [Item(label="Incomplete", text=(sentence(r),), severity=Severity.WARNING) for r in report.incomplete]
    if report.refused:
        limits = join(", ", *((name(limit, link=unlinked.pop(limit, "")),) for limit in report.refused))
        warnings.append(Item(label="Limits that refuse the plan now", text=limits, severity=Severity.ERROR))
    return Report(
        headline=("Drift on ", *cluster, f": {drifts if report.subjects else 'too little could be read to tell'}"),
        sections=(
            Section(items=tuple(_items(blocked, Severity.WARNING, unlinked, dated))),
            Section(items=tuple(_items(to_correct, Severity.CHANGE, unlinked, dated))),
            Section(
                heading=(f"Not read: {count_subjects(subject.address for subject in report.unread)}",),
                items=tuple(_items(report.unread, Severity.WARNING, unlinked, dated)),
                severity=Severity.WARNING,
                labelled=False,
            ),
            Section(items=(*warnings, *unmatched)),
        ),
        footer=((f"{every} with its numbers: ", command),),
        page_note=("This closes by itself once all is in sync.",),
        marker=marker,
        remainder=("in the run's artifact or with ", command),
    )


def _items(subjects: Iterable[Subject], severity: Severity, pages: dict[str, str], dated: bool) -> Iterator[Item]:
    """Subjects of one policy that drift for one reason are one item, or one for each of a few topics and groups.

    Removes from `pages` what is linked, so that only the first name of a code is.
    """
    groups = list(fold_causes(sorted(subjects, key=_key), _key))
    for same in groups[:ROWS_MAX]:
        first = same[0]
        subject = format_subjects([subject.address for subject in same])
        since = f"since {formatting.format_time(min(subject.since_ms for subject in same))}, " if dated else ""
        policies = list(dict.fromkeys(format_address(subject.address.policy_address) for subject in same))
        policy = escaped_name(formatting.first_few(policies))
        next_step = Item(text=(f"{since}against ", policy, "; next: ", sentence(first.next_step)))
        code = first.code or ""
        text = _state(first, page=pages.pop(code, ""))
        yield Item(subject=subject, text=text, severity=severity, code=code, children=(next_step,))
    if len(groups) > ROWS_MAX:
        yield Item(text=(f"and {len(groups) - ROWS_MAX:,} more (-o json lists them all)",))


def _key(subject: Subject) -> tuple[tuple[str | bool, ...], str]:
    """Return policy, state and next step, and the name. What a silent broker blocks is alike for all policies."""
    address, code = subject.address, subject.code or ""
    if code == SILENT:
        return (code, subject.detail), ""
    return (address.kind, address.policy, subject.sort, code, subject.next_step, address.partition >= 0), address.name


def _state(subject: Subject, *, page: str) -> Phrase:
    if subject.code is None:
        return (strong(next(o.DRIFT_TEXT for o in operations.OPERATIONS if subject.sort == o.DRIFT_TYPE)),)
    code = name(subject.code, link=page)
    if subject.code == SILENT:
        return (strong("not read"), ": ", sentence(subject.detail), " (", code, ")")
    title = BLOCK_CODES[subject.code].title if subject.code in BLOCK_CODES else "see the code"
    return (strong(f"{'not read' if subject.sort == UNREAD else 'blocked'}: {title}"), " (", code, ")")
