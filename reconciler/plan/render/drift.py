"""A drift report as text and as the Markdown of an issue: short, and the same words as long as the same subjects drift.

Numbers that move with every run (offsets, ages, counts of records) stay in the JSON; here is what, since when and what to do.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.text import Text

from reconciler.model.names import Address
from reconciler.model.reasons import REASONS
from reconciler.plan.drift.report import DriftReport, Sort, Subject
from reconciler.plan.render import phrases, safe
from reconciler.plan.render.wrap import line, wrapped

ROWS_MAX = 40
"""Rows of one list; the rest is counted. An issue is read on a phone."""

_WRONG = {
    Sort.RECORDS: "records below the floor are still there",
    Sort.GROUP: "the group is still there",
    Sort.LEADER: "the wanted replica does not lead",
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
            return safe.subject(first)
        return f"{safe.bare(first.name)}, {phrases.count(len(self.subjects), 'partition')}"

    @property
    def wrong(self) -> str:
        first = self.subjects[0]
        if first.code is None:
            return _WRONG[first.sort]
        title = REASONS[first.code].title if first.code in REASONS else "see the code"
        return f"{'not read' if first.sort is Sort.UNREAD else 'blocked'}: {title} ({safe.bare(first.code)})"

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
        yield from wrapped(f"Incomplete: {safe.prose(sentence)}", width=width, style="bold magenta")
    if report.refused:
        yield from wrapped(
            f"Limits that refuse the plan as it stands: {_limits(report)}", width=width, style="bold red"
        )
    if not report.in_sync:
        yield from wrapped(f"Details: reconciler plan --cluster {safe.bare(report.cluster)}", width=width)


def drift_markdown(report: DriftReport) -> str:
    """The body of an issue, hidden marker first. Holds no time of the run, so that an unchanged drift is an unchanged text."""
    cluster = safe.markdown_code(safe.escaped(report.cluster))
    marker = f"<!-- reconciler:drift cluster={safe.comment_value(report.cluster)} id={safe.comment_value(report.cluster_id)} -->"
    if report.in_sync:
        return f"{marker}\n\n{cluster} is in sync.\n"
    parts = [marker, f"### Drift on {cluster}"]
    if report.subjects:
        told = f"**{_number(report)}**, the oldest since {phrases.at(_oldest(report.subjects))}."
        parts += [told, *_rows_markdown(report.subjects)]
    else:
        parts.append("Nothing that could be read drifts.")
    if report.unread:
        parts += [f"**{_unread_title(report)}**", *_rows_markdown(report.unread)]
    if report.incomplete:
        parts.append("\n".join(f"- Incomplete: {safe.markdown_prose(sentence)}" for sentence in report.incomplete))
    if report.refused:
        parts.append(f"Limits that refuse the plan as it stands: {safe.markdown_prose(_limits(report))}.")
    command = safe.markdown_code(f"reconciler plan --cluster {safe.bare(report.cluster)}")
    parts.append(f"{command} shows every subject with its numbers. This closes by itself once all is in sync.")
    return "\n\n".join(parts) + "\n"


def _title(report: DriftReport) -> str:
    where = f"{safe.bare(report.cluster)} ({safe.bare(report.cluster_id)})"
    if report.in_sync:
        total = sum(tally.satisfied for tally in report.tallies)
        waiting = sum(tally.waiting + tally.pending for tally in report.tallies)
        return f"Cluster {where}: in sync ({total:,} satisfied, {waiting:,} waiting or within their allowance)"
    if report.subjects:
        return f"Cluster {where}: {_number(report)}, the oldest since {phrases.at(_oldest(report.subjects))}"
    return f"Cluster {where}: too little could be seen to tell"


def _number(report: DriftReport) -> str:
    number = len(report.subjects)
    return f"{phrases.count(number, 'subject')} {'drifts' if number == 1 else 'drift'}"


def _unread_title(report: DriftReport) -> str:
    return f"{phrases.count(len(report.unread), 'subject')} could not be read"


def _oldest(subjects: Iterable[Subject]) -> int:
    return min(subject.since_ms for subject in subjects)


def _limits(report: DriftReport) -> str:
    return ", ".join(map(safe.bare, report.refused))


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
    yield from wrapped(f"  {safe.policy(row.policy)}  {row.what}: {row.wrong}", width=width, style=style, indent="    ")
    yield from wrapped(f"      since {phrases.at(row.since_ms)}; next: {safe.prose(row.next_step)}", width=width)


def _more_text(subjects: tuple[Subject, ...]) -> Iterator[Text]:
    if left := _left_out(subjects):
        yield line(f"  and {left:,} more (-o json lists them all)")


def _rows_markdown(subjects: tuple[Subject, ...]) -> list[str]:
    rows = [
        f"- {safe.markdown_code(row.what)}: **{safe.markdown_prose(row.wrong)}**\n"
        f"  - since {phrases.at(row.since_ms)}, against {safe.markdown_code(safe.policy(row.policy))}\n"
        f"  - next: {safe.markdown_prose(row.next_step)}"
        for row in itertools.islice(_rows(subjects), ROWS_MAX)
    ]
    if left := _left_out(subjects):
        rows.append(f"- and {left:,} more")
    return ["\n".join(rows)]
