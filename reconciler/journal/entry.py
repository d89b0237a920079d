"""One entry of the journal and its line: an intent before a request, an outcome after it.

Where the lines are stored is decided in journal/file.py and kafka/journal_topic.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from reconciler import codec
from reconciler.errors import JournalUnavailable
from reconciler.model.action import Action
from reconciler.model.bounds import EpochMs, Total
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status

FORMAT: Literal[2] = 2


class Event(StrEnum):
    """INTENT: stored before a request is sent, once per attempt. OUTCOME: what became of the action in that run."""

    INTENT = "intent"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One event of one action. `at_ms`: epoch milliseconds. `request`: what the request asks for, as in the plan file.

    `who`: the author of the run; `commit`: of the manifests; None: not known.
    `status`, `detail`, `code`, `read_back`, `sends`, `removed_max`: of an outcome only, as in `Outcome`.
    """

    v: Literal[2] = FORMAT
    at_ms: EpochMs
    event: Event
    run_id: str = field(metadata={"name": "run"})
    plan_digest: str = field(metadata={"name": "plan"})
    address: Address
    operation: str
    request: Mapping[str, str | int]
    who: str | None = None
    commit: str | None = None
    status: Status | None = None
    detail: str | None = None
    code: str | None = None
    read_back: str | None = None
    sends: int | None = None
    removed_max: Total | None = None

    @property
    def partition(self) -> TopicPartition | None:
        """The partition of a record deletion; None for the other operations."""
        if self.operation != "delete_records":
            return None
        return TopicPartition(self.address.name, self.address.partition)


def create(event: Action | Outcome, **run: Any) -> JournalEntry:
    """Return the intent of an action that is about to be sent, or the entry of an outcome.

    `run`: the fields that are the same in all entries of one call.
    """
    ended = isinstance(event, Outcome)
    action = event.action if isinstance(event, Outcome) else event
    names = ("status", "detail", "code", "read_back", "sends", "removed_max") if ended else ()
    return JournalEntry(
        event=Event.OUTCOME if ended else Event.INTENT,
        address=action.address,
        operation=action.OPERATION,
        request=action.request(),
        **run,
        **{name: getattr(event, name) for name in names},
    )


_CODEC = codec.Codec(JournalEntry, omit_none=True)


def dump(entry: JournalEntry) -> str:
    """Return one line of ASCII JSON without its newline; what is not known is left out.

    Raises JournalUnavailable for a text that JSON cannot hold: without its intent nothing may be sent.
    """
    try:
        return _CODEC.encode(entry)
    except ValueError as error:
        raise JournalUnavailable(
            f"an entry cannot be stored in the journal: {error}; nothing is sent without it"
        ) from None


def parse(line: str | bytes) -> JournalEntry:
    """Return the entry that `dump` wrote. Raises ValueError for anything else."""
    text = line.decode("ascii") if isinstance(line, bytes) else line
    try:
        return _CODEC.decode(text.rstrip("\n"))
    except ValueError as error:
        read = codec.parse(text)
        version = read.get("v", FORMAT) if isinstance(read, dict) else FORMAT
        if version != FORMAT:
            raise ValueError(f"journal format {version!a} is not {FORMAT}: it was written by another version") from None
        raise ValueError(f"not a journal entry: {error}") from None
