"""`python -m reconciler.scan.prepare`: writes the archive of Spark's classes before the first scan (docs/adr/0010).

`make setup` runs it. Otherwise the second scan on a machine writes the archive, and each of several scans
in parallel would write one.
"""

import math
import sys

from reconciler.errors import ReconcilerError
from reconciler.kafka.connect import Connection
from reconciler.scan.jvm import ask_for_archive
from reconciler.scan.query import run_query
from reconciler.scan.requests import CommitsChunk
from reconciler.scan.session import PendingSession, SparkTarget, close
from reconciler.scan.task_rows import ScanTask

_NO_BROKER = Connection(("127.0.0.1:9",), timeout_s=1.0)
"""The discard port, where no server listens: a query that reads nothing loads the same classes."""
_LIMIT_S = 120.0


def write_archive() -> None:
    """Write the archive if there is none, with a session that runs the query of a scan.

    Raises ReconcilerError without Java, and OSError where the user's cache cannot be written.
    """
    if not ask_for_archive():
        return
    try:
        session = PendingSession(SparkTarget()).result()
        task = ScanTask(connection=_NO_BROKER, readers={}, named={}, groups=(), until_s=math.inf, log_limit_s=1.0)
        run_query(session, task, [CommitsChunk(("no-group",))], limit_s=_LIMIT_S, progress=lambda _message: None)
    finally:
        close()


def main() -> None:
    """Write the archive. A failure is only a warning: scans work without an archive."""
    try:
        write_archive()
    except (ReconcilerError, OSError) as error:
        sys.stderr.write(f"warning: no archive of Spark's classes was written, so scans start more slowly: {error}\n")


if __name__ == "__main__":
    main()
