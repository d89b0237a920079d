"""Maps each error of each operation to what the applier does: one table, nothing else decides it.

The client library's own `retriable()` is always false, so codes are the only evidence. A code that is
not in the table is a failure if it comes from a broker, and is read back if it comes from the client.
Neither is success, nor proof that the request had no effect.
"""

from collections.abc import Mapping
from enum import StrEnum

from confluent_kafka import KafkaError

from reconciler.model.ports import ItemResult, ResponseAction


class Operation(StrEnum):
    """The three requests, by their names in plan files."""

    DELETE_RECORDS = "delete_records"
    DELETE_GROUP = "delete_group"
    ELECT_LEADER = "elect_leader"


# The client's codes for "no answer". The request may have been carried out, or may never have been sent.
_NO_ANSWER: Mapping[int, ResponseAction] = dict.fromkeys(
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
    ),
    ResponseAction.READ_BACK,
)

# The client refused to send: the request certainly had no effect.
_NOT_SENT: Mapping[int, ResponseAction] = dict.fromkeys(
    (KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_IMPLEMENTED), ResponseAction.FAILED
)

# The client knows no leader now; the cluster may have one in a moment.
_NO_LEADER: Mapping[int, ResponseAction] = dict.fromkeys(
    (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError._NOENT, KafkaError._UNKNOWN_BROKER),
    ResponseAction.RETRY,
)

TABLE: Mapping[Operation, Mapping[int, ResponseAction]] = {
    Operation.DELETE_RECORDS: {
        **_NO_ANSWER,
        **_NOT_SENT,
        **_NO_LEADER,
        KafkaError.NO_ERROR: ResponseAction.DONE,
        # In every trial the leader had already advanced: the answer waits for the slowest live replica.
        KafkaError.REQUEST_TIMED_OUT: ResponseAction.READ_BACK,
        KafkaError.LEADER_NOT_AVAILABLE: ResponseAction.RETRY,
        KafkaError.NOT_LEADER_FOR_PARTITION: ResponseAction.RETRY,
        KafkaError.KAFKA_STORAGE_ERROR: ResponseAction.RETRY,
        KafkaError.FENCED_LEADER_EPOCH: ResponseAction.RETRY,
        KafkaError.UNKNOWN_LEADER_EPOCH: ResponseAction.RETRY,
        KafkaError.BROKER_NOT_AVAILABLE: ResponseAction.RETRY,
        KafkaError.REPLICA_NOT_AVAILABLE: ResponseAction.RETRY,
        KafkaError.THROTTLING_QUOTA_EXCEEDED: ResponseAction.RETRY,
        KafkaError.OFFSET_OUT_OF_RANGE: ResponseAction.STALE,
        KafkaError.UNKNOWN_TOPIC_OR_PART: ResponseAction.STALE,
        KafkaError.UNKNOWN_TOPIC_ID: ResponseAction.STALE,
        KafkaError.POLICY_VIOLATION: ResponseAction.FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED: ResponseAction.FAILED,
        KafkaError.TOPIC_EXCEPTION: ResponseAction.FAILED,
    },
    Operation.DELETE_GROUP: {
        **_NO_ANSWER,
        **_NOT_SENT,
        KafkaError.NO_ERROR: ResponseAction.DONE,
        KafkaError.GROUP_ID_NOT_FOUND: ResponseAction.DONE,
        KafkaError.REQUEST_TIMED_OUT: ResponseAction.READ_BACK,
        KafkaError.COORDINATOR_NOT_AVAILABLE: ResponseAction.RETRY,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS: ResponseAction.RETRY,
        KafkaError.NOT_COORDINATOR: ResponseAction.RETRY,
        KafkaError.THROTTLING_QUOTA_EXCEEDED: ResponseAction.RETRY,
        KafkaError.NON_EMPTY_GROUP: ResponseAction.STALE,
        KafkaError.INVALID_GROUP_ID: ResponseAction.FAILED,
        # Also the answer for absent groups to a caller without the right.
        KafkaError.GROUP_AUTHORIZATION_FAILED: ResponseAction.FAILED,
    },
    Operation.ELECT_LEADER: {
        **_NO_ANSWER,
        **_NOT_SENT,
        **_NO_LEADER,
        KafkaError.NO_ERROR: ResponseAction.DONE,
        KafkaError.ELECTION_NOT_NEEDED: ResponseAction.DONE,
        KafkaError.NOT_CONTROLLER: ResponseAction.RETRY,
        KafkaError.LEADER_NOT_AVAILABLE: ResponseAction.RETRY,
        KafkaError.REQUEST_TIMED_OUT: ResponseAction.RETRY,
        KafkaError.BROKER_NOT_AVAILABLE: ResponseAction.RETRY,
        KafkaError.THROTTLING_QUOTA_EXCEEDED: ResponseAction.RETRY,
        KafkaError.UNKNOWN_TOPIC_OR_PART: ResponseAction.STALE,
        KafkaError.UNKNOWN_TOPIC_ID: ResponseAction.STALE,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: ResponseAction.FAILED,
        # More elections than the broker accepts in one request: the request had no effect.
        KafkaError.POLICY_VIOLATION: ResponseAction.HALVE,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE: ResponseAction.WAITING,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE: ResponseAction.WAITING,
    },
}

# Answers that prove that the request had no effect. Not among them: silence, a disk error, and the answers
# of a former leader, coordinator or controller. It may have applied the request, and answers so while it
# waits for its followers (DelayedDeleteRecords.tryComplete, CoordinatorRuntime's failAll).
_NO_EFFECT = frozenset(
    (
        *_NOT_SENT,
        *_NO_LEADER,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.ELECTION_NOT_NEEDED,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    )
)
_REFUSALS = frozenset({ResponseAction.STALE, ResponseAction.WAITING, ResponseAction.FAILED, ResponseAction.HALVE})

# A refusal, but also the answer of a leader whose replica was removed after the deletion.
_AMBIGUOUS = frozenset({(Operation.DELETE_RECORDS, KafkaError.UNKNOWN_TOPIC_OR_PART)})

# The missing right of a refusal: the broker's message does not name it.
_RIGHTS: Mapping[int, str] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "DELETE on the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "DELETE on the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ALTER on the cluster",
}

# The client library has some old names.
_KAFKA_NAMES: Mapping[int, str] = {
    KafkaError.NO_ERROR: "NONE",
    KafkaError.UNKNOWN: "UNKNOWN_SERVER_ERROR",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "UNKNOWN_TOPIC_OR_PARTITION",
    KafkaError.NOT_LEADER_FOR_PARTITION: "NOT_LEADER_OR_FOLLOWER",
    KafkaError.TOPIC_EXCEPTION: "INVALID_TOPIC_EXCEPTION",
}


def item_answer(operation: Operation, code: int, text: str = "") -> ItemResult:
    """The result for one item with `code`: Kafka's protocol code, or a negative one of the library."""
    mapped = TABLE[operation].get(code)
    action = mapped or (ResponseAction.READ_BACK if code < 0 else ResponseAction.FAILED)
    if (right := _RIGHTS.get(code)) is not None:
        text = f"the right is missing: {right} ({text or name_of(code)}); `reconciler doctor --acls` prints the grants"
    refused = mapped in _REFUSALS and (operation, code) not in _AMBIGUOUS
    return ItemResult(action, name_of(code), text, no_effect=code in _NO_EFFECT or refused)


def name_of(code: int) -> str:
    """Kafka's name of a protocol code, `NONE` for 0; the library's name, such as `_TIMED_OUT`, for its own."""
    name = _KAFKA_NAMES.get(code)
    return str(KafkaError(code).name()) if name is None else name
