"""What a snapshot says of topics and groups, for findings of all kinds: who reads what, how far."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from reconciler.model.block_reason import BlockReason, LookupNeeded, known
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ExternalReaderRequest
from reconciler.model.snapshot import (
    ClusterSnapshot,
    ConsumerPosition,
    KeptForever,
    PartitionFacts,
    RecordLookup,
    Unknown,
)
from reconciler.operations import consumers
from reconciler.operations.idle_groups import state_elsewhere, topics_of_streams
from reconciler.operations.offsets_without_records import next_record
from reconciler.operations.touchable import check_records_deletable
from reconciler.policies import Policy
from reconciler.policies.cluster import Cluster
from reconciler.policies.fields import TOPIC_TEXT
from reconciler.text.escape import display_name


@dataclass(frozen=True, slots=True)
class Held:
    """What an external reader has not read of a partition. `records`: at most, for not every offset has one."""

    records: int
    partition: TopicPartition
    position: ConsumerPosition


@dataclass(frozen=True, slots=True)
class ReadTopic:
    """A topic whose records a policy could delete. `readers`: the groups that read it, all of them."""

    records: int
    partitions: Sequence[TopicPartition]
    readers: frozenset[str] = frozenset()


@dataclass
class ClusterFacts:
    """One snapshot, with what findings of several kinds need of it. `policies`: those of the cluster.

    `asked`: what the records of partitions still have to tell.
    """

    snapshot: ClusterSnapshot
    cluster: Cluster
    policies: Sequence[Policy]
    asked: dict[TopicPartition, tuple[RecordLookup, ...]] = field(default_factory=dict)

    @property
    def noun(self) -> str:
        """What lies between two offsets: behind the first record there may be markers."""
        return "offset" if self.snapshot.may_have_transactions else "record"

    def ask(self, partition: TopicPartition, lookups: Sequence[RecordLookup]) -> None:
        self.asked[partition] = tuple(dict.fromkeys((*self.asked.get(partition, ()), *lookups)))

    @cached_property
    def covered(self) -> Mapping[type[Policy], frozenset[str]]:
        """The names that policies of each kind select already."""
        names: defaultdict[type[Policy], set[str]] = defaultdict(set)
        for policy in self.policies:
            names[type(policy)].update(policy.select(self.snapshot).subjects)
        return {kind: frozenset(selected) for kind, selected in names.items()}

    def is_covered(self, kind: type[Policy], name: str) -> bool:
        return name in self.covered.get(kind, ())

    @cached_property
    def _unknown_consumers(self) -> consumers.UnknownConsumers:
        return consumers.unknown_consumers(self.snapshot, lambda _group: False)

    @cached_property
    def _streams(self) -> Mapping[str, str]:
        return topics_of_streams(self.snapshot.topics, self.snapshot.groups)

    def state_elsewhere(self, group: str) -> tuple[str, ...]:
        """Return whose group it is and what to do there, where another system holds the rest of its state."""
        return state_elsewhere(group, self.snapshot.groups.get(group), self._streams.get(group)) or ()

    @cached_property
    def unknown_consumers(self) -> str | None:
        """Why it is not known of any topic which groups read it; None: it is, but of single topics."""
        block = self._unknown_consumers("")
        return None if block is None else block.reason

    @cached_property
    def purgeable(self) -> Mapping[str, ReadTopic | Unknown]:
        """The topics whose records a policy could delete, without their readers; or why that is not known."""
        topics: dict[str, ReadTopic | Unknown] = {}
        protection = self.cluster.protection
        for name, facts in sorted(self.snapshot.topics.items()):
            if name.startswith("_") or not re.fullmatch(TOPIC_TEXT, name) or protection.of_topic(name):
                continue
            try:
                check_records_deletable(facts, exact=False)
                partitions = known(facts.partitions, "the number of partitions of", name)
                records = known(facts.records, "the number of records of", name)
                topics[name] = ReadTopic(records, [TopicPartition(name, number) for number in range(partitions)])
            except BlockReason as error:
                if error.unread:
                    topics[name] = Unknown(error.reason)
        return topics

    @cached_property
    def positions(self) -> Mapping[TopicPartition, Sequence[ConsumerPosition]]:
        """Where each group stands on the partitions of purgeable topics, as far as all of it is known."""
        positions = {}
        for partition, facts in sorted(self.snapshot.partitions.items()):
            values = _offsets_and_readers(facts)
            if partition.topic not in self.purgeable or any(isinstance(value, Unknown) for value in values):
                continue
            if self._unknown_consumers(partition.topic) is not None:
                continue
            readers, log_start, _last_stable_offset, high_watermark, topic_id = values
            log = consumers.Log(partition, topic_id, log_start, high_watermark)
            positions[partition] = tuple(consumers.verified_positions(readers, log))
        return positions

    @cached_property
    def topics(self) -> Mapping[str, ReadTopic | Unknown]:
        """The purgeable topics with the groups that read them; or why these are not known."""
        return {name: self._with_readers(name, topic) for name, topic in self.purgeable.items()}

    def _with_readers(self, name: str, topic: ReadTopic | Unknown) -> ReadTopic | Unknown:
        if isinstance(topic, Unknown):
            return topic
        if (block := self._unknown_consumers(name)) is not None:
            return Unknown(block.reason)
        if unread := [partition for partition in topic.partitions if partition not in self.positions]:
            return Unknown(f"not all offsets and groups could be read{self._reason(unread[0])}")
        readers = (reader.group for partition in topic.partitions for reader in self.positions[partition])
        return replace(topic, readers=frozenset(readers))

    @cached_property
    def all_read(self) -> bool:
        """Whether it is known of each purgeable topic what every group has read of it."""
        is_unknown = (isinstance(topic, Unknown) for topic in self.topics.values())
        return self.unknown_consumers is None and not any(is_unknown)

    @cached_property
    def only_readers(self) -> Mapping[str, list[str]]:
        topics: defaultdict[str, list[str]] = defaultdict(list)
        for name, topic in self.topics.items():
            if not isinstance(topic, Unknown) and len(topic.readers) == 1:
                topics[min(topic.readers)].append(display_name(name))
        return topics

    def _reason(self, partition: TopicPartition) -> str:
        facts = self.snapshot.partitions.get(partition)
        values = () if facts is None else _offsets_and_readers(facts)
        return next((f": {value.reason}" for value in values if isinstance(value, Unknown)), "")

    def held(self, idle: Collection[str]) -> Mapping[str, Counter[str]]:
        """Return the records that a group has not read and all others have, by group and topic.

        Groups of `idle` do not count among the others. Transaction markers and aborted records are none.
        """
        held: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for partition, positions in self.positions.items():
            facts = self.snapshot.partitions[partition]
            if not isinstance(facts.log_start, int) or not isinstance(facts.last_stable_offset, int):
                continue
            counting = sorted((p.committed, p.group) for p in positions if p.group not in idle)
            for reader in positions:
                # The first or the second: two positions are enough to leave the reader itself out.
                least = next((committed for committed, group in counting[:2] if group != reader.group), None)
                if least is not None:
                    floor, position = min(least, facts.last_stable_offset), max(reader.committed, facts.log_start)
                    if position < floor and self.snapshot.may_have_transactions:
                        position = self._next_record(facts, position, floor)
                    held[reader.group][partition.topic] += max(0, floor - position)
        return {group: Counter({t: n for t, n in by_topic.items() if n}) for group, by_topic in held.items()}

    def _next_record(self, facts: PartitionFacts, position: int, floor: int) -> int:
        try:
            return next_record(facts, position, floor)[0]
        except LookupNeeded as needed:
            self.ask(needed.partition, needed.lookups)
            return position

    def is_kept(self, topic: str) -> bool:
        """Whether its own configuration keeps a topic for ever, or may: a draft names it exactly, which overrules that.

        Kafka Streams keeps repartition topics so, and purges them itself.
        """
        by_broker_or_not = (None, KeptForever.BROKER)
        return self.snapshot.topics[topic].kept_forever not in by_broker_or_not and not is_repartition(topic)

    def has_foreign_commit(self, group: str, topic: str) -> bool:
        """Whether a position of the group on the topic is of another log, so that it counts from the log start."""
        positions = (of for partition, of in self.positions.items() if partition.topic == topic)
        return any(of.foreign_commit is not None for of_all in positions for of in of_all if of.group == group)

    def held_by(self, reader: ExternalReaderRequest) -> Mapping[str, Sequence[Held] | Unknown]:
        """Return what a declared reader has not read of each purgeable topic, the most on a partition first.

        It counts whether or not a group has read it: a floor of any rule waits for the reader.
        """
        alone = replace(self.snapshot, external={reader: self.snapshot.external[reader]})
        return {
            topic: self._held_by(alone, topic)
            for topic in self.purgeable
            if any(consumers.external_readers(alone, topic))
        }

    def _held_by(self, alone: ClusterSnapshot, topic: str) -> Sequence[Held] | Unknown:
        facts, held = self.purgeable[topic], list[Held]()
        if isinstance(facts, Unknown):
            return facts
        for partition in facts.partitions:
            of_partition = self.snapshot.partitions.get(partition)
            offsets = () if of_partition is None else _offsets_and_readers(of_partition)[1:4]
            if not offsets or any(isinstance(offset, Unknown) for offset in offsets):
                return Unknown(f"not all offsets could be read{self._reason(partition)}")
            log_start, end, high_watermark = offsets
            log = consumers.Log(partition, "", log_start, high_watermark)  # such a position has no topic id
            (position,) = consumers.external_positions(alone, log)
            held.append(Held(max(0, end - max(position.committed, log_start)), partition, position))
        return sorted((of for of in held if of.records), key=lambda of: (-of.records, of.partition))

    def works(self, group: str) -> bool:
        """Whether the group has members now, as far as that is known. UNKNOWN: they may get partitions (KIP-848)."""
        facts = self.snapshot.groups.get(group)
        return facts is not None and not isinstance(facts.state, Unknown) and facts.may_have_members


def _offsets_and_readers(facts: PartitionFacts) -> tuple[Any, ...]:
    """Return the facts of a partition that say what its groups have read; some may be Unknown."""
    return facts.readers, facts.log_start, facts.last_stable_offset, facts.high_watermark, facts.topic_id


def is_changelog(topic: str) -> bool:
    """Whether the name is that of a changelog of Kafka Streams, from which it restores state."""
    return topic.endswith("-changelog")


def is_repartition(topic: str) -> bool:
    """Whether the name is that of a repartition topic of Kafka Streams, whose records are read once."""
    return topic.endswith("-repartition")
