"""Reads with an engine as a scan does, without a cluster: for tests of the engines themselves.

`python -m tests.spark.reading ENGINE SERVERS [CONF=VALUE …]` reads once, and then once more for each
line of standard input. It prints the number of answers and the id of the process of Spark, if any, and
an empty line.
ENGINE: `inline`, a Spark master or an sc:// address. SERVERS: brokers that the task waits for; "": it
reads nothing.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.model.progress import Progress
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.scan import read_chunks, spark_process
from reconciler.scan.chunks import Chunk
from reconciler.scan.engine_choice import Engine, EngineName
from reconciler.scan.task_rows import Answer, ScanTask
from tests.spark.processes import MARK, temporary_folder

REQUEST = ScanRequest(topics=(TopicRequest(topics=(Selector("t"),), offsets=True),))
"""A request that needs Spark."""
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
def start(
    *words: str, module: str = __name__, mark: str = "", temporary: Path | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """Run a module, by default this one, with a mark.

    `temporary`: the temporary folder, also of Java, which does not read TMPDIR.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module, *words],
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


def repeat(step: Callable[[], None]) -> None:
    """Do a step, and then once more for each line of standard input."""
    step()
    for _line in sys.stdin:
        step()


def main(name: str, servers: str = "", *conf: str) -> None:
    engine = parse_engine(name, conf)
    chunks = GROUP if servers else NOTHING

    def read_once() -> None:
        answers = read(engine, chunks, servers=servers, progress=print_step)
        is_inline = engine.name is EngineName.INLINE
        pid = 0 if is_inline else spark_process.start_spark(engine).child.process.pid
        print(len(answers), pid, end="\n\n", flush=True)

    repeat(read_once)


if __name__ == "__main__":
    main(*sys.argv[1:])
