"""Reads with an engine as a scan does, without a cluster: for tests of the engines themselves.

`python -m tests.spark.reading ENGINE SERVERS [TOPIC GROUP] [CONF=VALUE …]` reads once, and then once more
for each line of standard input. It prints the number of answers and the id of the process of Spark, if any,
or with a topic and a group the snapshot of a scan, which engines in one process could not share. An empty
line follows. ENGINE: `inline`, a Spark master or an sc:// address. SERVERS: brokers that the task waits for;
"": it reads nothing. OBSERVED_AT_MS is fixed, so that equal clusters give equal snapshots.
"""

import os
import pprint
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.model.progress import Progress
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import NOT_ASKED, Unknown
from reconciler.scan import read_chunks, spark_process
from reconciler.scan.chunks import Chunk
from reconciler.scan.engine_choice import Engine, EngineName
from reconciler.scan.scan import scan
from reconciler.scan.task_rows import Answer, ScanTask
from tests.spark.processes import MARK, temporary_folder

REQUEST = ScanRequest(topics=(TopicRequest(topics=(Selector("t"),), offsets=True),))
"""A request that needs Spark."""
OBSERVED_AT_MS = 1_000_000
TIMEOUT_S = 60.0
NOTHING = (Chunk(),)
GROUP = (Chunk(groups=("g",)),)


def scan_task(servers: str, timeout_s: float = TIMEOUT_S) -> ScanTask:
    """Return a task that waits for these brokers."""
    connection = Connection((servers,), timeout_s=timeout_s)
    return ScanTask(connection=connection, until_s=time.time() + TIMEOUT_S, log_limit_s=TIMEOUT_S)


def read(
    engine: Engine,
    chunks: Sequence[Chunk] = NOTHING,
    *,
    servers: str = "127.0.0.1:9",
    timeout_s: float = TIMEOUT_S,
    limit_s: float = 300.0,
    progress: Progress = lambda *_step: None,
) -> list[Answer]:
    """Read these chunks with an engine. No broker is asked for empty chunks."""
    task = scan_task(servers, timeout_s)
    with closing(KafkaSession(task.connection)) as session:
        return read_chunks.read(REQUEST, engine, session, task, chunks, limit_s=limit_s, progress=progress)


def print_step(step: str, state: str = "", *_count: int) -> None:
    """Print a step of progress on stderr, with its state in parentheses."""
    print(f"{step} ({state})" if state else step, file=sys.stderr)


def without_spark_variables() -> dict[str, str]:
    """Return the variables of this process without a choice of the tasks' interpreter."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}


@contextmanager
def start(*words: str, mark: str = "", temporary: Path | None = None) -> Iterator["subprocess.Popen[str]"]:
    """Run this module, with a mark.

    `temporary`: the temporary folder, also of Java, which does not read TMPDIR.
    """
    with subprocess.Popen(
        [sys.executable, "-m", __name__, *words],
        env=without_spark_variables() | {MARK: mark} | (temporary_folder(temporary) if temporary else {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def ends_within(limit_s: float) -> Iterator[None]:
    """The block takes less than these seconds: a bound, no measurement."""
    started_s = time.monotonic()
    yield
    assert time.monotonic() - started_s < limit_s


def next_lines(process: "subprocess.Popen[str]", *, is_first: bool = False) -> list[str]:
    """Ask a process for a reading, unless it is the first; return its lines until an empty one."""
    assert process.stdin is not None
    assert process.stdout is not None
    if not is_first:
        print(file=process.stdin, flush=True)
    lines: list[str] = []
    for line in process.stdout:
        if line == "\n":
            return lines
        lines.append(line.rstrip("\n"))
    raise AssertionError(process.communicate(timeout=TIMEOUT_S)[1])


def next_answers(process: "subprocess.Popen[str]", *, is_first: bool = False) -> int:
    """Ask a process for a reading, unless it is the first, and wait for it. Return the process of Spark."""
    (line,) = next_lines(process, is_first=is_first)
    answers, pid = map(int, line.split())
    assert answers == len(NOTHING)
    return pid


def parse_engine(name: str, conf: Sequence[str] = ()) -> Engine:
    """Return `inline`, or Spark at an address."""
    if name == EngineName.INLINE:
        return Engine(name=EngineName.INLINE)
    properties = dict(pair.split("=", 1) for pair in conf)
    return Engine(remote=name, conf=properties) if name.startswith("sc://") else Engine(master=name, conf=properties)


def scan_text(engine: Engine, servers: str, topic: str, group: str) -> str:
    """Scan a topic and groups, and return their facts only, a line each; other tests change the shared cluster."""
    of_topic = TopicRequest(
        topics=(Selector(topic),), offsets=True, instants_ms=(0, 5_000), readers=True, named_groups=frozenset({group})
    )
    of_groups = GroupRequest(groups=(Selector(f"{group}*"),), activity=True)
    needs = ScanRequest(topics=(of_topic,), groups=(of_groups,), topic_records=True)
    with closing(KafkaSession(Connection(tuple(servers.split(","))))) as session:
        snapshot = scan(
            needs, session, observed_at_ms=OBSERVED_AT_MS, last_purges={}, engine=engine, progress=print_step
        )
    consumers = snapshot.topics[topic].consumers
    facts = [
        # The order of a set differs between processes.
        replace(snapshot.topics[topic], consumers=NOT_ASKED),
        consumers if isinstance(consumers, Unknown) else sorted(consumers),
        *snapshot.partitions.items(),
        *sorted((name, facts) for name, facts in snapshot.groups.items() if name.startswith(group)),
        (snapshot.topics_incomplete, snapshot.groups_incomplete, snapshot.readers_incomplete),
    ]
    return "\n".join(pprint.pformat(fact, width=sys.maxsize) for fact in facts)


def main(name: str, servers: str = "", *words: str) -> None:
    engine = parse_engine(name, [word for word in words if "=" in word])
    subjects = [word for word in words if "=" not in word]
    for _turn in chain([""], sys.stdin):
        if subjects:
            line = scan_text(engine, servers, *subjects)
        else:
            answers = read(engine, GROUP if servers else NOTHING, servers=servers, progress=print_step)
            is_inline = engine.name is EngineName.INLINE
            line = f"{len(answers)} {0 if is_inline else spark_process.start_spark(engine).child.process.pid}"
        print(line, end="\n\n", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
