"""The faults that a trial injects into real brokers. Each function records its changes.

The trial decides when to inject a fault: before the apply, during its recheck, or after its first
intent.
"""

import time
from collections.abc import Callable, Mapping
from enum import StrEnum

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from reconciler.companions.sandbox import client
from reconciler.errors import SandboxError
from tests.faults.trial_setup import CONSUMED, TrialSetup
from tests.toolbox import run_kafka_tool


class FaultType(StrEnum):
    """All faults.

    `INJECTIONS` has those of the cluster; the trial itself makes the last three, which affect
    the client.
    """

    BROKER_PAUSED = "broker paused and resumed"
    BROKER_TERMINATED = "broker terminated and restarted"
    BROKER_KILLED = "broker killed and restarted"
    CONTROLLER_MOVED = "controller moved"
    FOLLOWER_PAUSED = "follower paused"
    LEADERS_MOVED = "leaders moved"
    REPLICAS_REASSIGNED = "replicas reassigned"
    TOPIC_RECREATED = "topic recreated"
    GROUPS_JOINED = "groups joined"
    COMMITS_MOVED = "commits moved"
    RECORDS_EXPIRED = "records expired"
    DISK_FULL = "journal's disk full"
    CLIENT_KILLED = "client killed"
    CLIENT_INTERRUPTED = "client interrupted"


CLIENT_FAULTS = frozenset({FaultType.DISK_FULL, FaultType.CLIENT_KILLED, FaultType.CLIENT_INTERRUPTED})


def _pause(setup: TrialSetup, broker: int, *seconds: float) -> None:
    """Pause a broker for a time between these seconds."""
    setup.changes.brokers_disturbed = True
    setup.cluster.pause(broker)
    time.sleep(setup.rng.uniform(*seconds))
    setup.cluster.resume(broker)


def _restart(setup: TrialSetup, broker: int, *, kill: bool) -> None:
    setup.changes.brokers_disturbed = True
    if kill:
        setup.changes.broker_killed = True
        setup.cluster.kill(broker)
    else:
        setup.cluster.terminate(broker)
    time.sleep(setup.rng.uniform(0.0, 2.0))
    setup.cluster.restart(broker, timeout_s=240)


def _broker(setup: TrialSetup) -> int:
    return setup.rng.choice(setup.cluster.brokers).id


def _follower(setup: TrialSetup) -> int:
    state = client.partition_states(setup.servers, setup.topic("fixed"))[0]
    return setup.rng.choice([replica for replica in state.replicas if replica != state.leader])


def _elect_leaders(setup: TrialSetup) -> None:
    """Elect leaders from another client, so that the plan's elections are not needed."""
    setup.changes.elected_elsewhere = True
    partitions = [TopicPartition(setup.topic("elected"), number) for number in setup.rng.sample(range(6), 3)]
    admin = client.admin_client(setup.servers)  # a reference: the futures of a collected client fail
    try:
        admin.elect_leaders(ElectionType.PREFERRED, partitions).result(20)
    except (KafkaException, TimeoutError):
        return  # the controller may be paused; then any replica may lead


def _rotate_replicas(setup: TrialSetup) -> None:
    """Change the preferred leader of a partition, or the replicas of a partition with a floor."""
    key = (setup.topic(setup.rng.choice(["elected", "fixed"])), setup.rng.randrange(4))
    setup.changes.rotated.add(key)
    setup.rotate_replicas([key])


def _recreate_topic(setup: TrialSetup) -> None:
    setup.recreate(setup.topic(setup.rng.choice(["fixed", "recent", "moving", "read", "single", "elected"])))


def _join_groups(setup: TrialSetup) -> None:
    """Add a member to two dead groups until the end of the apply."""
    for group in setup.rng.sample(setup.dead_groups, 2):
        setup.live_members.enter_context(client.member(setup.servers, group, [setup.topic("unmanaged")]))
        setup.changes.joined.add(group)


def _commit_again(setup: TrialSetup) -> None:
    """Commit again with two dead groups, and move the consumer group back."""
    for group in setup.rng.sample(sorted(set(setup.dead_groups) - setup.changes.joined), 2):
        client.commit(setup.servers, group, {(setup.topic("unmanaged"), 1): 11}, deadline_s=60)
        setup.changes.committed[group] = time.monotonic()
    offset = setup.rng.choice([0, 10, CONSUMED - 1, CONSUMED])
    if setup.topic("read") not in setup.changes.recreated:
        positions = {(setup.topic("read"), number): offset for number in range(3)}
        client.commit(setup.servers, setup.consumer_group, positions, deadline_s=60)
        setup.changes.consumer_offset = offset
        setup.changes.consumer_moved_at = time.monotonic()


def _expire_records(setup: TrialSetup) -> None:
    """Let retention delete all records of a topic."""
    name = setup.topic(setup.rng.choice(["recent", "fixed"]))
    setup.changes.expired.add(name)
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin = client.admin_client(setup.servers)
    for future in admin.incremental_alter_configs([resource]).values():
        try:
            future.result(30)
        except (KafkaException, TimeoutError):
            return  # a paused broker; the records may or may not be deleted
    time.sleep(setup.rng.uniform(0.0, 2.0))


INJECTIONS: Mapping[FaultType, Callable[[TrialSetup], None]] = {
    FaultType.BROKER_PAUSED: lambda setup: _pause(setup, _broker(setup), 0.5, 5.0),
    FaultType.BROKER_TERMINATED: lambda setup: _restart(setup, _broker(setup), kill=False),
    FaultType.BROKER_KILLED: lambda setup: _restart(setup, _broker(setup), kill=True),
    FaultType.CONTROLLER_MOVED: lambda setup: _restart(setup, controller(setup), kill=setup.rng.random() < 0.5),
    FaultType.FOLLOWER_PAUSED: lambda setup: _pause(setup, _follower(setup), 2.0, 6.0),
    FaultType.LEADERS_MOVED: _elect_leaders,
    FaultType.REPLICAS_REASSIGNED: _rotate_replicas,
    FaultType.TOPIC_RECREATED: _recreate_topic,
    FaultType.GROUPS_JOINED: _join_groups,
    FaultType.COMMITS_MOVED: _commit_again,
    FaultType.RECORDS_EXPIRED: _expire_records,
}


def controller(setup: TrialSetup) -> int:
    """Return the id of the active controller, from Kafka's own tool."""
    status = run_kafka_tool(setup.cluster, "org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status")
    for line in status.splitlines():
        if line.startswith("LeaderId:"):
            return int(line.split()[-1])
    raise SandboxError(f"no controller in {status!r}")
