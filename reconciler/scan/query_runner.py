"""Runs the query in a thread, so that Ctrl-C and the deadline reach it; decides nothing about what is read."""

import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler.errors import ScanFailed
from reconciler.scan.query import scan_query
from reconciler.scan.session import close, first_line, log_hint
from reconciler.scan.task_rows import Chunk, CommitsChunk, LogChunk, PartitionsChunk, ScanTask
from reconciler.scan.timed_call import TimedCall

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SLICE_S = 0.25
_INTERRUPT_LIMIT_S = 3.0
_PROGRESS_EVERY_S = 2.0


def run(
    session: "SparkSession",
    work: ScanTask,
    chunks: Sequence[Chunk],
    *,
    limit_s: float,
    progress: Callable[[str], None],
) -> pa.Table:
    """The rows of `reduce.reduced`. Raises ScanFailed past `limit_s` or if Spark gives up; Ctrl-C stops the session, too."""
    tag = f"reconciler-{uuid.uuid4().hex}"
    future: Future[pa.Table] = Future()

    def query() -> None:
        try:
            session.addTag(tag)
            future.set_result(scan_query(session, work, chunks, rows=_about(chunks)).toArrow())
        except BaseException as failure:  # noqa: BLE001 - handed to the waiting thread, which sorts it out
            future.set_exception(failure)

    def interrupted() -> bool:
        """Whether Spark took notice. One that hangs does not, and the session is of no use any more."""
        return TimedCall(lambda: session.interruptTag(tag)).succeeds_within(_INTERRUPT_LIMIT_S)

    threading.Thread(target=query, name="spark-query", daemon=True).start()
    what = _what(chunks)
    progress(f"reading {what}")
    started = said = monotonic()
    try:
        while not future.done():
            _nap(future)
            now = monotonic()
            if now - started > limit_s:
                hint = log_hint()
                if not interrupted():
                    close(at_once=True)
                raise ScanFailed(f"Spark had not read {what} after {limit_s:.0f} s{hint}")
            if now - said > _PROGRESS_EVERY_S:
                said = now
                progress(f"reading {what} ({now - started:.0f} s)")
    except KeyboardInterrupt:
        interrupted()
        close(at_once=True)
        raise
    failure = future.exception()
    if failure is not None:
        raise ScanFailed(f"Spark gave up reading {what}: {first_line(failure)}{log_hint()}") from failure
    return future.result()


def _nap(future: "Future[pa.Table]") -> None:
    try:
        future.exception(timeout=_SLICE_S)
    except TimeoutError:
        return


def _about(chunks: Sequence[Chunk]) -> int:
    """Rows that go into the shuffle, give or take a factor of a few."""
    total = 0
    for chunk in chunks:
        match chunk:
            case PartitionsChunk(asks):
                total += sum(len(ask.partitions) for ask in asks)
            case CommitsChunk(groups):
                total += 50 * len(groups)
            case LogChunk(partitions):
                total += 100 * len(partitions)
    return total


def _what(chunks: Sequence[Chunk]) -> str:
    partitions = sum(len(a.partitions) for c in chunks if isinstance(c, PartitionsChunk) for a in c.asks)
    groups = sum(len(c.groups) for c in chunks if isinstance(c, CommitsChunk))
    logs = sum(len(c.partitions) for c in chunks if isinstance(c, LogChunk))
    parts = [(partitions, "partitions"), (groups, "groups"), (logs, "partitions of the commit log")]
    return ", ".join(f"{count:,} {name}" for count, name in parts if count)
