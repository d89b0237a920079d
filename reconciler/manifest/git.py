"""Git: the commit that manifests are of, and whether git changes their files right now.

Git reads only its own objects and its index. A command that looks at files, as `git status` does, runs programs
that a checkout's files and settings choose.
"""

import hashlib
import logging
import os
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from reconciler.model.plan import MANIFEST_SUFFIXES, ManifestFile, Source
from reconciler.text.escape import display_name

_LOCKS = (
    *("index.lock", "HEAD.lock", "rebase-merge", "rebase-apply", "sequencer", "BISECT_START"),
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"),
)
"""What the git folder of a checkout holds while git changes its files, or goes from commit to commit."""
_LINK, _SUBMODULE = "120000", "160000"
_LOG = logging.getLogger(__name__)
_OF_OTHERS = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"),
    *("GIT_NAMESPACE", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS"),
)
"""Variables that lead git to another repository, as those of a hook do, or to other names."""


class _Entry(NamedTuple):
    """What a commit has at a path. `id`: of the object, or the commit of a submodule, in hexadecimal digits."""

    mode: str
    id: str

    def is_at(self, path: Path, sha256: str | None = None) -> bool:
        """Whether the file or the link of a path is this one, but for its line ends. `sha256`: of what was read of it."""
        try:
            is_link = path.is_symlink()
            if is_link is not (self.mode == _LINK) or not (is_link or path.is_file()):
                return False
            if os.path.realpath(path.parent) != str(path.parent):  # a link took the place of a folder
                return False
            data = os.fsencode(path.readlink()) if is_link else path.read_bytes()
        except OSError:
            return False
        algorithm = hashlib.sha1 if len(self.id) == 40 else hashlib.sha256
        stored = (data, data.replace(b"\r\n", b"\n"))  # `core.autocrlf` writes other line ends than it stores
        return sha256 in (None, hashlib.sha256(data).hexdigest()) and any(
            algorithm(b"blob %d\0" % len(blob) + blob, usedforsecurity=False).hexdigest() == self.id for blob in stored
        )


def run_git(folder: Path, *arguments: str | Path) -> str | None:
    """Return what git says at the top of the checkout around a folder, without its newline.

    None if there is no checkout, or git fails, hangs or is missing.
    """
    top = _top_of(Path(os.path.realpath(folder)))
    return None if top is None else _ask_git(top, *arguments)[0]


