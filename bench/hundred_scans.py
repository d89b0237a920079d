"""One hundred scans in a row of a cluster at work, in one process with a warm session: does any hang, and does anything grow?

    python -m bench.hundred_scans [--quick] [--scans 100] [--dry]

Producers, members of both protocols, a standalone committer and groups that come and go run in a process of their own. Told at scans
1, 10, 50 and 100: processes below this one, threads, open files and resident memory of the driver and of Spark's JVM.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

from confluent_kafka import Consumer

from bench import results
from bench.processes import command_of, descendants, mebibytes
from bench.sizes import FULL, QUICK, HundredScans
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import start, stop
from reconciler.sandbox.jars import DEFAULT_VERSION
from reconciler.scan.scan import SparkTarget, close, scan

LIMIT_S = 60.0
TOLD_AT = (1, 10, 50, 100)
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Held:
    """What this process and its session hold. Memory in MiB, resident."""

    scan: int
    seconds: float
    processes: int
    driver_threads: int
    driver_files: int
    driver_mib: int
    jvm_threads: int
    jvm_files: int
    jvm_mib: int


def held(number: int, seconds: float) -> Held:
    me = os.getpid()
    below = descendants(me)
    # The session's JVM, and no Connect server.
    (jvm,) = [pid for pid in below if "pyspark-shell" in command_of(pid)]
    return Held(
        number,
        round(seconds, 2),
        len(below),
        _count(me, "task"),
        _count(me, "fd"),
        round(mebibytes(me, "VmRSS")),
        _count(jvm, "task"),
        _count(jvm, "fd"),
        round(mebibytes(jvm, "VmRSS")),
    )


def _count(pid: int, what: str) -> int:
    return len(list(Path(f"/proc/{pid}/{what}").iterdir()))


def needs(now_ms: int) -> ScanRequest:
    topics = (Selector("bench-live-*"),)
    return ScanRequest(
        topics=(
            TopicRequest(
                topics=topics,
                offsets=True,
                instants_ms=(now_ms - 60_000,),
                readers=True,
                named_groups=frozenset({"bench-members", "bench-alone"}),
            ),
        ),
        groups=(GroupRequest(groups=(Selector("*"),), activity=True),),
        topic_records=True,
        cluster_records=True,
    )


def scans(servers: str, count: int) -> Iterator[tuple[int, float, ClusterSnapshot]]:
    session = KafkaSession(Connection(tuple(servers.split(",")), timeout_s=LIMIT_S))
    for number in range(1, count + 1):
        began = time.perf_counter()
        now_ms = time.time_ns() // 1_000_000
        snapshot = scan(
            needs(now_ms),
            session,
            observed_at_ms=now_ms,
            last_purges={},
            engine=SparkTarget(master="local[2]"),
            progress=lambda _said: None,
        )
        yield number, time.perf_counter() - began, snapshot


def topic_names(topics: int) -> list[str]:
    return [f"bench-live-{number}" for number in range(topics)]


def traffic(servers: str, topics: int, partitions: int) -> None:
    """Until standard input ends."""
    names = topic_names(topics)
    client.create_topics(servers, [Topic(name, partitions) for name in names])
    leave = threading.Event()

    def produce() -> None:
        turn = 0
        while not leave.wait(0.2):
            turn += 1
            for name in names:
                client.produce(servers, name, {number: [Record(b"x" * 100)] * 5 for number in range(partitions)})
            # Groups that come, each with a commit of its own, for the listing to grow by.
            client.commit(servers, f"bench-passing-{turn % 200}", {(names[0], 0): turn})

    with ExitStack() as running:
        for member in range(2):
            running.enter_context(client.member(servers, "bench-members", names[: member + 5]))
        modern = threading.Thread(target=modern_member, args=(servers, names, leave), daemon=True)
        modern.start()
        running.enter_context(client.standalone_committer(servers, "bench-alone", {(names[1], 0): 1}, every_s=0.5))
        producing = threading.Thread(target=produce, daemon=True)
        producing.start()
        print("running", flush=True)
        sys.stdin.read()
        leave.set()
        producing.join(LIMIT_S)
        modern.join(LIMIT_S)


def modern_member(servers: str, names: list[str], leave: threading.Event) -> None:
    """A member of the new protocol, which takes none of the old one's timeouts."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench-modern",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
        }
    )
    consumer.subscribe(names)
    while not leave.is_set():
        consumer.poll(0.05)
    consumer.close()


@contextmanager
def busy(servers: str, topics: int, partitions: int) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.hundred_scans", "--traffic", servers, str(topics), str(partitions)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "running":
            raise RuntimeError("the traffic did not start")
        yield
        if process.poll() is not None:
            raise RuntimeError("the traffic ended before the scans did")
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(LIMIT_S)


def measured(servers: str, sizes: HundredScans) -> list[str]:
    """The scans beside the traffic, as lines of Markdown. The session is left open."""
    rows: list[Held] = []
    times: list[float] = []
    records: list[int] = []
    unread = 0
    with busy(servers, sizes.topics, sizes.partitions):
        for number, seconds, snapshot in scans(servers, sizes.scans):
            times.append(seconds)
            listings = (snapshot.readers_incomplete, snapshot.groups_incomplete, snapshot.topics_incomplete)
            incomplete = [reason for reason in listings if reason is not None]
            unread += bool(incomplete)
            records.append(snapshot.cluster_records if isinstance(snapshot.cluster_records, int) else -1)
            if number in (*TOLD_AT, sizes.scans):
                rows.append(held(number, seconds))
                print(rows[-1], incomplete, file=sys.stderr, flush=True)
    head = [field.name.replace("_", " ") for field in fields(Held)]
    what = (
        f"{sizes.scans} scans of {sizes.topics * sizes.partitions} partitions, with producers, members of both protocols, a standalone committer "
        f"and new groups at work: {statistics.median(times):.1f} s each ({min(times):.1f}–{max(times):.1f}), from {records[0]:,} to "
        f"{records[-1]:,} records in the cluster; {unread} of the snapshots incomplete. `processes`: all below the driver."
    )
    return [what, "", *results.table(head, [astuple(row) for row in rows])]


def main() -> None:
    given = argparse.ArgumentParser(description="One hundred scans in a row.")
    given.add_argument("--quick", action="store_true", help="ten scans, printed only")
    given.add_argument("--scans", type=int)
    given.add_argument("--dry", action="store_true", help="print, and leave RESULTS.md alone")
    given.add_argument("--traffic", nargs=3, metavar=("SERVERS", "TOPICS", "PARTITIONS"), help=argparse.SUPPRESS)
    chosen = given.parse_args()
    if chosen.traffic:
        servers, topics, partitions = chosen.traffic
        traffic(servers, int(topics), int(partitions))
        return
    sizes = (QUICK if chosen.quick else FULL).hundred_scans
    sizes = replace(sizes, scans=chosen.scans or sizes.scans)
    cluster = start(3, name="hundred", heap_mib=384, properties={"offsets.topic.num.partitions": "50"})
    try:
        lines = [results.machine(DEFAULT_VERSION), "", *measured(cluster.bootstrap_servers, sizes)]
    finally:
        close()
        stop(cluster)
    print("\n".join(lines))
    if not (chosen.dry or chosen.quick):
        results.write("hundred", "One hundred scans in a row", lines)


if __name__ == "__main__":
    main()
