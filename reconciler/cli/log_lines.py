"""Standard error as JSON, one object a line, where `--log-format json` asks for it.

It covers every writer of this process: messages, steps, errors, log records of libraries, warnings of
Python and tracebacks. It decides by the words themselves, because wrong words are an error, too.
"""

import io
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from itertools import pairwise
from typing import Any, TextIO

from reconciler.clock import wall_clock_ms
from reconciler.text.escape import harmless_json
from reconciler.text.formatting import format_exact_instant
from reconciler.text.redact import redact

VARIABLE = "RECONCILER_LOG_FORMAT"
_WARNING = "warning: "


class JsonLines(io.TextIOBase):
    """A stream that writes JSON lines to another one. Any thread may write.

    `context`: fields of each line: command, cluster and run, as far as they are known.
    """

    def __init__(self, stream: TextIO, command: str) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._partial = ""
        self.context: dict[str, str] = {"command": command} if command else {}

    def line(self, level: str, message: str, **fields: object) -> None:
        """Write one line. A message that begins with `warning: ` is one."""
        text = self.format(level, message, **fields)
        with self._lock:
            self._stream.write(text)
            self._stream.flush()

    def format(self, level: str, message: str, **fields: object) -> str:
        """Return a line with its end. Takes no lock, for the thread that receives signals."""
        if message.startswith(_WARNING):
            level, message = "WARNING", message.removeprefix(_WARNING)
        values = {"at": format_exact_instant(wall_clock_ms()), "level": level, **self.context, "message": message}
        return harmless_json(json.dumps({**values, **fields}, default=str)) + "\n"

    def write(self, text: str) -> int:
        """Take text of Python or a library; each of its lines is one of ours."""
        with self._lock:
            *lines, self._partial = (self._partial + text).split("\n")
        for line in filter(str.strip, lines):
            self.line("WARNING", redact(line), logger="stderr")
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def flush(self) -> None:
        self._stream.flush()

    def finish(self) -> None:
        """Write text that has no end of a line yet."""
        if self._partial:
            self.write("\n")


def asks_for_json(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether words and variables of a command ask for JSON, also where other words are wrong."""
    chosen = environment.get(VARIABLE, "")
    for word, next_word in pairwise([*arguments, ""]):
        name, equals, value = word.partition("=")
        if name == "--log-format":
            chosen = value if equals else next_word
    return chosen == "json"


@contextmanager
def json_lines(command: str) -> Iterator[None]:
    """Write stderr as JSON during the block."""
    with redirect_stderr(JsonLines(sys.stderr, command)) as stream:
        try:
            yield
        finally:
            stream.finish()


@contextmanager
def about(**context: str) -> Iterator[None]:
    """Add fields to each JSON line of the block, such as the cluster."""
    if not isinstance(sys.stderr, JsonLines):
        yield
        return
    stream, before = sys.stderr, sys.stderr.context
    stream.context = before | context
    try:
        yield
    finally:
        stream.context = before


def write_line(level: str, message: str, **fields: Any) -> bool:
    """Write a line as JSON; False: stderr is text."""
    if not isinstance(sys.stderr, JsonLines):
        return False
    sys.stderr.line(level, message, **fields)
    return True
