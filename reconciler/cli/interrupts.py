"""Ctrl-C during apply: the first sends nothing new and waits for what is in flight, the second leaves at once. SIGTERM counts as one.

Leaving at once answers 130 only where no request had gone out; else 5, since nobody waited to see what became of it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from reconciler.apply.results import EXIT_PARTLY

EXIT_INTERRUPTED = 130


class Interrupts:
    """How often a signal came, and whether anything may have been written by then."""

    def __init__(self) -> None:
        self._asked = 0
        self._sent = False

    def __call__(self) -> bool:
        """Whether to stop."""
        return self._asked > 0

    def sending(self) -> None:
        """A request is about to go out. Called from the threads that send."""
        self._sent = True

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._asked += 1
        if self._asked > 1:
            os._exit(EXIT_PARTLY if self._sent else EXIT_INTERRUPTED)
        # Not through print: a signal that comes while the main thread prints would find its buffer taken.
        with suppress(OSError):
            os.write(2, b"stopping: nothing new is sent, waiting for what is in flight (again to leave at once)\n")


@contextmanager
def graceful() -> Iterator[Interrupts]:
    """Says whether to stop, true from the first signal on."""
    interrupts = Interrupts()
    before = {number: signal.signal(number, interrupts.on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
