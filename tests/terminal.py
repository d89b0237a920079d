"""Runs a program on a terminal of its own, and reads what stays on the screen."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.command import environment

ROOT = Path(__file__).parents[1]


def run_on_terminal(*words: str, columns: int = 80, expected: int | None = 0, until: str = "", **variables: str) -> str:
    """Return what a command writes to a terminal of that width.

    `expected`: its exit code; None: any. `until`: a text after which Ctrl-C ends it.
    """
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if columns else 0, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=child,
        stdout=child,
        stderr=child,
        cwd=ROOT,
        env=environment(TERM="xterm", **variables),
    )
    os.close(child)
    written = b""
    try:
        with suppress(OSError):  # on Linux, the end of a terminal that the process has closed
            while part := os.read(parent, 65_536):
                written += part
                if until and until.encode() in written:
                    until = ""
                    process.send_signal(signal.SIGINT)
    finally:
        os.close(parent)
        process.wait(60)
    assert expected in (None, process.returncode), written
    return written.decode()


@contextmanager
def keyboard() -> Iterator[tuple[int, int]]:
    """A terminal for the input of a program: the descriptor that a test types into, and that of the program's stdin."""
    keys, stdin = pty.openpty()
    try:
        yield keys, stdin
    finally:
        os.close(keys)
        os.close(stdin)


def screen(written: str) -> list[str]:
    """Return the lines that remain on a terminal of enough columns."""
    lines = [""]
    for part in re.split(r"(\r\n|\n|\r|\x1b\[[?\d;]*[A-Za-z])", written):
        if part in ("\r\n", "\n"):
            lines.append("")
        elif re.fullmatch(r"\x1b\[[012]?K", part):
            lines[-1] = ""
        elif re.fullmatch(r"\x1b\[1?A", part):
            lines.pop()
        elif part == "\r" or part.startswith("\x1b"):
            continue
        else:
            lines[-1] += part
    return [line.rstrip() for line in lines]
