# mypy: disable-error-code="misc"
"""Data sources for any Spark: `kafka_partitions`, `kafka_group_commits` and `kafka_consumer_offsets`.

They use the scan's readers, with one Spark partition per chunk, and a status, the cluster and the time
in every row. The scan itself does not use them: a data source starts more Python workers, and every
action reads it again.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

import reconciler
from reconciler.clock import wall_clock_ms
from reconciler.errors import ScanFailed, UsageError
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_consumer_offsets
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.coordinators import read_consumption
from reconciler.kafka.group_listing import GroupListing, list_groups
from reconciler.kafka.groups import commit_row
from reconciler.kafka.offsets import read_offsets
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC, TopicListing, describe_topics, list_topics
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import PartitionFacts, Unknown, known_or_none
from reconciler.scan import code_archive, select
from reconciler.scan.chunks import Chunk, commit_chunks, log_chunks, partition_chunks
from reconciler.scan.columns import columns
from reconciler.scan.scan import describe_log
from reconciler.scan.task_rows import answers_for, is_retry
from reconciler.text.suggest import suggestion

_CLIENT = "kafka."
_SECRET = re.compile("password|passphrase|secret|token|key|jaas|oauth")
_METADATA = ("topic_id", "leader", "replicas", "in_sync")
_TOPICS = ("topics", "subscribe", "subscribePattern")
_ALL = (Selector("*"),)

Row = dict[str, Any]


def register(session: SparkSession) -> None:
    """Register the formats with a session, and put our code on its workers' path."""
    code_archive.add_to(session)
    for source in (KafkaPartitions, KafkaGroupCommits, KafkaConsumerOffsets, KafkaCommitLog):
        session.dataSource.register(source)


