"""The journal's entries as text: when, who, what was meant to happen and what became of it, oldest first."""

from collections.abc import Iterable, Iterator

from rich.text import Text

from reconciler.model.entry import Entry, Event
from reconciler.model.outcome import Status
from reconciler.plan.render import phrases, safe
from reconciler.plan.render.wrap import wrapped

_STYLE = {Status.FAILED: "bold red", Status.STALE: "yellow", Status.APPLIED: "green"}


def journal_text(entries: Iterable[Entry], *, width: int | None = None) -> Iterator[Text]:
    """One line per entry."""
    for entry in entries:
        asked = ", ".join(f"{name} {_value(value)}" for name, value in entry.request)
        head = f"{phrases.at(entry.at_ms)}  {safe.whole(entry.address)}"
        if entry.event is Event.INTENT:
            author = f" by {safe.prose(entry.author.who)}" if entry.author.who else ""
            commit = f" from {safe.bare(entry.author.commit[:7])}" if entry.author.commit else ""
            told, style = f"intent: {entry.operation} ({asked}){author}{commit}, run {safe.bare(entry.run_id)}", "dim"
        else:
            words = [word for word in (entry.detail, entry.code, entry.read_back) if word and word != "NONE"]
            detail = f": {'; '.join(map(safe.prose, words))}" if words else ""
            told, style = f"{entry.status or 'outcome'}{detail}, run {safe.bare(entry.run_id)}", ""
            style = _STYLE.get(entry.status, "") if entry.status else ""
        yield from wrapped(f"{head}  {told}", width=width, style=style)


def _value(value: str | int) -> str:
    return str(value) if isinstance(value, int) else safe.bare(value)
