"""What each error of each operation asks of the applier: one table, nothing else decides it.

The client library's own `retriable()` says no to everything, so codes are all there is to go by. A code that is not in the table
is a failure if a broker said it, and is read back if the client did. Neither is ever success, nor proof that nothing was done.
"""

from collections.abc import Mapping
from enum import StrEnum

from confluent_kafka import KafkaError

from reconciler.model.ports import ItemResult, ResponseAction


class Operation(StrEnum):
    """The three requests, by the names that plan files use."""

    DELETE_RECORDS = "delete_records"
    DELETE_GROUP = "delete_group"
    ELECT_LEADER = "elect_leader"


# The client's words for "no answer came". The request may have been carried out, or may never have left.
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

# The client refused to send: certain not to have been carried out.
_NOT_SENT: Mapping[int, ResponseAction] = dict.fromkeys(
    (KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_IMPLEMENTED), ResponseAction.FAILED
)

# The client knows no leader right now; the cluster may know one in a moment.
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
        # The leader had already advanced, every time it was tried: the answer waits for the slowest live replica.
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
        # Absent groups answer so, too, to a caller without rights.
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
        # More leaders to change than the broker takes at once: nothing of the request was done.
        KafkaError.POLICY_VIOLATION: ResponseAction.HALVE,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE: ResponseAction.WAITING,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE: ResponseAction.WAITING,
    },
}

# Answers that leave no doubt: the request changed nothing. Not among them: silence, a disk that failed half way, and those of a leader,
# coordinator or controller that lost its office. It may have begun, and answers so while it waits for the others
# (DelayedDeleteRecords.tryComplete, CoordinatorRuntime's failAll of what was appended).
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

# A refusal, and yet the same words come from a leader whose replica was taken away after it had deleted.
_DOUBTFUL = frozenset({(Operation.DELETE_RECORDS, KafkaError.UNKNOWN_TOPIC_OR_PART)})

# What a refusal for want of rights is about: the broker's own words do not say which right.
_RIGHTS: Mapping[int, str] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "DELETE on the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "DELETE on the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ALTER on the cluster",
}

# The client library keeps names that Kafka has changed since.
_KAFKA_NAMES: Mapping[int, str] = {
    KafkaError.NO_ERROR: "NONE",
    KafkaError.UNKNOWN: "UNKNOWN_SERVER_ERROR",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "UNKNOWN_TOPIC_OR_PARTITION",
    KafkaError.NOT_LEADER_FOR_PARTITION: "NOT_LEADER_OR_FOLLOWER",
    KafkaError.TOPIC_EXCEPTION: "INVALID_TOPIC_EXCEPTION",
}


def item_answer(operation: Operation, code: int, text: str = "") -> ItemResult:
    """The answer for one item that got `code` (Kafka's protocol codes, or negative ones of the client library)."""
    known = TABLE[operation].get(code)
    answer = known or (ResponseAction.READ_BACK if code < 0 else ResponseAction.FAILED)
    if (right := _RIGHTS.get(code)) is not None:
        text = (
            f"the right is missing: {right} ({text or name_of(code)}); `reconciler doctor --acls` prints what grants it"
        )
    refused = known in _REFUSALS and (operation, code) not in _DOUBTFUL
    return ItemResult(answer, name_of(code), text, no_effect=code in _NO_EFFECT or refused)


def name_of(code: int) -> str:
    """Kafka's name of a protocol code; `NONE` for 0; the library's own name (`_TIMED_OUT`) for what it made up."""
    known = _KAFKA_NAMES.get(code)
    return known if known is not None else str(KafkaError(code).name())
