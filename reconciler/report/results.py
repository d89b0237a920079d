"""Builds the reports of the outcomes of one apply, the worst first, and of the journal."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from reconciler import operations
from reconciler.apply.results import DRY_RUN, ResultRow, ResultsHeader, as_row, may_have_written
from reconciler.journal.cloud_events import dump_event
from reconciler.journal.entry import Event, JournalEntry, dump
from reconciler.journal.release import Approval, Release, ReviewedTree
from reconciler.model.names import Address, format_address, format_subject
from reconciler.model.outcome import Outcome, Status
from reconciler.operations.base import Operation
from reconciler.operations.restore_offset import RestoreOffset
from reconciler.policies.cluster import Cluster
from reconciler.report.document import JOURNAL, RESULTS, Document, Outputs, Rendered
from reconciler.report.plan import count_subjects, format_counts, plan_command
from reconciler.report.tree import (
    Item,
    Items,
    Report,
    Section,
    Severity,
    cause_of,
    caveat_items,
    fold_causes,
    format_subjects,
    group_equal,
)
from reconciler.text import formatting
from reconciler.text.escape import NEXT
from reconciler.text.phrase import Phrase, Span, escaped_name, given, join, name, sentence, strong

_CAUSES_MAX = 20
"""Causes of one status that have an item each: what went wrong is read in full."""
_AGAIN = "run the same command again: finished actions are skipped"
_STATUSES: dict[Status | None, tuple[str, Severity, str]] = {
    Status.FAILED: ("FAILED", Severity.ERROR, f"read the broker's answer, correct the cause, then {_AGAIN}"),
    None: ("Without an outcome", Severity.WARNING, ""),
    Status.NOT_ATTEMPTED: ("Not attempted", Severity.ERROR, f"{_AGAIN}; once the plan has expired, plan again"),
    Status.BLOCKED: (
        "Blocked",
        Severity.WARNING,
        "the manifests or the cluster do not allow it now, as the reason says: correct that, or plan again",
    ),
    Status.STALE: ("Stale", Severity.WARNING, "the cluster or a policy changed: plan again and review the rest"),
    Status.DEFERRED: (
        "Deferred",
        Severity.PLAIN,
        "another run of the same plan does these, with the other --operations",
    ),
    Status.WAITING: ("Waiting", Severity.PLAIN, "nothing to do; a later plan shows the subject again"),
    Status.SATISFIED: ("Satisfied", Severity.PLAIN, ""),
    Status.APPLIED: ("Applied", Severity.GOOD, ""),
}
"""Label, severity and next step of each status, the worst first. None: a journal has only the intent, so far."""
_OPERATIONS: Mapping[str, type[Operation] | type[RestoreOffset]] = {
    RestoreOffset.OPERATION: RestoreOffset,
    **{operation.OPERATION: operation for operation in reversed(operations.OPERATIONS)},
}
"""By name, in the order of counts; a row of another version may have another name."""
_DIGEST = re.compile("(restore of )?sha256:[0-9a-f]{1,64}")
_RANK = {status: rank for rank, status in enumerate(_STATUSES)}


def results_document(
    header: ResultsHeader,
    outcomes: Sequence[Outcome | ResultRow],
    json: Callable[[], Rendered],
    *,
    paths: Iterable[Path] = (),
) -> Document:
    """Return the document of a run or of its results file. `json`: writes the file.

    `paths`: of the manifests, for the command that a person types at a terminal.
    """
    rows, typed = list(map(as_row, outcomes)), tuple(map(str, paths))
    return Document(
        kind=RESULTS,
        trees=lambda view: [
            results_report(header, rows, with_run=not view.at_terminal, paths=typed if view.at_terminal else ())
        ],
        values=rows,
        writers={"json": json},
        outputs=lambda: _outputs(header, rows),
    )


def _outputs(header: ResultsHeader, rows: Sequence[ResultRow]) -> Outputs:
    """Return the outputs of an apply. `undone`: failed, not attempted, blocked or stale."""
    tally = Counter(row.status for row in rows)
    return {
        "digest": header.plan_digest,
        "applied": tally[Status.APPLIED],
        "failed": tally[Status.FAILED],
        "undone": sum(tally[s] for s in (Status.FAILED, Status.NOT_ATTEMPTED, Status.BLOCKED, Status.STALE)),
        "records_removed": sum(row.removed_max for row in rows),
        "refused": len(header.refused),
    }


def results_report(
    header: ResultsHeader,
    outcomes: Sequence[Outcome | ResultRow],
    *,
    with_run: bool = False,
    paths: Iterable[str] = (),
) -> Report:
    """The report of what became of a plan: what was not done by cause, the rest as counts.

    `with_run`: it says which run this was, and by whom, as a page in an archive has to. `paths`: as in
    `results_document`; empty: the default folder.
    """
    rows = list(map(as_row, outcomes))
    counts = _count_statuses(row.status for row in rows)
    undone = [status for status in counts if _STATUSES[status][2]]
    blocked = format_counts(header.blocked or {})
    not_asked = f"; blocked in the plan: {blocked}" if blocked else ""
    done = "every action is done" if counts else "no actions" if blocked else "nothing to do"
    headline = ", ".join(counts[status] for status in undone) or done
    command = plan_command("--cluster", header.cluster, *paths)
    duration_ms = header.finished_at_ms - header.started_at_ms  # at most 0 where the clock was set back
    took = f"; took {formatting.approximate_duration(duration_ms)}" if duration_ms > 0 else ""
    return Report(
        title=f"apply on {header.cluster}",
        headline=(name(header.cluster), f": {headline}{not_asked}"),
        opening=("Cluster ", name(header.cluster), " (", name(header.cluster_id), ")"),
        summary=(
            strong("Result:"),
            f" {', '.join(reversed(counts.values())) or 'nothing to do'}{_loss(rows)}{took}{not_asked}.",
        ),
        sections=(Section(items=tuple(_items(rows)), severity=Severity.ERROR),),
        next_steps=(
            *(_next_step(status, rows) for status in undone),
            *([("blocked in the plan: ", command, " says why, and what to do")] * bool(blocked)),
        ),
        footer=(_run_line(header),) if with_run else (),
        remainder=("in the results file of the run's artifact",),
    )


def _count_statuses(statuses: Iterable[Status | None]) -> dict[Status | None, str]:
    """Return the statuses that there are, the worst first, and how many in words: `2 failed`."""
    tally = Counter(statuses)
    return {status: f"{tally[status]:,} {_STATUSES[status][0].lower()}" for status in _STATUSES if tally[status]}


def _loss(rows: Sequence[ResultRow]) -> str:
    """Return what was removed at most, and how much of it other runs of the plan count, too."""
    removed = sum(row.removed_max for row in rows)
    shared = [row for row in rows if row.also_counted_by]
    runs = ", ".join(sorted({run for row in shared for run in row.also_counted_by}))
    twice = f", of which run {runs} of the same plan counts up to {sum(row.removed_max for row in shared):,}, too"
    return f"; at most {formatting.count(removed, 'record')} removed{twice if shared else ''}" if removed else ""


def _run_line(header: ResultsHeader) -> Phrase:
    """Return run, author, commit and plan of a results file."""
    ended = f", ended {formatting.format_time(header.finished_at_ms)}"
    commit = given(", commit ", (header.commit or "")[:7], name)
    run = ("Run ", name(header.run_id), *given(" by ", header.who), ended)
    return (*run, *commit, ", plan ", _digest(header.plan_digest))


def _items(outcomes: Sequence[ResultRow]) -> Iterator[Item]:
    """Yield the outcomes that are news, the worst first, then counts of those that are as planned."""
    as_planned: defaultdict[tuple[Status, str], list[Address]] = defaultdict(list)
    news = []
    for outcome in outcomes:
        if _is_as_planned(outcome):
            as_planned[outcome.status, outcome.operation].append(outcome.address)
        else:
            news.append(outcome)
    news.sort(key=lambda outcome: (_RANK[outcome.status], outcome.address))
    yield from map(_item, fold_causes(news, _cause, at_most=_CAUSES_MAX))
    written = (outcome for outcome in outcomes if may_have_written(outcome) and outcome.caveat)
    yield from caveat_items((outcome.address, outcome.caveat) for outcome in written)
    for status, ending in ((Status.SATISFIED, " as desired already"), (Status.APPLIED, "")):
        counts = [
            operation.count_effects(same) if status is Status.APPLIED else count_subjects(same)
            for operation in _OPERATIONS.values()
            if (same := as_planned.get((status, operation.OPERATION)))
        ]
        if counts:
            label, severity, _step = _STATUSES[status]
            yield Item(label=label, text=(f"{'; '.join(counts)}{ending}",), severity=severity)


def _cause(row: ResultRow) -> tuple[Hashable, Hashable]:
    """Return status, operation and code, and the reason. What was not attempted has one cause, such as a silent broker."""
    operation = "" if row.status is Status.NOT_ATTEMPTED else row.operation
    return (row.status, operation, row.code), cause_of(row.detail, row.address)


def _is_as_planned(outcome: ResultRow) -> bool:
    """Whether the outcome says no more than its status: of a success, the operation's usual words."""
    operation = _OPERATIONS.get(outcome.operation)
    usual = {} if operation is None else {Status.APPLIED: operation.APPLIED, Status.SATISFIED: operation.SATISFIED}
    return outcome.status in usual and outcome.detail in ("", usual[outcome.status])


