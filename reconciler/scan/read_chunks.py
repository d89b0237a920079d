"""Reads all chunks of a scan, in threads of this process or in Spark, with the same code."""

from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import closing, contextmanager
from dataclasses import replace

from reconciler.errors import ScanFailed
from reconciler.kafka import futures
from reconciler.kafka.session import KafkaSession
from reconciler.model.progress import Progress
from reconciler.model.scan_request import ScanRequest
from reconciler.scan.chunks import Chunk
from reconciler.scan.engine_choice import Engine, reads_inline, starts_spark_first
from reconciler.scan.spark_process import close, start_spark
from reconciler.scan.task_rows import Answer, ScanTask, load_answer, read_chunk
from reconciler.text.formatting import count

_THREADS = 4
_SLICE_S = 0.5
_LATE_S = 1.0
"""How much later than planned a chunk may begin with the session of the process: threads take turns."""


@contextmanager
def started(request: ScanRequest, engine: Engine) -> Iterator[None]:
    """Start Spark, if the request surely needs it, while the block does the first steps."""
    if starts_spark_first(request, engine):
        start_spark(engine)
    else:
        close(unused=True)
    try:
        yield
    except BaseException:
        close(unused=True)
        raise


def read(
    request: ScanRequest,
    engine: Engine,
    session: KafkaSession,
    task: ScanTask,
    chunks: Sequence[Chunk],
    *,
    limit_s: float,
    progress: Progress,
) -> list[Answer]:
    """Return the answers of all chunks. Raises ScanFailed. Ctrl-C ends Spark, too.

    `limit_s`: for the reading, without the start of Spark. A second attempt has what the first left.
    """
    subjects = describe(chunks)
    task = replace(task, connection=session.connection.for_tasks(with_secrets=not engine.executor_secrets))
    if not chunks or reads_inline(request, engine, chunks):
        return _read_inline(session, task, chunks, subjects, limit_s, progress)
    while True:
        process = start_spark(engine)
        is_warm = process.answered
        deadline = futures.Deadline.after(limit_s)
        try:
            answers = process.read(task, chunks, subjects=subjects, limit_s=limit_s, progress=progress)
        except ScanFailed:
            limit_s = deadline.remaining_s
            if is_warm and limit_s > 0:  # its JVM, its context or its server may have ended since the last scan
                continue
            raise
        return list(map(load_answer, answers))


def describe(chunks: Sequence[Chunk]) -> str:
    """Return what the chunks read, in words."""
    sizes = (
        (sum(chunk.partitions for chunk in chunks), "partition", ""),
        (sum(len(chunk.groups) for chunk in chunks), "group", ""),
        (sum(len(chunk.log) for chunk in chunks), "partition", " of __consumer_offsets"),
    )
    return ", ".join(f"{count(size, noun)}{of}" for size, noun, of in sizes if size)


def _read_inline(
    session: KafkaSession, task: ScanTask, chunks: Sequence[Chunk], subjects: str, limit_s: float, progress: Progress
) -> list[Answer]:
    """Read in a few threads with the session of this process."""
    pending = iter(chunks)  # of all threads: each takes the next one
    answers: list[Answer] = []

    def read_in_time(chunk: Chunk) -> Answer:
        if task.patience_s > session.timeout_s - _LATE_S:
            return read_chunk(session, task, chunk)
        # The chunks before have waited for a silent broker, and this one does not wait as long again.
        with closing(KafkaSession(replace(session.connection, timeout_s=task.patience_s))) as impatient:
            return read_chunk(impatient, task, chunk)

    def read_pending() -> None:
        for chunk in pending:
            answers.append(read_in_time(chunk))

    if chunks:
        progress(f"reading {subjects}")
    deadline = futures.Deadline.after(limit_s)
    try:
        reading = [futures.submit(read_pending) for _ in range(min(_THREADS, len(chunks)))]
        while wait(reading, _SLICE_S).not_done:
            if deadline.passed:
                raise ScanFailed(
                    f"the reading of {subjects} was not done after {limit_s:.0f} s: see with `reconciler doctor` that the "
                    "brokers answer; a larger --timeout gives the reading more time"
                )
            elapsed_s = limit_s - deadline.remaining_s
            state = f"{len(answers)} of {len(chunks)} chunks, {elapsed_s:.0f} s"
            progress(f"reading {subjects}", state, len(answers), len(chunks))
        for future in reading:
            future.result()
    finally:
        list(pending)  # after an error the threads read nothing more
    return answers
