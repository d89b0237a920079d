"""Builds the report of an apply: what became of each action, the worst first, and what to do next."""

from collections import Counter
from collections.abc import Sequence

from reconciler.model.names import format_subject
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.report.grouping import FOLD_ABOVE, grouped
from reconciler.report.tree import Item, Report, Section, Severity
from reconciler.text import formatting
from reconciler.text.phrase import Phrase, escaped_name, name, sentence

_AGAIN = "apply the same plan again: what is done is not done twice"
_STATUSES: dict[Status, tuple[str, Severity, str]] = {
    Status.FAILED: ("FAILED", Severity.ERROR, f"read the broker's answer, correct the cause, then {_AGAIN}"),
    Status.NOT_ATTEMPTED: ("Not attempted", Severity.ERROR, f"before the plan expires, {_AGAIN}"),
    Status.BLOCKED: (
        "Blocked",
        Severity.WARNING,
        "it is protected, or never removed: change the manifests or leave it",
    ),
    Status.STALE: ("Stale", Severity.WARNING, "the cluster changed since the plan: plan again and review the rest"),
    Status.WAITING: ("Waiting", Severity.PLAIN, "nothing to do; a later plan shows the subject again"),
    Status.SATISFIED: ("Satisfied", Severity.PLAIN, ""),
    Status.APPLIED: ("Applied", Severity.GOOD, ""),
}
"""Label, severity and next step of each status, the worst first."""
_RANK = {status: rank for rank, status in enumerate(_STATUSES)}


def results_report(plan: Plan, outcomes: Sequence[Outcome]) -> Report:
    """The report of what became of `plan`. More than 20 outcomes of one topic that are alike are one item."""
    number = Counter(outcome.status for outcome in outcomes)
    present = {status: number[status] for status in _STATUSES if number[status]}
    counts = [f"{number:,} {_STATUSES[status][0].lower()}" for status, number in reversed(present.items())]
    removed = sum(outcome.removed_max for outcome in outcomes)
    totals = ", ".join(counts) or "nothing to do"
    totals += f"; at most {formatting.count(removed, 'record')} removed." if removed else "."
    steps = [
        (f"{label.lower()}: {step}",)
        for status, (label, _severity, step) in _STATUSES.items()
        if step and status in present
    ]
    return Report(
        title=f"apply on {plan.cluster}",
        headline=(name(plan.cluster), f": {_headline(present)}"),
        opening=(("Cluster ", name(plan.cluster), " (", name(plan.cluster_id), ")"),),
        summary_label="Result",
        summary=(totals,),
        sections=(Section(items=tuple(_items(outcomes)), severity=Severity.ERROR, labelled=False),),
        next_steps=tuple(steps),
        remainder=("The results file holds every outcome.",),
    )


def _headline(present: dict[Status, int]) -> str:
    worst = [f"{number:,} {_STATUSES[status][0].lower()}" for status, number in present.items() if _STATUSES[status][2]]
    return ", ".join(worst) or ("everything is done" if present else "nothing to do")


def _items(outcomes: Sequence[Outcome]) -> list[Item]:
    items: list[Item] = []
    ordered = sorted(outcomes, key=lambda outcome: (_RANK[outcome.status], outcome.action.address))
    for of_topic in grouped(ordered, lambda o: (o.status, o.action.address.policy_address, o.action.address.name)):
        if len(of_topic) > FOLD_ABOVE:
            items += map(_item, grouped(of_topic, _ending))
        else:
            items += [_item([outcome]) for outcome in of_topic]
    return items


def _ending(outcome: Outcome) -> tuple[str | None, str]:
    return outcome.code, outcome.detail if outcome.status is not Status.APPLIED else ""


def _item(same: Sequence[Outcome]) -> Item:
    first, folded = same[0], len(same) > 1
    subject: Phrase = (escaped_name(format_subject(first.action.address)),)
    words = [] if folded and first.status is Status.APPLIED else [first.detail]
    words.append(first.code if first.code and first.code != "NONE" else "")
    if folded:
        subject = (f"{formatting.count(len(same), 'partition')} of ", name(first.action.address.name))
        removed = sum(outcome.removed_max for outcome in same)
        words.append(f"at most {formatting.count(removed, 'record')} removed" if removed else "")
    else:
        words.append(f"now {first.read_back}" if first.read_back else "")
    label, severity, _step = _STATUSES[first.status]
    text = "; ".join(filter(None, words))
    return Item(label=label, subject=subject, text=(sentence(text),) if text else (), severity=severity)
