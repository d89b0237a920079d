"""The journal of actions: what runs store, the purges of other runs, and intents of interrupted runs.

Entries and their lines: entry.py. The stores are a file (file.py) and a topic
(kafka/journal_topic.py): they append and read lines and know no entry. The journal decides no
request: the cluster alone says what remains to be done.
"""

import getpass
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, Protocol

from reconciler.errors import JournalUnavailable
from reconciler.journal import release
from reconciler.journal.entry import Event, JournalEntry, RemovedOffsets, create, dump_batch, dump_time, parse
from reconciler.journal.purge_clock import CLOCK_TOLERANCE_MS, IN_FLIGHT_MAX_MS, PurgeClock
from reconciler.journal.release import NO_CI_RUN, RELEASE_RECENT_MS, Approval, CiRun, Release
from reconciler.model.action import Action
from reconciler.model.garbage import gc_paused
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import Purge, Unknown

_LOG = logging.getLogger(__name__)


class Line(NamedTuple):
    """A line without its line end, and its location for an error message.

    `stored_at_ms`: when the broker stored it; None: the store does not know.
    """

    data: bytes
    location: str
    stored_at_ms: int | None = None


class LineStore(Protocol):
    """Lines, appended only. Every method raises JournalUnavailable."""

    def append(self, lines: Sequence[bytes]) -> None:
        """Store lines: all of them, or an error. Returns when they are safe."""
        ...

    def lines(
        self, *, since_ms: int = 0, containing: bytes = b"", position: dict[int, int] | None = None
    ) -> Iterator[Line]:
        """Yield lines in the order of storage: since a time, and perhaps some older ones.

        `containing`: only lines with these bytes. `position`: where an earlier call ended, as that
        call has left it there; empty: begin at `since_ms`.
        """
        ...

    def damaged(self, location: str, error: ValueError) -> JournalUnavailable:
        """The error for a line that is no entry."""
        ...


