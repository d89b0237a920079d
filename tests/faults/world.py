"""What one trial is about: topics, groups and leaders with names of their own, the manifests that speak of them, and what must stay.

The ledger keeps what the trial itself did to the world, since everything else that changed was the reconciler's.
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
READ_TO = 40
DEAD_GROUPS = 8

At = tuple[str, int]


@dataclass
class Ledger:
    """What the trial did. Instants are `time.monotonic()`; `recreated` and `expired` name topics, the rest groups or partitions."""

    recreated: dict[str, float] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    turned: set[tuple[str, int]] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    committed: dict[str, float] = field(default_factory=dict)
    read_back_to: int = READ_TO
    reader_moved: float | None = None
    brokers_disturbed: bool = False
    broker_killed: bool = False
    elected_by_others: bool = False


@dataclass
class World:
    """Names of one trial. `fixed`: floors by offset. `recent`: floors by time. `moving`: the last records of a topic that is written.
    `read`: what a reader has read. `single`: one replica each. `led`: leaders to move home. `aside`: of no policy.
    """

    cluster: Cluster
    name: str
    folder: Path
    rng: random.Random
    toolbox: Toolbox
    ledger: Ledger = field(default_factory=Ledger)
    alive: ExitStack = field(default_factory=ExitStack)

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    def topic(self, which: str) -> str:
        return f"{self.name}-{which}"

    @property
    def topics(self) -> dict[str, int]:
        """Each topic and the number of its partitions."""
        counts = {"fixed": 4, "recent": 3, "moving": 4, "read": 3, "single": 3, "led": 6, "aside": 3}
        return {self.topic(which): count for which, count in counts.items()}

    @property
    def dead(self) -> list[str]:
        return [f"{self.name}-dead-{number}" for number in range(DEAD_GROUPS)]

    @property
    def bystander(self) -> str:
        return f"{self.name}-bystander"

    @property
    def live(self) -> str:
        return f"{self.name}-live"

    @property
    def reader(self) -> str:
        return f"{self.name}-reader"

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    def make(self) -> None:
        """Everything as the plan is to find it."""
        brokers = [broker.id for broker in self.cluster.brokers]
        made = []
        for name, count in self.topics.items():
            replicas = [self.rng.sample(brokers, 1 if name == self.topic("single") else 3) for _ in range(count)]
            made.append(Topic(name, assignment=replicas))
        client.create_topics(self.servers, made)
        now_ms = time.time_ns() // 1_000_000
        for name, count in self.topics.items():
            old = name == self.topic("recent")
            records = [
                Record(b"%d" % n, None, now_ms - (7 * DAY_MS if old and n < FLOOR else 0)) for n in range(RECORDS)
            ]
            client.produce(self.servers, name, dict.fromkeys(range(count), records))
        for group in (*self.dead, self.bystander):
            client.commit(self.servers, group, {(self.topic("aside"), 0): 10, (self.topic("led"), 1): 5})
        client.commit(self.servers, self.reader, {(self.topic("read"), number): READ_TO for number in range(3)})
        self.turn((self.topic("led"), number) for number in range(0, 6, 2))
        self._write()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """A producer that never stops, and a live group."""
        leave = threading.Event()
        producer = threading.Thread(target=self._produce, args=(leave,), name="producer", daemon=True)
        producer.start()
        try:
            with client.member(self.servers, self.live, [self.topic("aside")]):
                yield
        finally:
            leave.set()
            producer.join(120)

    def turn(self, partitions: Iterable[At]) -> None:
        """Another order of the same replicas: what was preferred no longer is, and the leader stays."""
        wanted = {}
        for topic, number in partitions:
            replicas = client.partition_states(self.servers, topic)[number].replicas
            wanted[topic, number] = (*replicas[1:], replicas[0])
        plan = [{"topic": at[0], "partition": at[1], "replicas": brokers} for at, brokers in wanted.items()]
        path = self.folder / "reassign.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"version": 1, "partitions": plan}))
        self.toolbox.run("kafka-reassign-partitions", "--reassignment-json-file", str(path), "--execute")
        for server in self.servers.split(","):
            for at, brokers in wanted.items():
                client.wait_until(
                    lambda at=at, brokers=brokers, server=server: _shows(server, at, brokers), 60, f"{at} turned"
                )

    def recreate(self, topic: str) -> None:
        """Delete it and make it again under the same name, with a few records."""
        self.ledger.recreated[topic] = time.monotonic()
        kafka_client.delete_topics(self.servers, [topic])
        count = self.topics[topic]
        client.create_topics(self.servers, [Topic(topic, count, 1 if topic == self.topic("single") else 3)])
        client.produce(self.servers, topic, {number: [Record(b"again")] * (FLOOR + 15) for number in range(count)})

    def _produce(self, leave: threading.Event) -> None:
        while not leave.wait(0.2):
            for name in (self.topic("moving"), self.topic("aside")):
                try:
                    client.produce(
                        self.servers, name, dict.fromkeys(range(self.topics[name]), [Record(b"more")] * 2), deadline_s=5
                    )
                except (KafkaException, TimeoutError):
                    # Brokers come and go: that is what the trial is about.
                    continue

    def _write(self) -> None:
        self.manifests.mkdir(parents=True)
        head = "apiVersion: reconciler/v1\n"
        floors = dict.fromkeys(range(4), FLOOR)
        singles = dict.fromkeys(range(3), FLOOR)
        documents = [
            self._cluster(),
            self._floor("fixed", f"fromOffset: {_flow(floors)}"),
            self._floor("single", f"fromOffset: {_flow(singles)}"),
            self._floor("recent", "newerThan: 1d"),
            self._floor("moving", f"last: {LAST}"),
            self._floor("read", f"unreadBy: [{self.reader}]", "  every: 1s\n"),
            f"kind: GroupRemoval\nmetadata: {{name: dead}}\nspec:\n  groups: {json.dumps(self.dead)}\n  idleFor: 0s\n",
            f"kind: LeaderPolicy\nmetadata: {{name: home}}\nspec:\n  topics: [{self.topic('led')}]\n",
        ]
        (self.manifests / "all.yaml").write_text("---\n".join(head + document for document in documents))

    def _cluster(self) -> str:
        return (
            f"kind: Cluster\nmetadata: {{name: faulty}}\nspec:\n  clusterId: {CLUSTER_ID}\n"
            f"  bootstrapServers: {json.dumps(self.servers.split(','))}\n"
            "  limits: {recordsPercentPerTopic: 100, recordsPercent: 100, groupsPercent: 100}\n"
        )

    def _floor(self, which: str, keep: str, more: str = "") -> str:
        topic = self.topic(which)
        return (
            f"kind: RetentionFloor\nmetadata: {{name: {which}}}\nspec:\n  topics: [{topic}]\n  keep: {{{keep}}}\n{more}"
        )


def _shows(server: str, at: At, replicas: tuple[int, ...]) -> bool:
    states = client.partition_states(server, at[0])
    return at[1] in states and states[at[1]].replicas == replicas and set(states[at[1]].in_sync) == set(replicas)


def _flow(floors: dict[int, int]) -> str:
    return "{" + ", ".join(f"{number}: {floor}" for number, floor in floors.items()) + "}"
