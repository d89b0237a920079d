"""Where this program comes from on GitHub: the repository and commit that a user's workflows install it from.

Told by the user, by the installation's own record (PEP 610), or by the checkout that it runs from; never guessed, and never a package
index's name, which anybody could register.
"""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from reconciler.errors import UsageError

DISTRIBUTION = "kafka-reconciler"

_NAMED = re.compile(r"(?P<repository>[A-Za-z0-9-]+/[A-Za-z0-9._-]+)@(?P<commit>[0-9a-f]{40})")
_GITHUB = re.compile(
    r"(?:https://(?:[^/@]*@)?github\.com/|ssh://git@github\.com/|git@github\.com:)"
    r"(?P<repository>[A-Za-z0-9-]+/[A-Za-z0-9._-]+?)(?:\.git)?/?"
)


@dataclass(frozen=True, slots=True)
class InstallSource:
    """`repository` is OWNER/NAME on GitHub, `commit` 40 hex digits."""

    repository: str
    commit: str


def parse_action_ref(text: str) -> InstallSource:
    """`OWNER/NAME@COMMIT` taken apart. Raises UsageError: a branch or a tag can be moved by whoever holds that repository."""
    match = _NAMED.fullmatch(text)
    if match is None:
        raise UsageError(f"--action {text}: expected OWNER/NAME@COMMIT, with all 40 hex digits of the commit")
    return InstallSource(match["repository"], match["commit"])


def installed_source() -> InstallSource | None:
    """Where this installation came from, if that was a commit on GitHub."""
    try:
        record = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    return None if record is None else from_direct_url(record)


def from_direct_url(record: str) -> InstallSource | None:
    """What a `direct_url.json` says: a commit of a GitHub repository, or a folder that is a checkout of one."""
    told = json.loads(record)
    url = str(told.get("url", ""))
    if "vcs_info" in told:
        commit = str(told["vcs_info"].get("commit_id", ""))
        return _home(url, commit)
    if urlparse(url).scheme == "file" and "dir_info" in told:
        return checkout(Path(url2pathname(urlparse(url).path)))
    return None


def checkout(folder: Path) -> InstallSource | None:
    """The commit that is checked out in a folder, if its remote `origin` is on GitHub and has that commit."""
    commit, origin = _git(folder, "rev-parse", "HEAD"), _git(folder, "remote", "get-url", "origin")
    if not commit or not origin or not _git(folder, "branch", "--remotes", "--contains", commit):
        return None
    return _home(origin, commit)


def _home(url: str, commit: str) -> InstallSource | None:
    match = _GITHUB.fullmatch(url)
    return InstallSource(match["repository"], commit) if match and re.fullmatch(r"[0-9a-f]{40}", commit) else None


def _git(folder: Path, *words: str) -> str:
    """What git says, without the end of the line; nothing where there is no git, no repository or no answer."""
    if shutil.which("git") is None:
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
