"""Builds the reports of the outcomes of one apply, the worst first, and of the journal."""

from collections import Counter
from collections.abc import Iterator, Sequence

from reconciler.journal.entry import Event, JournalEntry
from reconciler.journal.review import ReviewedTree
from reconciler.model.names import format_address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.report.tree import Item, Items, Report, Section, Severity, fold_equal, format_subjects, group_equal
from reconciler.text import formatting
from reconciler.text.phrase import Phrase, escaped_name, join, name, sentence, strong

_AGAIN = "apply the same plan again: what is done is not done twice"
_STATUSES: dict[Status, tuple[str, Severity, str]] = {
    Status.FAILED: ("FAILED", Severity.ERROR, f"read the broker's answer, correct the cause, then {_AGAIN}"),
    Status.NOT_ATTEMPTED: ("Not attempted", Severity.ERROR, f"before the plan expires, {_AGAIN}"),
    Status.BLOCKED: ("Blocked", Severity.WARNING, "it is protected or never removed: change the manifests or leave it"),
    Status.STALE: ("Stale", Severity.WARNING, "the cluster changed since the plan: plan again and review the rest"),
    Status.DEFERRED: (
        "Deferred",
        Severity.PLAIN,
        "another run of the same plan does these, with the other --operations",
    ),
    Status.WAITING: ("Waiting", Severity.PLAIN, "nothing to do; a later plan shows the subject again"),
    Status.SATISFIED: ("Satisfied", Severity.PLAIN, ""),
    Status.APPLIED: ("Applied", Severity.GOOD, ""),
}
"""Label, severity and next step of each status, the worst first."""
_RANK = {status: rank for rank, status in enumerate(_STATUSES)}


def results_report(plan: Plan, outcomes: Sequence[Outcome]) -> Report:
    """The report of what became of `plan`. Over 20 equal outcomes of a topic are one item."""
    tally = Counter(outcome.status for outcome in outcomes)
    present = {status: row for status, row in _STATUSES.items() if tally[status]}
    counts = {status: f"{tally[status]:,} {label.lower()}" for status, (label, _, _) in present.items()}
    undone = [counts[status] for status, (_, _, step) in present.items() if step]
    headline = ", ".join(undone) or ("everything is done" if present else "nothing to do")
    removed = sum(outcome.removed_max for outcome in outcomes)
    loss = f"; at most {formatting.count(removed, 'record')} removed" if removed else ""
    return Report(
        title=f"apply on {plan.cluster}",
        headline=(name(plan.cluster), f": {headline}"),
        opening=(("Cluster ", name(plan.cluster), " (", name(plan.cluster_id), ")"),),
        summary=(
            strong("Result:"),
            f" {', '.join(reversed(counts.values())) or 'nothing to do'}{loss}.",
        ),
        sections=(Section(items=tuple(_items(outcomes)), severity=Severity.ERROR),),
        next_steps=tuple((f"{label.lower()}: {step}",) for label, _, step in present.values() if step),
        remainder=("in the results file of the run's artifact",),
    )


def _items(outcomes: Sequence[Outcome]) -> Iterator[Item]:
    ordered = sorted(outcomes, key=lambda outcome: (_RANK[outcome.status], outcome.action.address))
    for of_topic in fold_equal(ordered, lambda o: (o.status, o.action.address.policy_address, o.action.address.name)):
        yield from map(_item, group_equal(of_topic, lambda outcome: (outcome.code, _shared_detail(outcome))))


def _shared_detail(outcome: Outcome) -> str:
    """Return what equal outcomes have in common; the details of applied ones are no news."""
    return "" if outcome.status is Status.APPLIED else outcome.detail


def _item(same: Sequence[Outcome]) -> Item:
    first = same[0]
    if len(same) == 1:
        detail, effect = first.detail, f"now {first.read_back}" if first.read_back else ""
    else:
        detail, removed = _shared_detail(first), sum(outcome.removed_max for outcome in same)
        effect = f"at most {formatting.count(removed, 'record')} removed" if removed else ""
    text = "; ".join(filter(None, (detail, first.code if first.code != "NONE" else "", effect)))
    label, severity, _step = _STATUSES[first.status]
    subject = format_subjects([outcome.action.address for outcome in same])
    return Item(label=label, subject=subject, text=(sentence(text),) if text else (), severity=severity)


def journal_report(entries: Sequence[JournalEntry | ReviewedTree]) -> Report:
    """The report of a journal: its intents, outcomes and reviewed trees, the oldest first."""
    return Report(sections=(Section(items=Items.of(entries, _entry_item)),))


def _entry_item(entry: JournalEntry | ReviewedTree) -> Item:
    if isinstance(entry, ReviewedTree):
        reviewed: Phrase = ("reviewed manifests, tree ", name(entry.tree), *_origin(entry))
        again = f", first stored {formatting.format_time(entry.reviewed_at_ms)}"
        head: Phrase = (f"{formatting.format_time(entry.at_ms)}  ",)
        ending = again if entry.reviewed_at_ms != entry.at_ms else ""
        return Item(text=(*head, *reviewed, ending, ", run ", name(entry.run_id)), severity=Severity.QUIET)
    if entry.event is Event.INTENT:
        severity = Severity.QUIET
        values = [(f"{key} ", name(str(value))) for key, value in entry.request.items()]
        event: Phrase = (f"intent: {entry.operation} (", *join(", ", *values), ")", *_origin(entry))
    else:
        severity = _STATUSES[entry.status][1] if entry.status else Severity.PLAIN
        words = [word for word in (entry.detail, entry.code, entry.read_back) if word and word != "NONE"]
        event = join(": ", (entry.status or "outcome",), join("; ", *((sentence(word),) for word in words)))
    head = (f"{formatting.format_time(entry.at_ms)}  ", escaped_name(format_address(entry.address)), "  ")
    return Item(text=(*head, *event, ", run ", name(entry.run_id)), severity=severity)


def _origin(entry: JournalEntry | ReviewedTree) -> Phrase:
    """Return author, commit, approver and CI run, as far as the entry has them."""
    author: Phrase = (" by ", sentence(entry.who)) if entry.who else ()
    commit: Phrase = (" from ", name(entry.commit[:7])) if entry.commit else ()
    approver: Phrase = (", approved by ", sentence(entry.approver)) if entry.approver else ()
    page: Phrase = (", see ", name(entry.run_url)) if entry.run_url else ()
    return (*author, *commit, *approver, *page)


def severity_of(status: Status) -> Severity:
    """Return what an outcome of this status means to its reader."""
    return _STATUSES[status][1]
