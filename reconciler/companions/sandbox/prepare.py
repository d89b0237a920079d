"""`python -m reconciler.companions.sandbox.prepare` fetches Kafka's jars and writes the archive of its classes.

`make setup` runs it. Sandboxes only use the archive, which saves a third of a broker's start
(docs/adr/0010).
"""

import sys
import tempfile
from pathlib import Path

from reconciler import class_archive
from reconciler.companions.sandbox import client, config
from reconciler.companions.sandbox.cluster import start, stopping
from reconciler.companions.sandbox.jars import fetch
from reconciler.companions.sandbox.java import find_java
from reconciler.errors import SandboxError


def main() -> None:
    """Write the archive if there is none. A failure is a warning: sandboxes work without it."""
    try:
        jars = fetch(progress=show)
        path = class_archive.archive_path(config.ARCHIVE, find_java(), jars)
        if path.is_file():
            return
        with tempfile.TemporaryDirectory(prefix="kafka-reconciler-classes-") as folder:
            written = Path(folder) / path.name
            run_broker(written)
            class_archive.store(written, path)
    except (SandboxError, OSError) as error:
        sys.stderr.write(
            f"warning: no archive of Kafka's classes was written, so sandboxes start more slowly: {error}\n"
        )


def show(step: str, state: str = "", done: int = 0, total: int = 0) -> None:
    """Print a step once, and of those with many states each tenth and the last."""
    if done % 10 == 0 or done == total:
        sys.stderr.write(f"setup:   {step}{state and f' ({state})'}\n")


def run_broker(archive: Path) -> None:
    """Run a broker that serves some requests, and writes its classes to the archive at its end."""
    with stopping(start(1, name="prepare", archive=archive)) as cluster:
        client.create_topics(cluster.bootstrap_servers, [client.Topic("topic")])
        client.produce(cluster.bootstrap_servers, "topic", {0: [client.Record(b"value")]})
        client.commit(cluster.bootstrap_servers, "group", {("topic", 0): 1})
        cluster.terminate(1)  # returns after the file is written


if __name__ == "__main__":
    main()
