"""The fingerprint of a group's committed offsets, which scan and recheck compare.

A commit of the same offset again does not change it; only the commit log shows that.
"""

import hashlib
from collections.abc import Iterable


def fingerprint(commits: Iterable[tuple[str, int, int]]) -> str:
    """Return the sha256 (hex) over the sorted (topic, partition, committed) of one group.

    Raises ValueError for a negative offset: that is "no commit" or "unknown" in a client's answer, never a position.
    """
    digest = hashlib.sha256()
    for topic, partition, committed in sorted(commits):
        if committed < 0:
            raise ValueError(f"{topic}[{partition}]: {committed} is no committed offset")
        digest.update(f"{topic}\0{partition}\0{committed}\n".encode())
    return digest.hexdigest()
