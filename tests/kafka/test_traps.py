"""Properties of brokers and client that can cost data, on real brokers, and how the program avoids
the loss.

This file has the race of lookups by timestamp with producers (trap 12). Silent brokers and -1001 (1) and
absence (4) are in tests/spark/test_incomplete.py and tests/kafka/test_gateway_faults.py, -1 (2) and
share groups (3) in the contract suite, EMPTY and quiet groups (5, 18), open transactions (8), commits
that outlive topics (15) and reads that create (16) in tests/spark/test_scan.py, and system topics
without a reserved name (13) in tests/unit/model/test_selector.py.
"""

import struct
import threading
import time
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic, admin_client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import run_tool
from reconciler.kafka.connect import Connection
from reconciler.kafka.coordinators import read_consumption
from reconciler.kafka.offsets import OffsetsRequest, Watermarks, find_by_time, read_offsets
from reconciler.kafka.records import look_up, read_records
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import list_topics
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import OLDEST_MS, ConsumerPosition, LookupKind, RecordLookup, RecordStamp, Unknown
from reconciler.scan.scan import refresh_watermarks
from tests import other_client
from tests.e2e import raw_requests
from tests.spark.reading import ends_within
from tests.strategies.facts import partition
from tests.unit.kafka.test_api_versions import server

pytestmark = pytest.mark.brokers

DAY_MS = 86_400_000


def test_trap_12_no_record_at_or_after_never_means_a_later_end(cluster: SandboxCluster, connection: Connection) -> None:
    """The end offset is read before the lookup by timestamp, so new records stay.

    For 100 old records the lookup answers "no such record", and new records arrive at that moment.
    An end offset that is read after the lookup would be above the new records, and they would be
    deleted with the old ones. With the present order, "no such record" always comes with an end of
    100.
    """
    topic = f"race-{uuid4().hex[:8]}"
    partitions = 12
    now_ms = int(time.time() * 1000)
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, partitions=partitions)])
    old_records = [Record(b"old", timestamp_ms=now_ms - 30 * DAY_MS)] * 100
    client.produce(cluster.bootstrap_servers, topic, dict.fromkeys(range(partitions), old_records))
    leaders = {n: s.leader for n, s in client.partition_states(cluster.bootstrap_servers, topic).items()}
    results = []
    for number in range(partitions):
        producer = threading.Thread(
            target=client.produce,
            args=(cluster.bootstrap_servers, topic, {number: [Record(b"new", timestamp_ms=now_ms)] * 50}),
        )
        producer.start()
        while True:
            request = OffsetsRequest(topic, [number], leaders[number], instants=(now_ms - 7 * DAY_MS,))
            (row,) = read_offsets(KafkaSession(connection), [request])
            (offset,) = row["offsets_at"]
            results.append((offset, row["last_stable_offset"]))
            assert (offset == -1 and row["last_stable_offset"] == 100) or offset == 100, row
            if offset == 100:
                break
        producer.join(60)
    assert len(results) >= partitions


OLD = [DAY_MS * 12_000 + number for number in range(30)]
HEADS = (OLD, [-1] * 30, [-1, *OLD[1:]], [0] * 30, [1_732_600_000] * 30, [OLDEST_MS - 1] * 30, [OLDEST_MS] * 30)


@pytest.mark.parametrize("configs", [{}, {"compression.type": "zstd"}, {"segment.bytes": "1048576"}], ids=str)
def test_a_search_by_time_ends_at_the_log_start_only_if_its_record_has_a_time(
    cluster: SandboxCluster, connection: Connection, configs: dict[str, str]
) -> None:
    """So a time rule need not read that record, wherever a purge has cut its batch, its segment or a compressed one.

    From 2001 on, the search passes over what has no timestamp, or one of seconds.
    """
    servers, value = cluster.bootstrap_servers, bytes(20_000 if "segment.bytes" in configs else 10)
    logs = {(f"search-{uuid4().hex[:8]}", start): head for head in HEADS for start in (0, 7, 30)}
    client.create_topics(servers, [Topic(topic, configs=configs) for topic, _start in logs])
    for (topic, _start), head in logs.items():
        for stamps in (head, OLD, [-1] * 30, OLD):
            raw_requests.produce(servers, topic, stamps, value=value)
    purged = {ClientPartition(topic, 0, start): start for topic, start in logs if start}
    admin = admin_client(servers)  # a reference: the futures of a collected client fail
    for answer in admin.delete_records(list(purged)).values():
        answer.result(30)
    by_time = RecordLookup(LookupKind.UNCOMMITTED, OLDEST_MS)
    firsts = {TopicPartition(topic, 0): RecordLookup(LookupKind.FIRST, start, 120) for topic, start in logs}
    session = KafkaSession.open(connection)
    found = look_up(session, {at: (by_time, first) for at, first in firsts.items()}, {})
    session.close()
    for (topic, start), head in logs.items():
        answers = found[TopicPartition(topic, 0)]
        first = RecordStamp(start, [*head, *OLD][start])
        assert answers[firsts[TopicPartition(topic, 0)]] == first
        ends_there = getattr(answers[by_time], "offset", None) == start
        assert not ends_there or answers[by_time] == first
        # Until a broker removes a segment that is wholly below the log start, the search may end in it, with no record.
        assert ends_there is (first.timestamp_ms >= OLDEST_MS) or (start == len(head) and not ends_there)


