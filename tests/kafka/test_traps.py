"""Facts of brokers and client that lose data when they are forgotten, on real brokers: what the trap is, and how we stay out of it.

Here: share groups (trap 3), the race of by-timestamp questions with producers (12), system topics that look ordinary (13). Silent brokers and
-1001 (1) and absence (4) are in tests/spark/test_incomplete.py and tests/kafka/test_gateway_faults.py, -1 (2) in the contract suite, EMPTY and quiet groups
(5, 18), open transactions (8), commits that outlive topics (15) and reads that create (16) in tests/spark/test_scan.py.
"""

import threading
import time
from uuid import uuid4

import pytest

from reconciler.errors import SandboxError
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.groups import list_groups
from reconciler.kafka.offsets import OffsetsRequest, read_offsets
from reconciler.kafka.schemas import offset_batch
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import list_topics
from reconciler.model.selector import Selector, select
from reconciler.model.snapshot import GroupType
from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import Cluster
from reconciler.sandbox.tools import kafka_version, run_tool

pytestmark = pytest.mark.brokers

DAY_MS = 86_400_000


@pytest.fixture
def connection(cluster: Cluster) -> Connection:
    return Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=20.0)


def test_trap_3_a_share_group_is_seen_as_hidden_and_is_no_candidate(cluster: Cluster, connection: Connection) -> None:
    """The listing of consumer groups leaves share groups out, so a removal of "whatever is EMPTY" would take them. Ours knows the id from the old
    list call, says that it is no consumer group, and the applier's look before a removal does not find it listed. Before Kafka 4 the trap is not there:
    no tool makes such a group (more in test_versions.py)."""
    if kafka_version(cluster) < (4,):
        with pytest.raises(SandboxError, match="has no kafka-share-groups"):
            run_tool(cluster, "kafka-share-groups", "--list")
        return
    topic, group = f"shared-{uuid4().hex[:8]}", f"share-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    run_tool(
        cluster,
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--topic", topic, "--group", group, "--timeout-ms", "3000"),
        timeout_s=60,
    )
    told = run_tool(cluster, "kafka-share-groups", "--list")
    assert group in told.stdout.split(), told.stderr
    gateway = KafkaGateway(KafkaSession(connection))
    try:
        found = list_groups(KafkaSession(connection), hidden=True)
        assert group in found.groups
        assert found.groups[group].type not in (GroupType.CLASSIC, GroupType.CONSUMER)
        now = gateway.read_groups([group])[group]
        assert now.listed is not True
    finally:
        # That the bare call removes it is the trap; here it tidies up, since an unreadable group blocks purges on this cluster.
        client.wait_until(
            lambda: gateway.delete_groups([group])[group].code in ("NONE", "GROUP_ID_NOT_FOUND"), 90, "the group to go"
        )
        gateway.close()


def test_trap_12_no_record_at_or_after_never_means_a_later_end(cluster: Cluster, connection: Connection) -> None:
    """100 old records answer "no such record"; fresh ones come at that moment. An end that was read after the question would lie above them, and
    they would go with the old ones. So the end comes first: "no such record" always goes with an end of 100."""
    topic = f"race-{uuid4().hex[:8]}"
    partitions = 12
    now_ms = int(time.time() * 1000)
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, partitions=partitions)])
    old = [Record(b"old", timestamp_ms=now_ms - 30 * DAY_MS)] * 100
    client.produce(cluster.bootstrap_servers, topic, dict.fromkeys(range(partitions), old))
    leaders = {n: s.leader for n, s in client.partition_states(cluster.bootstrap_servers, topic).items()}
    seen = []
    for number in range(partitions):
        fresh = threading.Thread(
            target=client.produce,
            args=(cluster.bootstrap_servers, topic, {number: [Record(b"new", timestamp_ms=now_ms)] * 50}),
        )
        fresh.start()
        while True:
            ask = OffsetsRequest(topic, [number], leaders[number], instants=(now_ms - 7 * DAY_MS,))
            (row,) = offset_batch([ask], read_offsets(KafkaSession(connection), [ask])).to_pylist()
            (answer,) = row["offsets_at"]
            seen.append((answer, row["stable_end"]))
            assert (answer == -1 and row["stable_end"] == 100) or answer == 100, row
            if answer == 100:
                break
        fresh.join(60)
    assert len(seen) >= partitions


def test_trap_13_no_pattern_selects_what_only_looks_ordinary(cluster: Cluster, connection: Connection) -> None:
    """A broker does not call `_schemas-…` internal; only its name tells. A floor's pattern passes it by, its exact name does not."""
    system, ordinary = f"_schemas-{uuid4().hex[:8]}", f"schemas-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(system), Topic(ordinary)])
    topics = list_topics(KafkaSession(connection)).topics
    assert topics[system].internal is False
    everything = select(topics, [Selector("*")], patterns_skip_underscore=True)
    assert system not in everything
    assert ordinary in everything
    assert select(topics, [Selector(system)], patterns_skip_underscore=True) == {system: True}
