"""The steps of a scan: ScanRequest in, ClusterSnapshot out. Reads only and decides nothing.

This process lists topics and groups while Spark starts. Tasks read the other facts.
"""

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace

from reconciler.external.read import read_positions
from reconciler.kafka import futures
from reconciler.kafka.consumer_offsets import read_committed_keys
from reconciler.kafka.group_listing import GroupListing, list_groups, with_members
from reconciler.kafka.offsets import HIGH_WATERMARK, Watermarks, read_ends, read_watermarks, requests_by_leader
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.silence import silent_brokers
from reconciler.kafka.topics import (
    CONSUMER_OFFSETS_TOPIC,
    RetentionFacts,
    TopicListing,
    describe,
    describe_topics,
    list_topics,
    retention_facts,
)
from reconciler.model.garbage import gc_paused
from reconciler.model.names import TRANSACTIONS_TOPIC, TopicPartition
from reconciler.model.progress import Progress
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, ExternalPositions, PartitionFacts, Unknown
from reconciler.scan import read_chunks, select, snapshot_builder
from reconciler.scan.chunks import Chunk, commit_chunks, log_chunks, partition_chunks
from reconciler.scan.engine_choice import Engine
from reconciler.scan.rows import Row, Rows, combine
from reconciler.scan.select import PartitionRequest
from reconciler.scan.snapshot_builder import ConsumerOffsetsLog
from reconciler.scan.task_rows import ScanTask
from reconciler.text.formatting import count

_LOG = logging.getLogger(__name__)

# A `__consumer_offsets` that is read more slowly is given up; the slowest usual reader is ten times as fast.
_SLOWEST_RECORDS_PER_S = 5_000
_LOG_START_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listings:
    """What the driver itself has read, and the requests that follow from it."""

    topics: TopicListing
    groups: GroupListing
    retention: Future[dict[str, RetentionFacts]]
    partition_requests: tuple[PartitionRequest, ...]
    counted: frozenset[str]
    log: ConsumerOffsetsLog
    external: ExternalPositions
    reads_log: bool
    transactions_hidden: bool


@gc_paused()
def scan(
    request: ScanRequest,
    session: KafkaSession,
    *,
    observed_at_ms: int,
    last_purges: Mapping[TopicPartition, int] | Unknown,
    engine: Engine,
    progress: Progress,
) -> ClusterSnapshot:
    """Read everything that is requested, and no more. Facts that could not be read are Unknown.

    The session's timeout is the patience with a silent broker in each step. Raises
    ClusterUnreachable if no broker answers, ScanFailed if Spark cannot run. Ctrl-C ends the scan and
    Spark.
    """
    with read_chunks.started(request, engine):
        listings = _list(request, session, progress)
        chunks, task, limit_s = _divide(request, session, listings)
        answers = read_chunks.read(request, engine, session, task, chunks, limit_s=limit_s, progress=progress)
    rows = combine(answers, request, task.named)
    snapshot = _snapshot(request, session, listings, rows, observed_at_ms, last_purges)
    if snapshot_builder.lacks_answers(snapshot):
        progress("some facts have no answer: asking each broker")
        silent = silent_brokers(session, session.addresses)
        snapshot = snapshot_builder.name_silent_brokers(snapshot, silent)
    partitions = sum(topic["read"] for topic in rows.topics.values())
    records = sum(row["records"] or 0 for row in rows.runs)
    # Groups that were not listed are not zero groups.
    of_groups = f" and {count(len(snapshot.groups), 'group')}" if request.lists_groups else ""
    progress(
        f"read {count(partitions, 'partition')}, {count(rows.commits_read, 'commit')}, {count(records, 'record')} of "
        f"__consumer_offsets in a cluster of {count(len(snapshot.topics), 'topic')}{of_groups}"
    )
    return snapshot


