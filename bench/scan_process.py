"""Runs one measurement of bench.scan in its own process and prints its figures as a JSON object.

    python -m bench.scan_process session TARGET SERVERS [bare]    bare: without the archive of classes
    python -m bench.scan_process scans TARGET SERVERS RUNS REQUEST…     REQUEST: empty, partitions, log, or a folder of manifests
    python -m bench.scan_process plain SERVERS RUNS
    python -m bench.scan_process log SERVERS RUNS
    python -m bench.scan_process chunks SERVERS RUNS MANIFESTS
    python -m bench.scan_process lookups ENGINE SERVERS RUNS MANIFESTS

TARGET is a Spark master, an sc:// address, or `inline`.
"""

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from bench import baseline
from bench.processes import measure_seconds
from bench.scan_cluster import CONSUMER_OFFSETS_LOG, DAY_MS, FIRST_COMMIT, log_sizes
from reconciler.companions.sandbox import client
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_consumer_offsets
from reconciler.kafka.group_listing import list_groups
from reconciler.kafka.records import look_up
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import describe_topics, list_topics
from reconciler.manifest.files import load
from reconciler.model.garbage import gc_paused
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.plan import planner
from reconciler.scan import select
from reconciler.scan.chunks import Chunk, commit_chunks, log_chunks, partition_chunks
from reconciler.scan.engine_choice import Engine, EngineName
from reconciler.scan.scan import scan
from reconciler.scan.spark_process import close, start_spark
from reconciler.scan.task_rows import Answer, ScanTask, decode, read_chunk

TIMEOUT_S = 60.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def scan_request(name: str) -> ScanRequest:
    """Return the scan request of a name; any other name is a folder of manifests."""
    week_ago = now_ms() - 7 * DAY_MS
    match name:
        case "empty":
            return ScanRequest(topics=(TopicRequest(topics=(Selector(FIRST_COMMIT),), offsets=True),))
        case "partitions":
            return ScanRequest(
                topics=(TopicRequest(topics=(Selector("bench-*"),), offsets=True, instants_ms=(week_ago,)),)
            )
        case "log":
            return ScanRequest(groups=(GroupRequest(groups=(Selector("no-such-group"),), activity=True),))
        case _:
            return planner.scan_request(load([Path(name)], now_ms=now_ms()).policies, now_ms())


def parse_engine(text: str) -> Engine:
    if text == EngineName.INLINE:
        return Engine(name=EngineName.INLINE)
    return Engine(remote=text) if text.startswith("sc://") else Engine(master=text)


def open_session(servers: str) -> KafkaSession:
    return KafkaSession(Connection(tuple(servers.split(",")), timeout_s=TIMEOUT_S))


def scan_task(connection: Connection, readers: Mapping[str, Sequence[int]]) -> ScanTask:
    return ScanTask(
        connection=connection,
        cluster_id=None,
        readers=readers,
        topic_ids={},
        named={},
        until_s=math.inf,
        log_limit_s=TIMEOUT_S,
    )


def measure_session(engine: Engine, servers: str) -> dict[str, float]:
    """Measure the time until Spark accepts a job, and until the first answer of a task.

    The task reads the commits of a group that does not exist.
    """
    start = time.perf_counter()
    message_times: dict[str, float] = {}

    def note_time(message: str, *_state: object) -> None:
        message_times.setdefault(message.partition(" ")[0], time.perf_counter() - start)

    task = scan_task(open_session(servers).connection, {})
    chunks = [Chunk(groups=("no-such-group",))]
    start_spark(engine).read(task, chunks, subjects="a group", limit_s=TIMEOUT_S, progress=note_time)
    return {"session_s": message_times["reading"], "first_answer_s": time.perf_counter() - start}


def measure_scans(engine: Engine, servers: str, runs: int, names: Sequence[str]) -> dict[str, list[float]]:
    """Measure scans of a Spark that has run the same scan once before."""
    seconds: dict[str, list[float]] = {}
    for name in names:
        request = scan_request(name)

        def scan_once(request: ScanRequest = request) -> None:
            with closing(open_session(servers)) as session:
                scan(
                    request,
                    session,
                    observed_at_ms=now_ms(),
                    last_purges={},
                    engine=engine,
                    progress=lambda message, *_count: print(message, file=sys.stderr),
                )

        scan_once()
        seconds[name] = [measure_seconds(scan_once) for _ in range(runs)]
    return seconds