def parse_options(options: Mapping[str, str], known: Iterable[str]) -> tuple[Connection, ScanRequest]:
    """Return the connection of a source, and what its options select; Spark ignores the case of their names.

    `known`: beside those of a connection; `kafka.…` are properties of librdkafka. Raises UsageError for an
    unknown option, for two that say the same, and without servers.
    """
    known = ("kafka.bootstrap.servers", "bootstrap.servers", "timeout_s", *known)
    values = {name.lower(): value for name, value in options.items()}
    for name in sorted(values.keys() - {name.lower() for name in known}):
        if not name.startswith(_CLIENT):
            hint = f"{suggestion(name, known)} known: {', '.join(known)}, and kafka.… for properties of librdkafka"
            raise UsageError(f"unknown option {name}; {hint.lstrip()}")
    given = [name for name in _TOPICS if name.lower() in values]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} both select topics: write one of them")
    topics: tuple[Selector, ...] = _ALL
    for name in given:
        text = values[name.lower()]
        words = (f"regex:{text}",) if name == "subscribePattern" else _words(text)
        with _of_option(name):
            topics = tuple(map(Selector.literal if name == "subscribe" else Selector, words))
    with _of_option("groups"):
        groups = tuple(map(Selector, _words(values.get("groups", "*"))))
    with _of_option("instants_ms"):
        instants_ms = tuple(map(int, _words(values.get("instants_ms", ""))))
    if (consumer_offsets := values.get("consumeroffsets")) not in (None, "hidden"):
        raise UsageError(f"consumerOffsets={consumer_offsets}: expected hidden, as in the Cluster, or no such option")
    of_topics = TopicRequest(topics=topics, offsets=True, instants_ms=instants_ms)
    return _connection(values), ScanRequest(
        topics=(of_topics,),
        groups=(GroupRequest(groups=groups),),
        without_consumer_offsets=consumer_offsets is not None,
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """A Spark partition: a chunk, and the cluster and time of the reading. `topics`: None for all of them."""

    cluster_id: str
    observed_at_ms: int
    chunk: Any
    topics: frozenset[str] | None = None


class _FindsItsCode:
    """What a Python process without this program on its path can unpickle.

    Spark gives the files of a session to its Python processes, but not to the planner of a stream. It runs
    on the machine that pickles the source, and so finds the code at the same path.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        def create(path: str, kind: bytes) -> Any:  # a function in a function: cloudpickle writes its code
            import pickle
            import sys

            if path not in sys.path:
                sys.path.append(path)
            found = pickle.loads(kind)  # noqa: S301 - Spark unpickled the bytes around it, too
            return found.__new__(found)

        return create, (str(Path(reconciler.__file__).parents[1]), cloudpickle.dumps(type(self))), self.__dict__


class KafkaSource(_FindsItsCode, DataSource, DataSourceReader):
    """One source and its reader: a Spark partition and a Kafka session per chunk.

    Every row has a status: `error` null means that it was read. A null number beside an `error` was
    not read; it is never zero. docs/tables.md documents the columns. Spark pickles the source.
    """

    NAME: ClassVar[str]
    SCHEMA: ClassVar[pa.Schema]
    OPTIONS: ClassVar[Sequence[str]] = ()

    @classmethod
    def name(cls) -> str:
        return cls.NAME

    def schema(self) -> StructType:
        parse_options(self.options, self.OPTIONS)  # `load` shows a wrong option, not a later action
        return from_arrow_schema(self.SCHEMA)

    def reader(self, schema: StructType) -> "KafkaSource":  # noqa: ARG002 - Spark passes it by name
        return self

    def streamReader(self, schema: StructType) -> "KafkaStream":  # noqa: ARG002, N802
        return KafkaStream(self)

    def partitions(self) -> list[InputPartition]:
        connection, request = parse_options(self.options, self.OPTIONS)
        with closing(KafkaSession(connection)) as session:
            observed_at_ms, listing = wall_clock_ms(), list_topics(session)
            if listing.cluster_id is None:
                raise ScanFailed("no broker told the id of the cluster, which each row has")
            topics = self.row_topics(request, listing)
            return [
                InputPartition(Reading(listing.cluster_id, observed_at_ms, chunk, topics))
                for chunk in self.chunks(session, request, listing)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        reading = partition.value
        if reading is None:  # Spark's word for a source without partitions
            return
        # An executor needs no RE2, which selectors need.
        with closing(KafkaSession(_connection(self.options), isolates=is_retry())) as session:
            answers_for(session, reading.cluster_id)
            origin = {"cluster_id": reading.cluster_id, "observed_at_ms": reading.observed_at_ms}
            topics = None if reading.topics is None else reading.topics | {None}
            for rows in self.rows(session, reading.chunk):
                # A row without a topic is about its group, or says what was not read.
                kept = rows if topics is None else [row for row in rows if row.get("topic") in topics]
                yield pa.RecordBatch.from_pylist([origin | row for row in kept], schema=self.SCHEMA)

    @abstractmethod
    def chunks(self, session: KafkaSession, request: ScanRequest, listing: TopicListing) -> Iterable[Any]:
        """In the driver: the chunks; each becomes a Spark partition."""

    def row_topics(self, request: ScanRequest, listing: TopicListing) -> frozenset[str] | None:  # noqa: ARG002
        """In the driver: the topics of the rows; None: any."""
        return None

    @abstractmethod
    def rows(self, session: KafkaSession, chunk: Any) -> Iterator[list[Row]]:
        """In a task: the rows of one chunk."""


class KafkaStream(_FindsItsCode, DataSourceStreamReader):
    """A reading for each trigger. A batch that Spark runs again after a failure is a new reading."""

    def __init__(self, source: KafkaSource) -> None:
        self.source = source

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"reading": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"reading": wall_clock_ms()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002
        return self.source.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.source.read(partition)


class KafkaPartitions(KafkaSource):
    """One row per partition: offsets and leadership. A leaderless one has an error.

    `last_stable_offset`: the read-committed end. `instants` in epoch ms; `offsets_at`: for each of them the
    first offset at or after it, -1 for none. It may be wrong: the brokers' search by time ends in the first
    segment that is as new, also where DeleteRecords or the cleaner took what made it so.
    """

    NAME = "kafka_partitions"
    OPTIONS = (*_TOPICS, "instants_ms")
    SCHEMA = columns(
        "cluster_id! observed_at_ms! topic! partition! log_start last_stable_offset high_watermark instants offsets_at "
        "error " + " ".join(_METADATA)
    )

    def chunks(
        self, session: KafkaSession, request: ScanRequest, listing: TopicListing
    ) -> Iterator[tuple[Chunk, list[Row]]]:
        listing = _complete(listing)
        listing = _complete(describe_topics(session, listing, select.select_topics(request, listing.topics)))
        selected = tuple(select.partition_requests(select.select_topics(request, listing.topics), listing))
        metadata = {facts.partition: _metadata(facts) for part in selected for facts in part.partitions}
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
    """One row per committed offset of a group of any type that the caller may list, and one per group.

    The row of a group has no topic: it has counts and fingerprint of all its commits, or an error.
    """

    NAME = "kafka_group_commits"
    OPTIONS = ("groups", "consumerOffsets", *_TOPICS)
    SCHEMA = columns(
        "cluster_id! observed_at_ms! group! topic partition committed commits commit_topics fingerprint error"
    )

    def chunks(self, session: KafkaSession, request: ScanRequest, listing: TopicListing) -> list[Chunk]:
        # No broker lists the groups of a partition of the log without a leader, and none says so.
        log, hidden = describe_log(session, listing), request.without_consumer_offsets
        # Groups of Kafka Streams commit, too, and only the old list call shows them.
        _log, groups = log.judge(list_groups(session, hidden=True), hidden=hidden)
        _complete(groups)
        _complete(replace(groups, incomplete=groups.hidden_unread))
        return commit_chunks(select.select_groups(request.groups, groups.groups))

    def row_topics(self, request: ScanRequest, listing: TopicListing) -> frozenset[str] | None:
        # Commits on topics that are gone count, too.
        return None if request.topics[0].topics == _ALL else select.topics_to_describe(request, listing.topics)

    def rows(self, session: KafkaSession, chunk: Chunk) -> Iterator[list[Row]]:
        for part in read_consumption(session, chunk.groups, with_members=()):
            read = {group: consumption.commits for group, consumption in part.items()}
            yield [
                {"group": group, "topic": topic, "partition": partition, "committed": committed}
                for group, commits in read.items()
                for topic, partition, committed, _epoch in (() if isinstance(commits, Unknown) else commits)
            ] + [commit_row(group, commits) for group, commits in read.items()]


class KafkaConsumerOffsets(KafkaSource):
    """The rows of `read_consumer_offsets`; none where `__consumer_offsets` does not exist.

    `groups` are names: which groups there are is what it tells.
    """

    NAME = "kafka_consumer_offsets"
    OPTIONS = ("groups",)
    SCHEMA = columns(
        "cluster_id! observed_at_ms! group topic partition committed topic_id last_activity_ms log_partition log_offset "
        "seems live commit_keys records skipped garbled error"
    )

    def chunks(
        self, session: KafkaSession, request: ScanRequest, listing: TopicListing
    ) -> list[tuple[Chunk, frozenset[str] | None]]:
        groups, selectors = None, request.groups[0].groups
        if selectors != _ALL:
            if any(selector.is_pattern for selector in selectors):
                raise UsageError(f"groups: {self.NAME} takes names, and no patterns")
            groups = frozenset(selector.text for selector in selectors)
        log = describe_log(session, _complete(listing))
        if log.missing is not None:
            raise ScanFailed(f"{CONSUMER_OFFSETS_TOPIC} could not be read: {log.missing.reason}")
        # The reader of a leaderless partition says so in the partition's row.
        sizes = dict.fromkeys(range(log.partitions), 0) | dict(log.sizes)
        if sizes and groups is not None:
            numbers = {log_partition(group, log.partitions) for group in groups}
            sizes = {number: sizes[number] for number in sorted(numbers)}
        return [(chunk, groups) for chunk in log_chunks(sizes, log.leaders)]

    def rows(self, session: KafkaSession, chunk: tuple[Chunk, frozenset[str] | None]) -> Iterator[list[Row]]:
        part, groups = chunk
        for rows in read_consumer_offsets(session, part.log).values():
            # A row without a group says what was read of its partition.
            yield [row for row in rows if groups is None or row.get("group") in groups | {None}]


class KafkaCommitLog(KafkaConsumerOffsets):
    """The earlier name of `kafka_consumer_offsets`."""

    NAME = "kafka_commit_log"


def _connection(options: Mapping[str, str]) -> Connection:
    both = {options.get(name) for name in ("bootstrap.servers", "kafka.bootstrap.servers")} - {None}
    if len(both) > 1:
        raise UsageError("bootstrap.servers and kafka.bootstrap.servers differ: write one of them")
    servers = _words("".join(map(str, both)))
    if not servers:
        raise UsageError('say .option("kafka.bootstrap.servers", "host:port")')
    client = {name.removeprefix(_CLIENT): value for name, value in options.items() if name.startswith(_CLIENT)}
    client.pop("bootstrap.servers", None)
    secrets = {value: f"({_CLIENT}{name})" for name, value in client.items() if _SECRET.search(name)}
    with _of_option("timeout_s"):
        return Connection(servers, client, timeout_s=float(options.get("timeout_s", "30")), references=secrets)


@contextmanager
def _of_option(name: str) -> Iterator[None]:
    """Raise UsageError with the name of an option whose value raises ValueError."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


_Listing = TypeVar("_Listing", TopicListing, GroupListing)


def _complete(listing: _Listing) -> _Listing:
    """Raise ScanFailed for an incomplete listing: its table would show a smaller cluster."""
    if listing.incomplete is not None:
        subjects = "topics" if isinstance(listing, TopicListing) else "groups"
        raise ScanFailed(f"the list of {subjects} is incomplete: {listing.incomplete.reason}")
    return listing


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _metadata(facts: PartitionFacts) -> Row:
    row = {"topic": facts.partition.topic, "partition": facts.partition.partition}
    return row | {name: known_or_none(getattr(facts, name)) for name in _METADATA}
