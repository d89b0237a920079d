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

SECONDS: Mapping[str, float] = {
    "tests/faults/test_faults.py": 150,
    "tests/e2e/test_drift_schedule.py": 120,
    "tests/e2e/test_exit_codes.py": 110,
    "tests/kafka/test_doctor.py": 100,
    "tests/spark/test_engines.py": 90,
    "tests/spark/test_session.py": 90,
    "tests/spark/test_sources.py": 80,
    "tests/e2e/test_docs_walk.py": 90,
    "tests/e2e/test_packaging.py": 90,
    "tests/spark/test_incomplete.py": 80,
    "tests/bench/test_benches_on_brokers.py": 70,
    "tests/kafka/test_sandbox.py": 70,
    "tests/kafka/test_gateway_faults.py": 70,
    "tests/e2e/test_converge.py": 60,
    "tests/e2e/test_interrupts.py": 50,
    "tests/kafka/test_tls_sasl.py": 50,
    "tests/e2e/test_workflows.py": 45,
    "tests/e2e/test_two_at_once.py": 65,
    "tests/kafka/test_apply_rights.py": 40,
    "tests/kafka/test_demo_data.py": 40,
    "tests/e2e/test_hostile_names.py": 40,
    "tests/e2e/test_hidden_groups.py": 40,
}
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
