# mypy: disable-error-code="misc"
"""Data sources for any SparkSession: `kafka_partitions`, `kafka_group_commits` and `kafka_commit_log`.

They use the scan's readers, with one Spark partition per chunk and a status in every row. The scan itself
does not use them: a data source starts more Python workers, and every action reads it again.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from reconciler.errors import ScanFailed, UsageError
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import log_sizes, read_commit_log
from reconciler.kafka.groups import GroupListing, list_groups, read_commits
from reconciler.kafka.offsets import read_offsets
from reconciler.kafka.schemas import COMMIT_LOG, GROUP_COMMITS, PARTITIONS, commit_batch, offset_batch
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import COMMIT_LOG_TOPIC, TopicListing, describe_topics, list_topics
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
    """Register the three formats with a session, and put our code on its workers' path."""
    add_package(session)
    for source in (KafkaPartitions, KafkaGroupCommits, KafkaCommitLog):
        session.dataSource.register(source)


@dataclass(frozen=True, slots=True)
class Options:
    """The reader's options.

    `topics`, `groups`: comma-separated selectors. `instants_ms`: comma-separated epoch ms. `kafka.…`:
    librdkafka's properties.
    """

    connection: Connection
    topics: tuple[Selector, ...]
    groups: tuple[Selector, ...]
    instants_ms: tuple[int, ...]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Options":
        """Raises UsageError without `bootstrap.servers`."""
        servers = _words(options.get("bootstrap.servers", ""))
        if not servers:
            raise UsageError('say .option("bootstrap.servers", "host:port")')
        client = {name.removeprefix(_CLIENT): value for name, value in options.items() if name.startswith(_CLIENT)}
        return cls(
            Connection(servers, client, timeout_s=float(options.get("timeout_s", "30"))),
            tuple(Selector(word) for word in _words(options.get("topics", "*"))),
            tuple(Selector(word) for word in _words(options.get("groups", "*"))),
            tuple(int(word) for word in _words(options.get("instants_ms", ""))),
        )


Metadata = Mapping[tuple[str, int], tuple[Any, ...]]


class Chunk(InputPartition):
    """One chunk of a source, and the metadata columns of its rows by (topic, partition)."""

    def __init__(self, chunk: Any, metadata: Metadata | None = None) -> None:
        super().__init__(0)
        self.chunk = chunk
        self.metadata = metadata or {}


