"""The journal of actions over a store of lines: its entries, the purge clock, and what interrupted runs left.

The stores are a file (journal/file.py) and a topic (kafka/journal_topic.py). They append and read
lines and know no entry. The journal decides no request: the cluster alone says what remains to be done.
"""

import getpass
import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from reconciler.errors import JournalUnavailable
from reconciler.journal import entry
from reconciler.journal.entry import Event, JournalEntry
from reconciler.journal.file import JournalFile
from reconciler.model.action import Action
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import Unknown

_LOG = logging.getLogger(__name__)

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


class PurgeClock:
    """The newest purge of each partition, by run. Takes entries in the order of their storage.

    A purge counts from its outcome, which is stored after the broker answered, and before that from its
    intent. An outcome that proves that no request was sent removes the intent; an unanswered or refused
    request is no such proof.
    """

    def __init__(self) -> None:
        self._times: dict[TopicPartition, dict[str, int]] = {}

    def update(self, entries: Iterable[JournalEntry]) -> None:
        for read in entries:
            if read.partition is None:
                continue
            runs = self._times.setdefault(read.partition, {})
            began_ms = runs.get(read.run_id, read.at_ms)
            if read.event is Event.OUTCOME and read.sends == 0:
                runs.pop(read.run_id, None)
                continue
            if read.event is Event.OUTCOME:  # forget the runs that ended before: a long watch stays small
                self._times[read.partition] = runs = {run: at for run, at in runs.items() if at >= began_ms}
            runs[read.run_id] = max(began_ms, read.at_ms)

    def last_purges(self, *, except_run: str | None = None) -> dict[TopicPartition, int]:
        """Epoch ms of the newest purge of each partition, without the purges of `except_run`."""
        others = (
            (partition, [at for run, at in runs.items() if run != except_run])
            for partition, runs in self._times.items()
        )
        return {partition: max(times) for partition, times in others if times}


class ActionJournal:
    """`model.ports.Journal` over a store of lines. Safe between threads. `who`, `commit`: as in its entries."""

    def __init__(self, store: LineStore, *, who: str | None = None, commit: str | None = None) -> None:
        self.store = store
        self._author = {"who": who, "commit": commit}
        self._clock = PurgeClock()

    def record_intents(self, actions: Sequence[Action], *, run_id: str, plan_digest: str, at_ms: int) -> None:
        self._append(actions, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms)

    def record_outcomes(self, outcomes: Sequence[Outcome], *, run_id: str, plan_digest: str, at_ms: int) -> None:
        self._append(outcomes, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms)

    def last_purges(self, *, except_run: str | None = None) -> Mapping[TopicPartition, int]:
        """Read only what was stored since the last call: a loop may ask before every batch."""
        with self.store.new_lines() as lines:
            self._clock.update(self._entries(lines))
            return self._clock.last_purges(except_run=except_run)

    def entries(self, matching: Callable[[Address], bool] = lambda _address: True) -> Iterator[JournalEntry]:
        """Entries of the matching addresses, oldest first."""
        return (read for read in self._entries(self.store.lines()) if matching(read.address))

    def open_intents(self, plan_digest: str) -> Mapping[Address, JournalEntry]:
        """The newest intent of each action of the plan that has no later outcome, in whichever run."""
        intents: dict[Address, dict[str, JournalEntry]] = {}
        for read in self._entries(self.store.lines(containing=plan_digest.encode())):
            if read.plan_digest != plan_digest:
                continue
            by_run = intents.setdefault(read.address, {})
            # an outcome without a request says nothing about the request of another run
            undecided = read.sends == 0 and read.status in (Status.NOT_ATTEMPTED, Status.WAITING)
            if read.event is Event.OUTCOME and not undecided:
                by_run.clear()
                continue
            by_run.pop(read.run_id, None)
            if read.event is Event.INTENT:
                by_run[read.run_id] = read
        return {address: list(by_run.values())[-1] for address, by_run in intents.items() if by_run}

    def _append(self, events: Sequence[Action | Outcome], **run: Any) -> None:
        if events:
            entries = (entry.create(event, **run, **self._author) for event in events)
            self.store.append([(str(new.address), entry.dump(new).encode("ascii")) for new in entries])

    def _entries(self, lines: Iterable[Line]) -> Iterator[JournalEntry]:
        parsed = (self._parse(data, location) for data, location in lines)
        return parsed if self.store.is_ordered else iter(sorted(parsed, key=lambda read: read.at_ms))

    def _parse(self, data: bytes, location: str) -> JournalEntry:
        try:
            return entry.parse(data)
        except ValueError as error:
            raise self.store.damaged(location, error) from None


def file_journal(path: Path, *, who: str | None = None, commit: str | None = None) -> ActionJournal:
    """A journal in a local file."""
    return ActionJournal(JournalFile(path), who=who, commit=commit)


def open_journal(cluster: str, topic: LineStore | None, *, commit: str | None = None) -> ActionJournal:
    """The journal of a cluster, written in the name of the current user.

    `cluster`: name of the Cluster manifest. `topic`: store of the topic that it names; None: the
    journal is a file below the working directory. `commit`: of the plan's manifests.
    """
    store = JournalFile(Path(".reconciler") / f"{cluster}.jsonl") if topic is None else topic
    return ActionJournal(store, who=whoami(), commit=commit)


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


def progress_message(intents: Mapping[Address, JournalEntry]) -> str:
    """One line about interrupted runs; empty where there is none."""
    if not intents:
        return ""
    runs = ", ".join(sorted({intent.run_id for intent in intents.values()}))
    return (
        f"run {runs} was interrupted: {len(intents):,} actions of it have an intent and no outcome; "
        "their subjects are read back first"
    )


def annotate_interrupted(
    outcomes: Iterable[Outcome], intents: Mapping[Address, JournalEntry]
) -> tuple[tuple[Outcome, ...], tuple[Outcome, ...]]:
    """All outcomes of the recheck, and those that end an action which an interrupted run may have sent.

    The second part belongs in the journal, which otherwise shows these actions as open for ever.
    """
    annotated, ended = [], []
    for outcome in outcomes:
        intent = intents.get(outcome.action.address)
        if intent is not None:
            detail = f"{outcome.detail}; run {intent.run_id}, which was interrupted, may have sent it"
            outcome = replace(outcome, detail=detail)
            ended.append(outcome)
        annotated.append(outcome)
    return tuple(annotated), tuple(ended)


def whoami() -> str:
    """The author of journal entries: the actor of the CI run, or the user at the host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that no user list has
        user = f"uid-{os.getuid()}"
    actor = os.environ.get("GITHUB_ACTOR") or f"{user}@{socket.gethostname()}"
    return actor.encode("utf-8", "backslashreplace").decode("utf-8")  # a variable may hold bytes that are no text
