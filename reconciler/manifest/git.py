"""Git: the commit that manifests are of, and whether git changes their files right now."""

import logging
import math
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from reconciler.model.plan import ManifestFile, Source
from reconciler.text.escape import display_name

_LOCKS = (
    *("index.lock", "HEAD.lock", "rebase-merge", "rebase-apply", "sequencer", "BISECT_START"),
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"),
)
"""What the git folder of a checkout holds while git changes its files, or goes from commit to commit."""
_GLOB = re.compile(r"[\\*?[]")
_LOG = logging.getLogger(__name__)
_OF_A_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"),
    "GIT_NAMESPACE",
)


def run_git(folder: Path, *arguments: str | Path) -> str | None:
    """Return the output of git without its newline; None if git fails, hangs or is missing."""
    return _ask_git(folder, *arguments)[0]


def _ask_git(folder: Path, *arguments: str | Path) -> tuple[str | None, str]:
    """Return the output of git as `run_git` does, and the first line of what it says about a failure."""
    # `git status` would take the lock of the index, and get in the way of whoever works in the checkout. It would
    # also run the watcher that the checkout configures, and believe it, or believe mtimes where that is configured.
    settings = ["-c", "core.fsmonitor=false", "-c", "core.checkStat=default", "-c", "core.trustctime=true"]
    command = ["git", "--no-optional-locks", *settings, "-C", folder, *arguments]
    # A hook runs with variables that win over -C, and lead to the repository that the hook is of.
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    environment["GIT_NO_REPLACE_OBJECTS"] = "1"  # `git replace` shows files under the name of a commit that lacks them
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, errors="surrogateescape", timeout=30, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"git does not run: {error.strerror}" if isinstance(error, OSError) else "git does not answer"
    return (result.stdout.strip(), "") if result.returncode == 0 else (None, result.stderr.strip().partition("\n")[0])


def git_sources(manifests: Iterable[ManifestFile], roots: Iterable[Path]) -> list[Source]:
    """Return the source of each checkout that files or roots are in, such as of a submodule; what no git has is one."""
    by_checkout = defaultdict[Path | None, tuple[list[ManifestFile], list[Path]]](lambda: ([], []))
    for file in manifests:
        by_checkout[_checkout_of(Path(file.path))][0].append(file)
    for root in roots:
        by_checkout[_checkout_of(root)][1].append(root)
    return [git_source(tuple(files), of_checkout) for files, of_checkout in by_checkout.values()]


def _checkout_of(path: Path) -> Path | None:
    folder = _git_folder(path.absolute())
    return None if folder is None else folder.resolve()


def git_source(manifests: tuple[ManifestFile, ...], roots: Iterable[Path] = ()) -> Source:
    """Return the files and the commit of their checkout; dirty unless git confirms that it has them.

    `roots`: what was read, also where no file of it is left. A submodule below them has to be as the commit says.
    """
    roots = [_folder_of(root.resolve()) for root in roots]
    paths = [Path(file.path).absolute() for file in manifests]
    folders = list(dict.fromkeys([*(path.parent for path in paths), *roots]))
    # The commit is of the checkout around its submodules, whose git folders are deeper.
    folders.sort(key=lambda folder: len(of.parts) if (of := _checkout_of(folder)) else math.inf)
    git = partial(run_git, folders[0])
    # Quiet: a repository without a commit is not a failure.
    commit, failure = _ask_git(folders[0], "rev-parse", "--verify", "--quiet", "HEAD")
    top = git("rev-parse", "--show-toplevel")
    if commit is None or top is None:
        if failure and _git_folder(folders[0]) is not None:
            _LOG.warning("no commit of %s is known: %s; see git status there", folders[0], display_name(failure))
        return Source(manifests=manifests)
    submodules = dict(_submodules(roots))
    chains = [_resolve_symlinks(path) for path in paths]
    by_submodule = defaultdict[Path | None, list[ManifestFile]](list)
    for file, chain in zip(manifests, chains, strict=True):
        by_submodule[_find_above(chain[-1], submodules)].append(file)
    # A removed manifest is not among the files, so the status covers the YAML files beside and below them.
    globs = [_GLOB.sub(r"\\\g<0>", str(folder)) for folder in folders if not _find_above(folder, submodules)]
    neighbours = [f":(glob,icase){folder}/**/*.{ending}" for folder in globs for ending in ("yaml", "yml")]
    outside = not all(chain[-1].is_relative_to(top) for chain in chains)
    inside = dict.fromkeys(path for chain in chains for path in chain if path.is_relative_to(top))
    # As a glob, a name may name others.
    resolved_paths = [f":(literal){path}" for path in inside if not _find_above(path, submodules)]
    changed = git("status", "--porcelain", "--", *resolved_paths, *neighbours)
    tracked = git("ls-files", "--error-unmatch", "--", *resolved_paths)
    # Status believes the marks of the index: assume-unchanged (h), and of sparse checkouts skip-worktree (S).
    marks = git("ls-files", "-v", "--", *resolved_paths, *neighbours)
    unmarked = marks is not None and all(line.startswith("H ") for line in marks.splitlines())
    # What a person configures for `git log` would be a part of the name.
    author = git("show", "--no-patch", "--no-show-signature", "--encoding=UTF-8", "--format=%an", commit) or ""
    return Source(
        commit=commit,
        dirty=outside
        or changed != ""
        or tracked is None
        or not unmarked
        or any(
            not _is_at(place, named) or git_source(tuple(by_submodule[place]), [place]).dirty
            for place, named in submodules.items()
        ),
        manifests=manifests,
        author=author.encode("utf-8", "backslashreplace").decode() or None,  # of any bytes
    )


