"""Shows how far a command is: one line with a bar on a terminal, plain lines elsewhere.

A message that counts (`3 of 40`) fills the bar. Other output hides the bar first: see `hidden`.
"""

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

# rich is imported where it is used: its import takes as long as `validate` itself
REPEAT_S = 2.0
"""Without a terminal, a step that continues is printed again after this time."""
_CHECK_S = 0.5
_BAR_CELLS = 20
_IDLE = "idle"
_COUNT = re.compile(r"(?P<done>[\d,]+) of (?P<total>[\d,]+)\b")
ERASE_LINE = "\r\x1b[K\x1b[?25h"
"""Removes the line of a bar from a terminal, and shows the cursor again."""


class Progress(Protocol):
    """What a command shows of its steps. Any thread may call it."""

    def __call__(self, message: str) -> None:
        """Show the step that runs now."""
        ...

    def idle(self, status: str) -> None:
        """Show what is known while nothing is done."""
        ...

    def restart(self) -> None:
        """Forget the step, and count the time from now on."""
        ...

    def close(self, *, ending: str) -> None:
        """End, and print the ending with the elapsed time: `done` or `interrupted`; empty: print nothing."""
        ...


def shows_bar() -> bool:
    """Whether stderr is a terminal on which a line can be drawn again."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def count(message: str) -> tuple[int, int] | None:
    """Return done and total of a message that counts; None: it does not."""
    match = _COUNT.search(message)
    if match is None:
        return None
    done, total = (int(match[name].replace(",", "") or 0) for name in ("done", "total"))
    return (done, total) if 0 < total >= done else None


class NoProgress:
    """Shows nothing."""

    def __call__(self, message: str) -> None:
        """Ignore the step."""

    def idle(self, status: str) -> None:
        """Ignore the status."""

    def restart(self) -> None:
        """Do nothing."""

    def close(self, *, ending: str) -> None:
        """Do nothing."""


class StepLines:
    """Prints a line when a step begins, and again while it continues, so that no log looks dead.

    `print_line` must not fail. Nothing is repeated while the command is idle.
    """

    def __init__(self, print_line: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._print_line, self._clock = print_line, clock
        self._lock = threading.Lock()
        self._started_s = self._printed_s = clock()
        self._message = self._step = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, message: str) -> None:
        step = "".join(character for character in message.partition(" (")[0] if not character.isdigit())
        with self._lock:
            self._message = message
            if step != self._step:
                self._step = step
                self._print(message)
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_repeating, name="progress", daemon=True)
                self._thread.start()

    def idle(self, status: str) -> None:
        with self._lock:
            if self._step != _IDLE:
                self._message, self._step = "", _IDLE
                self._print_line(status)

    def restart(self) -> None:
        with self._lock:
            self._message, self._step, self._started_s = "", "", self._clock()

    def repeat(self) -> None:
        """Print the step again if the last line is old."""
        with self._lock:
            if self._message and self._clock() - self._printed_s >= REPEAT_S:
                self._print(self._message)

    def close(self, *, ending: str) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            if ending and self._message:
                self._print(ending)

    def _print(self, message: str) -> None:
        self._printed_s = self._clock()
        self._print_line(f"[{self._printed_s - self._started_s:6.1f} s] {message}")

    def _keep_repeating(self) -> None:
        while not self._ended.wait(_CHECK_S):
            self.repeat()


class Bar:
    """One line at the bottom of a terminal: the step, a bar where it counts, the elapsed time."""

    def __init__(self, *, color: bool) -> None:
        from rich.console import Console
        from rich.spinner import Spinner

        self._console = Console(stderr=True, highlight=False, emoji=False, no_color=not color)
        self._spinner = Spinner("dots")
        self._started_s = time.monotonic()
        self._message = self._status = ""
        self._lock = threading.RLock()
        self._hidden = 0
        self._live: Live | None = None
        self._show()

    def __call__(self, message: str) -> None:
        self._message, self._status = message, ""

    def idle(self, status: str) -> None:
        self._message, self._status = "", status

    def restart(self) -> None:
        self._message, self._status, self._started_s = "", "", time.monotonic()

    def close(self, *, ending: str) -> None:
        with self.hidden():
            self._hidden += 1  # for good
            if ending and self._message:
                print(f"{ending} after {self._elapsed()}", file=sys.stderr, flush=True)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Remove the line while the block writes to the same terminal."""
        with self._lock:
            self._hidden += 1
            if self._live is not None:
                self._live.stop()
                self._live = None
            try:
                yield
            finally:
                self._hidden -= 1
                if not self._hidden:
                    self._show()

    def _show(self) -> None:
        from rich.live import Live

        # Nothing is redirected: `hidden` keeps every writer apart from the bar.
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._started_s:.0f} s"

    def _render(self) -> "Table":
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        cells: list[object] = [Text(self._status or self._message or "…", no_wrap=True, overflow="ellipsis")]
        row = Table.grid(padding=(0, 1))
        if not self._status:
            cells.insert(0, self._spinner)
            if counted := count(self._message):
                cells.append(ProgressBar(total=counted[1], completed=counted[0], width=_BAR_CELLS))
            cells.append(Text(self._elapsed(), no_wrap=True))
        for _cell in cells:
            row.add_column(no_wrap=True, overflow="ellipsis")
        row.add_row(*cells)  # type: ignore[arg-type]
        return row


_current: Progress | None = None


@contextmanager
def shown(create: Callable[[], Progress], *, is_interrupted: Callable[[], bool] = lambda: False) -> Iterator[Progress]:
    """Yield the progress of the command; inside another block, that one, with a new clock.

    `is_interrupted`: at the end, whether a signal ended the block before it was done.
    """
    global _current  # noqa: PLW0603 - a process has one terminal
    if _current is not None:
        current = _current
        current.restart()
        try:
            yield current
        except BaseException:
            current.restart()  # what failed is not done
            raise
        return
    current = _current = create()
    ending = ""
    try:
        yield current
        ending = "interrupted" if is_interrupted() else "done"
    finally:
        _current = None
        current.close(ending=ending)


@contextmanager
def hidden() -> Iterator[None]:
    """Write other output in this block: the bar of the command, if any, does not stay on a line."""
    if isinstance(_current, Bar):
        with _current.hidden():
            yield
    else:
        yield
