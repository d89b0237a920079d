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
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.kafka import session
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.groups import fetch, read_commits
from reconciler.kafka.session import KafkaSession, WorkerPool
from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import Unknown
from reconciler.operations.response import Response, ResponseAction
from reconciler.sandbox import client
from reconciler.sandbox.cluster import Cluster
from tests.fakes.error_table import InterpretingGateway

pytestmark = pytest.mark.brokers


@pytest.fixture
def gateway(cluster: Cluster) -> Iterator[InterpretingGateway]:
    connection = Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=6.0)
    gateway = InterpretingGateway(KafkaGateway(KafkaSession(connection)))
    yield gateway
    gateway.session.close()


def topic_on(cluster: Cluster, *assignment: tuple[int, ...]) -> str:
    """A topic with ten records in each partition and these replicas."""
    name = f"faulty-{uuid.uuid4().hex[:12]}"
    client.create_topics(cluster.bootstrap_servers, [client.Topic(name, assignment=assignment)])
    records = {number: [client.Record(b"x")] * 10 for number in range(len(assignment))}
    client.produce(cluster.bootstrap_servers, name, records)
    return name


def settled(cluster: Cluster) -> None:
    """Wait until all brokers see each other."""
    everyone = {broker.id for broker in cluster.brokers}
    client.wait_until(
        lambda: all(client.visible_brokers(f"127.0.0.1:{b.port}") == everyone for b in cluster.brokers),
        60,
        "all brokers",
    )


def test_gateway_a_silent_leader_affects_only_its_partitions(cluster: Cluster, gateway: InterpretingGateway) -> None:
    """DeleteRecords to a paused broker is read back; its offsets are Unknown, never -1001; other leaders answer."""
    name = topic_on(cluster, (1,), (2,))
    quiet, well = TopicPartition(name, 0), TopicPartition(name, 1)
    gateway.read_partitions([quiet, well], offsets=True)
    cluster.pause(1)
    try:
        answers = gateway.delete_records({quiet: 5, well: 5})
        now = gateway.read_partitions([quiet, well], offsets=True)
    finally:
        cluster.resume(1)
        settled(cluster)
    assert answers[quiet].answer is ResponseAction.READ_BACK
    assert answers[quiet].code == "_TIMED_OUT"
    assert not answers[quiet].no_effect
    assert answers[well].answer is ResponseAction.DONE
    assert isinstance(now[quiet].log_start, Unknown)
    assert isinstance(now[quiet].high_watermark, Unknown)
    if not isinstance(now[well].leader, Unknown):
        assert now[well].log_start == 5


def test_gateway_a_slow_follower_is_a_timeout_with_an_effect(cluster: Cluster, gateway: InterpretingGateway) -> None:
    """REQUEST_TIMED_OUT is read back: the answer waits for the slowest live replica, and the leader has advanced."""
    name = topic_on(cluster, (2, 3, 1))
    at = TopicPartition(name, 0)
    leader = gateway.read_partitions([at], offsets=True)[at].leader
    follower = 1 if leader != 1 else 3
    cluster.pause(follower)
    try:
        answer = gateway.delete_records({at: 5})[at]
    finally:
        cluster.resume(follower)
        settled(cluster)
    assert (answer.answer, answer.code) == (ResponseAction.READ_BACK, "REQUEST_TIMED_OUT")
    gateway.refresh()
    assert gateway.read_partitions([at], offsets=True)[at].log_start == 5


def test_gateway_reads_do_not_wait_behind_a_delete(cluster: Cluster, gateway: InterpretingGateway) -> None:
    """While a DeleteRecords waits for a slow replica, the leader's offsets are read at once, over another connection.

    The read uses another client and connection. The test repeats the read until it succeeds: a
    description goes to "the controller", as which a KRaft broker names any broker, in two of five
    attempts the paused one; that says nothing about the leader's connection. On a shared connection
    no attempt could succeed.
    """
    tries = 16
    name = topic_on(cluster, *[(2, 3, 1)] * tries)
    assert any(_read_beside_a_delete(cluster, gateway, TopicPartition(name, number)) for number in range(tries))


