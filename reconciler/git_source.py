"""The git source of a plan: the manifests' files and the commit that has them."""

from functools import partial
from pathlib import Path

from reconciler.gitops import run_git
from reconciler.manifest.files import ClusterManifests
from reconciler.model.plan import Source


def source(manifests: ClusterManifests) -> Source:
    """Return the manifests' files and, in a git checkout, its commit.

    Dirty unless git confirms that the commit has exactly these files.
    """
    paths = [Path(file.path).absolute() for file in manifests.files]
    folders = list(dict.fromkeys(path.parent for path in paths))
    if not folders:
        return Source(manifests=manifests.files)
    git = partial(run_git, folders[0])
    commit, top = git("rev-parse", "HEAD"), git("rev-parse", "--show-toplevel")
    if commit is None or top is None:
        return Source(manifests=manifests.files)
    # A removed manifest is not among the files, so the status covers the YAML files beside them.
    neighbours = [f":(glob,icase){folder}/*.{ending}" for folder in folders for ending in ("yaml", "yml")]
    chains = [_resolve_symlinks(path) for path in paths]
    outside = not all(chain[-1].is_relative_to(top) for chain in chains)
    resolved_paths = list(dict.fromkeys(path for chain in chains for path in chain if path.is_relative_to(top)))
    changed = git("status", "--porcelain", "--", *resolved_paths, *neighbours)
    tracked = git("ls-files", "--error-unmatch", "--", *resolved_paths)
    return Source(commit=commit, dirty=outside or changed != "" or tracked is None, manifests=manifests.files)


def _resolve_symlinks(path: Path) -> list[Path]:
    """Return the symbolic links on the way to a file, and the file.

    Git tracks a link by its own path. The file was read, so no link leads to itself.
    """
    chain: list[Path] = []
    current, remaining = Path(path.anchor), list(path.parts[1:])
    while remaining:
        part = remaining.pop(0)
        current = current.parent if part == ".." else current / part
        if current.is_symlink():
            chain.append(current)
            target = current.readlink()
            remaining = [*target.parts[target.is_absolute() :], *remaining]
            current = Path(target.anchor) if target.is_absolute() else current.parent
    return [*chain, current]
