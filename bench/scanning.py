"""One measurement in a process of its own: a session's start, scans in a warm session, or the plain calls. Prints one JSON object.

    python -m bench.scanning session ENGINE [bare]    bare: without the archive of classes
    python -m bench.scanning scans ENGINE SERVERS REPEAT NEEDS…     NEEDS: empty, partitions, log, or a folder of manifests
    python -m bench.scanning plain SERVERS REPEAT
    python -m bench.scanning log SERVERS REPEAT
    python -m bench.scanning chunks SERVERS REPEAT MANIFESTS

ENGINE is a Spark master or an sc:// address. What the figures mean is told in bench.scan.
"""

import gc
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import plain
from bench.world import DAY_MS, FIRST, LOG, log_sizes
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets import read_commit_log
from reconciler.kafka.groups import list_groups
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import describe_topics, list_topics
from reconciler.manifest.files import load
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.plan import planner
from reconciler.sandbox import client
from reconciler.scan import requests
from reconciler.scan.scan import SparkTarget, close, scan
from reconciler.scan.session import PendingSession
from reconciler.scan.task_rows import RUN, Chunk, ScanTask, read_chunk

TIMEOUT_S = 60.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def needs(name: str) -> ScanRequest:
    """What is asked of the cluster, by name; any other name is a folder of manifests."""
    week_ago = now_ms() - 7 * DAY_MS
    match name:
        case "empty":
            return ScanRequest(topics=(TopicRequest(topics=(Selector(FIRST),), offsets=True),))
        case "partitions":
            return ScanRequest(
                topics=(TopicRequest(topics=(Selector("bench-*"),), offsets=True, instants_ms=(week_ago,)),)
            )
        case "log":
            return ScanRequest(groups=(GroupRequest(groups=(Selector("nobody"),), activity=True),))
        case _:
            return planner.scan_request(load([Path(name)], now_ms=now_ms()).policies, now_ms())


def engine_of(text: str) -> SparkTarget:
    return SparkTarget(remote=text) if text.startswith("sc://") else SparkTarget(master=text)


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def session(engine: SparkTarget) -> dict[str, float]:
    """From asking for a session to having it, and to its first row back from a Python worker."""
    started = time.perf_counter()
    opened = PendingSession(engine).result()
    ready_s = time.perf_counter() - started
    opened.range(0, 1, 1, 1).mapInArrow(lambda rows: rows, "id long").toArrow()
    first_s = time.perf_counter() - started
    return {"session_s": ready_s, "first_row_s": first_s}


def scans(engine: SparkTarget, servers: str, repeat: int, names: Sequence[str]) -> dict[str, list[float]]:
    """Seconds of each scan in a session that has done the same scan once before."""
    found: dict[str, list[float]] = {}
    for name in names:
        wanted = needs(name)

        def once(wanted: ScanRequest = wanted) -> None:
            scan(
                wanted,
                KafkaSession(Connection(tuple(servers.split(",")), timeout_s=TIMEOUT_S)),
                observed_at_ms=now_ms(),
                last_purges={},
                engine=engine,
                progress=lambda said: print(said, file=sys.stderr),
            )

        once()
        found[name] = [timed(once) for _ in range(repeat)]
    return found


def log_alone(servers: str, repeat: int) -> dict[str, list[float]]:
    """Our reader of the commit log without Spark: one process, one Python thread, one consumer."""
    session = KafkaSession(Connection(tuple(servers.split(",")), timeout_s=TIMEOUT_S))
    partitions = sorted(client.partition_states(servers, LOG))
    read: list[float] = []
    found: list[float] = []
    cpu: list[float] = []
    for _ in range(repeat):
        with _unswept():
            started, cpu_started = time.perf_counter(), time.process_time()
            batch = read_commit_log(session, partitions, origins={})
            found.append(time.perf_counter() - started)
            cpu.append(time.process_time() - cpu_started)
        read.append(sum(count or 0 for count in batch.column("records").to_pylist()))
    return {"log_s": found, "cpu_s": cpu, "records": read}


def chunks(servers: str, repeat: int, manifests: str) -> dict[str, list[float]]:
    """Microseconds of CPU per partition, commit and record of the log: what a Spark task runs, on its first chunk of each source."""
    session = KafkaSession(Connection(tuple(servers.split(",")), timeout_s=TIMEOUT_S))
    asked = needs(manifests)
    topics = list_topics(session)
    topics = describe_topics(session, topics, requests.selected_topics(asked, topics.topics))
    groups = list_groups(session, hidden=True)
    asks = list(requests.partition_requests(asked, topics))
    work = ScanTask(
        connection=session.connection,
        readers={wish.topic: range(len(wish.partitions)) for wish in asks if wish.readers},
        named={},
        groups=asked.groups,
        until_s=math.inf,
        log_limit_s=math.inf,
    )
    first: dict[str, Chunk] = {
        "partition": requests.partition_chunks(asks, requests.counted_topics(asked, topics), topics)[0],
        "commit": requests.commit_chunks(requests.commit_groups(asked, groups))[0],
        "record": requests.log_chunks(log_sizes(servers))[0],
    }
    costs: dict[str, list[float]] = {name: [] for name in first}
    for _ in range(repeat + 1):
        for name, chunk in first.items():
            with _unswept():
                started = time.process_time()
                batches = list(read_chunk(work, 0, chunk, now_s=time.time(), isolated=False))
                cpu_s = time.process_time() - started
            costs[name].append(cpu_s * 1e6 / _records(batches))
    return {name: runs[1:] for name, runs in costs.items()}


def _records(batches: Sequence[pa.RecordBatch]) -> int:
    """How many partitions, commits or records were read, by what the batches say of the run itself."""
    rows = pa.Table.from_batches(batches).to_pylist()
    return sum(row["records"] or 0 for row in rows if row["subject"] == RUN)


@contextmanager
def _unswept() -> Iterator[None]:
    """No search for cycles meanwhile, as in the tasks."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def measured(kind: str, *words: str) -> Any:
    """One measurement in this process. Its session is left open."""
    match kind:
        case "session":
            return session(engine_of(words[0]))
        case "scans":
            return scans(engine_of(words[0]), words[1], int(words[2]), words[3:])
        case "plain":
            return plain.measured(words[0], int(words[1]))
        case "chunks":
            return chunks(words[0], int(words[1]), words[2])
        case "log":
            return log_alone(words[0], int(words[1]))
        case _:
            raise SystemExit(f"unknown measurement {kind}")


def main(*words: str) -> None:
    with ExitStack() as running:
        if words[0] == "session" and words[2:] == ("bare",):
            # A user's cache that is empty holds no archive; the first run does not write one either.
            os.environ["XDG_CACHE_HOME"] = running.enter_context(tempfile.TemporaryDirectory(prefix="bench-cache-"))
        running.callback(close)
        print(json.dumps(measured(*words)))


if __name__ == "__main__":
    main(*sys.argv[1:])
