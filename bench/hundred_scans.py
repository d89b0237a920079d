"""Runs one hundred scans of a busy cluster with one Spark process.

    python -m bench.hundred_scans [--quick] [--scans 100] [--dry]

It shows whether a scan hangs and whether a resource grows. Producers, members of both group
protocols, a standalone committer and new groups run in another process. After scans 1, 10, 50 and
100 it counts the child processes, threads, open files and resident memory of this process, of
the process that owns Spark, and of its JVM; and once more after a rest.
"""

import argparse
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path

from confluent_kafka import Consumer

from bench import results
from bench.processes import SPARK_PROCESS, background_module, command_line, descendants, memory_mib
from bench.sizes import FULL, QUICK, HundredScans
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import start, stopping
from reconciler.companions.sandbox.jars import DEFAULT_VERSION
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.scan.engine_choice import Engine
from reconciler.scan.scan import scan
from reconciler.scan.spark_process import close

TIMEOUT_S = 60.0
REPORTED_SCANS = (1, 10, 50, 100)
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Resources of this process, of Spark's process and of its JVM after a scan.

    `scan`: its number. `seconds`: that it took, or that passed since then. Memory is resident, in MiB.
    """

    scan: str
    seconds: float
    processes: int
    driver_threads: int
    driver_files: int
    driver_mib: int
    spark_threads: int
    spark_files: int
    spark_mib: int
    jvm_threads: int
    jvm_files: int
    jvm_mib: int


def resource_usage(label: str, seconds: float) -> ResourceUsage:
    children = descendants(os.getpid())
    # Workers of librdkafka's calls have other command lines, and so has a Connect server.
    (spark,) = [pid for pid in children if SPARK_PROCESS in command_line(pid)]
    (jvm,) = [pid for pid in children if "PythonGatewayServer" in command_line(pid)]
    processes = [
        (_count(pid, "task"), _count(pid, "fd"), round(memory_mib(pid, "VmRSS"))) for pid in (os.getpid(), spark, jvm)
    ]
    return ResourceUsage(label, round(seconds, 2), len(children), *chain.from_iterable(processes))


def _count(pid: int, folder: str) -> int:
    return len(list(Path(f"/proc/{pid}/{folder}").iterdir()))


def scan_request(now_ms: int) -> ScanRequest:
    topics = (Selector("bench-live-*"),)
    return ScanRequest(
        topics=(
            TopicRequest(
                topics=topics,
                offsets=True,
                instants_ms=(now_ms - 60_000,),
                readers=True,
                named_groups=frozenset({"bench-members", "bench-standalone"}),
            ),
        ),
        groups=(GroupRequest(groups=(Selector("*"),), activity=True),),
        topic_records=True,
        cluster_records=True,
    )


def scans(servers: str, count: int) -> Iterator[tuple[int, float, ClusterSnapshot]]:
    session = KafkaSession(Connection(tuple(servers.split(",")), timeout_s=TIMEOUT_S))
    for number in range(1, count + 1):
        start = time.perf_counter()
        now_ms = time.time_ns() // 1_000_000
        snapshot = scan(
            scan_request(now_ms),
            session,
            observed_at_ms=now_ms,
            last_purges={},
            engine=Engine(master="local[2]"),
            progress=lambda *_step: None,
        )
        yield number, time.perf_counter() - start, snapshot


def topic_names(topics: int) -> list[str]:
    return [f"bench-live-{number}" for number in range(topics)]


def run_traffic(servers: str, topics: int, partitions: int) -> None:
    """Produce, consume and commit until standard input ends."""
    names = topic_names(topics)
    client.create_topics(servers, [Topic(name, partitions) for name in names])

    def produce(stop: threading.Event) -> None:
        batch = 0
        while not stop.wait(0.2):
            batch += 1
            for name in names:
                client.produce(servers, name, {number: [Record(b"x" * 100)] * 5 for number in range(partitions)})
            # New groups with one commit each, so that the listing grows.
            client.commit(servers, f"bench-passing-{batch % 200}", {(names[0], 0): batch})

    with ExitStack() as stack:
        for number in range(2):
            stack.enter_context(client.member(servers, "bench-members", names[: number + 5]))
        member = partial(consumer_protocol_member, servers, names)
        stack.enter_context(client.run_in_background(member, "member"))
        stack.enter_context(client.standalone_committer(servers, "bench-standalone", {(names[1], 0): 1}, every_s=0.5))
        stack.enter_context(client.run_in_background(produce, "producer"))
        print("running", flush=True)
        sys.stdin.read()


def consumer_protocol_member(servers: str, names: list[str], stop: threading.Event) -> None:
    """Run a member of the consumer protocol, which has no session timeout on the client."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench-consumer-protocol",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
        }
    )
    consumer.subscribe(names)
    while not stop.is_set():
        consumer.poll(0.05)
    consumer.close()


