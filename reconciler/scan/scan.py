"""Needs in, ClusterSnapshot out: the steps of a scan in their order. Reads only; computes no floor and decides nothing.

Listings come from the driver while Spark starts; offsets, commits and the commit log are read in tasks and reduced in one query.
"""

import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from reconciler.kafka import connect, futures
from reconciler.kafka import groups as group_listing
from reconciler.kafka import topics as listing
from reconciler.kafka.connect import Connection
from reconciler.kafka.groups import GroupListing
from reconciler.kafka.offsets import OffsetsRequest, read_partitions
from reconciler.kafka.topics import COMMIT_LOG_TOPIC, TopicListing
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, Unknown
from reconciler.scan import export as parquet
from reconciler.scan import requests as wishes
from reconciler.scan import snapshot_builder
from reconciler.scan.query import as_scan_table
from reconciler.scan.query_runner import run
from reconciler.scan.refresh_watermarks import refresh_watermarks
from reconciler.scan.requests import PartitionRequest
from reconciler.scan.rows import Rows, rows_of
from reconciler.scan.session import PendingSession, SparkTarget, close
from reconciler.scan.task_rows import Chunk, ScanTask, read_chunk

__all__ = ["SparkTarget", "close", "export", "scan", "start_session"]

Progress = Callable[[str], None]

_LOG = logging.getLogger(__name__)

# A commit log is given up when it comes slower than this; the slowest sane reader is ten times as fast.
_SLOWEST_RECORDS_PER_S = 5_000
_LOG_START_S = 60.0
_SOURCES = ("partitions", "commits", "commit_log")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """The commit log as its metadata tell it. `sizes`: offsets that each partition with a leader spans. `partitions` 0: it does not exist.
    `missing`: why nothing is known of it.
    """

    sizes: Mapping[int, int] = field(default_factory=dict)
    partitions: int = 0
    missing: Unknown | None = None
    leaderless: tuple[int, ...] = ()

    @property
    def hides_groups(self) -> Unknown | None:
        """Why groups may be in no list: each broker lists those of the partitions that it leads, and says nothing of the others."""
        if self.missing is not None and self.missing is not NOT_ASKED:
            return Unknown(f"whether every group is listed is unknown: {self.missing.reason}")
        if self.leaderless:
            some = f"{len(self.leaderless)} of {self.partitions} partitions of {COMMIT_LOG_TOPIC}"
            return Unknown(f"no broker lists the groups of {some}, which have no leader")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """What the driver itself learned, and what follows for the reading."""

    topics: TopicListing
    groups: GroupListing
    policies: Future[dict[str, frozenset[str] | Unknown]]
    wishes: tuple[PartitionRequest, ...]
    counted: frozenset[str]
    commit_groups: frozenset[str]
    log: _Log


def scan(
    needs: ScanRequest,
    connection: Connection,
    *,
    observed_at_ms: int,
    last_purges: Mapping[TopicPartition, int] | Unknown,
    engine: SparkTarget,
    progress: Callable[[str], None],
    timeout_s: float,
    start: PendingSession | None = None,
) -> ClusterSnapshot:
    """Everything that `needs` asks, and no more. Facts that could not be read are Unread.

    `timeout_s`: patience with a broker that is silent, in each of the steps. `start`: what `starting` gave for the same needs, where
    the session was begun before. Raises ClusterUnreachable if no broker answers at all, ScanFailed if Spark cannot run. Ctrl-C ends
    the scan, and with it the session.
    """
    connection = replace(connection, timeout_s=min(connection.timeout_s, timeout_s))
    with nullcontext(start) if start is not None else start_session(needs, engine) as start:
        cluster_id = connect.cluster_id(connection)
        with _gc_paused():
            listed = _list(needs, connection, progress)
        table = _read(needs, connection, listed, start, progress)
    with _gc_paused():
        rows = rows_of(table)
        snapshot = _snapshot(needs, listed, rows, cluster_id, observed_at_ms, last_purges)
        snapshot = replace(snapshot, partitions=refresh_watermarks(connection, snapshot.partitions))
    progress(_summary(snapshot, rows))
    return snapshot


