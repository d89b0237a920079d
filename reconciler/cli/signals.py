"""Handles SIGINT, SIGTERM and, of a terminal that closes, SIGHUP during apply.

The first signal stops new requests and waits for those in flight; the second ends the process. It
then exits with 130 if no request was sent, else with 5, because the outcome is unknown.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.cli.log_lines import JsonLines
from reconciler.cli.progress import ERASE_LINE, shows_bar
from reconciler.errors import ExitCode

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOPPING = {
    False: "stopping: no request is sent (press again to exit at once)",
    True: "stopping: no new request is sent; waiting for requests in flight (press again to exit at once)",
}
_ENDED = {
    False: "ended at once: no request was sent",
    True: (
        "ended at once: what became of the requests in flight is not known, and their results were not written: "
        "run the same command again, which reads it back, and see `reconciler journal`"
    ),
}
"""What the first and the last line say. Key: whether a request may have been sent."""
_SAME_S = 0.2
"""A signal so soon after the first one is no second one: timeout(1) sends one to the command and to its group."""
_WRITE_LIMIT_S = 0.5
"""How long the end waits for a terminal that stalls."""


class SignalState:
    """The number of signals, and whether a request may have been sent. Call it: whether to stop."""

    def __init__(self) -> None:
        self._count = 0
        self._sent = False

    def __call__(self) -> bool:
        return self._count > 0

    def sending(self) -> None:
        """Record that a request is about to be sent. Called from any thread."""
        self._sent = True

    def listen(self, read_fd: int) -> None:
        """Count the signals whose numbers come through a pipe. The second one ends the process."""
        erase = ERASE_LINE if shows_bar() else ""  # a bar may be on the line
        first_s = 0.0
        while numbers := os.read(read_fd, 64):
            for number in filter(_SIGNALS.__contains__, numbers):
                if self._count and (number == signal.SIGHUP or time.monotonic() - first_s < _SAME_S):
                    continue  # a shell sends the SIGHUP of its terminal once more
                first_s = first_s or time.monotonic()
                self._count += 1
                # In its own thread: the next signal must be received even if the reader of stderr
                # stalls. Not with print(): the main thread may hold the buffer's lock.
                is_last = self._count > 1
                said = (_ENDED if is_last else _STOPPING)[self._sent]
                text = f"{erase}{'error: ' * is_last}{said}\n"
                if isinstance(stream := sys.stderr, JsonLines):
                    text = stream.format("ERROR" if is_last else "WARNING", said)
                writing = threading.Thread(target=os.write, args=(2, text.encode()), name="stopping", daemon=True)
                writing.start()
                if is_last:
                    writing.join(_WRITE_LIMIT_S)
                    os._exit(ExitCode.PARTLY if self._sent else ExitCode.INTERRUPTED)


@contextmanager
def handle_signals() -> Iterator[SignalState]:
    """Yield the state of signals; to be entered in the main thread.

    A separate thread receives each signal. A Python handler would run in the main thread, which may
    wait for an unresponsive broker: the kernel may deliver the signal to another thread, and two
    signals in the meantime count as one. After the block, signals do nothing until `restored_handlers` ends:
    the results are told, and nothing but their exit code comes.
    """
    state = SignalState()
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    # A handler that does nothing, because the default one would end the process. nohup ignores SIGHUP.
    ours = (n for n in _SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN)
    for number in ours:
        signal.signal(number, lambda *_: None)
    previous_fd = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    listener = threading.Thread(target=state.listen, args=(read_fd,), name="signals", daemon=True)
    listener.start()
    try:
        yield state
    finally:
        signal.set_wakeup_fd(previous_fd)
        os.close(write_fd)
        listener.join()
        os.close(read_fd)


@contextmanager
def restored_handlers() -> Iterator[None]:
    """Handle signals after the block as before it; to be entered in the main thread."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) != handler:
                signal.signal(number, handler)
