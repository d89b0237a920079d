"""What a transaction marker and an aborted record count as: offsets, and no records."""

from collections.abc import Iterator
from itertools import pairwise

from reconciler.model.block_reason import LookupNeeded
from reconciler.model.snapshot import NOT_ASKED, LookupKind, PartitionFacts, RecordLookup, RecordStamp, Unknown

_PARTS = 4
"""In how many parts of a partition gaps are looked for, at the edges: one that is larger than a part is always seen."""
_EDGE = 10
"""So many offsets in a row may be the markers of transactions that ended side by side."""
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


def count_gaps(facts: PartitionFacts) -> tuple[int, str]:
    """Return how many offsets of a partition hold no record, or may hold none; and in words where that is much.

    Nothing but reading all of them shows that. So records are looked up at both edges of each part. More
    than a few markers there are aborted records, which come in numbers, as of a producer that fails again
    and again: nothing of the part counts then. Gaps elsewhere stay unseen. Raises LookupNeeded.
    """
    log_start, stable = facts.log_start, facts.last_stable_offset
    if isinstance(log_start, Unknown) or isinstance(stable, Unknown) or stable <= log_start:
        return 0, ""
    offsets = stable - log_start
    parts = [*pairwise(sorted({log_start + offsets * part // _PARTS for part in range(_PARTS + 1)}))]
    lookups = (
        lookup
        for start, end in parts
        for lookup in (
            RecordLookup(LookupKind.FIRST, start, min(start + _EDGE, end)),
            RecordLookup(LookupKind.LAST, max(start, end - _EDGE), end),
        )
    )
    answers = find_records(facts, *lookups)
    gaps, words = 0, ""
    for (start, end), first, last in zip(parts, answers, answers, strict=True):
        for answer in (first, last):
            if isinstance(answer, Unknown):
                why = f"whether its offsets hold records is not known ({answer.reason})"
                return offsets, f"{why}, so no limit counts them"
        if isinstance(first, RecordStamp) and isinstance(last, RecordStamp):
            gaps += first.offset - start + end - 1 - last.offset
        else:
            gaps += end - start
            words = "no limit counts {:,} of {:,} offsets, which hold no record or may hold none"
    return gaps, words.format(gaps, offsets)


def known_gaps(facts: PartitionFacts) -> tuple[int, str]:
    """Return `count_gaps`, or no gaps where nothing was looked up."""
    try:
        return count_gaps(facts)
    except LookupNeeded:
        return 0, ""


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
