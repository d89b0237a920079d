"""The journal of actions: its entries, the purge clock, and the intents of interrupted runs.

An entry is an intent before a request or an outcome after it, and one line. The stores are a file
(journal/file.py) and a topic (kafka/journal_topic.py): they append and read lines and know no
entry. The journal decides no request: the cluster alone says what remains to be done.
"""

import getpass
import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Protocol

from reconciler.codec import Codec
from reconciler.errors import JournalUnavailable
from reconciler.model.action import Action
from reconciler.model.bounds import EpochMs, Int64, Total
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset, Unknown

_LOG = logging.getLogger(__name__)

FORMAT: Literal[2] = 2
_OF_OUTCOME = ("status", "detail", "code", "read_back", "sends", "removed_max", "low_watermark")


RemovedOffsets = Mapping[Address, tuple[CommittedOffset, ...]]
"""The commits that the removal of each group removes, by the address of the action."""


class Event(StrEnum):
    """INTENT: stored before each attempt to send. OUTCOME: what became of the action in the run."""

    INTENT = "intent"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One event of one action. `at_ms`: epoch milliseconds. `request`: as in the plan file.

    `who`: the author of the run; `commit`: of the manifests; None: not known. `status` and all that
    follow: of an outcome only, as in `Outcome`. `removed_offsets`: of an intent only, the commits that
    the request removes; of `restore_group`, those that it writes.
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
    low_watermark: Int64 | None = None
    removed_offsets: tuple[CommittedOffset, ...] | None = None


def create(event: Action | Outcome, **run: Any) -> JournalEntry:
    """Return the intent of an action, or the entry of an outcome. `run`: fields of the call."""
    action = event.action if isinstance(event, Outcome) else event
    intent = JournalEntry(
        event=Event.INTENT, address=action.address, operation=action.OPERATION, request=action.request(), **run
    )
    if not isinstance(event, Outcome):
        return intent
    return replace(intent, event=Event.OUTCOME, **{name: getattr(event, name) for name in _OF_OUTCOME})


_CODEC = Codec(JournalEntry, omit_none=True)


def dump(entry: JournalEntry) -> str:
    """Return one line of ASCII JSON without its newline; what is not known is left out.

    Raises JournalUnavailable for a text that JSON cannot hold.
    """
    try:
        return _CODEC.encode(entry)
    except ValueError as error:
        raise JournalUnavailable(
            f"an entry cannot be stored in the journal: {error}; nothing is sent without it"
        ) from None


def parse(line: bytes) -> JournalEntry:
    """Return the entry that `dump` wrote. Raises ValueError for anything else."""
    try:
        return _CODEC.decode(line.decode("ascii"))
    except ValueError as error:
        raise ValueError(f"no journal entry of format {FORMAT}, perhaps of another version: {error}") from None


Line = tuple[bytes, str]
"""A line without its line end, and its location for an error message."""


class LineStore(Protocol):
    """Lines, appended only. Every method raises JournalUnavailable."""

    @property
    def is_ordered(self) -> bool:
        """Whether lines are read in the order of their storage."""
        ...

    def append(self, lines: Sequence[tuple[str, bytes]]) -> None:
        """Store keys and lines: all of them, or an error. Returns when they are safe."""
        ...

    def lines(self, *, containing: bytes = b"") -> Iterator[Line]:
        """All lines that contain these bytes."""
        ...

    def new_lines(self) -> AbstractContextManager[Iterator[Line]]:
        """Lines that were stored since the last call, for one thread at a time."""
        ...

    def damaged(self, location: str, error: ValueError) -> JournalUnavailable:
        """The error for a line that is no entry."""
        ...


