"""Archives of a JVM's classes, which halve the CPU time of its start (docs/adr/0010).

`python -m reconciler.scan.prepare` and `python -m reconciler.companions.sandbox.prepare` write them; scans and
sandboxes use those that are there. The JVM itself ignores an archive of another Java, class path or
jars.
"""

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

_MAX_ARCHIVES = 6


def use_flags(name: str, java: Path, jars: Path) -> tuple[str, ...]:
    """Return the flags of a JVM that uses the archive; none if there is no archive."""
    try:
        path = archive_path(name, java, jars)
        if not path.is_file():
            return ()
    except OSError:
        return ()
    with suppress(OSError):  # an image is read-only
        os.utime(path)
    return ("-Xshare:auto", f"-XX:SharedArchiveFile={path}")


def write_flag(path: Path) -> str:
    """Return the flag of a JVM that writes its classes to a file when it ends in order."""
    return f"-XX:ArchiveClassesAtExit={path}"


def archive_path(name: str, java: Path, jars: Path) -> Path:
    """Return the path of an archive: of a program, such as `spark`, a Java and a folder of jars.

    The path changes with Java and the jars, so that no outdated archive is tried. Raises OSError.
    """
    # Imported here, because a Spark Connect server that runs the data sources may lack it.
    import platformdirs

    real = java.resolve()
    identity = (str(real), real.stat().st_mtime_ns, str(jars), jars.stat().st_mtime_ns)
    folder = platformdirs.user_cache_path("kafka-reconciler", appauthor=False) / name
    if not folder.is_absolute():  # classes from the current folder, which in CI is a checkout, would run
        raise OSError(f"{folder} is not an absolute path: set HOME or XDG_CACHE_HOME")
    return folder / f"{hashlib.sha256(repr(identity).encode()).hexdigest()[:16]}.jsa"


def store(written: Path, path: Path) -> None:
    """Move an archive that a JVM wrote to its path, and remove older ones. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        shutil.copyfile(written, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # of a full disk
    archives = sorted(path.parent.glob("*.jsa"), key=os.path.getmtime, reverse=True)
    for archive in archives[_MAX_ARCHIVES:]:
        archive.unlink(missing_ok=True)
