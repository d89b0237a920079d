"""The error table itself: total, and never optimistic."""

import pytest
from confluent_kafka import KafkaError

from reconciler.kafka.gateway import error_name
from reconciler.operations.response import ResponseAction
from tests.fakes.error_table import CODES, Operation, response

DONE = {
    Operation.DELETE_RECORDS: {KafkaError.NO_ERROR},
    Operation.DELETE_GROUP: {KafkaError.NO_ERROR, KafkaError.GROUP_ID_NOT_FOUND},
    Operation.ELECT_LEADER: {KafkaError.NO_ERROR, KafkaError.ELECTION_NOT_NEEDED},
}


@pytest.mark.parametrize("operation", Operation)
def test_codes_only_the_named_ones_are_done(operation: Operation) -> None:
    """Of all codes of the library, and of some unknown ones, only the listed ones mean done."""
    done_codes = {code for code in (*CODES, 9_999, -9_999) if response(operation, code).answer is ResponseAction.DONE}
    assert done_codes == DONE[operation]


@pytest.mark.parametrize("operation", Operation)
def test_codes_of_the_client_are_read_back(operation: Operation) -> None:
    """Codes of the client are read back, except for requests that it certainly never sent."""
    for code in [code for code in CODES if code < 0] + [-9_999]:
        answer = response(operation, code)
        if not answer.no_effect:
            assert answer.answer is ResponseAction.READ_BACK, error_name(code)


@pytest.mark.parametrize("operation", Operation)
def test_codes_unknown_refusals_are_failures(operation: Operation) -> None:
    """An unknown code of a broker is a failure."""
    assert response(operation, 9_999).answer is ResponseAction.FAILED


@pytest.mark.parametrize("operation", Operation)
def test_codes_without_proof_may_have_had_an_effect(operation: Operation) -> None:
    """Timeouts, transport errors and ambiguous refusals do not count as "no effect"."""
    ambiguous_codes = [
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
    ]
    assert not any(response(operation, code).no_effect for code in ambiguous_codes)
    assert not response(operation, KafkaError.NO_ERROR).no_effect
    assert not response(Operation.DELETE_GROUP, KafkaError.COORDINATOR_NOT_AVAILABLE).no_effect
    assert not response(operation, 9_999).no_effect, "a code from the future"
    for code in (
        KafkaError.KAFKA_STORAGE_ERROR,
        # Said by a leader that deleted, waited for its followers, and lost the partition meanwhile.
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    ):
        assert not response(Operation.DELETE_RECORDS, code).no_effect
    assert not response(Operation.DELETE_GROUP, KafkaError.NOT_COORDINATOR).no_effect
    assert not response(Operation.ELECT_LEADER, KafkaError.NOT_CONTROLLER).no_effect


def test_codes_have_kafkas_names() -> None:
    """Kafka's name replaces an old name of the library."""
    assert error_name(0) == "NONE"
    assert error_name(KafkaError.NOT_LEADER_FOR_PARTITION) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(KafkaError.UNKNOWN_TOPIC_OR_PART) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_name(KafkaError.TOPIC_EXCEPTION) == "INVALID_TOPIC_EXCEPTION"
    assert error_name(KafkaError._TIMED_OUT) == "_TIMED_OUT"
    assert error_name(KafkaError.NON_EMPTY_GROUP) == "NON_EMPTY_GROUP"