def _list(request: ScanRequest, session: KafkaSession, progress: Progress) -> Listings:
    with_groups = request.lists_groups
    progress("listing topics" + (" and groups" if with_groups else ""))
    # In parallel: with a frozen broker each step takes its whole patience.
    not_listed = GroupListing(groups={}, incomplete=NOT_ASKED)
    groups = futures.submit(lambda: list_groups(session, hidden=True) if with_groups else not_listed)
    external = futures.submit(lambda: read_positions(session, request.external if request.readers else ()))
    listed = list_topics(session)
    log = futures.submit(
        lambda: describe_log(session, listed) if with_groups else ConsumerOffsetsLog(missing=NOT_ASKED)
    )
    # Brokers tell only who may describe it that there is none.
    sought = [TRANSACTIONS_TOPIC] if request.offsets and TRANSACTIONS_TOPIC not in listed.topics else []
    transactions = futures.submit(lambda: describe(session, sought))
    topics = describe_topics(session, listed, select.topics_to_describe(request, listed.topics))
    selected = select.select_topics(request, topics.topics)
    counted = select.topics_to_count(request, selected, topics)
    # Compacted topics are not part of the cluster's records. The scan waits for the policies after the tasks.
    retention = futures.submit(lambda: retention_facts(session, select.topics_with_offsets(selected) | counted))
    consumer_offsets, group_listing = log.result(), groups.result()
    if with_groups:
        consumer_offsets, group_listing = consumer_offsets.judge(group_listing, hidden=request.without_consumer_offsets)
        if not request.group_facts and group_listing.incomplete is None:  # no log is read, which may know more names
            group_listing = replace(group_listing, incomplete=group_listing.hidden_unread)
    return Listings(
        topics=topics,
        groups=group_listing,
        retention=retention,
        partition_requests=tuple(select.partition_requests(selected, topics, group_listing.groups)),
        counted=counted,
        log=consumer_offsets,
        external=external.result(),
        # Without types, only the log shows that all groups are classic.
        reads_log=request.consumer_offsets or (request.group_facts and group_listing.without_types),
        # A server that hides one of the two may hide the other.
        transactions_hidden=bool(sought)
        and (consumer_offsets.hidden or transactions.result() != {TRANSACTIONS_TOPIC: None}),
    )


def describe_log(session: KafkaSession, topics: TopicListing) -> ConsumerOffsetsLog:
    """`__consumer_offsets` before its reading."""
    if CONSUMER_OFFSETS_TOPIC not in topics.topics:
        # Alone: an unreadable log must not make the listing of topics incomplete.
        topics = describe_topics(session, replace(topics, incomplete=None), [CONSUMER_OFFSETS_TOPIC])
        if CONSUMER_OFFSETS_TOPIC not in topics.topics:
            return ConsumerOffsetsLog(missing=topics.incomplete)
    count = topics.topics[CONSUMER_OFFSETS_TOPIC].partitions
    if isinstance(count, Unknown):
        return ConsumerOffsetsLog(missing=count)
    partitions = topics.partitions[CONSUMER_OFFSETS_TOPIC]
    leaders = {facts.partition.partition: facts.leader for facts in partitions if isinstance(facts.leader, int)}
    ends = read_ends(session, CONSUMER_OFFSETS_TOPIC, list(leaders), *Watermarks._fields)
    last_stable_offsets = {number: of.last_stable_offset for number, of in ends.items()}
    return ConsumerOffsetsLog(
        partitions=count,
        leaders=leaders,
        away=frozenset(
            broker
            for facts in partitions
            if facts.leader is None and isinstance(facts.replicas, tuple)
            for broker in facts.replicas
        ),
        sizes={number: of.size for number, of in ends.items()},
        last_stable_offsets={number: end for number, end in last_stable_offsets.items() if isinstance(end, int)},
        unanswered={number: end for number, of in ends.items() for end in of[1:] if isinstance(end, Unknown)},
    )


def _divide(
    request: ScanRequest, session: KafkaSession, listings: Listings
) -> tuple[tuple[Chunk, ...], ScanTask, float]:
    """The chunks, what their tasks share, and the time limit of the reading in seconds."""
    log_sizes = listings.log.sizes if listings.reads_log else {}
    # The slow chunks first, so that no single task ends late.
    chunks: tuple[Chunk, ...] = (
        *log_chunks(log_sizes, listings.log.leaders),
        *partition_chunks(listings.partition_requests, listings.counted, listings.topics),
        *commit_chunks(
            # No group is listed before __consumer_offsets exists, so no request creates it.
            select.commit_groups(request, listings.groups),
            # A member may have no commit.
            with_members(listings.groups.groups) if request.readers else (),
            coordinator_of=listings.log.coordinator_of,
        ),
    )
    readers: dict[str, list[int]] = {}
    named: dict[str, frozenset[str]] = {}
    for part in listings.partition_requests:
        if part.readers or part.named:
            readers.setdefault(part.topic, []).extend(facts.partition.partition for facts in part.partitions)
        if part.named:
            # One set for many topics is pickled once.
            named[part.topic] = named[part.topic] | part.named if part.topic in named else part.named
    reading_s = sum(chunk.seconds for chunk in chunks)
    log_limit_s = _LOG_START_S + session.timeout_s + sum(log_sizes.values()) / _SLOWEST_RECORDS_PER_S
    task = ScanTask(
        connection=session.connection,
        cluster_id=listings.topics.cluster_id or session.cluster_id,
        readers={
            # A range is pickled in a few bytes.
            topic: range(len(numbers)) if sorted(numbers) == list(range(len(numbers))) else numbers
            for topic, numbers in readers.items()
        },
        topic_ids={
            topic: topic_id for topic in readers if isinstance(topic_id := listings.topics.topics[topic].topic_id, str)
        },
        named=named,
        with_commits=select.select_groups(
            (part for part in request.groups if part.activity and request.commit_records), listings.groups.groups
        ),
        last_stable_offsets=listings.log.last_stable_offsets,
        # One bound for all chunks, so that no chunk waits anew for a silent broker. It includes the
        # reading time: late chunks once had five seconds left.
        until_s=time.time() + reading_s + session.timeout_s,
        log_limit_s=log_limit_s,
    )
    # The patience of several steps in a row, the reading time and `__consumer_offsets`.
    return chunks, task, 6 * session.timeout_s + reading_s + log_limit_s


