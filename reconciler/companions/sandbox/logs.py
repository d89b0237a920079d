"""The brokers' logs in the user's log folder.

They are outside the data folder, because error messages name them after the data is removed.
"""

import re
import shutil
import tempfile
import time
from pathlib import Path

import platformdirs

_RETENTION_S = 7 * 24 * 3600
_TAIL_LINES = 10
_CAUSES = 5
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_CAUSE = re.compile(r" (ERROR|FATAL) |^(Caused by: |Exception in thread .*)?[\w.$]+(Exception|Error)(:|$)")


def broker_log(logs: Path, broker_id: int) -> Path:
    """Path of the output of all starts of a broker."""
    return logs / f"broker-{broker_id}.log"


def tail(log: Path) -> str:
    """Describe a log in an error message.

    The text has the path, the last errors and the last lines, without stack traces.
    """
    if not log.is_file():
        return f"it wrote no log to {log}"
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if not _FRAME.match(line)]
    last_lines = lines[-_TAIL_LINES:]
    # A failing broker writes the cause first, and then a hundred lines about its shutdown.
    causes = [line for line in lines[:-_TAIL_LINES] if _CAUSE.search(line)][-_CAUSES:]
    excerpt = [*causes, *(["…"] if causes else []), *last_lines]
    return "\n".join([f"from its log {log}:", *(f"    {line[:400]}" for line in excerpt)])


def new_logs_dir(name: str) -> Path:
    """Create a log folder for one start, and remove folders that are older than a week."""
    root = platformdirs.user_log_path("kafka-reconciler", appauthor=False) / "sandbox"
    root.mkdir(parents=True, exist_ok=True)
    for folder in root.iterdir():
        if time.time() - folder.stat().st_mtime > _RETENTION_S:
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))
