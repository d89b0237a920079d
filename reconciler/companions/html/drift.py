"""Collects the figures of reports of drift: for how long what drifts, and how each policy stands."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reconciler.companions.html import figures
from reconciler.companions.html.figures import Bar, Chart, Figures, Row, Tile
from reconciler.model.names import count_by_sort, format_address
from reconciler.plan.drift import BLOCKED, UNREAD, DriftReport, PolicyTally, Subject
from reconciler.report.plan import format_counts
from reconciler.report.tree import Severity, format_subjects, group_equal
from reconciler.text import formatting
from reconciler.text.phrase import escaped_name

_STYLES = {BLOCKED: "blocked", UNREAD: "unread"}
"""All else is what an apply would correct."""
_WORDS = {BLOCKED: "blocked", UNREAD: "not read"}
_OVERDUE_LEGEND = (
    ("changed", "an apply corrects it"),
    ("blocked", "blocked"),
    ("unread", "not read"),
    ("deleted", "records or offsets that the correction removes at most"),
)
_Line = tuple[Sequence[Subject], int, Counter[str]]
"""Subjects of one row, since how many milliseconds they drift, and what their correction removes at most."""


def drift_figures(reports: Sequence[DriftReport]) -> list[Figures]:
    """Return the pictures of each cluster's drift. Many clusters share the rows of one page."""
    rows_max = max(3, figures.ROWS_MAX // len(reports))
    return [
        Figures(
            tiles=tuple(_tiles(report)),
            charts=figures.drawn(_overdue_chart(report, rows_max), _policies_chart(report, rows_max)),
        )
        for report in reports
    ]


def _tiles(report: DriftReport) -> Iterator[Tile]:
    blocked = [subject.address for subject in report.subjects if subject.sort == BLOCKED]
    counts: dict[str, tuple[Mapping[str, int], Severity, str]] = {
        "blocked": (count_by_sort(blocked), Severity.WARNING, "drift that no apply corrects"),
        "not read": (count_by_sort(s.address for s in report.unread), Severity.WARNING, ""),
        "drift": (
            count_by_sort(s.address for s in report.subjects if s.sort != BLOCKED),
            Severity.CHANGE,
            "an apply corrects it",
        ),
        "waiting or skipped": (report.waiting or {}, Severity.QUIET, "no drift"),
        "in sync": (report.satisfied or {}, Severity.GOOD, "as desired"),
    }
    for label, (numbers, severity, detail) in counts.items():
        if any(numbers.values()):
            yield Tile(label=label, counts=numbers, severity=severity, detail=detail)


def _overdue_chart(report: DriftReport, rows_max: int) -> Chart:
    """Draw for how long what each policy has of a topic drifts, and how much that is; the longest first.

    A blocked subject has no bar of records: the plan does not hold how many a later action would remove.
    """

    # A topic of a policy is one row for each cause, and so are the groups of a policy that drift since the same time.
    def key(subject: Subject) -> Hashable:
        address = subject.address
        part = subject.since_ms if address.is_of_group else address.name
        return address.policy_address, part, subject.sort, subject.code

    def rank(line: _Line) -> Any:
        same, age_ms, amount = line
        return -age_ms, same[0].sort not in _STYLES, -amount.total(), -len(same), same[0].address

    lines = list[_Line]()
    for same in group_equal([*report.subjects, *report.unread], key):
        age_ms = max(0, report.observed_at_ms - min(subject.since_ms for subject in same))
        lines.append((same, age_ms, sum((Counter(subject.removed_max) for subject in same), Counter())))
    oldest = max((age_ms for _same, age_ms, _amount in lines), default=0)
    most = max((amount.total() for _same, _age_ms, amount in lines), default=0)

    def row(line: _Line) -> Row:
        same, age, amount = line
        style = _STYLES.get(same[0].sort, "changed")
        since = formatting.format_time(min(subject.since_ms for subject in same))
        bars = [Bar({style: age}, oldest)] if oldest else []
        if amount:
            bars.append(Bar({"deleted": amount.total()}, most))
        return Row(
            cells=(
                format_subjects([subject.address for subject in same]),
                (f"for {formatting.approximate_duration(age)}, since {since}" if age else "",),
                (f"{_WORDS[same[0].sort]} ({same[0].code})" if same[0].code else "",),
                (f"at most {format_counts(amount)} to remove" if amount else "",),
            ),
            bars=tuple(bars),
            severities=frozenset({figures.SEVERITIES[style]}),
            anchor=f"drift-{same[0].sort}-{figures.slug(str(replace(same[0].address, partition=-1)))}",
            note=(escaped_name(format_address(same[0].address.policy_address)),),
        )

    return figures.cut_chart(
        sorted(lines, key=rank),
        row,
        "lines",
        lambda rest: {
            "partitions and groups": sum(len(same) for same, _age_ms, _amount in rest),
            "records or offsets to remove at most": sum(amount.total() for _same, _age_ms, amount in rest),
        },
        rows_max=rows_max,
        anchor="overdue",
        heading="What drifts, for how long, and how much of it",
        intro="One bar for the time since the first report, one for what the correction removes." if oldest else "",
        legend=_OVERDUE_LEGEND if oldest or most else (),
    )


def _policies_chart(report: DriftReport, rows_max: int) -> Chart:
    fields = ("drift", "unread", "pending", "waiting", "skipped", "satisfied")
    blocked = Counter(s.address.policy_address for s in report.subjects if s.sort == BLOCKED)

    def row(tally: PolicyTally) -> Row:
        number = min(blocked[tally.policy], tally.drift)
        segments = {
            "blocked": number,
            "unread": tally.unread,
            "changed": tally.drift - number,
            "waiting": tally.pending + tally.waiting + tally.skipped,
            "good": tally.satisfied,
        }
        counts = {state: getattr(tally, state) for state in fields} | {"of the drift blocked": number}
        return Row(
            cells=((escaped_name(format_address(tally.policy)),), (figures.format_tally(counts) or "selects nothing",)),
            bars=(Bar(segments, sum(segments.values())),),
            severities=frozenset(figures.SEVERITIES[style] for style, number in segments.items() if number),
            anchor=f"policy-{figures.slug(str(tally.policy))}",
        )

    return figures.cut_chart(
        sorted(report.tallies, key=lambda tally: (-blocked[tally.policy], -tally.unread, -tally.drift, tally.policy)),
        row,
        "policies",
        lambda rest: {state: sum(getattr(tally, state) for tally in rest) for state in fields},
        rows_max=rows_max,
        anchor="policies",
        heading="By policy",
        legend=(
            ("blocked", "blocked"),
            ("unread", "not read"),
            ("changed", "an apply corrects it"),
            ("waiting", "waiting or skipped"),
            ("good", "in sync"),
        ),
    )