def export(
    needs: ScanRequest,
    connection: Connection,
    *,
    observed_at_ms: int,
    engine: SparkTarget,
    progress: Callable[[str], None],
    timeout_s: float,
    out: Path,
    start: PendingSession | None = None,
) -> tuple[Path, ...]:
    """The same scan as Parquet files under `out` (see `export`); answers what was written. Raises like `scan`, and OSError."""
    snapshot = scan(
        needs,
        connection,
        observed_at_ms=observed_at_ms,
        last_purges=NOT_ASKED,
        engine=engine,
        progress=progress,
        timeout_s=timeout_s,
        start=start,
    )
    return parquet.write(snapshot, out)


@contextmanager
def start_session(needs: ScanRequest, engine: SparkTarget) -> Iterator[PendingSession | None]:
    """A session on its way where one is needed, while the block does what comes before. Whatever ends the block early, Ctrl-C
    included, does not wait for the session, nor leave a JVM.
    """
    start = PendingSession(engine) if needs.spark else None
    try:
        yield start
    except BaseException:
        if start is not None:
            start.abandon()
        raise


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Listings and rows become objects that all stay: searching them for cycles again and again takes as long as making them, and longer
    the more there are. It holds for all threads; what they leave behind in the meantime is swept afterwards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _list(needs: ScanRequest, connection: Connection, progress: Progress) -> _Listed:
    with_groups = bool(needs.groups) or needs.readers
    progress("listing topics" + (" and groups" if with_groups else ""))
    # Side by side: with a broker that hangs each takes its whole patience.
    groups = futures.submit(lambda: _list_groups(connection, wanted=with_groups))
    topics = listing.list_topics(connection)
    log = futures.submit(lambda: _commit_log(connection, topics, wanted=with_groups))
    wanted = set(wishes.selected_topics(needs, topics.topics)) | wishes.exact_topics(needs)
    topics = listing.describe_topics(connection, topics, wanted)
    with_offsets = replace(needs, topics=tuple(need for need in needs.topics if need.offsets))
    # No task rests on them: they are waited for when the tasks are done.
    floored = wishes.selected_topics(with_offsets, topics.topics)
    policies = futures.submit(lambda: listing.cleanup_policies(connection, floored))
    found_log = log.result()
    listed_groups = groups.result()
    if listed_groups.incomplete is None:
        listed_groups = replace(listed_groups, incomplete=found_log.hides_groups)
    return _Listed(
        topics=topics,
        groups=listed_groups,
        policies=policies,
        wishes=tuple(wishes.partition_requests(needs, topics)),
        counted=wishes.counted_topics(needs, topics),
        commit_groups=wishes.commit_groups(needs, listed_groups),
        log=found_log if needs.commit_log else replace(found_log, sizes={}),
    )


def _list_groups(connection: Connection, *, wanted: bool) -> GroupListing:
    return group_listing.list_groups(connection, hidden=True) if wanted else GroupListing({}, NOT_ASKED, NOT_ASKED)


def _commit_log(connection: Connection, topics: TopicListing, *, wanted: bool) -> _Log:
    """The log's partitions, and what of them there is to read."""
    if not wanted:
        return _Log(missing=NOT_ASKED)
    log = topics.topics.get(COMMIT_LOG_TOPIC)
    if log is None:
        # Apart from other topics: a log that may not be described makes the log unread, not the listing of topics incomplete.
        described = listing.describe_topics(connection, replace(topics, incomplete=None), [COMMIT_LOG_TOPIC])
        log = described.topics.get(COMMIT_LOG_TOPIC)
        if log is None:
            return _Log(missing=described.incomplete)
    if isinstance(log.partitions, Unknown):
        return _Log(missing=log.partitions)
    led = [p.number for p in log.partitions if isinstance(p.leader, int)]
    (offsets,) = read_partitions(connection, [OffsetsRequest(COMMIT_LOG_TOPIC, led, -1, full=False)])
    rows = offsets.to_pylist()
    return _Log(
        sizes={row["partition"]: wishes.log_size(row["log_start"], row["high_watermark"]) for row in rows},
        partitions=len(log.partitions),
        leaderless=tuple(p.number for p in log.partitions if not isinstance(p.leader, int)),
    )


def _chunks(listed: _Listed) -> tuple[Chunk, ...]:
    # Asking for a coordinator creates the commit log where there is none yet, and there is nothing to read then.
    nothing = listed.log.partitions == 0 and listed.log.missing is None
    return wishes.order_chunks(
        wishes.log_chunks(listed.log.sizes),
        wishes.partition_chunks(listed.wishes, listed.counted, listed.topics.topics),
        wishes.commit_chunks(() if nothing else listed.commit_groups),
    )


