"""What became of each action. Item failures are outcomes, never exceptions."""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.model.action import Action


class Status(StrEnum):
    """APPLIED: sent and proven by reading back. SATISFIED: someone got there first. STALE: the world moved, nothing was done.

    WAITING: right, but not now. BLOCKED: a protection or limit of now. FAILED: the broker said no, or the read-back disagrees.
    NOT_ATTEMPTED: the run ended before its turn, or its intent could not be stored.
    """

    APPLIED = "applied"
    SATISFIED = "satisfied"
    STALE = "stale"
    WAITING = "waiting"
    BLOCKED = "blocked"
    FAILED = "failed"
    NOT_ATTEMPTED = "not_attempted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One action's end. `detail` says why in words; `code` is the broker's error name where there was one.

    `read_back`: what the cluster showed afterwards, as a short text (`log start 98213`, `leader 1`, `absent`); None: not read.
    `sends`: how often the request went out; 0 with STALE, SATISFIED by recheck, NOT_ATTEMPTED. `possible`: one of them may have been
    carried out.
    `removed_max`: upper bound of the records removed by this run; 0 where nothing was sent. `intended`: its intent is in the journal, which the
    outcome has to end there, also where no request followed.
    """

    action: Action
    status: Status
    detail: str
    code: str | None = None
    read_back: str | None = None
    sends: int = 0
    possible: bool = False
    removed_max: int = 0
    intended: bool = False
