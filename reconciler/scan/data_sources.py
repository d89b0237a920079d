# mypy: disable-error-code="misc"
"""The three sources for anybody's SparkSession: `spark.read.format("kafka_partitions")`, `kafka_group_commits`, `kafka_commit_log`.

Thin: the same functions as in the scan, one Spark partition per chunk, every row with its status. Nothing is reduced or decided
here. The scan itself does not use these classes: a data source starts more Python workers and is read again by every action.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from reconciler.errors import ScanFailed, UsageError
from reconciler.kafka import groups as group_listing
from reconciler.kafka import topics as listing
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_commit_log
from reconciler.kafka.groups import GroupListing
from reconciler.kafka.offsets import OffsetsRequest, read_group_commits, read_partitions
from reconciler.kafka.schemas import COMMIT_LOG, GROUP_COMMITS, PARTITIONS
from reconciler.kafka.topics import COMMIT_LOG_TOPIC, PartitionMetadata, TopicListing
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import Unknown
from reconciler.scan import requests
from reconciler.scan.code_archive import add_package
from reconciler.scan.task_rows import CommitsChunk, LogChunk, PartitionsChunk

_CLIENT = "kafka."
_METADATA = [
    pa.field("topic_id", pa.string()),
    pa.field("leader", pa.int32()),
    pa.field("replicas", pa.list_(pa.int32())),
    pa.field("in_sync", pa.list_(pa.int32())),
]
_LEADER = 1
PARTITIONS_WITH_METADATA = pa.schema([*PARTITIONS, *_METADATA])


def register(session: SparkSession) -> None:
    """Make the three formats known to a session, and our code to its workers."""
    add_package(session)
    for source in (KafkaPartitions, KafkaGroupCommits, KafkaCommitLog):
        session.dataSource.register(source)


@dataclass(frozen=True, slots=True)
class Options:
    """What `.option(…)` said. `topics` and `groups`: selectors with commas between; `instants_ms`: epoch ms; `kafka.…`: the client's."""

    connection: Connection
    topics: tuple[Selector, ...]
    groups: tuple[Selector, ...]
    instants_ms: tuple[int, ...]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Options":
        """Raises UsageError without `bootstrap.servers`."""
        servers = _words(given.get("bootstrap.servers", ""))
        if not servers:
            raise UsageError('say .option("bootstrap.servers", "host:port")')
        client = {name.removeprefix(_CLIENT): value for name, value in given.items() if name.startswith(_CLIENT)}
        return cls(
            Connection(servers, client, timeout_s=float(given.get("timeout_s", "30"))),
            tuple(Selector(word) for word in _words(given.get("topics", "*"))),
            tuple(Selector(word) for word in _words(given.get("groups", "*"))),
            tuple(int(word) for word in _words(given.get("instants_ms", ""))),
        )


class Chunk(InputPartition):
    """One chunk of a source, and metadata by (topic, partition) that its rows are completed with."""

    def __init__(self, chunk: Any, metadata: Mapping[tuple[str, int], tuple[Any, ...]] | None = None) -> None:
        super().__init__(0)
        self.chunk = chunk
        self.metadata = metadata or {}


class KafkaPartitions(DataSource):
    """One row per partition: `tables.PARTITIONS` and its leadership."""

    @classmethod
    def name(cls) -> str:
        return "kafka_partitions"

    def schema(self) -> StructType:
        return from_arrow_schema(PARTITIONS_WITH_METADATA)

    def reader(self, schema: StructType) -> "PartitionsReader":  # noqa: ARG002 - Spark passes it by name
        return PartitionsReader(Options.of(self.options))


class PartitionsReader(DataSourceReader):
    """Offsets by leader. Leaderless partitions are rows, too, with the reason."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        need = TopicRequest(topics=self.options.topics, offsets=True, instants_ms=self.options.instants_ms)
        names = _complete(listing.list_topics(self.options.connection))
        wanted = requests.selected_topics(ScanRequest(topics=(need,)), names.topics)
        topics = _complete(listing.describe_topics(self.options.connection, names, wanted))
        wished = tuple(requests.partition_requests(ScanRequest(topics=(need,)), topics))
        chunks = requests.partition_chunks(wished, (), topics.topics)
        metadata = _metadata(topics, wanted)
        leaderless = {key: facts for key, facts in metadata.items() if facts[_LEADER] is None}
        read = [Chunk(chunk, _of(chunk, metadata)) for chunk in chunks]
        return [*read, Chunk(PartitionsChunk(()), leaderless)] if leaderless else read

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Chunk)
        assert isinstance(partition.chunk, PartitionsChunk)
        if not partition.chunk.asks:
            yield _leaderless(partition.metadata)
            return
        for batch in read_partitions(self.options.connection, partition.chunk.asks):
            keys = zip(batch.column("topic").to_pylist(), batch.column("partition").to_pylist(), strict=True)
            found = [partition.metadata[key] for key in keys]
            columns = [pa.array([row[index] for row in found], field.type) for index, field in enumerate(_METADATA)]
            yield pa.record_batch([*batch.columns, *columns], schema=PARTITIONS_WITH_METADATA)


class KafkaGroupCommits(DataSource):
    """One row per committed offset and one per group: `tables.GROUP_COMMITS`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_group_commits"

    def schema(self) -> StructType:
        return from_arrow_schema(GROUP_COMMITS)

    def reader(self, schema: StructType) -> "GroupCommitsReader":  # noqa: ARG002 - Spark passes it by name
        return GroupCommitsReader(Options.of(self.options))


