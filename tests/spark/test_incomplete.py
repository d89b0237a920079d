"""Incomplete facts are reported: no commits yet, few permissions, a paused broker.

Two brokers without spare replicas, so that the test knows in advance which facts are unreadable.
"""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.companions.sandbox.security import Security
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import Cause, ClusterSnapshot, ConsumerPosition, PartitionFacts, Unknown
from reconciler.scan.engine_choice import Engine, EngineName
from tests.build import policy, write_manifests
from tests.command import reconciler, reconciler_process
from tests.kafka.acls import Grant, grant
from tests.spark.conftest import scan_now
from tests.unit.scan.listings import reason

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

USERS = {"blind": "bl1nd", "short": "sh0rt", "full": "fu11"}
LOG_PARTITIONS = 10
TIMEOUT_S = 6.0
"""Of tests with a silent broker."""
NO_SILENCE_TIMEOUT_S = 60.0
"""Of other tests, in which a busy machine must not look like a silent broker."""
FROZEN = 2
"""The broker that tests pause, or end."""
NEEDS = ScanRequest(
    topics=(
        TopicRequest(
            topics=(Selector("spread"),), offsets=True, instants_ms=(0,), readers=True, named_groups=frozenset({"g0"})
        ),
    ),
    groups=(GroupRequest(groups=(Selector("g*"),), activity=True),),
    topic_records=True,
)
GROUPS = tuple(f"g{number}" for number in range(8))


