"""The workflows that run this program in a user's GitHub repository, as data.

`github/` has the layout of `.github/`, and this project's own repository runs the same files. They
read what differs between repositories, such as cluster names, at run time. The exception is the
program itself: other repositories refer to it by repository and commit. These come from the user,
the installation's own record (PEP 610) or the checkout that the program runs from. The name of a
package index is no source, because anyone could register it.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from reconciler import __version__
from reconciler.errors import UsageError

ACTION = ".github/actions/reconciler"
OWN_ACTION = f"./{ACTION} # zizmor: ignore[self-repository]"
"""How this project's own workflows name the action that installs the program."""
_FOLDER = Path(__file__).parent / "github"
_REPOSITORY = r"(?P<repository>[A-Za-z0-9-]+/[A-Za-z0-9._-]+?)"
_COMMIT = r"(?P<commit>[0-9a-f]{40})"
_GITHUB_URL = rf"(?:https://(?:[^/@]*@)?github\.com/|ssh://git@github\.com/|git@github\.com:){_REPOSITORY}(?:\.git)?/?"


def github(source: str | None) -> Mapping[str, str]:
    """Return path inside the repository → text, sorted.

    `source`: OWNER/NAME@COMMIT, from which they install this program; None: their own repository.
    """
    action = f"{source.replace('@', f'/{ACTION}@')} # reconciler {__version__}" if source else OWN_ACTION
    return {
        f".github/{path.relative_to(_FOLDER).as_posix()}": path.read_text(encoding="utf-8").replace(OWN_ACTION, action)
        for path in sorted(_FOLDER.rglob("*.yml"))
    }


def workflows(action: str | None) -> Mapping[str, str]:
    """Return path → text of the workflows for a user's repository.

    `action`: as `source` of `github`; None: the source of this installation. Raises UsageError if
    that is unknown, and for a branch or a tag, because the owner of the repository can move them.
    """
    source = action or installed_source()
    if source is None:
        raise UsageError(
            "the workflows install this program from a commit of its repository on GitHub, and the commit of this "
            "installation is unknown: add --action OWNER/NAME@COMMIT, or --no-workflows"
        )
    if not re.fullmatch(f"{_REPOSITORY}@{_COMMIT}", source):
        raise UsageError(f"--action {source}: expected OWNER/NAME@COMMIT with all 40 hex digits of the commit")
    return github(source)


def installed_source() -> str | None:
    """Return OWNER/NAME@COMMIT of this installation; None: it is not a commit on GitHub."""
    try:
        record = distribution("kafka-reconciler").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    return record and from_direct_url(record)


def from_direct_url(record: str) -> str | None:
    """Read a `direct_url.json`: a commit of a GitHub repository, or the folder of a checkout.

    A checkout counts if its remote `origin` is on GitHub and has the commit.
    """
    document = json.loads(record)
    url, commit = str(document.get("url", "")), str(document.get("vcs_info", {}).get("commit_id", ""))
    if urlparse(url).scheme == "file" and "dir_info" in document:
        folder = Path(url2pathname(urlparse(url).path))
        url, commit = run_git(folder, "remote", "get-url", "origin") or "", run_git(folder, "rev-parse", "HEAD") or ""
        if not commit or not run_git(folder, "branch", "--remotes", "--contains", commit):
            return None
    match = re.fullmatch(f"{_GITHUB_URL} {_COMMIT}", f"{url} {commit}")
    return match and f"{match['repository']}@{match['commit']}"


def run_git(folder: Path, *arguments: str | Path) -> str | None:
    """Return the output of git without its newline; None if git fails, hangs or is missing."""
    command = ["git", "-C", folder, *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None
