"""One action on its way: how often it was sent, what the answers leave open, and how it ends.

Not decided here: whether to send (checks) and what an answer means (settle). What no later fact can take back is kept here: once a
request may have been carried out, the action never ends as "nothing was done".
"""

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from reconciler.model.action import Action
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import ItemResult, ResponseAction
from reconciler.operations.delete_records import DeleteRecords

A = TypeVar("A", bound=Action, covariant=True)

NOTHING_DONE = ": nothing was done"
"""How a detail may end that is only true as long as no request may have been carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Generic[A]):
    """`intended`: this run has stored its intent. `sends`: requests that went out. `possible`: one of them may have been carried out. `done`: the
    broker said so.

    `log_start`: the lowest at which the partition was seen to begin before a send, the basis of the upper bound. `last`: the newest
    answer, or why there was none, for the outcome's text. `leader`: the leader last seen.
    """

    action: A
    intended: bool = False
    sends: int = 0
    possible: bool = False
    done: bool = False
    log_start: int | None = None
    leader: int | None = None
    last: ItemResult | None = None
    why: str = ""

    def sent(self, answer: ItemResult) -> "Attempt[A]":
        """After one more request and its answer; one that never left this machine is no request."""
        return replace(
            self,
            sends=self.sends + answer.sent,
            possible=self.possible or not answer.no_effect,
            done=self.done or (answer.answer is ResponseAction.DONE and not answer.no_effect),
            last=answer,
            why="",
        )

    def again(self, why: str) -> "Attempt[A]":
        """Not now, for a reason that another round may mend."""
        return replace(self, why=why)

    def end(self, status: Status, detail: str, *, read_back: str | None = None) -> Outcome:
        """The outcome. STALE and BLOCKED promise that nothing was done, so they cannot follow an answer that leaves it open."""
        if self.possible and status in (Status.STALE, Status.BLOCKED, Status.NOT_ATTEMPTED):
            detail = f"sent, and it is not known whether it was carried out; then: {detail.removesuffix(NOTHING_DONE)}"
            status = Status.FAILED
        return Outcome(
            action=self.action,
            status=status,
            detail=detail,
            code=None if self.last is None else self.last.code,
            read_back=read_back,
            sends=self.sends,
            possible=self.possible,
            removed_max=self._removed_max(),
            intended=self.intended,
        )

    def give_up(self, why: str) -> Outcome:
        """No more rounds."""
        said = f"{self.last.code}: {self.last.text}".rstrip(": ") if self.last is not None else ""
        reasons = "; ".join(part for part in (self.why, said and f"the last answer was {said}") if part)
        return self.end(Status.FAILED, f"{why}: {reasons}" if reasons else why)

    def _removed_max(self) -> int:
        if not isinstance(self.action, DeleteRecords) or not self.possible:
            return 0
        start = (
            self.action.seen.log_start if self.log_start is None else max(self.log_start, self.action.seen.log_start)
        )
        return max(0, self.action.before_offset - start)
