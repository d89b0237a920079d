"""An archive of Spark's classes in the user's cache, with which the JVM starts in half the CPU time (docs/adr/0010).

Decided here: when it is made and when it is used. Making it costs a run about as much as it saves four of them, so the first run on
a machine only leaves a mark, which a throw-away runner never comes back to, and a later one writes the archive at its end. The JVM
checks by itself that Java, the class path and each jar are those of the archive, and goes on without it where they are not.
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
_MOST_KEPT = 2
WRITING_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class ClassCache:
    """What one JVM shall do: `option` for its command line; `written`: where it leaves an archive at its end, for `keep`."""

    option: str | None = None
    written: Path | None = None
    kept: Path | None = None

    def keep(self) -> None:
        """Put the archive that a JVM wrote into the cache, whole or not at all. A full disk is no reason to fail a scan."""
        if self.written is None or self.kept is None or not self.written.is_file():
            return
        arriving = self.kept.with_suffix(f".{os.getpid()}")
        try:
            shutil.copyfile(self.written, arriving)
            arriving.replace(self.kept)
            _forget_all_but(_MOST_KEPT, self.kept.parent)
        except OSError as failure:
            with contextlib.suppress(OSError):
                arriving.unlink()
            _LOG.info("class_data=not_kept reason=%s", failure)
            return
        _LOG.info("class_data=kept path=%s mib=%d", self.kept, self.kept.stat().st_size >> 20)


def select_archive(java: Path, jars: Path, folder: Path, *, cache: Path | None = None) -> ClassCache:
    """For a JVM with these jars on its class path; `folder` is the JVM's own. `cache`: default, the user's."""
    root = _root(cache)
    try:
        kept = root / f"{_identity(java, jars)}.jsa"
        if kept.is_file():
            os.utime(kept)
            return ClassCache(f"-Xshare:auto -XX:SharedArchiveFile={_quoted(kept)}")
        root.mkdir(parents=True, exist_ok=True)
        mark = kept.with_suffix(".runs")
        runs = len(mark.read_bytes()) if mark.is_file() else 0
        if runs <= _TRIES:
            with mark.open("ab") as counting:
                counting.write(b".")
    except OSError as failure:
        _LOG.debug("class_data=none reason=%s", failure)
        return ClassCache()
    if runs == 0 or runs > _TRIES:
        return ClassCache()
    written = folder / "classes.jsa"
    return ClassCache(f"-XX:ArchiveClassesAtExit={_quoted(written)}", written, kept)


def write_at_next_start(java: Path, jars: Path, *, cache: Path | None = None) -> bool:
    """Let the next JVM with these jars write the archive, whatever ran before; False where there is one. Raises OSError."""
    archive = _root(cache) / f"{_identity(java, jars)}.jsa"
    if archive.is_file():
        return False
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.with_suffix(".runs").write_bytes(b".")
    return True


def _root(cache: Path | None) -> Path:
    return platformdirs.user_cache_path("kafka-reconciler", appauthor=False) / "spark" if cache is None else cache


def _identity(java: Path, jars: Path) -> str:
    """Changes with Java and with the jars, so that an archive that no longer fits is not tried again and again."""
    real = java.resolve()
    said = (str(real), real.stat().st_mtime_ns, str(jars), jars.stat().st_mtime_ns)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def _quoted(path: Path) -> str:
    return f'"{path}"' if " " in str(path) else str(path)


def _forget_all_but(count: int, root: Path) -> None:
    """The archives used last stay; the others are of a Java or a Spark that is no more."""
    by_use = sorted(root.glob("*.jsa"), key=lambda archive: archive.stat().st_mtime, reverse=True)
    for archive in by_use[count:]:
        archive.unlink(missing_ok=True)
        archive.with_suffix(".runs").unlink(missing_ok=True)  # whoever comes back to it may make it again
