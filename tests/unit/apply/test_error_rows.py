"""Says for each row of the error table which test covers it on real brokers, or why none does.

A row without an entry fails, and so does an entry with a test that does not exist.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from reconciler.kafka.gateway import error_name
from reconciler.operations.error_meanings import ResponseAction
from tests.fakes.error_table import TABLE, Operation
from tests.unit.apply import test_error_table as on_the_fake

RECORDS, GROUP, LEADER = Operation.DELETE_RECORDS, Operation.DELETE_GROUP, Operation.ELECT_LEADER
TESTS = Path(__file__).parents[2]

CONTRACT = "contract/test_gateway_contract.py"
FAULTS = "kafka/test_gateway_faults.py"
ROWS = "kafka/test_apply_rows.py"
RIGHTS = "kafka/test_apply_rights.py::test_an_action_without_permission_fails_and_the_others_go_on"

ON_REAL_BROKERS: Mapping[tuple[Operation, int], str] = {
    (RECORDS, KafkaError.NO_ERROR): "kafka/test_apply.py::test_apply_does_what_was_planned_and_nothing_else",
    (RECORDS, KafkaError._TIMED_OUT): f"{FAULTS}::test_gateway_a_silent_leader_affects_only_its_partitions",
    (
        RECORDS,
        KafkaError.REQUEST_TIMED_OUT,
    ): f"{FAULTS}::test_gateway_a_slow_follower_is_a_timeout_with_an_effect",
    (
        RECORDS,
        KafkaError.LEADER_NOT_AVAILABLE,
    ): f"{FAULTS}::test_gateway_no_leader_means_retry_and_elections_wait",
    (RECORDS, KafkaError.OFFSET_OUT_OF_RANGE): f"{ROWS}::test_offset_out_of_range_is_stale",
    (RECORDS, KafkaError.UNKNOWN_TOPIC_OR_PART): f"{ROWS}::test_a_deleted_topic_is_stale",
    (RECORDS, KafkaError._NOENT): f"{CONTRACT}::test_contract_a_read_creates_no_topic",
    (RECORDS, KafkaError.POLICY_VIOLATION): f"{ROWS}::test_policy_violation_is_failed",
    (RECORDS, KafkaError.TOPIC_EXCEPTION): f"{ROWS}::test_invalid_topic_is_failed",
    (RECORDS, KafkaError.TOPIC_AUTHORIZATION_FAILED): RIGHTS,
    (GROUP, KafkaError.NO_ERROR): "kafka/test_apply.py::test_apply_does_what_was_planned_and_nothing_else",
    (GROUP, KafkaError.GROUP_ID_NOT_FOUND): f"{ROWS}::test_group_id_not_found_is_satisfied",
    (GROUP, KafkaError.NON_EMPTY_GROUP): f"{ROWS}::test_non_empty_group_is_stale",
    (GROUP, KafkaError.GROUP_AUTHORIZATION_FAILED): RIGHTS,
    (LEADER, KafkaError.NO_ERROR): "kafka/test_apply.py::test_apply_does_what_was_planned_and_nothing_else",
    (LEADER, KafkaError.ELECTION_NOT_NEEDED): f"{ROWS}::test_election_not_needed_is_satisfied",
    (LEADER, KafkaError.UNKNOWN_TOPIC_OR_PART): f"{ROWS}::test_a_deleted_topic_is_stale",
    (LEADER, KafkaError.PREFERRED_LEADER_NOT_AVAILABLE): f"{ROWS}::test_preferred_leader_not_available_waits",
    (LEADER, KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE): (
        f"{FAULTS}::test_gateway_no_leader_means_retry_and_elections_wait"
    ),
    (LEADER, KafkaError.CLUSTER_AUTHORIZATION_FAILED): RIGHTS,
}

FAKE_ONLY: Mapping[str, frozenset[int]] = {
    "the client's words for silence that no test brings about on purpose; the fault suite kills and freezes brokers": frozenset(
        (
            KafkaError._TIMED_OUT,
            KafkaError._TIMED_OUT_QUEUE,
            KafkaError._MSG_TIMED_OUT,
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._RESOLVE,
            KafkaError._DESTROY,
            KafkaError._DESTROY_BROKER,
            KafkaError._IN_PROGRESS,
            KafkaError.NETWORK_EXCEPTION,
            KafkaError.UNKNOWN,
        )
    ),
    "the client refuses requests that the gateway never makes, or is of another version": frozenset(
        (KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_IMPLEMENTED)
    ),
    "the client's cache is behind for a moment": frozenset(
        (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError._NOENT, KafkaError._UNKNOWN_BROKER)
    ),
    "leaders, coordinators and controllers move within milliseconds: not to be met on purpose": frozenset(
        (
            KafkaError.NOT_LEADER_FOR_PARTITION,
            KafkaError.FENCED_LEADER_EPOCH,
            KafkaError.UNKNOWN_LEADER_EPOCH,
            KafkaError.BROKER_NOT_AVAILABLE,
            KafkaError.REPLICA_NOT_AVAILABLE,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            KafkaError.NOT_COORDINATOR,
            KafkaError.NOT_CONTROLLER,
            KafkaError.LEADER_NOT_AVAILABLE,
            KafkaError.REQUEST_TIMED_OUT,
        )
    ),
    "takes a broken disk, a quota, or more than 10,000 elections in one request": frozenset(
        (KafkaError.KAFKA_STORAGE_ERROR, KafkaError.THROTTLING_QUOTA_EXCEEDED, KafkaError.POLICY_VIOLATION)
    ),
    "brokers of now answer requests by name, and group ids that a plan can hold are valid": frozenset(
        (KafkaError.UNKNOWN_TOPIC_ID, KafkaError.INVALID_GROUP_ID)
    ),
}

ROWS_OF_THE_TABLE = [(operation, code) for operation, rows in TABLE.items() for code in rows]


@pytest.mark.parametrize(
    ("operation", "code"), ROWS_OF_THE_TABLE, ids=lambda value: value if isinstance(value, str) else error_name(value)
)
def test_every_row_is_tested_and_names_its_test(operation: Operation, code: int) -> None:
    """Each row is tested on the fake cluster, and on real brokers or with a reason."""
    lists = {
        ResponseAction.READ_BACK: on_the_fake.READ_BACK,
        ResponseAction.RETRY: on_the_fake.RETRY,
        ResponseAction.STALE: on_the_fake.STALE,
        ResponseAction.FAILED: on_the_fake.FAILED,
        ResponseAction.WAITING: on_the_fake.WAITING,
        ResponseAction.DONE: on_the_fake.DONE,
        ResponseAction.HALVE: on_the_fake.FAILED,
    }
    assert (operation, code) in lists[TABLE[operation][code]]
    provoked = ON_REAL_BROKERS.get((operation, code))
    if provoked is None:
        assert any(code in codes for codes in FAKE_ONLY.values()), "say where, or why not"
        return
    file, _, name = provoked.partition("::")
    assert re.search(rf"^def {re.escape(name)}\(", (TESTS / file).read_text(), re.MULTILINE), provoked


def test_each_entry_belongs_to_a_row() -> None:
    """No entry names a row that the table does not have."""
    assert set(ON_REAL_BROKERS) <= set(ROWS_OF_THE_TABLE)
    assert {code for codes in FAKE_ONLY.values() for code in codes} <= {code for _, code in ROWS_OF_THE_TABLE}
