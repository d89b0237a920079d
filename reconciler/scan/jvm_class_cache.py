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
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

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
            # The others are of an old Java or Spark, and can be written again.
            archives = sorted(self.cached.parent.glob("*.jsa"), key=os.path.getmtime, reverse=True)
            for archive in archives[_MAX_ARCHIVES:]:
                archive.unlink(missing_ok=True)
                _marks(archive).unlink(missing_ok=True)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            _LOG.info("class_data=not_kept reason=%s", error)
            return
        _LOG.info("class_data=kept path=%s mib=%d", self.cached, self.cached.stat().st_size >> 20)


def select_archive(java: Path, jars: Path, folder: Path) -> ClassCache:
    """The archive for a JVM with these jars. `folder`: the JVM's own."""
    try:
        cached = _archive(java, jars)
        if cached.is_file():
            os.utime(cached)
            return ClassCache(f"-Xshare:auto -XX:SharedArchiveFile={shlex.quote(str(cached))}")
        with _marks(cached).open("ab") as file:
            file.write(b".")
            earlier_runs = file.tell() - 1
    except OSError as error:
        _LOG.debug("class_data=none reason=%s", error)
        return ClassCache()
    if not 1 <= earlier_runs <= _TRIES:
        return ClassCache()
    written = folder / "classes.jsa"
    return ClassCache(f"-XX:ArchiveClassesAtExit={shlex.quote(str(written))}", written, cached)


def write_at_next_start(java: Path, jars: Path) -> bool:
    """Make the next JVM with these jars write the archive; False if there is one. Raises OSError."""
    archive = _archive(java, jars)
    if archive.is_file():
        return False
    _marks(archive).write_bytes(b".")
    return True


def _archive(java: Path, jars: Path) -> Path:
    """A name that changes with Java and with the jars, so that an outdated archive is not tried again."""
    # Imported here, because a Spark Connect server that runs the data sources may lack it.
    import platformdirs

    real = java.resolve()
    identity = (str(real), real.stat().st_mtime_ns, str(jars), jars.stat().st_mtime_ns)
    folder = platformdirs.user_cache_path("kafka-reconciler", appauthor=False) / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(repr(identity).encode()).hexdigest()[:16]}.jsa"


def _marks(archive: Path) -> Path:
    """The file with a byte for each run without an archive."""
    return archive.with_suffix(".runs")
