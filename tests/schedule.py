"""Which tests stay together, and which come first, where several worker processes share a run.

The tests of a file run in one process, one after the other, since they share the file's fixtures. Files that only differ in what
they do to the same servers share a process too. A file whose tests share nothing is handed out test by test. What takes long comes
first, so that no worker is left alone with it at the end.
"""

from collections.abc import Mapping

from xdist.scheduler import LoadScopeScheduling

TOGETHER: Mapping[str, str] = {}
"""File → group, for files that share a fixture which is expensive to make."""

APART = frozenset[str]()
"""Files whose tests share no fixture, and take long enough to be handed out one by one."""

SECONDS: Mapping[str, float] = {}
"""File → how long its tests take, about. A number that is out of date costs time, nothing else."""


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def group_of(nodeid: str) -> str:
    """The name of the group of tests that run in one process, one after the other."""
    file = file_of(nodeid)
    return nodeid if file in APART else TOGETHER.get(file, file)


def sort_key(nodeid: str) -> float:
    """Long groups first; `sorted` keeps the order of the others."""
    group = TOGETHER.get(file_of(nodeid), file_of(nodeid))
    return -sum(seconds for file, seconds in SECONDS.items() if TOGETHER.get(file, file) == group)


class GroupScheduling(LoadScopeScheduling):
    """Hands out groups in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
