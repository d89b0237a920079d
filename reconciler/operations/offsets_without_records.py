"""What a transaction marker and an aborted record count as: offsets, and no records."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from reconciler.model.block_reason import LookupNeeded
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import (
    NOT_ASKED,
    ClusterSnapshot,
    LookupKind,
    PartitionFacts,
    RecordLookup,
    RecordStamp,
    Unknown,
)

_EDGE = 10
"""So many offsets in a row may be the markers of transactions that ended side by side."""
FEW_OFFSETS = 20
_FEW_PARTITIONS = 4
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


class Counted(NamedTuple):
    """Offsets of a partition that may be taken for records, the others, and in words why these are many."""

    records: int = 0
    gaps: int = 0
    words: str = ""


def count_records(facts: PartitionFacts, partitions: int) -> Counted:
    """Return which offsets of a partition may be taken for records, of a topic with so many partitions.

    Nothing but reading all of them shows which hold one. So records are looked up on both sides of some
    places. More than a few markers there are aborted records, which come in numbers, as of a producer
    that fails again and again: nothing up to the next places counts then. Gaps elsewhere stay unseen.
    The places are the ends and the quarters, or, of a topic with many partitions, another place in each.
    Raises LookupNeeded.
    """
    log_start, stable, number = facts.log_start, facts.last_stable_offset, facts.partition.partition
    if isinstance(log_start, Unknown) or isinstance(stable, Unknown) or stable <= log_start:
        return Counted()
    offsets = stable - log_start
    eighths = () if offsets < FEW_OFFSETS else (2, 4, 6) if partitions <= _FEW_PARTITIONS else (number % 7 + 1,)
    places = [log_start, *(log_start + offsets * eighth // 8 for eighth in eighths), stable]
    inner = min(_EDGE, offsets // 8)  # not beyond the next place
    edges = [(place, inner if log_start < place < stable else _EDGE) for place in places]
    lookups = (
        RecordLookup(kind, max(log_start, place - edge), min(place + edge, stable))
        for place, edge in edges
        for kind in (LookupKind.FIRST, LookupKind.LAST)
    )
    answers, bounds = find_records(facts, *lookups), list[int | None]()
    for place, first, last in zip(places, answers, answers, strict=True):
        for answer in (first, last):
            if isinstance(answer, Unknown):
                why = f"whether its offsets hold records is not known ({answer.reason})"
                return Counted(0, offsets, f"{why}, so no limit counts them")
        start = first.offset if isinstance(first, RecordStamp) else stable
        end = last.offset + 1 if isinstance(last, RecordStamp) else log_start
        is_dense = start < end and (place == log_start or start < place) and (place == stable or place < end)
        bound = start if place == log_start else end if place == stable else place
        bounds.append(bound if is_dense else None)
    parts = [0 if left is None or right is None else right - left for left, right in pairwise(bounds)]
    records = sum(parts)
    words = "" if all(parts) else f"limits count {records:,} of {offsets:,} offsets: the others may hold no record"
    return Counted(records, offsets - records, words)


def known_records(snapshot: ClusterSnapshot, partition: TopicPartition) -> Counted:
    """Return what was looked up of a partition whose records are in totals; otherwise nothing."""
    topic, facts = snapshot.topics.get(partition.topic), snapshot.partitions.get(partition)
    if topic is None or facts is None or isinstance(topic.partitions, Unknown):
        return Counted()
    try:
        return count_records(facts, topic.partitions) if topic.records_min and facts.lookups else Counted()
    except LookupNeeded:
        return Counted()


def topic_records(snapshot: ClusterSnapshot, topic: str) -> int | Unknown:
    """Return how many records a topic has at least.

    What could not be read, and what need not be a record, counts as none, so a share looks larger. Where
    transactions are possible, the topic has the records of the partitions that were looked at.
    """
    facts = snapshot.topics.get(topic)
    records = NOT_ASKED if facts is None else facts.records
    if facts is None or (isinstance(records, Unknown) and not facts.records_min):
        reason = records.reason if isinstance(records, Unknown) else ""
        return Unknown(f"the records of {topic} could not be counted: {reason}")
    if not snapshot.may_have_transactions or isinstance(facts.partitions, Unknown):
        return facts.records_min
    partitions = (TopicPartition(topic, number) for number in range(facts.partitions))
    return sum(known_records(snapshot, partition).records for partition in partitions)


def cluster_records(snapshot: ClusterSnapshot, _bucket: str) -> int | Unknown:
    """Return the same of all topics, of which only those that lose records were looked at."""
    records = snapshot.cluster_records
    if isinstance(records, Unknown):
        return Unknown(f"the cluster's records could not be counted: {records.reason}")
    if not snapshot.may_have_transactions:
        return records
    return records - sum(known_records(snapshot, partition).gaps for partition in snapshot.partitions)


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