@contextmanager
def background_traffic(servers: str, topics: int, partitions: int) -> Iterator[None]:
    arguments = ("--traffic", servers, str(topics), str(partitions))
    with background_module("bench.hundred_scans", *arguments) as process:
        if process.stdout is None or process.stdout.readline().strip() != "running":
            raise RuntimeError("the traffic did not start")
        yield
        if process.poll() is not None:
            raise RuntimeError("the traffic ended before the scans")


def measure(servers: str, sizes: HundredScans) -> list[str]:
    """Scan during the traffic, and render the results as lines of Markdown. Spark stays open."""
    rows: list[ResourceUsage] = []
    times: list[float] = []
    records: list[int] = []
    incomplete_count = 0
    with background_traffic(servers, sizes.topics, sizes.partitions):
        for number, seconds, snapshot in scans(servers, sizes.scans):
            times.append(seconds)
            listings = (snapshot.readers_incomplete, snapshot.groups_incomplete, snapshot.topics_incomplete)
            reasons = [reason for reason in listings if reason is not None]
            incomplete_count += bool(reasons)
            records.append(snapshot.cluster_records if isinstance(snapshot.cluster_records, int) else -1)
            if number in (*REPORTED_SCANS, sizes.scans):
                rows.append(resource_usage(str(number), seconds))
                print(rows[-1], reasons, file=sys.stderr, flush=True)
        time.sleep(sizes.rest_s)
        rows.append(resource_usage("after a rest", sizes.rest_s))
    head = [field.name.replace("_", " ") for field in fields(ResourceUsage)]
    summary = (
        f"{sizes.scans} scans of {sizes.topics * sizes.partitions} partitions, during traffic of producers, members of both protocols, a "
        f"standalone committer and new groups: {statistics.median(times):.1f} s per scan ({min(times):.1f}–{max(times):.1f}), from "
        f"{records[0]:,} to {records[-1]:,} records in the cluster; {incomplete_count} snapshots are incomplete. `processes`: all descendants "
        "of the driver."
    )
    return [summary, "", *results.table(head, [astuple(row) for row in rows])]


def main() -> None:
    parser = results.parser("One hundred scans in a row.")
    parser.add_argument("--scans", type=int)
    parser.add_argument("--traffic", nargs=3, metavar=("SERVERS", "TOPICS", "PARTITIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.traffic:
        servers, topics, partitions = options.traffic
        run_traffic(servers, int(topics), int(partitions))
        return
    sizes = (QUICK if options.quick else FULL).hundred_scans
    sizes = replace(sizes, scans=options.scans or sizes.scans)
    properties = {"offsets.topic.num.partitions": "50"}
    with stopping(start(3, name="hundred", heap_mib=384, properties=properties)) as cluster:
        try:
            lines = [results.machine(DEFAULT_VERSION), "", *measure(cluster.bootstrap_servers, sizes)]
        finally:
            close()
    results.publish(options, "hundred", "One hundred scans in a row", lines)


if __name__ == "__main__":
    main()