class ActionJournal:
    """A journal over a store of lines: an intent before each request, an outcome after it.

    Safe between threads. Every method raises JournalUnavailable. `who`, `commit`, `ci_run`: of its
    entries.
    """

    def __init__(
        self, store: LineStore, *, who: str | None = None, commit: str | None = None, ci_run: CiRun = NO_CI_RUN
    ) -> None:
        self.store = store
        self._author: dict[str, Any] = {
            "who": who,
            "commit": commit,
            "run_url": ci_run.url,
            "approver": ci_run.approver,
        }
        self._lock = Lock()
        self._failure: JournalUnavailable | None = None
        self._failed_at_s = 0.0
        self._since_ms: int | None = None
        self._position: dict[int, int] = {}
        self._clock = PurgeClock()

    def record(
        self,
        events: Sequence[Action | Outcome],
        *,
        run_id: str,
        plan_digest: str,
        at_ms: int,
        in_flight_ms: int | None = None,
        removed_offsets: RemovedOffsets | None = None,
    ) -> None:
        """Store the intents of actions that are about to be sent, or outcomes, in few lines.

        `in_flight_ms`: how long from now on the requests of these actions may be under way.
        `removed_offsets`: of those intents that have some.
        """
        run = {"run_id": run_id, "plan_digest": plan_digest, "at_ms": at_ms, **self._author}
        if in_flight_ms is not None:
            run["in_flight_ms"] = in_flight_ms
        with gc_paused():
            entries = [create(event, removed_offsets, **run) for event in events]
            stored = [line.encode("ascii") for line in dump_batch(entries)]
        if stored:
            self.store.append(stored)

    def last_purges(
        self, *, every_ms: int, now_ms: int, except_run: str | None = None, after_intents: bool = False
    ) -> Mapping[TopicPartition, Purge | Unknown]:
        """Return the newest purge of each partition within `every_ms`, without those of `except_run`.

        `now_ms`: of the caller's clock. `after_intents`: that run has just stored its intents, so now
        is their time in the journal, and the times that are returned have exact ages: clocks differ,
        and the journal's is one for all runs. Unknown: the purge is stamped in the future, and no later
        entry says since when it was there. Reads only what was stored since the last call.
        """
        within_ms = max(every_ms, IN_FLIGHT_MAX_MS)
        called_s = time.monotonic()
        with self._lock:
            if self._failure is not None and self._failed_at_s >= called_s:
                raise self._failure  # threads that waited for a store give up together
            try:
                self._read_on(now_ms - within_ms)
                journal_ms = self._time_of(except_run, within_ms) if after_intents else now_ms
                self._read_on(journal_ms - within_ms)
            except JournalUnavailable as error:
                self._failure, self._failed_at_s = error, time.monotonic()
                raise
            return self._clock.newest(journal_ms, shift_ms=now_ms - journal_ms, except_run=except_run)

    def entries(self, matching: Callable[[Address], bool] = lambda _address: True) -> Iterator[JournalEntry]:
        """Return the entries of the matching addresses, oldest first."""
        return (entry for entry in self._entries(self.store.lines()) if matching(entry.address))

    def history(self) -> Iterator[JournalEntry | Approval]:
        """Return all entries, releases and reviewed trees of earlier versions, oldest first."""
        for line in self.store.lines():
            yield from self._entries([line])
            if approval := release.parse(line.data):
                yield approval

    def record_release(self, manifests: str, *, run_id: str, at_ms: int) -> None:
        """Store that a run with an approved plan of these manifests has loaded them.

        Its time is later than that of every release before it, also where clocks differ.
        """
        last = self._find_release(at_ms)
        released_at_ms = at_ms if last is None else max(at_ms, last.released_at_ms + 1)
        self._store(
            Release(manifests=manifests, run_id=run_id, at_ms=at_ms, released_at_ms=released_at_ms, **self._author)
        )

    def newest_release(self, *, now_ms: int) -> Release | None:
        """Return the newest release; None: no run has stored one, or the journal has lost it.

        An old record is stored again, so that the retention of a topic never removes the last one.
        Whoever stores it reads on: a release that came in between is newer, and is kept as well.
        """
        newest, kept_ms = self._find_release(now_ms), -1
        while (
            newest is not None
            and newest.released_at_ms != kept_ms
            and not 0 <= now_ms - newest.at_ms <= RELEASE_RECENT_MS // 2
        ):
            self._store(replace(newest, at_ms=now_ms))
            kept_ms = newest.released_at_ms
            newest = self._last_release(since_ms=min(newest.at_ms, now_ms) - RELEASE_RECENT_MS)
        return newest

    def _find_release(self, now_ms: int) -> Release | None:
        """Return the newest release. Most runs read one day."""
        return self._last_release(since_ms=now_ms - RELEASE_RECENT_MS) or self._last_release(since_ms=0)

    def _last_release(self, *, since_ms: int) -> Release | None:
        """Return the release with the latest time, in its last record."""
        newest: Release | None = None
        for line in self.store.lines(since_ms=since_ms, containing=b'"released_at_ms":'):
            try:
                approval = release.parse(line.data)
            except ValueError as error:
                raise self.store.damaged(line.location, error) from None
            if isinstance(approval, Release) and (newest is None or approval.released_at_ms >= newest.released_at_ms):
                newest = approval
        return newest

    def _store(self, approval: Release) -> None:
        self.store.append([release.dump(approval).encode("ascii")])

    def open_intents(self, plan_digest: str, *, since_ms: int = 0) -> Mapping[Address, JournalEntry]:
        """Return each action's newest intent, where no later outcome of any run decides it.

        `since_ms`: when the plan was made; no entry of it is older.
        """
        intents: dict[Address, dict[str, JournalEntry]] = {}
        lines = self.store.lines(since_ms=since_ms - CLOCK_TOLERANCE_MS, containing=plan_digest.encode())
        for entry in self._entries(lines):
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

    def settle_clock(self, *, every_ms: int, run_id: str, at_ms: int) -> None:
        """Store an empty line if a purge is stamped in the future: it was before this line.

        Without it, a partition that is stamped in 2099 would not be purged until then.
        """
        purges = self.last_purges(every_ms=every_ms, now_ms=at_ms).values()
        if any(isinstance(purge, Unknown) for purge in purges):
            self.store.append([dump_time(at_ms, run_id).encode("ascii")])

    def _time_of(self, run_id: str | None, within_ms: int) -> int:
        """Return the time in the journal of the intents that a run has just stored."""
        time_ms = None if run_id is None else self._clock.time_of(run_id)
        if time_ms is None:  # then purges of other runs shortly before it were not read either
            raise JournalUnavailable(
                f"the journal shows no intent of run {run_id} in the last {within_ms // 60_000} min, although one was "
                "just stored: the clock of this machine is ahead of the journal's; set it"
            )
        return time_ms

    def _read_on(self, since_ms: int) -> None:
        """Read on from where the last call ended, or again from a time before its beginning."""
        since_ms -= CLOCK_TOLERANCE_MS
        if self._since_ms is None or since_ms < self._since_ms:
            self._since_ms, self._position, self._clock = since_ms, {}, PurgeClock()
        position = dict(self._position)
        for at_ms, entries in self._parse(self.store.lines(since_ms=self._since_ms, position=position)):
            self._clock.note(at_ms, entries)
        self._position = position

    def _entries(self, lines: Iterable[Line]) -> Iterator[JournalEntry]:
        return (entry for _at_ms, entries in self._parse(lines) for entry in entries)

    def _parse(self, lines: Iterable[Line]) -> Iterator[tuple[int, Sequence[JournalEntry]]]:
        """Yield time and entries of each line; the time is the store's where it has one."""
        for line in lines:
            try:
                at_ms, entries = parse(line.data)
            except ValueError as error:
                raise self.store.damaged(line.location, error) from None
            if line.stored_at_ms is not None:
                at_ms = line.stored_at_ms
                entries = [replace(entry, at_ms=at_ms) for entry in entries]
            yield at_ms, entries


def interrupted_actions(
    journal: ActionJournal, plan_digest: str, *, since_ms: int = 0
) -> Mapping[Address, JournalEntry]:
    """Return the open intents of the plan, for messages only; empty: the journal cannot be read."""
    try:
        return journal.open_intents(plan_digest, since_ms=since_ms)
    except JournalUnavailable as error:
        _LOG.warning("which actions an interrupted run may have sent is unknown: %s", error)
        return {}


def progress_message(intents: Mapping[Address, JournalEntry]) -> str:
    """Return one line about interrupted runs."""
    runs = ", ".join(sorted({intent.run_id for intent in intents.values()}))
    return (
        f"run {runs} was interrupted, or still runs: {len(intents):,} actions of it have an intent and no outcome; "
        "their subjects are read back first"
    )


def annotate_interrupted(outcome: Outcome, intents: Mapping[Address, JournalEntry]) -> Outcome:
    """Return the outcome of a recheck, with the interrupted run that may have sent its action."""
    intent = intents.get(outcome.action.address)
    if intent is None:
        return outcome
    return replace(
        outcome, detail=f"{outcome.detail}; run {intent.run_id}, which was interrupted or still runs, may have sent it"
    )


def whoami() -> str:
    """Return the author of journal entries: the actor of the CI run, or the user at the host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that no user list has
        user = f"uid-{os.getuid()}"
    actor = os.environ.get("GITHUB_ACTOR") or f"{user}@{socket.gethostname()}"
    return actor.encode("utf-8", "backslashreplace").decode("utf-8")  # a variable may hold bytes that are no text
