"""What each error of each operation asks of the applier: one table, nothing else decides it.

The client library's own `retriable()` says no to everything, so codes are all there is to go by. A code that is not in the table
is a failure if a broker said it, and is read back if the client did. Neither is ever success, nor proof that nothing was done.
"""

from collections.abc import Mapping
from enum import StrEnum

from confluent_kafka import KafkaError

from reconciler.model.ports import Answer, ItemAnswer


class Operation(StrEnum):
    """The three requests, by the names that plan files use."""

    DELETE_RECORDS = "delete_records"
    DELETE_GROUP = "delete_group"
    ELECT_LEADER = "elect_leader"


# The client's words for "no answer came". The request may have been carried out, or may never have left.
_NO_ANSWER: Mapping[int, Answer] = dict.fromkeys(
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
    Answer.READ_BACK,
)

# The client refused to send: certain not to have been carried out.
_NOT_SENT: Mapping[int, Answer] = dict.fromkeys(
    (KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_IMPLEMENTED), Answer.FAILED
)

# The client knows no leader right now; the cluster may know one in a moment.
_NO_LEADER: Mapping[int, Answer] = dict.fromkeys(
    (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError._NOENT, KafkaError._UNKNOWN_BROKER),
    Answer.RETRY,
)

TABLE: Mapping[Operation, Mapping[int, Answer]] = {
    Operation.DELETE_RECORDS: {
        **_NO_ANSWER,
        **_NOT_SENT,
        **_NO_LEADER,
        KafkaError.NO_ERROR: Answer.DONE,
        # The leader had already advanced, every time it was tried: the answer waits for the slowest live replica.
        KafkaError.REQUEST_TIMED_OUT: Answer.READ_BACK,
        KafkaError.LEADER_NOT_AVAILABLE: Answer.RETRY,
        KafkaError.NOT_LEADER_FOR_PARTITION: Answer.RETRY,
        KafkaError.KAFKA_STORAGE_ERROR: Answer.RETRY,
        KafkaError.FENCED_LEADER_EPOCH: Answer.RETRY,
        KafkaError.UNKNOWN_LEADER_EPOCH: Answer.RETRY,
        KafkaError.BROKER_NOT_AVAILABLE: Answer.RETRY,
        KafkaError.REPLICA_NOT_AVAILABLE: Answer.RETRY,
        KafkaError.THROTTLING_QUOTA_EXCEEDED: Answer.RETRY,
        KafkaError.OFFSET_OUT_OF_RANGE: Answer.STALE,
        KafkaError.UNKNOWN_TOPIC_OR_PART: Answer.STALE,
        KafkaError.UNKNOWN_TOPIC_ID: Answer.STALE,
        KafkaError.POLICY_VIOLATION: Answer.FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED: Answer.FAILED,
        KafkaError.TOPIC_EXCEPTION: Answer.FAILED,
    },
    Operation.DELETE_GROUP: {
        **_NO_ANSWER,
        **_NOT_SENT,
        KafkaError.NO_ERROR: Answer.DONE,
        KafkaError.GROUP_ID_NOT_FOUND: Answer.DONE,
        KafkaError.REQUEST_TIMED_OUT: Answer.READ_BACK,
        KafkaError.COORDINATOR_NOT_AVAILABLE: Answer.RETRY,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS: Answer.RETRY,
        KafkaError.NOT_COORDINATOR: Answer.RETRY,
        KafkaError.THROTTLING_QUOTA_EXCEEDED: Answer.RETRY,
        KafkaError.NON_EMPTY_GROUP: Answer.STALE,
        KafkaError.INVALID_GROUP_ID: Answer.FAILED,
        # Absent groups answer so, too, to a caller without rights.
        KafkaError.GROUP_AUTHORIZATION_FAILED: Answer.FAILED,
    },
    Operation.ELECT_LEADER: {
        **_NO_ANSWER,
        **_NOT_SENT,
        **_NO_LEADER,
        KafkaError.NO_ERROR: Answer.DONE,
        KafkaError.ELECTION_NOT_NEEDED: Answer.DONE,
        KafkaError.NOT_CONTROLLER: Answer.RETRY,
        KafkaError.LEADER_NOT_AVAILABLE: Answer.RETRY,
        KafkaError.REQUEST_TIMED_OUT: Answer.RETRY,
        KafkaError.BROKER_NOT_AVAILABLE: Answer.RETRY,
        KafkaError.THROTTLING_QUOTA_EXCEEDED: Answer.RETRY,
        KafkaError.UNKNOWN_TOPIC_OR_PART: Answer.STALE,
        KafkaError.UNKNOWN_TOPIC_ID: Answer.STALE,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: Answer.FAILED,
        # More leaders to change than the broker takes at once: nothing of the request was done.
        KafkaError.POLICY_VIOLATION: Answer.HALVE,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE: Answer.WAITING,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE: Answer.WAITING,
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
_REFUSALS = frozenset({Answer.STALE, Answer.WAITING, Answer.FAILED, Answer.HALVE})

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


def item_answer(operation: Operation, code: int, text: str = "") -> ItemAnswer:
    """The answer for one item that got `code` (Kafka's protocol codes, or negative ones of the client library)."""
    known = TABLE[operation].get(code)
    answer = known or (Answer.READ_BACK if code < 0 else Answer.FAILED)
    if (right := _RIGHTS.get(code)) is not None:
        text = (
            f"the right is missing: {right} ({text or name_of(code)}); `reconciler doctor --acls` prints what grants it"
        )
    refused = known in _REFUSALS and (operation, code) not in _DOUBTFUL
    return ItemAnswer(answer, name_of(code), text, no_effect=code in _NO_EFFECT or refused)


def name_of(code: int) -> str:
    """Kafka's name of a protocol code; `NONE` for 0; the library's own name (`_TIMED_OUT`) for what it made up."""
    known = _KAFKA_NAMES.get(code)
    return known if known is not None else str(KafkaError(code).name())
