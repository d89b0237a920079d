"""The arithmetic of a floor's `keep` rules: at which offset each rule begins to keep, on one partition, now and `driftAfter` ago.

Pure numbers out of facts. Which rules there are is the manifest's (kinds/retention_floor.py); what readers say about the lowest
of them is decided there, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.model.block_reason import BlockReason, contradiction, quote_group, unknown_fact
from reconciler.model.snapshot import NOT_ASKED, ConsumerPosition, PartitionFacts, Unknown
from reconciler.operations.consumers import verified_offset
from reconciler.operations.delete_records import ObservedPartition
from reconciler.text.formatting import format_duration, format_instant

if TYPE_CHECKING:
    from reconciler.policies.retention_floor import Keep


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupTimes:
    """The instants that a floor asks offsets for, in epoch ms; None: no rule needs that one.

    `newer_than_before` and `lagging` tell where the floor was `driftAfter` ago. Never below 0: brokers read negative timestamps
    as questions of another sort (-1: the end, -2: the start).
    """

    newer_than: int | None
    newer_than_before: int | None
    since: int | None
    lagging: int | None

    @classmethod
    def of(cls, keep: "Keep", observed_at_ms: int, drift_after_ms: int) -> "LookupTimes":
        lagging = max(0, observed_at_ms - drift_after_ms)
        return cls(
            newer_than=None if keep.newer_than is None else max(0, observed_at_ms - keep.newer_than),
            newer_than_before=None if keep.newer_than is None else max(0, lagging - keep.newer_than),
            since=None if keep.since is None else max(0, keep.since),
            lagging=None if keep.last is None and keep.unread_by is None else lagging,
        )

    @property
    def asked(self) -> tuple[int, ...]:
        """Sorted, each once: what the scan is asked and what the answers are looked up by."""
        each = (self.newer_than, self.newer_than_before, self.since, self.lagging)
        return tuple(sorted({instant for instant in each if instant is not None}))


@dataclass(frozen=True, slots=True)
class RuleOffset:
    """What one rule keeps: everything from `offset` on. `before`: from where it kept `driftAfter` ago; the same for a fixed rule.

    `words` complete a sentence that begins with nothing: `newerThan 7d resolves to offset 98213`.
    """

    offset: int
    before: int
    name: str
    words: str


def rules(
    keep: "Keep", instants: LookupTimes, facts: PartitionFacts, seen: ObservedPartition
) -> tuple[RuleOffset, ...] | BlockReason:
    """All rules of `keep` on one partition, in the manifest's order of fields, none above the stable end; or why one has no answer."""
    answers = _answers(instants, facts, seen.stable_end)
    if isinstance(answers, BlockReason):
        return answers
    end = seen.stable_end
    found = []
    if instants.newer_than is not None and instants.newer_than_before is not None:
        name = f"newerThan {format_duration(keep.newer_than or 0)}"
        now = answers[instants.newer_than]
        before = answers[instants.newer_than_before]
        found.append(RuleOffset(_capped(now, end), _capped(before, end), name, _resolved(name, now, end, "younger")))
    if keep.since is not None and instants.since is not None:
        name = f"since {format_instant(keep.since)}"
        now = answers[instants.since]
        found.append(RuleOffset(_capped(now, end), _capped(now, end), name, _resolved(name, now, end, "as new")))
    if keep.last is not None:
        offset = max(0, end - keep.last)
        before = max(0, min(end, _lagging(instants, answers, end)) - keep.last)
        name = f"last {keep.last}"
        found.append(RuleOffset(offset, min(offset, before), name, f"{name} begins at offset {offset} (end {end})"))
    if keep.from_offset is not None:
        offset = keep.from_offset[facts.partition.partition]
        if offset > end:
            return BlockReason(
                code="B208",
                reason=f"fromOffset {offset} is above the end {end}: it was meant for another topic or another time",
                next_step="correct the offset; it is never lowered on its own",
            )
        found.append(RuleOffset(offset, offset, f"fromOffset {offset}", f"fromOffset says {offset}"))
    if keep.unread_by is not None:
        slowest = _slowest(keep.unread_by, facts, seen)
        if isinstance(slowest, BlockReason):
            return slowest
        position, group = slowest
        offset = min(position, end)
        words = f"unreadBy: group {quote_group(group)} has read up to offset {position}"
        if position > end:
            words += f", above the end {end} of what is committed"
        before = min(offset, _lagging(instants, answers, end))
        found.append(RuleOffset(offset, before, f"unreadBy {quote_group(group)}", words))
    return tuple(found)


def _answers(instants: LookupTimes, facts: PartitionFacts, end: int) -> Mapping[int, int | None] | BlockReason:
    """The offset for each asked instant. A negative number is "unknown" in a client's answer, never an offset."""
    answers: dict[int, int | None] = {}
    for instant in instants.asked:
        answer = facts.offsets_at.get(instant, NOT_ASKED)
        if isinstance(answer, Unknown):
            return unknown_fact(f"the first offset of {facts.partition} at or after {format_instant(instant)}", answer)
        if answer is not None and answer < 0:
            return contradiction(f"offset {answer} of {facts.partition} for {format_instant(instant)} (end {end})")
        answers[instant] = answer
    return answers


def _capped(answer: int | None, end: int) -> int:
    return end if answer is None else min(answer, end)


def _lagging(instants: LookupTimes, answers: Mapping[int, int | None], end: int) -> int:
    assert instants.lagging is not None
    return _capped(answers[instants.lagging], end)


def _resolved(name: str, answer: int | None, end: int, than: str) -> str:
    if answer is None:
        return f"{name}: no record is {than}, so up to the end {end}"
    if answer > end:
        return f"{name} resolves to offset {answer}, above the end {end} of what is committed"
    return f"{name} resolves to offset {answer}"


def _slowest(named: tuple[str, ...], facts: PartitionFacts, seen: ObservedPartition) -> tuple[int, str] | BlockReason:
    """(position, group) of the named group that has read least; every one of them must prove its position."""
    if isinstance(facts.readers, Unknown):
        return unknown_fact(f"the groups that read {facts.partition}", facts.readers)
    standing: dict[str, ConsumerPosition] = {reader.group: reader for reader in facts.readers}
    positions = []
    for group in named:
        position = verified_offset(group, standing.get(group), facts, seen.topic_id, seen.high_watermark)
        if isinstance(position, BlockReason):
            return position
        positions.append((position, group))
    return min(positions)