def _item(same: Sequence[ResultRow]) -> Item:
    """The item of one outcome, or of many of one cause."""
    first = same[0]
    example: Phrase = ()
    if len(same) == 1:
        effect = f"now {first.read_back}" if first.read_back else ""
    else:
        removed = sum(outcome.removed_max for outcome in same)
        effect = f"at most {formatting.count(removed, 'record')} removed" if removed else ""
        if any(outcome.detail != first.detail for outcome in same):
            example = (", such as ", escaped_name(format_subject(first.address)))
    detail = first.detail if first.status is not Status.NOT_ATTEMPTED else first.detail.partition(NEXT)[0]
    label, severity, _step = _STATUSES[first.status]
    subject = (*format_subjects([outcome.address for outcome in same]), *example)
    return Item(label=label, subject=subject, text=_said(detail, first.code, effect), severity=severity)


def _next_step(status: Status | None, rows: Sequence[ResultRow]) -> Phrase:
    """Return what to do about the rows of a status. What causes of not attempted ones advise comes first, once."""
    label, _severity, step = _STATUSES[status]
    details = [row.detail for row in rows if row.status is status is Status.NOT_ATTEMPTED]
    texts = dict.fromkeys(detail.partition(NEXT)[2] for detail in details)
    steps: list[Phrase] = [(sentence(advice),) for advice in texts if advice]
    if {*details} != {DRY_RUN}:  # the same dry run again would send nothing either
        steps.append((step,))
    return (f"{label.lower()}: ", *join("; then, ", *steps))


