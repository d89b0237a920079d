"""One action that a run tries to carry out, and how it ends.

Once a request may have been carried out, no later fact lets the action end as "nothing was done".
"""

from dataclasses import dataclass, replace
from typing import Any

from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from reconciler.operations.error_meanings import Response, ResponseAction
from reconciler.text.escape import NEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An action that this run tries to carry out.

    `intended`: this run has stored its intent. `sends`: requests that went out. `possible`: one of
    them may have been carried out. `confirmed`: the broker said so. `start`: the lowest log start offset
    that was read before a request, the basis of the upper bound. `broker`: the broker that a
    request has to go to, as last read. `last`: the newest response. `reason`: why another try is
    needed. `removed_offsets`: the commits that the request removes, as last read.
    """

    action: Any
    intended: bool = False
    sends: int = 0
    possible: bool = False
    confirmed: bool = False
    start: int | None = None
    broker: int | None = None
    last: Response | None = None
    reason: str = ""
    removed_offsets: tuple[CommittedOffset, ...] | None = None

    def after_response(self, response: Response) -> "Attempt":
        """Return the attempt after one more request; one that was not sent does not count."""
        return replace(
            self,
            sends=self.sends + response.sent,
            possible=self.possible or not response.no_effect,
            confirmed=self.confirmed or (response.answer is ResponseAction.DONE and not response.no_effect),
            last=response,
            reason="",
        )

    def retry_later(self, reason: str) -> "Attempt":
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
        cause, found, step = reason.partition(NEXT)
        return self.outcome(Status.FAILED, f"{cause}: {details}{found}{step}" if details else reason)


StepResult = Outcome | Attempt
"""What one round makes of one action: an end, or another round."""
