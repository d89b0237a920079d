"""The consumers of the partitions of a floor: how far they let it rise, and how a block names them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from reconciler.model.block_reason import BlockReason, known
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, ConsumerPosition, GroupState, PartitionFacts, Unknown
from reconciler.operations import consumers
from reconciler.operations.delete_records import AcceptedLag, LagPolicy, Preconditions
from reconciler.operations.idle_groups import END_TRANSACTION, state_elsewhere, topics_of_streams
from reconciler.operations.offsets_without_records import next_record
from reconciler.text.escape import quoted
from reconciler.text.formatting import count, first_few
from reconciler.text.suggest import suggestion_of_many

_HELD_BY_MAX = 20
"""Groups that a decision names as holding a partition back. A plan of many partitions repeats them."""


@dataclass(frozen=True, slots=True)
class FloorTarget:
    """How far a floor may rise.

    `accepted`: groups that may skip records. `holding`: those of a clamp, the last one first.
    `stays`: why offsets without a record stay, or empty.
    """

    before_offset: int
    accepted: tuple[AcceptedLag, ...]
    holding: Sequence[ConsumerPosition]
    stays: str

    @property
    def held_by(self) -> tuple[str, ...]:
        """The groups at the target: once they are gone, it may rise. None as in `names_of`."""
        return names_of(reader for reader in self.holding if reader.committed <= self.before_offset)


class FloorConsumers:
    """The consumers that one policy must respect on one snapshot. `guard`: what the policy says of them."""

    def __init__(self, guard: Preconditions, snapshot: ClusterSnapshot) -> None:
        self.guard = guard
        self.snapshot = snapshot
        self.is_excluded = guard.is_excluded
        self.unknown = consumers.unknown_consumers(snapshot, self.is_excluded)
        self.caveat = cache(self._caveat)
        self.absence = cache(self._absence)

    @cached_property
    def streams(self) -> Mapping[str, str]:
        """A topic of Kafka Streams for each group that has one."""
        return topics_of_streams(self.snapshot.topics, self.snapshot.groups)

    @cached_property
    def traces(self) -> str:
        """Topics and groups of programs that may read without a consumer group, in words."""
        traces = consumers.traces_of_unlisted_readers(self.snapshot)
        return f"; traces of readers that Kafka does not list: {first_few(traces)}" if traces else ""

    def respect(self, floor: int, facts: PartitionFacts, log: consumers.Log) -> FloorTarget:
        """Return how far the floor may rise. Raises BlockReason.

        It never rises above a consumer that holds records, also where only transaction markers and aborted
        records follow: Kafka resets a consumer whose position lies below the log start, by default to the end.
        """
        behind, external = self.guard.consumers_below(floor, facts, log, self.snapshot, self.unknown)
        readers_below = known(facts.readers_below, "the groups that read", facts.partition)
        if floor > readers_below:
            reason = f"the scan read positions below offset {readers_below} only, and the floor is {floor}"
            raise BlockReason("B213", reason, unread=True)
        holding: list[ConsumerPosition] = []
        if self.guard.consumers is not LagPolicy.IGNORE:
            holding = [*(reader for reader in behind if not self.is_excluded(reader.group)), *external]
            holding.sort(key=lambda reader: (reader.committed, reader.group))
        target, stays = floor, ""
        if holding:
            target = max(holding[0].committed, log.log_start)
            record, note = next_record(facts, target, floor)
            if record == floor:
                stays = (
                    f"{consumers.name_consumer(holding[0])} has read all, and offset {target}, where it goes on, stays"
                )
                holding = []
            elif self.guard.consumers is LagPolicy.BLOCK:
                raise self._lag_block(holding, floor, record, note)
        accepted = (AcceptedLag(reader.group, reader.committed) for reader in behind if reader.committed < target)
        return FloorTarget(target, tuple(sorted(accepted)), holding, stays)

    def _lag_block(self, lagging: Sequence[ConsumerPosition], floor: int, next_record: int, note: str) -> BlockReason:
        """Return the block of groups behind the floor, the last one first. `next_record`: the first it would skip."""
        last, more_groups = lagging[0], len(lagging) - 1
        at = "has no position here, but reads the topic," if last.without_commit else f"is at {last.committed}"
        words, next_step = self.advice(lagging)
        kind = "more group" if all(reader.written_at_ms is None for reader in lagging) else "more consumer"
        more = f"; {count(more_groups, kind)} {'is' if more_groups == 1 else 'are'} behind" if more_groups else ""
        skipped = f"would skip at most {floor - next_record:,} records below {floor}"
        reason = f"{consumers.name_consumer(last)} {at} and {skipped}{words}{more}{note}"
        return BlockReason("B204", reason, next_step=next_step, held_by=names_of(lagging))

    def advice(self, lagging: Sequence[ConsumerPosition]) -> tuple[str, str]:
        """Return what else is known of the last group, and what to do next.

        A group with members is in use, and one whose application keeps state elsewhere is idle on
        purpose: neither is proposed for removal.
        """
        clamp = "" if self.guard.consumers is LagPolicy.CLAMP else "say consumers: clamp, "
        words, catch_up = "", "let it catch up"
        if (foreign := lagging[0].foreign_commit) is not None:  # Kafka resets such a consumer
            words = f"; its position {foreign} is not an offset of this log, so it counts from the log start"
            catch_up = "reset its offsets" if lagging[0].written_at_ms is None else "correct its position"
        if (written_at_ms := lagging[0].written_at_ms) is not None:
            since = f"{words}; it {consumers.describe_move(written_at_ms, self.snapshot.observed_at_ms)}"
            return since, f"{catch_up}, {clamp}or remove its manifest if it is gone"
        if transaction := consumers.describe_pending(lagging[0]):
            return transaction, END_TRANSACTION
        groups, topics = self.snapshot.groups, self.streams
        facts = {reader.group: groups.get(reader.group) for reader in lagging}
        kept = {group: state_elsewhere(group, of_group, topics.get(group)) for group, of_group in facts.items()}
        if (elsewhere := kept[lagging[0].group]) is not None:
            return f"{words}; {elsewhere[0]}", f"{elsewhere[1]}, {clamp}or name it in exceptGroups"
        are_groups = all(reader.written_at_ms is None for reader in lagging)
        are_idle = are_groups and all(of is not None and of.state is GroupState.EMPTY for of in facts.values())
        if are_idle and not any(kept.values()):
            return words, f"{catch_up}, {clamp}name it in exceptGroups, or remove it if nothing uses it"
        return words, f"{catch_up}, {clamp}or name it in exceptGroups"

    def _absence(self, group: str) -> str:
        """Return why a group has no position: its type, or the cluster has none of that name, with the nearest one.

        Empty: it has, or may have it. No list call names groups of all types.
        """
        if (facts := self.snapshot.groups.get(group)) is not None:
            kind = consumers.unreadable_kind(facts)
            return "" if kind is None else f"; it is {kind}, whose position cannot be read"
        if self.snapshot.groups_incomplete is not None:
            return ""
        groups = {name for name, facts in self.snapshot.groups.items() if facts.listed is not False}
        return f"; the cluster has no such group{suggestion_of_many(group, groups, before=', ', quote=quoted)}"

    def _caveat(self, topic: str) -> str:
        """Return why no consumer of a topic can hold its floor back; empty: at least one can."""
        facts, rule = self.snapshot.topics.get(topic), self.guard.consumers
        of_topic = NOT_ASKED if facts is None else facts.consumers
        external = {reader.name for reader, _position in consumers.external_readers(self.snapshot, topic)}
        if self.guard.named or (external and rule is not LagPolicy.IGNORE):
            return ""
        if isinstance(of_topic, Unknown):
            return f"whether any consumer guards it is not known: {of_topic.reason}"
        of_topic |= external
        if not of_topic:
            reason = "no consumer is known"
        elif rule is LagPolicy.IGNORE:
            reason = f"{count(len(of_topic), 'known consumer')} hold{'s' * (len(of_topic) == 1)} nothing back"
        elif all(map(self.is_excluded, of_topic)):
            reason = (
                f"exceptGroups names {'the' if len(of_topic) == 1 else 'all'} {count(len(of_topic), 'known consumer')}"
            )
        else:
            return ""
        return f'{reason}: "consumers: {rule}" guards nobody here{self.traces}'


def names_of(readers: Iterable[ConsumerPosition]) -> tuple[str, ...]:
    """Return the groups that hold a partition back; none where too many do, or others, to remove them all."""
    readers = list(readers)
    names = sorted({reader.group for reader in readers})
    are_groups = all(reader.written_at_ms is None for reader in readers)
    return tuple(names) if are_groups and len(names) <= _HELD_BY_MAX else ()
