"""Reads the files below the paths of a command as a set of manifests.

Every file that cannot be read is an error.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from reconciler.errors import ManifestsInvalid
from reconciler.manifest.cross_checks import cluster_of, cross_check
from reconciler.manifest.diagnostics import Diagnostic, Severity
from reconciler.manifest.manifest_set import ManifestEntry, ManifestSet
from reconciler.manifest.parse import ParsedManifest, file_errors, parse_manifest
from reconciler.manifest.source_file import SourceFile
from reconciler.manifest.yaml import MOST_SHOWN
from reconciler.model.names import SourceLocation
from reconciler.model.plan import ManifestFile
from reconciler.policies.cluster import Cluster
from reconciler.text.suggest import did_you_mean

LARGEST_BYTES = 1_048_576
_SUFFIXES = (".yaml", ".yml")


def load(paths: Sequence[Path], *, now_ms: int, cluster: str | None = None) -> ManifestSet:
    """Load all manifests below `paths`: files, and *.yaml and *.yml in folders except hidden ones.

    `now_ms`: the time for rules about instants. `cluster`: must be a cluster of the set.
    Raises ManifestsInvalid with all diagnostics in file order, UsageError for an unknown `cluster`.
    """
    return validate_sources(list(_read_all(paths)), now_ms=now_ms, cluster=cluster)


def validate_sources(
    files: Sequence[SourceFile | Diagnostic], *, now_ms: int, cluster: str | None = None
) -> ManifestSet:
    """Validate files that were read. A Diagnostic stands for a file that cannot be read.

    Raises as `load` does.
    """
    diagnostics = [file for file in files if isinstance(file, Diagnostic)]
    sources = [file for file in files if isinstance(file, SourceFile)]
    complete = not diagnostics
    items: list[ParsedManifest] = []
    for source in sources:
        diagnostics.extend(file_errors(source))
        parsed = [parse_manifest(source, document, diagnostics, now_ms=now_ms) for document in source.yaml.documents]
        complete = complete and source.yaml.complete and None not in parsed
        items.extend(item for item in parsed if item is not None)
    diagnostics.extend(cross_check(items, complete=complete))
    if complete and not items:
        diagnostics.append(_file_error("M005", "", "the paths hold no manifest", hint="files end in .yaml or .yml"))
    diagnostics = list(_in_file_order(diagnostics, files))
    if any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics):
        raise ManifestsInvalid(diagnostics)
    names = sorted({item.name for item in items if item.model is Cluster})
    manifests = ManifestSet(
        entries=tuple(
            ManifestEntry(cluster=cluster_of(item, names) or "", manifest=item.manifest, path=item.source.path)
            for item in items
            if item.manifest is not None
        ),
        files=tuple(ManifestFile(path=source.path, sha256=source.sha256) for source in sources),
        warnings=tuple(diagnostics),
    )
    if cluster is not None:
        manifests.for_cluster(cluster)
    return manifests


def source_of(path: str, content: bytes) -> SourceFile | Diagnostic:
    """Return a file's content as a source, or the error that prevents it."""
    if len(content) > LARGEST_BYTES:
        return _file_error("M004", path, f"larger than {LARGEST_BYTES:,} bytes", hint="split the file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return _file_error("M003", path, f"not UTF-8, in line {line}", hint="save the file as UTF-8")
    return SourceFile(path, text, hashlib.sha256(content).hexdigest())


def _in_file_order(diagnostics: Sequence[Diagnostic], files: Sequence[SourceFile | Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the first MOST_SHOWN of each file, and the number of the others."""
    paths = (file.path if isinstance(file, SourceFile) else file.location.path for file in files)
    order = {path: index for index, path in reversed(list(enumerate(paths)))}

    def position(diagnostic: Diagnostic) -> tuple[int, int, int, str, str]:
        location = diagnostic.location
        return order.get(location.path, -1), location.line, location.column, diagnostic.severity, diagnostic.code

    for path, group in groupby(sorted(diagnostics, key=position), key=lambda d: d.location.path):
        in_file = list(group)
        yield from in_file[:MOST_SHOWN]
        if len(in_file) > MOST_SHOWN:
            message = f"{len(in_file) - MOST_SHOWN:,} more errors in this file"
            yield _file_error("M006", path, message, hint="correct the errors above first")


def _read_all(paths: Sequence[Path]) -> Iterator[SourceFile | Diagnostic]:
    inodes: set[tuple[int, int]] = set()
    for path in paths:
        for file in _files(path):
            source = file if isinstance(file, Diagnostic) else _read(file, inodes)
            if source is not None:
                yield source


def _files(root: Path) -> Iterator[Path | Diagnostic]:
    """Yield the files at or below `root`, sorted by name within each folder.

    A symbolic link may lead back to a parent, so each folder is read once.
    """
    pending = [root]
    folders: set[tuple[int, int]] = set()
    empty = True
    while pending:
        path = pending.pop()
        try:
            status = path.stat()
            if not stat.S_ISDIR(status.st_mode):
                if path == root or path.suffix.lower() in _SUFFIXES:
                    empty = False
                    yield path
            elif (status.st_dev, status.st_ino) not in folders:
                folders.add((status.st_dev, status.st_ino))
                entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
                pending.extend(sorted(entries, reverse=True))
        except FileNotFoundError:
            empty = False
            yield _file_error("M001", str(path), "no such file or folder", hint=_path_hint(path))
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            empty = False
            yield _unreadable(path, error)
    if empty:
        yield _file_error("M005", str(root), "this folder holds no manifests", hint="files end in .yaml or .yml")


def _read(path: Path, inodes: set[tuple[int, int]]) -> SourceFile | Diagnostic | None:
    """Read a file; None: it was read before, under another name or through another path."""
    try:
        # Without O_NONBLOCK, opening a pipe without a writer would hang.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                message = "cannot be read: it is not a regular file"
                return _file_error("M002", str(path), message, hint="name a file or a folder")
            if (status.st_dev, status.st_ino) in inodes:
                return None
            inodes.add((status.st_dev, status.st_ino))
            content = stream.read(LARGEST_BYTES + 1)
    except OSError as error:
        return _unreadable(path, error)
    return source_of(str(path), content)


def _path_hint(path: Path) -> str:
    try:
        closest = did_you_mean(path.name, (entry.name for entry in path.parent.iterdir()))
    except OSError:
        closest = None
    if closest:
        return f"did you mean `{path.parent / closest}`?"
    return "check the path; it is relative to the current folder"


def _unreadable(path: Path, error: Exception) -> Diagnostic:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return _file_error("M002", str(path), f"cannot be read: {reason}", hint="check its permissions")


def _file_error(code: str, path: str, message: str, *, hint: str) -> Diagnostic:
    return Diagnostic(code=code, message=message, location=SourceLocation(path, 0, 0), hint=hint)
