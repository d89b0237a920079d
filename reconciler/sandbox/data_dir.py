"""Removing a sandbox's data, and never anything else.

The path comes from an argument or from a state file. A working tree was once emptied by the removal of a path that was not what it
should have been, so it is looked at before, not after.
"""

import shutil
import tempfile
from pathlib import Path

from reconciler.errors import SandboxError

PREFIX = "kafka-sandbox-"


def assert_sandbox_dir(folder: Path) -> Path:
    """The folder with its links followed. Raises SandboxError for any path that is not absolute, not strictly below the system's
    temporary folder, a link, or not named like a sandbox's."""
    temporary = Path(tempfile.gettempdir()).resolve()
    real = folder.resolve()
    sound = folder.is_absolute() and ".." not in folder.parts and not folder.is_symlink()
    if not sound or not real.name.startswith(PREFIX) or temporary not in real.parents:
        raise SandboxError(
            f"{str(folder)!r} is no sandbox's folder below {temporary}: nothing was removed; look at it by hand"
        )
    return real


def remove(folder: Path) -> None:
    """Remove a proven folder and all below it; gone already is fine. Raises SandboxError, having touched nothing, for another."""
    shutil.rmtree(assert_sandbox_dir(folder), ignore_errors=True)
