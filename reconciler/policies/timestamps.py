"""What timestamps of records prove to a time rule, and what else than a group holds its floor back.

The age of a record is its timestamp only if that is plausible. A rule asks for single records once its
floor is known: `LookupNeeded` says which.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.model.block_reason import BlockReason, unknown_fact, unread
from reconciler.model.snapshot import (
    CLOCKS_APART_MAX_MS,
    OLDEST_MS,
    LookupKind,
    PartitionFacts,
    RecordLookup,
    RecordStamp,
    Unknown,
    doubt_age,
)
from reconciler.operations.delete_records import ObservedPartition
from reconciler.operations.offsets_without_records import FEW_OFFSETS, SEARCHED_OFFSETS, find_records, last_in
from reconciler.text.formatting import count, format_instant

_FUTURE_STAMPS = 5
"""Records in a row with a timestamp of the future: a producer with a wrong clock writes many."""
_OPEN_TRANSACTION = "an open transaction"
_AGAIN = "plan again, with a longer --timeout if it stays so; or say last or fromOffset"
_NEWEST = RecordLookup(LookupKind.NEWEST)
_PLAUSIBLE = RecordLookup(LookupKind.UNCOMMITTED, OLDEST_MS)
_NO_TIMES = "say last or fromOffset, which need no timestamps"
_READ = "see that the principal may READ the topic, and what the log of its brokers says; or say last or fromOffset, then plan again"


@dataclass(frozen=True, slots=True)
class TimeRule:
    """A rule that keeps records from an instant on, in epoch ms.

    `words`: it, in a sentence. `before_ms`: its instant `driftAfter` ago. `answer`: the first offset at
    or after the instant; None: there is none. `age_ms`: how long it keeps a record; None: for ever.
    """

    words: str
    instant_ms: int
    before_ms: int
    answer: int | None = None
    age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a floor from rising, in a sentence. `overdue`: since before `driftAfter`.

    `what`: it without offsets, alike for many partitions.
    """

    words: str
    next_step: str
    overdue: bool
    what: str

    @property
    def is_transaction(self) -> bool:
        return self.what == _OPEN_TRANSACTION

    @property
    def caveat(self) -> str:
        return f"{self.what} holds the floor back"


def check_ages(
    facts: PartitionFacts,
    seen: ObservedPartition,
    before_offset: int,
    rules: Sequence[TimeRule],
    now_ms: int,
    *,
    has_markers: bool,
) -> TimeRule | None:
    """Raise BlockReason unless the records below `before_offset` are provably older than each rule keeps.

    Returns a rule that keeps them all, as after a purge of younger records; None: no rule keeps them.
    Two records stand for all: the first one, and the last one below the target. Brokers answer a query
    by timestamp segment by segment, and a segment without timestamps counts as old as its file
    (LogSegment.largestTimestamp), so it can end the search. Where they answered "none" and the newest
    timestamp is not old, a search that reads uncommitted must pass through to the end. `has_markers`:
    offsets may be transaction markers or aborted records.
    """
    if not rules:
        return None
    unbounded = [rule for rule in rules if rule.answer is None]
    first_record = RecordLookup(LookupKind.FIRST, seen.log_start, before_offset)
    # To read the first record of a long range is to read its batch. A search by time that ends at the log start has
    # found its record, unless that is a marker.
    is_searched = before_offset - seen.log_start > FEW_OFFSETS and not has_markers
    lookups = [
        _PLAUSIBLE if is_searched else first_record,
        last_in(seen.log_start, before_offset),
        *([_NEWEST] if unbounded else []),
        *(RecordLookup(LookupKind.UNCOMMITTED, rule.instant_ms) for rule in unbounded),
    ]
    found = list(find_records(facts, *lookups))
    if is_searched and not isinstance(found[0], Unknown) and (found[0] is None or found[0].offset != seen.log_start):
        found[:1] = find_records(facts, first_record)
    for lookup, answer in zip(lookups, found, strict=True):
        if isinstance(answer, Unknown):
            block = _unread(f"below {before_offset}", answer)
            # Brokers before Kafka 3.0 never tell the newest timestamp.
            raise _unproven(block.reason) if lookup == _NEWEST and not answer.unanswered else block
    first, last, newest, *passed = (answer for answer in (*found, None) if not isinstance(answer, Unknown))
    if first is None:
        return None  # transaction markers and aborted records only
    if (doubt := doubt_age(first.timestamp_ms, now_ms)) is not None:
        raise _unproven(f"the record at offset {first.offset} {doubt}, so its age is not known")
    for rule in unbounded:
        if first.timestamp_ms >= rule.instant_ms:  # the search ended before it
            return rule
    if last is None:
        searched = f"none of the last {SEARCHED_OFFSETS:,} offsets below {before_offset} holds a record"
        raise _unproven(f"{searched}, so how old the last one is is not known")
    if (doubt := doubt_age(last.timestamp_ms, now_ms)) is not None:
        raise _unproven(f"the record at offset {last.offset} {doubt}, so its age is not known")
    for rule in rules:
        if last.timestamp_ms >= rule.instant_ms:
            raise _contradicts("the record at offset", last, rule, before_offset)
    records = f"the records below {before_offset} are not all known to be old"
    for rule, young in zip(unbounded, passed, strict=False):
        if newest is None:  # brokers look among local segments only (KIP-405)
            raise _unproven(
                f"{records}: the brokers tell no newest timestamp, as where all of them are in remote storage"
            )
        if newest.timestamp_ms < last.timestamp_ms:
            # Brokers before Kafka 3.0 answer with the first record, and which versions they have may not be known.
            raise _unproven(
                f"the record at offset {last.offset} is newer than the newest timestamp that the brokers tell"
            )
        if newest.timestamp_ms < rule.instant_ms:
            continue
        if newest.offset < seen.log_start:  # a segment keeps the largest timestamp of what DeleteRecords took from it
            raise _unproven(
                f"{records}: the newest timestamp that the brokers tell is of offset {newest.offset}, deleted"
            )
        if young is None or min(young.offset, newest.offset) < seen.last_stable_offset:
            raise _contradicts("offset", newest, rule, before_offset)  # a record, or a transaction marker
    return None


