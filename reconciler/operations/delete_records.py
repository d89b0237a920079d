"""DeleteRecords: remove the records below an offset from one partition (KIP-107, API key 21, sent to partition leaders)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from reconciler.model.action import Action
from reconciler.model.description import Description, Fact, SizeChange
from reconciler.model.names import TopicPartition, format_subject
from reconciler.operations.base import Operation
from reconciler.text.escape import quoted
from reconciler.text.formatting import approximate_duration, broker_ids, count, first_few, percent, span
from reconciler.text.phrase import Phrase, escaped_name, name, sentence, strong

_SKIPPING_MAX = 10
"""Groups that would skip records that a description of many deletions names; the others are counted."""


class LagPolicy(StrEnum):
    """What a floor does about a group that is still behind it."""

    BLOCK = "block"
    CLAMP = "clamp"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, order=True)
class AcceptedLag:
    """A group behind the floor that the plan accepts, and where it stood: further behind is not accepted."""

    group: str
    committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """What a purge was decided under, tested again before it is sent.

    `named`: groups of `unreadBy`, each must have a commit at or above the target. `accepted`: readers below the target that
    the policy lets skip records (`consumers: ignore`, or exceptGroups). `except_groups`: selectors whose groups are not looked at.
    `every_ms`: least time between two purges of the partition; None: no clock.
    """

    consumers: LagPolicy
    named: tuple[str, ...] = ()
    accepted: tuple[AcceptedLag, ...] = ()
    except_groups: tuple[str, ...] = ()
    every_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPartition:
    """The partition as the scan saw it."""

    topic_id: str
    log_start: int
    stable_end: int
    high_watermark: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords(Operation):
    """Remove all records below `before_offset`, the first offset kept (KIP-107). Irreversible.

    `vouched`: an `unreadBy` rule under `consumers: block` vouches for these records, so the two record limits do not count them.
    `partition_percent`: share of the partition's records between log start and high watermark. `drift`: a fixed floor that is
    not met, or a moving one overdue by `driftAfter`.
    """

    OPERATION: ClassVar[str] = "delete_records"

    partition: TopicPartition
    before_offset: int
    seen: ObservedPartition
    guard: Preconditions
    vouched: bool
    drift: bool

    @property
    def records_max(self) -> int:
        """Upper bound of the records removed: offsets between the log start seen and the target."""
        return self.before_offset - self.seen.log_start

    @property
    def partition_percent(self) -> float:
        held = self.seen.high_watermark - self.seen.log_start
        return 100.0 * self.records_max / held if held > 0 else 0.0

    @property
    def skips(self) -> tuple[tuple[str, int], ...]:
        """(group, records it would skip at most), for each accepted reader below the target."""
        return tuple(
            (reader.group, self.before_offset - max(reader.committed, self.seen.log_start))
            for reader in self.guard.accepted
            if reader.committed < self.before_offset
        )

    @property
    def irreversible(self) -> bool:
        return True

    def request(self) -> Mapping[str, str | int]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "before_offset": self.before_offset,
        }

    # --- reports

    TITLE: ClassVar[str] = "record deletion"
    DRIFT_TYPE: ClassVar[str] = "records"
    DRIFT_TEXT: ClassVar[str] = "records below the floor are still there"

    @property
    def is_foldable(self) -> bool:
        return True

    def describe(self) -> Description:
        seen = self.seen
        because: Phrase = ("because ", sentence(self.reason))
        return Description(
            sign="!",
            subject=(escaped_name(format_subject(self.address)),),
            change=(f"log start {seen.log_start} -> {self.before_offset} (end {seen.stable_end})",),
            loss=_loss(self.records_max, self.partition_percent),
            notes=(because if self.drift else (*because, " (not drift yet: within driftAfter)"),),
            risks=tuple(_skip(group, records) for group, records in self.skips),
            unknowns=self._excluded_groups(others=bool(self.skips)),
        )

    @classmethod
    def describe_many(cls, actions: Sequence["DeleteRecords"]) -> Description:
        starts = [action.seen.log_start for action in actions]
        targets = [action.before_offset for action in actions]
        records_max = sum(action.records_max for action in actions)
        held = sum(action.seen.high_watermark - action.seen.log_start for action in actions)
        largest = max(actions, key=lambda action: action.records_max)
        numbers = span(actions[0].partition.partition, actions[-1].partition.partition)
        records, partitions = Counter[str](), Counter[str]()
        for action in actions:
            for group, skipped in action.skips:
                records[group] += skipped
                partitions[group] += 1
        worst = sorted(records, key=lambda group: (-records[group], group))
        risks = [_skip(group, records[group], partitions[group]) for group in worst[:_SKIPPING_MAX]]
        if others := len(worst) - len(risks):
            risks.append((f"and {count(others, 'more group')} would skip records (--full lists them)",))
        return Description(
            sign="!",
            subject=(name(actions[0].partition.topic), f", {len(actions):,} partitions ({numbers})"),
            change=(f"log start {span(min(starts), max(starts))} -> {span(min(targets), max(targets))}",),
            loss=_loss(records_max, 100.0 * records_max / held if held else 0.0),
            notes=(
                (
                    "most of it on ",
                    escaped_name(format_subject(largest.address)),
                    f": {largest.seen.log_start} -> {largest.before_offset}, ",
                    f"at most {count(largest.records_max, 'record')}, because ",
                    sentence(largest.reason),
                ),
            ),
            risks=tuple(risks),
            unknowns=actions[0]._excluded_groups(others=bool(records)),
        )

    @classmethod
    def total_loss(cls, actions: Sequence["DeleteRecords"]) -> str:
        return f"at most {count(sum(action.records_max for action in actions), 'record')}"

    def explain(self) -> tuple[Fact, ...]:
        seen, guard, target = self.seen, self.guard, self.before_offset
        ends = f"log start {seen.log_start}, stable end {seen.stable_end}, high watermark {seen.high_watermark}"
        leader, replicas, in_sync = seen.leader, broker_ids(seen.replicas), broker_ids(seen.in_sync)
        held, share = seen.high_watermark - seen.log_start, percent(self.partition_percent)
        facts: list[Fact] = [
            ("Request", (f"DeleteRecords {self.partition}: the first offset kept is {target}",)),
            ("Facts", (ends,)),
            ("", ("topic id ", name(seen.topic_id), f"; leader {leader}, replicas {replicas}, in sync {in_sync}")),
            (
                "Bounds",
                (f"{seen.log_start} < {target} <= {seen.stable_end}: above the log start, not above the stable end",),
            ),
            ("Records", (f"{target} - {seen.log_start} = {self.records_max:,} at most",)),
            ("", (f"{self.records_max:,} / {held:,} = {share} of the partition",)),
        ]
        if self.vouched:
            facts.append(("", ("the groups of unreadBy have read them, so the record limits do not count them",)))
        for group in guard.named:
            facts.append(("Readers", (escaped_name(quoted(group)), f" must have a commit at or above {target}")))
        facts.append(("Readers", (_LAG_TEXT[guard.consumers],)))
        for selector in guard.except_groups:
            facts.append(("", ("groups ", escaped_name(quoted(selector)), " are not looked at")))
        positions = {reader.group: reader.committed for reader in guard.accepted}
        for group, records in self.skips:
            skipped = f"{target} - {max(positions[group], seen.log_start)} = {records:,} records skipped at most"
            facts.append(("", (escaped_name(quoted(group)), f" was at {positions[group]}: {skipped}")))
        if guard.every_ms is not None:
            facts.append(("Every", (f"at least {approximate_duration(guard.every_ms)} between two purges",)))
        conditions = (
            "same topic id; a log that begins and ends no lower than it did; the policy still deletes; "
            "no new reader, none further behind"
        )
        return (*facts, ("Rechecked", (conditions,)), ("Undo", ("impossible",)))

    def compare_size(self, old: Action) -> SizeChange | None:
        if not isinstance(old, DeleteRecords) or old._besides_size != self._besides_size:
            return None
        moved, lower = self.before_offset - old.before_offset, self.seen.log_start < old.seen.log_start
        details: list[str] = []
        summary: list[str] = []
        if moved:
            details.append(f"request.before_offset: {old.before_offset} → {self.before_offset}")
            change = f"{old.before_offset} -> {self.before_offset}, {count(abs(moved), 'record')}"
            summary.append(f"first offset kept {change}")
        if lower:
            details.append(f"seen.log_start: {old.seen.log_start} → {self.seen.log_start}")
            summary.append(f"the log starts at {self.seen.log_start}, it started at {old.seen.log_start}")
            summary.append(f"at most {old.records_max:,} -> {count(self.records_max, 'record')}")
        if not summary:
            return None
        return SizeChange(larger=moved > 0 or lower, summary=("; ".join(summary),), details=tuple(details))

    @property
    def _besides_size(self) -> tuple[object, ...]:
        """What an approval binds besides the target."""
        return self.address, self.partition, self.seen.topic_id, self.guard

    def _excluded_groups(self, *, others: bool) -> tuple[Phrase, ...]:
        """`others`: groups besides them are known to skip records."""
        if not self.guard.except_groups:
            return ()
        names = first_few([quoted(selector) for selector in self.guard.except_groups])
        more = "more " if others else ""
        return (
            (
                "groups of exceptGroups are not looked at: ",
                escaped_name(names),
                f"; what {more}they would skip is not known",
            ),
        )


_LAG_TEXT = {
    LagPolicy.BLOCK: "a group behind the target blocks the purge",
    LagPolicy.CLAMP: "the target is never above the group that is furthest behind",
    LagPolicy.IGNORE: "groups behind the target are accepted where they were",
}


def _loss(records_max: int, share: float) -> Phrase:
    return ("at most ", strong(count(records_max, "record")), f" ({percent(share)})")


def _skip(group: str, records: int, partitions: int = 0) -> Phrase:
    on_partitions = f" on {count(partitions, 'partition')}" if partitions else ""
    return (escaped_name(quoted(group)), " would skip at most ", strong(count(records, "record")), on_partitions)
