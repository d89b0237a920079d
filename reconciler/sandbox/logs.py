"""Where the brokers' logs are: in the user's log folder, outside their data, because errors point to them afterwards."""

import re
import shutil
import tempfile
import time
from pathlib import Path

import platformdirs

_KEPT_S = 7 * 24 * 3600
_TAIL_LINES = 10
_CAUSES = 5
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_CAUSE = re.compile(r" (ERROR|FATAL) |^(Caused by: |Exception in thread .*)?[\w.$]+(Exception|Error)(:|$)")


def broker_log(logs: Path, broker_id: int) -> Path:
    """What a broker wrote, in all of its starts."""
    return logs / f"broker-{broker_id}.log"


def tail(log: Path) -> str:
    """For an error message: where the log is, its last errors, and its last lines. Several lines, without stack traces."""
    if not log.is_file():
        return f"it wrote no log to {log}"
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if not _FRAME.match(line)]
    last = lines[-_TAIL_LINES:]
    # A broker that dies says why, and then for a hundred lines how it shuts down.
    causes = [line for line in lines[:-_TAIL_LINES] if _CAUSE.search(line)][-_CAUSES:]
    shown = [*causes, *(["…"] if causes else []), *last]
    return "\n".join([f"from its log {log}:", *(f"    {line[:400]}" for line in shown)])


def new_logs_dir(name: str) -> Path:
    """A folder of this start's own; those of a week ago go."""
    root = platformdirs.user_log_path("kafka-reconciler", appauthor=False) / "sandbox"
    root.mkdir(parents=True, exist_ok=True)
    for old in root.iterdir():
        if time.time() - old.stat().st_mtime > _KEPT_S:
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))