def _contradicts(at: str, record: RecordStamp, rule: TimeRule, before_offset: int) -> BlockReason:
    stamp = format_instant(record.timestamp_ms)
    reason = f"{at} {record.offset} is stamped {stamp}, which {rule.words} keeps"
    return _unproven(f"{reason}, and by the brokers' search by time all below {before_offset} is older")


def _unread(which: str, fact: Unknown) -> BlockReason:
    reason = f"how old the records {which} are is not known: {fact.reason}"
    return unread("B216", reason, fact, next_step=_AGAIN if fact.unanswered else _READ)


def _unproven(reason: str) -> BlockReason:
    return BlockReason("B216", reason, next_step=_NO_TIMES)


def has_none_since(
    facts: PartitionFacts, seen: ObservedPartition, instant_ms: int, now_ms: int, *, ever: bool = False
) -> bool:
    """Return whether no record is as new as an instant, where the brokers' search by time found none; in doubt it is so.

    The search ends in the first segment that is as new (UnifiedLog.searchOffsetInLocalLog), whatever follows. What
    made it so may be gone: DeleteRecords or the cleaner took it, or it was the age of a file whose records have no
    timestamp. The newest timestamp of the log or the last record disproves it; `ever`: so does one that is gone, or
    is not committed. One of the future may end the search for ever: the first record decides. Raises LookupNeeded.
    """
    start, end, latest_ms = seen.log_start, seen.last_stable_offset, now_ms + CLOCKS_APART_MAX_MS
    deciding = RecordLookup(LookupKind.FIRST, start, end)
    (newest,) = find_records(facts, _NEWEST)
    if isinstance(newest, RecordStamp) and newest.timestamp_ms <= latest_ms:
        if newest.timestamp_ms < instant_ms or ever or start <= newest.offset < end:
            return newest.timestamp_ms < instant_ms
        deciding = last_in(start, end)
    if start >= end:
        return True
    (record,) = find_records(facts, deciding)
    return not (isinstance(record, RecordStamp) and instant_ms <= record.timestamp_ms <= latest_ms)


