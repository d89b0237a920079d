"""An archive of Spark's classes in the user's cache, which halves the CPU time of a JVM start (docs/adr/0010).

Decided here: when the archive is written and used. Writing it costs about as much as four runs save.
So the first run on a machine only leaves a mark, and the second run writes the archive at its end; a
throw-away CI runner never writes one. The JVM itself checks that Java, the class path and the jars are
those of the archive, and continues without it otherwise.
"""

import contextlib
import hashlib
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import platformdirs

_LOG = logging.getLogger(__name__)

_TRIES = 3
_MAX_ARCHIVES = 2
WRITING_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class ClassCache:
    """`option`: for the JVM's command line. `written`: where the JVM leaves an archive at its end, for `keep`."""

    option: str | None = None
    written: Path | None = None
    cached: Path | None = None

    def keep(self) -> None:
        """Move the archive that a JVM wrote into the cache, atomically. A full disk does not fail the scan."""
        if self.written is None or self.cached is None or not self.written.is_file():
            return
        temporary = self.cached.with_suffix(f".{os.getpid()}")
        try:
            shutil.copyfile(self.written, temporary)
            temporary.replace(self.cached)
            _remove_all_but(_MAX_ARCHIVES, self.cached.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            _LOG.info("class_data=not_kept reason=%s", error)
            return
        _LOG.info("class_data=kept path=%s mib=%d", self.cached, self.cached.stat().st_size >> 20)


def select_archive(java: Path, jars: Path, folder: Path, *, cache: Path | None = None) -> ClassCache:
    """The archive for a JVM with these jars. `folder`: the JVM's own. `cache`: default, the user's."""
    root = _root(cache)
    try:
        cached = root / f"{_identity(java, jars)}.jsa"
        if cached.is_file():
            os.utime(cached)
            return ClassCache(f"-Xshare:auto -XX:SharedArchiveFile={_quoted(cached)}")
        root.mkdir(parents=True, exist_ok=True)
        mark = cached.with_suffix(".runs")
        runs = len(mark.read_bytes()) if mark.is_file() else 0
        if runs <= _TRIES:
            with mark.open("ab") as file:
                file.write(b".")
    except OSError as error:
        _LOG.debug("class_data=none reason=%s", error)
        return ClassCache()
    if runs == 0 or runs > _TRIES:
        return ClassCache()
    written = folder / "classes.jsa"
    return ClassCache(f"-XX:ArchiveClassesAtExit={_quoted(written)}", written, cached)


def write_at_next_start(java: Path, jars: Path, *, cache: Path | None = None) -> bool:
    """Make the next JVM with these jars write the archive; False if there is one. Raises OSError."""
    archive = _root(cache) / f"{_identity(java, jars)}.jsa"
    if archive.is_file():
        return False
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.with_suffix(".runs").write_bytes(b".")
    return True


def _root(cache: Path | None) -> Path:
    return platformdirs.user_cache_path("kafka-reconciler", appauthor=False) / "spark" if cache is None else cache


def _identity(java: Path, jars: Path) -> str:
    """A name that changes with Java and with the jars, so that an outdated archive is not tried again."""
    real = java.resolve()
    identity = (str(real), real.stat().st_mtime_ns, str(jars), jars.stat().st_mtime_ns)
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]


def _quoted(path: Path) -> str:
    return f'"{path}"' if " " in str(path) else str(path)


def _remove_all_but(count: int, root: Path) -> None:
    """Keep the most recently used archives; the others are of an old Java or Spark."""
    by_use = sorted(root.glob("*.jsa"), key=lambda archive: archive.stat().st_mtime, reverse=True)
    for archive in by_use[count:]:
        archive.unlink(missing_ok=True)
        archive.with_suffix(".runs").unlink(missing_ok=True)  # so that it can be written again
