"""Creates the topics, groups, leaders and manifests of one fault trial.

`TrialChanges` records the changes that the trial itself makes, because every other change comes
from the reconciler.
"""

import json
import random
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import CLUSTER_ID, Cluster
from tests import kafka_client
from tests.toolbox import Toolbox

DAY_MS = 86_400_000
RECORDS = 60
FLOOR = 30
LAST = 20
CONSUMED = 40
DEAD_GROUPS = 8

PartitionKey = tuple[str, int]


@dataclass
class TrialChanges:
    """Changes that the trial made.

    Instants are `time.monotonic()`. `recreated` and `expired` are topics, `rotated` partitions with
    a new order of replicas, `joined` and `committed` groups. `consumer_offset` is the present
    committed offset of the consumer group.
    """

    recreated: dict[str, float] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    rotated: set[tuple[str, int]] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    committed: dict[str, float] = field(default_factory=dict)
    consumer_offset: int = CONSUMED
    consumer_moved_at: float | None = None
    brokers_disturbed: bool = False
    broker_killed: bool = False
    elected_elsewhere: bool = False


@dataclass
class TrialSetup:
    """The cluster content of one trial.

    Topics: `fixed` has floors by offset, `recent` floors by time. A producer writes `moving`, whose
    last records stay. A consumer group has read a part of `read`. `single` has one replica per
    partition. Leaders of `elected` are not the preferred ones. No policy selects `unmanaged`.
    """

    cluster: Cluster
    name: str
    folder: Path
    rng: random.Random
    toolbox: Toolbox
    changes: TrialChanges = field(default_factory=TrialChanges)
    live_members: ExitStack = field(default_factory=ExitStack)

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    def topic(self, suffix: str) -> str:
        return f"{self.name}-{suffix}"

    @property
    def topics(self) -> dict[str, int]:
        """Each topic and the number of its partitions."""
        counts = {"fixed": 4, "recent": 3, "moving": 4, "read": 3, "single": 3, "elected": 6, "unmanaged": 3}
        return {self.topic(suffix): count for suffix, count in counts.items()}

    @property
    def dead_groups(self) -> list[str]:
        return [f"{self.name}-dead-{number}" for number in range(DEAD_GROUPS)]

    @property
    def bystander_group(self) -> str:
        return f"{self.name}-bystander"

    @property
    def live_group(self) -> str:
        return f"{self.name}-live"

    @property
    def consumer_group(self) -> str:
        return f"{self.name}-consumer"

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    def create(self) -> None:
        """Create the topics, records, groups and manifests of the trial."""
        brokers = [broker.id for broker in self.cluster.brokers]
        topics = []
        for name, count in self.topics.items():
            replicas = [self.rng.sample(brokers, 1 if name == self.topic("single") else 3) for _ in range(count)]
            topics.append(Topic(name, assignment=replicas))
        client.create_topics(self.servers, topics)
        now_ms = time.time_ns() // 1_000_000
        for name, count in self.topics.items():
            has_old_records = name == self.topic("recent")
            records = [
                Record(b"%d" % n, None, now_ms - (7 * DAY_MS if has_old_records and n < FLOOR else 0))
                for n in range(RECORDS)
            ]
            client.produce(self.servers, name, dict.fromkeys(range(count), records))
        for group in (*self.dead_groups, self.bystander_group):
            client.commit(self.servers, group, {(self.topic("unmanaged"), 0): 10, (self.topic("elected"), 1): 5})
        client.commit(
            self.servers, self.consumer_group, {(self.topic("read"), number): CONSUMED for number in range(3)}
        )
        self.rotate_replicas((self.topic("elected"), number) for number in range(0, 6, 2))
        self._write_manifests()

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Run a producer and a live member during the block."""
        stop = threading.Event()
        producer = threading.Thread(target=self._produce, args=(stop,), name="producer", daemon=True)
        producer.start()
        try:
            with client.member(self.servers, self.live_group, [self.topic("unmanaged")]):
                yield
        finally:
            stop.set()
            producer.join(120)

    def rotate_replicas(self, partitions: Iterable[PartitionKey]) -> None:
        """Rotate replicas by one: the leader stays and is no longer the preferred one."""
        rotated = {}
        for topic, number in partitions:
            replicas = client.partition_states(self.servers, topic)[number].replicas
            rotated[topic, number] = (*replicas[1:], replicas[0])
        reassignment = [{"topic": key[0], "partition": key[1], "replicas": brokers} for key, brokers in rotated.items()]
        path = self.folder / "reassign.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"version": 1, "partitions": reassignment}))
        self.toolbox.run("kafka-reassign-partitions", "--reassignment-json-file", str(path), "--execute")
        for server in self.servers.split(","):
            for key, brokers in rotated.items():
                client.wait_until(
                    lambda key=key, brokers=brokers, server=server: _has_replicas(server, key, brokers),
                    60,
                    f"the new replicas of {key}",
                )

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it again with the same name and a few records."""
        self.changes.recreated[topic] = time.monotonic()
        kafka_client.delete_topics(self.servers, [topic])
        count = self.topics[topic]
        client.create_topics(self.servers, [Topic(topic, count, 1 if topic == self.topic("single") else 3)])
        client.produce(self.servers, topic, {number: [Record(b"again")] * (FLOOR + 15) for number in range(count)})

    def _produce(self, stop: threading.Event) -> None:
        while not stop.wait(0.2):
            for name in (self.topic("moving"), self.topic("unmanaged")):
                try:
                    client.produce(
                        self.servers, name, dict.fromkeys(range(self.topics[name]), [Record(b"more")] * 2), deadline_s=5
                    )
                except (KafkaException, TimeoutError):
                    # The trial stops and starts brokers.
                    continue

    def _write_manifests(self) -> None:
        self.manifests.mkdir(parents=True)
        head = "apiVersion: reconciler/v1\n"
        floors = dict.fromkeys(range(4), FLOOR)
        single_floors = dict.fromkeys(range(3), FLOOR)
        documents = [
            self._cluster(),
            self._floor("fixed", f"fromOffset: {_render_flow_mapping(floors)}"),
            self._floor("single", f"fromOffset: {_render_flow_mapping(single_floors)}"),
            self._floor("recent", "newerThan: 1d"),
            self._floor("moving", f"last: {LAST}"),
            self._floor("read", f"unreadBy: [{self.consumer_group}]", "  every: 1s\n"),
            f"kind: GroupRemoval\nmetadata: {{name: dead}}\nspec:\n  groups: {json.dumps(self.dead_groups)}\n  idleFor: 0s\n",
            f"kind: LeaderPolicy\nmetadata: {{name: home}}\nspec:\n  topics: [{self.topic('elected')}]\n",
        ]
        (self.manifests / "all.yaml").write_text("---\n".join(head + document for document in documents))

    def _cluster(self) -> str:
        return (
            f"kind: Cluster\nmetadata: {{name: faulty}}\nspec:\n  clusterId: {CLUSTER_ID}\n"
            f"  bootstrapServers: {json.dumps(self.servers.split(','))}\n"
            "  limits: {recordsPercentPerTopic: 100, recordsPercent: 100, groupsPercent: 100}\n"
        )

    def _floor(self, suffix: str, keep: str, more_fields: str = "") -> str:
        topic = self.topic(suffix)
        return f"kind: RetentionFloor\nmetadata: {{name: {suffix}}}\nspec:\n  topics: [{topic}]\n  keep: {{{keep}}}\n{more_fields}"


def _has_replicas(server: str, key: PartitionKey, replicas: tuple[int, ...]) -> bool:
    states = client.partition_states(server, key[0])
    return key[1] in states and states[key[1]].replicas == replicas and set(states[key[1]].in_sync) == set(replicas)


def _render_flow_mapping(floors: dict[int, int]) -> str:
    return "{" + ", ".join(f"{number}: {floor}" for number, floor in floors.items()) + "}"
