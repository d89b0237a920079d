"""Builds the reports of a restored group: what would be written, and what became of it."""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from reconciler.apply.restore import Removal, note_metadata
from reconciler.model.action import Mode
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from reconciler.policies import Policy
from reconciler.report.tree import Item, Report, Section, Severity, group_equal
from reconciler.text.escape import quoted
from reconciler.text.formatting import count
from reconciler.text.phrase import Phrase, escaped_name, name, sentence, strong


def restore_report(
    removal: Removal,
    outcomes: Mapping[TopicPartition, Outcome],
    cluster: str,
    policies: Iterable[Policy] = (),
    *,
    is_planned: bool = False,
) -> Report:
    """The report of what became of each offset; what is not written comes first.

    `policies`: of the cluster; those that `converge` carries out may remove the group again.
    `is_planned`: of which offsets would be written; `outcomes` are why not the others.
    """

    def cause(commit: CommittedOffset) -> Hashable:
        """Return what the offsets of one item have in common: details of one cause differ in their offsets only."""
        outcome = outcomes.get(commit.at)
        details = () if outcome is None else (outcome.status, outcome.code, re.sub("[0-9]+", "…", outcome.detail))
        return commit.topic, details

    def is_written(commit: CommittedOffset) -> bool:
        return commit.at not in outcomes or outcomes[commit.at].status is Status.APPLIED

    groups = sorted(group_equal(removal.offsets, cause), key=lambda same: is_written(same[0]))
    written = list(filter(is_written, removal.offsets))
    effect = "can be written back" if is_planned else "written back"
    total = f" of {count(len(removal.offsets), 'offset')} {effect}{note_metadata(written)}."
    group = escaped_name(quoted(removal.group))
    return Report(
        title="restore-group",
        opening=("Group ", group, " on ", escaped_name(cluster), ", from ", sentence(removal.source)),
        sections=(
            Section(
                items=(
                    *_removed_again(removal.group, policies),
                    *(_item(same, outcomes.get(same[0].at), is_planned) for same in groups),
                )
            ),
        ),
        summary=(strong(f"{len(written):,}"), f"{total}{' Deleted records cannot be restored.' * is_planned}"),
    )


def _removed_again(group: str, policies: Iterable[Policy]) -> Iterator[Item]:
    next_step = "`converge` removes it again, without a review; name it in exceptGroups first"
    for policy in policies:
        selects = policy.SUBJECTS == "groups" and group in policy.select_among({group})
        if selects and policy.mode is Mode.CONTINUOUS:
            text = (f"by {policy.address} ({policy.declared_at}), which is continuous: {next_step}",)
            yield Item(label="Selected", subject=(escaped_name(quoted(group)),), text=text, severity=Severity.WARNING)


def _item(same: Sequence[CommittedOffset], outcome: Outcome | None, is_planned: bool) -> Item:
    """Return the item of the partitions of a topic that have one cause: with the first one where its detail is shown."""
    first, offsets = name(str(same[0].at)), [commit.offset for commit in same]
    example: Phrase = () if outcome is None or outcome.status is Status.APPLIED else (", such as ", first)
    subject = (f"{count(len(same), 'partition')} of ", name(same[0].topic), *example) if len(same) > 1 else (first,)
    lowest, highest = min(offsets), max(offsets)
    text = f"offset {lowest}" if lowest == highest else f"offsets {lowest} to {highest}"
    if outcome is None:
        return Item(label="Write", subject=subject, text=(text,), severity=Severity.CHANGE)
    if is_planned:
        cause = (text, ": ", sentence(outcome.detail))
        return Item(label="Do not write", subject=subject, text=cause, severity=Severity.WARNING)
    code = f" ({outcome.code})" if outcome.code not in (None, "NONE") else ""
    effect = f"; now {outcome.read_back}" if outcome.read_back and len(same) == 1 else ""
    return Item(
        label="Not written" if example else "Written",
        subject=subject,
        text=(f"{text}: {outcome.status}: ", sentence(outcome.detail), f"{code}{effect}"),
        severity=Severity.ERROR if example else Severity.GOOD,
    )
