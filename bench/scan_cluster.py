"""The cluster that bench.scan measures: topics, groups and a long `__consumer_offsets`.

Each partition has old records and a new one. Brokers write every record of `__consumer_offsets` in answer
to an OffsetCommit. Each partition has one replica: requests about offsets and commits go only to
leaders, and three replicas of 30,000 partitions are more files than one machine can open.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from bench import clusters
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.model.progress import Progress

PARTITIONS_PER_TOPIC = 50
COMMITS_PER_GROUP = 50
OLD_RECORDS = 60
"""In each partition: more than a few, because a short range is read as a whole."""
RECORDS_PER_PARTITION = OLD_RECORDS + 1
DAY_MS = 86_400_000
CONSUMER_OFFSETS_LOG = "__consumer_offsets"
FIRST_COMMIT = "first-commit"
"""The topic and the group of the first commit."""

_TOPICS_PER_REQUEST = 20
_TOPICS_PER_PRODUCER = 25


@dataclass(slots=True)
class ScanCluster:
    """A growing cluster: `topics` and `groups` are the present numbers.

    `commit_topics` is the number of topics with commits; it stays when more topics come.
    """

    cluster: SandboxCluster
    progress: Progress
    topics: int = 0
    groups: int = 0
    commit_topics: int = 0

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def partitions(self) -> int:
        return self.topics * PARTITIONS_PER_TOPIC

    def create_consumer_offsets(self) -> None:
        """Write the first commit, which creates `__consumer_offsets`, and wait for the log's leaders."""
        client.create_topics(self.servers, [client.Topic(FIRST_COMMIT, replication=1)])
        client.commit(self.servers, FIRST_COMMIT, {(FIRST_COMMIT, 0): 0}, deadline_s=60)
        clusters.wait_for_leaders(self.servers, [CONSUMER_OFFSETS_LOG])

    def grow_topics(self, partitions: int) -> None:
        """Add topics up to this number of partitions.

        Each partition gets records of ten days ago and one of now.
        """
        count = partitions // PARTITIONS_PER_TOPIC
        names = [topic_name(number) for number in range(self.topics, count)]
        topics = [NewTopic(name, PARTITIONS_PER_TOPIC, 1) for name in names]
        clusters.create_topics(self.servers, topics, batch_size=_TOPICS_PER_REQUEST, progress=self.progress)
        _produce(self.servers, names)
        self.topics = count

    def grow_groups(self, groups: int) -> None:
        """Add groups up to this number; each commits on every partition of one topic."""
        self.commit_topics = self.commit_topics or self.topics
        self._commit(range(self.groups, groups))
        self.groups = groups

    def grow_log(self, records: int) -> None:
        """Repeat the commits of all groups until `__consumer_offsets` has this number of records."""
        while (count := log_records(self.servers)) < records:
            self.progress(f"__consumer_offsets has {count:,} records")
            per_round = self.groups * COMMITS_PER_GROUP
            for _ in range(max(1, min(4, (records - count) // per_round))):
                self._commit(range(self.groups))

    def _commit(self, groups: Sequence[int]) -> None:
        commits = ((group_name(number), self._offsets(number)) for number in groups)
        clusters.commit_offsets(self.servers, commits, progress=self.progress)

    def _offsets(self, number: int) -> list[TopicPartition]:
        name = topic_name(number % self.commit_topics)
        # A quarter of each topic's groups lags by one record, so that a plan has consumers to name.
        lag = 1 if number // self.commit_topics % 4 == 0 else 0
        return [TopicPartition(name, partition, RECORDS_PER_PARTITION - lag) for partition in range(COMMITS_PER_GROUP)]


def topic_name(number: int) -> str:
    return f"bench-{number:04}"


def group_name(number: int) -> str:
    return f"bench-group-{number:05}"


@contextmanager
def scan_cluster(*, heap_mib: int, progress: Progress) -> Iterator[ScanCluster]:
    """Run the cluster during the block, with one replica of each partition.

    `__consumer_offsets` is never compacted.
    """
    properties = {
        "offsets.topic.replication.factor": "1",
        "offsets.topic.segment.bytes": "1073741824",
        "default.replication.factor": "1",
    }
    with clusters.bench_brokers("bench", heap_mib=heap_mib, properties=properties, progress=progress) as brokers:
        cluster = ScanCluster(brokers, progress)
        cluster.create_consumer_offsets()
        yield cluster


def log_sizes(servers: str) -> dict[int, int]:
    """Number of offsets in each partition of `__consumer_offsets`."""
    partitions = sorted(client.partition_states(servers, CONSUMER_OFFSETS_LOG))
    watermarks = ((number, client.watermarks(servers, CONSUMER_OFFSETS_LOG, number)) for number in partitions)
    return {number: end - start for number, (start, end) in watermarks}


def log_records(servers: str) -> int:
    """Number of offsets in `__consumer_offsets`."""
    return sum(log_sizes(servers).values())


def _produce(servers: str, names: Sequence[str]) -> None:
    """Write the records of each partition, the old ones first, for a few topics at a time.

    A client gets the metadata of hundreds of new topics in parts, and it does not soon ask again
    for a topic that was unknown once.
    """
    now_ms = time.time_ns() // 1_000_000
    for batch in clusters.batches(names, _TOPICS_PER_PRODUCER):
        records = [
            (name, partition, timestamp_ms)
            for name in batch
            for partition in range(PARTITIONS_PER_TOPIC)
            for timestamp_ms in (*[now_ms - 10 * DAY_MS] * OLD_RECORDS, now_ms)
        ]
        clusters.write_records(servers, records, {"linger.ms": 50})
