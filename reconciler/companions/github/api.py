"""One repository in GitHub's REST API."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import quote

from reconciler.companions.code_host import CodeHost, CodeHostUnavailable, Hidden
from reconciler.errors import UsageError

BOT = "github-actions[bot]"
"""Who writes with the token of a workflow."""
_REPOSITORY = re.compile(r"[A-Za-z0-9-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")


class GitHubUnavailable(CodeHostUnavailable):
    """GitHub's API gave no answer, or none that can be used."""


class GitHub(CodeHost):
    """One repository in GitHub's REST API."""

    NAME: ClassVar[str] = "GitHub"
    UNAVAILABLE: ClassVar[type[CodeHostUnavailable]] = GitHubUnavailable
    VARIABLES: ClassVar[tuple[str, str]] = "GH_TOKEN or GITHUB_TOKEN", "GITHUB_API_URL"
    HEADERS: ClassVar[Mapping[str, str]] = {
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }

    @classmethod
    def of(cls, repository: str, *, timeout_s: float, environment: Mapping[str, str] = os.environ) -> "GitHub":
        """Return the repository OWNER/NAME, with the API and the token of the environment. Raises UsageError."""
        if not _REPOSITORY.fullmatch(repository):
            raise UsageError(f"--github {repository or 'is empty'}: expected OWNER/NAME of a repository")
        url = (environment.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/")
        token = environment.get("GH_TOKEN") or environment.get("GITHUB_TOKEN") or ""
        return cls(repository=repository, url=url, token=token, timeout_s=timeout_s)

    @property
    def root(self) -> str:
        return f"{self.url}/repos/{self.repository}"

    @cached_property
    def default_branch(self) -> str:
        try:
            return str(self.get("")["default_branch"])
        except Hidden as error:
            hint = "" if self.token else "; set GH_TOKEN"
            raise GitHubUnavailable(
                f"the repository {self.repository} does not exist, or this token may not see it{hint}"
            ) from error

    def has_commit(self, branch: str, commit: str) -> bool:
        """Whether a branch has a commit; False for one that the repository does not have, such as a fork's.

        By the commit of the branch, because a tag can have the name of the branch.
        """
        tip = self.get(f"git/ref/heads/{quote(branch)}")["object"]["sha"]
        comparison = self.find(f"compare/{commit}...{tip}")
        return comparison is not None and comparison["status"] in ("identical", "ahead")

    def find_comment(self, number: str, marker: str) -> str | None:
        own = find_own(self.get_all(f"issues/{number}/comments"), marker)
        return None if own is None else str(own["id"])

    def write_comment(self, number: str, body: str, edited: str | None = None) -> None:
        if edited is None:
            self.send("POST", f"issues/{number}/comments", body=body)
        else:
            self.send("PATCH", f"issues/comments/{edited}", body=body)

    def keep_issue(self, marker: str, body: str, *, title: str = "", closing: str = "") -> None:
        """Keep one open issue with this marker: edit it, or open it. Without a body, close it with a comment."""
        issue, text = find_own(self.get_all("issues", state="open"), marker), f"{marker}\n{body}"
        if body and issue:
            self.send("PATCH", f"issues/{issue['number']}", body=text)
        elif body:
            self.send("POST", "issues", title=title, body=text)
        elif issue:
            self.send("POST", f"issues/{issue['number']}/comments", body=closing)
            self.send("PATCH", f"issues/{issue['number']}", state="closed", state_reason="completed")

    def call(self, method: str, path: str, *words: str) -> str:
        """Return the `gh api` call for a path below the repository. `words`: shell words, quoted already."""
        return " ".join(
            [
                "gh api",
                *([] if method == "GET" else [f"--method {method}"]),
                shlex.quote(f"repos/{self.repository}/{path}"),
                *words,
            ]
        )


def find_own(rows: Sequence[Mapping[str, Any]], marker: str) -> Mapping[str, Any] | None:
    """Return the first comment or issue of the workflows that begins with the marker."""
    own = (row for row in rows if (row["user"] or {}).get("login") == BOT)
    return next((row for row in own if (row["body"] or "").startswith(marker)), None)
