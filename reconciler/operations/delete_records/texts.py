"""What reports say of record deletions."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar

from reconciler.model.action import Action
from reconciler.model.description import Description, Fact, OffsetMove, SizeChange
from reconciler.model.names import Address, format_subject
from reconciler.operations.base import NO_LIMITS
from reconciler.operations.delete_records.preconditions import LagPolicy
from reconciler.operations.delete_records.rule import RECORDS_PERCENT, RECORDS_PERCENT_PER_TOPIC, Deletion
from reconciler.text.escape import quoted
from reconciler.text.formatting import approximate_duration, broker_ids, count, count_partitions, first_few, percent
from reconciler.text.phrase import Phrase, escaped_name, name, sentence, strong

_SKIPPING_MAX = 10
"""Groups that skip records and that a description of many deletions names; it counts the others."""
_LAG_TEXT = {
    LagPolicy.BLOCK: "a group behind the target blocks the purge",
    LagPolicy.CLAMP: "the target is never above the group that is furthest behind",
    LagPolicy.IGNORE: "groups behind the target are accepted where they were",
}


class DeletionTexts(Deletion):
    """A record deletion that describes itself."""

    __slots__ = ()

    TITLE: ClassVar[str] = "record deletion"
    HEADING: ClassVar[str] = "records deleted, and their share of the partitions"
    FIELD_WORDS: ClassVar[Mapping[str, str]] = {
        "request.before_offset": "first offset kept",
        "approved.topic_id": "topic id",
        "approved.guard.consumers": "what happens if a group is behind (consumers)",
        "approved.guard.named": "group of unreadBy",
        "approved.guard.accepted": "accepted position of group",
        "approved.guard.except_groups": "selector of exceptGroups",
        "approved.guard.every_ms": "least time between two purges (every)",
    }
    DRIFT_TYPE: ClassVar[str] = "records"
    DRIFT_TEXT: ClassVar[str] = "records below the floor are still there"

    @property
    def noun(self) -> str:
        """What reports count: an offset is a record only where nothing leaves gaps."""
        return "offset" if self.may_have_gaps else "record"

    @property
    def fold_key(self) -> str:
        return self.partition.topic

    def figure(self) -> OffsetMove:
        committed = {reader.group: reader.committed for reader in self.guard.accepted}
        worst = sorted(self.skips, key=lambda skip: (-skip[1], skip[0]))
        return OffsetMove(
            log_start=self.seen.log_start,
            new_start=self.before_offset,
            last_stable_offset=self.seen.last_stable_offset,
            high_watermark=self.seen.high_watermark,
            removed=self.records_max,
            records=self.records_counted,
            skips=tuple((group, committed[group], records) for group, records in worst),
            required=self.guard.named,
            limits=tuple(usage.limit.id for usage in self.limit_usage() if usage.bucket),
            noun=self.noun,
        )

    @property
    def unchecked(self) -> str:
        names = first_few([quoted(selector) for selector in self.guard.except_groups])
        return f"groups of exceptGroups are not checked: {names}" if names else ""

    def describe(self) -> Description:
        seen = self.seen
        because: Phrase = ("because ", sentence(self.reason))
        return Description(
            subject=(escaped_name(format_subject(self.address)),),
            change=(f"log start from {seen.log_start} to {self.before_offset} (end {seen.last_stable_offset})",),
            loss=("at most ", strong(count(self.records_max, self.noun)), f" ({_share_text([self])})"),
            notes=(because if self.drift else (*because, " (not drift yet: within driftAfter)"),),
            risks=tuple(_skip(group, count(records, self.noun)) for group, records in self.skips),
        )

    @classmethod
    def describe_many(cls, actions: Sequence["DeletionTexts"]) -> Description:
        """Describe the deletions of one topic: the sum, and of a single partition its offsets, too."""
        first, noun = actions[0], _noun(actions)
        total = strong(count(sum(action.records_max for action in actions), noun))
        of_partitions = f", {count(len(actions), 'partition')}"
        subject, change = (name(first.partition.topic),), tuple[str, ...]()
        if len(actions) == 1:
            of_partitions, subject = "", (escaped_name(format_subject(first.address)),)
            change = (f"log start from {first.seen.log_start} to {first.before_offset}",)
        loss = ("at most ", total, f"{of_partitions} ({_share_text(actions)})")
        return Description(subject=subject, change=change, loss=loss, risks=cls.total_risks(actions))

    @classmethod
    def count_effects(cls, addresses: Collection[Address]) -> str:
        partitions = count_partitions(len(addresses), len({address.name for address in addresses}))
        return f"records of {partitions} deleted"

    @classmethod
    def total_risks(cls, actions: Sequence["DeletionTexts"]) -> tuple[Phrase, ...]:
        noun, records, partitions = _noun(actions), Counter[str](), Counter[str]()
        for action in actions:
            for group, skipped in action.skips:
                records[group] += skipped
                partitions[group] += 1
        worst = sorted(records, key=lambda group: (-records[group], group))
        risks = [_skip(group, count(records[group], noun), partitions[group]) for group in worst[:_SKIPPING_MAX]]
        if omitted := len(worst) - len(risks):
            risks.append((f"and {count(omitted, 'more group')} would skip {noun}s (--full lists them)",))
        return tuple(risks)

    @classmethod
    def total_loss(cls, actions: Sequence["DeletionTexts"], observed: Mapping[str, float] = NO_LIMITS) -> str:
        """Return the records and, where the limits count all of them, their share of topic and cluster."""
        shares = []
        if not any(action.consumed_by_named for action in actions):
            one = len({action.partition.topic for action in actions}) == 1
            of = (
                (RECORDS_PERCENT_PER_TOPIC, "of the topic" if one else "of one topic"),
                (RECORDS_PERCENT, "of the cluster"),
            )
            shares = [f"{percent(observed[limit.id])} {whole}" for limit, whole in of if observed.get(limit.id)]
        up_to = f": up to {' and '.join(shares)}" if shares else ""
        noun = _noun(actions)
        by_offsets = " by offsets, of the records perhaps more" if shares and noun == "offset" else ""
        return f"at most {count(sum(action.records_max for action in actions), noun)}{up_to}{by_offsets}"

    def explain(self) -> Iterator[Fact]:
        seen, guard, start, target = self.seen, self.guard, self.seen.log_start, self.before_offset
        leader, replicas, in_sync = seen.leader, broker_ids(seen.replicas), broker_ids(seen.in_sync)
        offsets, share = self.records_counted, _share_text([self])
        ends = f"last stable offset {seen.last_stable_offset}, high watermark {seen.high_watermark}"
        bounds = f"{start} < {target} <= {seen.last_stable_offset}"
        yield "Request", (f"DeleteRecords {self.partition}: the first offset kept is {target}",)
        yield "Facts", (f"log start {start}, {ends}",)
        yield "", ("topic id ", name(seen.topic_id), f"; leader {leader}, replicas {replicas}, in sync {in_sync}")
        yield "Bounds", (f"{bounds}: above the log start, up to the last stable offset",)
        yield "Records", (f"{target} - {start} = {self.records_max:,} at most",)
        yield "", (f"{self.records_max:,} / {offsets:,} = {share}",)
        if self.consumed_by_named:
            yield "", ("the groups of unreadBy have read them, so the record limits do not count them",)
        for group in guard.named:
            yield "Consumers", (escaped_name(quoted(group)), f" must have a commit at or above {target}")
        yield "Consumers", (_LAG_TEXT[guard.consumers],)
        for selector in guard.except_groups:
            yield "", ("groups ", escaped_name(quoted(selector)), " do not count")
        positions = {reader.group: reader.committed for reader in guard.accepted}
        for group, records in self.skips:
            skipped = f"{target} - {max(positions[group], start)} = {count(records, self.noun)} skipped at most"
            yield "", (escaped_name(quoted(group)), f" was at {positions[group]}: {skipped}")
        if guard.every_ms is not None:
            yield "Every", (f"at least {approximate_duration(guard.every_ms)} between two purges",)
        same = "same topic id, policy still deletes, log begins and ends no lower, no consumer new or further behind"
        yield "Rechecked", (same,)
        yield "Undo", ("impossible: no command brings deleted records back",)

    def compare_size(self, old: Action) -> SizeChange | None:
        if not isinstance(old, DeletionTexts) or (old.address, old.approved()) != (self.address, self.approved()):
            return None
        moved, start, old_start = self.before_offset - old.before_offset, self.seen.log_start, old.seen.log_start
        details, summary = tuple[str, ...](), tuple[str, ...]()
        if moved:
            details = (f"request.before_offset: {old.before_offset} → {self.before_offset}",)
            offsets = f"from {old.before_offset} to {self.before_offset}"
            summary = (f"first offset kept {offsets}, {count(abs(moved), self.noun)}",)
        if start < old_start:
            details += (f"seen.log_start: {old_start} → {start}",)
            records = f"at most {count(self.records_max, self.noun)}, before {old.records_max:,}"
            summary += (f"the log starts at {start}, it started at {old_start}", records)
        if not summary:
            return None
        return SizeChange(larger=moved > 0 or start < old_start, summary=("; ".join(summary),), details=details)


def share_percent(actions: Sequence[Deletion]) -> float:
    """Return what part of the partitions' offsets goes, in percent. Those of open transactions are none."""
    return 100.0 * sum(action.records_max for action in actions) / sum(action.records_counted for action in actions)


def _noun(actions: Sequence[Deletion]) -> str:
    return "offset" if any(action.may_have_gaps for action in actions) else "record"


def _share_text(actions: Sequence[Deletion]) -> str:
    """Return the share in words that hold for the records, too: the gaps may all be in what stays."""
    of = "partition's" if len(actions) == 1 else "partitions'"
    gaps = f" of the {of} offsets, perhaps all records" if _noun(actions) == "offset" else ""
    return f"{percent(share_percent(actions))}{gaps}"


def _skip(group: str, records: str, partitions: int = 0) -> Phrase:
    on_partitions = f" on {count(partitions, 'partition')}" if partitions else ""
    return (escaped_name(quoted(group)), " would skip at most ", strong(records), on_partitions)