def find_reason_to_wait(roots: Iterable[Path], files: Iterable[Path]) -> str:
    """Return what shows that git has not finished to write these files; empty: nothing does.

    Where git cannot be asked, nothing shows it, and time decides, as about a folder without git.
    """
    paths = [*roots, *files]
    places = dict.fromkeys(place for path in paths for place in (path.absolute(), path.resolve()))
    git_folders = {_git_folder(place) for place in places}
    for lock in (folder / name for folder in git_folders if folder for name in _LOCKS):
        if _may_exist(lock):
            end = "remove it if no git runs" if lock.suffix == ".lock" else "end or abort what git status shows"
            return f"git is changing the checkout ({lock} is there; {end})"
    for folder in dict.fromkeys(map(_folder_of, places)):
        # What a merge, a pick or a stash left in conflict.
        if entries := run_git(folder, "ls-files", "--unmerged", "--full-name", "-z", "--", ":/"):
            conflict = display_name(entries.split("\0")[0].partition("\t")[2])
            return f"git calls {conflict} unmerged: the checkout is of two versions; resolve and commit it"
    # A pull leaves a submodule so until `git submodule update`, and git calls the checkout clean if it is new.
    for place, named in _submodules(map(_folder_of, paths)):
        if not _is_at(place, named):
            return (
                f"the submodule {display_name(str(place))} is not at the commit that the checkout names; run "
                "git submodule update --init, or commit the change"
            )
    return ""


def _submodules(folders: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the folder of each submodule below the folders, and its commit, as the commit of the checkout has them."""
    for folder in dict.fromkeys(folders):
        # Not the index: it may have another commit of a submodule, or no longer the submodule.
        for entry in (run_git(folder, "ls-tree", "-r", "-z", "HEAD") or "").split("\0"):
            kind, _, name = entry.partition("\t")
            if kind.startswith("160000 "):
                yield folder / name, kind.split()[2]


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
    return all(_git_folder(place) is None or run_git(place.parent, "ls-files", "--", place) == "" for place in places)


def _git_folder(path: Path) -> Path | None:
    """Return the git folder of the checkout around a path, without git; None: there is none.

    In a worktree and in a submodule, `.git` is a file that names it.
    """
    for place in (path, *path.parents):
        git = place / ".git"
        if git.is_dir():
            return git
        if git.is_file():
            with suppress(OSError):
                # After a crash of the machine it may consist of null characters, which no path holds.
                text, _, _nulls = git.read_text(errors="surrogateescape").partition("\0")
                return place / text.removeprefix("gitdir:").strip()
    return None


def _resolve_symlinks(path: Path) -> list[Path]:
    """Return the links on the way to a file, which git tracks by their own paths, and the file."""
    chain = [path]
    # The first link from the root; the file was read, so no link leads to itself.
    while link := next((part for part in (*reversed(path.parents), path) if part.is_symlink()), None):
        path = link.parent / link.readlink() / path.relative_to(link)
        chain[-1:] = link, path
    return [Path(os.path.normpath(part)) for part in chain]  # no link stands before a `..`