def journal_document(entries: Sequence[JournalEntry | Approval], cluster: Cluster, *, full: bool = False) -> Document:
    """Return the document of the entries of a journal. `full`: as in `journal_report`."""
    return Document(
        kind=JOURNAL,
        trees=lambda _view: [journal_report(entries, cluster.metadata.name, full=full)],
        writers={
            "json": lambda: (f"{dump(entry)}\n" for entry in entries),
            "cloudevents": lambda: (f"{dump_event(entry, cluster.spec.cluster_id)}\n" for entry in entries),
        },
    )


def journal_report(entries: Sequence[JournalEntry | Approval], cluster: str, *, full: bool = False) -> Report:
    """The report of a journal: its runs, the oldest first, with what became of each policy, the worst first.

    `full`: every intent, outcome and release, in the order of the journal.
    """
    if not entries:
        return Report()
    runs = list(group_equal(entries, lambda entry: entry.run_id))
    since = formatting.format_time(entries[0].at_ms)
    ended = "; ".join(filter(None, (f"{formatting.count(len(runs), 'run')} since {since}", _counts(entries))))
    return Report(
        headline=("Journal of ", name(cluster), f": {ended}"),
        sections=tuple(
            Section(
                heading=_run_heading(run),
                items=Items.of(run, _entry_item) if full else tuple(_run_items(run)),
                labelled=False,
            )
            for run in runs
        ),
        remainder=("with ", escaped_name("reconciler journal --full")),
    )


def _ends(entries: Iterable[JournalEntry | Approval]) -> list[JournalEntry]:
    """Return the last entry of each action of each run: its outcome, or an intent that has none."""
    last: dict[Hashable, JournalEntry] = {}
    for entry in entries:
        if isinstance(entry, JournalEntry):
            part = entry.request.get("topic"), entry.request.get("partition")  # all offsets of a group have its address
            last[entry.run_id, entry.address, part] = entry
    return list(last.values())


def _counts(entries: Iterable[JournalEntry | Approval]) -> str:
    """`2 failed, 1 without an outcome, 236 applied`: the worst first."""
    return ", ".join(_count_statuses(map(_status, _ends(entries))).values())


