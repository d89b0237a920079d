"""Logs of one partition with records, markers, aborted and open transactions, and what brokers say of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hypothesis import strategies as st

from reconciler.model.snapshot import LookupKind, PartitionFacts, RecordLookup, RecordStamp
from tests.strategies.facts import DAY, NOW_MS, SECOND, partition

NONE, SECONDS, MICROSECONDS = -1, NOW_MS // 1_000, NOW_MS * 1_000
LATEST_MS = NOW_MS + 300 * SECOND
"""The last timestamp that a record of now may have: clocks differ, and records come while a scan goes on."""


class Entry(Enum):
    """What is at an offset."""

    RECORD = "a record"
    MARKER = "a transaction marker"
    ABORTED = "a record of an aborted transaction"


@dataclass(frozen=True)
class Log:
    """Entries with their timestamps from offset 0 on. `stable`: the last stable offset.

    `kept`: how many entries below the log start brokers still have, in segments that a purge left to them.
    """

    entries: tuple[tuple[Entry, int], ...]
    log_start: int
    stable: int
    kept: int = 0

    @property
    def has_transactions(self) -> bool:
        return self.stable < len(self.entries) or any(entry is not Entry.RECORD for entry, _ms in self.entries)

    def records(self, start: int, end: int) -> list[RecordStamp]:
        """The records that a read-committed consumer is given from `start` to before `end`."""
        entries = enumerate(self.entries[: min(end, self.stable)])
        return [RecordStamp(at, ms) for at, (entry, ms) in entries if at >= start and entry is Entry.RECORD]

    def offset_at(self, instant_ms: int, *, end: int) -> int | None:
        """As a broker answers: markers and aborted records count; what has no timestamp, or was purged, ends the search.

        A segment without timestamps counts as old as its file; here each entry has a segment of its own.
        """
        for at, (_entry, ms) in enumerate(self.entries[:end]):
            if at >= self.log_start - self.kept and (ms >= instant_ms or ms == NONE):
                return at if ms >= instant_ms and at >= self.log_start else None
        return None

    def facts(self, instants_ms: Sequence[int], **facts: Any) -> PartitionFacts:
        """What a scan reads of this log, with an answer to each lookup."""
        offsets = {instant: self.offset_at(instant, end=self.stable) for instant in instants_ms}
        stamps = {instant: self.entries[at][1] for instant, at in offsets.items() if at is not None}
        return partition(
            log_start=self.log_start,
            last_stable_offset=self.stable,
            high_watermark=len(self.entries),
            offsets_at=offsets,
            readers_below=self.stable,
            future_stamps={instant: ms for instant, ms in stamps.items() if ms > NOW_MS},
            lookups=_Answers(self),
            **facts,
        )


class _Answers(dict[RecordLookup, Any]):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def __bool__(self) -> bool:
        return True

    def get(self, lookup: RecordLookup, _default: object = None) -> RecordStamp | None:
        log, entries = self.log, self.log.entries
        if lookup.kind is LookupKind.NEWEST:
            newest = max(range(log.log_start - log.kept, len(entries)), key=lambda at: entries[at][1], default=None)
            return None if newest is None else RecordStamp(newest, entries[newest][1])
        if lookup.kind is LookupKind.UNCOMMITTED:
            offset = log.offset_at(lookup.start, end=len(entries))
            return None if offset is None else RecordStamp(offset, entries[offset][1])
        found = log.records(lookup.start, lookup.end)
        return (found[0] if lookup.kind is LookupKind.FIRST else found[-1]) if found else None


@st.composite
def logs(draw: st.DrawFn, *, stamps: st.SearchStrategy[int] | None = None) -> Log:
    """Draw a log of up to 15 offsets, or of more than 20: mostly old records, with exceptions that matter at either end.

    One in three has seen no transaction.
    """
    old = st.sampled_from([NOW_MS - days * DAY for days in (8, 30)])
    others = st.sampled_from(
        [NONE, 0, SECONDS, MICROSECONDS, LATEST_MS, LATEST_MS + 1, *(NOW_MS - d * DAY for d in (1, 7))]
    )
    is_plain = draw(st.integers(0, 2)) == 0
    kind = st.sampled_from([Entry.RECORD] if is_plain else [Entry.RECORD, *Entry])
    entry = st.tuples(kind, st.one_of(old, others) if stamps is None else stamps)
    old_entry = st.tuples(kind, old if stamps is None else stamps)
    head, middle, tail = (draw(st.lists(part, min_size=1, max_size=5)) for part in (entry, old_entry, entry))
    middle *= draw(st.sampled_from([1, 25]))
    entries = (*head, *middle, *tail)
    stable = len(entries) if is_plain else draw(st.integers(len(head) + len(middle), len(entries)))
    log_start = draw(st.one_of(st.integers(0, len(head) - 1), st.just(stable)))
    return Log(entries, log_start, stable, kept=draw(st.integers(0, log_start)))
