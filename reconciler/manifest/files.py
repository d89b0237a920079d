"""Reads files and folders as one set of manifests. A file that cannot be read is an error."""

import hashlib
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from reconciler.errors import ManifestsInvalid, Refused, UsageError
from reconciler.manifest.cross_checks import cross_check
from reconciler.manifest.diagnostics import Diagnostic, SourceFile
from reconciler.manifest.parse import ParsedManifest, address_of, parse_manifest
from reconciler.manifest.yaml import MOST_SHOWN
from reconciler.model.names import SourceLocation
from reconciler.model.plan import MANIFEST_SUFFIXES, ManifestFile
from reconciler.model.scan_request import ExternalReaderRequest
from reconciler.model.selector import Selector
from reconciler.plan.rules import RuleSet
from reconciler.policies import Policy
from reconciler.policies.cluster import Cluster
from reconciler.policies.external_reader import ExternalReader
from reconciler.policies.waiver import Waiver
from reconciler.text.escape import display_name
from reconciler.text.suggest import backticks, did_you_mean, question, suggestion
from reconciler.text.validation import error_reason

DEFAULT_FOLDER = Path("manifests")
"""Where commands look for manifests that no path names."""
LARGEST_BYTES = 1_048_576
_CITED_MAX = 3
"""Files that one message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterManifests(RuleSet):
    """The input of one plan: the manifests of one cluster, and their files.

    Policies, waivers and readers are sorted by address, files by path.

    `roots` and `contents`: the paths that were read with them, and the hashes of all manifests there, as
    `read_contents` returns them. `base`: the trusted manifests of the cluster; None: there are none.
    `proposed`: the Cluster with the connection of the files; None: `cluster` has it.
    """

    files: tuple[ManifestFile, ...]
    roots: tuple[Path, ...] = field(default=(), compare=False)
    contents: tuple[str, ...] = ()
    base: RuleSet | None = None
    proposed: Cluster | None = None

    @property
    def reader_requests(self) -> tuple[ExternalReaderRequest, ...]:
        return tuple(reader.request for reader in self.readers)

    @property
    def rules(self) -> RuleSet:
        """The manifests as they are after a merge."""
        return replace(self, cluster=self.proposed or self.cluster)

    def connect_as(self, trusted: "ManifestSet") -> "ClusterManifests":
        """Return the manifests with the connection of trusted ones.

        A new cluster has none: `base` stays None. Raises Refused for one that has policies.
        """
        name = self.cluster.metadata.name
        known = next((part for part in trusted.by_cluster if part.cluster.metadata.name == name), None)
        changes = self.cluster.connection_changes(None if known is None else known.cluster)
        if known is not None:
            return replace(
                self,
                cluster=self.cluster.connect_as(known.cluster),
                connection_changes=changes,
                base=known.rules,
                proposed=self.cluster,
            )
        if self.policies:
            raise Refused(
                f"{self.cluster.address} ({self.cluster.declared_at}) is not among the trusted manifests, so nothing "
                f"connects to it and its {len(self.policies)} policies have no plan: merge the Cluster without them "
                "first"
            )
        return replace(self, connection_changes=changes)

    def with_protections(self, other: Cluster) -> "ClusterManifests":
        """Return the manifests with what `other` protects, too, its journal included."""
        spec, journal = self.cluster.spec, other.spec.journal.topic
        protected = {
            name: tuple(dict.fromkeys((getattr(spec.protect, name) or ()) + (getattr(other.spec.protect, name) or ())))
            for name in type(spec.protect).model_fields
        }
        if journal not in (None, spec.journal.topic):
            protected["topics"] = (*protected["topics"], Selector.literal(journal))
        protect = spec.protect.model_copy(update=protected)
        cluster = self.cluster.model_copy(update={"spec": spec.model_copy(update={"protect": protect})})
        return replace(self, cluster=cluster)

    def while_pending(self, changed: "ClusterManifests") -> "ClusterManifests":
        """Return what is in force while it is open whether somebody wrote `changed` as it is.

        What either protects is protected, and the readers of both count. A policy acts if both have it; of
        every other one, only its claims and the groups that it awaits count.
        """
        theirs = {policy.address: (policy.mode, policy.spec) for policy in changed.policies}
        same = {policy.address for policy in self.policies if theirs.get(policy.address) == (policy.mode, policy.spec)}
        ours = [policy if policy.address in same else policy.without_actions() for policy in self.policies]
        more = [policy.without_actions(" (changed)") for policy in changed.policies if policy.address not in same]
        policies = sorted(ours + more, key=attrgetter("address"))
        known = {replace(reader.request, name="") for reader in self.readers}
        moved = [reader for reader in changed.readers if replace(reader.request, name="") not in known]
        readers = (*self.readers, *(reader.with_suffix(" (changed)") for reader in moved))
        return replace(self.with_protections(changed.cluster), policies=tuple(policies), readers=readers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSet:
    """All manifests of a run. Clusters are sorted by name, files are in reading order."""

    by_cluster: Sequence[ClusterManifests]
    files: Sequence[ManifestFile]
    warnings: Sequence[Diagnostic]

    @property
    def contents(self) -> tuple[str, ...]:
        """What was read, as `read_contents` returns it."""
        return tuple(sorted(file.sha256 for file in self.files))

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        return tuple(part.cluster for part in self.by_cluster)

    @property
    def policies(self) -> tuple[Policy, ...]:
        return tuple(policy for part in self.by_cluster for policy in part.policies)

    def for_cluster(self, name: str | None = None) -> ClusterManifests:
        """Return the manifests of one cluster; None: the only cluster. Raises UsageError."""
        parts = {part.cluster.metadata.name: part for part in self.by_cluster}
        if name is None and len(parts) == 1:
            return self.by_cluster[0]
        if name is None:
            raise UsageError(f"the manifests hold {len(parts)} clusters: add --cluster {' or '.join(parts)}")
        if name not in parts:
            hint = suggestion(name, parts, otherwise=f"known clusters: {', '.join(parts)}", quote=backticks)
            raise UsageError(f"the manifests hold no Cluster named {name}; {hint}")
        return parts[name]


def load(paths: Sequence[Path], *, now_ms: int) -> ManifestSet:
    """Load all manifests below `paths`: files, and *.yaml and *.yml in folders except hidden ones.

    A link leads to something below `paths`, too; a path that is a link, below the folder it is in.
    `now_ms`: the time for rules about instants. Raises ManifestsInvalid with all diagnostics in file order.
    """
    return validate_sources(_read(paths), now_ms=now_ms, roots=tuple(paths))


def declared_clusters(paths: Sequence[Path], *, now_ms: int) -> Sequence[Cluster]:
    """Return the valid Cluster manifests below the paths, whatever is invalid beside them."""
    try:
        return load(paths, now_ms=now_ms).clusters
    except ManifestsInvalid as error:
        return error.clusters


def read_contents(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return the sorted content hashes of all manifests below `paths`, and the errors of reading."""
    return _contents(_read(paths))


