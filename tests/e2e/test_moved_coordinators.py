"""Groups whose coordinator moves to another broker: what it then says of pending commits and of old topics."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from uuid import uuid4

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import PartitionState, Record, admin_client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import change_preferred_leaders
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC
from tests.e2e.test_pending_and_shared import BLOCK, target
from tests.e2e.workspace import Workspace, blocks, floor, removal
from tests.kafka_client import committed_offsets, pending_commit, remove_group
from tests.toolbox import run_kafka_tool


def test_the_first_commit_of_a_group_is_pending(space: Workspace) -> None:
    """The group counts from the log start, and the reason names the partition of the transaction.

    Once the transaction is aborted, its record counts for nothing, although it stays in the log. A
    coordinator up to Kafka 3.8 that loads the log then has no such group, and after a removal none has it:
    it looked like a group that no listing names, and blocked every floor.
    """
    topic = space.create_topic()
    group = f"eos-{topic}"
    with pending_commit(space.servers, group, topic, 20):
        plan = space.plan(floor(topic, BLOCK))
        number = log_partition(group, len(client.partition_states(space.servers, CONSUMER_OFFSETS_TOPIC)))
        reason = blocks(plan)[f"RetentionFloor/floor/{topic}[0]"]["reason"]
        assert plan["actions"] == []
        assert group in reason
        assert f"open transaction of {CONSUMER_OFFSETS_TOPIC}[{number}]" in reason
    assert committed_offsets(space.servers, group, [(topic, 0)]) == {(topic, 0): None}
    assert target(space, topic, BLOCK) == 90
    move_coordinator(space.cluster, group)
    assert target(space, topic, BLOCK) == 90
    remove_group(space.servers, group)
    assert target(space, topic, BLOCK) == 90


def move_coordinator(cluster: SandboxCluster, group: str) -> None:
    """Let another broker lead the partition of the group, and load it."""
    servers = cluster.bootstrap_servers
    log = elect_preferred(cluster)
    number = log_partition(group, len(log))
    former = log[number].leader
    change_preferred_leaders(cluster, [(CONSUMER_OFFSETS_TOPIC, number)])
    at = ClientPartition(CONSUMER_OFFSETS_TOPIC, number)
    admin = admin_client(servers)
    admin.elect_leaders(ElectionType.PREFERRED, [at]).result(30)
    client.wait_until(
        lambda: client.partition_states(servers, CONSUMER_OFFSETS_TOPIC)[number].leader not in (-1, former),
        30,
        "another coordinator",
    )


def elect_preferred(cluster: SandboxCluster) -> dict[int, PartitionState]:
    """Return the partitions of `__consumer_offsets` under their preferred leaders: earlier tests may have moved some."""
    servers = cluster.bootstrap_servers
    log = client.partition_states(servers, CONSUMER_OFFSETS_TOPIC)
    admin = admin_client(servers)  # a client that nothing holds ends its calls
    admin.elect_leaders(ElectionType.PREFERRED, [ClientPartition(CONSUMER_OFFSETS_TOPIC, n) for n in log]).result(30)

    def is_led() -> bool:
        log.update(client.partition_states(servers, CONSUMER_OFFSETS_TOPIC))
        return all(state.leader == state.replicas[0] for state in log.values())

    client.wait_until(is_led, 60, "the preferred leaders of __consumer_offsets")
    return log


def test_a_commit_of_a_deleted_topic_is_not_written_onto_its_namesake(space: Workspace) -> None:
    """The coordinator was frozen while the topic was deleted and created again, so the commit stayed.

    The removal recorded the id that the topic had by then, and the offset came back on the new topic.
    """
    cluster, mark = space.cluster, uuid4().hex[:8]
    log = elect_preferred(cluster)
    # A frozen controller would delete no topic.
    status = run_kafka_tool(cluster, "org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status")
    controller = int(next(line.split()[-1] for line in status.splitlines() if line.startswith("LeaderId:")))
    names = (f"old-{mark}-{n}" for n in range(10_000))
    group = next(name for name in names if log[log_partition(name, len(log))].leader != controller)
    number = log_partition(group, len(log))
    coordinator = log[number].leader
    running = [broker for broker in cluster.brokers if broker.id != coordinator]
    servers = ",".join(f"127.0.0.1:{broker.port}" for broker in running)
    topic = space.create_topic(assignment=[(running[0].id,)])
    space.commit(group, topic, 4)
    cluster.pause(coordinator)
    try:
        new_topic = NewTopic(topic, 1, replica_assignment=[[running[0].id]])
        change_topics(servers, coordinator, lambda admin: admin.delete_topics([topic]))
        change_topics(servers, coordinator, lambda admin: admin.create_topics([new_topic]))
        client.produce(servers, topic, {0: [Record(b"new")] * 100})
        client.wait_until(
            lambda: client.partition_states(servers, CONSUMER_OFFSETS_TOPIC)[number].leader in {b.id for b in running},
            60,
            "another coordinator",
        )
    finally:
        cluster.resume(coordinator)
    client.wait_until(lambda: is_in_sync(cluster), 120, "all replicas of __consumer_offsets in sync", every_s=0.5)

    def keeps_the_commit() -> bool:
        with suppress(KafkaException):  # the broker that was frozen may still call itself the coordinator
            return committed_offsets(space.servers, group, [(topic, 0)]) == {(topic, 0): 4} and group in space.groups()
        return False  # nor does a broker list groups of which it does not know yet that it is the coordinator

    client.wait_until(keeps_the_commit, 60, "the commit on the deleted topic")
    space.plan(removal(group, "idleFor: 1s"))
    space.apply("--results", "results.json")
    refused = space.restore(group, code=4)
    assert "the topic was deleted and created again" in refused
    assert group not in space.groups()


def change_topics(servers: str, frozen: int, change: Callable[[AdminClient], dict[str, Future[None]]]) -> None:
    """Change a topic while a broker is frozen.

    Such requests go to the broker that the client's last metadata called controller, which may be any.
    """
    for _attempt in range(50):
        admin = admin_client(servers)
        if admin.list_topics(timeout=10).controller_id != frozen:  # asked anew, while the broker is frozen
            (future,) = change(admin).values()
            return future.result(30)
    raise AssertionError(f"each metadata calls {frozen} the controller")


def is_in_sync(cluster: SandboxCluster) -> bool:
    states = client.partition_states(cluster.bootstrap_servers, CONSUMER_OFFSETS_TOPIC).values()
    return all(set(state.in_sync) == set(state.replicas) for state in states)
