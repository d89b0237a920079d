"""The folders of sandboxes: whether this user may write them, and how the data of one is removed.

The path of data comes from an argument or from a state file. A removal with a wrong path once emptied a
working tree, so the check comes before the removal.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.errors import SandboxError
from reconciler.text.escape import display_name
from reconciler.text.validation import error_reason

PREFIX = "kafka-sandbox-"


@contextmanager
def writing() -> Iterator[None]:
    """A block that creates folders of the program's cache, logs or state. Raises SandboxError where it cannot."""
    try:
        yield
    except OSError as error:
        raise SandboxError(
            f"{display_name(str(error.filename))} cannot be written: {error_reason(error)}; free disk space, let this "
            "user write there, or name other folders in HOME, or in XDG_CACHE_HOME and XDG_STATE_HOME"
        ) from error


def assert_sandbox_dir(folder: Path) -> Path:
    """Return the resolved path of a sandbox's data folder.

    Raises SandboxError unless the path is absolute, strictly inside the system's temporary folder,
    not a symbolic link, and named with a sandbox's prefix.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    resolved = folder.resolve()
    is_plain = folder.is_absolute() and ".." not in folder.parts and not folder.is_symlink()
    if not is_plain or not resolved.name.startswith(PREFIX) or temporary not in resolved.parents:
        raise SandboxError(
            f"{display_name(str(folder))} is not the folder of a sandbox in {temporary}: nothing was removed; check it by hand"
        )
    return resolved


def remove(folder: Path) -> None:
    """Remove a sandbox's data folder; a missing one is not an error.

    Raises SandboxError for any other path, without removing anything.
    """
    shutil.rmtree(assert_sandbox_dir(folder), ignore_errors=True)
