"""Builds the reports of a restored group: what would be written, and what became of it."""

from collections.abc import Iterator, Mapping

from reconciler.apply.restore import Removal, RestorePlan, unwritten
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from reconciler.report.tree import Item, Report, Section, Severity
from reconciler.text.escape import quoted
from reconciler.text.formatting import count
from reconciler.text.phrase import Phrase, escaped_name, name, sentence, strong


def restore_plan_report(planned: RestorePlan, cluster: str) -> Report:
    """The report of which offsets would be written, and why not the others."""
    refused = unwritten(planned)
    items = (_planned_item(commit, refused.get(commit.at)) for commit in planned.removal.offsets)
    total = f"of {count(len(planned.removal.offsets), 'offset')} can be written back."
    failure = planned.group_failure
    return Report(
        title="restore-group",
        opening=_opening(planned.removal, cluster),
        sections=(Section(items=tuple(items)),),
        summary=(
            *((sentence(failure.detail), ". ") if failure is not None else ()),
            strong(f"{len(planned.writable):,}"),
            f" {total} Deleted records cannot be restored.",
        ),
    )


def restore_report(removal: Removal, outcomes: Mapping[TopicPartition, Outcome], cluster: str) -> Report:
    """The report of what became of each offset."""
    written = sum(outcome.status is Status.APPLIED for outcome in outcomes.values())
    total = f"of {count(len(outcomes), 'offset')} written back."
    return Report(
        title="restore-group",
        opening=_opening(removal, cluster),
        sections=(Section(items=tuple(_outcome_items(removal, outcomes))),),
        summary=(strong(f"{written:,}"), f" {total}"),
    )


def _opening(removal: Removal, cluster: str) -> tuple[Phrase, ...]:
    group = escaped_name(quoted(removal.group))
    return (("Group ", group, " on ", escaped_name(cluster), ", from ", sentence(removal.source)),)


def _planned_item(commit: CommittedOffset, refusal: Outcome | None) -> Item:
    if refusal is None:
        return Item(
            label="Write", subject=_subject(commit), text=(f"offset {commit.offset}",), severity=Severity.CHANGE
        )
    text = (f"offset {commit.offset}: ", sentence(refusal.detail))
    return Item(label="Do not write", subject=_subject(commit), text=text, severity=Severity.WARNING)


def _outcome_items(removal: Removal, outcomes: Mapping[TopicPartition, Outcome]) -> Iterator[Item]:
    for commit in removal.offsets:
        outcome = outcomes[commit.at]
        is_written = outcome.status is Status.APPLIED
        code = f" ({outcome.code})" if outcome.code not in (None, "NONE") else ""
        effect = f"; now {outcome.read_back}" if outcome.read_back else ""
        yield Item(
            label="Written" if is_written else "Not written",
            subject=_subject(commit),
            text=(f"offset {commit.offset}: {outcome.status}: ", sentence(outcome.detail), f"{code}{effect}"),
            severity=Severity.GOOD if is_written else Severity.ERROR,
        )


def _subject(commit: CommittedOffset) -> Phrase:
    return (name(str(commit.at)),)
