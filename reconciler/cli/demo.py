"""`reconciler demo`: starts real brokers with demo data, then runs the commands of a user on them.

It prints each command with its output.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from reconciler.cli import console
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.errors import ReconcilerError
from reconciler.sandbox import demo_data
from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.sandbox.java import find_java
from reconciler.sandbox.tools import run_tool

MANIFESTS = Path(__file__).parents[1] / "sandbox" / "demo"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@accepts_settings
def demo(settings: Settings) -> int:
    """Show the whole workflow on three real brokers.

    Starts brokers with demo data, then validates, plans, applies and plans again. Stops the brokers and removes all
    data at the end.
    """
    console.start_logging(settings)
    find_java()
    signal.signal(signal.SIGTERM, _interrupt)
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="reconciler-demo-"))
    try:
        with console.progress(settings) as progress:
            sandbox = start(3, name="demo", progress=progress)
        try:
            code = _show(sandbox, settings, folder)
        finally:
            console.print_stderr("\nstopping the brokers …")
            stop(sandbox)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print_stderr(f"demo finished in {time.monotonic() - started:.0f} s; brokers stopped, data removed")
    return code


def _show(sandbox: Cluster, settings: Settings, folder: Path) -> int:
    shutil.copytree(MANIFESTS, folder / "manifests")
    with console.progress(settings) as progress:
        data = demo_data.create_demo_data(sandbox, progress)
    with data:
        data.wait_until_idle()
        _heading("The manifests: the desired state of this cluster")
        for path in sorted((folder / "manifests").rglob("*.yaml")):
            console.write(f"--- {path.relative_to(folder)}\n{path.read_text(encoding='utf-8').strip()}\n\n")
        for heading, arguments, expected in (
            ("1. Check the manifests.", ["validate"], 0),
            ("2. Plan: the changes, and the consumers that they affect.", ["plan", "--out", "plan.json"], 0),
            ("3. Apply: exactly these changes, and no larger ones.", ["apply", "plan.json"], 0),
            ("4. Plan again: in sync, except for blocked and waiting items.", ["plan", "--detailed-exitcode"], 0),
        ):
            _heading(heading)
            _command(arguments, sandbox, folder, expected=expected)
        _heading("5. Kafka's own tools confirm it: the log start offsets of clicks, and the remaining groups")
        _tool(sandbox, "kafka-get-offsets", "--topic", "clicks", "--time", "earliest")
        _tool(sandbox, "kafka-consumer-groups", "--list")
    return 0


def _heading(text: str) -> None:
    console.write(f"\n{'=' * 78}\n{text}\n{'=' * 78}\n")


def _command(arguments: list[str], sandbox: Cluster, folder: Path, *, expected: int) -> None:
    console.write(f"$ reconciler {' '.join(arguments)}\n")
    environment = os.environ | {"KAFKA_BOOTSTRAP_SERVERS": sandbox.bootstrap_servers}
    result = subprocess.run([sys.executable, "-m", "reconciler", *arguments], cwd=folder, env=environment, check=False)
    console.write(f"(exit {result.returncode})\n")
    if result.returncode != expected:
        raise ReconcilerError(
            f"`reconciler {' '.join(arguments)}` ended with exit code {result.returncode} instead of {expected}"
        )


def _tool(sandbox: Cluster, *words: str) -> None:
    console.write(f"$ {' '.join(words)}\n{run_tool(sandbox, *words).stdout}")