def _read_beside_a_delete(cluster: Cluster, gateway: InterpretingGateway, at: TopicPartition) -> bool:
    """Whether the log start was read while the deletion had no answer yet."""
    gateway.refresh()
    gateway.read_partitions([at], offsets=True)
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(gateway.delete_records({at: 5})))
    cluster.pause(1)
    try:
        thread.start()
        while not answers:
            if gateway.read_partitions([at], offsets=True)[at].log_start == 5:
                return not answers
        return False
    finally:
        cluster.resume(1)
        thread.join()
        settled(cluster)


def test_gateway_no_leader_means_retry_and_elections_wait(cluster: Cluster, gateway: InterpretingGateway) -> None:
    """Without the broker of the only replica there are no offsets, DeleteRecords means retry, and elections wait."""
    name = topic_on(cluster, (3,), (2,))
    leaderless, healthy = TopicPartition(name, 0), TopicPartition(name, 1)
    cluster.terminate(3)
    try:
        gateway.refresh()
        client.wait_until(
            lambda: gateway.read_partitions([leaderless], offsets=False)[leaderless].leader is None,
            30,
            "the partition to be leaderless",
        )
        now = gateway.read_partitions([leaderless, healthy], offsets=True)
        answers = gateway.delete_records({leaderless: 5, healthy: 5})
        election = gateway.elect_leaders(Election.PREFERRED, [leaderless])[leaderless]
        unclean = gateway.elect_leaders(Election.UNCLEAN, [leaderless])[leaderless]
    finally:
        cluster.restart(3)
        settled(cluster)
    assert now[leaderless] is not None
    assert isinstance(now[leaderless].log_start, Unknown)
    assert (answers[leaderless].answer, answers[leaderless].code) == (ResponseAction.RETRY, "LEADER_NOT_AVAILABLE")
    assert answers[leaderless].no_effect
    assert answers[healthy].answer is ResponseAction.DONE
    assert (election.answer, election.code) == (ResponseAction.WAITING, "PREFERRED_LEADER_NOT_AVAILABLE")
    assert (unclean.answer, unclean.code) == (ResponseAction.WAITING, "ELIGIBLE_LEADERS_NOT_AVAILABLE")


def test_gateway_listings_without_a_broker_prove_no_absence(cluster: Cluster, gateway: InterpretingGateway) -> None:
    """With a silent broker an unlisted group is not absent: its coordinator may be the silent broker."""
    name = f"nobody-{uuid.uuid4().hex[:12]}"
    client.wait_until(lambda: gateway.read_groups([name])[name].listed is False, 30, "coordinators to have settled")
    cluster.pause(2)
    try:
        listed = gateway.read_groups([name])[name].listed
    finally:
        cluster.resume(2)
        settled(cluster)
    assert isinstance(listed, Unknown)


def test_gateway_a_crashed_worker_is_replaced(cluster: Cluster) -> None:
    """A worker process that crashes, as with a moving coordinator, is replaced by one that answers."""
    name = topic_on(cluster, (1, 2, 3))
    group = f"reader-{uuid.uuid4().hex[:12]}"
    at = TopicPartition(name, 0)
    client.commit(cluster.bootstrap_servers, group, {(name, 0): 4})
    workers = WorkerPool(Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=10))
    try:
        assert fetch(workers, {group: [at]}, timeout_s=10)[group] == {(name, 0): 4}
        (worker,) = workers._idle
        os.kill(worker.process.pid, signal.SIGSEGV)
        worker.process.wait(10)
        assert fetch(workers, {group: None}, timeout_s=10)[group] == {(name, 0): 4}
    finally:
        workers.close()


def test_gateway_a_worker_that_hangs_is_given_up(cluster: Cluster) -> None:
    """A worker process that hangs costs its deadline and no more."""
    workers = WorkerPool(Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=10))
    try:
        fetch(workers, {"warm": None}, timeout_s=10)
        (worker,) = workers._idle
        os.kill(worker.process.pid, signal.SIGSTOP)
        start = time.monotonic()
        answer = fetch(workers, {"group": None}, timeout_s=1.0)["group"]
        assert isinstance(answer, Unknown)
        assert time.monotonic() - start < 30
    finally:
        workers.close()


