"""Paths to a set of manifests. Decided here: which files are read, in which order, and that nothing unreadable is skipped in silence."""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from reconciler.errors import ManifestsInvalid
from reconciler.manifest.cross_checks import cluster_of, cross_check
from reconciler.manifest.diagnostics import Diagnostic, Severity
from reconciler.manifest.manifest_set import ClusterManifests, ManifestEntry, ManifestSet
from reconciler.manifest.parse import ParsedManifest, file_errors, parse_manifest
from reconciler.manifest.source_file import SourceFile
from reconciler.manifest.yaml import MOST_SHOWN
from reconciler.model.names import NOWHERE, SourceLocation
from reconciler.model.plan import ManifestFile
from reconciler.text.suggest import did_you_mean

__all__ = ["ClusterManifests", "ManifestSet", "validate_sources", "load", "source_of"]

LARGEST_BYTES = 1_048_576
_SUFFIXES = (".yaml", ".yml")


def load(paths: Sequence[Path], *, now_ms: int, cluster: str | None = None) -> ManifestSet:
    """All manifests below `paths`: files, and folders with their *.yaml and *.yml, hidden ones aside.

    `now_ms`: for rules about instants. `cluster`: has to be one of the set's.
    Raises ManifestsInvalid with every diagnostic of the run in file order, UsageError for an unknown `cluster`.
    """
    return validate_sources(list(_read_all(paths)), now_ms=now_ms, cluster=cluster)


def validate_sources(
    files: Sequence[SourceFile | Diagnostic], *, now_ms: int, cluster: str | None = None
) -> ManifestSet:
    """The set that `files` make up, or ManifestsInvalid; a Diagnostic stands for a file that cannot be read. Touches no file."""
    found = [file for file in files if isinstance(file, Diagnostic)]
    sources = [file for file in files if isinstance(file, SourceFile)]
    complete = not found
    items: list[ParsedManifest] = []
    for source in sources:
        found.extend(file_errors(source))
        for document in source.reading.documents:
            item = parse_manifest(source, document, found, now_ms=now_ms)
            complete = complete and item is not None
            if item is not None:
                items.append(item)
        complete = complete and source.reading.complete
    found.extend(cross_check(items, complete=complete, now_ms=now_ms))
    if complete and not items:
        message = "no manifests: nothing was found to desire"
        hint = "files end in .yaml or .yml"
        found.append(Diagnostic(code="M005", severity=Severity.ERROR, message=message, place=NOWHERE, hint=hint))
    found = list(_in_order(found, files))
    if any(diagnostic.severity is Severity.ERROR for diagnostic in found):
        raise ManifestsInvalid(found)
    names = sorted({item.name for item in items if item.kind == "Cluster"})
    made = ManifestSet(
        entries=tuple(
            ManifestEntry(cluster=cluster_of(item, names) or "", manifest=item.manifest, path=item.source.path)
            for item in items
            if item.manifest is not None
        ),
        files=tuple(ManifestFile(path=source.path, sha256=source.sha256) for source in sources),
        warnings=tuple(found),
    )
    if cluster is not None:
        made.for_cluster(cluster)
    return made


def source_of(path: str, content: bytes) -> SourceFile | Diagnostic:
    """A file's content as a source, or what keeps it from being one."""
    if len(content) > LARGEST_BYTES:
        return _refused("M004", path, f"larger than {LARGEST_BYTES:,} bytes", hint="split it")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        line = content.count(b"\n", 0, broken.start) + 1
        return _refused("M003", path, f"not UTF-8, in line {line}", hint="save the file as UTF-8")
    return SourceFile(path, text, hashlib.sha256(content).hexdigest())


def _in_order(found: Sequence[Diagnostic], files: Sequence[SourceFile | Diagnostic]) -> Iterator[Diagnostic]:
    """In file order; of one file the first MOST_SHOWN, and how many more there are."""
    paths = (file.path if isinstance(file, SourceFile) else file.place.path for file in files)
    order = {path: index for index, path in reversed(list(enumerate(paths)))}
    ordered = sorted(
        found, key=lambda d: (order.get(d.place.path, -1), d.place.line, d.place.column, d.severity, d.code)
    )
    for path, group in groupby(ordered, key=lambda d: d.place.path):
        told = list(group)
        yield from told[:MOST_SHOWN]
        if len(told) > MOST_SHOWN:
            message = f"{len(told) - MOST_SHOWN:,} more errors in this file"
            yield _refused("M006", path, message, hint="mend these first")


def _read_all(paths: Sequence[Path]) -> Iterator[SourceFile | Diagnostic]:
    seen: set[tuple[int, int]] = set()
    for path in paths:
        for file in _files(path):
            found = file if isinstance(file, Diagnostic) else _read(file, seen)
            if found is not None:
                yield found


def _files(given: Path) -> Iterator[Path | Diagnostic]:
    """Files at or below `given`, sorted by name within each folder. A symbolic link may lead back up, so folders count once."""
    waiting = [given]
    folders: set[tuple[int, int]] = set()
    found = 0
    while waiting:
        path = waiting.pop()
        try:
            status = path.stat()
            if not stat.S_ISDIR(status.st_mode):
                if path == given or path.suffix.lower() in _SUFFIXES:
                    found += 1
                    yield path
            elif (status.st_dev, status.st_ino) not in folders:
                folders.add((status.st_dev, status.st_ino))
                entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
                waiting.extend(sorted(entries, reverse=True))
        except FileNotFoundError:
            found += 1
            yield _refused("M001", str(path), "no such file or folder", hint=_neighbour(path))
        except (OSError, ValueError) as broken:  # ValueError: a NUL in the path
            found += 1
            yield _refused("M002", str(path), f"cannot be read: {_reason(broken)}", hint="check its rights")
    if not found:
        yield _refused("M005", str(given), "no manifests in this folder", hint="they end in .yaml or .yml")


def _read(path: Path, seen: set[tuple[int, int]]) -> SourceFile | Diagnostic | None:
    """None: the file was read before, by another name or through another path."""
    try:
        waiting_for_nobody = os.open(
            path, os.O_RDONLY | os.O_NONBLOCK
        )  # opening a pipe that nobody writes to would hang
        with os.fdopen(waiting_for_nobody, "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                return _refused("M002", str(path), "cannot be read: not a regular file", hint="give a file or a folder")
            if (status.st_dev, status.st_ino) in seen:
                return None
            seen.add((status.st_dev, status.st_ino))
            content = stream.read(LARGEST_BYTES + 1)
    except OSError as broken:
        return _refused("M002", str(path), f"cannot be read: {_reason(broken)}", hint="check its rights")
    return source_of(str(path), content)


def _neighbour(path: Path) -> str:
    try:
        near = did_you_mean(path.name, (entry.name for entry in path.parent.iterdir()))
    except OSError:
        near = None
    return (
        f"did you mean `{path.parent / near}`?" if near else "check the path; it is relative to where the command runs"
    )


def _reason(broken: Exception) -> str:
    return (broken.strerror if isinstance(broken, OSError) else None) or str(broken)


def _refused(code: str, path: str, message: str, *, hint: str) -> Diagnostic:
    place = SourceLocation(path, 0, 0)
    return Diagnostic(code=code, severity=Severity.ERROR, message=message, place=place, hint=hint)
