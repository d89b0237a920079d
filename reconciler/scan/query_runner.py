"""Runs the query in a thread, so that Ctrl-C and the time limit reach it."""

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
    task: ScanTask,
    chunks: Sequence[Chunk],
    *,
    limit_s: float,
    progress: Callable[[str], None],
) -> pa.Table:
    """The rows of `scan_query`.

    Raises ScanFailed after `limit_s` or if Spark gives up. Ctrl-C stops the Spark session, too.
    """
    tag = f"reconciler-{uuid.uuid4().hex}"
    future: Future[pa.Table] = Future()

    def query() -> None:
        try:
            session.addTag(tag)
            future.set_result(scan_query(session, task, chunks, rows=_estimated_rows(chunks)).toArrow())
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            future.set_exception(error)

    def interrupt() -> bool:
        """Cancel the query; whether Spark answered. A session that hangs is useless."""
        return TimedCall(lambda: session.interruptTag(tag)).succeeds_within(_INTERRUPT_LIMIT_S)

    threading.Thread(target=query, name="spark-query", daemon=True).start()
    subjects = _subjects(chunks)
    progress(f"reading {subjects}")
    started = reported = monotonic()
    try:
        while not future.done():
            _wait(future)
            now = monotonic()
            if now - started > limit_s:
                hint = log_hint()
                if not interrupt():
                    close(at_once=True)
                raise ScanFailed(f"Spark had not read {subjects} after {limit_s:.0f} s{hint}")
            if now - reported > _PROGRESS_EVERY_S:
                reported = now
                progress(f"reading {subjects} ({now - started:.0f} s)")
    except KeyboardInterrupt:
        interrupt()
        close(at_once=True)
        raise
    error = future.exception()
    if error is not None:
        raise ScanFailed(f"Spark gave up reading {subjects}: {first_line(error)}{log_hint()}") from error
    return future.result()


def _wait(future: "Future[pa.Table]") -> None:
    try:
        future.exception(timeout=_SLICE_S)
    except TimeoutError:
        return


def _estimated_rows(chunks: Sequence[Chunk]) -> int:
    """Rough number of rows that enter the shuffle."""
    total = 0
    for chunk in chunks:
        match chunk:
            case PartitionsChunk(requests):
                total += sum(len(request.partitions) for request in requests)
            case CommitsChunk(groups):
                total += 50 * len(groups)
            case LogChunk(partitions):
                total += 100 * len(partitions)
    return total


def _subjects(chunks: Sequence[Chunk]) -> str:
    partitions = sum(len(r.partitions) for c in chunks if isinstance(c, PartitionsChunk) for r in c.requests)
    groups = sum(len(c.groups) for c in chunks if isinstance(c, CommitsChunk))
    logs = sum(len(c.partitions) for c in chunks if isinstance(c, LogChunk))
    parts = [(partitions, "partitions"), (groups, "groups"), (logs, "partitions of the commit log")]
    return ", ".join(f"{count:,} {name}" for count, name in parts if count)
