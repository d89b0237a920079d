"""`python -m reconciler.scan.prepare` writes the archive of Spark's classes (docs/adr/0010).

`make setup`, the image and the action run it. Scans only use the archive.
"""

import math
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from reconciler import class_archive
from reconciler.errors import ReconcilerError, ScanFailed
from reconciler.kafka.connect import Connection
from reconciler.scan.chunks import Chunk
from reconciler.scan.engine_choice import Engine
from reconciler.scan.java import find_java, spark_home
from reconciler.scan.spark_process import ClassicContext
from reconciler.scan.task_rows import ScanTask

_LIMIT_S = 180.0
_WRITE = "--write"


def main() -> None:
    """Write the archive if there is none. A failure is a warning: scans work without it."""
    try:
        path = class_archive.archive_path("spark", find_java(), spark_home() / "jars")
        if path.is_file():
            return
        with tempfile.TemporaryDirectory(prefix="kafka-reconciler-classes-") as folder:
            written = Path(folder) / path.name
            # The output ends when the JVM has, which writes the archive last.
            with subprocess.Popen(
                [sys.executable, "-P", "-m", __spec__.name, _WRITE, str(written)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            ) as process:
                try:
                    output, _ = process.communicate(timeout=_LIMIT_S)
                finally:
                    with suppress(ProcessLookupError):  # the JVM is in the same group
                        os.killpg(process.pid, signal.SIGKILL)
            if not written.is_file():
                raise ScanFailed(f"the JVM wrote none: {output[-2_000:]}")
            class_archive.store(written, path)
    except (ReconcilerError, OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"warning: no archive of Spark's classes was written, so scans start more slowly: {error}\n")


def run_job(archive: Path) -> None:
    """Run the job of a scan in a JVM that writes its classes to the archive at its end."""
    with tempfile.TemporaryDirectory(prefix="kafka-reconciler-spark-") as folder:
        context = ClassicContext(Engine(), Path(folder), archive_flags=(class_archive.write_flag(archive),))
        # The discard port: a job that reads nothing loads the same classes.
        no_broker = Connection(("127.0.0.1:9",), timeout_s=1.0)
        task = ScanTask(
            connection=no_broker, cluster_id=None, readers={}, topic_ids={}, named={}, until_s=math.inf, log_limit_s=1.0
        )
        context.read(task, [Chunk(groups=("no-group",))])
        context.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == [_WRITE]:
        run_job(Path(sys.argv[2]))
    else:
        main()