class GroupCommitsReader(DataSourceReader):
    """Commits of the groups that the caller may list."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        listed = _complete(group_listing.list_groups(self.options.connection, hidden=False))
        wanted = requests.selected_groups([GroupRequest(groups=self.options.groups)], listed.groups)
        return [Chunk(chunk) for chunk in requests.commit_chunks(wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Chunk)
        assert isinstance(partition.chunk, CommitsChunk)
        context = TaskContext.get()
        again = context is not None and context.attemptNumber() > 0
        return read_group_commits(self.options.connection, partition.chunk.groups, isolated=again)


class KafkaCommitLog(DataSource):
    """What the commit log says, reduced per group: `tables.COMMIT_LOG`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_commit_log"

    def schema(self) -> StructType:
        return from_arrow_schema(COMMIT_LOG)

    def reader(self, schema: StructType) -> "CommitLogReader":  # noqa: ARG002 - Spark passes it by name
        return CommitLogReader(Options.of(self.options))


class CommitLogReader(DataSourceReader):
    """The partitions of the log; none where the topic does not exist yet."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        topics = _complete(listing.list_topics(self.options.connection))
        if COMMIT_LOG_TOPIC not in topics.topics:
            # There is none yet, or it may not be seen.
            topics = _complete(listing.describe_topics(self.options.connection, topics, [COMMIT_LOG_TOPIC]))
        log = topics.topics.get(COMMIT_LOG_TOPIC)
        if log is None:
            return []
        if isinstance(log.partitions, Unknown):
            raise ScanFailed(f"{COMMIT_LOG_TOPIC} could not be read: {log.partitions.reason}")
        return [Chunk(chunk) for chunk in requests.log_chunks(log_sizes(self.options.connection, log.partitions))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Chunk)
        assert isinstance(partition.chunk, LogChunk)
        return read_commit_log(self.options.connection, partition.chunk.partitions)


_Listing = TypeVar("_Listing", TopicListing, GroupListing)


def _complete(found: _Listing) -> _Listing:
    """A table that lacks rows without saying so would read as a smaller cluster."""
    if found.incomplete is not None:
        raise ScanFailed(found.incomplete.reason)
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _metadata(topics: TopicListing, wanted: Iterable[str]) -> dict[tuple[str, int], tuple[Any, ...]]:
    found: dict[tuple[str, int], tuple[Any, ...]] = {}
    for name in wanted:
        topic = topics.topics.get(name)
        if topic is None or isinstance(topic.partitions, Unknown):
            continue
        for partition in topic.partitions:
            facts = (topic.topic_id, partition.leader, partition.replicas, partition.in_sync)
            found[name, partition.number] = tuple(None if isinstance(fact, Unknown) else fact for fact in facts)
    return found


def log_sizes(connection: Connection, partitions: Iterable[PartitionMetadata]) -> dict[int, int]:
    """Offsets that each partition of the commit log spans, as `wishes.log_size`."""
    sizes = dict.fromkeys((p.number for p in partitions), 0)
    led = [p.number for p in partitions if isinstance(p.leader, int)]
    for batch in read_partitions(connection, [OffsetsRequest(COMMIT_LOG_TOPIC, led, -1, full=False)]):
        for row in batch.to_pylist():
            sizes[row["partition"]] = requests.log_size(row["log_start"], row["high_watermark"])
    return sizes


def _of(
    chunk: PartitionsChunk, metadata: Mapping[tuple[str, int], tuple[Any, ...]]
) -> dict[tuple[str, int], tuple[Any, ...]]:
    keys = ((ask.topic, number) for ask in chunk.asks for number in ask.partitions)
    return {key: metadata[key] for key in keys}


def _leaderless(metadata: Mapping[tuple[str, int], tuple[Any, ...]]) -> pa.RecordBatch:
    rows = [
        {
            "topic": topic,
            "partition": number,
            "error": "the partition has no leader",
            **{field.name: value for field, value in zip(_METADATA, facts, strict=True)},
        }
        for (topic, number), facts in metadata.items()
    ]
    return pa.RecordBatch.from_pylist(rows, schema=PARTITIONS_WITH_METADATA)