def _read(paths: Sequence[Path]) -> list[SourceFile | Diagnostic]:
    inodes: set[tuple[int, int]] = set()
    folders = list(map(_folder_of, paths))
    return [file for path in paths for file in _read_below(path, folders, inodes)]


def _contents(files: Iterable[SourceFile | Diagnostic]) -> tuple[str, ...]:
    return tuple(
        sorted(file.sha256 if isinstance(file, SourceFile) else f"{file.location.path}: {file.code}" for file in files)
    )


def validate_sources(
    files: Sequence[SourceFile | Diagnostic], *, now_ms: int, roots: tuple[Path, ...] = ()
) -> ManifestSet:
    """Validate files of these roots; a Diagnostic stands for one that cannot be read. Raises ManifestsInvalid."""
    diagnostics = [file for file in files if isinstance(file, Diagnostic)]
    sources = [file for file in files if isinstance(file, SourceFile)]
    complete = not diagnostics
    items: list[ParsedManifest] = []
    for source in sources:
        for document in source.documents:
            item = parse_manifest(source, document, now_ms=now_ms)
            if item is not None:
                items.append(item)
            complete = complete and document.complete and (item is not None or document.root is None)
            address = address_of(document.root)
            diagnostics.extend(source.diagnostic(error, address) for error in document.errors)
    clusters = {item.name for item in items if item.model is Cluster}
    only = next(iter(clusters)) if len(clusters) == 1 else None
    for item in items:
        item.cluster = item.cluster or only
    diagnostics.extend(cross_check(items, complete=complete))
    if complete and not items:
        read = ", ".join(display_name(source.path) for source in sources[:_CITED_MAX])
        more = f" and {len(sources) - _CITED_MAX:,} more files" if len(sources) > _CITED_MAX else ""
        message = f"no manifest in {read}{more}: comments and empty documents only" if read else "no manifest was named"
        diagnostics += [_file_error("M005", "", message, "write a document with apiVersion, kind, metadata and spec")]
    diagnostics = list(_in_file_order(diagnostics, files))
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        raise ManifestsInvalid(diagnostics, list(_valid_clusters(items)), _contents(files))
    return ManifestSet(
        by_cluster=tuple(
            replace(_of_cluster(name, items), roots=roots, contents=_contents(sources)) for name in sorted(clusters)
        ),
        files=_manifest_files(sources),
        warnings=tuple(diagnostics),
    )


