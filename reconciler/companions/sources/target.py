"""Where a scan writes its tables: a folder of this machine, or of an object store that a URI names."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.atomic_file import write_bytes
from reconciler.errors import UsageError
from reconciler.external.places import StoredFiles, open_store
from reconciler.references import parse_place


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of this machine. Both methods raise OSError."""

    path: Path

    def write(self, content: bytes, *below: str) -> None:
        """Write a file whole; until its end there is none, or the earlier one."""
        write_bytes(self.path.joinpath(*below), [content], mode=0o644)

    def remove(self, *below: str) -> None:
        self.path.joinpath(*below).unlink(missing_ok=True)


Target = Folder | StoredFiles


def open_target(text: str, environment: Mapping[str, str], *, limit_s: float) -> Target:
    """Return the folder that a word of the command line names, before anything is written.

    The word is the operator's: no roots apply to it. The endpoint and the credentials of a store are
    still those of the environment. `limit_s`: seconds for each request to a store. Raises UsageError
    for another URI and for a folder that cannot be written, OSError for a store.
    """
    path = Path(text)
    if "://" in text:
        try:
            place = parse_place(text)
        except ValueError as error:
            raise UsageError(f"{text}: {error}") from None
        if place.scheme != "file":
            return open_store(place, environment, limit_s=limit_s)
        path = Path("/", *place.segments)
    present = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not present.is_dir() or not os.access(present, os.W_OK | os.X_OK):
        reason = "it may not be written" if present.is_dir() else "it is not a folder"
        raise UsageError(f"{text}: {present}: {reason}; nothing was done")
    return Folder(path)