class KafkaSource(DataSource):
    """One source: its name and schema, its chunks, and the rows of one chunk."""

    NAME: ClassVar[str]
    SCHEMA: ClassVar[pa.Schema]

    @classmethod
    def name(cls) -> str:
        return cls.NAME

    def schema(self) -> StructType:
        return from_arrow_schema(self.SCHEMA)

    def reader(self, schema: StructType) -> "ChunkReader":  # noqa: ARG002 - Spark passes it by name
        return ChunkReader(type(self), Options.of(self.options))

    @staticmethod
    @abstractmethod
    def chunks(session: KafkaSession, options: Options) -> Sequence[Chunk]:
        """In the driver: the chunks, of which each becomes a Spark partition."""

    @staticmethod
    @abstractmethod
    def rows(session: KafkaSession, partition: Chunk) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of one chunk."""


class ChunkReader(DataSourceReader):
    """Reads a source with one Kafka session per chunk. Spark pickles it."""

    def __init__(self, source: type[KafkaSource], options: Options) -> None:
        self.source = source
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        with closing(KafkaSession(self.options.connection)) as session:
            return self.source.chunks(session, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Chunk)
        with closing(KafkaSession(self.options.connection)) as session:
            yield from self.source.rows(session, partition)


class KafkaPartitions(KafkaSource):
    """One row per partition: `schemas.PARTITIONS` and its leadership. A leaderless one has an error."""

    NAME = "kafka_partitions"
    SCHEMA = PARTITIONS_WITH_METADATA

    @staticmethod
    def chunks(session: KafkaSession, options: Options) -> Sequence[Chunk]:
        topics = TopicRequest(topics=options.topics, offsets=True, instants_ms=options.instants_ms)
        request = ScanRequest(topics=(topics,))
        listing = _complete(list_topics(session))
        names = requests.selected_topics(request, listing.topics)
        listing = _complete(describe_topics(session, listing, names))
        chunks = requests.partition_chunks(tuple(requests.partition_requests(request, listing)), (), listing)
        metadata = _metadata(listing, names)
        leaderless = {key: facts for key, facts in metadata.items() if facts[_LEADER] is None}
        read = [Chunk(chunk, _of(chunk, metadata)) for chunk in chunks]
        return [*read, Chunk(PartitionsChunk(()), leaderless)] if leaderless else read

    @staticmethod
    def rows(session: KafkaSession, partition: Chunk) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition.chunk, PartitionsChunk)
        if not partition.chunk.requests:
            yield _leaderless(partition.metadata)
            return
        batch = offset_batch(partition.chunk.requests, read_offsets(session, partition.chunk.requests))
        keys = zip(batch.column("topic").to_pylist(), batch.column("partition").to_pylist(), strict=True)
        rows = [partition.metadata[key] for key in keys]
        columns = [pa.array([row[index] for row in rows], field.type) for index, field in enumerate(_METADATA)]
        yield pa.record_batch([*batch.columns, *columns], schema=PARTITIONS_WITH_METADATA)


class KafkaGroupCommits(KafkaSource):
    """`schemas.GROUP_COMMITS`: one row per committed offset and one per group that the caller may list."""

    NAME = "kafka_group_commits"
    SCHEMA = GROUP_COMMITS

    @staticmethod
    def chunks(session: KafkaSession, options: Options) -> Sequence[Chunk]:
        listing = _complete(list_groups(session, hidden=False))
        names = requests.selected_groups([GroupRequest(groups=options.groups)], listing.groups)
        return [Chunk(chunk) for chunk in requests.commit_chunks(names)]

    @staticmethod
    def rows(session: KafkaSession, partition: Chunk) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition.chunk, CommitsChunk)
        context = TaskContext.get()
        is_retry = context is not None and context.attemptNumber() > 0
        for commits in read_commits(session, partition.chunk.groups, isolated=is_retry):
            yield commit_batch(commits)


class KafkaCommitLog(KafkaSource):
    """`schemas.COMMIT_LOG`: the commit log, reduced per group; empty where the topic does not exist."""

    NAME = "kafka_commit_log"
    SCHEMA = COMMIT_LOG

    @staticmethod
    def chunks(session: KafkaSession, options: Options) -> Sequence[Chunk]:  # noqa: ARG004 - of every source
        listing = _complete(list_topics(session))
        if COMMIT_LOG_TOPIC not in listing.topics:
            # There is none yet, or this caller may not see it.
            listing = _complete(describe_topics(session, listing, [COMMIT_LOG_TOPIC]))
        log = listing.topics.get(COMMIT_LOG_TOPIC)
        if log is None:
            return []
        if isinstance(log.partitions, Unknown):
            raise ScanFailed(f"{COMMIT_LOG_TOPIC} could not be read: {log.partitions.reason}")
        sizes = log_sizes(session, listing.partitions[COMMIT_LOG_TOPIC])
        return [Chunk(chunk) for chunk in requests.log_chunks(sizes)]

    @staticmethod
    def rows(session: KafkaSession, partition: Chunk) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition.chunk, LogChunk)
        yield read_commit_log(session, partition.chunk.partitions)


_Listing = TypeVar("_Listing", TopicListing, GroupListing)


def _complete(listing: _Listing) -> _Listing:
    """The listing. Raises ScanFailed for an incomplete one: its table would show a smaller cluster."""
    if listing.incomplete is not None:
        raise ScanFailed(listing.incomplete.reason)
    return listing


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _metadata(listing: TopicListing, names: Iterable[str]) -> Metadata:
    return {
        (name, facts.partition.partition): tuple(
            None if isinstance(fact, Unknown) else fact
            for fact in (facts.topic_id, facts.leader, facts.replicas, facts.in_sync)
        )
        for name in names
        for facts in listing.partitions.get(name, ())
    }


def _of(chunk: PartitionsChunk, metadata: Metadata) -> Metadata:
    keys = ((request.topic, number) for request in chunk.requests for number in request.partitions)
    return {key: metadata[key] for key in keys}


def _leaderless(metadata: Metadata) -> pa.RecordBatch:
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
