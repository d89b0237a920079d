"""Finds the GitHub repository and commit that a user's workflows install this program from.

Sources are the user, the installation's own record (PEP 610) and the checkout that the program runs
from. The name of a package index is no source, because anyone could register it.
"""

import json
import re
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlparse
from urllib.request import url2pathname

from reconciler.errors import UsageError

DISTRIBUTION = "kafka-reconciler"

_REPOSITORY = r"(?P<repository>[A-Za-z0-9-]+/[A-Za-z0-9._-]+?)"
_COMMIT = r"(?P<commit>[0-9a-f]{40})"
_GITHUB_URL = rf"(?:https://(?:[^/@]*@)?github\.com/|ssh://git@github\.com/|git@github\.com:){_REPOSITORY}(?:\.git)?/?"


class InstallSource(NamedTuple):
    """`repository` is OWNER/NAME on GitHub, `commit` 40 hex digits."""

    repository: str
    commit: str


def parse_action_ref(text: str) -> InstallSource:
    """Parse `OWNER/NAME@COMMIT`.

    Raises UsageError for a branch or a tag, because the owner of the repository can move them.
    """
    match = re.fullmatch(f"{_REPOSITORY}@{_COMMIT}", text)
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
    return match and InstallSource(match["repository"], match["commit"])


def run_git(folder: Path, *arguments: str | Path) -> str | None:
    """Return the output of git without its newline; None if git fails, hangs or is missing."""
    command = ["git", "-C", folder, *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None
