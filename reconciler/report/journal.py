"""Builds the report of a journal: when, who, what was meant to happen and what became of it, oldest first."""

from collections.abc import Sequence

from reconciler.journal.entry import Event, JournalEntry
from reconciler.model.names import format_address
from reconciler.model.outcome import Status
from reconciler.report.tree import Item, Items, Report, Section, Severity
from reconciler.text import formatting
from reconciler.text.phrase import Phrase, escaped_name, join, name, sentence

_SEVERITY = {Status.FAILED: Severity.ERROR, Status.STALE: Severity.WARNING, Status.APPLIED: Severity.GOOD}


def journal_report(entries: Sequence[JournalEntry]) -> Report:
    """One item for each entry."""
    return Report(sections=(Section(items=Items(entries, _item)),))


def _item(entry: JournalEntry) -> Item:
    event = _intent(entry) if entry.event is Event.INTENT else _outcome(entry)
    head = (f"{formatting.format_time(entry.at_ms)}  ", escaped_name(format_address(entry.address)), "  ")
    severity = Severity.QUIET if entry.event is Event.INTENT else Severity.PLAIN
    if entry.event is Event.OUTCOME and entry.status:
        severity = _SEVERITY.get(entry.status, severity)
    return Item(text=(*head, *event, ", run ", name(entry.run_id)), severity=severity)


def _intent(entry: JournalEntry) -> Phrase:
    request = join(
        ", ",
        *((f"{key} ", str(value) if isinstance(value, int) else name(value)) for key, value in entry.request.items()),
    )
    author: Phrase = (" by ", sentence(entry.who)) if entry.who else ()
    commit: Phrase = (" from ", name(entry.commit[:7])) if entry.commit else ()
    return (f"intent: {entry.operation} (", *request, ")", *author, *commit)


def _outcome(entry: JournalEntry) -> Phrase:
    words = [word for word in (entry.detail, entry.code, entry.read_back) if word and word != "NONE"]
    detail = join("; ", *((sentence(word),) for word in words))
    return (entry.status or "outcome", *((": ", *detail) if detail else ()))