def _status(entry: JournalEntry) -> Status | None:
    """Return what became of an action; None: that is not known, since an intent is the last that was stored."""
    return entry.status if entry.event is Event.OUTCOME else None


def _run_items(entries: Sequence[JournalEntry | Approval]) -> Iterator[Item]:
    """Yield the releases of a run, and one item for each policy, with an example of what went wrong."""
    yield from (_entry_item(entry) for entry in entries if not isinstance(entry, JournalEntry))
    policies = group_equal(_ends(entries), lambda entry: entry.address.policy_address)
    for same in sorted((sorted(same, key=_rank) for same in policies), key=lambda same: _rank(same[0])):
        worst, status = same[0], _status(same[0])
        operation = _OPERATIONS.get(worst.operation) if status is Status.APPLIED else None
        text = [operation.count_effects([entry.address for entry in same]) if operation else _counts(same)]
        if removed := sum(entry.removed_max or 0 for entry in same):
            text.append(f"at most {formatting.count(removed, 'record')} removed")
        example: Phrase = ()
        if status not in (Status.APPLIED, Status.SATISFIED):
            words = _said(worst.detail, worst.code)
            example = join(": ", ("such as ", escaped_name(format_subject(worst.address))), words)
        yield Item(
            subject=(escaped_name(format_address(worst.address.policy_address)),),
            text=join(", ", (", ".join(text),), example),
            severity=_STATUSES[status][1],
        )


def _rank(entry: JournalEntry) -> int:
    return _RANK[_status(entry)]


def _said(*words: str | None) -> Phrase:
    """Return what a broker and this program said, as one sentence; empty: nothing."""
    text = "; ".join(word for word in words if word and word != "NONE")
    return (sentence(text),) if text else ()


def _run_heading(entries: Sequence[JournalEntry | Approval]) -> Phrase:
    """Return id, time, plan, counts and author of a run."""
    first, actions = entries[0], [entry for entry in entries if isinstance(entry, JournalEntry)]
    parts: list[Phrase] = [(formatting.format_time(first.at_ms),)]
    digests = dict.fromkeys(entry.plan_digest for entry in actions)
    parts += [("" if digest.startswith("restore") else "plan ", _digest(digest)) for digest in digests]
    if actions:
        parts.append((_counts(actions),))
    origin = next(filter(None, map(_origin, entries)), ())
    return ("Run ", name(first.run_id), ": ", *join(", ", *parts), *origin)


def _digest(text: str) -> Span:
    """Return a digest without the quotes that its colon would need."""
    return escaped_name(text) if _DIGEST.fullmatch(text) else name(text)


def _entry_item(entry: JournalEntry | Approval) -> Item:
    head: Phrase = (f"  {formatting.format_time(entry.at_ms)}  ",)
    if isinstance(entry, Release):
        again = f", first at {formatting.format_time(entry.released_at_ms)}"
        ending = again if entry.released_at_ms != entry.at_ms else ""
        return Item(text=(*head, "released manifests ", _digest(entry.manifests), ending), severity=Severity.QUIET)
    if isinstance(entry, ReviewedTree):
        text = (*head, "reviewed manifests, tree ", name(entry.tree), ", which an earlier version released")
        return Item(text=text, severity=Severity.QUIET)
    if entry.event is Event.INTENT:
        severity = Severity.QUIET
        values = [(f"{key} ", name(str(value))) for key, value in entry.request.items()]
        event: Phrase = (f"intent: {entry.operation} (", *join(", ", *values), ")")
    else:
        severity = _STATUSES[entry.status][1] if entry.status else Severity.PLAIN
        effect = f"read back: {entry.read_back}" if entry.read_back else ""
        event = join(": ", (entry.status or "outcome",), _said(entry.detail, entry.code, effect))
    return Item(text=(*head, escaped_name(format_address(entry.address)), "  ", *event), severity=severity)


def _origin(entry: JournalEntry | Approval) -> Phrase:
    """Return author, commit, approver and CI run, as far as the entry has them."""
    author, commit = given(" by ", entry.who), given(" from ", (entry.commit or "")[:7], name)
    return (*author, *commit, *given(", approved by ", entry.approver), *given(", see ", entry.run_url, name))


def severity_of(status: Status) -> Severity:
    """Return what an outcome of this status means to its reader."""
    return _STATUSES[status][1]
