"""The scan with a warm Spark against real brokers: facts, consumers, evidence, and unrequested facts."""

import time
from dataclasses import replace

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import (
    NOT_ASKED,
    ClusterSnapshot,
    ConsumerPosition,
    GroupState,
    GroupType,
    PartitionFacts,
    Unknown,
    fingerprint,
)
from tests import kafka_client
from tests.spark.conftest import Scan

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

HOUR_MS = 3_600_000


def topics(*names: str) -> tuple[Selector, ...]:
    return tuple(Selector(name) for name in names)


def by_number(snapshot: ClusterSnapshot) -> list[PartitionFacts]:
    """The facts of the partitions of one topic."""
    return [facts for _partition, facts in sorted(snapshot.partitions.items())]


def floor_request(topic: str, *named: str) -> ScanRequest:
    """A request for offsets and readers of one topic, and for the positions of named groups."""
    part = TopicRequest(topics=topics(topic), offsets=True, readers=True, named_groups=frozenset(named))
    return ScanRequest(topics=(part,))


def test_scan_offsets_and_instants(servers: str, scanned: Scan, unique: str) -> None:
    """Log start, ends and the first offset at or after an instant; a missing record is None, never -1.

    (trap 2)
    """
    now = time.time_ns() // 1_000_000
    client.create_topics(servers, [Topic(unique, partitions=2)])
    old_records = [Record(b"old", timestamp_ms=now - 2 * HOUR_MS)] * 6
    client.produce(servers, unique, {0: [*old_records, *[Record(b"new", timestamp_ms=now)] * 3], 1: old_records})
    request = TopicRequest(topics=topics(unique), offsets=True, instants_ms=(0, now - HOUR_MS))
    snapshot = scanned(ScanRequest(topics=(request,), topic_records=True))
    first, second = by_number(snapshot)
    assert (first.log_start, first.last_stable_offset, first.high_watermark) == (0, 9, 9)
    assert first.offsets_at == {0: 0, now - HOUR_MS: 6}
    assert second.offsets_at == {0: 0, now - HOUR_MS: None}
    assert second.last_stable_offset == 6
    assert snapshot.topics[unique].records == 15
    assert snapshot.topics[unique].cleanup_policy == frozenset({"delete"})
    assert first.readers is NOT_ASKED
    assert first.last_purge is NOT_ASKED


def test_scan_last_stable_offset_stays_below_an_open_transaction(servers: str, scanned: Scan, unique: str) -> None:
    """The last stable offset is the read-committed one: records of an open transaction are above it (trap 8)."""
    client.create_topics(servers, [Topic(unique)])
    client.produce(servers, unique, {0: [Record(b"x")] * 4})
    with kafka_client.open_transaction(servers, unique):
        client.produce(servers, unique, {0: [Record(b"y")] * 2})
        (partition,) = by_number(scanned(floor_request(unique)))
    assert (partition.last_stable_offset, partition.high_watermark) == (4, 7)


def test_scan_readers(servers: str, scanned: Scan, unique: str) -> None:
    """Groups below the last stable offset are listed, a missing commit counts as the log start.

    A named group is always listed.
    """
    client.create_topics(servers, [Topic(unique, partitions=2)])
    client.produce(servers, unique, {number: [Record(b"x")] * 10 for number in (0, 1)})
    client.commit(servers, f"{unique}-behind", {(unique, 0): 3, (unique, 1): 10})
    client.commit(servers, f"{unique}-half", {(unique, 0): 10})
    for name in ("done", "named"):
        client.commit(servers, f"{unique}-{name}", {(unique, 0): 10, (unique, 1): 10})
    snapshot = scanned(floor_request(unique, f"{unique}-named", f"{unique}-missing"))
    topic_id = snapshot.topics[unique].topic_id
    assert isinstance(topic_id, str)
    first, second = by_number(snapshot)
    named = ConsumerPosition(f"{unique}-named", 10, topic_id=topic_id)
    assert first.readers == (ConsumerPosition(f"{unique}-behind", 3), named)
    assert second.readers == (ConsumerPosition(f"{unique}-half", 0, without_commit=True), named)
    assert first.readers_below == 10
    assert snapshot.groups[f"{unique}-done"].listed


def test_scan_recognizes_a_commit_for_an_earlier_topic_of_that_name(servers: str, scanned: Scan, unique: str) -> None:
    """A commit outlives its topic: then the topic id of the commit differs from the topic's (trap 15)."""
    client.create_topics(servers, [Topic(unique)])
    client.produce(servers, unique, {0: [Record(b"x")] * 5})
    with client.member(servers, f"{unique}-g", [unique]):
        client.wait_until(
            lambda: kafka_client.committed_offsets(servers, f"{unique}-g", [(unique, 0)])[unique, 0] == 5,
            30,
            "the member's commit",
        )
        before = scanned(floor_request(unique, f"{unique}-g"))
    (reader,) = by_number(before)[0].readers
    assert reader.topic_id == before.topics[unique].topic_id
    client.commit(servers, f"{unique}-other", {(unique, 0): 5})
    kafka_client.delete_topics(servers, [unique])
    client.create_topics(servers, [Topic(unique)])
    client.produce(servers, unique, {0: [Record(b"y")] * 9})
    client.commit(servers, f"{unique}-g", {(unique, 0): 2})
    after = scanned(floor_request(unique, f"{unique}-g"))
    (position,) = (reader for reader in by_number(after)[0].readers if reader.group == f"{unique}-g")
    assert position == ConsumerPosition(f"{unique}-g", 2, topic_id=after.topics[unique].topic_id)
    assert after.topics[unique].topic_id != before.topics[unique].topic_id


