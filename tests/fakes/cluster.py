"""A cluster in memory, behind the Gateway protocol.

tests/contract runs the same tests on it and on real brokers. A fault is an error code in a
response, with or without its effect. `on_request` runs after a request is recorded and
before it has an effect, so that tests can change the cluster there.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from confluent_kafka import KafkaError

from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.gateway import error_name
from reconciler.kafka.groups import unknown_group
from reconciler.model.names import TopicPartition
from reconciler.model.ports import Election, ItemResult
from reconciler.model.scan_request import ExternalReaderRequest
from reconciler.model.snapshot import (
    NOT_ASKED,
    REBALANCING,
    Cause,
    CommittedOffset,
    Consumers,
    ExternalPosition,
    GroupFacts,
    GroupState,
    GroupType,
    PartitionFacts,
    PendingCommit,
    Unknown,
    fingerprint,
)
from tests.fakes.error_table import Operation

LOG_PARTITIONS = 50


@dataclass
class FakePartition:
    """`leader` None: the partition has no leader."""

    replicas: tuple[int, ...]
    in_sync: set[int]
    leader: int | None
    log_start: int = 0
    high_watermark: int = 0


@dataclass
class FakeTopic:
    topic_id: str
    partitions: dict[int, FakePartition]
    cleanup: frozenset[str] = frozenset({"delete"})


@dataclass
class FakeGroup:
    commits: dict[TopicPartition, int] = field(default_factory=dict)
    members: int = 0
    member_topics: set[str] = field(default_factory=set)
    type: GroupType = GroupType.CLASSIC
    hidden: bool = False
    """Not in the listing and described DEAD, as share groups are; a deletion of it succeeds."""
    unread: bool = False
    """What it consumes cannot be read, as during a rebalance."""
    topic_ids: dict[TopicPartition, str] = field(default_factory=dict)
    """Of commits for an earlier topic of the same name."""
    pending: dict[TopicPartition, int] = field(default_factory=dict)
    """Commits of an open transaction."""
    subscribed: set[str] | None = None
    """Topics in the live keys of a share group; None: it has none that can be decoded."""

    def consumes(self, topic: str) -> bool:
        """Whether the group has a commit on the topic, pending ones included, or a member with partitions of it."""
        commits = any(at.topic == topic for at in (*self.commits, *self.pending))
        return commits or bool(self.members and topic in self.member_topics)


@dataclass
class Fault:
    """Answers `code` for the given subjects (None: all).

    `has_effect`: the request has its effect nevertheless.
    """

    operation: Operation
    code: int
    subjects: frozenset[object] | None = None
    has_effect: bool = False
    times: int = 1


@dataclass
class Request:
    """One request as the gateway received it."""

    operation: Operation
    subjects: tuple[object, ...]
    targets: Mapping[TopicPartition, int] = field(default_factory=dict)


class FakeCluster:
    """Brokers 1 to 3 by default.

    Brokers in `silent` do not answer. `may_describe` False: the caller lacks DESCRIBE on the
    cluster.
    """

    def __init__(self, brokers: int = 3) -> None:
        self.brokers = tuple(range(1, brokers + 1))
        self.topics: dict[str, FakeTopic] = {}
        self.groups: dict[str, FakeGroup] = {}
        self.consumer_offsets: dict[int, list[str]] = {}
        self.subscriptions: dict[tuple[int, int], frozenset[str]] = {}
        """Topics in records of share groups, by partition and offset of `__consumer_offsets`."""
        self.silent: set[int] = set()
        self.external: dict[ExternalReaderRequest, ExternalPosition | Unknown] = {}
        """Positions of readers that are not groups."""
        self.moving: set[str] = set()
        """Groups whose coordinator moves: no broker lists them, and no error says so."""
        self.may_describe = True
        self.max_elections = 10_000
        self.faults: list[Fault] = []
        self.commit_faults: dict[TopicPartition, int] = {}
        self.restored: list[CommittedOffset] = []
        self.low_watermarks: dict[TopicPartition, int] = {}
        """Low watermarks that DeleteRecords answers instead of the log start."""
        self.requests: list[Request] = []
        self.refreshes = 0
        self.on_request: Callable[[Operation], None] = lambda _operation: None

    # Changes by other clients and by brokers.

    def create_topic(
        self, topic: str, partitions: int = 1, *, replication: int | None = None, cleanup: Iterable[str] = ("delete",)
    ) -> None:
        count = len(self.brokers) if replication is None else replication
        partitions_by_number = {}
        for number in range(partitions):
            replicas = tuple(self.brokers[(number + at) % len(self.brokers)] for at in range(count))
            partitions_by_number[number] = FakePartition(replicas, set(replicas), replicas[0])
        self.topics[topic] = FakeTopic(uuid.uuid4().hex[:22], partitions_by_number, frozenset(cleanup))

    def delete_topic(self, topic: str) -> None:
        del self.topics[topic]
        for group in self.groups.values():
            group.commits = {at: offset for at, offset in group.commits.items() if at.topic != topic}

    def produce(self, topic: str, counts: Mapping[int, int]) -> None:
        for number, count in counts.items():
            self.topics[topic].partitions[number].high_watermark += count

    def expire(self, at: TopicPartition, log_start: int) -> None:
        """Delete records as retention does."""
        partition = self.partition(at)
        partition.log_start = max(partition.log_start, min(log_start, partition.high_watermark))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.groups.setdefault(group, FakeGroup()).commits.update(offsets)
        self.record_activity(group)

    def commit_pending(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit in a transaction that stays open until `end_transaction`."""
        self.groups.setdefault(group, FakeGroup()).pending.update(offsets)
        self.record_activity(group)

    def end_transaction(self, group: str, *, committed: bool) -> None:
        """End the transaction of a group's pending commits."""
        facts = self.groups[group]
        facts.commits |= facts.pending if committed else {}
        facts.pending = {}

    def subscribe(self, group: str, *topics: str) -> None:
        """Let a share group read these topics, too."""
        facts = self.groups.setdefault(group, FakeGroup(type=GroupType.SHARE, hidden=True))
        facts.subscribed = (facts.subscribed or set()) | set(topics)
        self.record_activity(group)
        self.subscriptions[self.newest_record(group)] = frozenset(topics)

    def record_activity(self, group: str) -> None:
        self.consumer_offsets.setdefault(log_partition(group, LOG_PARTITIONS), []).append(group)

    def remove_group(self, group: str) -> None:
        """Remove a group as its coordinator does, with tombstones in `__consumer_offsets`."""
        del self.groups[group]
        self.record_activity(group)

    def newest_record(self, group: str) -> tuple[int, int]:
        """Return partition and offset of the group's newest record in `__consumer_offsets`."""
        number = log_partition(group, LOG_PARTITIONS)
        return number, max(offset for offset, name in enumerate(self.consumer_offsets[number]) if name == group)

    def join(self, group: str, *topics: str) -> None:
        """Add a member that gets partitions of these topics."""
        facts = self.groups.setdefault(group, FakeGroup())
        facts.members += 1
        self.record_activity(group)
        facts.member_topics |= set(topics)

    def leave(self, group: str) -> None:
        self.groups[group].members -= 1
        self.record_activity(group)

    def stop_broker(self, broker: int) -> None:
        """Remove the broker from each in-sync set. Another in-sync replica leads, or none."""
        for topic in self.topics.values():
            for partition in topic.partitions.values():
                partition.in_sync.discard(broker)
                if partition.leader == broker:
                    partition.leader = next((r for r in partition.replicas if r in partition.in_sync), None)

    def start_broker(self, broker: int) -> None:
        """Add the broker to its in-sync sets. It leads only partitions without a leader."""
        for topic in self.topics.values():
            for partition in topic.partitions.values():
                if broker in partition.replicas:
                    partition.in_sync.add(broker)
                    if partition.leader is None:
                        partition.leader = broker

    def partition(self, at: TopicPartition) -> FakePartition:
        return self.topics[at.topic].partitions[at.partition]

    def _find(self, at: TopicPartition) -> FakePartition | None:
        return self.topics[at.topic].partitions.get(at.partition) if at.topic in self.topics else None

    # The Gateway.

    def refresh(self) -> None:
        self.refreshes += 1

    def read_partitions(
        self, partitions: Iterable[TopicPartition], *, offsets: bool
    ) -> Mapping[TopicPartition, PartitionFacts | None]:
        return {at: self._partition_facts(at, offsets=offsets) for at in partitions}

    def read_positions(
        self, requested: Mapping[str, Sequence[TopicPartition]]
    ) -> Mapping[tuple[str, TopicPartition], int | Unknown | None]:
        positions: dict[tuple[str, TopicPartition], int | Unknown | None] = {}
        for group, partitions in requested.items():
            facts = self.groups.get(group, FakeGroup())
            for at in partitions:
                positions[group, at] = (
                    Unknown("silent") if self.coordinator_of(group) in self.silent else facts.commits.get(at)
                )
        return positions

    def read_consumers(self, topics: Collection[str], log_starts: Mapping[int, int]) -> Consumers:
        facts = {name: self._group_facts(name) for name in self.groups if name not in self.moving}
        if self.silent or not self.may_describe:
            return Consumers(groups=facts, commits={}, incomplete=Unknown("the list of groups is not complete"))
        commits: dict[str, dict[str, dict[int, int]]] = {topic: {} for topic in topics}
        pending: dict[tuple[str, TopicPartition], PendingCommit] = {}
        for name, group in self.groups.items():
            if name in self.moving:
                continue
            facts[name] = replace(facts[name], consumption_unread=REBALANCING if group.unread else None)
            if group.hidden:
                facts[name] = replace(facts[name], listed=False, type=GroupType.HIDDEN)
                continue
            for at, offset in group.commits.items():
                if at.topic in commits:
                    commits[at.topic].setdefault(name, {})[at.partition] = offset
            for at, offset in group.pending.items():
                if at.topic in commits:
                    pending[name, at] = PendingCommit(offset, log_partition(name, LOG_PARTITIONS))
            for topic in commits:
                if group.consumes(topic):
                    commits[topic].setdefault(name, {})
        subscriptions: dict[str, frozenset[str] | None] = {}
        for (number, at), read in self.subscriptions.items():
            group = self.consumer_offsets[number][at]
            if at >= log_starts.get(number, 0):
                subscriptions[group] = read | (subscriptions.get(group) or frozenset())
        log_ends = {number: len(records) for number, records in self.consumer_offsets.items()}
        return Consumers(
            groups=facts,
            commits=commits,
            pending=pending,
            subscriptions=subscriptions,
            log_ends=log_ends,
            external=dict(self.external),
        )

    def read_groups(
        self, groups: Sequence[str], *, removed: Collection[str] = (), hidden: bool = False
    ) -> Mapping[str, GroupFacts]:
        del removed  # this cluster always asks the coordinator
        return {group: self._group_facts(group, hidden=hidden) for group in groups}

    def list_groups(self) -> Mapping[str, GroupFacts] | Unknown:
        consumers = self.read_consumers((), {})
        return consumers.groups if consumers.incomplete is None else consumers.incomplete

    def read_consumer_offsets(self, starts: Mapping[int, int]) -> Mapping[int, Mapping[str, int] | Unknown]:
        tails: dict[int, Mapping[str, int] | Unknown] = {}
        for number, start in starts.items():
            records = enumerate(self.consumer_offsets.get(number, ()))
            silent = self.brokers[number % len(self.brokers)] in self.silent
            tails[number] = Unknown("silent") if silent else {name: at for at, name in records if at >= start}
        return tails

    def connect_for_deletions(self) -> None:
        pass

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemResult]:
        if any(offset < 1 for offset in before_offsets.values()):
            raise ValueError("no target below 1")
        if not before_offsets:
            return {}
        self._record_request(Request(Operation.DELETE_RECORDS, tuple(before_offsets), dict(before_offsets)))
        return {at: self._answer_deletion(at, offset) for at, offset in before_offsets.items()}

    def delete_groups(self, groups: Sequence[str]) -> Mapping[str, ItemResult]:
        if not groups:
            return {}
        self._record_request(Request(Operation.DELETE_GROUP, tuple(groups)))
        return {
            group: self._answer(Operation.DELETE_GROUP, group, lambda group=group: self._remove(group))
            for group in dict.fromkeys(groups)
        }

    def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ItemResult]:
        if not partitions:
            return {}
        self._record_request(Request(Operation.ELECT_LEADER, tuple(partitions)))
        if len(partitions) > self.max_elections:
            refused = ItemResult("POLICY_VIOLATION", "too many")
            return dict.fromkeys(partitions, refused)
        return {
            at: self._answer(Operation.ELECT_LEADER, at, lambda at=at: self._elect(election, at)) for at in partitions
        }

    def commit_offsets(self, group: str, offsets: Sequence[CommittedOffset]) -> Mapping[TopicPartition, ItemResult]:
        self.restored += offsets
        return {commit.at: ItemResult(error_name(self._commit_offset(group, commit))) for commit in offsets}

    # The effects of requests.

    def _record_request(self, request: Request) -> None:
        self.requests.append(request)
        self.on_request(request.operation)

    def _answer(self, operation: Operation, subject: object, execute: Callable[[], int]) -> ItemResult:
        for fault in self.faults:
            if (
                fault.operation is operation
                and fault.times > 0
                and (fault.subjects is None or subject in fault.subjects)
            ):
                fault.times -= 1
                if fault.has_effect:
                    execute()
                return ItemResult(error_name(fault.code), "injected")
        return ItemResult(error_name(execute()))

    def _answer_deletion(self, at: TopicPartition, before_offset: int) -> ItemResult:
        result = self._answer(Operation.DELETE_RECORDS, at, lambda: self._truncate(at, before_offset))
        if result.code != "NONE":
            return result
        return replace(result, low_watermark=self.low_watermarks.get(at, self.partition(at).log_start))

    def _truncate(self, at: TopicPartition, before_offset: int) -> int:
        partition = self._find(at)
        if partition is None:
            return int(KafkaError.UNKNOWN_TOPIC_OR_PART)
        if partition.leader is None:
            return int(KafkaError.LEADER_NOT_AVAILABLE)
        if partition.leader in self.silent:
            return int(KafkaError._TIMED_OUT)
        if "delete" not in self.topics[at.topic].cleanup:
            return int(KafkaError.POLICY_VIOLATION)
        if before_offset > partition.high_watermark:
            return int(KafkaError.OFFSET_OUT_OF_RANGE)
        partition.log_start = max(partition.log_start, before_offset)
        return int(KafkaError.NO_ERROR)

    def _remove(self, group: str) -> int:
        facts = self.groups.get(group)
        if self.coordinator_of(group) in self.silent:
            return int(KafkaError._TIMED_OUT)
        if facts is None:
            return int(KafkaError.GROUP_ID_NOT_FOUND)
        if facts.members:
            return int(KafkaError.NON_EMPTY_GROUP)
        self.remove_group(group)
        return int(KafkaError.NO_ERROR)

    def _commit_offset(self, group: str, commit: CommittedOffset) -> int:
        facts = self.groups.get(group)
        if commit.at in self.commit_faults:
            return self.commit_faults[commit.at]
        if self.coordinator_of(group) in self.silent:
            return int(KafkaError._TIMED_OUT)
        if facts is not None and facts.members:
            return int(KafkaError.UNKNOWN_MEMBER_ID)
        if commit.topic not in self.topics:
            return int(KafkaError.UNKNOWN_TOPIC_OR_PART)
        self.commit(group, {commit.at: commit.offset})
        return int(KafkaError.NO_ERROR)

    def _elect(self, election: Election, at: TopicPartition) -> int:
        partition = self._find(at)
        if partition is None:
            return int(KafkaError.UNKNOWN_TOPIC_OR_PART)
        if election is Election.UNCLEAN:
            if partition.leader is not None:
                return int(KafkaError.ELECTION_NOT_NEEDED)
            return int(KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE)
        preferred = partition.replicas[0]
        if partition.leader == preferred:
            return int(KafkaError.ELECTION_NOT_NEEDED)
        if preferred not in partition.in_sync:
            return int(KafkaError.PREFERRED_LEADER_NOT_AVAILABLE)
        partition.leader = preferred
        return int(KafkaError.NO_ERROR)

    def _partition_facts(self, at: TopicPartition, *, offsets: bool) -> PartitionFacts | None:
        partition = self._find(at)
        if partition is None:
            return None
        unread = None if offsets else NOT_ASKED
        if partition.leader is None or partition.leader in self.silent:
            unread = Unknown("no leader" if partition.leader is None else "silent")
        return PartitionFacts(
            partition=at,
            topic_id=self.topics[at.topic].topic_id,
            leader=partition.leader,
            replicas=partition.replicas,
            in_sync=tuple(sorted(partition.in_sync)),
            log_start=partition.log_start if unread is None else unread,
            high_watermark=partition.high_watermark if unread is None else unread,
        )

    def _group_facts(self, name: str, *, hidden: bool = False) -> GroupFacts:
        group = self.groups.get(name)
        if name in self.moving:
            return unknown_group(name, Unknown("the coordinator moves"))
        if self.coordinator_of(name) in self.silent or (self.silent and (group is None or group.hidden)):
            return unknown_group(name, Unknown("the list of groups is not complete"))
        is_shown = group is not None and (hidden or not group.hidden)
        if not is_shown and self.may_describe:
            return replace(unknown_group(name, Unknown("there is no such group")), listed=False)
        if not self.may_describe or group is None:
            return unknown_group(name, Unknown("the list of groups may be short"))
        facts = GroupFacts(
            group=name,
            listed=True,
            type=Unknown("the broker did not tell the group's type") if group.hidden else group.type,
            state=Unknown("only the old list call shows this group")
            if group.hidden
            else GroupState.STABLE
            if group.members
            else GroupState.EMPTY,
            commits=len(group.commits),
            commit_topics=len({at.topic for at in group.commits}),
            fingerprint=fingerprint((at.topic, at.partition, offset) for at, offset in group.commits.items()),
            offsets=tuple(
                CommittedOffset(
                    topic=at.topic,
                    topic_id=self.topics[at.topic].topic_id if at.topic in self.topics else None,
                    partition=at.partition,
                    offset=offset,
                )
                for at, offset in sorted(group.commits.items())
            ),
        )
        if group.commits.keys() & group.pending.keys():
            unstable = Unknown("unstable offsets", Cause.OPEN_TRANSACTION)
            return replace(facts, commits=unstable, commit_topics=unstable, fingerprint=unstable, offsets=unstable)
        return facts

    def coordinator_of(self, group: str) -> int:
        return self.brokers[log_partition(group, LOG_PARTITIONS) % len(self.brokers)]


def cluster_of_orders(partitions: int = 1) -> FakeCluster:
    """Return a cluster with 100 records in every partition of the topic `orders`."""
    cluster = FakeCluster()
    cluster.create_topic("orders", partitions)
    cluster.produce("orders", dict.fromkeys(range(partitions), 100))
    return cluster
