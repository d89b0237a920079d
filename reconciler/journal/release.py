"""Releases of manifests to later runs, and the CI run that the environment names.

A release is one line of the journal in a format of its own: an older program refuses to read on,
and does not take it for an action. It is about what was loaded, whatever the files are called and
wherever they came from.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from reconciler.errors import UsageError
from reconciler.model.bounds import EpochMs
from reconciler.model.plan import ManifestFile, content_hashes
from reconciler.text.escape import quoted
from reconciler.text.validation import is_https_address

RULES = 2
"""Number of the rules that manifests are read with, a part of each hash.

A version in which unchanged manifests may permit more raises it: nothing is released to it until
somebody has reviewed a plan of it.
"""
RELEASE_RECENT_MS = 86_400_000
"""How far back the newest release is looked for first.

A record older than half of it is stored again.
"""
RUN_URL, APPROVER = "RECONCILER_RUN_URL", "RECONCILER_APPROVER"
_URL_MAX, _APPROVER_MAX = 500, 200
_HASH = re.compile("sha256:[0-9a-f]{64}")


def ci_run(environment: Mapping[str, str] = os.environ) -> Mapping[str, str | None]:
    """Return `run_url` and `approver` of the run that the environment names; None: not known.

    Raises UsageError for a value that no journal should hold.
    """
    url, approver = environment.get(RUN_URL) or None, environment.get(APPROVER) or None
    if url is not None and not (is_https_address(url) and re.fullmatch(f"[!-~]{{1,{_URL_MAX}}}", url)):
        raise UsageError(
            f"{RUN_URL} is not an address of a run: expected https://HOST/PATH without a user, in printable ASCII, of at "
            f"most {_URL_MAX} characters; correct or unset it"
        )
    if approver is not None and not (approver.isprintable() and len(approver) <= _APPROVER_MAX):
        raise UsageError(
            f"{APPROVER} is not a name: expected printable text of at most {_APPROVER_MAX} characters; correct or unset it"
        )
    return {"run_url": url, "approver": approver}


def manifests_hash(manifests: Iterable[ManifestFile]) -> str:
    """Return the hash of a cluster's manifests: of their contents only, in no order."""
    text = json.dumps([RULES, content_hashes(manifests)], separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode('ascii')).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Manifests that `apply --release` has loaded: a line of the journal of format 5.

    `at_ms`: when the line was stored. `released_at_ms`: when the first line about this release was.
    `run_id` and what follows: of the run that applied the approved plan of these manifests.
    `manifests`: their hash.
    """

    v: Literal[5] = 5
    at_ms: EpochMs
    released_at_ms: EpochMs
    manifests: str
    run_id: str = field(metadata={"name": "run"})
    who: str | None = None
    commit: str | None = None
    run_url: str | None = None
    approver: str | None = None

    def __post_init__(self) -> None:
        if not _HASH.fullmatch(self.manifests):
            raise ValueError(f"manifests is {quoted(self.manifests)}, expected sha256: and 64 hexadecimal digits")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedTree:
    """A git tree that an earlier version has recorded, in format 4. It releases nothing."""

    v: Literal[4] = 4
    at_ms: EpochMs
    reviewed_at_ms: EpochMs
    tree: str = field(metadata={"name": "reviewed_tree"})
    run_id: str = field(metadata={"name": "run"})
    who: str | None = None
    commit: str | None = None
    run_url: str | None = None
    approver: str | None = None


Approval = Release | ReviewedTree
