"""Builds the reports of a restored group: what would be written, and what became of it."""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from reconciler.apply.restore import Removal, RestorePlan, note_metadata
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from reconciler.report.tree import Item, Report, Section, Severity, group_equal
from reconciler.text.escape import quoted
from reconciler.text.formatting import count
from reconciler.text.phrase import Phrase, escaped_name, name, sentence, strong


def restore_plan_report(planned: RestorePlan, cluster: str) -> Report:
    """The report of which offsets would be written, and why not the others."""
    metadata = note_metadata(action.commit for action in planned.writable)
    total = f"of {count(len(planned.removal.offsets), 'offset')} can be written back{metadata}."
    return Report(
        title="restore-group",
        opening=_opening(planned.removal, cluster),
        sections=(Section(items=tuple(_items(planned.removal.offsets, planned.unwritten, _planned_item))),),
        summary=(strong(f"{len(planned.writable):,}"), f" {total} Deleted records cannot be restored."),
    )


def restore_report(removal: Removal, outcomes: Mapping[TopicPartition, Outcome], cluster: str) -> Report:
    """The report of what became of each offset."""
    written = [commit for commit in removal.offsets if outcomes[commit.at].status is Status.APPLIED]
    total = f"of {count(len(outcomes), 'offset')} written back{note_metadata(written)}."
    return Report(
        title="restore-group",
        opening=_opening(removal, cluster),
        sections=(Section(items=tuple(_items(removal.offsets, outcomes, _outcome_item))),),
        summary=(strong(f"{len(written):,}"), f" {total}"),
    )


def _items(
    offsets: Sequence[CommittedOffset],
    outcomes: Mapping[TopicPartition, Outcome],
    make: Callable[[Sequence[CommittedOffset], Outcome | None], Item],
) -> Iterator[Item]:
    """Yield an item for the partitions of each topic that have one cause; what is not written comes first."""

    def cause(commit: CommittedOffset) -> Hashable:
        outcome = outcomes.get(commit.at)
        # Details of one cause differ in their offsets only.
        details = () if outcome is None else (outcome.status, outcome.code, re.sub("[0-9]+", "…", outcome.detail))
        return commit.topic, details

    def is_success(same: Sequence[CommittedOffset]) -> bool:
        outcome = outcomes.get(same[0].at)
        return outcome is None or outcome.status is Status.APPLIED

    for same in sorted(group_equal(offsets, cause), key=is_success):
        yield make(same, outcomes.get(same[0].at))


def _opening(removal: Removal, cluster: str) -> tuple[Phrase, ...]:
    group = escaped_name(quoted(removal.group))
    return (("Group ", group, " on ", escaped_name(cluster), ", from ", sentence(removal.source)),)


def _planned_item(same: Sequence[CommittedOffset], refusal: Outcome | None) -> Item:
    text: Phrase = (_offsets(same),)
    if refusal is None:
        return Item(label="Write", subject=_subject(same), text=text, severity=Severity.CHANGE)
    text = (*text, ": ", sentence(refusal.detail))
    return Item(label="Do not write", subject=_subject(same, has_example=True), text=text, severity=Severity.WARNING)


def _outcome_item(same: Sequence[CommittedOffset], outcome: Outcome | None) -> Item:
    assert outcome is not None, "each offset has an outcome"
    is_written = outcome.status is Status.APPLIED
    code = f" ({outcome.code})" if outcome.code not in (None, "NONE") else ""
    effect = f"; now {outcome.read_back}" if outcome.read_back and len(same) == 1 else ""
    return Item(
        label="Written" if is_written else "Not written",
        subject=_subject(same, has_example=not is_written),
        text=(f"{_offsets(same)}: {outcome.status}: ", sentence(outcome.detail), f"{code}{effect}"),
        severity=Severity.GOOD if is_written else Severity.ERROR,
    )


def _subject(same: Sequence[CommittedOffset], *, has_example: bool = False) -> Phrase:
    """Return the partition, or how many of a topic. `has_example`: with the first one, whose detail is shown."""
    first = name(str(same[0].at))
    if len(same) == 1:
        return (first,)
    example: Phrase = (", such as ", first) if has_example else ()
    return (f"{count(len(same), 'partition')} of ", name(same[0].topic), *example)


def _offsets(same: Sequence[CommittedOffset]) -> str:
    """Return `offset 100`, or `offsets 100 to 250` of several partitions."""
    offsets = [commit.offset for commit in same]
    if min(offsets) == max(offsets):
        return f"offset {offsets[0]}"
    return f"offsets {min(offsets)} to {max(offsets)}"
