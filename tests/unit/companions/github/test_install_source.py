"""Where the installed program comes from, and what its build imports."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.companions.github import workflows
from reconciler.errors import UsageError
from tests.build import git

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cloned(tmp_path: Path) -> Path:
    """A clone whose origin has its only commit."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    git(origin, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path, "clone", "-q", str(origin), str(clone))
    return clone


def test_only_a_repository_with_a_full_commit_is_accepted() -> None:
    """The owner of the repository could move branches, tags and short commits later."""
    assert workflows.workflows(f"acme/reconciler@{COMMIT}")
    for moved in (
        "acme/reconciler",
        "acme/reconciler@main",
        "acme/reconciler@v1.0.0",
        f"acme/reconciler@{COMMIT[:12]}",
    ):
        with pytest.raises(UsageError, match=r"\b40\b"):
            workflows.workflows(moved)
    with pytest.raises(UsageError):
        workflows.workflows(f"acme/reconciler@{COMMIT}\n      - run: evil")


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/reconciler",
        "https://github.com/acme/reconciler.git",
        "ssh://git@github.com/acme/reconciler",
    ],
)
def test_an_installation_from_a_commit_knows_it(url: str) -> None:
    """What pip records of `pip install git+…` is the repository and the commit."""
    record = json.dumps({"url": url, "vcs_info": {"vcs": "git", "commit_id": COMMIT}})
    assert workflows.from_direct_url(record) == f"acme/reconciler@{COMMIT}"


def test_another_source_of_the_installation_is_unknown() -> None:
    """A guessed name might belong to another owner."""
    for record in (
        {"url": "https://example.org/acme/reconciler", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
        {"url": "https://github.com.example.org/acme/reconciler", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
        {"url": "https://github.com/acme/reconciler/archive/main.zip", "archive_info": {}},
        {"url": "file:///nowhere/at/all", "dir_info": {"editable": True}},
    ):
        assert workflows.from_direct_url(json.dumps(record)) is None


def test_a_checkout_is_known_by_its_origin_once_the_commit_is_there(cloned: Path) -> None:
    """The origin is on GitHub and has the commit: another one cannot be installed from there."""
    record = json.dumps({"url": cloned.as_uri(), "dir_info": {"editable": True}})
    assert workflows.from_direct_url(record) is None, "its origin is a folder"
    git(cloned, "remote", "set-url", "origin", "git@github.com:acme/reconciler.git")
    pushed = git(cloned, "rev-parse", "HEAD")
    assert workflows.from_direct_url(record) == f"acme/reconciler@{pushed}"
    git(cloned, "commit", "-q", "--allow-empty", "-m", "not pushed")
    assert workflows.from_direct_url(record) is None


def test_a_copy_in_another_repository_is_not_the_commit_of_that_repository(cloned: Path) -> None:
    """The workflows would name a repository without an action: a vendored copy once did that."""
    git(cloned, "remote", "set-url", "origin", "git@github.com:acme/platform.git")
    (cloned / "vendor").mkdir()
    record = json.dumps({"url": (cloned / "vendor").as_uri(), "dir_info": {}})
    assert workflows.from_direct_url(record) is None
    assert workflows.from_checkout(cloned) is not None


ROOT = Path(__file__).parents[4]


def test_the_build_hook_needs_no_package() -> None:
    """`-S`: without site-packages. A policy class, which needs pydantic, once came in."""
    program = (
        "import reconciler.companions.github.workflows; print(reconciler.companions.github.workflows.is_source('a/b'))"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "False\n"), result.stderr
