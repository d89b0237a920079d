"""The journal's entries as text: when, who, what was meant to happen and what became of it, oldest first."""

from collections.abc import Iterable, Iterator

from rich.text import Text

from reconciler.journal.entry import Event, JournalEntry
from reconciler.model.outcome import Status
from reconciler.report import escape
from reconciler.report.wrap import wrapped
from reconciler.text import formatting

_STYLE = {Status.FAILED: "bold red", Status.STALE: "yellow", Status.APPLIED: "green"}


def journal_text(entries: Iterable[JournalEntry], *, width: int | None = None) -> Iterator[Text]:
    """One line per entry."""
    for entry in entries:
        asked = ", ".join(f"{name} {_value(value)}" for name, value in entry.request.items())
        head = f"{formatting.format_time(entry.at_ms)}  {escape.format_address(entry.address)}"
        if entry.event is Event.INTENT:
            author = f" by {escape.escape_sentence(entry.who)}" if entry.who else ""
            commit = f" from {escape.display_name(entry.commit[:7])}" if entry.commit else ""
            told, style = (
                f"intent: {entry.operation} ({asked}){author}{commit}, run {escape.display_name(entry.run_id)}",
                "dim",
            )
        else:
            words = [word for word in (entry.detail, entry.code, entry.read_back) if word and word != "NONE"]
            detail = f": {'; '.join(map(escape.escape_sentence, words))}" if words else ""
            told, style = f"{entry.status or 'outcome'}{detail}, run {escape.display_name(entry.run_id)}", ""
            style = _STYLE.get(entry.status, "") if entry.status else ""
        yield from wrapped(f"{head}  {told}", width=width, style=style)


def _value(value: str | int) -> str:
    return str(value) if isinstance(value, int) else escape.display_name(value)
