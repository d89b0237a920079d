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
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from reconciler.errors import ScanFailed, UsageError
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_commit_log
from reconciler.kafka.groups import GroupListing, list_groups, read_commits
from reconciler.kafka.offsets import read_offsets
from reconciler.kafka.schemas import COMMIT_LOG, GROUP_COMMITS, PARTITIONS, commit_batch, offset_batch
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import COMMIT_LOG_TOPIC, TopicListing, describe_topics, list_topics
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import PartitionFacts
from reconciler.scan import requests
from reconciler.scan.code_archive import add_package
from reconciler.scan.export import PARTITION_COLUMNS, known_or_none
from reconciler.scan.requests import CommitsChunk, LogChunk, PartitionsChunk
from reconciler.scan.scan import describe_log
from reconciler.scan.task_rows import is_retry

_CLIENT = "kafka."
_METADATA = ("topic_id", "leader", "replicas", "in_sync")
PARTITIONS_WITH_METADATA = pa.schema([*PARTITIONS, *(PARTITION_COLUMNS.field(name) for name in _METADATA)])

Metadata = Mapping[str, Any]
"""The columns of a partition that its topic's listing knows."""


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
    def parse(cls, options: Mapping[str, str]) -> "Options":
        """The options as Spark passes them. Raises UsageError without `bootstrap.servers`."""
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


class KafkaSource(DataSource, DataSourceReader):
    """One source and its reader: a Spark partition per chunk, each read with a Kafka session of its own.

    `SCHEMA`: of the rows. Spark pickles the source.
    """

    NAME: ClassVar[str]
    SCHEMA: ClassVar[pa.Schema]

    @classmethod
    def name(cls) -> str:
        return cls.NAME

    def schema(self) -> StructType:
        return from_arrow_schema(self.SCHEMA)

    def reader(self, schema: StructType) -> "KafkaSource":  # noqa: ARG002 - Spark passes it by name
        return self

    def partitions(self) -> Sequence[InputPartition]:
        options = Options.parse(self.options)
        with closing(KafkaSession(options.connection)) as session:
            return [InputPartition(chunk) for chunk in self.chunks(session, options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with closing(KafkaSession(Options.parse(self.options).connection)) as session:
            yield from self.rows(session, partition.value)

    @abstractmethod
    def chunks(self, session: KafkaSession, options: Options) -> Iterable[Any]:
        """In the driver: the chunks, of which each becomes a Spark partition."""

    @abstractmethod
    def rows(self, session: KafkaSession, chunk: Any) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of one chunk."""


class KafkaPartitions(KafkaSource):
    """One row per partition: `schemas.PARTITIONS` and its leadership. A leaderless one has an error."""

    NAME = "kafka_partitions"
    SCHEMA = PARTITIONS_WITH_METADATA

    def chunks(self, session: KafkaSession, options: Options) -> Iterator[tuple[PartitionsChunk, list[Metadata]]]:
        topics = TopicRequest(topics=options.topics, offsets=True, instants_ms=options.instants_ms)
        request = ScanRequest(topics=(topics,))
        listing = _complete(list_topics(session))
        names = requests.select_topics(request, listing.topics)
        listing = _complete(describe_topics(session, listing, names))
        metadata = {facts.partition: _metadata(facts) for name in names for facts in listing.partitions.get(name, ())}
        for chunk in requests.partition_chunks(tuple(requests.partition_requests(request, listing)), (), listing):
            keys = (TopicPartition(part.topic, number) for part in chunk.requests for number in part.partitions)
            yield chunk, [metadata.pop(key) for key in keys]
        if metadata:
            yield PartitionsChunk(()), list(metadata.values())

    def rows(self, session: KafkaSession, chunk: tuple[PartitionsChunk, list[Metadata]]) -> Iterator[pa.RecordBatch]:
        offsets, metadata = chunk
        answers = offset_batch(offsets.requests, read_offsets(session, offsets.requests)).to_pylist()
        rows = {(row["topic"], row["partition"]): row for row in answers}
        leaderless = {"error": "the partition has no leader"}
        yield pa.RecordBatch.from_pylist(
            [{**listed, **rows.get((listed["topic"], listed["partition"]), leaderless)} for listed in metadata],
            schema=PARTITIONS_WITH_METADATA,
        )


class KafkaGroupCommits(KafkaSource):
    """`schemas.GROUP_COMMITS`: one row per committed offset and one per group that the caller may list."""

    NAME = "kafka_group_commits"
    SCHEMA = GROUP_COMMITS

    def chunks(self, session: KafkaSession, options: Options) -> list[CommitsChunk]:
        listing = _complete(list_groups(session, hidden=False))
        return requests.commit_chunks(requests.select_groups([GroupRequest(groups=options.groups)], listing.groups))

    def rows(self, session: KafkaSession, chunk: CommitsChunk) -> Iterator[pa.RecordBatch]:
        return map(commit_batch, read_commits(session, chunk.groups, isolated=is_retry()))


class KafkaCommitLog(KafkaSource):
    """`schemas.COMMIT_LOG`: the commit log, reduced per group; empty where the topic does not exist."""

    NAME = "kafka_commit_log"
    SCHEMA = COMMIT_LOG

    def chunks(self, session: KafkaSession, options: Options) -> list[LogChunk]:  # noqa: ARG002 - of every source
        log = describe_log(session, _complete(list_topics(session)))
        if log.missing is not None:
            raise ScanFailed(f"{COMMIT_LOG_TOPIC} could not be read: {log.missing.reason}")
        # The reader of a leaderless partition says so in the partition's row.
        return requests.log_chunks(dict.fromkeys(range(log.partitions), 0) | dict(log.sizes))

    def rows(self, session: KafkaSession, chunk: LogChunk) -> Iterator[pa.RecordBatch]:
        yield read_commit_log(session, chunk.partitions)


_Listing = TypeVar("_Listing", TopicListing, GroupListing)


def _complete(listing: _Listing) -> _Listing:
    """The listing. Raises ScanFailed for an incomplete one: its table would show a smaller cluster."""
    if listing.incomplete is not None:
        raise ScanFailed(listing.incomplete.reason)
    return listing


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _metadata(facts: PartitionFacts) -> Metadata:
    row = {"topic": facts.partition.topic, "partition": facts.partition.partition}
    return row | {name: known_or_none(getattr(facts, name)) for name in _METADATA}
