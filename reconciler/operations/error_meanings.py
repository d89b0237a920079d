"""Which answer proves what: the meaning of each error of a request, and which prove that nothing happened.

Each operation maps names of errors to what the applier does; the client library's `retriable()` is
always false. An error that no table names is a failure if a broker sent it, and is read back if the
client did. Neither is success, nor proof that the request had no effect.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum, StrEnum
from typing import Literal, NamedTuple

from reconciler.model.ports import ItemResult


class ResponseAction(StrEnum):
    """What the applier does after a response."""

    DONE = "done"
    READ_BACK = "read_back"
    RETRY = "retry"
    STALE = "stale"
    WAITING = "waiting"
    FAILED = "failed"
    HALVE = "halve"
    """The batch was too large and had no effect: send halves."""


class ErrorMeaning(Enum):
    """What the applier does after an error, and whether the error proves "no effect".

    Silence and disk errors prove nothing, nor do the answers of a former leader, coordinator or
    controller. It may have applied the request, and answers so while it waits for its followers
    (DelayedDeleteRecords.tryComplete, CoordinatorRuntime's failAll).
    """

    DONE = ResponseAction.DONE, False
    ALREADY_DONE = ResponseAction.DONE, True
    READ_BACK = ResponseAction.READ_BACK, False
    RETRY = ResponseAction.RETRY, False
    NOT_READY = ResponseAction.RETRY, True
    STALE = ResponseAction.STALE, True
    GONE = ResponseAction.STALE, False
    WAITING = ResponseAction.WAITING, True
    FAILED = ResponseAction.FAILED, False
    REFUSED = ResponseAction.FAILED, True
    HALVE = ResponseAction.HALVE, True


ErrorTable = Mapping[ErrorMeaning, frozenset[str]]
"""Kafka's names of errors by meaning. Names of the client library's errors begin with `_`."""

COMMON_ERRORS: ErrorTable = {
    ErrorMeaning.DONE: frozenset({"NONE"}),
    # No answer: the request may have been carried out, or may never have been sent.
    ErrorMeaning.READ_BACK: frozenset(
        {"_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"}
        | {"_DESTROY", "_DESTROY_BROKER", "_IN_PROGRESS", "NETWORK_EXCEPTION", "UNKNOWN_SERVER_ERROR"}
    ),
    # The client knows no leader, and the cluster may have one in a moment; or a quota delays it.
    ErrorMeaning.NOT_READY: frozenset(
        {"_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "_NOENT", "_UNKNOWN_BROKER", "THROTTLING_QUOTA_EXCEEDED"}
    ),
    # The client refused to send.
    ErrorMeaning.REFUSED: frozenset({"_INVALID_ARG", "_UNSUPPORTED_FEATURE", "_NOT_IMPLEMENTED"}),
}
"""The errors that mean the same for every operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response(ItemResult):
    """The result of one item of a request, and what it means."""

    answer: ResponseAction
    no_effect: bool


class Right(NamedTuple):
    """The right that a request needs: an operation of an ACL, and its resource. `hint`: what follows."""

    operation: str
    resource: Literal["topic", "group", "cluster"]
    hint: str = "; `reconciler doctor --acls` prints the grants"


def interpret(result: ItemResult, errors: ErrorTable, right: Right) -> Response:
    """Return what a result means. The text of an authorization error names the missing right."""
    code, text = result.code, result.text
    meaning = ErrorMeaning.READ_BACK if code.startswith("_") else ErrorMeaning.FAILED
    for table in (COMMON_ERRORS, errors):
        meaning = next((listed for listed, codes in table.items() if code in codes), meaning)
    answer, no_effect = (meaning if result.sent else ErrorMeaning.NOT_READY).value
    if code.endswith("_AUTHORIZATION_FAILED"):
        needed = f"{right.operation} on the {right.resource}{right.hint}"
        text = f"a right is missing ({text or code}): the request needs {needed}"
    of_result = {**asdict(result), "text": text}
    return Response(**of_result, answer=answer, no_effect=no_effect)