def _ask_git(top: Path, *arguments: str | Path) -> tuple[str | None, str]:
    """Return the output of git as `run_git` does, and the first line of what it says about a failure."""
    # Git takes any folder for a repository that has HEAD, config, objects and refs, and runs what that config names: a
    # commit can hold such a folder, but no `.git`, and git looks for that first. Its own setting is of Git 2.38.
    settings = ["-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false"]
    command = ["git", "--no-optional-locks", *settings, "-C", top, *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in _OF_OTHERS}
    environment["GIT_NO_REPLACE_OBJECTS"] = "1"  # `git replace` shows files under the name of a commit that lacks them
    environment["GIT_NO_LAZY_FETCH"] = "1"  # settings name the program that fetches what a partial clone lacks
    try:
        result = subprocess.run(command, capture_output=True, timeout=30, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"git does not run: {error.strerror}" if isinstance(error, OSError) else "git does not answer"
    # As the names of files are decoded, and with their carriage returns.
    output, failure = os.fsdecode(result.stdout).strip(), os.fsdecode(result.stderr).strip().partition("\n")[0]
    return (output, "") if result.returncode == 0 else (None, failure)


def git_sources(manifests: Iterable[ManifestFile], roots: Iterable[Path]) -> list[Source]:
    """Return the source of each checkout that files or roots are in, such as of a submodule; what no git has is one."""
    by_checkout = defaultdict[Path | None, tuple[list[ManifestFile], list[Path]]](lambda: ([], []))
    for file in manifests:
        by_checkout[_top_of(Path(file.path).parent.resolve())][0].append(file)
    for root in roots:
        by_checkout[_top_of(root.resolve())][1].append(root)
    return [git_source(tuple(files), of_checkout) for files, of_checkout in by_checkout.values()]


def git_source(manifests: tuple[ManifestFile, ...], roots: Iterable[Path] = (), *, top: Path | None = None) -> Source:
    """Return the files and the commit of their checkout; dirty unless the commit has just these, but for line ends.

    `roots`: what was read, also where no file of it is left. A submodule below them has to be as the commit says.
    `top`: of the checkout; None: it is the one around all others, which are its submodules.
    """
    chains = [_resolve_symlinks(Path(file.path).absolute()) for file in manifests]
    read_below = {root.resolve() for root in roots}
    if top is None:
        tops = filter(None, map(_top_of, {*(Path(file.path).parent.resolve() for file in manifests), *read_below}))
        top = min(tops, key=lambda top: (len(top.parts), top), default=None)
    # Quiet: a repository without a commit is not a failure.
    commit, failure = (None, "") if top is None else _ask_git(top, "rev-parse", "--verify", "--quiet", "HEAD")
    if commit is None or top is None:
        if failure:
            _LOG.warning("no commit of %s is known: %s; see git status there", top, display_name(failure))
        return Source(manifests=manifests)
    found = _entries(top, commit, [*read_below, *(path for chain in chains for path in chain)])
    entries = found or {}
    submodules = {path: entry.id for path, entry in entries.items() if entry.mode == _SUBMODULE}
    by_submodule = defaultdict[Path | None, list[ManifestFile]](list)
    read = dict[Path, str | None]()
    for file, chain in zip(manifests, chains, strict=True):
        by_submodule[_find_above(chain[-1], submodules)].append(file)
        # The links on the way to a checkout are not of it.
        read |= {path: None for path in chain[:-1] if path.is_relative_to(top)} | {chain[-1]: file.sha256}
    # A manifest that was removed, or that names another cluster by now, is not among the files.
    expected = dict[Path, str | None].fromkeys(path for path in entries if _is_manifest(path, read_below))
    expected |= {path: sha256 for path, sha256 in read.items() if not _find_above(path, submodules)}
    is_dirty = any(path not in entries or not entries[path].is_at(path, sha256) for path, sha256 in expected.items())
    # What a person configures for `git log` would be a part of the name.
    author = run_git(top, "show", "--no-patch", "--no-show-signature", "--encoding=UTF-8", "--format=%an", commit)
    return Source(
        commit=commit,
        dirty=found is None
        or is_dirty
        or any(
            not _is_at(place, named)
            or git_source(tuple(by_submodule[place]), [place], top=place).unchanged_commit != named
            for place, named in submodules.items()
        ),
        manifests=manifests,
        author=os.fsencode(author or "").decode("utf-8", "backslashreplace") or None,  # of any bytes
    )


def find_reason_to_wait(roots: Iterable[Path], files: Iterable[Path]) -> str:
    """Return what shows that git has not finished to write these files; empty: nothing does.

    Where git cannot be asked, nothing shows it, and time decides, as about a folder without git.
    """
    paths = [*roots, *files]
    folders = dict.fromkeys(_folder_of(place) for path in paths for place in (path.absolute(), path.resolve()))
    tops = dict.fromkeys(top.resolve() for folder in folders if (top := _top_of(folder)))
    for lock in (folder / name for folder in map(_git_folder, tops) if folder for name in _LOCKS):
        if _may_exist(lock):
            end = "remove it if no git runs" if lock.suffix == ".lock" else "end or abort what git status shows"
            return f"git is changing the checkout ({lock} is there; {end})"
    for top in tops:
        # What a merge, a pick or a stash left in conflict.
        if unmerged := run_git(top, "ls-files", "--unmerged", "-z"):
            conflict = display_name(unmerged.split("\0")[0].partition("\t")[2])
            return f"git calls {conflict} unmerged: the checkout is of two versions; resolve and commit it"
    # A pull leaves a submodule so until `git submodule update`, and git calls the checkout clean if it is new. Not the
    # index: it may have another commit of a submodule, or no longer the submodule.
    for top in tops:
        for place, entry in (_entries(top, "HEAD", folders) or {}).items():
            if entry.mode == _SUBMODULE and not _is_at(place, entry.id):
                return (
                    f"the submodule {display_name(str(place))} is not at the commit that the checkout names; run "
                    "git submodule update --init, or commit the change"
                )
    return ""


def _entries(top: Path, commit: str, places: Iterable[Path]) -> Mapping[Path, _Entry] | None:
    """Return what a commit has in those places that are in its checkout, and below, by path; None if git fails."""
    inside = {place for place in places if place.is_relative_to(top)}
    names = [f":(literal){place.relative_to(top)}" for place in inside if inside.isdisjoint(place.parents)]
    listed = run_git(top, "ls-tree", "-r", "-z", commit, "--", *names) if names else ""
    if listed is None:
        return None
    found = (entry.partition("\t") for entry in listed.split("\0") if entry)
    return {top / name: _Entry(kind.split()[0], kind.split()[2]) for kind, _, name in found}


def _is_manifest(path: Path, roots: Collection[Path]) -> bool:
    """Whether a file is read at or below one of these places: none is that is hidden there."""
    if path.suffix.lower() in MANIFEST_SUFFIXES:
        for place in (path, *path.parents):
            if place in roots:
                return True
            if place.name.startswith("."):
                return False
    return False


def _find_above(path: Path, places: Iterable[Path]) -> Path | None:
    return next((place for place in places if path.is_relative_to(place)), None)


def _is_at(submodule: Path, commit: str) -> bool:
    """Whether a submodule is there, at this commit. Where it is absent, git answers for the checkout around it."""
    return run_git(submodule, "rev-parse", "HEAD") == commit


def _folder_of(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _may_exist(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return not isinstance(error, (FileNotFoundError, NotADirectoryError))  # a folder that nobody may look into
    return True


def is_outside_of_git(path: Path) -> bool:
    """Whether git has not delivered this file: it is in no checkout, or git confirms that it is untracked."""
    places = dict.fromkeys((path.absolute(), path.resolve()))  # a link may lead into a checkout
    return all(
        # Where case does not count, a commit may have it under another name.
        (top := _top_of(place)) is None
        or run_git(top, "ls-files", "--", f":(icase,literal){place.relative_to(top)}") == ""
        for place in places
    )


def _top_of(path: Path) -> Path | None:
    """Return the top folder of the checkout around a path, without git; None: there is none."""
    return next((place for place in (path, *path.parents) if _has_git(place / ".git")), None)


def _has_git(git: Path) -> bool:
    return git.is_dir() or git.is_file()


def _git_folder(top: Path) -> Path | None:
    """Return the git folder of a checkout. In a worktree and in a submodule, `.git` is a file that names it."""
    git = top / ".git"
    if git.is_dir():
        return git
    with suppress(OSError):
        # After a crash of the machine it may consist of null characters, which no path holds.
        text, _, _nulls = git.read_text(errors="surrogateescape").partition("\0")
        return top / text.removeprefix("gitdir:").strip()
    return None


def _resolve_symlinks(path: Path) -> list[Path]:
    """Return the links on the way to a file, which git tracks by their own paths, and the file."""
    chain = [path]
    # The first link from the root; the file was read, so no link leads to itself.
    while link := next((part for part in (*reversed(path.parents), path) if part.is_symlink()), None):
        path = link.parent / link.readlink() / path.relative_to(link)
        chain[-1:] = link, path
    return [Path(os.path.normpath(part)) for part in chain]  # no link stands before a `..`