@pytest.mark.parametrize("isolated", [False, True])
def test_commits_of_a_group_without_a_name_are_unknown(cluster: Cluster, *, isolated: bool) -> None:
    """The client library cannot read them, which once ended the scan: the other groups are read."""
    name = topic_on(cluster, (1, 2, 3))
    group = f"reader-{uuid.uuid4().hex[:12]}"
    client.commit(cluster.bootstrap_servers, group, {(name, 0): 4})
    connection = Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=10)
    with closing(KafkaSession(connection)) as session:
        (commits,) = read_commits(session, ["", group], isolated=isolated)
    assert commits == {
        "": Unknown("the client library cannot read the commits of a group without a name"),
        group: [(name, 0, 4)],
    }


def test_answers_of_a_worker_are_read_above_descriptor_1023(cluster: Cluster) -> None:
    """`select` fails above descriptor 1023. That once ended an apply after its request was sent."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, before[1]), before[1]))
    workers = WorkerPool(Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=10))
    occupied = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        assert fetch(workers, {"group": None}, timeout_s=10)["group"] == {}
        (worker,) = workers._idle
        assert worker._pipe.fileno() > 1_023
    finally:
        for descriptor in occupied:
            os.close(descriptor)
        workers.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_worker_with_an_outstanding_answer_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer would be taken for the answer to the next request."""

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session._Worker, "call", interrupt)
    workers = WorkerPool(Connection(("127.0.0.1:1",), timeout_s=1))
    with pytest.raises(KeyboardInterrupt):
        fetch(workers, {"group": None}, timeout_s=1)
    assert workers._idle == []


def test_gateway_a_crash_during_a_removal_is_read_back(cluster: Cluster, gateway: InterpretingGateway) -> None:
    """An assertion of the library once ended the apply. Now the group is read back."""
    group = f"removed-{uuid.uuid4().hex[:12]}"
    assert gateway.delete_groups(["nobody-knows-it"])["nobody-knows-it"].answer is ResponseAction.DONE
    client.commit(cluster.bootstrap_servers, group, {(topic_on(cluster, (1, 2, 3)), 0): 1})
    (worker,) = gateway.session.removers._idle
    results: list[Response] = []
    thread = threading.Thread(target=lambda: results.append(gateway.delete_groups([group])[group]))
    for broker in cluster.brokers:
        cluster.pause(broker.id)
    try:
        thread.start()
        client.wait_until(lambda: not gateway.session.removers._idle, 10, "the request to be under way")
        os.kill(worker.process.pid, signal.SIGABRT)
        thread.join(30)
    finally:
        for broker in cluster.brokers:
            cluster.resume(broker.id)
        settled(cluster)
    (answer,) = results
    assert answer.answer is ResponseAction.READ_BACK
    assert not answer.no_effect
    assert gateway.delete_groups([group])[group].answer is ResponseAction.DONE


def test_gateway_an_orphaned_request_ends(cluster: Cluster) -> None:
    """A worker whose parent is killed during a request ends, so that it removes no group during the next run."""
    script = (
        "import sys, os, threading, time\n"
        "from reconciler.kafka.connect import Connection\n"
        "from reconciler.kafka.gateway import KafkaGateway\n"
        "from reconciler.kafka.session import KafkaSession\n"
        "gateway = KafkaGateway(KafkaSession(Connection(tuple(sys.argv[1].split(',')), timeout_s=60)))\n"
        "gateway.delete_groups(['nobody-knows-it'])\n"
        "print(gateway.session.removers._idle[0].process.pid, flush=True)\n"
        "sys.stdin.readline()\n"
        "gateway.delete_groups(['nobody-knows-it-either'])\n"
    )
    words = [sys.executable, "-c", script, cluster.bootstrap_servers]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        orphan = int(parent.stdout.readline())
        for broker in cluster.brokers:
            cluster.pause(broker.id)
        try:
            parent.stdin.write("go\n")
            parent.stdin.flush()
            time.sleep(0.5)
            parent.kill()
            client.wait_until(lambda: not _alive(orphan), 10, "the orphan to end")
        finally:
            for broker in cluster.brokers:
                cluster.resume(broker.id)
            settled(cluster)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
