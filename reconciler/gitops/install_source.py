"""Finds the GitHub repository and commit that a user's workflows install this program from.

Sources are the user, the installation's own record (PEP 610) and the checkout that the program runs
from. The name of a package index is no source, because anyone could register it.
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

_ACTION_REF = re.compile(r"(?P<repository>[A-Za-z0-9-]+/[A-Za-z0-9._-]+)@(?P<commit>[0-9a-f]{40})")
_GITHUB_URL = re.compile(
    r"(?:https://(?:[^/@]*@)?github\.com/|ssh://git@github\.com/|git@github\.com:)"
    r"(?P<repository>[A-Za-z0-9-]+/[A-Za-z0-9._-]+?)(?:\.git)?/?"
)


@dataclass(frozen=True, slots=True)
class InstallSource:
    """`repository` is OWNER/NAME on GitHub, `commit` 40 hex digits."""

    repository: str
    commit: str


def parse_action_ref(text: str) -> InstallSource:
    """Parse `OWNER/NAME@COMMIT`.

    Raises UsageError for a branch or a tag, because the owner of the repository can move them.
    """
    match = _ACTION_REF.fullmatch(text)
    if match is None:
        raise UsageError(f"--action {text}: expected OWNER/NAME@COMMIT with all 40 hex digits of the commit")
    return InstallSource(match["repository"], match["commit"])


def installed_source() -> InstallSource | None:
    """Return the source of this installation; None: it is not a commit on GitHub."""
    try:
        record = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    return None if record is None else from_direct_url(record)


def from_direct_url(record: str) -> InstallSource | None:
    """Read a `direct_url.json`: a commit of a GitHub repository, or the folder of a checkout."""
    document = json.loads(record)
    url = str(document.get("url", ""))
    if "vcs_info" in document:
        return _install_source(url, str(document["vcs_info"].get("commit_id", "")))
    if urlparse(url).scheme == "file" and "dir_info" in document:
        return checkout(Path(url2pathname(urlparse(url).path)))
    return None


def checkout(folder: Path) -> InstallSource | None:
    """Return the commit of a checkout, if its remote `origin` is on GitHub and has that commit."""
    commit, origin = _git(folder, "rev-parse", "HEAD"), _git(folder, "remote", "get-url", "origin")
    if not commit or not origin or not _git(folder, "branch", "--remotes", "--contains", commit):
        return None
    return _install_source(origin, commit)


def _install_source(url: str, commit: str) -> InstallSource | None:
    match = _GITHUB_URL.fullmatch(url)
    return InstallSource(match["repository"], commit) if match and re.fullmatch(r"[0-9a-f]{40}", commit) else None


def _git(folder: Path, *arguments: str) -> str:
    """Return the output of git without its newline; empty if git fails or is missing."""
    if shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
