"""`python -m reconciler.scan.prepare` writes the archive of Spark's classes (docs/adr/0010).

`make setup` runs it. Otherwise the second scan on a machine writes the archive.
"""

import math
import sys

from reconciler.errors import ReconcilerError
from reconciler.kafka.connect import Connection
from reconciler.scan.chunking import Chunk
from reconciler.scan.jvm import find_java, spark_home, write_at_next_start
from reconciler.scan.query import run_query
from reconciler.scan.session import PendingSession, SparkTarget, close
from reconciler.scan.task_rows import ScanTask


def main() -> None:
    """Write the archive if there is none. A failure is a warning: scans work without it."""
    try:
        if write_at_next_start(find_java(), spark_home() / "jars"):
            session = PendingSession(SparkTarget()).result()
            # The discard port: a query that reads nothing loads the same classes.
            no_broker = Connection(("127.0.0.1:9",), timeout_s=1.0)
            task = ScanTask(
                connection=no_broker, readers={}, topic_ids={}, named={}, groups=(), until_s=math.inf, log_limit_s=1.0
            )
            run_query(session, task, [Chunk(groups=("no-group",))], limit_s=120.0, progress=lambda _message: None)
    except (ReconcilerError, OSError) as error:
        sys.stderr.write(f"warning: no archive of Spark's classes was written, so scans start more slowly: {error}\n")
    finally:
        # The JVM writes the archive at its end.
        close()


if __name__ == "__main__":
    main()
