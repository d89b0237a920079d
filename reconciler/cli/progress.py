"""Shows how far a command is: one line with a bar on a terminal, plain lines elsewhere.

Other output hides the bar first: see `hidden`.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

# rich is imported where it is used: its import takes as long as `validate` itself
REPEAT_S = 2.0
"""Without a terminal, a step that continues is printed again after this time."""
_CHECK_S = 0.5
_BAR_CELLS = 20
_IDLE = "idle"
ERASE_LINE = "\r\x1b[K\x1b[?25h"
"""Removes the line of a bar from a terminal, and shows the cursor again."""


class ProgressDisplay:
    """What a command shows of its steps: nothing, as with -q. Any thread may call it."""

    def __call__(self, step: str, state: str = "", done: int = 0, total: int = 0, /) -> None:
        """Show the step that runs now, and how far it is; see `model.progress`."""

    def idle(self, status: str) -> None:
        """Show what is known while nothing is done."""

    def restart(self) -> None:
        """Forget the step, and count the time from now on."""

    def close(self, *, ending: str) -> None:
        """End, and print the ending with the elapsed time: `done` or `interrupted`; empty: print nothing."""

    def hidden(self) -> AbstractContextManager[None]:
        """Make room for the block, which writes to the same terminal."""
        return nullcontext()


def shows_bar() -> bool:
    """Whether stderr is a terminal on which a line can be drawn again."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class StepLines(ProgressDisplay):
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

    def __call__(self, step: str, state: str = "", _done: int = 0, _total: int = 0, /) -> None:
        with self._lock:
            self._message = f"{step} ({state})" if state else step
            if step != self._step:
                self._step = step
                self._print(self._message)
            if self._thread is None:
                thread = threading.Thread(target=self._keep_repeating, name="progress", daemon=True)
                thread.start()
                self._thread = thread  # only now: `close` waits for it, and a signal may come before it has started

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


class ProgressBar(ProgressDisplay):
    """One line at the bottom of a terminal: the step, a bar where it counts, the elapsed time."""

    def __init__(self, *, color: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Display
        from rich.table import Column

        column = Column(no_wrap=True)
        self._text = TextColumn("{task.description}", markup=False, table_column=column)
        # A status says what needs a person: it takes several lines rather than being cut off.
        self._status = TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold"))
        self._spinner, self._elapsed = SpinnerColumn(table_column=column), TimeElapsedColumn(table_column=column)
        self._bar = BarColumn(_BAR_CELLS, table_column=column)
        # Nothing is redirected: `hidden` keeps every writer apart from the bar.
        self._display = Display(
            console=Console(stderr=True, highlight=False, emoji=False, no_color=not color),
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._display.add_task("")
        (self._task,) = self._display.tasks
        self._lock = threading.RLock()
        self._hidden = 0
        self.restart()
        self._display.start()

    def __call__(self, step: str, state: str = "", done: int = 0, total: int = 0, /) -> None:
        self._is_step = bool(step)
        self._task.description = f"{step} ({state})" if state else step
        self._task.completed, self._task.total = done, total
        self._show(self._spinner, self._text, *([self._bar] if total else []), self._elapsed)

    def idle(self, status: str) -> None:
        self._is_step = False
        self._task.description = status
        self._show(self._status)

    def _show(self, *columns: "ProgressColumn") -> None:
        self._columns = self._display.columns = columns

    def restart(self) -> None:
        self("")
        self._task.start_time = self._display.get_time()

    def close(self, *, ending: str) -> None:
        with self.hidden():
            self._hidden += 1  # for good
            if ending and self._is_step:
                print(f"{ending} after {self._task.elapsed or 0:.0f} s", file=sys.stderr, flush=True)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        with self._lock:
            self._hidden += 1
            # rich begins again above the lines that it has shown, where other output may be now: one line
            self._display.columns = ()
            self._display.stop()
            try:
                yield
            finally:
                self._hidden -= 1
                if not self._hidden:
                    self._display.columns = self._columns
                    self._display.start()


_NOTHING = ProgressDisplay()
_current = _NOTHING


@contextmanager
def shown(
    create: Callable[[], ProgressDisplay], *, is_interrupted: Callable[[], bool] = lambda: False
) -> Iterator[ProgressDisplay]:
    """Yield the progress of the command; inside another block, that one, with a new clock.

    `is_interrupted`: at the end, whether a signal ended the block before it was done.
    """
    global _current  # noqa: PLW0603 - a process has one terminal
    if _current is not _NOTHING:
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
        _current = _NOTHING
        current.close(ending=ending)


def hidden() -> AbstractContextManager[None]:
    """Write other output in this block: the bar of the command, if any, does not stay on a line."""
    return _current.hidden()
