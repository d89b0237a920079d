"""One Spark Connect server for all worker processes of a run, owned by the main process, which hands the tests out.

A worker asks for it by a file in a folder that all of them know, and the main process answers by another. So it is started once, when
the first test needs it, and ends with the run, however a worker ended.
"""

import threading
import time
from pathlib import Path

from tests.spark.servers import CONNECT_LOG, QUICK_START, START_LIMIT_S, connect_server

POLL_S = 0.1


class SharedServer:
    """The main process's side: a thread that waits for the first request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="spark-connect", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server, if it was started."""
        self._closing.set()
        self._thread.join()

    def _serve(self) -> None:
        while not (self._folder / "request").exists():
            if self._closing.wait(POLL_S):
                return
        with connect_server(self._folder, java_options=QUICK_START) as address:
            draft = self._folder / "draft"
            draft.write_text(address)
            draft.replace(self._folder / "answer")
            self._closing.wait()


def ask(folder: Path) -> str:
    """A worker's side: ask for the server and wait for its address. Raises TimeoutError, with the log's place."""
    (folder / "request").touch()
    answer = folder / "answer"
    deadline = time.monotonic() + START_LIMIT_S
    while not answer.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no Spark Connect server within {START_LIMIT_S} s: its log is {folder / CONNECT_LOG}")
        time.sleep(POLL_S)
    return answer.read_text()
