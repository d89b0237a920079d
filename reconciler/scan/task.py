"""The function that runs in Spark's Python workers: chunk numbers in, facts out. Everything it imports is shipped (see `ship`)."""

import gc
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from reconciler.scan.task_rows import Chunk, ScanTask, read_chunk


def read_chunks(work: ScanTask, chunks: Sequence[Chunk], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over a range: each id is the number of a chunk."""
    from pyspark import TaskContext

    context = TaskContext.get()
    # The client library can kill a worker while a coordinator moves; the next attempt reads commits in a child process.
    isolated = context is not None and context.attemptNumber() > 0
    # Hundreds of thousands of small objects that all live until the end of the chunk: looking for cycles among them took a third of
    # the time.
    gc.disable()
    try:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_chunk(work, number, chunks[number], now_s=time.time(), isolated=isolated)
    finally:
        gc.enable()
