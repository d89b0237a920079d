"""One Spark Connect server for all worker processes of a run; the main process owns it.

A worker requests it by a file in a shared folder, and the main process answers by another file. So
the server starts once, for the first test that needs it, and ends with the run, however a worker
ended.
"""

import threading
import time
from pathlib import Path

from tests.spark.servers import CONNECT_LOG, QUICK_START, START_LIMIT_S, connect_server

POLL_S = 0.1
FAILED = "failed: "
MARGIN_S = 30


class SharedServer:
    """The main process's part: a thread that waits for the first request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="spark-connect", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server if it runs."""
        self._closing.set()
        self._thread.join()

    def _serve(self) -> None:
        while not (self._folder / "request").exists():
            if self._closing.wait(POLL_S):
                return
        try:
            with connect_server(self._folder, java_options=QUICK_START) as address:
                self._answer(address)
                self._closing.wait()
        except (OSError, RuntimeError) as error:
            self._answer(f"{FAILED}{error}")

    def _answer(self, text: str) -> None:
        draft = self._folder / "draft"
        draft.write_text(text)
        draft.replace(self._folder / "answer")


def ask(folder: Path) -> str:
    """The worker's part: request the server and wait for its address.

    Raises RuntimeError if the server does not start.
    """
    (folder / "request").touch()
    answer = folder / "answer"
    deadline = time.monotonic() + START_LIMIT_S + MARGIN_S
    while not answer.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"no answer about the Spark Connect server: its log is {folder / CONNECT_LOG}")
        time.sleep(POLL_S)
    address = answer.read_text()
    if address.startswith(FAILED):
        raise RuntimeError(f"the Spark Connect server did not start: {address.removeprefix(FAILED)}")
    return address
