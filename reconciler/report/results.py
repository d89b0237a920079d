"""What became of a plan, for people: counted, what went wrong first, and what to do next. results.json is apply's own."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.report import escape
from reconciler.report.annotations import MAX_OF_A_SORT, annotation
from reconciler.report.grouping import FOLD_ABOVE
from reconciler.report.truncate import LIMIT_CHARS, LineLimit
from reconciler.report.wrap import line, wrapped
from reconciler.text import formatting

_WORST_FIRST = (
    Status.FAILED,
    Status.NOT_ATTEMPTED,
    Status.BLOCKED,
    Status.STALE,
    Status.WAITING,
    Status.SATISFIED,
    Status.APPLIED,
)
_WORD = {
    Status.FAILED: "FAILED",
    Status.NOT_ATTEMPTED: "Not attempted",
    Status.BLOCKED: "Blocked",
    Status.STALE: "Stale",
    Status.WAITING: "Waiting",
    Status.SATISFIED: "Satisfied",
    Status.APPLIED: "Applied",
}
_STYLE = {
    Status.FAILED: "bold red",
    Status.NOT_ATTEMPTED: "bold magenta",
    Status.BLOCKED: "bold magenta",
    Status.STALE: "yellow",
    Status.APPLIED: "green",
}
_NEXT = {
    Status.FAILED: "read the broker's answer, mend the cause, then apply the same plan again: what is done is not done twice",
    Status.NOT_ATTEMPTED: "apply the same plan again before it expires: what is done is not done twice",
    Status.BLOCKED: "it is protected by now, or never removed: change the manifests, or leave it",
    Status.STALE: "the cluster moved since the plan: plan again and review what is left",
    Status.WAITING: "nothing; a later plan will show it again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Outcomes of one status with the same words: one, or many partitions of one topic."""

    status: Status
    where: str
    detail: str


def results_text(plan: Plan, outcomes: Sequence[Outcome], *, width: int | None = None) -> Iterator[Text]:
    """Lines: one per outcome, folded above 20 of one topic that ended alike; totals; what to do next."""
    yield from wrapped(
        f"Cluster {escape.display_name(plan.cluster)} ({escape.display_name(plan.cluster_id)})",
        width=width,
        style="bold",
    )
    yield line("")
    for group in _groups(outcomes):
        yield from wrapped(f"  {_row(group)}", width=width, style=_STYLE.get(group.status, ""))
    if outcomes:
        yield line("")
    yield from wrapped(f"Result: {_totals(outcomes)}", width=width, style="bold")
    for advice in _advice(outcomes):
        yield from wrapped(f"Next: {advice}", width=width)


def results_markdown(plan: Plan, outcomes: Sequence[Outcome], *, limit_chars: int = LIMIT_CHARS) -> str:
    """The same as Markdown, for a job summary."""
    head = [f"### {escape.markdown_code(escape.display_name(plan.cluster))}: {_totals(outcomes)}", ""]
    foot = ["", *(f"**Next:** {advice}" for advice in _advice(outcomes))]
    budget = LineLimit(limit_chars - sum(len(row) + 1 for row in (*head, *foot)) - 200)
    body = budget.take(
        f"- **{_WORD[group.status]}** {escape.markdown_code(group.where)}{': ' if group.detail else ''}"
        f"{escape.markdown_prose(group.detail) if group.detail else ''}"
        for group in _groups(outcomes)
    )
    if budget.cut:
        body += ["", "**Cut here:** the results file holds every outcome."]
    return "\n".join([*head, *body, *foot]) + "\n"


def results_github(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    """Workflow commands: failures and what was not attempted as errors, stale and blocked as warnings, totals as a notice."""
    rows = []
    for level, statuses in (
        ("error", (Status.FAILED, Status.NOT_ATTEMPTED)),
        ("warning", (Status.BLOCKED, Status.STALE)),
    ):
        found = [group for group in _groups(outcomes) if group.status in statuses]
        rows += [
            annotation(level, f"{group.where}: {escape.escape_sentence(group.detail)}", title=_WORD[group.status])
            for group in found[:MAX_OF_A_SORT]
        ]
        if len(found) > MAX_OF_A_SORT:
            left = f"{len(found) - MAX_OF_A_SORT:,} more ended like these; the results list them"
            rows.append(annotation(level, left, title="more"))
    rows.append(annotation("notice", _totals(outcomes), title=f"apply on {plan.cluster}"))
    return "".join(f"{row}\n" for row in rows)


def _groups(outcomes: Iterable[Outcome]) -> Iterator[_Group]:
    rank = {status: number for number, status in enumerate(_WORST_FIRST)}

    def key(outcome: Outcome) -> tuple[int, str, str, str, int]:
        address = outcome.action.address
        return (rank[outcome.status], address.kind, address.policy, address.name, address.partition)

    ordered = sorted(outcomes, key=key)
    for _topic, found in groupby(ordered, key=lambda outcome: key(outcome)[:4]):
        members = list(found)
        if len(members) > FOLD_ABOVE:
            by_detail: dict[tuple[str | None, str], list[Outcome]] = {}
            for member in members:
                by_detail.setdefault(
                    (member.code, member.detail if member.status is not Status.APPLIED else ""), []
                ).append(member)
            for same in by_detail.values():
                yield _folded(same)
        else:
            for member in members:
                yield _single(member)


def _single(outcome: Outcome) -> _Group:
    words = [outcome.detail] if outcome.detail else []
    if outcome.code and outcome.code != "NONE":
        words.append(outcome.code)
    if outcome.read_back:
        words.append(f"now {outcome.read_back}")
    return _Group(status=outcome.status, where=escape.subject(outcome.action.address), detail="; ".join(words))


def _folded(same: list[Outcome]) -> _Group:
    first = same[0]
    if len(same) == 1:
        return _single(first)
    name = escape.display_name(first.action.address.name)
    removed = sum(outcome.removed_max for outcome in same)
    words = [first.detail] if first.status is not Status.APPLIED and first.detail else []
    if first.code and first.code != "NONE":
        words.append(first.code)
    if removed:
        words.append(f"at most {formatting.count(removed, 'record')} removed")
    return _Group(
        status=first.status,
        where=f"{formatting.count(len(same), 'partition')} of {name}",
        detail="; ".join(words),
    )


def _row(group: _Group) -> str:
    return f"{_WORD[group.status]}: {group.where}" + (
        f" — {escape.escape_sentence(group.detail)}" if group.detail else ""
    )


def _totals(outcomes: Sequence[Outcome]) -> str:
    found = dict.fromkeys(_WORST_FIRST, 0)
    for outcome in outcomes:
        found[outcome.status] += 1
    parts = [f"{number:,} {_WORD[status].lower()}" for status, number in reversed(found.items()) if number]
    removed = sum(outcome.removed_max for outcome in outcomes)
    told = ", ".join(parts) or "nothing to do"
    return f"{told}; at most {formatting.count(removed, 'record')} removed." if removed else f"{told}."


def _advice(outcomes: Sequence[Outcome]) -> list[str]:
    present = {outcome.status for outcome in outcomes}
    return [f"{_WORD[status].lower()}: {advice}" for status, advice in _NEXT.items() if status in present]
