"""The error table itself: total, and never optimistic."""

import pytest
from confluent_kafka import KafkaError

from reconciler.kafka.gateway import error_name
from reconciler.operations.error_meanings import ResponseAction
from tests.fakes.error_table import CODES, Operation, response

DONE = {
    Operation.DELETE_RECORDS: {KafkaError.NO_ERROR},
    Operation.DELETE_GROUP: {KafkaError.NO_ERROR, KafkaError.GROUP_ID_NOT_FOUND},
    Operation.ELECT_LEADER: {KafkaError.NO_ERROR, KafkaError.ELECTION_NOT_NEEDED},
}

NEVER_SENT = {
    *(KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_IMPLEMENTED),
    *(KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError._NOENT, KafkaError._UNKNOWN_BROKER),
}
NO_EFFECT = {
    Operation.DELETE_RECORDS: {
        *(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH),
        *(KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.UNKNOWN_TOPIC_ID, KafkaError.POLICY_VIOLATION),
        *(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION),
    },
    Operation.DELETE_GROUP: {
        *(KafkaError.GROUP_ID_NOT_FOUND, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NON_EMPTY_GROUP),
        *(KafkaError.INVALID_GROUP_ID, KafkaError.GROUP_AUTHORIZATION_FAILED),
    },
    Operation.ELECT_LEADER: {
        *(KafkaError.ELECTION_NOT_NEEDED, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.POLICY_VIOLATION),
        *(KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError.CLUSTER_AUTHORIZATION_FAILED),
        *(KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    },
}
"""The codes that prove that a request had no effect, besides NEVER_SENT and a quota."""

RETRIED = {
    Operation.DELETE_RECORDS: {
        *(KafkaError.REQUEST_TIMED_OUT, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION),
        *(KafkaError.KAFKA_STORAGE_ERROR, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH),
        *(KafkaError.BROKER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE),
    },
    Operation.DELETE_GROUP: {
        *(KafkaError.REQUEST_TIMED_OUT, KafkaError.COORDINATOR_NOT_AVAILABLE),
        *(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR),
    },
    Operation.ELECT_LEADER: {
        *(KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_CONTROLLER),
        *(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.BROKER_NOT_AVAILABLE),
    },
}
"""The codes of a broker after which the applier sends again or reads back, besides those of every operation."""
RETRIED_BY_ALL = {KafkaError.NETWORK_EXCEPTION, KafkaError.UNKNOWN, KafkaError.THROTTLING_QUOTA_EXCEEDED}


@pytest.mark.parametrize("operation", Operation)
def test_codes_only_the_named_ones_prove_no_effect(operation: Operation) -> None:
    """Of all codes, only the listed ones prove that a request had no effect."""
    proving_codes = {code for code in (*CODES, 9_999, -9_999) if response(operation, code).no_effect}
    assert proving_codes == NO_EFFECT[operation] | NEVER_SENT | {KafkaError.THROTTLING_QUOTA_EXCEEDED}


@pytest.mark.parametrize("operation", Operation)
def test_codes_temporary_ones_are_never_final(operation: Operation) -> None:
    """The listed codes of brokers, and all of the client that prove no refusal, lead to another look."""
    temporary = {ResponseAction.RETRY, ResponseAction.READ_BACK}
    refused = {KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_IMPLEMENTED}
    of_client = {code for code in (*CODES, -9_999) if code < 0} - refused
    codes = {code for code in (*CODES, 9_999, -9_999) if response(operation, code).answer in temporary}
    assert codes == RETRIED[operation] | RETRIED_BY_ALL | of_client


@pytest.mark.parametrize("operation", Operation)
def test_codes_of_authorization_name_the_right(operation: Operation) -> None:
    """Every authorization error names the right that the request needs, and the command that prints the grants."""
    right = {
        Operation.DELETE_RECORDS: "DELETE on the topic",
        Operation.DELETE_GROUP: "DELETE on the group",
        Operation.ELECT_LEADER: "ALTER on the cluster",
    }[operation]
    codes = [code for code in CODES if error_name(code).endswith("AUTHORIZATION_FAILED")]
    assert len(codes) >= 5
    for code in codes:
        answer = response(operation, code, "denied")
        assert answer.answer is ResponseAction.FAILED
        for text in ("a right is missing (denied)", right, "doctor --acls"):
            assert text in answer.text, error_name(code)


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