def test_scan_group_evidence(servers: str, scanned: Scan, unique: str) -> None:
    """State, type, counts, fingerprint, and the newest activity with the position of its record."""
    client.create_topics(servers, [Topic(unique, partitions=2)])
    before = time.time_ns() // 1_000_000
    client.commit(servers, f"{unique}-alone", {(unique, 0): 7, (unique, 1): 8})
    after = time.time_ns() // 1_000_000
    needs = ScanRequest(groups=(GroupRequest(groups=topics(f"{unique}-*"), activity=True),))
    new_protocol = {"group.protocol": "consumer", "session.timeout.ms": None, "enable.auto.commit": "false"}
    with (
        client.member(servers, f"{unique}-old", [unique]),
        client.member(servers, f"{unique}-new", [unique], properties=new_protocol),
    ):
        groups = scanned(needs).groups
    standalone, classic, consumer = (groups[f"{unique}-{name}"] for name in ("alone", "old", "new"))
    assert (standalone.listed, standalone.type, standalone.state) == (True, GroupType.CLASSIC, GroupState.EMPTY)
    assert (standalone.commits, standalone.commit_topics) == (2, 1)
    assert standalone.fingerprint == fingerprint([(unique, 0, 7), (unique, 1, 8)])
    assert isinstance(standalone.last_activity_ms, int)
    assert before - 1 <= standalone.last_activity_ms <= after
    assert isinstance(standalone.newest_record, tuple)
    assert (classic.type, classic.state) == (GroupType.CLASSIC, GroupState.STABLE)
    # A member of the consumer protocol writes records when it joins.
    assert consumer.type is GroupType.CONSUMER
    assert isinstance(consumer.last_activity_ms, int)


def test_scan_same_offset_committed_again_moves_the_evidence(servers: str, scanned: Scan, unique: str) -> None:
    """A quiet consumer that assigns its own partitions looks EMPTY and unchanged; only the commit log shows it.

    (traps 5 and 18)
    """
    client.create_topics(servers, [Topic(unique)])
    needs = ScanRequest(groups=(GroupRequest(groups=topics(f"{unique}-g"), activity=True),))
    client.commit(servers, f"{unique}-g", {(unique, 0): 1})
    first = scanned(needs).groups[f"{unique}-g"]
    client.commit(servers, f"{unique}-g", {(unique, 0): 1})
    second = scanned(needs).groups[f"{unique}-g"]
    assert first.fingerprint == second.fingerprint
    assert first.newest_record < second.newest_record
    assert first.last_activity_ms <= second.last_activity_ms


def test_scan_reads_only_requested_facts(servers: str, scanned: Scan, unique: str) -> None:
    """Leaders need no offsets, groups or Spark; all topics are listed, and the last deletion comes from the journal."""
    client.create_topics(servers, [Topic(unique, assignment=[[1, 2], [2, 3]]), Topic(f"{unique}-other")])
    messages: list[str] = []
    needs = ScanRequest(topics=(TopicRequest(topics=topics(unique), every_ms=1),))
    snapshot = scanned(
        needs, last_purges={TopicPartition(unique, 1): 77}, progress=lambda message, *_count: messages.append(message)
    )
    assert set(snapshot.partitions) == {TopicPartition(unique, 0), TopicPartition(unique, 1)}
    first, second = by_number(snapshot)
    assert (first.leader, first.replicas, set(first.in_sync)) == (1, (1, 2), {1, 2})
    assert (first.last_purge, second.last_purge) == (None, 77)
    assert first.log_start is NOT_ASKED
    assert snapshot.groups == {}
    assert snapshot.topics[f"{unique}-other"].topic_id is NOT_ASKED
    assert snapshot.readers_incomplete is NOT_ASKED
    assert snapshot.cluster_records is NOT_ASKED
    assert snapshot.topics_incomplete is None
    assert not any("Spark" in line for line in messages)


def test_scan_partitions_of_one_topic_may_have_different_requests(servers: str, scanned: Scan, unique: str) -> None:
    """If two requests select a topic, each partition has every fact that one of them requests."""
    client.create_topics(servers, [Topic(unique, partitions=3)])
    client.produce(servers, unique, {number: [Record(b"x")] * (number + 1) for number in range(3)})
    needs = ScanRequest(
        topics=(
            TopicRequest(topics=topics(unique), partitions=frozenset({0, 1}), offsets=True),
            TopicRequest(topics=topics(f"{unique}*"), partitions=frozenset({1, 2}), instants_ms=(0,)),
        ),
        topic_records=True,
        cluster_records=True,
    )
    snapshot = scanned(needs)
    facts = [(of.offsets_at, of.last_stable_offset) for of in by_number(snapshot)]
    assert facts == [({}, 1), ({0: 0}, 2), ({0: 0}, 3)]
    assert snapshot.topics[unique].records == 6
    assert isinstance(snapshot.cluster_records, int)
    assert snapshot.cluster_records >= 6


def test_scan_of_names_that_do_not_exist_creates_nothing(scanned: Scan, unique: str) -> None:
    """A topic that does not exist is absent from a complete listing, and the scan does not create it (trap 16)."""
    of_group = GroupRequest(groups=topics(f"{unique}-g"), activity=True)
    needs = replace(floor_request(unique, f"{unique}-g"), groups=(of_group,))
    for _ in range(2):
        snapshot = scanned(needs)
        assert unique not in snapshot.topics
        assert f"{unique}-g" not in snapshot.groups
        assert snapshot.partitions == {}
        assert (snapshot.topics_incomplete, snapshot.groups_incomplete) == (None, None)
        assert not isinstance(snapshot.readers_incomplete, Unknown)
