"""Live consumers that read through a trial and record every gap in the offsets that they receive.

The trial's topics are neither compacted nor transactional, and their producers are not, so each
offset below the end is a record. A gap is therefore a loss, unless a plan announced it.
"""

import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import DebugLogger, consumer_properties, producer_properties
from reconciler.kafka.futures import submit
from tests import kafka_client

PartitionKey = tuple[str, int]

SESSION_MS = 45_000
"""Longer than any fault: a member that its coordinator removes has no protection left."""
COMMIT_EVERY_S = 0.3
READ_TO_END_S = 300
STALLED_S = 20
"""After so long without progress a consumer is restarted, as its operator would: the client library may
stop to fetch a partition after its leader was away. Lost records stay lost.
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that a witness did not receive: from `first` to `after`, the next offset that came."""

    partition: PartitionKey
    first: int
    after: int


@dataclass
class Witness:
    """A consumer of `group`, in a thread of its own, during `reading`.

    `starts`: the first offset of each partition that it has to see. `pauses`: where it pauses until
    its release. `joins`: it is a member of the group; otherwise it assigns the partitions itself.
    `commits`: it commits what it has read, and has committed `starts` before it begins.
    `protocol`: of a member; "share": it only subscribes, as a member of a share group, whose group stands
    at the log start. `transactional`: it commits in transactions, which stay open until the next commit,
    as an exactly-once application does. `expected`: the next offset of each partition. `lost`: the coordinator
    has removed it, and without a commit nothing protects it any more. `restarts`: while it had to
    read to the end.
    """

    servers: str
    group: str
    starts: Mapping[PartitionKey, int]
    pauses: Mapping[PartitionKey, int] = field(default_factory=dict)
    joins: bool = True
    commits: bool = True
    protocol: str = "classic"
    transactional: bool = False
    gaps: list[Gap] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    expected: dict[PartitionKey, int] = field(default_factory=dict)
    records: int = 0
    lost: bool = False
    restarts: int = 0
    _release_at: float = float("inf")
    _rewind: dict[PartitionKey, int] = field(default_factory=dict)
    _paused: set[PartitionKey] = field(default_factory=set)
    _positions: dict[PartitionKey, int] = field(default_factory=dict)
    _committed: dict[PartitionKey, int] = field(default_factory=dict)
    _assigned: threading.Event = field(default_factory=threading.Event)
    _restart: threading.Event = field(default_factory=threading.Event)
    _producer: Producer | None = None
    _pending: dict[PartitionKey, int] = field(default_factory=dict)

    @contextmanager
    def reading(self, *, deadline_s: float = 60) -> Iterator[None]:
        """Read during the block, which begins once partitions are assigned. Raises TimeoutError."""
        self.expected.update(self.starts)
        if self.protocol == "share":
            with kafka_client.share_member(self.servers, self.group, sorted({topic for topic, _ in self.starts})):
                yield
            kafka_client.remove_group(self.servers, self.group)  # it would hold the topic back for ever
            return
        if self.commits:
            client.commit(self.servers, self.group, self.starts, deadline_s=deadline_s)
            self._committed.update(self.starts)
        with client.run_in_background(self._read, f"witness-{self.group}"):
            if not self._assigned.wait(deadline_s):
                raise TimeoutError(f"{self.group} got no assignment within {deadline_s:.0f} s: {self.errors}")
            yield

    def release(self, after_s: float = 0) -> None:
        """Go on with paused partitions, and pause no others."""
        self._release_at = time.monotonic() + after_s

    def rewind(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Commit lower offsets, and pause one record after them. Raises TimeoutError."""
        self.pauses = {**self.pauses, **{key: offset + 1 for key, offset in offsets.items()}}
        self._rewind = dict(offsets)
        client.wait_until(lambda: not self._rewind, 30, f"{self.group} goes back to {offsets}")

    def read_to(self, ends: Mapping[PartitionKey, int]) -> Iterator[str]:
        """Release it, wait until it has read and committed up to `ends`, and say what it lacks."""
        self.release()
        if self.protocol == "share":
            return
        done = self.expected if not self.commits else self._committed
        deadline = time.monotonic() + READ_TO_END_S
        seen, seen_at = dict(done), time.monotonic()
        while any(done[key] < ends[key] for key in self.starts if key in ends) and time.monotonic() < deadline:
            time.sleep(0.1)
            if seen != done:
                seen, seen_at = dict(done), time.monotonic()
            elif time.monotonic() - seen_at > STALLED_S:
                self.restarts += 1
                self._restart.set()
                seen_at = time.monotonic()
        for key in self.starts:
            if key in ends and done[key] < ends[key]:
                yield (
                    f"WITNESS {self.group} has read {key} up to {self.expected[key]} of {ends[key]}, "
                    f"and committed {self._committed.get(key)}"
                )

    def _read(self, leave: threading.Event) -> None:
        while not leave.is_set() and not self.errors:
            self._restart.clear()
            self._read_with_new_consumer(leave)
            # A new consumer begins at its commits, and has no partition that is paused.
            self._paused.clear()
            self._positions.clear()

    def _read_with_new_consumer(self, leave: threading.Event) -> None:
        properties = consumer_properties(self.servers, self.group) | {
            "auto.offset.reset": "earliest",
            "group.protocol": self.protocol,
            "session.timeout.ms": SESSION_MS,
            "on_commit": self._on_commit,
        }
        if self.protocol == "consumer":
            del properties["session.timeout.ms"]  # The broker's default is as long.
        consumer = Consumer(properties, logger=DebugLogger())
        try:
            if self.joins:
                topics = sorted({topic for topic, _ in self.starts})
                consumer.subscribe(topics, on_assign=self._on_assign, on_lost=self._on_lost)
            else:
                self._assign(consumer)
            commit_at = 0.0
            while not leave.is_set() and not self._restart.is_set():
                if self._rewind:
                    self._go_back(consumer)
                if self._paused and time.monotonic() >= self._release_at:
                    self._resume(consumer)
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    self._receive(consumer, message)
                if self.commits and time.monotonic() >= commit_at:
                    commit_at = time.monotonic() + COMMIT_EVERY_S
                    self._commit(consumer)
        except Exception:  # noqa: BLE001 - a witness that died is a violation
            self.errors.append(f"WITNESS {self.group}: {traceback.format_exc()}")
        finally:
            with suppress(KafkaException):
                self._end_transaction()
            consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        consumer.assign([TopicPartition(*key, offset) for key, offset in self.expected.items()])
        self._assigned.set()

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._assigned.set()

    def _resume(self, consumer: Consumer) -> None:
        """Resume what is assigned; a new assignment of the same partitions leaves them paused."""
        resumed = self._paused & {(part.topic, part.partition) for part in consumer.assignment()}
        consumer.resume([TopicPartition(*key) for key in resumed])
        self._paused -= resumed

    def _on_lost(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.lost = True

    def _receive(self, consumer: Consumer, message: Message) -> None:
        key, offset = (str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)
        if offset > self.expected[key]:
            self.gaps.append(Gap(key, self.expected[key], offset))
        # After a rebalance records come again.
        self.expected[key] = max(self.expected[key], offset + 1)
        self._positions[key] = offset + 1
        self.records += 1
        if offset + 1 >= self.pauses.get(key, offset + 2) and time.monotonic() < self._release_at:
            consumer.pause([TopicPartition(*key)])
            self._paused.add(key)

    def _commit(self, consumer: Consumer) -> None:
        offsets = {key: offset for key, offset in self._positions.items() if self._committed.get(key) != offset}
        if self.transactional:
            self._commit_in_transaction(consumer, offsets)
        elif offsets:
            consumer.commit(offsets=[TopicPartition(*key, offset) for key, offset in offsets.items()])

    def _commit_in_transaction(self, consumer: Consumer, offsets: Mapping[PartitionKey, int]) -> None:
        """End the open transaction, and begin one with these offsets. After a failure the next round begins anew."""
        try:
            self._end_transaction()
            if offsets:
                if self._producer is None:
                    settings = {"transactional.id": f"tx-{self.group}", "transaction.timeout.ms": SESSION_MS}
                    self._producer = Producer(producer_properties(self.servers) | settings, logger=DebugLogger())
                    self._producer.init_transactions(10)
                self._producer.begin_transaction()
                partitions = [TopicPartition(*key, offset) for key, offset in offsets.items()]
                send = partial(self._producer.send_offsets_to_transaction, partitions)
                # Where the group's coordinator is away, the library forgets the limit (its issue 5456).
                submit(lambda: send(consumer.consumer_group_metadata(), 10)).result(2 * 10)
                self._pending = dict(offsets)
        except (KafkaException, TimeoutError):
            # A new producer of the same id aborts what this one has left open.
            self._producer, self._pending = None, {}

    def _end_transaction(self) -> None:
        if self._producer is not None and self._pending:
            self._producer.commit_transaction(10)
            self._committed.update(self._pending)
            self._pending = {}

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Note what is committed. The next round commits again what a fault prevented."""
        if error is None:
            self._committed.update(((p.topic, p.partition), p.offset) for p in partitions if p.error is None)

    def _go_back(self, consumer: Consumer) -> None:
        # With the same client: a commit that is still under way must not come after this one.
        try:
            offsets = [TopicPartition(*key, offset) for key, offset in self._rewind.items()]
            results = consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException:
            return  # The coordinator is away; the next round tries again.
        if any(result.error is not None for result in results):
            return
        self.expected.update(self._rewind)
        self._committed.update(self._rewind)
        self._positions.update(self._rewind)
        self._assign(consumer)
        self._resume(consumer)
        self._rewind = {}