def source_of(path: str, content: bytes) -> SourceFile | Diagnostic:
    """Return a file's content as a source, or the error that prevents it."""
    if not content:  # a full disk leaves it so
        return _file_error("M005", path, "an empty file, which may be half of one", "write its manifests, or remove it")
    if len(content) > LARGEST_BYTES:
        return _file_error("M004", path, f"larger than {LARGEST_BYTES:,} bytes", "split the file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return _file_error("M003", path, f"not UTF-8, in line {line}", "save the file as UTF-8")
    try:
        path.encode()
    except UnicodeEncodeError:  # plans name their files
        return _file_error("M003", path, "the name of the file or of a folder is not UTF-8", "rename it")
    return SourceFile(path, text, hashlib.sha256(content).hexdigest())


def _of_cluster(name: str, items: Sequence[ParsedManifest]) -> ClusterManifests:
    items = [item for item in items if item.cluster == name]
    manifests = sorted((item.manifest for item in items if item.manifest is not None), key=attrgetter("address"))
    sources = {item.source.path: item.source for item in items}
    return ClusterManifests(
        cluster=next(manifest for manifest in manifests if isinstance(manifest, Cluster)),
        policies=tuple(manifest for manifest in manifests if isinstance(manifest, Policy)),
        waivers=tuple(manifest for manifest in manifests if isinstance(manifest, Waiver)),
        readers=tuple(manifest for manifest in manifests if isinstance(manifest, ExternalReader)),
        files=_manifest_files(sources[path] for path in sorted(sources)),
    )


def _valid_clusters(items: Sequence[ParsedManifest]) -> Iterator[Cluster]:
    """Yield the Cluster manifests, without any name of which one has an error: that one may protect more."""
    invalid = {item.name for item in items if item.model is Cluster and item.document.errors}
    for item in items:
        if isinstance(item.manifest, Cluster) and item.name not in invalid:
            yield item.manifest


def _manifest_files(sources: Iterable[SourceFile]) -> tuple[ManifestFile, ...]:
    return tuple(ManifestFile(path=source.path, sha256=source.sha256) for source in sources)


def _in_file_order(diagnostics: Sequence[Diagnostic], files: Sequence[SourceFile | Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the first MOST_SHOWN of each file, and the number of the others."""
    paths = [file.path if isinstance(file, SourceFile) else file.location.path for file in files]
    order = {path: index for index, path in reversed(list(enumerate(paths)))}

    def position(diagnostic: Diagnostic) -> tuple[int, int, int, str, str]:
        location = diagnostic.location
        return order.get(location.path, -1), location.line, location.column, diagnostic.severity, diagnostic.code

    for path, group in groupby(sorted(diagnostics, key=position), key=lambda d: d.location.path):
        in_file = list(group)
        yield from in_file[:MOST_SHOWN]
        if len(in_file) > MOST_SHOWN:
            message = f"{len(in_file) - MOST_SHOWN:,} more errors in this file"
            yield _file_error("M006", path, message, "correct the errors above first")


def _folder_of(path: Path) -> Path:
    """Return what links below a path of the command line may not leave. `_read_below` reports errors."""
    try:
        return (path.parent if path.is_symlink() else path).resolve()
    except (OSError, ValueError):
        return path


def _read_below(root: Path, folders: Sequence[Path], inodes: set[tuple[int, int]]) -> Iterator[SourceFile | Diagnostic]:
    """Read files at or below `root`, by name. `inodes`: of what was read; links may repeat it.

    A pull request may hold links, and errors quote what they lead to: no link leaves `folders`.
    """
    pending = [root]
    empty = True
    while pending:
        path = pending.pop()
        try:
            status = path.stat()
            inode, is_folder = (status.st_dev, status.st_ino), stat.S_ISDIR(status.st_mode)
            if not is_folder and path != root and path.suffix.lower() not in MANIFEST_SUFFIXES:
                continue
            empty = empty and is_folder and inode not in inodes
            if inode in inodes:
                continue
            if path.is_symlink() and not any(path.resolve().is_relative_to(folder) for folder in folders):
                empty = False
                hint = "name its target as well, or write a file in its place"
                yield _file_error("M007", str(path), "a link out of the folder of manifests", hint)
                continue
            inodes.add(inode)
            if is_folder:
                entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
                pending.extend(sorted(entries, reverse=True))
            elif stat.S_ISREG(status.st_mode):
                with path.open("rb") as stream:
                    yield source_of(str(path), stream.read(LARGEST_BYTES + 1))
            else:  # opening a pipe could wait for ever
                message = "cannot be read: it is not a regular file"
                yield _file_error("M002", str(path), message, "name a file or a folder")
        except FileNotFoundError:
            empty = False
            yield _file_error("M001", str(path), "no such file or folder", _path_hint(path))
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            empty = False
            yield _file_error("M002", str(path), f"cannot be read: {error_reason(error)}", "check its permissions")
    if empty:
        message = f"the folder {display_name(str(root))} holds no manifests"
        yield _file_error("M005", str(root), message, "name another folder; files end in .yaml or .yml")


def _path_hint(path: Path) -> str:
    with suppress(OSError):
        if closest := did_you_mean(path.name, (entry.name for entry in path.parent.iterdir())):
            return question(str(path.parent / closest), quote=backticks)
    hint = "check the path; it is relative to the current folder"
    return f"{hint}. `reconciler init` writes the first manifests" if path == DEFAULT_FOLDER else hint


def _file_error(code: str, path: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code=code, message=message, location=SourceLocation(path, 0, 0), hint=hint)
