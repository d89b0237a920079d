"""The gateway on real brokers with faults: silent brokers, slow replicas, no leader."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import wait_until
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.process import identify
from reconciler.companions.sandbox.tools import kafka_version
from reconciler.kafka import session as sessions
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.coordinators import NAMELESS, Consumption, fetch, read_consumption
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.group_listing import list_groups
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.silence import silent_brokers
from reconciler.kafka.topics import list_topics
from reconciler.model.names import TopicPartition
from reconciler.model.ports import Election
from reconciler.model.snapshot import REBALANCING, Cause, GroupState, Unknown
from reconciler.operations.error_meanings import Response, ResponseAction
from tests.e2e.raw_requests import join_group
from tests.fakes.error_table import InterpretingGateway

pytestmark = pytest.mark.brokers


@pytest.fixture
def gateway(connection: Connection) -> Iterator[InterpretingGateway]:
    with closing(KafkaSession(replace(connection, timeout_s=6.0))) as session:
        yield InterpretingGateway(KafkaGateway(session))


@pytest.fixture
def session(connection: Connection) -> Iterator[KafkaSession]:
    with closing(KafkaSession(replace(connection, timeout_s=10))) as session:
        yield session


@pytest.fixture(params=[False, True], ids=["in this process", "isolated"])
def either_session(connection: Connection, request: pytest.FixtureRequest) -> Iterator[KafkaSession]:
    """A session that asks coordinators in this process, and one that asks them from a child process."""
    with closing(KafkaSession(replace(connection, timeout_s=10), isolates=request.param)) as session:
        yield session


@pytest.fixture
def committed(cluster: SandboxCluster) -> tuple[str, str]:
    """A topic, and a group that has committed 4 on its partition."""
    name, group = topic_on(cluster, (1, 2, 3)), unique_name()
    client.commit(cluster.bootstrap_servers, group, {(name, 0): 4})
    return name, group


def unique_name() -> str:
    return f"faulty-{uuid.uuid4().hex[:12]}"


def topic_on(cluster: SandboxCluster, *assignment: tuple[int, ...]) -> str:
    """A topic with ten records in each partition and these replicas."""
    name = unique_name()
    client.create_topics(cluster.bootstrap_servers, [client.Topic(name, assignment=assignment)])
    records = {number: [client.Record(b"x")] * 10 for number in range(len(assignment))}
    client.produce(cluster.bootstrap_servers, name, records)
    return name


def wait_for_brokers(cluster: SandboxCluster) -> None:
    """Wait until all brokers see each other."""
    ids, servers = {broker.id for broker in cluster.brokers}, cluster.bootstrap_servers.split(",")
    client.wait_until(lambda: all(client.visible_brokers(server) == ids for server in servers), 60, "all brokers")


@contextmanager
def paused(cluster: SandboxCluster, *brokers: int) -> Iterator[None]:
    """Pause brokers during the block, by default all, and wait until they are back."""
    brokers = brokers or tuple(broker.id for broker in cluster.brokers)
    for broker in brokers:
        cluster.pause(broker)
    try:
        yield
    finally:
        for broker in brokers:
            cluster.resume(broker)
        wait_for_brokers(cluster)


@contextmanager
def terminated(cluster: SandboxCluster, broker: int) -> Iterator[None]:
    """End a broker for the block, and wait until it is back."""
    cluster.terminate(broker)
    try:
        yield
    finally:
        cluster.restart(broker)
        wait_for_brokers(cluster)


def test_gateway_a_silent_leader_affects_only_its_partitions(
    cluster: SandboxCluster, gateway: InterpretingGateway
) -> None:
    """DeleteRecords to a paused broker is read back; its offsets are Unknown, never -1001.

    Other leaders respond.
    """
    name = topic_on(cluster, (1,), (2,))
    silent, healthy = TopicPartition(name, 0), TopicPartition(name, 1)
    gateway.read_partitions([silent, healthy], offsets=True)
    with paused(cluster, 1):
        results = gateway.delete_records({silent: 5, healthy: 5})
        facts = gateway.read_partitions([silent, healthy], offsets=True)
    assert results[silent].answer is ResponseAction.READ_BACK
    assert results[silent].code == "_TIMED_OUT"
    assert not results[silent].no_effect
    assert results[healthy].answer is ResponseAction.DONE
    assert isinstance(facts[silent].log_start, Unknown)
    assert isinstance(facts[silent].high_watermark, Unknown)
    if not isinstance(facts[healthy].leader, Unknown):
        assert facts[healthy].log_start == 5


def test_a_silent_broker_is_named_with_its_address_and_the_patience(
    cluster: SandboxCluster, connection: Connection
) -> None:
    """Exactly the frozen broker, whatever the caller may do; without a frozen broker, none."""
    addresses = {broker.id: f"127.0.0.1:{broker.port}" for broker in cluster.brokers}
    with closing(KafkaSession(replace(connection, timeout_s=30.0))) as session:
        list_topics(session)
        assert session.addresses == addresses
        assert silent_brokers(session, session.addresses) == {}
        with paused(cluster, 3):
            silent = silent_brokers(session, session.addresses)
    sentence = f"broker 3 ({addresses[3]}) did not answer a test request within 10 s"
    assert silent == {3: Unknown(sentence, Cause.SILENT_BROKER)}


def test_gateway_a_slow_follower_is_a_timeout_with_an_effect(
    cluster: SandboxCluster, gateway: InterpretingGateway
) -> None:
    """REQUEST_TIMED_OUT is read back: the slowest live replica delays the response, but the leader
    has moved its log start.
    """
    name = topic_on(cluster, (2, 3, 1))
    partition = TopicPartition(name, 0)
    leader = gateway.read_partitions([partition], offsets=True)[partition].leader
    follower = 1 if leader != 1 else 3
    # Now the client knows the leader. The library waits 3 s if it asks the silent broker for it.
    assert gateway.delete_records({partition: 1})[partition].code == "NONE"
    with paused(cluster, follower):
        result = gateway.delete_records({partition: 5})[partition]
    assert (result.answer, result.code, result.low_watermark) == (ResponseAction.READ_BACK, "REQUEST_TIMED_OUT", None)
    gateway.refresh()
    assert gateway.read_partitions([partition], offsets=True)[partition].log_start == 5


def test_gateway_reads_do_not_wait_behind_a_delete(cluster: SandboxCluster, gateway: InterpretingGateway) -> None:
    """While DeleteRecords waits for a slow replica, the leader's offsets are read at once.

    The read uses another client and connection; on a shared connection no attempt could succeed.
    The test makes several attempts, because the description of a topic goes to the controller, and
    a KRaft broker may name the paused broker as the controller.
    """
    tries = 16
    name = topic_on(cluster, *[(2, 3, 1)] * tries)
    assert any(_read_during_a_delete(cluster, gateway, TopicPartition(name, number)) for number in range(tries))


def _read_during_a_delete(cluster: SandboxCluster, gateway: InterpretingGateway, partition: TopicPartition) -> bool:
    """Return whether the log start was read before the response to the deletion."""
    gateway.refresh()
    gateway.read_partitions([partition], offsets=True)
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(gateway.delete_records({partition: 5})))
    with paused(cluster, 1):
        thread.start()
        log_start: object = None
        while not results and log_start != 5:
            log_start = gateway.read_partitions([partition], offsets=True)[partition].log_start
        was_first = not results
    thread.join()
    return was_first


def test_gateway_no_leader_means_retry_and_elections_wait(
    cluster: SandboxCluster, gateway: InterpretingGateway
) -> None:
    """Without the broker of the only replica offsets are Unknown, deletions retry, elections wait."""
    name = topic_on(cluster, (3,), (2,))
    leaderless, healthy = TopicPartition(name, 0), TopicPartition(name, 1)
    with terminated(cluster, 3):
        gateway.refresh()
        client.wait_until(
            lambda: gateway.read_partitions([leaderless], offsets=False)[leaderless].leader is None,
            30,
            "the partition to be leaderless",
        )
        facts = gateway.read_partitions([leaderless, healthy], offsets=True)
        results = gateway.delete_records({leaderless: 5, healthy: 5})
        elections = [gateway.elect_leaders(kind, [leaderless])[leaderless] for kind in Election]
    assert facts[leaderless] is not None
    assert isinstance(facts[leaderless].log_start, Unknown)
    assert (results[leaderless].answer, results[leaderless].code) == (ResponseAction.RETRY, "LEADER_NOT_AVAILABLE")
    assert results[leaderless].no_effect
    assert results[healthy].answer is ResponseAction.DONE
    assert [(election.answer, election.code) for election in elections] == [
        (ResponseAction.WAITING, "PREFERRED_LEADER_NOT_AVAILABLE"),
        (ResponseAction.WAITING, "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
    ]


def test_gateway_listings_without_a_broker_prove_no_absence(
    cluster: SandboxCluster, gateway: InterpretingGateway
) -> None:
    """With a silent broker an unlisted group is not absent: that broker may be its coordinator.

    Seconds after its last heartbeat, and under load soon after the pause, the controller fences the
    broker: its groups have another coordinator then, whose answer proves the absence. So only a read
    that ended before the fencing counts.
    """
    name = unique_name()
    healthy = next(f"127.0.0.1:{broker.port}" for broker in cluster.brokers if broker.id == 1)
    for _ in range(5):
        client.wait_until(lambda: gateway.read_groups([name])[name].listed is False, 30, "the coordinators")
        with paused(cluster, 2):
            listed = gateway.read_groups([name])[name].listed
            was_member = 2 in client.visible_brokers(healthy)
        if was_member:
            break
    assert was_member, "the controller fenced the paused broker at once in every attempt"
    assert isinstance(listed, Unknown)


def test_gateway_a_crashed_worker_is_replaced(session: KafkaSession, committed: tuple[str, str]) -> None:
    """A worker process that crashes, as with a moving coordinator, is replaced by one that answers."""
    name, group = committed
    assert fetch(session, {group: [TopicPartition(name, 0)]}, timeout_s=10)[group][0] == {(name, 0): (name, 0, 4, None)}
    (worker,) = session._idle_workers
    os.kill(worker.process.pid, signal.SIGSEGV)
    worker.process.wait(10)
    assert fetch(session, {group: None}, timeout_s=10)[group][0] == {(name, 0): (name, 0, 4, None)}


def test_gateway_a_worker_that_hangs_is_abandoned(session: KafkaSession) -> None:
    """A worker process that hangs costs its deadline and no more."""
    fetch(session, {"warm": None}, timeout_s=10)
    (worker,) = session._idle_workers
    os.kill(worker.process.pid, signal.SIGSTOP)
    start = time.monotonic()
    offsets = fetch(session, {"group": None}, timeout_s=1.0)["group"][0]
    assert isinstance(offsets, Unknown)
    assert time.monotonic() - start < 30


def test_a_moved_coordinator_is_found_without_a_refresh(
    cluster: SandboxCluster, gateway: InterpretingGateway, committed: tuple[str, str]
) -> None:
    """The library remembers a coordinator, and repeats a request to it that answers NOT_COORDINATOR.

    Every read of the group through the same worker process timed out once its coordinator had moved.
    """
    _name, group = committed

    def leader() -> int:
        partitions = client.partition_states(cluster.bootstrap_servers, "__consumer_offsets")
        return partitions[log_partition(group, len(partitions))].leader

    client.wait_until(lambda: gateway.read_groups([group])[group].commits == 1, 30, "the coordinator")
    former = leader()
    with terminated(cluster, former):
        client.wait_until(lambda: leader() not in (-1, former), 30, "another coordinator")
    assert leader() != former
    # A group whose coordinator loads its commits answers that it does.
    client.wait_until(lambda: gateway.read_groups([group])[group].commits == 1, 10, "the new coordinator")


def test_commits_of_a_group_without_a_name_are_unknown(
    either_session: KafkaSession, committed: tuple[str, str]
) -> None:
    """The client library cannot read such commits; the scan reads the other groups.

    The failure once ended the scan.
    """
    name, group = committed
    (read,) = read_consumption(either_session, ["", group], with_members=["", group])
    assert read == {"": Consumption(NAMELESS, NAMELESS), group: Consumption([(name, 0, 4, None)], frozenset())}


def test_the_topics_of_members_are_read_without_a_commit(cluster: SandboxCluster, either_session: KafkaSession) -> None:
    """A group of the classic protocol, one of the consumer protocol (from Kafka 4.0 on), and one that does not exist."""
    name = topic_on(cluster, (1, 2, 3))
    groups = classic, consumer, absent = [unique_name() for _ in range(3)]
    without_commits: dict[str, str | None] = {"enable.auto.commit": "false"}
    new_protocol = without_commits | {"group.protocol": "consumer", "session.timeout.ms": None}
    if kafka_version(cluster) < (4,):
        new_protocol = without_commits
    with (
        client.member(cluster.bootstrap_servers, classic, [name], properties=without_commits),
        client.member(cluster.bootstrap_servers, consumer, [name], properties=new_protocol),
    ):
        (read,) = read_consumption(either_session, groups, with_members=groups)
    member = Consumption([], frozenset({name}))
    assert read == {classic: member, consumer: member, absent: Consumption([], frozenset())}


def test_the_topics_of_a_rebalancing_group_are_unknown(
    cluster: SandboxCluster, either_session: KafkaSession, committed: tuple[str, str]
) -> None:
    """The leader of the group never sends assignments, so that the group completes no rebalance."""
    name, group = committed
    join_group(cluster.bootstrap_servers, group, "consumer")
    (read,) = read_consumption(either_session, [group], with_members=[group])
    assert read == {group: Consumption([(name, 0, 4, None)], REBALANCING)}


def test_a_static_member_that_is_away_reads_its_topics_and_blocks_no_others(
    cluster: SandboxCluster, session: KafkaSession
) -> None:
    """With KIP-848 its group is RECONCILING until its session ends: each floor of the cluster was blocked until then.

    So was it for minutes where a member was slow to give up a partition. In the classic protocol the group is STABLE.
    """
    group = unique_name()
    name = topic_on(cluster, (1, 2, 3))
    properties: dict[str, str | None] = {"enable.auto.commit": "false", "group.instance.id": "a"}
    if kafka_version(cluster) >= (4,):
        properties |= {"group.protocol": "consumer", "session.timeout.ms": None}
    with client.member(cluster.bootstrap_servers, group, [name], properties=properties):
        pass
    state = list_groups(session, hidden=False).groups[group].state
    (read,) = read_consumption(session, [group], with_members=[group])
    assert state is (GroupState.UNKNOWN if "group.protocol" in properties else GroupState.STABLE)
    assert read == {group: Consumption([], frozenset({name}))}


def test_answers_of_a_worker_are_read_above_descriptor_1023(session: KafkaSession) -> None:
    """`select` fails above descriptor 1023. That once ended an apply after its request was sent."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, before[1]), before[1]))
    occupied = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        assert fetch(session, {"group": None}, timeout_s=10)["group"][0] == {}
        (worker,) = session._idle_workers
        assert worker.pipe.fileno() > 1_023
    finally:
        for descriptor in occupied:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_worker_with_an_outstanding_answer_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next request would receive the answer to the previous one."""

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sessions._Worker, "call", interrupt)
    session = KafkaSession(Connection(("127.0.0.1:1",), timeout_s=1))
    with pytest.raises(KeyboardInterrupt):
        fetch(session, {"group": None}, timeout_s=1)
    assert session._idle_workers == []


def test_gateway_a_crash_during_a_removal_is_read_back(
    cluster: SandboxCluster, gateway: InterpretingGateway, committed: tuple[str, str]
) -> None:
    """An assertion in the client library ends the worker, and the group is read back.

    It once ended the apply.
    """
    _name, group = committed  # a coordinator only exists once a group has committed
    client.wait_until(
        lambda: gateway.delete_groups(["missing-group"])["missing-group"].answer is ResponseAction.DONE,
        30,
        "the coordinator of the group missing-group",
    )
    (worker,) = gateway.session._idle_workers
    results: list[Response] = []
    thread = threading.Thread(target=lambda: results.append(gateway.delete_groups([group])[group]))
    with paused(cluster):
        thread.start()
        client.wait_until(lambda: not gateway.session._idle_workers, 10, "the request to be under way")
        os.kill(worker.process.pid, signal.SIGABRT)
        thread.join(30)
    (result,) = results
    assert result.answer is ResponseAction.READ_BACK
    assert not result.no_effect
    assert gateway.delete_groups([group])[group].answer is ResponseAction.DONE


def test_gateway_an_orphaned_request_ends(cluster: SandboxCluster) -> None:
    """A worker whose parent is killed during a request ends, and removes no group in the next run."""
    script = (
        "import sys, os, threading, time\n"
        "from reconciler.kafka.connect import Connection\n"
        "from reconciler.kafka.gateway import KafkaGateway\n"
        "from reconciler.kafka.session import KafkaSession\n"
        "gateway = KafkaGateway(KafkaSession(Connection(tuple(sys.argv[1].split(',')), timeout_s=60)))\n"
        "gateway.delete_groups(['missing-group'])\n"
        "print(gateway.session._idle_workers[0].process.pid, flush=True)\n"
        "sys.stdin.readline()\n"
        "gateway.delete_groups(['another-missing-group'])\n"
    )
    command = [sys.executable, "-c", script, cluster.bootstrap_servers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        worker = identify(int(parent.stdout.readline()))
        assert worker is not None
        with paused(cluster):
            parent.stdin.write("go\n")
            parent.stdin.flush()
            time.sleep(0.5)
            parent.kill()
            assert worker.wait_gone(10)


def test_a_broker_that_is_down_is_named_so_and_a_lost_quorum_too(cluster: SandboxCluster) -> None:
    """One sentence for each broker that accepts no connection; where it stays in the metadata, the controllers are named.

    One of three brokers is fenced, or soon will be. Without a second one, no majority of controllers fences it.
    Waiting for them costs next to no time of a processor.
    """
    address = {broker.id: f"127.0.0.1:{broker.port}" for broker in cluster.brokers}
    connection = Connection((address[1],), timeout_s=30.0)
    lost_quorum = {
        2: Unknown(
            f"broker 2 ({address[2]}) is down: it accepts no connection, and no controller fenced it within 10 s, "
            "so most controllers may be down",
            Cause.SILENT_BROKER,
        )
    }
    brief = replace(connection, timeout_s=6.0)
    with closing(KafkaSession(connection)) as session, closing(KafkaSession(brief)) as brief_session:
        list_topics(session)
        used_s = time.process_time()
        try:
            cluster.kill(3)
            one = silent_brokers(brief_session, {1: address[1], 3: address[3]})
            cluster.kill(2)
            # It stays so; a busy machine may not answer for the metadata at the first time.
            wait_until(lambda: silent_brokers(session, {2: address[2]}) == lost_quorum, 120, "the lost quorum")
            used_s = time.process_time() - used_s
        finally:
            for broker in (2, 3):
                if not cluster.alive(broker):
                    cluster.restart(broker, timeout_s=240)
            wait_for_brokers(cluster)
    assert list(one) == [3]
    assert one[3].reason.startswith(f"broker 3 ({address[3]}) is down: it accepts no connection")
    # Two threads of the client library may use a processor for as long as a request waits for a closed port.
    assert used_s < 2.0
