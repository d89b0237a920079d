"""The journal as a local file: one JSON object per line, appended and flushed to disk before a request goes out.

Decided here: what a torn line means (the request behind it was never sent), and how two runs share the file. What the lines say
is in model/entry.py.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from reconciler.errors import JournalUnavailable
from reconciler.journal import entry
from reconciler.journal.entry import Author, JournalEntry, PurgeClock
from reconciler.model.action import Action
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome

UNKNOWN = Author()
_TAIL = 64 * 1024
_PATIENCE_S = 120.0
_PAUSE_S = 0.01


class FileJournal:
    """`model.ports.Journal` in one file, made with its folder at the first intent. Safe between threads and between processes.

    An append is whole or not there: what could not be written to the end is cut off again, and what a crash left of a line is cut
    off by the next append. Raises JournalUnavailable where the file cannot be read, or not be written and flushed.
    """

    def __init__(self, path: Path, *, author: Author = UNKNOWN) -> None:
        self._path = path
        self._author = author
        self._lock = Lock()
        self._clock = PurgeClock()
        self._clock_read_to = 0

    def record_intents(self, actions: Sequence[Action], *, run_id: str, plan_digest: str, at_ms: int) -> None:
        self._append(entry.intents(actions, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms, author=self._author))

    def record(self, outcomes: Sequence[Outcome], *, run_id: str, plan_digest: str, at_ms: int) -> None:
        self._append(entry.outcomes(outcomes, run_id=run_id, plan_digest=plan_digest, at_ms=at_ms, author=self._author))

    def last_purges(self, *, but_of: str | None = None) -> Mapping[TopicPartition, int]:
        """Reads what was appended since it was last asked: a loop may ask before every batch."""
        with self._turn() as until:
            for read, end in self._read(self._clock_read_to, until=until):
                self._clock.update([read])
                self._clock_read_to = end
            return self._clock.last_purges(but_of=but_of)

    def entries(self, wanted: Callable[[Address], bool] = lambda _address: True) -> Iterator[JournalEntry]:
        """Oldest first, of the addresses wanted. No file: none."""
        return (read for read, _end in self._read(0) if wanted(read.address))

    def unfinished(self, plan_digest: str) -> Mapping[Address, JournalEntry]:
        """What runs of that plan had begun and never ended, by address."""
        mark = plan_digest.encode()
        return entry.open_intents((read for read, _end in self._read(0, containing=mark)), plan_digest)

    def _append(self, entries: Sequence[JournalEntry]) -> None:
        if not entries:
            return
        lines = "".join(entry.dump(each) + "\n" for each in entries).encode("ascii")
        try:
            with self._turn() as until, self._opened(fcntl.LOCK_EX, os.O_RDWR | os.O_CREAT, until) as descriptor:
                end = _end_of_whole_lines(descriptor)
                os.ftruncate(descriptor, end)
                try:
                    _write(descriptor, lines, end)
                    os.fsync(descriptor)
                except OSError:
                    # Half a batch of intents would read as requests that were sent.
                    os.ftruncate(descriptor, end)
                    raise
        except OSError as failed:
            raise JournalUnavailable(
                f"the journal {self._path} cannot be written: {failed.strerror or failed}; nothing is sent without its intent: "
                f"make room, or name another place"
            ) from failed

    @contextmanager
    def _opened(self, lock: int, flags: int, until: float) -> Iterator[int]:
        """A descriptor under an advisory lock, held for one append or for one look at the length: runs take turns."""
        if flags & os.O_CREAT:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, flags | os.O_CLOEXEC, 0o644)
        try:
            self._wait_for(descriptor, lock, until)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _turn(self) -> Iterator[float]:
        """One thread at a time; until when it may wait for other processes. Threads that wait behind it have the same time, not each its own."""
        until = _soon()
        if not self._lock.acquire(timeout=_PATIENCE_S):
            raise self._held()
        try:
            yield until
        finally:
            self._lock.release()

    def _wait_for(self, descriptor: int, lock: int, until: float) -> None:
        """Others hold it for milliseconds, unless they are frozen in the middle; nobody waits for those for ever."""
        while True:
            try:
                return fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise self._held() from None
                time.sleep(_PAUSE_S)

    def _held(self) -> JournalUnavailable:
        return JournalUnavailable(
            f"the journal {self._path} has been held by another process for {_PATIENCE_S:.0f} s: see whether a run is "
            "frozen (fuser, lsof), let it go on or end it, then try again"
        )

    def _read(
        self, start: int, *, containing: bytes = b"", until: float | None = None
    ) -> Iterator[tuple[JournalEntry, int]]:
        """Entries from byte `start` on, each with the offset after it. A last line without its end was never acted upon.

        `containing`: lines without it are passed over unread, since a journal of years is mostly of other plans.
        """
        try:
            with self._opened(fcntl.LOCK_SH, os.O_RDONLY, until or _soon()) as descriptor:
                # What lies before this point is never cut off again, so the rest is read without the lock.
                end = _end_of_whole_lines(descriptor)
            with self._path.open("rb") as file:
                file.seek(start)
                while start < end:
                    line = file.readline()
                    if not line:
                        raise JournalUnavailable(
                            f"the journal {self._path} was cut off at byte {start} while it was read"
                        )
                    start += len(line)
                    if containing in line:
                        yield self._parsed(line, start), start
        except FileNotFoundError:
            return
        except OSError as failed:
            raise JournalUnavailable(
                f"the journal {self._path} cannot be read: {failed.strerror or failed}"
            ) from failed

    def _parsed(self, line: bytes, end: int) -> JournalEntry:
        try:
            return entry.parse(line)
        except ValueError as broken:
            raise JournalUnavailable(
                f"the journal {self._path} is damaged in the line that ends at byte {end}: {broken}; restore the file, or move it away"
            ) from None


def _soon() -> float:
    return time.monotonic() + _PATIENCE_S


def _end_of_whole_lines(descriptor: int) -> int:
    """The offset after the last newline."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _TAIL)
        tail = os.pread(descriptor, end - start, start)
        newline = tail.rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write(descriptor: int, data: bytes, at: int) -> None:
    """All of it: a full disk may take a part without an error and refuse the rest."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        at += written
        view = view[written:]