def test_brokers_before_kafka_3_tell_no_newest_timestamp(cluster: SandboxCluster, connection: Connection) -> None:
    """They take the question for a timestamp of -3, and answer with the first record, however old it is.

    A server that answers ApiVersions as Kafka 2.8 does stands for the leader's versions only.
    """
    topic = f"newest-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x", timestamp_ms=DAY_MS)]})
    session = KafkaSession.open(connection)
    listing = list_topics(session)
    (facts,) = listing.partitions[topic]
    newest, uncommitted = (RecordLookup(kind) for kind in (LookupKind.NEWEST, LookupKind.UNCOMMITTED))
    pairs = [(facts.partition, newest), (facts.partition, uncommitted)]
    stamp = RecordStamp(0, DAY_MS)
    assert set(find_by_time(session, pairs, {facts.partition: facts}).values()) == {stamp}
    body = struct.pack(">ihi", 1, 0, 2) + struct.pack(">hhh", 2, 0, 6) + struct.pack(">hhh", 18, 0, 3)
    assert isinstance(facts.leader, int)
    with server(struct.pack(">i", len(body)) + body) as address:
        session.refresh()
        session.addresses[facts.leader] = address
        for known in ({facts.partition: facts}, {}):  # with and without the leader
            answers = find_by_time(session, pairs, known)
            untold = answers[facts.partition, newest]
            assert isinstance(untold, Unknown)
            assert "ListOffsets before version 7" in untold.reason
            assert answers[facts.partition, uncommitted] == stamp
    session.close()


def test_a_quota_that_holds_a_reading_back_is_named(cluster: SandboxCluster, connection: Connection) -> None:
    """It looked like a broker that does not answer, and the advice was to check brokers and rights.

    A fetch has up to 8 MB of a partition, and then a broker keeps the client waiting (KIP-219).
    """
    name = f"throttled-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(name)])
    client.produce(cluster.bootstrap_servers, name, {0: [Record(b"x" * 900_000)] * 12})
    quota = ("--alter", "--entity-type", "clients", "--entity-name", name)
    run_tool(cluster, "kafka-configs", *quota, "--add-config", "consumer_byte_rate=1000000")
    session = KafkaSession(replace(connection, properties={"client.id": name}, timeout_s=3.0))
    ends = {0: Watermarks(0, 12)}
    reasons: list[str] = []

    def is_throttled() -> bool:
        errors = read_records(session, name, ends, lambda _partition, _messages: None)
        reasons[:] = [error.reason for error in errors.values()]
        return bool(reasons)

    client.wait_until(is_throttled, 60, "the quota on the brokers")
    assert "no data for 3 s; a quota of 127.0.0.1:" in reasons[0]
    run_tool(cluster, "kafka-configs", *quota, "--delete-config", "consumer_byte_rate")
    session.close()


def test_a_record_batch_that_is_not_what_was_written_is_not_read(
    cluster: SandboxCluster, connection: Connection
) -> None:
    """A bit that a disk or a network flipped: nothing from its batch on counts, and the reason says so.

    Brokers check a batch when it is written, and the library not at all by default: of `__consumer_offsets` a
    flipped bit made one group vanish and another one live, and of a time it made a group idle.
    """
    name = f"flipped-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(name)])
    for value in (b"first", b"second", b"third"):  # a batch each
        client.produce(cluster.bootstrap_servers, name, {0: [Record(value)]})
    for log in cluster.dir.rglob(f"{name}-0/*.log"):
        log.write_bytes(log.read_bytes().replace(b"second", b"sEcond"))
    read: list[bytes | None] = []
    with closing(KafkaSession(connection)) as session:
        errors = read_records(
            session, name, {0: Watermarks(0, 3)}, lambda _partition, messages: read.extend(m.value() for m in messages)
        )
    assert read == [b"first"]
    assert "CRC" in errors[0].reason
    assert not errors[0].unanswered


def test_a_commit_of_a_live_group_is_compared_with_the_current_end(
    cluster: SandboxCluster, connection: Connection
) -> None:
    """A commit above the high watermark causes a second read of the high watermark.

    The last stable offset stays, and a commit above the new high watermark stays above it. A live group
    once blocked its own purge for ever, because its commit was always newer than the first read.
    """
    topic = f"overtaken-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, partitions=3)])
    client.produce(cluster.bootstrap_servers, topic, {number: [Record(b"x")] * 20 for number in range(3)})
    states = client.partition_states(cluster.bootstrap_servers, topic)
    end_and_commit = (5, 10), (5, 1_000_000), (Unknown("no answer"), 10)
    before = [
        partition(n, topic=topic, leader=states[n].leader, end=end, readers=(ConsumerPosition("live", committed),))
        for n, (end, committed) in enumerate(end_and_commit)
    ]
    with closing(KafkaSession(connection)) as session:
        refreshed = refresh_watermarks(session, {facts.partition: facts for facts in before})
    behind, beyond, unread = (refreshed[facts.partition] for facts in before)
    assert (behind.high_watermark, behind.last_stable_offset) == (20, 5)
    assert (beyond.high_watermark, beyond.last_stable_offset) == (20, 5)
    assert isinstance(unread.high_watermark, Unknown)


def test_a_member_with_bytes_of_its_own_is_named_at_once(cluster: SandboxCluster, connection: Connection) -> None:
    """The library ends such an answer as if its client ended. Plans asked again for 30 s, and showed that error."""
    topic = group = f"own-bytes-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    with (
        other_client.member_with_own_bytes(cluster.bootstrap_servers, group, topic),
        closing(KafkaSession(replace(connection, timeout_s=60.0))) as session,
        ends_within(30),
    ):
        (read,) = read_consumption(session, [group], with_members=[group])
    assert read[group].unread == Unknown(
        "the group's members could not be read: the client library cannot decode the answer"
    )
