"""The newest purge of each partition, from the entries of a journal. A policy allows one within `every`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reconciler.journal.entry import Event, JournalEntry
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.snapshot import Purge, Unknown
from reconciler.text.formatting import format_instant

CLOCK_TOLERANCE_MS = 60_000
"""A time further in the future is no time: a clock is, or was, wrong."""
IN_FLIGHT_MAX_MS = 12 * 60_000
"""How far back intents without an outcome are read: `--timeout` is ten minutes at most."""
_IN_FLIGHT_UNKNOWN_MS = 60_000
"""How long the request of an intent may be under way that does not say so, as of format 2."""
_CONFIRMED = (Status.APPLIED, Status.SATISFIED)
"""Outcomes that a read of the cluster proved."""


class PurgeClock:
    """The newest purge of each partition by each run. Takes entries in the order of storage."""

    def __init__(self) -> None:
        self._latest_ms = 0
        self._run_ms: dict[str, int] = {}
        self._purges: dict[TopicPartition, dict[str, _RunPurge]] = {}

    def note(self, at_ms: int, entries: Sequence[JournalEntry]) -> None:
        """Note the entries of a line, and that all purges so far were before its time `at_ms`."""
        if at_ms < self._latest_ms:  # so earlier lines are stamped later than it
            for runs in self._purges.values():
                runs |= {run: purge._replace(before_ms=at_ms) for run, purge in runs.items() if purge.before_ms > at_ms}
        self._latest_ms = at_ms
        for entry in entries:
            self._run_ms[entry.run_id] = at_ms
            if entry.operation == "delete_records":
                self._note_purge(entry)

    def time_of(self, run_id: str) -> int | None:
        """Return the time of the newest entry of a run; None: it has none."""
        return self._run_ms.get(run_id)

    def newest(
        self, journal_ms: int, *, shift_ms: int = 0, except_run: str | None = None
    ) -> Mapping[TopicPartition, Purge | Unknown]:
        """Return each partition's newest purge, later by `shift_ms`, without those of a run.

        `journal_ms`: now, of the clock that stamps the entries. Unknown: a purge is stamped in the
        future, and no later line says since when it was there.
        """
        return {
            partition: _newest_purge(others, journal_ms, shift_ms)
            for partition, runs in self._purges.items()
            if (others := [purge for run, purge in runs.items() if run != except_run])
        }

    def _note_purge(self, entry: JournalEntry) -> None:
        """Note the newest purge of a partition, by run.

        A purge counts from its outcome, which is stored after the broker answered, and before that
        from its intent. An outcome that proves that no request was sent removes the intent; an
        unanswered or refused request is no such proof.
        """
        partition = TopicPartition(entry.address.name, entry.address.partition)
        runs = self._purges.setdefault(partition, {})
        purge = runs.get(entry.run_id)
        if entry.event is Event.OUTCOME and entry.sends == 0:
            runs.pop(entry.run_id, None)
            return
        began_ms = entry.at_ms if purge is None else purge.at_ms
        in_flight_ms = None
        if entry.status not in _CONFIRMED and purge is not None and purge.in_flight_ms is not None:
            # Nothing shows that the request has ended, so it may still be under way.
            in_flight_ms = max(0, purge.at_ms + purge.in_flight_ms - entry.at_ms)
        if entry.event is Event.OUTCOME:  # forget the runs that ended before: a long watch stays small
            self._purges[partition] = runs = {
                run: other
                for run, other in runs.items()
                if other.at_ms >= began_ms or other.at_ms + (other.in_flight_ms or 0) > entry.at_ms
            }
        else:
            in_flight_ms = _IN_FLIGHT_UNKNOWN_MS if entry.in_flight_ms is None else entry.in_flight_ms
        runs[entry.run_id] = _RunPurge(entry.at_ms, entry.at_ms, in_flight_ms)


class _RunPurge(NamedTuple):
    """The newest purge of a partition by one run.

    `before_ms`: the earliest time of this line and all later ones; the purge was before that.
    `in_flight_ms`: how long its request may be under way; None: the cluster showed its effect.
    """

    at_ms: int
    before_ms: int
    in_flight_ms: int | None

    def at(self, now_ms: int) -> int | None:
        """Return its time; None: it is in the future, so a clock was wrong, and no later line helps."""
        latest_ms = now_ms + CLOCK_TOLERANCE_MS
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
