"""The journal of actions: what runs store, the last deletions, and intents of interrupted runs.

Entries and their lines: entry.py. The stores are a file (file.py) and a topic
(kafka/journal_topic.py): they append and read lines and know no entry. The journal decides no
request: the cluster alone says what remains to be done.
"""

import getpass
import logging
import os
import socket
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from reconciler.errors import JournalUnavailable
from reconciler.journal import observed
from reconciler.journal.entry import Event, JournalEntry, Record, RemovedOffsets, create, dump, dump_batch, parse
from reconciler.journal.observed import ObservationLine
from reconciler.journal.release import RELEASE_RECENT_MS, Approval, Release, ReviewedTree
from reconciler.model.action import Action
from reconciler.model.garbage import gc_paused
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import SCAN_AHEAD_MAX_MS
from reconciler.model.snapshot import CLOCKS_APART_MAX_MS, GroupObservation

_LOG = logging.getLogger(__name__)
_CLOCK_TOLERANCE_MS = CLOCKS_APART_MAX_MS + SCAN_AHEAD_MAX_MS
"""How much earlier than asked for entries are read, and count as of a plan, which may lie ahead of its run."""


_Claims = Mapping[str, Mapping[str, str | int]]
"""What runs asked for, by their ids."""


class Line(NamedTuple):
    """A line without its line end, and its location for an error message.

    `stored_at_ms`: when the broker stored it; None: the store does not know.
    """

    data: bytes
    location: str
    stored_at_ms: int | None = None


class LineStore(Protocol):
    """Lines, appended only. Every method raises JournalUnavailable."""

    def append(self, lines: Sequence[bytes]) -> int | None:
        """Store lines: all of them, or an error. Returns when they are safe.

        The result: when the brokers stored the last one, by their clock; None: nothing tells.
        """

    def lines(self, *, since_ms: int = 0, containing: bytes = b"") -> Iterator[Line]:
        """Yield lines in the order of storage: since a time, and perhaps some older ones.

        `containing`: only lines with these bytes, and damaged ones.
        """

    def damaged(self, location: str, error: ValueError) -> JournalUnavailable:
        """The error for a line that is not an entry."""