def _work(needs: ScanRequest, connection: Connection, listed: _Listed, reading_s: float) -> ScanTask:
    readers: dict[str, list[int]] = {}
    named: dict[str, frozenset[str]] = {}
    for wish in listed.wishes:
        if wish.readers or wish.named:
            readers.setdefault(wish.topic.name, []).extend(p.number for p in wish.partitions)
            named[wish.topic.name] = named.get(wish.topic.name, frozenset()) | wish.named
    return ScanTask(
        connection=connection,
        readers={topic: _compact(numbers) for topic, numbers in readers.items()},
        named=named,
        groups=needs.groups,
        # One bound for all chunks, so that a silent broker is not waited for in each of them; but those whose turn comes late, after so
        # many that were answered, once had five seconds left of the whole patience.
        until_s=time.time() + reading_s + connection.timeout_s,
        log_limit_s=_LOG_START_S + connection.timeout_s + sum(listed.log.sizes.values()) / _SLOWEST_RECORDS_PER_S,
    )


def _limit_s(work: ScanTask, reading_s: float) -> float:
    """A job is lost as a whole after every step of several chunks in a row had its patience, and the reading and the commit log their time."""
    return 6 * work.connection.timeout_s + reading_s + work.log_limit_s


def _compact(numbers: list[int]) -> tuple[int, ...] | range:
    whole = range(len(numbers))
    return whole if sorted(numbers) == list(whole) else tuple(numbers)


def _read(
    needs: ScanRequest, connection: Connection, listed: _Listed, start: PendingSession | None, progress: Progress
) -> pa.Table:
    chunks = _chunks(listed)
    reading_s = wishes.estimated_seconds(chunks, listed.log.sizes)
    if start is not None and chunks:
        progress("waiting for Spark")
        session = start.result()
        work = _work(needs, connection, listed, reading_s)
        return run(session, work, chunks, limit_s=_limit_s(work, reading_s), progress=progress)
    if start is not None:
        start.abandon()
    # Only commits of a few groups are read without Spark: one row per group.
    work = _work(needs, connection, listed, reading_s)
    batches = [
        batch
        for number, chunk in enumerate(chunks)
        for batch in read_chunk(work, number, chunk, now_s=time.time(), isolated=True)
    ]
    return as_scan_table(batches)


def _snapshot(
    needs: ScanRequest,
    listed: _Listed,
    rows: Rows,
    cluster_id: str,
    observed_at_ms: int,
    last_purges: Mapping[TopicPartition, int] | Unknown,
) -> ClusterSnapshot:
    log = snapshot_builder.commit_log(
        rows.runs, partitions=listed.log.partitions, asked=needs.commit_log, missing=listed.log.missing
    )
    _LOG.info("log_records=%d log_skipped=%d log_garbled=%d", log.records, log.skipped, log.garbled)
    policies = listed.policies.result()
    topics = {
        facts.name: facts for facts in snapshot_builder.topic_facts(listed.topics, policies, rows, listed.counted)
    }
    return ClusterSnapshot(
        cluster_id=cluster_id,
        observed_at_ms=observed_at_ms,
        brokers=listed.topics.brokers,
        topics=topics,
        groups={facts.group: facts for facts in snapshot_builder.group_facts(needs, listed.groups, rows, log)},
        partitions={
            facts.partition: facts for facts in snapshot_builder.partition_facts(listed.wishes, rows, log, last_purges)
        },
        topics_incomplete=listed.topics.incomplete,
        groups_incomplete=listed.groups.incomplete,
        readers_incomplete=snapshot_builder.readers_incomplete(needs, listed.commit_groups, listed.groups, rows, log),
        cluster_records=snapshot_builder.cluster_records(needs, topics.values()),
    )


def _summary(snapshot: ClusterSnapshot, rows: Rows) -> str:
    read = {name: sum(row["records"] or 0 for row in rows.runs if row["name"] == name) for name in _SOURCES}
    return (
        f"read {read['partitions']:,} partitions, {read['commits']:,} commits, {read['commit_log']:,} records of the commit log "
        f"in a cluster of {len(snapshot.topics):,} topics and {len(snapshot.groups):,} groups"
    )
