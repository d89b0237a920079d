"""The disorder of the demo: what piles up on a cluster that nobody keeps house on, made in seconds. See the folder demo beside this file.

Part of it is alive (members, a standalone worker, a stream that goes on), so the result is a handle that keeps it going.
Not here: what should become of it; that is what the manifests say.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType

from reconciler.sandbox.client import (
    Record,
    Topic,
    commit,
    create_topics,
    member,
    partition_states,
    produce,
    standalone_committer,
)
from reconciler.sandbox.cluster import Cluster
from reconciler.sandbox.jars import Progress, no_progress
from reconciler.sandbox.tools import move_preference

IDLE_S = 5
"""`idleFor` of its manifests: commit timestamps are the broker's, so a dead group must really have been silent."""

DAY_MS = 24 * 3600 * 1000
CLICKS_OLD, CLICKS_FRESH = 300, 200
SHOP_RECORDS, SHOP_AUDITED = 500, 250

_TOPICS = (
    Topic("clicks", 6),
    Topic("orders", 12),
    Topic("shop-orders-repartition", 4),
    Topic("billing-invoices-repartition", 2),
    Topic("customers", 2, configs={"cleanup.policy": "compact"}),
    Topic("_schemas", 1, configs={"cleanup.policy": "compact"}),
)


@dataclass(slots=True)
class DemoData:
    """A context manager: on leaving it the live parts end. `misled`: the partitions whose leader is not the preferred one."""

    misled: tuple[tuple[str, int], ...]
    silent_since_s: float
    alive: ExitStack = field(repr=False)

    def wait_until_idle(self) -> None:
        """Return once the dead group has been silent for longer than the demo's manifest asks."""
        time.sleep(max(0.0, self.silent_since_s + IDLE_S + 1 - time.monotonic()))

    def __enter__(self) -> "DemoData":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.alive.close()


def create_demo_data(cluster: Cluster, progress: Progress = no_progress) -> DemoData:
    """Fill a fresh sandbox of at least two brokers with:

    - `clicks`: records of 30 to 8 days ago before records of today; one partition holds old ones only, one fresh ones only
    - `shop-orders-repartition`: read to its end by group `shop`, half by group `audit`
    - `billing-invoices-repartition`: still written, and read by a live member of group `billing`
    - `customers`: compacted only, so that it cannot be purged; `_schemas`: looks like any topic and is not
    - `old-etl`: a group that nobody uses; `nightly-standalone`: one as EMPTY as that, whose owner commits every second
    - on every third partition a leader that is not the preferred replica
    """
    servers = cluster.bootstrap_servers
    progress("making disorder: topics")
    create_topics(servers, _TOPICS)
    progress("making disorder: an old backlog, and records that all their readers have read")
    produce(servers, "orders", {partition: _records(500, "order") for partition in range(12)})
    # Before the rest, since it needs time to look dead.
    commit(servers, "old-etl", {("orders", partition): 120 for partition in range(12)})
    silent_since_s = time.monotonic()
    _write_clicks(servers)
    for compacted in (topic for topic in _TOPICS if topic.configs):
        keyed = [Record(b"v%d" % number, b"k%d" % number) for number in range(200)]
        produce(servers, compacted.name, dict.fromkeys(range(compacted.partitions), keyed))
    ends = produce(
        servers, "shop-orders-repartition", {partition: _records(SHOP_RECORDS, "order") for partition in range(4)}
    )
    commit(servers, "shop", {("shop-orders-repartition", partition): end for partition, end in ends.items()})
    commit(servers, "audit", {("shop-orders-repartition", partition): SHOP_AUDITED for partition in ends})
    progress("making disorder: leaders where they should not be")
    misled = _move_leaders(cluster)
    progress("making disorder: a live consumer, and a standalone one that looks dead")
    with ExitStack() as alive:
        alive.enter_context(_stream(servers, "billing-invoices-repartition", partitions=2))
        alive.enter_context(member(servers, "billing", ["billing-invoices-repartition"]))
        positions: Mapping[tuple[str, int], int] = {("orders", partition): 500 for partition in range(12)}
        alive.enter_context(standalone_committer(servers, "nightly-standalone", positions))
        return DemoData(misled=misled, silent_since_s=silent_since_s, alive=alive.pop_all())


def _write_clicks(servers: str) -> None:
    now = time.time_ns() // 1_000_000
    old = [Record(b"old", None, now - 30 * DAY_MS + number * 22 * DAY_MS // CLICKS_OLD) for number in range(CLICKS_OLD)]
    fresh = [Record(b"fresh", None, now - DAY_MS // 2 + number * 1000) for number in range(CLICKS_FRESH)]
    batches = {partition: [*old, *fresh] for partition in range(4)} | {4: old, 5: fresh}
    ends = produce(servers, "clicks", batches)
    # A reader that is past the backlog: it loses nothing, so it is in nobody's way.
    commit(servers, "dashboard", {("clicks", partition): end for partition, end in ends.items()})


def _records(count: int, what: str) -> list[Record]:
    return [Record(f"{what} {number}".encode()) for number in range(count)]


def _move_leaders(cluster: Cluster) -> tuple[tuple[str, int], ...]:
    """Every third partition of all topics, those that are led by the preferred replica now."""
    everything = [
        (topic.name, partition, state)
        for topic in _TOPICS
        for partition, state in sorted(partition_states(cluster.bootstrap_servers, topic.name).items())
    ]
    chosen = tuple(
        (topic, partition)
        for topic, partition, state in everything[::3]
        if len(state.replicas) > 1 and state.leader == state.replicas[0]
    )
    move_preference(cluster, chosen)
    return chosen


@contextmanager
def _stream(servers: str, topic: str, *, partitions: int) -> Iterator[None]:
    """A few records per second to each partition, from before the block to its end."""
    leave = threading.Event()

    def batch() -> None:
        produce(servers, topic, {partition: _records(5, "invoice") for partition in range(partitions)})

    def run() -> None:
        while not leave.wait(0.5):
            batch()

    batch()
    thread = threading.Thread(target=run, name=f"stream-{topic}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        leave.set()
        thread.join(60)
