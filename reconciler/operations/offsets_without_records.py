"""What a transaction marker and an aborted record count as: offsets, and no records."""

from collections.abc import Iterator

from reconciler.model.block_reason import LookupNeeded
from reconciler.model.snapshot import NOT_ASKED, LookupKind, PartitionFacts, RecordLookup, RecordStamp, Unknown

SEARCHED_OFFSETS = 10_000
"""How far below a floor its last record is looked for, and how far behind a group may be to prove that it has read all."""


def last_in(start: int, end: int) -> RecordLookup:
    """Return the lookup of the last record from `start` up to `end`, as far below the end as one is looked for."""
    return RecordLookup(LookupKind.LAST, max(start, end - SEARCHED_OFFSETS), end)


def find_records(facts: PartitionFacts, *lookups: RecordLookup) -> Iterator[RecordStamp | Unknown | None]:
    """Yield the answer to each lookup. Raises LookupNeeded."""
    found = [facts.lookups.get(lookup, NOT_ASKED) for lookup in lookups]
    if needed := tuple(lookup for lookup, answer in zip(lookups, found, strict=True) if answer is NOT_ASKED):
        raise LookupNeeded(facts.partition, needed)
    return iter(found)


def count_gaps(facts: PartitionFacts, start: int, end: int) -> tuple[int, str]:
    """Return how many offsets from `start` up to `end` hold no record, or may hold none; and why that is so.

    Looked for are the gaps before the first record and behind the last one. Gaps between records stay
    unseen: nothing but reading all of them shows those. Raises LookupNeeded.
    """
    if start >= end:
        return 0, ""
    first, last = find_records(facts, RecordLookup(LookupKind.FIRST, start, end), last_in(start, end))
    kept = f"the offsets from {start} up to {end}"
    for answer in (first, last):
        if isinstance(answer, Unknown):
            return end - start, f"whether {kept} hold records is not known ({answer.reason}), so no limit counts them"
    if first is None:
        return end - start, f"{kept} hold no record, only transaction markers and aborted records"
    if last is None:
        searched = f"none of the last {SEARCHED_OFFSETS:,} offsets below {end} holds a record"
        return end - start - 1, f"{searched}, so limits count one record of {kept}"
    assert isinstance(first, RecordStamp)
    assert isinstance(last, RecordStamp)
    return first.offset - start + end - 1 - last.offset, ""


def next_record(facts: PartitionFacts, position: int, floor: int) -> tuple[int, str]:
    """Return the first offset at or above `position` that may hold a record, at most `floor`; and what is not known.

    Transaction markers and aborted records have offsets, and a read-committed consumer is given none.
    Floors are at or below the last stable offset, so what is proven stays true.
    """
    if floor - position > SEARCHED_OFFSETS:
        return position, ""
    (found,) = find_records(facts, RecordLookup(LookupKind.FIRST, position, floor))
    if isinstance(found, Unknown):
        return position, f"; whether these offsets hold records is not known: {found.reason}"
    return (floor if found is None else found.offset), ""
