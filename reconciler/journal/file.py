"""Lines in a local file that several runs share, flushed to disk before a request goes out.

A last line without its end does not count: the request behind it was never sent.
"""

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from reconciler.errors import JournalUnavailable
from reconciler.journal.journal import Line
from reconciler.text.escape import escape_name
from reconciler.text.validation import error_reason

FOLDER = ".reconciler"
"""The folder of journal files, beside the manifest of their cluster."""
_TAIL_BYTES = 64 * 1024
_BLOCK_BYTES = 1024 * 1024
_TIME = re.compile(rb'^\{"v":\d+,"at_ms":(\d{1,18}),', re.MULTILINE)
"""How each line begins, in every format."""
_PATIENCE_S = 120.0
_PAUSE_S = 0.01


class JournalFile:
    """`journal.LineStore` in one file. Safe between threads and between processes.

    The first append creates the file and its folder. An append is complete or has no effect: it
    cuts off what a crash left of a line, and itself where it fails.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()

    def __str__(self) -> str:
        return escape_name(str(self.path))

    def append(self, lines: Sequence[bytes]) -> int | None:
        data = b"".join(line + b"\n" for line in lines)
        until_s = time.monotonic() + _PATIENCE_S  # before the lock: threads behind a frozen process give up together
        try:
            with self._lock, self._locked_file(fcntl.LOCK_EX, os.O_RDWR | os.O_CREAT, until_s) as descriptor:
                end = _end_of_last_line(descriptor)
                os.ftruncate(descriptor, end)
                try:
                    with open(descriptor, "r+b", closefd=False) as file:
                        file.seek(end)
                        file.write(data)
                    os.fsync(descriptor)
                except OSError:
                    # Half a batch of intents would read as requests that were sent.
                    os.ftruncate(descriptor, end)
                    raise
                return None  # a file has no clock but this machine's
        except OSError as error:
            raise JournalUnavailable(
                f"the journal {self} cannot be written: {error_reason(error)}; no request is sent without "
                f"its intent. Next: free disk space, let this user write to {escape_name(str(self.path.parent))}, or "
                "name a topic in spec.journal of the Cluster"
            ) from error

    def lines(self, *, since_ms: int = 0, containing: bytes = b"") -> Iterator[Line]:
        """A file that does not exist has no lines."""
        try:
            with self._locked_file(fcntl.LOCK_SH, os.O_RDONLY, time.monotonic() + _PATIENCE_S) as descriptor:
                # No append cuts off what lies before it, so the lines are read without the lock.
                end = _end_of_last_line(descriptor)
                start = _first_line_since(descriptor, end, since_ms)
            with self.path.open("rb") as file:
                file.seek(start)
                while start < end:
                    line = file.readline()
                    if not line:
                        raise JournalUnavailable(f"the journal {self} was cut off at byte {start} during reading")
                    start += len(line)
                    # What was sought may be in what a crash of the machine left unwritten or cut off.
                    if containing in line or not _is_whole(line):
                        yield Line(line[:-1], f"the line that ends at byte {start}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise JournalUnavailable(f"the journal {self} cannot be read: {error_reason(error)}") from error

    def damaged(self, location: str, error: ValueError) -> JournalUnavailable:
        return JournalUnavailable(
            f"the journal {self} is damaged in {location}: {error}; restore the file, or move it away"
        )

    @contextmanager
    def _locked_file(self, lock: int, flags: int, until_s: float) -> Iterator[int]:
        """A descriptor under an advisory lock, which only a frozen run holds for long."""
        if flags & os.O_CREAT:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        # A repository can hold a link, and a file behind it that says what was reviewed or purged.
        link = next((path for path in (self.path.parent, self.path) if path.is_symlink()), None)
        if link is not None:
            raise JournalUnavailable(
                f"the journal {self} is not used: {escape_name(str(link))} is a link; put a file in its place, or "
                "name a topic in spec.journal of the Cluster"
            )
        # Opening a pipe could wait for ever.
        descriptor = os.open(self.path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
                    break
                if time.monotonic() >= until_s:
                    raise JournalUnavailable(
                        f"the journal {self} has been held by another process for {_PATIENCE_S:.0f} s: check "
                        "whether a run is frozen (fuser, lsof), resume or end it, then try again"
                    )
                time.sleep(_PAUSE_S)
            yield descriptor
        finally:
            os.close(descriptor)


def _is_whole(line: bytes) -> bool:
    """Whether a line begins and ends as each one does, and has none of the null characters of an unwritten block."""
    return _TIME.match(line) is not None and line.endswith(b"}\n") and b"\0" not in line


def _end_of_last_line(descriptor: int) -> int:
    """The offset after the last line end."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _TAIL_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _first_line_since(descriptor: int, end: int, since_ms: int) -> int:
    """The offset of a line such that nearly all lines before it are older than `since_ms`.

    Runs are stamped before they store, and clocks are corrected: one older line proves nothing, a
    block of them is the past.
    """
    start = end if since_ms > 0 else 0
    while start > 0:
        block = max(0, start - _BLOCK_BYTES)
        times = [int(time_ms) for time_ms in _TIME.findall(os.pread(descriptor, start - block, block))]
        if times and max(times) < since_ms:
            break
        start = block
    if start in (0, end):
        return start
    # A line may begin before the block that ends here, so go on to the end of it.
    while b"\n" not in (data := os.pread(descriptor, _TAIL_BYTES, start - 1)):
        start += len(data)
    return start + data.index(b"\n")
