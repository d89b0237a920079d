# mypy: disable-error-code="misc"
"""Data sources for any Spark: `kafka_partitions`, `kafka_group_commits` and `kafka_commit_log`.

They use the scan's readers, with one Spark partition per chunk and a status in every row. The scan
itself does not use them: a data source starts more Python workers, and every action reads it again.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from reconciler.companions.sources.export import known_or_none
from reconciler.errors import ScanFailed, UsageError
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_consumer_offsets
from reconciler.kafka.group_listing import GroupListing, list_groups
from reconciler.kafka.groups import commit_row, read_consumption
from reconciler.kafka.offsets import read_offsets
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC, TopicListing, describe_topics, list_topics
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import PartitionFacts, Unknown
from reconciler.scan import code_archive, select
from reconciler.scan.chunks import Chunk, commit_chunks, log_chunks, partition_chunks
from reconciler.scan.columns import columns
from reconciler.scan.scan import describe_log
from reconciler.scan.task_rows import is_retry

_CLIENT = "kafka."
_SECRET = re.compile("password|passphrase|secret|token|key|jaas|oauth")
_METADATA = ("topic_id", "leader", "replicas", "in_sync")

Row = dict[str, Any]


def register(session: SparkSession) -> None:
    """Register the three formats with a session, and put our code on its workers' path."""
    code_archive.add_to(session)
    for source in (KafkaPartitions, KafkaGroupCommits, KafkaCommitLog):
        session.dataSource.register(source)


@dataclass(frozen=True, slots=True)
class Options:
    """The options. `topics`, `groups`, `instants_ms`: comma-separated; `kafka.…`: of librdkafka."""

    connection: Connection
    request: ScanRequest

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "Options":
        """The options as Spark passes them. Raises UsageError without `bootstrap.servers`."""
        topics, groups = (tuple(map(Selector, _words(options.get(name, "*")))) for name in ("topics", "groups"))
        instants_ms = tuple(map(int, _words(options.get("instants_ms", ""))))
        of_topics = TopicRequest(topics=topics, offsets=True, instants_ms=instants_ms)
        return cls(_connection(options), ScanRequest(topics=(of_topics,), groups=(GroupRequest(groups=groups),)))


