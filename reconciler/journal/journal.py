"""The journal of actions: its entries, the purge clock, and the intents of interrupted runs.

An entry is an intent before a request or an outcome after it. A line holds the entries of one batch.
The stores are a file (journal/file.py) and a topic (kafka/journal_topic.py): they append and read
lines and know no entry. The journal decides no request: the cluster alone says what remains to be
done.
"""

import getpass
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import chain, groupby
from threading import Lock
from typing import Any, Literal, NamedTuple, Protocol

from reconciler.codec import Codec
from reconciler.errors import JournalUnavailable
from reconciler.journal.review import NO_CI_RUN, REVIEW_RECENT_MS, CiRun, ReviewedTree
from reconciler.model.action import Action
from reconciler.model.bounds import EpochMs, Int64, Total
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset, Purge, Unknown
from reconciler.text.formatting import format_instant

_LOG = logging.getLogger(__name__)

FORMAT: Literal[3] = 3
_OF_OUTCOME = ("status", "detail", "code", "read_back", "sends", "removed_max", "low_watermark")
_LINE_MAX = 256 * 1024
"""Bytes of a line with several actions. One action alone has fewer: names have 32,767 bytes at most."""
_DETAIL_MAX = 2_000
"""Characters of an outcome's detail that the journal keeps."""
_CLOCK_TOLERANCE_MS = 60_000
"""A time further in the future is no time: a clock is, or was, wrong."""
_IN_FLIGHT_MAX_MS = 12 * 60_000
"""How far back intents without an outcome are read: `--timeout` is ten minutes at most."""
_IN_FLIGHT_UNKNOWN_MS = 60_000
"""How long the request of an intent may be under way that does not say so, as of format 2."""

RemovedOffsets = Mapping[Address, tuple[CommittedOffset, ...]]
"""The commits that the removal of each group removes, by the address of the action."""