def measure_log_reader(servers: str, runs: int) -> dict[str, list[float]]:
    """Measure the reader of `__consumer_offsets` without Spark: one process, one thread, one consumer."""
    session = open_session(servers)
    partitions = sorted(client.partition_states(servers, CONSUMER_OFFSETS_LOG))
    records: list[float] = []
    seconds: list[float] = []
    cpu_seconds: list[float] = []
    for _ in range(runs):
        with gc_paused():
            start, cpu_start = time.perf_counter(), time.process_time()
            tables = read_consumer_offsets(session, partitions, origins={})
            seconds.append(time.perf_counter() - start)
            cpu_seconds.append(time.process_time() - cpu_start)
        records.append(sum(row["records"] for row in tables["runs"]))
    return {"log_s": seconds, "cpu_s": cpu_seconds, "records": records}


def measure_lookups(engine: Engine, servers: str, runs: int, manifests: str) -> dict[str, list[float]]:
    """Measure a scan, and the lookups that the first decisions of a plan ask for after it. Spark starts in the first run."""
    loaded = load([Path(manifests)], now_ms=now_ms()).for_cluster()
    seconds: dict[str, list[float]] = {"scan_s": [], "lookups_s": [], "partitions": []}
    for _ in range(runs):
        with closing(open_session(servers)) as session:
            observed_at_ms = now_ms()
            start_s = time.perf_counter()
            snapshot = scan(
                planner.scan_request(loaded.policies, observed_at_ms),
                session,
                observed_at_ms=observed_at_ms,
                last_purges={},
                engine=engine,
                progress=lambda *_step: None,
            )
            seconds["scan_s"].append(time.perf_counter() - start_s)
            planned = planner.plan(loaded, snapshot)
            asked = planned.asked
            with gc_paused():
                seconds["lookups_s"].append(measure_seconds(partial(look_up, session, asked, snapshot.partitions)))
            seconds["partitions"].append(len(asked))
    return seconds


def measure_chunks(servers: str, runs: int, manifests: str) -> dict[str, list[float]]:
    """Measure microseconds of CPU per partition, commit and record of the log.

    It runs the code of a Spark task on the first chunk of each source.
    """
    session = open_session(servers)
    request = scan_request(manifests)
    topics = list_topics(session)
    topics = describe_topics(session, topics, select.select_topics(request, topics.topics))
    selected = select.select_topics(request, topics.topics)
    groups = list_groups(session, hidden=True)
    partition_requests = list(select.partition_requests(selected, topics))
    readers = {
        partition_request.topic: range(len(partition_request.partitions))
        for partition_request in partition_requests
        if partition_request.readers
    }
    task = scan_task(session.connection, readers)
    first_chunks: dict[str, Chunk] = {
        "partition": partition_chunks(partition_requests, select.topics_to_count(request, selected, topics), topics)[0],
        "commit": commit_chunks(select.commit_groups(request, groups))[0],
        "record": log_chunks(log_sizes(servers))[0],
    }
    costs: dict[str, list[float]] = {name: [] for name in first_chunks}
    task_session = KafkaSession(session.connection, isolates=False)
    for _ in range(runs + 1):
        for name, chunk in first_chunks.items():
            with gc_paused():
                start = time.process_time()
                answer = read_chunk(task_session, task, chunk)
                cpu_s = time.process_time() - start
            costs[name].append(cpu_s * 1e6 / _count(answer, name))
    return {name: values[1:] for name, values in costs.items()}


def _count(answer: Answer, unit: str) -> int:
    """Number of partitions, commits or records that the task read, from its own rows."""
    table, column = {"partition": ("topics", "read"), "commit": ("groups", "commits"), "record": ("runs", "records")}[
        unit
    ]
    return sum(row[column] or 0 for row in decode(answer[table]).to_pylist())


def measure(kind: str, *arguments: str) -> Any:
    """Run one measurement in this process. Its Spark stays open."""
    match kind:
        case "session":
            return measure_session(parse_engine(arguments[0]), arguments[1])
        case "scans":
            return measure_scans(parse_engine(arguments[0]), arguments[1], int(arguments[2]), arguments[3:])
        case "plain":
            return baseline.measure(arguments[0], int(arguments[1]))
        case "lookups":
            return measure_lookups(parse_engine(arguments[0]), arguments[1], int(arguments[2]), arguments[3])
        case "chunks":
            return measure_chunks(arguments[0], int(arguments[1]), arguments[2])
        case "log":
            return measure_log_reader(arguments[0], int(arguments[1]))
        case _:
            raise SystemExit(f"unknown measurement {kind}")


def main(*arguments: str) -> None:
    with ExitStack() as stack:
        if arguments[0] == "session" and arguments[3:] == ("bare",):
            # An empty cache has no archive of classes, and scans write none.
            os.environ["XDG_CACHE_HOME"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-cache-"))
        stack.callback(close)
        print(json.dumps(measure(*arguments)))


if __name__ == "__main__":
    main(*sys.argv[1:])
