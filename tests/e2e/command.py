"""The command line as a process of its own, without a terminal and without the settings of whoever runs the tests."""

import os
import subprocess
import sys
from pathlib import Path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "reconciler", *words]


def environment(**more: str) -> dict[str, str]:
    """This process's, without RECONCILER_… settings, and with `more`."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RECONCILER_")} | more


def output(folder: Path, *words: str, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run in `folder` to the end. What it said is the bytes that a terminal would get."""
    return subprocess.run(
        command(*words),
        cwd=folder,
        env=environment(**more),
        input=stdin,
        capture_output=True,
        timeout=300,
        check=False,
    )


def reconciler(folder: Path, *words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """The same as text."""
    done = output(folder, *words, stdin=stdin.encode(), **more)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
