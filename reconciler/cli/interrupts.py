"""Ctrl-C during apply: the first sends nothing new and waits for what is in flight, the second leaves at once. SIGTERM counts as one."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from reconciler.cli import console

EXIT_INTERRUPTED = 130


@contextmanager
def graceful() -> Iterator[Callable[[], bool]]:
    """A function that says whether to stop, true from the first signal on."""
    asked = 0

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            os._exit(EXIT_INTERRUPTED)
        console.say("stopping: nothing new is sent, waiting for what is in flight (again to leave at once)")

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked > 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