class ActionJournal:
    """A journal over a store of lines: an intent before each request, an outcome after it.

    Safe between threads. Every method raises JournalUnavailable. `author`: `who`, `commit`, `run_url` and
    `approver` of its entries. `unread`: why the last reading of a plan's entries failed; empty: it did not.
    """

    def __init__(self, store: LineStore, **author: str | None) -> None:
        self.store = store
        self.unread = ""
        self._author: dict[str, Any] = author

    def set_commit(self, commit: str | None) -> None:
        """Name the commit of the plan that the next entries are of."""
        self._author["commit"] = commit

    def record(
        self,
        events: Sequence[Action | Outcome],
        *,
        run_id: str,
        plan_digest: str,
        at_ms: int,
        removed_offsets: RemovedOffsets | None = None,
    ) -> int | None:
        """Store the intents of actions that are about to be sent, or outcomes, in few lines.

        `removed_offsets`: of those intents that have some. Returns the time of `LineStore.append`.
        """
        run = {"run_id": run_id, "plan_digest": plan_digest, "at_ms": at_ms, **self._author}
        with gc_paused():
            entries = [create(event, removed_offsets, **run) for event in events]
            stored = [line.encode("ascii") for line in dump_batch(entries)]
        return self.store.append(stored) if stored else None

    def last_purges(self, *, every_ms: int, now_ms: int) -> Mapping[TopicPartition, int]:
        """Return when each partition last lost records: within `every_ms`, and perhaps some before.

        A time later than `now_ms` counts as none: a clock is, or was, wrong. So does a request
        without an outcome. Both lead to one request more, and no record that a rule keeps.
        """
        last: dict[TopicPartition, int] = {}
        for entry in self._records(self.store.lines(since_ms=now_ms - every_ms - _CLOCK_TOLERANCE_MS), JournalEntry):
            if entry.removed_max and entry.at_ms <= now_ms:
                last[TopicPartition(entry.address.name, entry.address.partition)] = entry.at_ms
        return last

    def record_observations(self, observations: Iterable[GroupObservation], *, cluster_id: str, run_id: str) -> None:
        """Store what one scan saw of groups, a line for each."""
        self._store(observed.of_scan(seen, cluster_id=cluster_id, run_id=run_id) for seen in observations)

    def observations(
        self, groups: Collection[str], *, cluster_id: str, since_ms: int
    ) -> Mapping[str, tuple[GroupObservation, ...]]:
        """Return what scans since a time saw of some groups, by the clock of the brokers where they stamp."""
        lines = self.store.lines(since_ms=since_ms - _CLOCK_TOLERANCE_MS)
        return observed.by_group(self._records(lines, JournalEntry, ObservationLine), groups, cluster_id)

    def observed_scans(self) -> Mapping[str, int]:
        """Return when each scan was that has observed groups, oldest first."""
        return {line.run_id: line.at_ms for line in self._records(self.store.lines(), ObservationLine)}

    def entries(self) -> Iterator[JournalEntry]:
        """Return the entries of actions, oldest first."""
        return self._records(self.store.lines(), JournalEntry)

    def history(self) -> Iterator[JournalEntry | Approval]:
        """Return all entries, releases and reviewed trees of earlier versions, oldest first."""
        return self._records(self.store.lines(), JournalEntry, Release, ReviewedTree)

    def record_release(self, manifests: str, *, run_id: str, at_ms: int) -> None:
        """Store that a run with an approved plan of these manifests has loaded them.

        Its time is later than that of every release before it, also where clocks differ.
        """
        last = self.find_release(at_ms)
        released_at_ms = at_ms if last is None else max(at_ms, last.released_at_ms + 1)
        self._store(
            [Release(manifests=manifests, run_id=run_id, at_ms=at_ms, released_at_ms=released_at_ms, **self._author)]
        )

    def newest_release(self, *, now_ms: int) -> Release | None:
        """Return the newest release; None: no run has stored one, or the journal has lost it.

        An old record is stored again, so that the retention of a topic never removes the last one.
        Whoever stores it reads on: a release that came in between is newer, and is kept as well.
        """
        newest, kept_ms = self.find_release(now_ms), -1
        while (
            newest is not None
            and newest.released_at_ms != kept_ms
            and not 0 <= now_ms - newest.at_ms <= RELEASE_RECENT_MS // 2
        ):
            self._store([replace(newest, at_ms=now_ms)])
            kept_ms = newest.released_at_ms
            newest = self._last_release(since_ms=min(newest.at_ms, now_ms) - RELEASE_RECENT_MS)
        return newest

    def find_release(self, now_ms: int) -> Release | None:
        """Return the newest release as `newest_release` does, and store nothing. Most runs read one day."""
        return self._last_release(since_ms=now_ms - RELEASE_RECENT_MS) or self._last_release(since_ms=0)

    def _last_release(self, *, since_ms: int) -> Release | None:
        """Return the release with the latest time, in its last record."""
        # All lines: a newest release that is damaged must not make the one before it count again.
        releases = sorted(self._records(self.store.lines(since_ms=since_ms), Release), key=attrgetter("released_at_ms"))
        return releases[-1] if releases else None

    def _store(self, records: Iterable[Record]) -> None:
        if lines := [dump(record).encode("ascii") for record in records]:
            self.store.append(lines)

    def open_intents(self, plan_digest: str, *, since_ms: int = 0) -> Mapping[Address, JournalEntry]:
        """Return each action's newest intent, where no later outcome of any run decides it."""
        intents = defaultdict[Address, dict[str, JournalEntry]](dict)
        for entry in self._of_plan(plan_digest, since_ms):
            by_run = intents[entry.address]
            # an outcome without a request says nothing about the request of another run
            undecided = entry.sends == 0 and entry.status in (Status.NOT_ATTEMPTED, Status.WAITING)
            if entry.event is Event.OUTCOME and not undecided:
                by_run.clear()
                continue
            by_run.pop(entry.run_id, None)
            if entry.event is Event.INTENT:
                by_run[entry.run_id] = entry
        return {address: list(by_run.values())[-1] for address, by_run in intents.items() if by_run}

    def removed_groups(self, plan_digest: str, *, since_ms: int) -> Mapping[Address, str]:
        """Return the groups that a run of the plan, or the restore of one, has found gone, each with the last such run.

        Not long before `since_ms`: a plan that is made again may have the same digest.
        """
        return {
            entry.address: entry.run_id
            for entry in self._of_plan(plan_digest, since_ms, restores=True)
            if (entry.plan_digest != plan_digest or entry.status in (Status.APPLIED, Status.SATISFIED))
            and entry.address.is_of_group
            and entry.at_ms >= since_ms - _CLOCK_TOLERANCE_MS
        }

    def other_claims(self, plan_digest: str, run_id: str, *, since_ms: int = 0) -> Mapping[Address, _Claims]:
        """Return the other runs of the plan that may have removed records, by address, and what they asked for.

        A run may have with an intent that has no outcome, and has with an outcome that removed some.
        """
        claims = defaultdict[Address, dict[str, Mapping[str, str | int]]](dict)
        for entry in self._of_plan(plan_digest, since_ms, without=f'"run":"{run_id}"'.encode()):
            claims[entry.address].pop(entry.run_id, None)
            if entry.event is Event.INTENT or entry.removed_max:
                claims[entry.address][entry.run_id] = entry.request
        return claims

    def _of_plan(
        self, plan_digest: str, since_ms: int, *, without: bytes | None = None, restores: bool = False
    ) -> Iterator[JournalEntry]:
        """Yield the entries of a plan, made at `since_ms`, and perhaps those of runs that restored what it removed.

        `without`: no line with these bytes is parsed.
        """
        digests = {plan_digest, restore_of(plan_digest)} if restores else {plan_digest}
        self.unread = ""
        try:
            lines = self.store.lines(since_ms=since_ms - _CLOCK_TOLERANCE_MS, containing=plan_digest.encode())
            others = (line for line in lines if without is None or without not in line.data)
            yield from (entry for entry in self._records(others, JournalEntry) if entry.plan_digest in digests)
        except JournalUnavailable as error:
            self.unread = str(error)
            raise

    def _records(self, lines: Iterable[Line], *kinds: type[Any]) -> Iterator[Any]:
        """Yield the records of these kinds, with the store's time where it has one; a release keeps its own."""
        for line in lines:
            try:
                records = parse(line.data, *kinds)
            except ValueError as error:
                raise self.store.damaged(line.location, error) from None
            for record in records:
                is_stamped = line.stored_at_ms is not None and not isinstance(record, Release | ReviewedTree)
                yield replace(record, at_ms=line.stored_at_ms) if is_stamped else record


