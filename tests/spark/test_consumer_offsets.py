"""The decoded `__consumer_offsets` agrees with Kafka's own tool, for every way of committing, on real brokers."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Message

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_consumer_offsets
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.offsets import Watermarks
from reconciler.kafka.records import read_records
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC
from tests import kafka_client, other_client
from tests.toolbox import run_kafka_tool

pytestmark = pytest.mark.brokers

PARTITIONS, RECORDS = 2, 10
NEW_PROTOCOL = {"group.protocol": "consumer", "session.timeout.ms": None}


def offsets_from_kafka(cluster: SandboxCluster, groups: list[str]) -> dict[tuple[str, int], int]:
    """CURRENT-OFFSET by group and partition, from `kafka-consumer-groups --describe --offsets`."""
    group_arguments = [word for group in groups for word in ("--group", group)]
    output = run_kafka_tool(cluster, "kafka-consumer-groups", "--describe", "--offsets", *group_arguments)
    offsets: dict[tuple[str, int], int] = {}
    names: list[str] = []
    for line in output.splitlines():
        cells = line.split()
        if cells[:2] == ["GROUP", "TOPIC"]:
            names = cells
        elif names and cells and cells[0] in groups:
            row = dict(zip(names, cells, strict=False))
            offsets[row["GROUP"], int(row["PARTITION"])] = int(row["CURRENT-OFFSET"])
    return offsets


def test_decoder_agrees_with_kafkas_own_tool(
    cluster: SandboxCluster, servers: str, connection: Connection, unique: str
) -> None:
    """Classic and consumer-protocol members, standalone and transactional commits give equal offsets.

    With and without metadata, each commit has the topic's id and an activity time after the start
    of the test.
    """
    start_ms = time.time_ns() // 1_000_000
    client.create_topics(servers, [Topic(unique, partitions=PARTITIONS)])
    client.produce(servers, unique, {number: [Record(b"x")] * RECORDS for number in range(PARTITIONS)})
    names = ("classic", "new", "standalone", "noted", "transactional")
    groups = [f"{unique}-{name}" for name in names]
    classic, consumer_protocol, standalone, with_metadata, transactional = groups
    client.commit(servers, standalone, {(unique, 0): 3, (unique, 1): 4})
    noted = {(unique, 0): (5, "où en suis-je ?"), (unique, 1): (6, "où en suis-je ?")}
    other_client.commit(servers, {with_metadata: noted})
    with kafka_client.pending_commit(servers, transactional, unique, 7, 8, commits=True):
        pass
    with (
        client.member(servers, classic, [unique]),
        client.member(servers, consumer_protocol, [unique], properties=NEW_PROTOCOL),
    ):
        partitions = [(unique, number) for number in range(PARTITIONS)]
        for group in (classic, consumer_protocol):
            client.wait_until(
                lambda group=group: (
                    set(kafka_client.committed_offsets(servers, group, partitions).values()) == {RECORDS}
                ),
                60,
                "the commits",
            )
        expected = offsets_from_kafka(cluster, groups)
    assert {group for group, _ in expected} == set(groups)
    assert len(expected) == len(groups) * PARTITIONS
    numbers = sorted(client.partition_states(servers, CONSUMER_OFFSETS_TOPIC))
    tables = read_consumer_offsets(KafkaSession(connection), numbers)
    origins = [row for row in tables["origins"] if row["topic"] == unique]
    assert {(row["group"], row["partition"]): row["committed"] for row in origins} == expected
    # Brokers write no topic id with a transactional commit.
    ids = {row["topic_id"] for row in origins if row["group"] != transactional}
    assert len(ids) == 1
    assert None not in ids
    activity = {row["group"]: row for row in tables["activity"] if row["group"] in groups}
    for group in groups:
        assert activity[group]["seems"] == ("consumer" if group == consumer_protocol else "classic")
        assert activity[group]["last_activity_ms"] >= start_ms - 1
        assert activity[group]["live"]
    assert [row["error"] for row in tables["runs"]] == [None] * len(numbers)


def activities(connection: Connection, servers: str) -> dict[str, int]:
    """Newest activity by group, after a complete read of the log."""
    tables = read_consumer_offsets(
        KafkaSession(connection), sorted(client.partition_states(servers, CONSUMER_OFFSETS_TOPIC))
    )
    assert all(row["error"] is None for row in tables["runs"])
    return {row["group"]: row["last_activity_ms"] for row in tables["activity"]}


def test_an_aborted_commit_counts_as_activity(
    cluster: SandboxCluster, servers: str, connection: Connection, unique: str
) -> None:
    """An aborted transaction moves no offset, and Kafka shows none; it still counts as activity."""
    client.create_topics(servers, [Topic(unique, partitions=PARTITIONS)])
    group = f"{unique}-aborted"
    start_ms = time.time_ns() // 1_000_000
    with kafka_client.pending_commit(servers, group, unique, 1):
        pass
    assert offsets_from_kafka(cluster, [group]) == {}
    assert activities(connection, servers)[group] >= start_ms - 1


def test_an_open_transaction_hides_no_group(servers: str, connection: Connection, unique: str) -> None:
    """Commits after an open transaction are read.

    The log was once read only up to the last stable offset and called complete, so that active
    groups looked idle.
    """
    client.create_topics(servers, [Topic(unique, partitions=PARTITIONS)])
    count = len(client.partition_states(servers, CONSUMER_OFFSETS_TOPIC))
    transactional_group = f"{unique}-waiting"
    log_number = log_partition(transactional_group, count)
    later_group = next(
        name for name in (f"{unique}-{number}" for number in range(1_000)) if log_partition(name, count) == log_number
    )
    start_ms = time.time_ns() // 1_000_000
    with kafka_client.pending_commit(servers, transactional_group, unique, 1, commits=True):
        client.commit(servers, later_group, {(unique, 0): 2})
        by_group = activities(connection, servers)
    assert by_group[later_group] >= start_ms - 1
    assert by_group[transactional_group] >= start_ms - 1


def test_records_that_a_new_leader_gets_late_are_read(servers: str, connection: Connection, unique: str) -> None:
    """Records that a new leader gets late are read, too: three exist at first, seven are expected, four come later.

    A new leader may know fewer records than the one before it. Three records once counted as a
    complete read.
    """
    client.create_topics(servers, [Topic(unique)])
    group = f"{unique}-late"
    place = log_partition(group, len(client.partition_states(servers, CONSUMER_OFFSETS_TOPIC)))

    def commit(count: int) -> None:
        for offset in range(count):
            client.commit(servers, group, {(unique, 0): offset})

    commit(1)
    _, start = client.watermarks(servers, CONSUMER_OFFSETS_TOPIC, place)
    commit(3)
    records: list[Message] = []
    ends = {place: Watermarks(start, start + 7)}
    with ThreadPoolExecutor(1) as executor:
        late_commits = executor.submit(lambda: (time.sleep(1.5), commit(4)))
        errors = read_records(
            KafkaSession(connection),
            CONSUMER_OFFSETS_TOPIC,
            ends,
            lambda _partition, messages: records.extend(messages),
        )
        late_commits.result()
    assert errors == {}
    assert len(records) == 7