class Event(StrEnum):
    """INTENT: stored before each attempt to send. OUTCOME: what became of the action in the run."""

    INTENT = "intent"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One event of one action, as `reconciler journal` prints it, and a line of format 2.

    `at_ms`: epoch milliseconds; where the store knows when it was stored, that time. `request`: as
    in the plan file. `who`: the author of the run; `commit`: of the manifests; None: not known.
    `in_flight_ms`: of an intent, how long after it its request may be under way. `status` and all
    that follow: of an outcome only, as in `Outcome`. `removed_offsets`: of an intent only, commits that
    the request removes, or those that `restore_group` writes; a large number is in several entries.
    """

    v: Literal[2] = 2
    at_ms: EpochMs
    event: Event
    run_id: str = field(metadata={"name": "run"})
    plan_digest: str = field(metadata={"name": "plan"})
    address: Address
    operation: str
    request: Mapping[str, str | int]
    who: str | None = None
    commit: str | None = None
    run_url: str | None = None
    approver: str | None = None
    in_flight_ms: Total | None = None
    status: Status | None = None
    detail: str | None = None
    code: str | None = None
    read_back: str | None = None
    sends: int | None = None
    removed_max: Total | None = None
    low_watermark: Int64 | None = None
    removed_offsets: tuple[CommittedOffset, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """What the entries of one line do not have in common."""

    address: Address
    request: Mapping[str, str | int]
    status: Status | None = None
    detail: str | None = None
    code: str | None = None
    read_back: str | None = None
    sends: int | None = None
    removed_max: Total | None = None
    low_watermark: Int64 | None = None
    removed_offsets: tuple[CommittedOffset, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """Entries of one batch: a line of the journal. It begins with its format and its time."""

    v: Literal[3] = FORMAT
    at_ms: EpochMs
    event: Event
    run_id: str = field(metadata={"name": "run"})
    plan_digest: str = field(metadata={"name": "plan"})
    operation: str
    who: str | None = None
    commit: str | None = None
    run_url: str | None = None
    approver: str | None = None
    in_flight_ms: Total | None = None
    actions: tuple[BatchItem, ...]


def create(event: Action | Outcome, **run: Any) -> JournalEntry:
    """Return the intent of an action, or the entry of an outcome. `run`: fields of the call."""
    action = event.action if isinstance(event, Outcome) else event
    intent = JournalEntry(
        event=Event.INTENT, address=action.address, operation=action.OPERATION, request=action.request(), **run
    )
    if not isinstance(event, Outcome):
        return intent
    of_outcome = {name: getattr(event, name) for name in _OF_OUTCOME} | {"detail": event.detail[:_DETAIL_MAX]}
    return replace(intent, event=Event.OUTCOME, **of_outcome)


_ENTRY = Codec(JournalEntry, omit_none=True)
_BATCH = Codec(BatchLine, omit_none=True)
_ITEM = Codec(BatchItem, omit_none=True)
_IN_BOTH = tuple(f.name for f in fields(BatchItem))
_IN_COMMON = tuple(f.name for f in fields(BatchLine) if f.name not in ("v", "actions"))


def dump(entry: JournalEntry | ReviewedTree) -> str:
    """Return one entry as a line of ASCII JSON without its newline; what is not known is left out."""
    return entry.dump() if isinstance(entry, ReviewedTree) else _ENTRY.encode(entry)


def dump_batch(entries: Sequence[JournalEntry]) -> Iterator[str]:
    """Yield the entries of one run as lines of up to 256 KiB, those of a batch together.

    A longer line has one action. Raises JournalUnavailable for a text that JSON cannot hold.
    """
    try:
        for common, same in groupby(entries, lambda entry: {name: getattr(entry, name) for name in _IN_COMMON}):
            items, size = list[BatchItem](), 0
            for item, bytes_of_item in chain.from_iterable(map(_items, same)):
                if items and size + bytes_of_item > _LINE_MAX:
                    yield _BATCH.encode(BatchLine(**common, actions=tuple(items)))
                    items, size = [], 0
                items.append(item)
                size += bytes_of_item
            yield _BATCH.encode(BatchLine(**common, actions=tuple(items)))
    except ValueError as error:
        raise JournalUnavailable(
            f"an entry cannot be stored in the journal: {error}; nothing is sent without it"
        ) from None


def _items(entry: JournalEntry) -> Iterator[tuple[BatchItem, int]]:
    """Yield the parts of an entry with their bytes: many offsets do not fit into one line."""
    item = BatchItem(**{name: getattr(entry, name) for name in _IN_BOTH})
    size, offsets = len(_ITEM.encode(item)), entry.removed_offsets or ()
    if size <= _LINE_MAX or len(offsets) < 2:
        yield item, size
        return
    middle = len(offsets) // 2
    for part in (offsets[:middle], offsets[middle:]):
        yield from _items(replace(entry, removed_offsets=part))


def parse(line: bytes) -> tuple[int, Sequence[JournalEntry]]:
    """Return time and entries of a line. Raises ValueError for what no version has written."""
    try:
        if review := ReviewedTree.parse(line):
            return review.at_ms, ()
        text = line.decode("ascii")
        if text.startswith('{"v":2,'):
            entry = _ENTRY.decode(text)
            return entry.at_ms, (entry,)
        batch = _BATCH.decode(text)
    except ValueError as error:
        raise ValueError(f"no journal entry of format {FORMAT}, perhaps of another version: {error}") from None
    common = {name: getattr(batch, name) for name in _IN_COMMON}
    return batch.at_ms, [
        JournalEntry(**common, **{name: getattr(item, name) for name in _IN_BOTH}) for item in batch.actions
    ]


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


class _RunPurge(NamedTuple):
    """The newest purge of a partition by one run.

    `before_ms`: the earliest time of this line and all later ones; the purge was before that.
    `in_flight_ms`: how long its request may be under way; None: there is an outcome.
    """

    at_ms: int
    before_ms: int
    in_flight_ms: int | None

    def at(self, now_ms: int) -> int | None:
        """Return its time; None: it is in the future, so a clock was wrong, and no later line helps."""
        latest_ms = now_ms + _CLOCK_TOLERANCE_MS
        return next((time_ms for time_ms in (self.at_ms, self.before_ms) if time_ms <= latest_ms), None)


def _newest_purge(runs: Sequence[_RunPurge], now_ms: int, shift_ms: int) -> Purge | Unknown:
    """Return the newest purge, later by `shift_ms`; Unknown: one of them may be newer."""
    times, until = list[int](), list[int]()
    for purge in runs:
        at_ms = purge.at(now_ms)
        if at_ms is None:
            return Unknown(
                f"the journal says {format_instant(purge.at_ms)}, which is in the future: the clock of this machine is "
                "behind, or the one that stamped the entry was ahead; set it, and the next apply or converge goes on"
            )
        times.append(at_ms + shift_ms)
        if purge.in_flight_ms is not None:
            until.append(times[-1] + purge.in_flight_ms)
    return Purge(max(times), max(until, default=None))


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
        self._latest_ms = 0
        self._newest_ms: dict[str | None, int] = {}
        self._purges: dict[TopicPartition, dict[str, _RunPurge]] = {}

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

        `removed_offsets`: of those intents that have some.

        `in_flight_ms`: how long from now on the requests of these actions may be under way.
        """
        run = {"run_id": run_id, "plan_digest": plan_digest, "at_ms": at_ms, **self._author}
        if in_flight_ms is not None:
            run["in_flight_ms"] = in_flight_ms
        entries = [create(event, **run) for event in events]
        if removed_offsets:
            entries = [replace(entry, removed_offsets=removed_offsets.get(entry.address)) for entry in entries]
        lines = dump_batch(entries)
        if stored := [line.encode("ascii") for line in lines]:
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
        within_ms = max(every_ms, _IN_FLIGHT_MAX_MS)
        called_s = time.monotonic()
        with self._lock:
            if self._failure is not None and self._failed_at_s >= called_s:
                raise self._failure  # threads that waited for a store give up together
            try:
                self._read_on(now_ms - within_ms)
                journal_ms = self._newest_ms.get(except_run, now_ms) if after_intents else now_ms
                self._read_on(journal_ms - within_ms)
            except JournalUnavailable as error:
                self._failure, self._failed_at_s = error, time.monotonic()
                raise
            return {
                partition: _newest_purge(others, journal_ms, now_ms - journal_ms)
                for partition, runs in self._purges.items()
                if (others := [purge for run, purge in runs.items() if run != except_run])
            }

    def entries(self, matching: Callable[[Address], bool] = lambda _address: True) -> Iterator[JournalEntry]:
        """Return the entries of the matching addresses, oldest first."""
        return (entry for entry in self._entries(self.store.lines()) if matching(entry.address))

    def history(self) -> Iterator[JournalEntry | ReviewedTree]:
        """Return all entries and all reviewed trees, oldest first."""
        for line in self.store.lines():
            yield from self._entries([line])
            if review := ReviewedTree.parse(line.data):
                yield review

    def record_review(self, tree: str, *, run_id: str, at_ms: int) -> None:
        """Store that a run with a reviewed plan has loaded this tree of manifests."""
        review = ReviewedTree(tree=tree, run_id=run_id, at_ms=at_ms, reviewed_at_ms=at_ms, **self._author)
        self.store.append([review.dump().encode("ascii")])

    def find_review(self, tree: str, *, now_ms: int) -> ReviewedTree | None:
        """Return a record of a reviewed tree; None: no run has stored one, or the journal has lost
        it.

        An old record is stored again, so that the retention of a topic never removes the last one.
        """
        review: ReviewedTree | None = None
        for since_ms in (now_ms - REVIEW_RECENT_MS, 0):  # most runs read one day
            for line in self.store.lines(since_ms=since_ms, containing=tree.encode("ascii")):
                try:
                    record = ReviewedTree.parse(line.data)
                except ValueError as error:
                    raise self.store.damaged(line.location, error) from None
                if record is not None and record.tree == tree:
                    review = record
            if review is not None:
                break
        if review is not None and not 0 <= now_ms - review.at_ms <= REVIEW_RECENT_MS // 2:
            self.store.append([replace(review, at_ms=now_ms).dump().encode("ascii")])
        return review

    def open_intents(self, plan_digest: str, *, since_ms: int = 0) -> Mapping[Address, JournalEntry]:
        """Return each action's newest intent, where no later outcome of any run decides it.

        `since_ms`: when the plan was made; no entry of it is older.
        """
        intents: dict[Address, dict[str, JournalEntry]] = {}
        lines = self.store.lines(since_ms=since_ms - _CLOCK_TOLERANCE_MS, containing=plan_digest.encode())
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
            line = BatchLine(at_ms=at_ms, event=Event.OUTCOME, run_id=run_id, plan_digest="", operation="", actions=())
            self.store.append([_BATCH.encode(line).encode("ascii")])

    def _read_on(self, since_ms: int) -> None:
        """Read on from where the last call ended, or again from a time before its beginning."""
        since_ms -= _CLOCK_TOLERANCE_MS
        if self._since_ms is None or since_ms < self._since_ms:
            self._since_ms, self._position, self._purges, self._newest_ms = since_ms, {}, {}, {}
        position = dict(self._position)
        for at_ms, entries in self._parse(self.store.lines(since_ms=self._since_ms, position=position)):
            self._note_time(at_ms)
            for entry in entries:
                self._newest_ms[entry.run_id] = at_ms
                self._note_purge(entry)
        self._position = position

    def _note_time(self, at_ms: int) -> None:
        """Note that all purges so far were before `at_ms`, also those that are stamped later."""
        if at_ms < self._latest_ms:
            for runs in self._purges.values():
                runs |= {run: purge._replace(before_ms=at_ms) for run, purge in runs.items() if purge.before_ms > at_ms}
        self._latest_ms = at_ms

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
        purge = runs.get(entry.run_id)
        if entry.event is Event.OUTCOME and entry.sends == 0:
            runs.pop(entry.run_id, None)
            return
        began_ms = entry.at_ms if purge is None else purge.at_ms
        in_flight_ms = None
        if entry.event is Event.OUTCOME:  # forget the runs that ended before: a long watch stays small
            self._purges[partition] = runs = {
                run: other
                for run, other in runs.items()
                if other.at_ms >= began_ms or other.at_ms + (other.in_flight_ms or 0) > entry.at_ms
            }
        else:
            in_flight_ms = _IN_FLIGHT_UNKNOWN_MS if entry.in_flight_ms is None else entry.in_flight_ms
        runs[entry.run_id] = _RunPurge(entry.at_ms, entry.at_ms, in_flight_ms)

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