class ActionJournal:
    """A journal over a store of lines: an intent before each request, an outcome after it.

    Safe between threads. Every method raises JournalUnavailable. `who`, `commit`: of its entries.
    """

    def __init__(self, store: LineStore, *, who: str | None = None, commit: str | None = None) -> None:
        self.store = store
        self._author = {"who": who, "commit": commit}
        self._purges: dict[TopicPartition, dict[str, int]] = {}

    def record(
        self,
        events: Sequence[Action | Outcome],
        *,
        run_id: str,
        plan_digest: str,
        at_ms: int,
        removed_offsets: RemovedOffsets | None = None,
    ) -> None:
        """Store the intents of actions that are about to be sent, or outcomes.

        `removed_offsets`: of those intents that have some.
        """
        run = {"run_id": run_id, "plan_digest": plan_digest, "at_ms": at_ms, **self._author}
        entries = [create(event, **run) for event in events]
        if removed_offsets:
            entries = [replace(entry, removed_offsets=removed_offsets.get(entry.address)) for entry in entries]
        if entries:
            self.store.append([(str(new.address), dump(new).encode("ascii")) for new in entries])

    def last_purges(self, *, except_run: str | None = None) -> Mapping[TopicPartition, int]:
        """Return the epoch ms of each partition's newest purge, without those of `except_run`.

        Reads only what was stored since the last call: a loop may call this before every batch.
        """
        with self.store.new_lines() as lines:
            for entry in self._entries(lines):
                self._note_purge(entry)
            return {
                partition: max(at for run, at in runs.items() if run != except_run)
                for partition, runs in self._purges.items()
                if runs.keys() - {except_run}
            }

    def entries(self, matching: Callable[[Address], bool] = lambda _address: True) -> Iterator[JournalEntry]:
        """Return the entries of the matching addresses, oldest first."""
        return (entry for entry in self._entries(self.store.lines()) if matching(entry.address))

    def open_intents(self, plan_digest: str) -> Mapping[Address, JournalEntry]:
        """Return each action's newest intent, where no later outcome of any run decides it."""
        intents: dict[Address, dict[str, JournalEntry]] = {}
        for entry in self._entries(self.store.lines(containing=plan_digest.encode())):
            if entry.plan_digest != plan_digest:
                continue
            by_run = intents.setdefault(entry.address, {})
            # an outcome without a request says nothing about the request of another run
            undecided = entry.sends == 0 and entry.status in (Status.NOT_ATTEMPTED, Status.WAITING)
            if entry.event is Event.OUTCOME and not undecided:
                by_run.clear()
                continue
            by_run.pop(entry.run_id, None)
            if entry.event is Event.INTENT:
                by_run[entry.run_id] = entry
        return {address: list(by_run.values())[-1] for address, by_run in intents.items() if by_run}

    def _note_purge(self, entry: JournalEntry) -> None:
        """Note the newest purge of a partition, by run. Takes entries in the order of storage.

        A purge counts from its outcome, which is stored after the broker answered, and before that
        from its intent. An outcome that proves that no request was sent removes the intent; an
        unanswered or refused request is no such proof.
        """
        if entry.operation != "delete_records":
            return
        partition = TopicPartition(entry.address.name, entry.address.partition)
        runs = self._purges.setdefault(partition, {})
        began_ms = runs.get(entry.run_id, entry.at_ms)
        if entry.event is Event.OUTCOME and entry.sends == 0:
            runs.pop(entry.run_id, None)
            return
        if entry.event is Event.OUTCOME:  # forget the runs that ended before: a long watch stays small
            self._purges[partition] = runs = {run: at for run, at in runs.items() if at >= began_ms}
        runs[entry.run_id] = max(began_ms, entry.at_ms)

    def _entries(self, lines: Iterable[Line]) -> Iterator[JournalEntry]:
        def parse_line(line: Line) -> JournalEntry:
            try:
                return parse(line[0])
            except ValueError as error:
                raise self.store.damaged(line[1], error) from None

        parsed = map(parse_line, lines)
        return parsed if self.store.is_ordered else iter(sorted(parsed, key=lambda entry: entry.at_ms))


def last_purges(journal: ActionJournal) -> Mapping[TopicPartition, int] | Unknown:
    """Return when each partition was last purged, in epoch ms; Unknown: it cannot be read."""
    try:
        return journal.last_purges()
    except JournalUnavailable as error:
        return Unknown(str(error))


def interrupted_actions(journal: ActionJournal, plan_digest: str) -> Mapping[Address, JournalEntry]:
    """Return the open intents of the plan, for messages only; empty: the journal cannot be read."""
    try:
        return journal.open_intents(plan_digest)
    except JournalUnavailable as error:
        _LOG.warning("which actions an interrupted run may have sent is unknown: %s", error)
        return {}


def progress_message(intents: Mapping[Address, JournalEntry]) -> str:
    """Return one line about interrupted runs."""
    runs = ", ".join(sorted({intent.run_id for intent in intents.values()}))
    return (
        f"run {runs} was interrupted: {len(intents):,} actions of it have an intent and no outcome; "
        "their subjects are read back first"
    )


def annotate_interrupted(outcome: Outcome, intents: Mapping[Address, JournalEntry]) -> Outcome:
    """Return the outcome of a recheck, with the interrupted run that may have sent its action."""
    intent = intents.get(outcome.action.address)
    if intent is None:
        return outcome
    return replace(outcome, detail=f"{outcome.detail}; run {intent.run_id}, which was interrupted, may have sent it")


def whoami() -> str:
    """Return the author of journal entries: the actor of the CI run, or the user at the host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that no user list has
        user = f"uid-{os.getuid()}"
    actor = os.environ.get("GITHUB_ACTOR") or f"{user}@{socket.gethostname()}"
    return actor.encode("utf-8", "backslashreplace").decode("utf-8")  # a variable may hold bytes that are no text
