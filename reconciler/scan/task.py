"""The function that runs in Spark's Python workers: chunk numbers in, facts out.

code_archive.py puts everything that it imports on the workers' path.
"""

import gc
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from reconciler.scan.task_rows import Chunk, ScanTask, read_chunk


def read_chunks(task: ScanTask, chunks: Sequence[Chunk], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over a range: each id is the number of a chunk."""
    from pyspark import TaskContext

    context = TaskContext.get()
    # The client library can crash while a coordinator moves; the next attempt reads commits in a worker process.
    isolated = context is not None and context.attemptNumber() > 0
    # The chunk has hundreds of thousands of small objects until its end: garbage collection took a third of the
    # time.
    gc.disable()
    try:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_chunk(task, number, chunks[number], now_s=time.time(), isolated=isolated)
    finally:
        gc.enable()
