"""Issues that the workflows keep: found by a marker, edited in place, closed when all is well."""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.companions.github.api import GitHub, find_own
from reconciler.text.escape import markdown_prose

_FAILED = ("failure", "timed_out", "cancelled")


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
