"""`python -m reconciler.scan.prepare` writes the archive of Spark's classes (docs/adr/0010).

`make setup`, the image and the action run it. Scans only use the archive.
"""

import math
import os
import signal
import sys
import tempfile
from pathlib import Path

from reconciler import class_archive
from reconciler.errors import ReconcilerError, ScanFailed
from reconciler.kafka.child import Child, serve
from reconciler.kafka.connect import Connection
from reconciler.scan.chunks import Chunk
from reconciler.scan.engine_choice import Engine
from reconciler.scan.java import find_java, spark_home
from reconciler.scan.spark_process import LOG_FILE, ClassicContext
from reconciler.scan.task_rows import ScanTask

_LIMIT_S = 180.0


def write_archive() -> None:
    """Write the archive if there is none. A failure is a warning: scans work without it."""
    try:
        path = class_archive.archive_path("spark", find_java(), spark_home() / "jars")
        if path.is_file():
            return
        with tempfile.TemporaryDirectory(prefix="kafka-reconciler-classes-") as folder:
            written, log = Path(folder) / path.name, Path(folder) / LOG_FILE
            with log.open("wb") as output:
                child = Child(__spec__.name, log=output, new_session=True)  # the JVM is in its group
            child.send(written)
            has_ended = child.receive(_LIMIT_S) is not None
            child.end()
            # A JVM that is killed while it writes leaves half an archive.
            if not (has_ended and written.is_file()):
                output_end = log.read_text(errors="replace")[-2_000:]
                raise ScanFailed(f"the JVM did not write one within {_LIMIT_S:.0f} s: {output_end}")
            class_archive.store(written, path)
    except (ReconcilerError, OSError) as error:
        sys.stderr.write(f"warning: no archive of Spark's classes was written, so scans start more slowly: {error}\n")


def main(descriptor: int) -> None:
    """In a process of its own: run the job of a scan in a JVM that writes its classes at its end."""
    pipe, received = serve(descriptor, orphaned=lambda: os.killpg(0, signal.SIGKILL))
    archive = received.get()
    context = ClassicContext(Engine(), archive.parent, archive_flags=(class_archive.write_flag(archive),))
    # The discard port: a job that reads nothing loads the same classes.
    no_broker = Connection(("127.0.0.1:9",), timeout_s=1.0)
    context.read(ScanTask(connection=no_broker, until_s=math.inf, log_limit_s=1.0), [Chunk(groups=("no-group",))])
    context.stop()
    pipe.send("written")


if __name__ == "__main__":
    write_archive()
