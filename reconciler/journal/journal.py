"""The journal of actions over a store of lines: writes entries, reads the purge clock and open intents.

The stores are a file (journal/file.py) and a topic (kafka/journal_topic.py). They append and read
lines and know no entry.
"""

import getpass
import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from reconciler.errors import JournalUnavailable
from reconciler.journal import entry, interrupted
from reconciler.journal.entry import Author, JournalEntry
from reconciler.journal.file import JournalFile
from reconciler.journal.purge_clock import PurgeClock
from reconciler.model.action import Action
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome
from reconciler.model.snapshot import Unknown

_LOG = logging.getLogger(__name__)

NO_AUTHOR = Author()

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
    """`model.ports.Journal` over a store of lines. Safe between threads."""

    def __init__(self, store: LineStore, *, author: Author = NO_AUTHOR) -> None:
        self.store = store
        self._author = author
        self._clock = PurgeClock()

    def record_intents(self, actions: Sequence[Action], *, run_id: str, plan_digest: str, at_ms: int) -> None:
        self._append(entry.intents(actions, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms, author=self._author))

    def record_outcomes(self, outcomes: Sequence[Outcome], *, run_id: str, plan_digest: str, at_ms: int) -> None:
        self._append(entry.outcomes(outcomes, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms, author=self._author))

    def last_purges(self, *, except_run: str | None = None) -> Mapping[TopicPartition, int]:
        """Read only what was stored since the last call: a loop may ask before every batch."""
        with self.store.new_lines() as lines:
            self._clock.update(self._entries(lines))
            return self._clock.last_purges(except_run=except_run)

    def entries(self, matching: Callable[[Address], bool] = lambda _address: True) -> Iterator[JournalEntry]:
        """Entries of the matching addresses, oldest first."""
        return (read for read in self._entries(self.store.lines()) if matching(read.address))

    def open_intents(self, plan_digest: str) -> Mapping[Address, JournalEntry]:
        """Intents of the plan that have no outcome, by address."""
        lines = self.store.lines(containing=plan_digest.encode())
        return interrupted.open_intents(self._entries(lines), plan_digest)

    def _append(self, entries: Sequence[JournalEntry]) -> None:
        if entries:
            self.store.append([(str(each.address), entry.dump(each).encode("ascii")) for each in entries])

    def _entries(self, lines: Iterable[Line]) -> Iterator[JournalEntry]:
        parsed = (self._parse(data, location) for data, location in lines)
        return parsed if self.store.is_ordered else iter(sorted(parsed, key=lambda read: read.at_ms))

    def _parse(self, data: bytes, location: str) -> JournalEntry:
        try:
            return entry.parse(data)
        except ValueError as error:
            raise self.store.damaged(location, error) from None


def file_journal(path: Path, *, author: Author = NO_AUTHOR) -> ActionJournal:
    """A journal in a local file."""
    return ActionJournal(JournalFile(path), author=author)


def open_journal(cluster: str, topic: LineStore | None, *, commit: str | None = None) -> ActionJournal:
    """The journal of a cluster, written in the name of the current user.

    `cluster`: name of the Cluster manifest. `topic`: store of the topic that it names; None: the
    journal is a file below the working directory. `commit`: of the plan's manifests.
    """
    author = Author(who=whoami(), commit=commit)
    if topic is not None:
        return ActionJournal(topic, author=author)
    return file_journal(Path(".reconciler") / f"{cluster}.jsonl", author=author)


def last_purges(journal: ActionJournal) -> Mapping[TopicPartition, int] | Unknown:
    """Epoch ms of each partition's newest purge; Unknown where the journal cannot be read."""
    try:
        return journal.last_purges()
    except JournalUnavailable as error:
        return Unknown(str(error))


def interrupted_actions(journal: ActionJournal, plan_digest: str) -> Mapping[Address, JournalEntry]:
    """Open intents of the plan, for messages only. Empty where the journal cannot be read.

    No request depends on them, and a journal that cannot be written stops the run at its first intent.
    """
    try:
        return journal.open_intents(plan_digest)
    except JournalUnavailable as error:
        _LOG.warning("which actions an interrupted run may have sent is unknown: %s", error)
        return {}


def whoami() -> str:
    """The author of journal entries: the actor of the CI run, or the user at the host."""
    actor = os.environ.get("GITHUB_ACTOR") or f"{_user()}@{socket.gethostname()}"
    return actor.encode("utf-8", "backslashreplace").decode("utf-8")  # a variable may hold bytes that are no text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that no user list has
        return f"uid-{os.getuid()}"