def _is_overdue(facts: PartitionFacts, start: int, end: int, rule: TimeRule, now_ms: int) -> bool:
    """Whether a record that a timestamp of the future keeps was due before `driftAfter`; in doubt it was."""
    lookup_of_last = last_in(start, end)
    for _ in range(_FUTURE_STAMPS):
        first, behind = find_records(facts, RecordLookup(LookupKind.FIRST, start, end), lookup_of_last)
        if isinstance(first, Unknown) or isinstance(behind, Unknown):
            return True
        if first is None or first.timestamp_ms <= now_ms + CLOCKS_APART_MAX_MS:
            return any(record is not None and record.timestamp_ms < rule.before_ms for record in (first, behind))
        start = first.offset + 1
    return True


def find_hold(facts: PartitionFacts, seen: ObservedPartition, rule: TimeRule, now_ms: int) -> Hold | None:
    """Return what keeps the floor of this rule from rising, other than a group; None: nothing does.

    A busy exactly-once topic always has its last stable offset below the high watermark. An open
    transaction holds the floor only if the rule would let records above the last stable offset go.
    Raises LookupNeeded.
    """
    end, latest_ms = seen.last_stable_offset, now_ms + CLOCKS_APART_MAX_MS
    stamp_ms = facts.future_stamps.get(rule.instant_ms)
    if stamp_ms is not None and stamp_ms > latest_ms and rule.answer is not None:
        until = "" if rule.age_ms is None else f" until {format_instant(stamp_ms + rule.age_ms)}"
        return Hold(
            f"the record at offset {rule.answer} is stamped {format_instant(stamp_ms)}, later than the scan, so "
            f"{rule.words} keeps it and what follows{until}",
            _NO_TIMES,
            overdue=_is_overdue(facts, rule.answer + 1, end, rule, now_ms),
            what="a timestamp later than the scan",
        )
    if seen.high_watermark <= end or (rule.answer is not None and rule.answer < end):
        return None
    lookups = (RecordLookup(LookupKind.UNCOMMITTED, instant_ms) for instant_ms in (rule.instant_ms, rule.before_ms))
    now, before = find_records(facts, *lookups)
    if isinstance(now, Unknown):
        raise unknown_fact(f"what follows the last stable offset of {facts.partition}", now)
    if now is not None and now.offset <= end and now.timestamp_ms <= latest_ms:
        return None
    waiting = (seen.high_watermark if now is None or now.offset <= end else now.offset) - end
    return Hold(
        f"a transaction that is open since offset {end} holds the floor back ({rule.words}): {count(waiting, 'offset')} wait for its end",
        f"wait for its end; only if its producer is gone: kafka-transactions.sh abort --topic {facts.partition.topic} "
        f"--partition {facts.partition.partition} --start-offset {end}",
        # The transaction began behind whatever is gone.
        overdue=has_none_since(facts, seen, rule.before_ms, now_ms, ever=True)
        if before is None
        else isinstance(before, Unknown) or before.offset > end,
        what=_OPEN_TRANSACTION,
    )


def find_marker(facts: PartitionFacts, seen: ObservedPartition, rule: TimeRule, now_ms: int) -> Hold | None:
    """Return the hold of an offset without a record; None: no record behind it is overdue.

    The brokers' search by time takes the end marker of a transaction, stamped when the transaction ended, and
    aborted records for records (FileRecords.searchForTimestamp), so they keep what a backfill wrote in
    transactions. Raises LookupNeeded, and BlockReason where that record could not be read.
    """
    end = seen.last_stable_offset
    if rule.answer is None or rule.answer >= end:
        return None
    start = max(rule.answer, seen.log_start)
    (found,) = find_records(facts, RecordLookup(LookupKind.FIRST, start, end))
    if isinstance(found, Unknown):
        raise _unread(f"from {start} on", found)
    if found is None or found.offset == start or found.timestamp_ms >= rule.before_ms:
        return None
    if doubt_age(found.timestamp_ms, now_ms) is not None:
        return None
    return Hold(
        f"{rule.words} keeps offset {start}, a transaction marker or an aborted record, and the records behind it: "
        f"the first one, at offset {found.offset}, is of {format_instant(found.timestamp_ms)}",
        _NO_TIMES if rule.age_ms is None else f"wait until the marker is as old, too; or {_NO_TIMES}",
        overdue=True,
        what="a transaction marker",
    )
