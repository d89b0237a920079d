"""Decides which tests share a worker process, and which ones start first.

The tests of a file run in one process, one after the other, because they share the file's fixtures.
The tests of a file without shared fixtures are distributed one by one. Long groups start first, so
that no worker runs one alone at the end.
"""

from collections.abc import Mapping

from xdist.scheduler import LoadScopeScheduling

SPLIT_FILES = frozenset(
    {
        "tests/e2e/test_hostile_names.py",
        "tests/e2e/test_interrupts.py",
        "tests/e2e/test_two_at_once.py",
        "tests/e2e/test_workflow_attacks.py",
        "tests/e2e/test_workflows.py",
        "tests/kafka/test_apply_rows.py",
        "tests/properties/test_stateful.py",
    }
)
"""Files without shared fixtures whose tests are long enough to be distributed one by one."""

SECONDS: Mapping[str, float] = {
    "tests/faults/test_faults.py": 150,
    "tests/e2e/test_drift_schedule.py": 120,
    "tests/e2e/test_offline_install.py": 120,
    "tests/e2e/test_exit_codes.py": 110,
    "tests/kafka/test_doctor.py": 100,
    "tests/e2e/test_restore_group.py": 110,
    "tests/spark/test_engines.py": 90,
    "tests/spark/test_spark_process.py": 90,
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
    "tests/e2e/test_workflow_attacks.py": 30,
    "tests/e2e/test_two_at_once.py": 65,
    "tests/kafka/test_apply_rights.py": 60,
    "tests/kafka/test_demo_data.py": 40,
    "tests/e2e/test_hostile_names.py": 40,
    "tests/e2e/test_hidden_groups.py": 40,
    "tests/e2e/test_recipes.py": 25,
}
"""File → approximate seconds; for a file of SPLIT_FILES, those of its longest test.

A wrong number costs time only.
"""


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def group_of(nodeid: str) -> str:
    """Name of the group of tests that run in one process, one after the other."""
    file = file_of(nodeid)
    return nodeid if file in SPLIT_FILES else file


def sort_key(nodeid: str) -> float:
    """Sort key that puts long groups first; `sorted` keeps the order of the others."""
    return -SECONDS.get(file_of(nodeid), 0)


class GroupScheduling(LoadScopeScheduling):
    """Distributes groups in the order of their collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