def restore_of(plan_digest: str) -> str:
    """Return the digest of a run that restores what a plan removed: another one, so that no intent of the plan ends."""
    return f"restore of {plan_digest}"


def note_other_claims(
    outcomes: Sequence[Outcome], journal: ActionJournal, plan_digest: str, run_id: str, *, since_ms: int
) -> Sequence[Outcome]:
    """Return the outcomes with the other runs of the plan that may have removed the same records.

    Two runs side by side each count what both asked for: a sum over them would count it twice.
    """
    if not any(outcome.removed_max for outcome in outcomes):
        return outcomes
    try:
        claims = journal.other_claims(plan_digest, run_id, since_ms=since_ms)
    except JournalUnavailable as error:
        _LOG.warning("whether another run of the plan counts the same records is unknown: %s", error)
        return outcomes
    return [
        replace(outcome, also_counted_by=_others(outcome, claims.get(outcome.action.address, {})))
        for outcome in outcomes
    ]


def _others(outcome: Outcome, claims: _Claims) -> tuple[str, ...]:
    """Return the runs that may count the same records: not those whose target this run has found reached."""

    def left(target: str | int | None) -> int:
        return outcome.action.records_removed_max(target) if isinstance(target, int) else 0

    return tuple(run for run in sorted(claims) if outcome.removed_max > left(claims[run].get("before_offset")))


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
    return actor.encode("utf-8", "backslashreplace").decode("utf-8")  # a variable may hold bytes that are not text
