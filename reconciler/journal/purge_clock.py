"""When each partition was last purged, according to the journal.

A purge counts from its outcome, which is stored after the broker answered. While there is no
outcome, it counts from its intent. An outcome that proves that no request was sent removes the
intent; an unanswered or refused request is no such proof.
"""

from collections.abc import Iterable

from reconciler.journal.entry import Event, JournalEntry
from reconciler.model.names import TopicPartition


class PurgeClock:
    """The newest purge of each partition, by run. Takes entries in the order of their storage."""

    def __init__(self) -> None:
        self._times: dict[TopicPartition, dict[str, int]] = {}

    def update(self, entries: Iterable[JournalEntry]) -> None:
        for entry in entries:
            partition = entry.partition
            if partition is None:
                continue
            if entry.event is Event.INTENT:
                runs = self._times.setdefault(partition, {})
                runs[entry.run_id] = max(entry.at_ms, runs.get(entry.run_id, entry.at_ms))
            elif entry.sends == 0:
                self._times.get(partition, {}).pop(entry.run_id, None)
            else:
                self._record_outcome(partition, entry)

    def last_purges(self, *, except_run: str | None = None) -> dict[TopicPartition, int]:
        """Epoch ms of the newest purge of each partition, without the purges of `except_run`."""
        others = (
            (partition, [at for run, at in runs.items() if run != except_run])
            for partition, runs in self._times.items()
        )
        return {partition: max(times) for partition, times in others if times}

    def _record_outcome(self, partition: TopicPartition, outcome: JournalEntry) -> None:
        """Forget the runs that ended before this one began, so that a long watch stays small."""
        runs = self._times.get(partition, {})
        began_ms = runs.get(outcome.run_id, outcome.at_ms)
        newer = {run: at for run, at in runs.items() if at >= began_ms}
        self._times[partition] = newer | {outcome.run_id: max(began_ms, outcome.at_ms)}
