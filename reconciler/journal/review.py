"""Who approved: reviewed trees of manifests, and the CI run that the environment names.

A record of a reviewed tree is one line of the journal in a format of its own: an older program
refuses to read on, and does not take it for an action.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from reconciler.codec import Codec
from reconciler.errors import UsageError
from reconciler.model.bounds import EpochMs
from reconciler.text.escape import quoted

REVIEW_RECENT_MS = 86_400_000
"""How far back a reviewed tree is looked for first.

A record older than half of it is stored again.
"""
RUN_URL, APPROVER = "RECONCILER_RUN_URL", "RECONCILER_APPROVER"
_URL_MAX, _APPROVER_MAX = 500, 200
_TREE = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_START = b'{"v":4,'


@dataclass(frozen=True, slots=True)
class CiRun:
    """The page of a CI run, and who approved it; None: not known."""

    url: str | None = None
    approver: str | None = None


NO_CI_RUN = CiRun()


def ci_run(environment: Mapping[str, str] = os.environ) -> CiRun:
    """Return the run that the environment names.

    Raises UsageError for a value that no journal should hold.
    """
    url, approver = environment.get(RUN_URL) or None, environment.get(APPROVER) or None
    if url is not None and not _is_page(url):
        raise UsageError(
            f"{RUN_URL} is no address of a run: expected https://HOST/PATH without a user, in printable ASCII, of at "
            f"most {_URL_MAX} characters; correct or unset it"
        )
    if approver is not None and not (approver.isprintable() and len(approver) <= _APPROVER_MAX):
        raise UsageError(
            f"{APPROVER} is no name: expected printable text of at most {_APPROVER_MAX} characters; correct or unset it"
        )
    return CiRun(url, approver)


def _is_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    is_text = url.isascii() and url.isprintable() and " " not in url and len(url) <= _URL_MAX
    return is_text and parts.scheme == "https" and bool(host) and "@" not in parts.netloc


def parse_tree(option: str, text: str) -> str:
    """Return the name of a git tree. Raises UsageError for a text that is none."""
    if not _TREE.fullmatch(text):
        raise UsageError(
            f"{option} {text or 'is empty'}: expected the 40 or 64 hex digits of `git rev-parse HEAD:manifests`"
        )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedTree:
    """A tree of manifests that was loaded to apply a reviewed plan: a line of the journal of format
    4.

    `at_ms`: when the line was stored. `reviewed_at_ms`: when the first line about this review was.
    `run_id` and what follows: of the run that applied the reviewed plan.
    """

    v: Literal[4] = 4
    at_ms: EpochMs
    reviewed_at_ms: EpochMs
    tree: str = field(metadata={"name": "reviewed_tree"})
    run_id: str = field(metadata={"name": "run"})
    who: str | None = None
    commit: str | None = None
    run_url: str | None = None
    approver: str | None = None

    def __post_init__(self) -> None:
        if not _TREE.fullmatch(self.tree):
            raise ValueError(f"reviewed_tree is {quoted(self.tree)}, expected 40 or 64 hexadecimal digits")

    def dump(self) -> str:
        """Return the line of the journal, without its newline."""
        return _CODEC.encode(self)

    @classmethod
    def parse(cls, line: bytes) -> "ReviewedTree | None":
        """Return the record of a line; None: it is a line of another format. Raises ValueError."""
        return _CODEC.decode(line.decode("ascii")) if line.startswith(_START) else None


_CODEC = Codec(ReviewedTree, omit_none=True)
