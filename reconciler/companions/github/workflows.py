"""The workflows that `init` writes, and the commit that they install the program from.

They are the files that this project's own repository runs: a checkout has them in `.github/`, and a
distribution beside this file, where pyproject.toml puts them. They read cluster names at run time. Other repositories install the program from a commit that the user,
the distribution (hatch_build.py), the installation's record (PEP 610) or its checkout names, and
never from a package index, where anyone could register the name.
"""

import json
import re
from collections.abc import Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from reconciler import __version__
from reconciler.errors import UsageError
from reconciler.manifest.git import run_git

OWN_ACTION = "./ # zizmor: ignore[self-repository]"
"""How this project's own workflows name the action that installs the program: action.yml at the root."""
DEPENDABOT = ".github/dependabot.yml"
"""What keeps the commits of the actions current; this project's own file covers more than actions."""
SOURCE_FILE = "source.txt"
"""Beside this file in a distribution: OWNER/NAME@COMMIT that it was built from, written by hatch_build.py."""
NAMES = ("apply", "converge", "drift", "plan", "red", "validate")
_FILES = Path(__file__).parent / "files"
_CHECKOUT = Path(__file__).parents[3] / ".github"
_REPOSITORY = r"(?P<repository>[A-Za-z0-9-]+/[A-Za-z0-9._-]+?)"
_COMMIT = r"(?P<commit>[0-9a-f]{40})"
_GITHUB_URL = rf"(?:https://(?:[^/@]*@)?github\.com/|ssh://git@github\.com/|git@github\.com:){_REPOSITORY}(?:\.git)?/?"


def workflows(action: str | None) -> Mapping[str, str]:
    """Return path → text of the workflows for a user's repository.

    `action`: OWNER/NAME@COMMIT of this program; None: the source of this installation. Raises UsageError if
    that is unknown, and for a branch or a tag, because the owner of the repository can move them.
    """
    source = action or installed_source()
    if source is None:
        raise UsageError(
            "the workflows install this program from a commit of its repository on GitHub, and the commit of this "
            "installation is unknown: add --action OWNER/NAME@COMMIT, or --no-workflows"
        )
    if not is_source(source):
        raise UsageError(f"--action {source}: expected OWNER/NAME@COMMIT with all 40 hex digits of the commit")
    folder = _FILES if (_FILES / "workflows").is_dir() else _CHECKOUT
    paths = {DEPENDABOT: _FILES / "dependabot.yml"}
    paths |= {f".github/workflows/{name}.yml": folder / "workflows" / f"{name}.yml" for name in NAMES}
    own = f"{source} # reconciler {__version__}"
    return {name: path.read_text(encoding="utf-8").replace(OWN_ACTION, own) for name, path in paths.items()}


def is_source(text: str) -> bool:
    """Whether the text is OWNER/NAME@COMMIT with a full commit."""
    return re.fullmatch(f"{_REPOSITORY}@{_COMMIT}", text) is not None


def installed_source() -> str | None:
    """Return OWNER/NAME@COMMIT of this installation: of a distribution, of pip's record or of a checkout."""
    file = Path(__file__).with_name(SOURCE_FILE)
    if file.exists():
        return file.read_text(encoding="ascii").strip()
    try:
        return from_direct_url(distribution("kafka-reconciler").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return None


def from_direct_url(record: str) -> str | None:
    """Read a `direct_url.json`: of a commit, or of a checkout whose GitHub `origin` has its commit."""
    document = json.loads(record)
    url, commit = str(document.get("url", "")), str(document.get("vcs_info", {}).get("commit_id", ""))
    if urlparse(url).scheme == "file" and "dir_info" in document:
        return from_checkout(Path(url2pathname(urlparse(url).path)))
    return _source(url, commit)


def from_checkout(folder: Path) -> str | None:
    """Return the source of a checkout of this program, if its GitHub `origin` has its commit.

    A copy of the program in another repository has no source: that repository has no action.
    """
    git = partial(run_git, folder)
    commit, top = git("rev-parse", "HEAD"), git("rev-parse", "--show-toplevel")
    if not commit or not top or not folder.samefile(top) or not git("branch", "--remotes", "--contains", commit):
        return None
    return _source(git("remote", "get-url", "origin") or "", commit)


def _source(url: str, commit: str) -> str | None:
    match = re.fullmatch(f"{_GITHUB_URL} {_COMMIT}", f"{url} {commit}")
    return match and f"{match['repository']}@{match['commit']}"
