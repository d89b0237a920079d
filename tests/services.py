"""Servers that all tests of a run share: three brokers, and a Spark Connect server. Each is started when the first test asks for it.

Where pytest-xdist runs the tests in several worker processes, its main process owns the servers: a worker asks by a file in a folder
that all of them know, and the main process answers by another. So a server starts once, and ends with the run however a worker ended.
"""

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from reconciler.sandbox.cluster import Cluster, start, stop

START_LIMIT_S = 240.0
POLL_S = 0.1


@contextmanager
def brokers(_folder: Path) -> Iterator[Cluster]:
    """Start three brokers. A worker gets the cluster without the pipe that keeps it alive."""
    cluster = start(3, name="tests")
    try:
        yield cluster
    finally:
        stop(cluster)


@contextmanager
def spark_connect(folder: Path) -> Iterator[str]:
    """Start a Spark Connect server on loopback; its `sc://` address."""
    from tests.spark.servers import connect_server  # it imports pyspark, which not every run needs

    with connect_server(folder) as address:
        yield address


SERVICES: Mapping[str, Callable[[Path], AbstractContextManager[Any]]] = {
    "brokers": brokers,
    "spark_connect": spark_connect,
}


class ServiceHost:
    """The main process's side: a thread that starts what workers ask for, and a `close` that ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._serve, args=(name,), daemon=True) for name in SERVICES]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End all servers that were started."""
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _serve(self, name: str) -> None:
        request = self._folder / f"{name}.request"
        while not request.exists():
            if self._closing.wait(POLL_S):
                return
        with ExitStack() as running:
            answer: Any
            try:
                answer = running.enter_context(SERVICES[name](self._folder))
            except Exception as error:  # noqa: BLE001 - the worker that asked raises it
                answer = error
            _write(self._folder / f"{name}.answer", _portable(answer))
            self._closing.wait()


def ask(folder: Path, name: str) -> Any:
    """The worker's side: ask for a server, and wait until it runs. Raises what its start raised, or TimeoutError."""
    (folder / f"{name}.request").touch()
    answer = folder / f"{name}.answer"
    deadline = time.monotonic() + START_LIMIT_S
    while not answer.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the main process of the tests did not start {name} within {START_LIMIT_S:.0f} s")
        time.sleep(POLL_S)
    result = pickle.loads(answer.read_bytes())
    if isinstance(result, Exception):
        raise result
    return result


def _portable(answer: Any) -> Any:
    """The answer without what only this process can hold."""
    if isinstance(answer, Cluster):
        from dataclasses import replace

        return replace(answer, lifeline=None)
    if isinstance(answer, Exception):
        return RuntimeError(f"{type(answer).__name__}: {answer}")
    return answer


def _write(path: Path, answer: Any) -> None:
    draft = path.with_suffix(".draft")
    draft.write_bytes(pickle.dumps(answer))
    draft.replace(path)
