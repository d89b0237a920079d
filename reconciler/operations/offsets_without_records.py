"""What a transaction marker and an aborted record count as: offsets, and no records."""

from collections.abc import Iterator

from reconciler.model.block_reason import LookupNeeded
from reconciler.model.snapshot import NOT_ASKED, LookupKind, PartitionFacts, RecordLookup, RecordStamp, Unknown

SEARCHED_OFFSETS = 10_000
"""How far below a floor its last record is looked for, and how far behind a group may be to prove that it has read all."""


def find_records(facts: PartitionFacts, *lookups: RecordLookup) -> Iterator[RecordStamp | Unknown | None]:
    """Yield the answer to each lookup. Raises LookupNeeded."""
    found = [facts.lookups.get(lookup, NOT_ASKED) for lookup in lookups]
    if needed := tuple(lookup for lookup, answer in zip(lookups, found, strict=True) if answer is NOT_ASKED):
        raise LookupNeeded(facts.partition, needed)
    return iter(found)


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
