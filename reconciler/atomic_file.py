"""Writes a file completely or not at all."""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_FOLDER_TAKES_NO_OTHER = errno.EROFS, errno.EACCES


def write_bytes(path: Path, pieces: Iterable[bytes], *, mode: int | None) -> None:
    """Write and flush bytes. A link stays one; pipes and devices are written to.

    A file that is mounted by itself, as containers have, or in a folder that takes no other, is overwritten
    once all is written elsewhere; if that fails, the error names where all of it is kept.
    `mode`: None leaves that of an earlier file, and a new one has that of `open`. Raises OSError, also
    for a pipe that nothing reads.
    """
    # Before it is resolved: /dev/stdout resolves to a name such as pipe:[12], and no file has this name.
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with open(path, "wb", opener=open_at_once) as stream:
            stream.writelines(pieces)
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode is None:
        os.umask(mask := os.umask(0o077))
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~mask
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        if error.errno not in _FOLDER_TAKES_NO_OTHER or not os.access(path, os.W_OK):
            raise
        descriptor, name = tempfile.mkstemp()
    draft, kept = Path(name), False
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines(pieces)
            stream.flush()
            os.fsync(stream.fileno())
        draft.chmod(mode)
        try:
            draft.replace(path)
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.EXDEV, *_FOLDER_TAKES_NO_OTHER):
                raise
            kept = True  # the file before is cut by now
            try:
                shutil.copyfile(draft, path)
            except OSError as failure:
                raise OSError(failure.errno, f"{failure.strerror}; all of it is in {draft}") from failure
            with suppress(PermissionError):  # of a file of another user
                path.chmod(mode)
            draft.unlink()
    except BaseException:
        if not kept:
            draft.unlink(missing_ok=True)
        raise


def open_at_once(path: str, flags: int) -> int:
    """Open as `os.open` does, and raise OSError for a pipe without a reader, which that would wait for."""
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    os.set_blocking(descriptor, True)
    return descriptor