@pytest.fixture(scope="module")
def fragile() -> Iterator[SandboxCluster]:
    with stopping(
        start(
            2,
            name="fragile",
            heap_mib=256,
            security=Security(USERS),
            properties={"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": str(LOG_PARTITIONS)},
        )
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster_with_groups(fragile: SandboxCluster) -> SandboxCluster:
    """The same cluster with a topic on both brokers and groups with commits."""
    servers = fragile.bootstrap_servers
    client.create_topics(servers, [Topic("spread", assignment=[[1], [2]])])
    client.produce(servers, "spread", {number: [Record(b"x")] * 10 for number in (0, 1)})
    for number, group in enumerate(GROUPS):
        client.commit(servers, group, {("spread", 0): number, ("spread", 1): number})
    return fragile


@pytest.fixture(params=["spark", "inline"])
def any_engine(request: pytest.FixtureRequest, engine: Engine) -> Engine:
    """Spark, and the engine without it: the same facts are missing."""
    return engine if request.param == "spark" else Engine(name=EngineName.INLINE)


def scanned(
    cluster: SandboxCluster, engine: Engine, needs: ScanRequest = NEEDS, *, user: str | None = None
) -> ClusterSnapshot:
    with closing(open_session(cluster, user=user)) as session:
        return scan_now(session, needs, engine)


def open_session(
    cluster: SandboxCluster, *, user: str | None = None, timeout_s: float = NO_SILENCE_TIMEOUT_S
) -> KafkaSession:
    servers, properties = cluster.bootstrap_servers, {}
    if user is not None:
        assert cluster.secure is not None
        servers, properties = cluster.secure.bootstrap_servers, cluster.secure.client(user)
    return KafkaSession(Connection(tuple(servers.split(",")), properties, timeout_s=timeout_s))


def test_1_scan_of_a_cluster_without_commits_creates_no_consumer_offsets(
    fragile: SandboxCluster, engine: Engine
) -> None:
    """Before the first commit there are provably no groups and no consumers.

    A request for a coordinator would have created `__consumer_offsets` (trap 16).
    """
    client.create_topics(fragile.bootstrap_servers, [Topic("untouched")])
    needs = ScanRequest(
        topics=(TopicRequest(topics=(Selector("untouched"),), offsets=True, readers=True),),
        groups=(GroupRequest(groups=(Selector("*"),), activity=True),),
    )
    for _ in range(2):
        snapshot = scanned(fragile, engine, needs)
        assert "__consumer_offsets" not in snapshot.topics
        assert snapshot.groups == {}
        assert (snapshot.groups_incomplete, snapshot.readers_incomplete) == (None, None)
        assert snapshot.partitions[TopicPartition("untouched", 0)].readers == ()


def test_2_scan_with_all_rights_reads_everything(cluster_with_groups: SandboxCluster, any_engine: Engine) -> None:
    """The facts that later tests remove are readable at first, also for a caller with only the read permissions."""
    rights = [
        (AclOperation.DESCRIBE, ResourceType.BROKER, "kafka-cluster"),
        (AclOperation.DESCRIBE, ResourceType.GROUP, "*"),
        (AclOperation.DESCRIBE, ResourceType.TOPIC, "*"),
        (AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "spread"),
        (AclOperation.READ, ResourceType.TOPIC, "__consumer_offsets"),
    ]
    grant(cluster_with_groups.bootstrap_servers, [Grant("full", *right) for right in rights])
    for user in (None, "full"):
        snapshot = scanned(cluster_with_groups, any_engine, user=user)
        assert {snapshot.topics_incomplete, snapshot.groups_incomplete, snapshot.readers_incomplete} == {None}
        assert [snapshot.groups[group].commits for group in GROUPS] == [2] * len(GROUPS)
        assert all(isinstance(snapshot.groups[group].last_activity_ms, int) for group in GROUPS)
        facts = snapshot.partitions[TopicPartition("spread", 0)]
        assert isinstance(facts.readers, tuple)
        assert [(r.group, r.committed) for r in facts.readers] == [(g, n) for n, g in enumerate(GROUPS)]
        assert snapshot.topics["spread"].records == 20


def test_3_scan_with_few_rights_names_the_right_that_is_missing(
    cluster_with_groups: SandboxCluster, any_engine: Engine
) -> None:
    """Without DESCRIBE on the cluster the group list is short and has no error: it is called incomplete.

    (traps 4 and 14)
    """
    grant(
        cluster_with_groups.bootstrap_servers,
        [
            Grant("short", AclOperation.DESCRIBE, ResourceType.TOPIC, "spread"),
            Grant("short", AclOperation.DESCRIBE, ResourceType.GROUP, "g0"),
        ],
    )
    snapshot = scanned(cluster_with_groups, any_engine, user="short")
    assert "DESCRIBE on the cluster" in reason(snapshot.groups_incomplete)
    assert "DESCRIBE on the cluster" in reason(snapshot.readers_incomplete)
    assert "DESCRIBE_CONFIGS on the topic" in reason(snapshot.topics["spread"].cleanup_policy)
    assert snapshot.partitions[TopicPartition("spread", 0)].last_stable_offset == 10
    assert "g0" in snapshot.groups
    assert "g1" not in snapshot.groups
    # The user may not describe __consumer_offsets, so nothing proves that a group was idle.
    assert "right DESCRIBE on the topic" in reason(snapshot.groups["g0"].last_activity_ms)


def test_4_scan_that_may_describe_but_not_read_the_consumer_offsets(
    cluster_with_groups: SandboxCluster, any_engine: Engine
) -> None:
    """READ on `__consumer_offsets` is a separate permission: without it activity is unread, with the reason."""
    grant(
        cluster_with_groups.bootstrap_servers,
        [
            Grant("short", AclOperation.DESCRIBE, ResourceType.BROKER, "kafka-cluster"),
            Grant("short", AclOperation.DESCRIBE, ResourceType.TOPIC, "__consumer_offsets"),
        ],
    )
    snapshot = scanned(cluster_with_groups, any_engine, user="short")
    assert snapshot.groups_incomplete is None
    assert "READ on __consumer_offsets" in reason(snapshot.groups["g0"].last_activity_ms)
    assert snapshot.groups["g0"].commits == 2
    # All groups are listed here. Groups that are only in the log would not be listed, so the
    # consumers of a partition are not completely known.
    assert set(GROUPS) <= set(snapshot.groups)
    assert "READ on __consumer_offsets" in reason(snapshot.readers_incomplete)


def test_5_scan_without_the_right_to_see_a_topic(cluster_with_groups: SandboxCluster, engine: Engine) -> None:
    """A topic without DESCRIBE permission is not called absent."""
    snapshot = scanned(cluster_with_groups, engine, user="blind")
    assert "spread" not in snapshot.topics
    assert "DESCRIBE on the topic" in reason(snapshot.topics_incomplete)


def coordinated_by_frozen(cluster: SandboxCluster) -> frozenset[str]:
    """Return the groups that broker FROZEN coordinates: some of GROUPS, and not all."""
    log = client.partition_states(cluster.bootstrap_servers, "__consumer_offsets")
    groups = frozenset(group for group in GROUPS if log[log_partition(group, LOG_PARTITIONS)].leader == FROZEN)
    assert groups
    assert groups < set(GROUPS)
    return groups


@contextmanager
def frozen_broker(cluster: SandboxCluster, session: KafkaSession, engine: Engine) -> Iterator[frozenset[str]]:
    """Pause broker FROZEN for the block, once all can be read. Yields the groups that it coordinates."""
    # With the engine of the block, so that the worker process of `inline` has started.
    client.wait_until(
        lambda: scan_now(session, NEEDS, engine).readers_incomplete is None, 120, "a complete scan", every_s=1
    )
    silent = coordinated_by_frozen(cluster)
    cluster.pause(FROZEN)
    try:
        yield silent
    finally:
        cluster.resume(FROZEN)


def silence(cluster: SandboxCluster) -> str:
    """The one reason for all facts of the frozen broker: once 14 sentences, and the advice to grant a right."""
    address = next(f"127.0.0.1:{broker.port}" for broker in cluster.brokers if broker.id == FROZEN)
    return f"broker {FROZEN} ({address}) did not answer a test request within 5 s"


def assert_only_its_facts_are_unread(
    snapshot: ClusterSnapshot, cluster: SandboxCluster, silent: frozenset[str]
) -> None:
    """The frozen broker's facts are its partitions and the groups that it coordinates."""
    unread, readable = (snapshot.partitions[TopicPartition("spread", number)] for number in (1, 0))
    assert_unknown(unread)
    assert FROZEN in snapshot.brokers, "the controller fenced the broker before the scan listed it"
    kept = {unread.log_start, snapshot.groups_incomplete, snapshot.readers_incomplete}
    assert kept == {Unknown(silence(cluster), Cause.SILENT_BROKER)}
    assert (readable.log_start, readable.last_stable_offset, readable.high_watermark, readable.offsets_at) == (
        0,
        10,
        10,
        {0: 0},
    )
    reason(snapshot.topics["spread"].records)
    reason(snapshot.readers_incomplete)
    # Only the frozen broker could list its groups, so the listing is incomplete.
    reason(snapshot.groups_incomplete)
    assert silent.isdisjoint(snapshot.groups)
    for group in set(GROUPS) - silent:
        facts = snapshot.groups[group]
        assert isinstance(facts.last_activity_ms, int)
        assert facts.commits == 2
    positions: Mapping[str, ConsumerPosition] = {
        reader.group: reader for reader in readable.readers if isinstance(readable.readers, tuple)
    }
    assert set(positions) == set(GROUPS) - silent


def test_6_scan_with_a_frozen_broker(cluster_with_groups: SandboxCluster, engine: Engine) -> None:
    """Exactly the paused broker's facts are unread, with one reason."""
    with (
        closing(open_session(cluster_with_groups, timeout_s=TIMEOUT_S)) as session,
        frozen_broker(cluster_with_groups, session, engine) as silent,
    ):
        snapshot = scan_now(session, NEEDS, engine)
    assert_only_its_facts_are_unread(snapshot, cluster_with_groups, silent)


def test_6_inline_scan_and_commands_with_a_frozen_broker(cluster_with_groups: SandboxCluster, tmp_path: Path) -> None:
    """`apply`, `drift` and `doctor` name the silent leader of a partition, with address and patience.

    They once named a missing right, and `apply` called failed what it had not sent. Nothing is sent to
    the other leader, either: a group that only the silent broker knows may read there. A scan with the
    engine without Spark runs at the same time, since all of them wait for the same broker.
    """
    servers = cluster_with_groups.bootstrap_servers
    client.create_topics(servers, [Topic("purged", assignment=[[1], [FROZEN]])])
    client.produce(servers, "purged", {number: [Record(b"x")] * 10 for number in (0, 1)})
    purged = policy("RetentionFloor", "purged", "topics: [purged], keep: {last: 4}")
    write_manifests(tmp_path, servers, purged, limits="")
    planned = reconciler(tmp_path, "plan", "--out", "plan.json", "--detailed-exitcode")
    assert planned.returncode == 2, planned.stderr
    commands = {
        "apply": ("apply", "plan.json", "--no-input", "--results", "results.json"),
        "drift": ("drift",),
        "doctor": ("doctor", "--for", "apply"),
    }
    inline = Engine(name=EngineName.INLINE)
    with (
        closing(open_session(cluster_with_groups, timeout_s=TIMEOUT_S)) as session,
        frozen_broker(cluster_with_groups, session, inline) as silent,
        ThreadPoolExecutor(len(commands)) as threads,
    ):
        started = {
            name: threads.submit(reconciler_process, tmp_path, *words, "--timeout", f"{TIMEOUT_S:.0f}")
            for name, words in commands.items()
        }
        snapshot = scan_now(session, NEEDS, inline)
        runs = {name: future.result() for name, future in started.items()}
    assert_only_its_facts_are_unread(snapshot, cluster_with_groups, silent)
    # A report of drift has a warning, and an item of all subjects that wait for the broker.
    for name, times in (("apply", 1), ("drift", 2), ("doctor", 1)):
        output = runs[name].stdout + runs[name].stderr
        assert runs[name].returncode == 1, output
        assert output.lower().count(silence(cluster_with_groups)) == output.count("did not answer") == times, output
        for word in ("MISSING", "the right ", "failed", "FAILED"):
            assert word not in output
    assert f"  SILENT   {silence(cluster_with_groups)}" in runs["doctor"].stdout
    assert "2 partitions of purged" in runs["apply"].stdout
    outcomes = json.loads((tmp_path / "results.json").read_text())["outcomes"]
    assert [(outcome["address"], outcome["status"], outcome["sends"]) for outcome in outcomes] == [
        (f"RetentionFloor/purged/purged[{number}]", "not_attempted", 0) for number in (0, 1)
    ]


def test_7_groups_of_a_log_partition_without_a_leader_are_in_no_list(
    cluster_with_groups: SandboxCluster, engine: Engine
) -> None:
    """If a broker is gone, the group listing is incomplete, although no answer has an error.

    The other brokers answer the listing without its groups. The listing once counted as complete,
    and a deletion would have ignored these groups.
    """
    servers = cluster_with_groups.bootstrap_servers
    silent = coordinated_by_frozen(cluster_with_groups)
    cluster_with_groups.terminate(FROZEN)
    try:
        client.wait_until(
            lambda: all(
                partition.leader != FROZEN
                for partition in client.partition_states(servers, "__consumer_offsets").values()
            ),
            60,
            "other leaders",
        )
        snapshot = scanned(cluster_with_groups, engine)
        names = scanned(cluster_with_groups, engine, ScanRequest(group_names=True))
    finally:
        cluster_with_groups.restart(FROZEN, timeout_s=120)
    assert silent.isdisjoint(snapshot.groups)
    assert set(GROUPS) - silent <= set(snapshot.groups)
    where = f"partitions of __consumer_offsets, which have no leader (replicas on brokers {FROZEN})"
    assert where in reason(snapshot.groups_incomplete)
    assert "no leader" in reason(snapshot.readers_incomplete)
    # A protection of one of these groups was said to guard nothing.
    assert where in reason(names.groups_incomplete)


def assert_unknown(facts: PartitionFacts) -> None:
    for fact in (facts.log_start, facts.last_stable_offset, facts.high_watermark, facts.offsets_at[0]):
        reason(fact)
