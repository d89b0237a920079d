"""The journal for people: one line per intent and per outcome, oldest first, every name made harmless."""

from collections.abc import Iterable, Iterator

from rich.text import Text

from reconciler.model.entry import Entry, Event
from reconciler.plan.render import phrases, safe
from reconciler.plan.render.wrap import line, wrapped


def journal_text(entries: Iterable[Entry], *, width: int | None = None) -> Iterator[Text]:
    """Lines `when  who  run  intends|status  address  (details)`; one saying so where there are none."""
    told = 0
    for entry in entries:
        told += 1
        yield from wrapped(_row(entry), width=width)
    if not told:
        yield line("Nothing is in the journal.")


def _row(entry: Entry) -> str:
    who = safe.prose(entry.author.who or "unknown")
    head = f"{phrases.at(entry.at_ms)}  {who}  run {entry.run_id}"
    request = ", ".join(f"{name} {safe.prose(str(value))}" for name, value in entry.request)
    if entry.event is Event.INTENT:
        return f"{head}  intends {entry.operation} {safe.subject(entry.address)} ({request})"
    words = [entry.detail or "", entry.code if entry.code and entry.code != "NONE" else "", entry.read_back or ""]
    told = "; ".join(safe.prose(word) for word in words if word)
    status = entry.status.value if entry.status else "ended"
    return f"{head}  {status} {safe.subject(entry.address)}" + (f" — {told}" if told else "")
