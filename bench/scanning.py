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
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import plain
from bench.world import DAY_MS, LOG
from reconciler.kafka import workload
from reconciler.kafka.commit_log import read_commit_log
from reconciler.kafka.connect import Connection
from reconciler.kafka.facts import CommitsChunk, LogChunk, PartitionsChunk, read_chunk
from reconciler.load.files import load
from reconciler.model.needs import GroupNeed, Needs, TopicNeed
from reconciler.model.selector import Selector
from reconciler.plan import planner
from reconciler.scan.scan import Engine, _chunks, _list, _work, close, scan
from reconciler.scan.session import _LOCAL_JVM, Start

TIMEOUT_S = 60.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def needs(name: str) -> Needs:
    """What is asked of the cluster, by name; any other name is a folder of manifests."""
    week_ago = now_ms() - 7 * DAY_MS
    match name:
        case "empty":
            return Needs(topics=(TopicNeed(topics=(Selector("first"),), offsets=True),))
        case "partitions":
            return Needs(topics=(TopicNeed(topics=(Selector("bench-*"),), offsets=True, instants_ms=(week_ago,)),))
        case "log":
            return Needs(groups=(GroupNeed(groups=(Selector("nobody"),), activity=True),))
        case _:
            return planner.needs(load([Path(name)], now_ms=now_ms()).policies, now_ms())


def engine_of(text: str) -> Engine:
    return Engine(remote=text) if text.startswith("sc://") else Engine(master=text)


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def session(engine: Engine) -> dict[str, float]:
    """From asking for a session to having it, and to its first row back from a Python worker."""
    started = time.perf_counter()
    opened = Start(engine).result()
    ready_s = time.perf_counter() - started
    opened.range(0, 1, 1, 1).mapInArrow(_same, "id long").toArrow()
    first_s = time.perf_counter() - started
    close()
    return {"session_s": ready_s, "first_row_s": first_s}


def scans(engine: Engine, servers: str, repeat: int, names: list[str]) -> dict[str, list[float]]:
    """Seconds of each scan in a session that has done the same scan once before."""
    found: dict[str, list[float]] = {}
    for name in names:
        wanted = needs(name)

        def once(wanted: Needs = wanted) -> None:
            scan(
                wanted,
                Connection(tuple(servers.split(",")), timeout_s=TIMEOUT_S),
                observed_at_ms=now_ms(),
                last_purges={},
                engine=engine,
                progress=lambda said: print(said, file=sys.stderr),
                timeout_s=TIMEOUT_S,
            )

        once()
        found[name] = [timed(once) for _ in range(repeat)]
    close()
    return found


def log_alone(servers: str, repeat: int) -> dict[str, list[float]]:
    """Our reader of the commit log without Spark: one process, one Python thread, one consumer."""
    connection = Connection(tuple(servers.split(",")), timeout_s=TIMEOUT_S)
    partitions = sorted(workload.partition_states(servers, LOG))
    read: list[float] = []
    found: list[float] = []
    cpu: list[float] = []
    gc.disable()
    for _ in range(repeat):
        started, cpu_started = time.perf_counter(), time.process_time()
        (batch,) = read_commit_log(connection, partitions, origins={})
        found.append(time.perf_counter() - started)
        cpu.append(time.process_time() - cpu_started)
        read.append(sum(count or 0 for count in batch.column("records").to_pylist()))
    return {"log_s": found, "cpu_s": cpu, "records": read}


def chunks(servers: str, repeat: int, manifests: str) -> dict[str, list[float]]:
    """Microseconds of CPU per partition, commit and record of the log: what a Spark task runs, on its first chunk of each source."""
    connection = Connection(tuple(servers.split(",")), timeout_s=TIMEOUT_S)
    wanted = needs(manifests)
    listed = _list(wanted, connection, lambda _said: None)
    work = _work(wanted, connection, listed)
    found: dict[str, list[float]] = {"partition": [], "commit": [], "record": []}
    first = {type(chunk): chunk for chunk in reversed(_chunks(listed))}
    gc.disable()
    for _ in range(repeat + 1):
        for kind, name in ((PartitionsChunk, "partition"), (CommitsChunk, "commit"), (LogChunk, "record")):
            started = time.process_time()
            *_, run = read_chunk(work, 0, first[kind], now_s=time.time(), isolated=False)
            cpu_s = time.process_time() - started
            count = sum(run.column("records").to_pylist()) if kind is not LogChunk else _records(listed, first[kind])
            found[name].append(cpu_s * 1e6 / count)
    return {name: each[1:] for name, each in found.items()}


def _records(listed: Any, chunk: Any) -> int:
    return sum(listed.log.sizes[number] for number in chunk.partitions)


def _same(batches: Iterator[object]) -> Iterator[object]:
    yield from batches


def main(kind: str, *words: str) -> None:
    match kind:
        case "session":
            conf = {"spark.driver.extraJavaOptions": f"{_LOCAL_JVM} -Dbare=true"} if words[1:] else {}
            found: object = session(replace(engine_of(words[0]), conf=conf))
        case "scans":
            found = scans(engine_of(words[0]), words[1], int(words[2]), list(words[3:]))
        case "plain":
            found = plain.measured(words[0], int(words[1]))
        case "chunks":
            found = chunks(words[0], int(words[1]), words[2])
        case "log":
            found = log_alone(words[0], int(words[1]))
        case _:
            raise SystemExit(f"unknown measurement {kind}")
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
