"""Creates the demo's data: old records, dead groups and misplaced leaders.

Some of it stays active (a member, a standalone consumer, a producer), so the result is a context
manager that ends the active parts. The manifests in the folder `demo` beside this file say what the
reconciler does with the data.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from reconciler.clock import wall_clock_ms
from reconciler.companions.sandbox.client import (
    Record,
    Topic,
    commit,
    create_topics,
    member,
    partition_states,
    produce,
    run_in_background,
    standalone_committer,
)
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import change_preferred_leaders
from reconciler.model.progress import Progress, no_progress

IDLE_S = 5
"""`idleFor` of the demo's manifests. Brokers set commit timestamps, so the group must really be idle that long."""

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
    """The created data, as a context manager that ends its active parts.

    `non_preferred` are the partitions whose leader is not the preferred one. `idle_since_s` is the
    instant of the dead group's last commit on the monotonic clock.
    """

    non_preferred: tuple[tuple[str, int], ...]
    idle_since_s: float
    active_parts: ExitStack = field(repr=False)

    def wait_until_idle(self) -> None:
        """Wait until the dead group is idle for longer than the demo's manifest requires."""
        time.sleep(max(0.0, self.idle_since_s + IDLE_S + 1 - time.monotonic()))

    def __enter__(self) -> "DemoData":
        return self

    def __exit__(self, *_error: object) -> None:
        self.active_parts.close()


def create_demo_data(cluster: SandboxCluster, progress: Progress = no_progress) -> DemoData:
    """Fill a new sandbox of at least two brokers with the demo's data.

    - `clicks`: records of 30 to 8 days ago, then records of today; one partition has only old ones,
      one only new ones
    - `shop-orders-repartition`: group `shop` has read it to its end, group `audit` has read half of
      it
    - `billing-invoices-repartition`: a producer still writes it, and a live member of group
      `billing` reads it
    - `customers`: compacted only, so that it cannot be purged; `_schemas`: Schema Registry's topic
    - `old-etl`: an unused group; `nightly-standalone`: EMPTY as well, but its consumer commits
      every second
    - every third partition: a leader that is not the preferred one
    """
    servers = cluster.bootstrap_servers
    progress("creating demo data: topics")
    create_topics(servers, _TOPICS)
    progress("creating demo data: old records, and records that all groups have read")
    produce(servers, "orders", {partition: _records(500, "order") for partition in range(12)})
    # First, because the group must be idle for some time.
    commit(servers, "old-etl", {("orders", partition): 120 for partition in range(12)}, had_members=True)
    idle_since_s = time.monotonic()
    _write_clicks(servers)
    for compacted in (topic for topic in _TOPICS if topic.configs):
        keyed = [Record(b"v%d" % number, b"k%d" % number) for number in range(200)]
        produce(servers, compacted.name, dict.fromkeys(range(compacted.partitions), keyed))
    ends = produce(
        servers, "shop-orders-repartition", {partition: _records(SHOP_RECORDS, "order") for partition in range(4)}
    )
    commit(servers, "shop", {("shop-orders-repartition", partition): end for partition, end in ends.items()})
    commit(servers, "audit", {("shop-orders-repartition", partition): SHOP_AUDITED for partition in ends})
    progress("creating demo data: leaders that are not the preferred ones")
    non_preferred = _move_leaders(cluster)
    progress("creating demo data: a live consumer, and a standalone consumer that looks dead")
    with ExitStack() as stack:
        stack.enter_context(_producer(servers, "billing-invoices-repartition"))
        stack.enter_context(member(servers, "billing", ["billing-invoices-repartition"]))
        positions: Mapping[tuple[str, int], int] = {("orders", partition): 500 for partition in range(12)}
        stack.enter_context(standalone_committer(servers, "nightly-standalone", positions))
        return DemoData(non_preferred=non_preferred, idle_since_s=idle_since_s, active_parts=stack.pop_all())


def _write_clicks(servers: str) -> None:
    now = wall_clock_ms()
    old = [Record(b"old", None, now - 30 * DAY_MS + number * 22 * DAY_MS // CLICKS_OLD) for number in range(CLICKS_OLD)]
    fresh = [Record(b"fresh", None, now - DAY_MS // 2 + number * 1000) for number in range(CLICKS_FRESH)]
    batches = {partition: [*old, *fresh] for partition in range(4)} | {4: old, 5: fresh}
    ends = produce(servers, "clicks", batches)
    # This group has read the old records, so a purge takes nothing from it.
    commit(servers, "dashboard", {("clicks", partition): end for partition, end in ends.items()})


def _records(count: int, label: str) -> list[Record]:
    return [Record(f"{label} {number}".encode()) for number in range(count)]


def _move_leaders(cluster: SandboxCluster) -> tuple[tuple[str, int], ...]:
    """Change the preferred leader of every third partition, and return these partitions."""
    partitions = [
        (topic.name, partition, state)
        for topic in _TOPICS
        for partition, state in sorted(partition_states(cluster.bootstrap_servers, topic.name).items())
    ]
    selected = tuple(
        (topic, partition)
        for topic, partition, state in partitions[::3]
        if len(state.replicas) > 1 and state.leader == state.replicas[0]
    )
    change_preferred_leaders(cluster, selected)
    return selected


@contextmanager
def _producer(servers: str, topic: str) -> Iterator[None]:
    """Write a few records per second to each partition during the block. The first batch is complete before it."""

    def write_batch() -> None:
        produce(servers, topic, {0: _records(5, "invoice"), 1: _records(5, "invoice")})

    def repeat(leave: threading.Event) -> None:
        while not leave.wait(0.5):
            write_batch()

    write_batch()
    with run_in_background(repeat, f"producer-{topic}"):
        yield
