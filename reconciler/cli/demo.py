"""`reconciler demo`: real brokers, made-up disorder, then the commands that a user would type, each shown with its output."""

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
    """Three real brokers, a mess, and the way to clean.

    Starts them, then validates, plans, applies and plans again, as a user would. Cleans up after itself.
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
    console.print_stderr(f"demo done in {time.monotonic() - started:.0f} s; brokers stopped, data removed")
    return code


def _show(sandbox: Cluster, settings: Settings, folder: Path) -> int:
    shutil.copytree(MANIFESTS, folder / "manifests")
    with console.progress(settings) as progress:
        made = demo_data.create_demo_data(sandbox, progress)
    with made:
        made.wait_until_idle()
        _heading("The manifests: what this cluster should look like")
        for path in sorted((folder / "manifests").rglob("*.yaml")):
            console.write(f"--- {path.relative_to(folder)}\n{path.read_text(encoding='utf-8').strip()}\n\n")
        for heading, words, expected in (
            ("1. Are the manifests right?", ["validate"], 0),
            ("2. What would happen, and who would miss it?", ["plan", "--out", "plan.json"], 0),
            ("3. Do exactly that, and nothing larger.", ["apply", "plan.json"], 0),
            ("4. And now? In sync, but for what is blocked or waiting.", ["plan", "--detailed-exitcode"], 0),
        ):
            _heading(heading)
            _command(words, sandbox, folder, expected=expected)
        _heading("5. Kafka's own tools agree: first offset of each partition of clicks, and the groups that are left")
        _tool(sandbox, "kafka-get-offsets", "--topic", "clicks", "--time", "earliest")
        _tool(sandbox, "kafka-consumer-groups", "--list")
    return 0


def _heading(text: str) -> None:
    console.write(f"\n{'=' * 78}\n{text}\n{'=' * 78}\n")


def _command(words: list[str], sandbox: Cluster, folder: Path, *, expected: int) -> None:
    console.write(f"$ reconciler {' '.join(words)}\n")
    environment = os.environ | {"KAFKA_BOOTSTRAP_SERVERS": sandbox.bootstrap_servers}
    done = subprocess.run([sys.executable, "-m", "reconciler", *words], cwd=folder, env=environment, check=False)
    console.write(f"(exit {done.returncode})\n")
    if done.returncode != expected:
        raise ReconcilerError(
            f"`reconciler {' '.join(words)}` ended with exit {done.returncode}, {expected} was expected"
        )


def _tool(sandbox: Cluster, *words: str) -> None:
    console.write(f"$ {' '.join(words)}\n{run_tool(sandbox, *words).stdout}")
