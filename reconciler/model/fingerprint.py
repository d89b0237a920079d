"""One group's committed offsets as a fingerprint: the scan takes it, the recheck before a removal takes it again, and they must agree.

Positions only. A commit of the same offset again leaves it unchanged; only the commit log shows that.
"""

import hashlib
from collections.abc import Iterable


def fingerprint(commits: Iterable[tuple[str, int, int]]) -> str:
    """sha256 hex over the sorted (topic, partition, committed) of one group; order of the input does not matter.

    Raises ValueError for a negative offset: that is "no commit" or "unknown" in a client's answer, never a position.
    """
    digest = hashlib.sha256()
    for topic, partition, committed in sorted(commits):
        if committed < 0:
            raise ValueError(f"{topic}[{partition}]: {committed} is no committed offset")
        digest.update(f"{topic}\0{partition}\0{committed}\n".encode())
    return digest.hexdigest()
