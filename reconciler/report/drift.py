"""A drift report as text and as the Markdown of an issue: short, and the same words as long as the same subjects drift.

Numbers that move with every run (offsets, ages, counts of records) stay in the JSON; here is what, since when and what to do.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.text import Text

from reconciler.model.block_codes import REASONS
from reconciler.model.names import Address
from reconciler.plan.drift.report import DriftReport, DriftType, Subject
from reconciler.report import escape
from reconciler.report.wrap import line, wrapped
from reconciler.text import formatting

ROWS_MAX = 40
"""Rows of one list; the rest is counted. An issue is read on a phone."""

_WRONG = {
    DriftType.RECORDS: "records below the floor are still there",
    DriftType.GROUP: "the group is still there",
    DriftType.LEADER: "the wanted replica does not lead",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """Subjects of one policy that drift for one reason: the partitions of one topic, or one group."""

    policy: Address
    subjects: tuple[Subject, ...]

    @property
    def what(self) -> str:
        first = self.subjects[0].address
        if len(self.subjects) == 1:
            return escape.subject(first)
        return f"{escape.display_name(first.name)}, {formatting.count(len(self.subjects), 'partition')}"

    @property
    def wrong(self) -> str:
        first = self.subjects[0]
        if first.code is None:
            return _WRONG[first.sort]
        title = REASONS[first.code].title if first.code in REASONS else "see the code"
        return f"{'not read' if first.sort is DriftType.UNREAD else 'blocked'}: {title} ({escape.display_name(first.code)})"

    @property
    def since_ms(self) -> int:
        return min(subject.since_ms for subject in self.subjects)

    @property
    def next_step(self) -> str:
        return self.subjects[0].next_step


def drift_text(report: DriftReport, *, width: int | None = None) -> Iterator[Text]:
    """The report's lines; one line where everything is in sync."""
    yield from wrapped(_title(report), width=width, style="bold")
    for row in itertools.islice(_rows(report.subjects), ROWS_MAX):
        yield from _row_text(row, width=width, style="yellow")
    yield from _more_text(report.subjects)
    if report.unread:
        yield from wrapped(_unread_title(report), width=width, style="bold magenta")
        for row in itertools.islice(_rows(report.unread), ROWS_MAX):
            yield from _row_text(row, width=width, style="magenta")
        yield from _more_text(report.unread)
    for sentence in report.incomplete:
        yield from wrapped(f"Incomplete: {escape.escape_sentence(sentence)}", width=width, style="bold magenta")
    if report.refused:
        yield from wrapped(
            f"Limits that refuse the plan as it stands: {_limits(report)}", width=width, style="bold red"
        )
    if not report.in_sync:
        yield from wrapped(f"Details: reconciler plan --cluster {escape.display_name(report.cluster)}", width=width)


def drift_markdown(report: DriftReport) -> str:
    """The body of an issue, hidden marker first. Holds no time of the run, so that an unchanged drift is an unchanged text."""
    cluster = escape.markdown_code(escape.escaped(report.cluster))
    marker = f"<!-- reconciler:drift cluster={escape.comment_value(report.cluster)} id={escape.comment_value(report.cluster_id)} -->"
    if report.in_sync:
        return f"{marker}\n\n{cluster} is in sync.\n"
    parts = [marker, f"### Drift on {cluster}"]
    if report.subjects:
        told = f"**{_number(report)}**, the oldest since {formatting.format_time(_oldest(report.subjects))}."
        parts += [told, *_rows_markdown(report.subjects)]
    else:
        parts.append("Nothing that could be read drifts.")
    if report.unread:
        parts += [f"**{_unread_title(report)}**", *_rows_markdown(report.unread)]
    if report.incomplete:
        parts.append("\n".join(f"- Incomplete: {escape.markdown_prose(sentence)}" for sentence in report.incomplete))
    if report.refused:
        parts.append(f"Limits that refuse the plan as it stands: {escape.markdown_prose(_limits(report))}.")
    command = escape.markdown_code(f"reconciler plan --cluster {escape.display_name(report.cluster)}")
    parts.append(f"{command} shows every subject with its numbers. This closes by itself once all is in sync.")
    return "\n\n".join(parts) + "\n"


def _title(report: DriftReport) -> str:
    where = f"{escape.display_name(report.cluster)} ({escape.display_name(report.cluster_id)})"
    if report.in_sync:
        total = sum(tally.satisfied for tally in report.tallies)
        waiting = sum(tally.waiting + tally.pending for tally in report.tallies)
        return f"Cluster {where}: in sync ({total:,} satisfied, {waiting:,} waiting or within their allowance)"
    if report.subjects:
        return (
            f"Cluster {where}: {_number(report)}, the oldest since {formatting.format_time(_oldest(report.subjects))}"
        )
    return f"Cluster {where}: too little could be seen to tell"


def _number(report: DriftReport) -> str:
    number = len(report.subjects)
    return f"{formatting.count(number, 'subject')} {'drifts' if number == 1 else 'drift'}"


def _unread_title(report: DriftReport) -> str:
    return f"{formatting.count(len(report.unread), 'subject')} could not be read"


def _oldest(subjects: Iterable[Subject]) -> int:
    return min(subject.since_ms for subject in subjects)


def _limits(report: DriftReport) -> str:
    return ", ".join(map(escape.display_name, report.refused))


def _rows(subjects: Iterable[Subject]) -> Iterator[_Row]:
    """Adjacent subjects of one policy and topic that drift for one reason. Subjects come sorted by address."""

    def key(subject: Subject) -> tuple[str, ...]:
        address = subject.address
        own = str(address) if address.partition < 0 else ""
        return (address.kind, address.policy, address.name, own, subject.sort, subject.code or "")

    for _, alike in itertools.groupby(sorted(subjects, key=key), key=key):
        found = tuple(alike)
        yield _Row(found[0].address.policy_address, found)


def _left_out(subjects: tuple[Subject, ...]) -> int:
    return sum(1 for _ in itertools.islice(_rows(subjects), ROWS_MAX, None))


def _row_text(row: _Row, *, width: int | None, style: str) -> Iterator[Text]:
    yield from wrapped(
        f"  {escape.policy(row.policy)}  {row.what}: {row.wrong}", width=width, style=style, indent="    "
    )
    yield from wrapped(
        f"      since {formatting.format_time(row.since_ms)}; next: {escape.escape_sentence(row.next_step)}",
        width=width,
    )


def _more_text(subjects: tuple[Subject, ...]) -> Iterator[Text]:
    if left := _left_out(subjects):
        yield line(f"  and {left:,} more (-o json lists them all)")


def _rows_markdown(subjects: tuple[Subject, ...]) -> list[str]:
    rows = [
        f"- {escape.markdown_code(row.what)}: **{escape.markdown_prose(row.wrong)}**\n"
        f"  - since {formatting.format_time(row.since_ms)}, against {escape.markdown_code(escape.policy(row.policy))}\n"
        f"  - next: {escape.markdown_prose(row.next_step)}"
        for row in itertools.islice(_rows(subjects), ROWS_MAX)
    ]
    if left := _left_out(subjects):
        rows.append(f"- and {left:,} more")
    return ["\n".join(rows)]
