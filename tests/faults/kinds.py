"""The faults, each a few lines against real brokers, real clients and a real disk. Each keeps the trial's ledger true.

When a fault strikes is the trial's: before apply, while it rechecks, or after its first intent.
"""

import time
from collections.abc import Callable, Mapping
from enum import StrEnum

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from reconciler.errors import SandboxError
from reconciler.sandbox import client as workload
from reconciler.sandbox.client import admin_client
from tests.faults.world import READ_TO, World


class Kind(StrEnum):
    """Faults of the world strike through `STRIKES`; the last three are of the applier's own side and made by the trial."""

    BROKER_STOPPED = "broker stopped and continued"
    BROKER_TERMINATED = "broker terminated and restarted"
    BROKER_KILLED = "broker killed and restarted"
    CONTROLLER_MOVED = "controller moved"
    FOLLOWER_SLOW = "follower slow"
    LEADER_MOVED = "leaders moved"
    REPLICAS_TURNED = "replicas reassigned"
    TOPIC_RECREATED = "topic recreated"
    GROUPS_JOINED = "groups joined"
    COMMITS_MOVED = "commits moved"
    RECORDS_EXPIRED = "records expired"
    DISK_FULL = "journal's disk full"
    CLIENT_KILLED = "client killed"
    CLIENT_STOPPED = "client interrupted"


OWN = frozenset({Kind.DISK_FULL, Kind.CLIENT_KILLED, Kind.CLIENT_STOPPED})


def _broker_stopped(world: World) -> None:
    world.ledger.brokers_disturbed = True
    broker = world.rng.choice(world.cluster.brokers).id
    world.cluster.pause(broker)
    time.sleep(world.rng.uniform(0.5, 5.0))
    world.cluster.resume(broker)


def _broker_terminated(world: World) -> None:
    _restart(world, world.rng.choice(world.cluster.brokers).id, kill=False)


def _broker_killed(world: World) -> None:
    _restart(world, world.rng.choice(world.cluster.brokers).id, kill=True)


def _controller_moved(world: World) -> None:
    _restart(world, controller(world), kill=world.rng.random() < 0.5)


def _follower_slow(world: World) -> None:
    world.ledger.brokers_disturbed = True
    state = workload.partition_states(world.servers, world.topic("fixed"))[0]
    follower = world.rng.choice([replica for replica in state.replicas if replica != state.leader])
    world.cluster.pause(follower)
    time.sleep(world.rng.uniform(2.0, 6.0))
    world.cluster.resume(follower)


def _leader_moved(world: World) -> None:
    """Someone else elects, so that what the plan wants is there already, or a moment later."""
    world.ledger.elected_by_others = True
    some = [TopicPartition(world.topic("led"), number) for number in world.rng.sample(range(6), 3)]
    client = admin_client(world.servers)  # held: one that is collected answers nothing
    try:
        client.elect_leaders(ElectionType.PREFERRED, some).result(20)
    except (KafkaException, TimeoutError):
        return  # the controller may be the one that stands still; who leads then is anybody's


def _replicas_turned(world: World) -> None:
    """What was preferred when the plan was made no longer is, or the replicas of a purged partition are."""
    at = (world.topic(world.rng.choice(["led", "fixed"])), world.rng.randrange(4))
    world.ledger.turned.add(at)
    world.turn([at])


def _topic_recreated(world: World) -> None:
    world.recreate(world.topic(world.rng.choice(["fixed", "recent", "moving", "read", "single", "led"])))


def _groups_joined(world: World) -> None:
    """Two dead groups come to life and stay so until the trial has applied."""
    for group in world.rng.sample(world.dead, 2):
        world.alive.enter_context(workload.member(world.servers, group, [world.topic("aside")]))
        world.ledger.joined.add(group)


def _commits_moved(world: World) -> None:
    """Two dead groups commit again, and the reader goes back."""
    for group in world.rng.sample(sorted(set(world.dead) - world.ledger.joined), 2):
        workload.commit(world.servers, group, {(world.topic("aside"), 1): 11}, deadline_s=60)
        world.ledger.committed[group] = time.monotonic()
    back_to = world.rng.choice([0, 10, READ_TO - 1, READ_TO])
    if world.topic("read") not in world.ledger.recreated:
        positions = {(world.topic("read"), number): back_to for number in range(3)}
        workload.commit(world.servers, world.reader, positions, deadline_s=60)
        world.ledger.read_back_to = back_to
        world.ledger.reader_moved = time.monotonic()


def _records_expired(world: World) -> None:
    """Retention takes everything of a topic by itself."""
    name = world.topic(world.rng.choice(["recent", "fixed"]))
    world.ledger.expired.add(name)
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    client = admin_client(world.servers)
    for future in client.incremental_alter_configs([resource]).values():
        try:
            future.result(30)
        except (KafkaException, TimeoutError):
            return  # another broker that stands still; whether the records go is anybody's
    time.sleep(world.rng.uniform(0.0, 2.0))


STRIKES: Mapping[Kind, Callable[[World], None]] = {
    Kind.BROKER_STOPPED: _broker_stopped,
    Kind.BROKER_TERMINATED: _broker_terminated,
    Kind.BROKER_KILLED: _broker_killed,
    Kind.CONTROLLER_MOVED: _controller_moved,
    Kind.FOLLOWER_SLOW: _follower_slow,
    Kind.LEADER_MOVED: _leader_moved,
    Kind.REPLICAS_TURNED: _replicas_turned,
    Kind.TOPIC_RECREATED: _topic_recreated,
    Kind.GROUPS_JOINED: _groups_joined,
    Kind.COMMITS_MOVED: _commits_moved,
    Kind.RECORDS_EXPIRED: _records_expired,
}


def controller(world: World) -> int:
    """The broker that is the active controller, by Kafka's own tool."""
    status = world.toolbox.run("org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status")
    for line in status.splitlines():
        if line.startswith("LeaderId:"):
            return int(line.split()[-1])
    raise SandboxError(f"no controller in {status!r}")


def _restart(world: World, broker: int, *, kill: bool) -> None:
    world.ledger.brokers_disturbed = True
    if kill:
        world.ledger.broker_killed = True
        world.cluster.kill(broker)
    else:
        world.cluster.terminate(broker)
    time.sleep(world.rng.uniform(0.0, 2.0))
    world.cluster.restart(broker, timeout_s=240)