def _snapshot(
    request: ScanRequest,
    session: KafkaSession,
    listings: Listings,
    rows: Rows,
    observed_at_ms: int,
    last_purges: Mapping[TopicPartition, int] | Unknown,
) -> ClusterSnapshot:
    log = (listings.log if listings.reads_log else ConsumerOffsetsLog(missing=NOT_ASKED)).with_rows(rows.runs)
    if listings.reads_log:
        rows = replace(rows, groups={**rows.groups, **_without_aborted(session, listings, rows)})
    _LOG.info("log_records=%d log_skipped=%d log_malformed=%d", log.records, log.skipped, log.malformed)
    topics = snapshot_builder.topic_facts(
        listings.topics,
        listings.retention.result(),
        rows,
        listings.counted,
        {part.topic for part in listings.partition_requests if part.readers},
    )
    partitions = snapshot_builder.partition_facts(listings.partition_requests, rows, log, last_purges, observed_at_ms)
    return ClusterSnapshot(
        # Of the brokers that were read: meanwhile the addresses may lead elsewhere.
        cluster_id=listings.topics.cluster_id or session.cluster_id or "",
        observed_at_ms=observed_at_ms,
        brokers=listings.topics.brokers,
        topics=topics,
        groups=snapshot_builder.group_facts(request, listings.groups, rows, log),
        partitions=refresh_watermarks(session, partitions),
        consumer_offsets_ends=log.ends,
        consumer_offsets_hidden=listings.log.hidden,
        transactions_hidden=listings.transactions_hidden,
        external=listings.external,
        topics_incomplete=listings.topics.incomplete,
        groups_incomplete=listings.groups.incomplete,
        readers_incomplete=snapshot_builder.readers_incomplete(request, listings.groups, rows, log),
        cluster_records=snapshot_builder.cluster_records(request, topics.values()),
    )


def _without_aborted(session: KafkaSession, listings: Listings, rows: Rows) -> dict[str, Row]:
    """The rows of groups whose set keys in `__consumer_offsets` may be those of aborted transactions, read anew.

    No list call shows such a group, or its coordinator has fewer commits. A record at or above the last
    stable offset may be of an open transaction, and counts. `pending_only`: all its keys are such commits.
    """
    stable = listings.log.last_stable_offsets
    doubtful: dict[str, Row] = {}
    for group, row in rows.groups.items():
        lacks = row.get("commits") is not None and (row.get("commit_keys") or 0) > row["commits"]
        if row.get("live") and row["log_partition"] in stable and (lacks or group not in listings.groups.groups):
            doubtful[group] = row
    ends = {row["log_partition"]: stable[row["log_partition"]] for row in doubtful.values()}
    committed = read_committed_keys(session, ends) if ends else {}
    none = {"live": False, "commit_keys": 0}
    read_anew: dict[str, Row] = {}
    for group, row in doubtful.items():
        if (keys := committed.get(row["log_partition"])) is not None:
            found = keys.get(group, none)
            if row["log_offset"] < ends[row["log_partition"]]:
                row = {**row, **{key: found[key] for key in none}}
            read_anew[group] = {**row, "pending_only": row["may_read"] == [] and not found["live"]}
    return read_anew


def refresh_watermarks(
    session: KafkaSession, partitions: Mapping[TopicPartition, PartitionFacts]
) -> dict[TopicPartition, PartitionFacts]:
    """The same facts, with new high watermarks where readers stand above the scan's.

    A live group often commits after the scan has read the partition's end. The high watermark
    decides whether a commit can be true. The last stable offset, which caps every floor, stays that of the
    scan, so records that were produced in between cannot be removed. Without an answer the first
    value stays, and the commit unproven.
    """
    refreshed = dict(partitions)
    overtaken = (
        facts
        for facts in partitions.values()
        if not isinstance(facts.high_watermark, Unknown) and not isinstance(facts.readers, Unknown)
        if any(reader.committed > facts.high_watermark for reader in facts.readers)
    )
    for partition, ends in read_watermarks(session, requests_by_leader(overtaken, HIGH_WATERMARK)).items():
        facts, end = partitions[partition], ends.high_watermark
        if isinstance(end, int) and isinstance(facts.high_watermark, int) and end > facts.high_watermark:
            refreshed[partition] = replace(facts, high_watermark=end)
    return refreshed
