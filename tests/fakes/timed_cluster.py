"""A fake cluster that records when records were written and groups were active.

It builds the snapshots that a scan would return. The stateful property test runs planner, recheck
and executor against it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import (
    REBALANCING,
    ClusterSnapshot,
    ConsumerPosition,
    GroupFacts,
    GroupState,
    GroupType,
    PartitionFacts,
    PendingCommit,
    TopicFacts,
    Unknown,
    fingerprint,
)
from tests.fakes.cluster import LOG_PARTITIONS, FakeCluster
from tests.strategies import facts

SILENT = Unknown("its broker did not answer")


@dataclass
class TimedCluster:
    """Changes of the cluster with their timestamps. Only `pass_time` moves `now_ms`."""

    now_ms: int
    cluster: FakeCluster = field(default_factory=FakeCluster)
    record_times: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """Timestamps of all records, by topic id and partition; offsets are positions."""
    active: dict[str, int] = field(default_factory=dict)
    """Group → time of its newest record in `__consumer_offsets`."""

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    def create(self, topic: str, partitions: int, cleanup: Iterable[str] = ("delete",)) -> None:
        self.cluster.create_topic(topic, partitions, cleanup=cleanup)

    def drop(self, topic: str) -> None:
        groups = [name for name, group in self.cluster.groups.items() if any(at.topic == topic for at in group.commits)]
        self.cluster.delete_topic(topic)
        for group in groups:
            self.cluster.record_activity(group)
            self.active[group] = self.now_ms

    def produce(self, at: TopicPartition, count: int) -> None:
        topic = self.cluster.topics.get(at.topic)
        if topic is None or at.partition not in topic.partitions or topic.partitions[at.partition].leader is None:
            return
        self.cluster.produce(at.topic, {at.partition: count})
        self.record_times.setdefault((topic.topic_id, at.partition), []).extend([self.now_ms] * count)

    def commit(self, group: str, at: TopicPartition, offset: int) -> None:
        topic = self.cluster.topics.get(at.topic)
        if topic is not None and at.partition in topic.partitions:
            self.cluster.commit(group, {at: min(offset, topic.partitions[at.partition].high_watermark)})
            self.active[group] = self.now_ms

    def join(self, group: str, *topics: str) -> None:
        self.cluster.join(group, *topics)
        self.active[group] = self.now_ms

    def leave(self, group: str) -> None:
        if group in self.cluster.groups and self.cluster.groups[group].members:
            self.cluster.leave(group)
            self.active[group] = self.now_ms

    def snapshot(self, request: ScanRequest, last_purges: Mapping[TopicPartition, int]) -> ClusterSnapshot:
        """All facts of the cluster, also those that are not requested; Unknown for silent brokers."""
        instants = sorted({instant for topic_request in request.topics for instant in topic_request.instants_ms})
        all_facts: list[PartitionFacts | TopicFacts | GroupFacts] = []
        cluster_records = 0
        for name, topic in self.cluster.topics.items():
            keys = [TopicPartition(name, number) for number in topic.partitions]
            partitions = [self._partition(at, instants, last_purges.get(at)) for at in keys]
            records = sum(
                partition.high_watermark - partition.log_start
                for partition in partitions
                if isinstance(partition.high_watermark, int) and isinstance(partition.log_start, int)
            )
            cluster_records += records
            all_facts += partitions
            all_facts.append(
                facts.topic(name, len(keys), topic_id=topic.topic_id, cleanup_policy=topic.cleanup, records=records)
            )
        all_facts += [
            self._group(name)
            for name in self.cluster.groups
            if self.cluster.coordinator_of(name) not in self.cluster.silent
        ]
        silent = SILENT if self.cluster.silent else None
        return facts.snapshot(
            *all_facts,
            observed_at_ms=self.now_ms,
            brokers=self.cluster.brokers,
            groups_incomplete=silent,
            readers_incomplete=silent,
            external=dict(self.cluster.external),
            cluster_records=cluster_records,
            consumer_offsets_ends={number: len(records) for number, records in self.cluster.consumer_offsets.items()},
        )

    def _partition(self, at: TopicPartition, instants: Iterable[int], last_purge: int | None) -> PartitionFacts:
        topic = self.cluster.topics[at.topic]
        partition = self.cluster.partition(at)
        unread: Unknown | None = SILENT if partition.leader in self.cluster.silent or partition.leader is None else None

        def unless_silent(fact: int | None) -> int | Unknown | None:
            return fact if unread is None else unread

        record_times = self.record_times.get((topic.topic_id, at.partition), [])

        def offset_at(instant: int) -> int | None:
            offset = max(bisect_left(record_times, instant), partition.log_start)
            return offset if offset < partition.high_watermark else None

        return facts.partition(
            at.partition,
            topic=at.topic,
            topic_id=topic.topic_id,
            leader=partition.leader,
            replicas=partition.replicas,
            in_sync=tuple(sorted(partition.in_sync)),
            log_start=unless_silent(partition.log_start),
            end=unless_silent(partition.high_watermark),
            offsets_at={instant: unless_silent(offset_at(instant)) for instant in instants},
            readers=self._readers(at, partition.log_start),
            last_purge=last_purge,
        )

    def _readers(self, at: TopicPartition, log_start: int) -> tuple[ConsumerPosition, ...] | Unknown:
        if self.cluster.silent:
            return SILENT
        readers = []
        topic_id = self.cluster.topics[at.topic].topic_id
        for name, group in sorted(self.cluster.groups.items()):
            if group.hidden or group.unread:
                continue
            pending = None
            if at in group.pending:
                pending = PendingCommit(group.pending[at], log_partition(name, LOG_PARTITIONS))
            if at in group.commits:
                committed_for = group.topic_ids.get(at, topic_id)
                readers.append(ConsumerPosition(name, group.commits[at], topic_id=committed_for, pending=pending))
            elif group.consumes(at.topic):
                readers.append(
                    ConsumerPosition(name, log_start, without_commit=True, topic_id=topic_id, pending=pending)
                )
        return tuple(readers)

    def _group(self, name: str) -> GroupFacts:
        group = self.cluster.groups[name]
        return facts.group(
            name,
            listed=not group.hidden,
            type=GroupType.HIDDEN if group.hidden else group.type,
            consumption_unread=REBALANCING if group.unread else None,
            may_read=None if group.subscribed is None else frozenset(group.subscribed),
            state=GroupState.STABLE if group.members else GroupState.EMPTY,
            commits=len(group.commits),
            commit_topics=len({at.topic for at in group.commits}),
            fingerprint=fingerprint((at.topic, at.partition, offset) for at, offset in group.commits.items()),
            last_activity_ms=self.active[name],
            newest_record=self.cluster.newest_record(name),
        )
