"""One action that a run tries to carry out, and what the results of its requests mean.

Each operation maps names of errors to what the applier does; the client library's `retriable()` is
always false. An error that no table names is a failure if a broker sent it, and is read back if the
client did. Neither is success, nor proof that the request had no effect. Once a request may have
been carried out, no later fact lets the action end as "nothing was done".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Generic, Literal, NamedTuple, TypeVar

from reconciler.model.action import Action
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import ItemResult
from reconciler.model.snapshot import CommittedOffset

A = TypeVar("A", bound=Action, covariant=True)


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


@dataclass(frozen=True, slots=True)
class Response:
    """What the result of one item of a request means. Other fields: as in ItemResult."""

    answer: ResponseAction
    code: str
    text: str = ""
    no_effect: bool = False
    sent: bool = True
    low_watermark: int | None = None


class Right(NamedTuple):
    """The right that a request needs: an operation of an ACL, and its resource."""

    operation: str
    resource: Literal["topic", "group", "cluster"]


def interpret(result: ItemResult, errors: ErrorTable, right: Right) -> Response:
    """Return what a result means. The text of an authorization error names the missing right."""
    code, text = result.code, result.text
    meaning = ErrorMeaning.READ_BACK if code.startswith("_") else ErrorMeaning.FAILED
    for table in (COMMON_ERRORS, errors):
        meaning = next((listed for listed, codes in table.items() if code in codes), meaning)
    answer, no_effect = (meaning if result.sent else ErrorMeaning.NOT_READY).value
    if code.endswith("_AUTHORIZATION_FAILED"):
        text = f"a right is missing ({text or code}): the request needs {right.operation} on the {right.resource}; "
        text += "`reconciler doctor --acls` prints the grants"
    return Response(answer, code, text, no_effect, result.sent, result.low_watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Generic[A]):
    """An action that this run tries to carry out.

    `intended`: this run has stored its intent. `sends`: requests that went out. `possible`: one of
    them may have been carried out. `confirmed`: the broker said so. `start`: the lowest log start offset
    that was read before a request, the basis of the upper bound. `broker`: the broker that a
    request has to go to, as last read. `last`: the newest response. `reason`: why another try is
    needed. `removed_offsets`: the commits that the request removes, as last read.
    """

    action: A
    intended: bool = False
    sends: int = 0
    possible: bool = False
    confirmed: bool = False
    start: int | None = None
    broker: int | None = None
    last: Response | None = None
    reason: str = ""
    removed_offsets: tuple[CommittedOffset, ...] | None = None

    def after_response(self, response: Response) -> "Attempt[A]":
        """Return the attempt after one more request; one that was not sent does not count."""
        return replace(
            self,
            sends=self.sends + response.sent,
            possible=self.possible or not response.no_effect,
            confirmed=self.confirmed or (response.answer is ResponseAction.DONE and not response.no_effect),
            last=response,
            reason="",
        )

    def retry_later(self, reason: str) -> "Attempt[A]":
        """Return the attempt for another round, with why this one did not end it."""
        return replace(self, reason=reason)

    def outcome(self, status: Status, detail: str, *, read_back: str | None = None) -> Outcome:
        """End the attempt.

        FAILED replaces "nothing was done" where a request may have been carried out. What was never
        sent cannot have failed.
        """
        if self.possible and status in (Status.STALE, Status.BLOCKED, Status.NOT_ATTEMPTED, Status.WAITING):
            detail = f"sent, and it is not known whether it was carried out; then: {detail}"
            status = Status.FAILED
        elif status is Status.FAILED and not (self.sends or self.possible):
            status = Status.NOT_ATTEMPTED
        return Outcome(
            action=self.action,
            status=status,
            detail=detail,
            code=None if self.last is None else self.last.code,
            read_back=read_back,
            sends=self.sends,
            possible=self.possible,
            removed_max=self.action.records_removed_max(self.start) if self.possible else 0,
            intended=self.intended,
            low_watermark=None if self.last is None else self.last.low_watermark,
            removed_offsets=self.removed_offsets if self.sends else None,
        )

    def give_up(self, reason: str) -> Outcome:
        """End the attempt after the last round, as FAILED if it was sent, with the last answer."""
        answer = f"{self.last.code}: {self.last.text}".rstrip(": ") if self.last is not None else ""
        reason = reason if self.sends else f"not sent, {reason}"
        details = "; ".join(part for part in (self.reason, answer and f"the last answer was {answer}") if part)
        return self.outcome(Status.FAILED, f"{reason}: {details}" if details else reason)


StepResult = Outcome | Attempt[Action]
"""What one round makes of one action: an end, or another round."""
