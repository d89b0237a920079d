"""Comments and issues that the workflows keep: found by a marker, edited in place, closed when all is well."""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.companions.github.api import GitHub
from reconciler.text.escape import markdown_prose

BOT = "github-actions[bot]"
"""Who writes with the token of a workflow."""
_FAILED = ("failure", "timed_out", "cancelled")


def find_own(rows: Sequence[Mapping[str, Any]], marker: str) -> Mapping[str, Any] | None:
    """Return the first comment or issue of the workflows that begins with the marker."""
    own = (row for row in rows if (row["user"] or {}).get("login") == BOT)
    return next((row for row in own if (row["body"] or "").startswith(marker)), None)


def keep_comment(github: GitHub, number: str, marker: str, body: str) -> None:
    """Edit the comment with this marker on a pull request, or add it."""
    text = f"{marker}\n{body}"
    if comment := find_own(github.get_all(f"issues/{number}/comments"), marker):
        github.send("PATCH", f"issues/comments/{comment['id']}", body=text)
    else:
        github.send("POST", f"issues/{number}/comments", body=text)


def keep_issue(github: GitHub, title: str, marker: str, body: str) -> None:
    """Edit the open issue with this marker, or open it."""
    text = f"{marker}\n{body}"
    if issue := find_own(github.get_all("issues", state="open"), marker):
        github.send("PATCH", f"issues/{issue['number']}", body=text)
    else:
        github.send("POST", "issues", title=title, body=text)


def close_issue(github: GitHub, marker: str, comment: str) -> None:
    """Close the open issue with this marker, if there is one, with a comment."""
    if issue := find_own(github.get_all("issues", state="open"), marker):
        github.send("POST", f"issues/{issue['number']}/comments", body=comment)
        github.send("PATCH", f"issues/{issue['number']}", state="closed", state_reason="completed")


def failed_jobs(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown list of the jobs that failed; empty: none did."""
    failed = [job for job in jobs if job["conclusion"] in _FAILED]
    return "\n".join(f"- [{markdown_prose(job['name'])}]({job['html_url']}): {job['conclusion']}" for job in failed)
