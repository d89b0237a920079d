"""Ctrl-C during apply: the first sends nothing new and waits for what is in flight, the second leaves at once. SIGTERM counts as one.

Leaving at once answers 130 only where no request had gone out; else 5, since nobody waited to see what became of it.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from reconciler.apply.results import EXIT_PARTLY

EXIT_INTERRUPTED = 130
_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class SignalState:
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

    def heard(self) -> None:
        """One more signal."""
        self._asked += 1
        if self._asked > 1:
            os._exit(EXIT_PARTLY if self._sent else EXIT_INTERRUPTED)
        # In a thread that nobody waits for: with a reader that stalls the next signal would not be heard.
        threading.Thread(target=_say_stopping, name="stopping", daemon=True).start()


@contextmanager
def handle_signals() -> Iterator[SignalState]:
    """Says whether to stop, true from the first signal on. To be entered in the main thread.

    A thread of its own hears of each signal. A Python handler would wait for the main thread, which may wait for a silent broker itself:
    it wakes only for signals that the kernel gave to it and no other thread, and takes two that came meanwhile for one.
    """
    interrupts = SignalState()
    listening, told = os.pipe()
    os.set_blocking(told, False)
    before = {number: signal.signal(number, _unheard) for number in _NUMBERS}
    woken = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(listening, interrupts), name="signals", daemon=True)
    listener.start()
    try:
        yield interrupts
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(told)
        listener.join()
        os.close(listening)


def _say_stopping() -> None:
    # Not through print: a signal that comes while the main thread prints would find its buffer taken.
    with suppress(OSError):
        os.write(2, b"stopping: nothing new is sent, waiting for what is in flight (again to leave at once)\n")


def _listen(to: int, interrupts: SignalState) -> None:
    while numbers := os.read(to, 64):
        for number in numbers:
            if number in _NUMBERS:
                interrupts.heard()


def _unheard(_number: int, _frame: FrameType | None) -> None:
    """Something has to be installed, or the signal would end the process."""
