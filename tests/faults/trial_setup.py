"""Creates the topics, groups, leaders and manifests of one fault trial.

`TrialChanges` records the changes that the trial itself makes, because every other change comes
from the reconciler.
"""

import json
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from reconciler.companions.sandbox import client, tools
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.journal.file import FOLDER
from tests import kafka_client
from tests.build import policy, write_manifests
from tests.faults.witness import PartitionKey, Witness
from tests.strategies.facts import DAY

RECORDS = 60
FLOOR = 30
LAST = 20
CONSUMED = 40
DEAD_GROUPS = 8
LOWEST_POSITION = 4
"""No witness stands lower at the plan, so no target is lower, and one that goes back is in danger."""
COUNTS = {
    "fixed": 4,
    "recent": 3,
    "moving": 4,
    "read": 3,
    "single": 3,
    "elected": 6,
    "unmanaged": 3,
    "held": 2,
    "clamped": 2,
    "ignored": 2,
    "excepted": 2,
}


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

    @property
    def topics(self) -> set[str]:
        """The topics of which the trial itself removed records."""
        return {*self.recreated, *self.expired}


@dataclass
class TrialSetup:
    """The cluster content of one trial.

    Topics: `fixed` has floors by offset, `recent` floors by time. A producer writes `moving`, whose
    last records stay. A consumer group has read a part of `read`. `single` has one replica per
    partition. Leaders of `elected` are not the preferred ones. No policy selects `unmanaged`.

    Three witnesses read. `newcomer`, alone on `held`, has joined and never commits; `late`: it joins
    after the plan. `committing` is a member on all other topics. `standalone` assigns partitions of
    the topics whose floors treat its lag in different ways: `moving` and `clamped` wait for it,
    `ignored` accepts it, `excepted` names it in exceptGroups.
    """

    cluster: SandboxCluster
    name: str
    folder: Path
    rng: random.Random
    changes: TrialChanges = field(default_factory=TrialChanges)
    live_members: ExitStack = field(default_factory=ExitStack)
    witness_threads: ExitStack = field(default_factory=ExitStack)
    bystander_group: str = field(init=False)
    live_group: str = field(init=False)
    consumer_group: str = field(init=False)
    newcomer: Witness = field(init=False)
    committing: Witness = field(init=False)
    standalone: Witness = field(init=False)
    late: bool = field(init=False)

    def __post_init__(self) -> None:
        groups = (f"{self.name}-{role}" for role in ("bystander", "live", "consumer"))
        self.bystander_group, self.live_group, self.consumer_group = groups
        self.late = self.rng.random() < 0.5
        self.newcomer = self._witness(
            "newcomer", dict.fromkeys(self.partitions("held"), 0), commits=False, protocol=self._protocol("share")
        )
        starts = dict.fromkeys(("fixed", "recent", "single", "excepted"), FLOOR)
        starts |= {"read": CONSUMED, "moving": FLOOR // 3, "elected": 0, "unmanaged": 0}
        positions = {key: offset for suffix, offset in starts.items() for key in self.partitions(suffix)}
        behind = self.partitions("clamped", "ignored")
        self.committing = self._witness(
            "committing",
            positions | {key: self._offset_below_floor() for key in behind},
            protocol=self._protocol(),
            transactional=self.rng.random() < 0.5,
        )
        behind = self.partitions("moving", "clamped", "ignored", "excepted")
        self.standalone = self._witness("standalone", {key: self._offset_below_floor() for key in behind}, joins=False)

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    def topic(self, suffix: str) -> str:
        return f"{self.name}-{suffix}"

    @property
    def topics(self) -> dict[str, int]:
        """Each topic and the number of its partitions."""
        return {self.topic(suffix): count for suffix, count in COUNTS.items()}

    def partitions(self, *suffixes: str) -> list[PartitionKey]:
        return [(self.topic(suffix), number) for suffix in suffixes for number in range(COUNTS[suffix])]

    @property
    def witnesses(self) -> tuple[Witness, ...]:
        return self.newcomer, self.committing, self.standalone

    @property
    def actions_expected(self) -> int:
        """Actions of a full plan: a newcomer that is there already holds its topic back."""
        return 34 + (COUNTS["held"] if self.late else 0)

    @property
    def dead_groups(self) -> list[str]:
        return [f"{self.name}-dead-{number}" for number in range(DEAD_GROUPS)]

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    @property
    def journal(self) -> Path:
        return self.manifests / FOLDER / "local.jsonl"

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
                Record(b"%d" % n, None, now_ms - (7 * DAY if has_old_records and n < FLOOR else 0))
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
        with (
            client.run_in_background(self._produce, "producer"),
            client.member(self.servers, self.live_group, [self.topic("unmanaged")]),
        ):
            yield

    def start_witnesses(self) -> None:
        """Start the witnesses that the plan can see; the trial closes `witness_threads`."""
        for witness in self.witnesses:
            if witness is not self.newcomer or not self.late:
                self.witness_threads.enter_context(witness.reading())

    def move_witnesses(self) -> None:
        """Between plan and apply: a late newcomer joins, and the standalone consumer may go back."""
        if self.late:
            self.witness_threads.enter_context(self.newcomer.reading())
        if self.rng.random() < 0.4:
            key = self.rng.choice(self.partitions("moving", "clamped", "ignored"))
            self.standalone.rewind({key: self.rng.randrange(1, LOWEST_POSITION - 1)})
        for witness in self.witnesses:
            # Some go on while requests are sent, others only after the apply.
            if self.rng.random() < 0.5:
                witness.release(self.rng.uniform(0.0, 5.0))

    def rotate_replicas(self, partitions: Iterable[PartitionKey]) -> None:
        """Rotate replicas by one: the leader stays and is no longer the preferred one."""
        rotated = {}
        for topic, number in partitions:
            replicas = client.partition_states(self.servers, topic)[number].replicas
            rotated[topic, number] = (*replicas[1:], replicas[0])
        tools.reassign(self.cluster, rotated)

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it again with the same name and a few records."""
        self.changes.recreated[topic] = time.monotonic()
        kafka_client.delete_topics(self.servers, [topic])
        count = self.topics[topic]
        client.create_topics(self.servers, [Topic(topic, count, 1 if topic == self.topic("single") else 3)])
        client.produce(self.servers, topic, {number: [Record(b"again")] * (FLOOR + 15) for number in range(count)})

    def _witness(self, name: str, starts: Mapping[PartitionKey, int], **settings: Any) -> Witness:
        """Half of its partitions pause a few records after their start. `settings`: of Witness."""
        pauses = {key: start + self.rng.randrange(1, 20) for key, start in starts.items() if self.rng.random() < 0.5}
        return Witness(self.servers, f"{self.name}-{name}", starts, pauses, **settings)

    def _protocol(self, *others: str) -> str:
        return self.rng.choice(["classic", "consumer", *others])

    def _offset_below_floor(self) -> int:
        return self.rng.randrange(LOWEST_POSITION, FLOOR)

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
        self.folder.mkdir(parents=True, exist_ok=True)
        witnessed = _from_offset("held")
        documents = [
            self._floor("fixed", _from_offset("fixed")),
            self._floor("single", _from_offset("single")),
            self._floor("recent", "newerThan: 1d"),
            self._floor("moving", f"last: {LAST}", "consumers: clamp"),
            self._floor("read", f"unreadBy: [{self.consumer_group}]", "every: 1s"),
            self._floor("held", witnessed),
            self._floor("clamped", witnessed, "consumers: clamp"),
            self._floor("ignored", witnessed, "consumers: ignore"),
            self._floor("excepted", witnessed, f"exceptGroups: [{self.standalone.group}]"),
            policy("GroupRemoval", "dead", f"groups: {json.dumps(self.dead_groups)}, idleFor: 0s"),
            policy("LeaderPolicy", "home", f"topics: [{self.topic('elected')}]"),
        ]
        write_manifests(self.folder, self.servers, "---\n".join(documents))

    def _floor(self, suffix: str, keep: str, more: str = "consumers: block") -> str:
        return policy("RetentionFloor", suffix, f"topics: [{self.topic(suffix)}], keep: {{{keep}}}, {more}")


def _from_offset(suffix: str) -> str:
    floors = ", ".join(f"{number}: {FLOOR}" for number in range(COUNTS[suffix]))
    return f"fromOffset: {{{floors}}}"
