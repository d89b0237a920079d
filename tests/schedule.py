"""Which tests stay together, and which come first, where several worker processes share a run.

The tests of a file run in one process, one after the other, since they share the file's fixtures. A file whose tests share nothing is
handed out test by test. What takes long comes first, so that no worker is left alone with it at the end.
"""

from collections.abc import Mapping

from xdist.scheduler import LoadScopeScheduling

APART = frozenset(
    {
        "tests/e2e/test_hostile_names.py",
        "tests/e2e/test_interrupts.py",
        "tests/e2e/test_two_at_once.py",
        "tests/e2e/test_workflows.py",
        "tests/kafka/test_apply_rows.py",
        "tests/properties/test_stateful.py",
    }
)
"""Files whose tests share no fixture, and take long enough to be handed out one by one."""

SECONDS: Mapping[str, float] = {}
"""File → how long it takes, about; of a file whose tests run apart, the longest of them. A number that is out of date costs time,
nothing else."""


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def group_of(nodeid: str) -> str:
    """The name of the group of tests that run in one process, one after the other."""
    file = file_of(nodeid)
    return nodeid if file in APART else file


def sort_key(nodeid: str) -> float:
    """Long groups first; `sorted` keeps the order of the others."""
    return -SECONDS.get(file_of(nodeid), 0)


class GroupScheduling(LoadScopeScheduling):
    """Hands out groups in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