class KafkaSource(DataSource, DataSourceReader):
    """One source and its reader: a Spark partition and a Kafka session per chunk.

    Every row has a status: `error` null means that it was read. A null number beside an `error` was
    not read; it is never zero. docs/scan.md documents the columns. Spark pickles the source.
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
        # An executor needs no RE2, which selectors need.
        with closing(KafkaSession(_connection(self.options))) as session:
            for rows in self.rows(session, partition.value):
                yield pa.RecordBatch.from_pylist(rows, schema=self.SCHEMA)

    @abstractmethod
    def chunks(self, session: KafkaSession, options: Options) -> Iterable[Any]:
        """In the driver: the chunks; each becomes a Spark partition."""

    @abstractmethod
    def rows(self, session: KafkaSession, chunk: Any) -> Iterator[list[Row]]:
        """In a task: the rows of one chunk."""


class KafkaPartitions(KafkaSource):
    """One row per partition: offsets and leadership. A leaderless one has an error.

    `last_stable_offset`: the read-committed end. `instants` in epoch ms; `offsets_at`: for each of them the
    first offset at or after it, -1 for none.
    """

    NAME = "kafka_partitions"
    SCHEMA = columns(
        "topic! partition! log_start last_stable_offset high_watermark instants offsets_at error " + " ".join(_METADATA)
    )

    def chunks(self, session: KafkaSession, options: Options) -> Iterator[tuple[Chunk, list[Row]]]:
        listing = _complete(list_topics(session))
        names = select.select_topics(options.request, listing.topics)
        listing = _complete(describe_topics(session, listing, names))
        metadata = {facts.partition: _metadata(facts) for name in names for facts in listing.partitions.get(name, ())}
        selected = tuple(select.partition_requests(select.select_topics(options.request, listing.topics), listing))
        for chunk in partition_chunks(selected, (), listing):
            keys = (TopicPartition(part.topic, number) for part in chunk.requests for number in part.partitions)
            yield chunk, [metadata.pop(key) for key in keys]
        if metadata:
            yield Chunk(), list(metadata.values())

    def rows(self, session: KafkaSession, chunk: tuple[Chunk, list[Row]]) -> Iterator[list[Row]]:
        offsets, metadata = chunk
        rows = {(row["topic"], row["partition"]): row for row in read_offsets(session, offsets.requests)}
        leaderless = {"error": "the partition has no leader"}
        yield [{**listed, **rows.get((listed["topic"], listed["partition"]), leaderless)} for listed in metadata]


class KafkaGroupCommits(KafkaSource):
    """One row per committed offset of a group that the caller may list, and one per group.

    The row of a group has no topic: it has counts and fingerprint of its commits, or an error.
    """

    NAME = "kafka_group_commits"
    SCHEMA = columns("group! topic partition committed commits commit_topics fingerprint error")

    def chunks(self, session: KafkaSession, options: Options) -> list[Chunk]:
        # No broker lists the groups of a partition of the log without a leader, and none says so.
        hidden = describe_log(session, list_topics(session)).hides_groups
        listing = list_groups(session, hidden=False)
        _complete(listing if hidden is None or listing.incomplete is not None else replace(listing, incomplete=hidden))
        return commit_chunks(select.select_groups(options.request.groups, listing.groups))

    def rows(self, session: KafkaSession, chunk: Chunk) -> Iterator[list[Row]]:
        for part in read_consumption(session, chunk.groups, with_members=(), isolated=is_retry()):
            read = {group: consumption.commits for group, consumption in part.items()}
            yield [
                {"group": group, "topic": topic, "partition": partition, "committed": committed}
                for group, commits in read.items()
                for topic, partition, committed in (() if isinstance(commits, Unknown) else commits)
            ] + [commit_row(group, commits) for group, commits in read.items()]


class KafkaCommitLog(KafkaSource):
    """The rows of `read_consumer_offsets`; none where `__consumer_offsets` does not exist."""

    NAME = "kafka_commit_log"
    SCHEMA = columns(
        "group topic partition committed topic_id last_activity_ms log_partition log_offset seems live commit_keys "
        "records skipped garbled error"
    )

    def chunks(self, session: KafkaSession, options: Options) -> list[Chunk]:  # noqa: ARG002 - of every source
        log = describe_log(session, _complete(list_topics(session)))
        if log.missing is not None:
            raise ScanFailed(f"{CONSUMER_OFFSETS_TOPIC} could not be read: {log.missing.reason}")
        # The reader of a leaderless partition says so in the partition's row.
        return log_chunks(dict.fromkeys(range(log.partitions), 0) | dict(log.sizes), log.leaders)

    def rows(self, session: KafkaSession, chunk: Chunk) -> Iterator[list[Row]]:
        yield read_consumer_offsets(session, chunk.log)


def _connection(options: Mapping[str, str]) -> Connection:
    servers = _words(options.get("bootstrap.servers", ""))
    if not servers:
        raise UsageError('say .option("bootstrap.servers", "host:port")')
    client = {name.removeprefix(_CLIENT): value for name, value in options.items() if name.startswith(_CLIENT)}
    secrets = {value: f"({_CLIENT}{name})" for name, value in client.items() if _SECRET.search(name)}
    return Connection(servers, client, timeout_s=float(options.get("timeout_s", "30")), references=secrets)


_Listing = TypeVar("_Listing", TopicListing, GroupListing)


def _complete(listing: _Listing) -> _Listing:
    """Raise ScanFailed for an incomplete listing: its table would show a smaller cluster."""
    if listing.incomplete is not None:
        raise ScanFailed(listing.incomplete.reason)
    return listing


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _metadata(facts: PartitionFacts) -> Row:
    row = {"topic": facts.partition.topic, "partition": facts.partition.partition}
    return row | {name: known_or_none(getattr(facts, name)) for name in _METADATA}
