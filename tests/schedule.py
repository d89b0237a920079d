"""Decides which tests share a worker process, and which ones start first.

The tests of a file run in one process, one after the other, because they share the file's fixtures, and
so do those of the files of one of GROUPS. The tests of SPLIT_FILES are distributed one by one. Long
groups start first, so that no worker runs one alone at the end.

A quarter of the workers prefers tests of three brokers (`cluster` of conftest.py), and the others the
rest: each broker takes 3 s of CPU to start, 1 s a minute while it is idle, and a connection of each
client. So another worker ends rather than start three for few tests.
"""

from collections.abc import Mapping

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SPLIT_FILES = frozenset(
    {
        "tests/e2e/test_hostile_names.py",
        "tests/e2e/test_interrupts.py",
        "tests/e2e/test_workflow_attacks.py",
        "tests/properties/test_stateful.py",
    }
)
"""Files without shared fixtures whose tests are long enough to be distributed one by one."""

GROUPS: Mapping[str, str] = {
    file: files[0]
    for files in (
        ("tests/kafka/test_doctor.py", "tests/kafka/test_tls_sasl.py"),
        ("tests/kafka/test_connect.py", "tests/kafka/test_hidden_consumer_offsets.py", "tests/kafka/test_tokens.py"),
    )
    for file in files
}
"""File → the group, named by one of its files, whose brokers it shares (tests/kafka/secured.py)."""

THREE_BROKERS = (
    "tests/bench/",
    "tests/contract/",
    "tests/e2e/test_interrupts.py",
    "tests/e2e/test_moved_coordinators.py",
    "tests/e2e/test_operations.py",
    "tests/e2e/test_slice.py",
    "tests/faults/",
    "tests/kafka/",
    "tests/spark/test_incomplete.py",
    "tests/spark/test_scan.py",
)
"""Folders and files whose `cluster` has three brokers: they elect leaders, stop brokers, or replicate. For others it has one."""

SECONDS: Mapping[str, float] = {
    "tests/e2e/test_readers_that_crash.py": 300,  # only in `make test-long`
    "tests/spark/test_engines.py": 160,
    "tests/kafka/test_gateway_faults.py": 140,
    "tests/e2e/test_pending_and_shared.py": 140,
    "tests/e2e/test_object_store.py": 120,  # only in `make test-long`
    "tests/e2e/test_streams_beside_watch.py": 120,  # only in `make test-long`
    "tests/spark/test_sources.py": 110,
    "tests/spark/test_spark_process.py": 90,
    "tests/e2e/test_offline_install.py": 85,
    "tests/kafka/test_apply.py": 80,
    "tests/e2e/test_operations.py": 80,
    "tests/e2e/test_slice.py": 80,
    "tests/kafka/test_doctor.py": 80,
    "tests/e2e/test_workflows.py": 80,
    "tests/spark/test_incomplete.py": 80,
    "tests/e2e/test_records_and_times.py": 75,
    "tests/contract/test_gateway_contract.py": 65,
    "tests/e2e/test_restore_group.py": 65,
    "tests/kafka/test_connect.py": 60,
    "tests/faults/test_faults.py": 60,
    "tests/e2e/test_converge.py": 55,
    "tests/e2e/test_apply_trusts_manifests.py": 52,
    "tests/e2e/test_docs_walk.py": 45,
    "tests/kafka/test_sandbox.py": 45,
    "tests/spark/test_nothing_left.py": 45,
    "tests/e2e/test_exit_codes.py": 44,
    "tests/e2e/test_interrupts.py": 43,
    "tests/e2e/test_clocks.py": 40,
    "tests/e2e/test_moved_coordinators.py": 40,
    "tests/e2e/test_readers_and_records.py": 40,
    "tests/faults/test_witness.py": 40,
    "tests/properties/test_references_stay_hidden.py": 40,
    "tests/e2e/test_metadata_of_commits.py": 38,
    "tests/e2e/test_shares_and_waits.py": 35,
    "tests/e2e/test_workflow_attacks.py": 34,
    "tests/e2e/test_recipes.py": 33,
    "tests/e2e/test_connection_attacks.py": 30,
    "tests/e2e/test_other_ci.py": 30,
    "tests/kafka/test_apply_rights.py": 28,
    "tests/e2e/test_watch.py": 25,
}
"""File → approximate seconds, from 25 on: of its group, and in SPLIT_FILES of the longest test.

A wrong number costs time only.
"""

_SECONDS_OF_OTHERS = 5.0
_WORTH_BROKERS_S = 150.0
"""If the tests of three brokers that are left take longer, another worker starts brokers for them."""
_OWN_BROKERS = (
    "tests/kafka/test_apply_rights.py",
    "tests/kafka/test_connect.py",
    "tests/kafka/test_demo_data.py",
    "tests/kafka/test_doctor.py",
    "tests/kafka/test_few_clients.py",
    "tests/kafka/test_hidden_consumer_offsets.py",
    "tests/kafka/test_sandbox.py",
    "tests/kafka/test_sandbox_jars.py",
    "tests/kafka/test_tls_sasl.py",
    "tests/kafka/test_tokens.py",
    "tests/kafka/test_traps.py",
)
"""Files of THREE_BROKERS that start brokers of their own, or none, or do with one."""


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def group_of(nodeid: str) -> str:
    """Name of the group of tests that run in one process, one after the other."""
    file = file_of(nodeid)
    return nodeid if file in SPLIT_FILES else GROUPS.get(file, file)


def uses_three_brokers(group: str) -> bool:
    """Whether tests of this group use the session's three brokers."""
    return group.startswith(THREE_BROKERS) and not group.startswith(_OWN_BROKERS)


def seconds_of(group: str) -> float:
    """The approximate time of the tests of a group, or of any of its tests."""
    return SECONDS.get(file_of(group), _SECONDS_OF_OTHERS)


def sort_key(nodeid: str) -> float:
    """Sort key that puts long groups first; `sorted` keeps the order of the others."""
    return -seconds_of(nodeid)


class GroupScheduling(LoadScopeScheduling):
    """Distributes groups in the order of their collection, those of three brokers to the first quarter of the workers."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        has_brokers = self._has_brokers(node)
        preferred = (group for group in self.workqueue if uses_three_brokers(group) == has_brokers)
        self.workqueue.move_to_end(next(preferred, next(iter(self.workqueue))), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if self.workqueue and all(map(uses_three_brokers, self.workqueue)) and not self._has_brokers(node):
            has_some = any(uses_three_brokers(group) for group in self.assigned_work[node])
            if not has_some and sum(map(seconds_of, self.workqueue)) < _WORTH_BROKERS_S:
                node.shutdown()
                return
        super()._reschedule(node)

    def _has_brokers(self, node: WorkerController) -> bool:
        """Whether the node prefers tests of three brokers."""
        workers = sorted(worker.gateway.id for worker in self.registered_collections)
        return workers.index(node.gateway.id) < (len(workers) + 3) // 4
